"""A shot's rigid head, solved jointly from its landmarks, seams and pictures.

Seams observed near the head's projected curves move these curves. Solving and searching alternate, from a wide band to
a narrow one. Marks shared between holds determine the head's rotation, so that curves drawn in some holds fit all. H
holds, L landmarks, C seams, D numbers of a spline, M samples of a curve, complex x + iy in the plate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.landmarks.mark_search import Pictures, search_marks
from rotopaint_ai.landmarks.shared_marks import (
    COARSE,
    QUICK,
    Detail,
    Features,
    MarkPicture,
    SharedMarks,
    features,
    shared_marks,
)
from rotopaint_ai.seams.placement import Evidence, SeamLook, Sighting, sight
from rotopaint_ai.shapes.facespace import Complex
from rotopaint_ai.shapes.head_bundle import (
    FIRST_DAMPING,
    PER_SEGMENT,
    Head,
    HeadBuild,
    HeadFacts,
    ObservedCurve,
    ObservedMarks,
    curve_deviations,
    curve_normals,
    curves_by_marks,
    first_head,
    joints_of,
    known_head,
    observe_curves,
)
from rotopaint_ai.shapes.head_descent import damped_step
from rotopaint_ai.shapes.head_marks import NOISE_PX, expected_marks
from rotopaint_ai.shapes.head_poses import HeadPoses, head_poses
from rotopaint_ai.shapes.rigid_head import KnownCurve
from rotopaint_ai.shapes.samples import basis, point_numbers
from rotopaint_ai.sheet import ShapeSpec, Sheet, mirrored_order

Array = NDArray[Any]
LookAtHold = Callable[[int], SeamLook | None]  # picture of a hold by index
Sightings = Sequence[Sighting | None]  # observed curves of the seams of a hold

# Chosen on eight training shots of two characters that no pack had seen and on four rendered shots.
# standard deviation of curves as a share of the face, and zoom, in each search;
LOOKS = ((0.03, 1), (0.012, 1), (0.006, 2))
# six searches, four of them at zoom 2, took twice the time and followed other creases more often
FIRST_STEPS, STEPS = 6, 3  # solver steps before the first search, and after each one
_WIDE, _MIDDLE, _NARROW = LOOKS
# with shared marks: residual at which a mark's weight is halved in each first step; afterwards: MarkUse
FIRST_FAR_PX = (8.0, 8.0, 8.0, 5.0, 5.0, 3.0, 3.0, 2.0, 2.0, 1.5)
SHARP = 0.0015  # share of the face: smallest standard deviation of an observed crease
DIFFUSE = 3.0  # of these: standard deviation from which a reading is a guess, which errs alike along the whole curve
LANDMARKS_APART = 1.4  # factor on landmarks' errors with a known head: they err alike, and all at once where a pose is
# new; chosen on training shots of two characters that the pack had not seen
ALIKE = 4.0  # neighbouring samples that count as one, because their errors are correlated
KNOWN_FACE = 0.005  # share of the face: models trained on the character have smaller expected errors


class MarkUse(NamedTuple):
    """How a solve uses shared marks.

    Standard deviation of a mark in pixels, mostly that of marks which no rigid head carries; the residual at which its
    weight is halved after the first steps; and the searches, which are more because curves converge more slowly where
    marks hold the cameras.
    """

    noise_px: float
    far_px: float
    looks: Sequence[tuple[float, int]]


TAUGHT = MarkUse(NOISE_PX, 0.6, (_WIDE, _MIDDLE, _MIDDLE, _NARROW, _NARROW))  # beside curves that people drew
KNOWN = MarkUse(1.4, 0.6, (_NARROW, _NARROW))  # on a head that a pack knows
NEW = MarkUse(2.0, 1.2, (_WIDE, _MIDDLE, _NARROW, _NARROW))  # on one that is to be found


@dataclass(frozen=True, slots=True, eq=False)
class ShotObservations:
    """Observations of a shot's holds.

    Poses, landmarks off the seams (H, L) with expected errors, seams, the longest side of each face (H,), and which
    seams are hidden (H, C).
    """

    heads: HeadPoses
    points_HL: Complex
    error_px_HL: Array
    known: Sequence[KnownCurve]
    face_px_H: Array
    hidden_HC: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class SolvedHead:
    """A shot's head, and the observations that it was solved from."""

    head: Head
    facts: HeadFacts

    def by_marks(self) -> list[Complex]:
        """Every seam in each hold (H, D), projected by cameras that were fitted without seams."""
        return curves_by_marks(self.head, self.facts, (*FIRST_FAR_PX, TAUGHT.far_px))

    def deviations_px(self) -> Array:
        """Standard deviation of each seam across its direction (H, C). Raises LinAlgError if undefined."""
        return curve_deviations(self.head, self.facts)


def solve_head(
    shot: ShotObservations,
    build: HeadBuild,
    look: LookAtHold,
    evidence: Evidence | None,
    pool: Executor,
    watched: Callable[[Any], Any] = iter,
    shared: SharedMarks | None = None,
    use: MarkUse = TAUGHT,
) -> SolvedHead:
    """Solve a head; `watched` iterates over the holds of each search. Raises LinAlgError if no head fits."""
    shared = shared if shared and shared.count else None
    marks = shot.points_HL, shot.error_px_HL
    head, facts = first_head(shot.heads, *marks, shot.known, build, shared), HeadFacts(*marks, (), build)
    solved = _first_solved(head, facts, shot, shared, use)
    if evidence is None:
        return solved
    return _search(solved, shot, use.looks if shared else LOOKS, look, evidence, pool, watched)


def solve_new_head(
    shot: ShotObservations,
    build: HeadBuild,
    look: LookAtHold,
    evidence: Evidence,
    pool: Executor,
    watched: Callable[[Any], Any] = iter,
) -> SolvedHead:
    """Solve a head of which nobody drew a curve; marks that holds share tie its cameras together. The rest as in
    `solve_head`."""
    shared = _look_for_marks(shot, look, pool, watched, QUICK)
    return solve_head(shot, build, look, evidence, pool, watched, shared, NEW)


def _first_solved(
    head: Head, facts: HeadFacts, shot: ShotObservations, shared: SharedMarks | None, use: MarkUse
) -> SolvedHead:
    """A head after the steps before the first search."""
    size = np.abs(shot.heads.factor_H)
    for far in FIRST_FAR_PX if shared else FIRST_FAR_PX[:FIRST_STEPS]:
        seen = observe_curves(shot.known, size, head.splines())
        facts = replace(facts, seen=seen, shared=ObservedMarks(shared, far, use.noise_px) if shared else None)
        head = damped_step(head, facts)
    last = ObservedMarks(shared, use.far_px, use.noise_px) if shared else None
    return SolvedHead(head, replace(facts, shared=last))


def solve_cameras(
    shot: ShotObservations,
    points: Array,
    motion_L: Array,
    look: LookAtHold,
    evidence: Evidence,
    pool: Executor,
    watched: Callable[[Any], Any] = iter,
) -> SolvedHead:
    """Solve the cameras of a head whose points in space (N, 3) are known: landmarks, then seams in the order of `shot`.

    `motion_L`: how far landmarks move on the head, in face units. The rest as in `solve_head`. Marks that holds share
    tie the cameras together, where a picture of each hold can be read. Teach has no use for it: a head that is solved
    from a shot's corrections asks for fewer keys and does less harm.
    """
    size = np.abs(shot.heads.factor_H)
    marks = shot.points_HL, LANDMARKS_APART * np.hypot(shot.error_px_HL, motion_L * size[:, None])
    ends = np.cumsum([shot.points_HL.shape[1], *(each.splines_HD.shape[1] for each in shot.known)]).tolist()
    curves = [slice(a, b) for a, b in pairwise(ends)]
    shared = _look_for_marks(shot, look, pool, watched, COARSE)
    head, facts = known_head(shot.heads, *marks, points, curves, shared), HeadFacts(*marks, (), HeadBuild(None, (), ()))
    solved = _first_solved(head, facts, shot, shared, KNOWN)
    return _search(solved, shot, KNOWN.looks, look, evidence, pool, watched)


def _look_for_marks(
    shot: ShotObservations, look: LookAtHold, pool: Executor, watched: Callable[[Any], Any], detail: Detail
) -> SharedMarks | None:
    """The marks that all holds share; None where there are none or a picture is missing."""

    def find(hold: int) -> Features | None:
        seen = look(hold)
        return None if seen is None else features(mark_picture(seen, float(shot.face_px_H[hold]), detail), detail)

    found = list(watched(pool.map(find, range(len(shot.points_HL)))))
    there = [each for each in found if each is not None]
    if len(there) < len(found):
        return None
    faces = shot.heads.faces(shot.points_HL)
    shared = shared_marks(there, shot.points_HL, faces, shot.face_px_H, detail, pool.map)
    return shared if shared.count else None


def _search(
    solved: SolvedHead,
    shot: ShotObservations,
    looks: Sequence[tuple[float, int]],
    look: LookAtHold,
    evidence: Evidence,
    pool: Executor,
    watched: Callable[[Any], Any],
) -> SolvedHead:
    """A head after searches of its seams in all pictures, with a few steps after each."""
    head, facts, size = solved.head, solved.facts, np.abs(shot.heads.factor_H)
    for spread, zoom in looks:
        curves = head.splines()
        ask = partial(_sighted, shot, curves, look, evidence, (spread, zoom if zoom in evidence.zooms else 1))
        found = _seen_curves(shot, curves, list(watched(pool.map(ask, range(len(shot.points_HL))))))
        facts = replace(facts, seen=[*observe_curves(shot.known, size, curves), *found])
        head = replace(head, damping=FIRST_DAMPING)
        for _ in range(STEPS):
            head = damped_step(head, facts)
    return SolvedHead(head, facts)


def know_character(error_px_HL: Array, face_px_H: Array) -> bool:
    """Whether the models were trained on this character, judging by landmarks' expected errors (NaN: hidden) and face
    sizes per hold.

    Expected errors are 0.5-1.3 % of the face with the shipped pack and 0.3-0.4 % with a pack of five minutes, whose own
    curves are nearly as accurate as the head's.
    """
    return bool(np.nanmedian(error_px_HL / face_px_H[:, None]) <= KNOWN_FACE)


def mark_picture(seen: SeamLook, face_px: float, detail: Detail) -> MarkPicture:
    """The picture in which marks are searched: the crop of a look."""
    half, height, width = seen.crop.side / 2, *seen.grey.shape
    left, top = (
        int(max(0, (at - half - corner) * seen.scale)) for at, corner in ((seen.crop.x, seen.x), (seen.crop.y, seen.y))
    )
    side = int(np.ceil(2 * half * seen.scale))
    grey = seen.grey[min(top, height - 1) : top + side, min(left, width - 1) : left + side]
    return MarkPicture.of(
        grey, complex(seen.x + left / seen.scale, seen.y + top / seen.scale), seen.scale, face_px, detail
    )


def confirm_marks(
    solved: SolvedHead, marks: SharedMarks, pictures: Pictures, watched: Callable[[Iterable[int]], Iterable[int]] = iter
) -> SharedMarks:
    """Marks with observations in all holds where the picture confirms the head's prediction.

    `watched` iterates over the holds during the search.
    """
    points = solved.facts.points_HL
    expected = expected_marks(solved.head.cameras, solved.head.marks)
    return search_marks(marks, expected, head_poses(points).looks_apart(points), pictures, watched)


def open_seams(sheet: Sheet) -> list[ShapeSpec]:
    """The seams that the head is solved from."""
    return [spec for spec in sheet.shapes if spec.role == "seam" and not spec.closed]


def names_off_seams(specs: Sequence[ShapeSpec], sheet: Sheet) -> list[str]:
    """Names of the landmarks that lie on none of these seams, in the sheet's order."""
    on_seams = {name for spec in specs for name in spec.on_landmarks.values()}
    return [name for name in sheet.landmark_names if name not in on_seams]


def build_of(specs: Sequence[ShapeSpec], sheet: Sheet, shot: ShotObservations) -> HeadBuild:
    """The face structure of a sheet, with the joints that its seams show in this shot."""
    joints = joints_of([each.splines_HD for each in shot.known], np.abs(shot.heads.factor_H))
    names, mirror = names_off_seams(specs, sheet), _mirror_names(sheet)
    if not mirror or any(mirror[name] not in names for name in names) or all(mirror[name] == name for name in names):
        return HeadBuild(None, (), joints)
    return HeadBuild(np.array([names.index(mirror[name]) for name in names]), mirror_pairs(specs, sheet), joints)


def _mirror_names(sheet: Sheet) -> dict[str, str]:
    """Each landmark's mirror partner; empty on a sheet without them."""
    order = mirrored_order(sheet)
    return {} if order is None else dict(zip(sheet.landmark_names, (sheet.landmark_names[k] for k in order)))


def mirror_pairs(specs: Sequence[ShapeSpec], sheet: Sheet) -> tuple[tuple[int, int, bool], ...]:
    """Pairs of seams on landmarks that mirror each other, and whether the second one runs in reverse; none on a sheet
    without mirror partners."""
    mirror = _mirror_names(sheet)
    if not mirror:
        return ()
    pairs = []
    for a, one in enumerate(specs):
        image = {point: mirror[name] for point, name in one.on_landmarks.items()}
        back = {one.n_points - 1 - point: name for point, name in image.items()}
        for b, other in enumerate(specs[a:], a):
            if image and one.n_points == other.n_points and dict(other.on_landmarks) in (image, back):
                pairs.append((a, b, dict(other.on_landmarks) != image))
    return tuple(pairs)


def _sighted(
    shot: ShotObservations,
    curves: Sequence[Complex],
    look: LookAtHold,
    evidence: Evidence,
    how: tuple[float, int],
    hold: int,
) -> Sightings:
    """Observations of seams near the head's projected curves in a hold's picture; None for hidden and hand-drawn
    seams."""
    none: list[Sighting | None] = [None] * len(curves)
    asked = [k for k, each in enumerate(shot.known) if not (each.exact_H[hold] or shot.hidden_HC[hold, k])]
    seen = look(hold) if asked else None
    if seen is None:
        return none
    face_px, (spread, zoom) = float(shot.face_px_H[hold]), how
    found = sight([point_numbers(curves[k][hold]) for k in asked], seen, face_px, evidence, spread * face_px, zoom)
    for k, each in zip(asked, found):
        none[k] = each
    return none


def _seen_curves(
    shot: ShotObservations, curves: Sequence[Complex], found: Sequence[Sightings]
) -> Iterable[ObservedCurve]:
    for k, splines in enumerate(curves):
        weights = basis(splines.shape[1] // 3, False, PER_SEGMENT)
        at = splines @ weights.T
        normal, number = curve_normals(at), np.arange(len(weights)) / PER_SEGMENT
        rows = [_at_places(each[k], number, SHARP * face) for each, face in zip(found, shot.face_px_H.tolist())]
        move, across, far = (np.array(each) for each in zip(*rows))
        yield ObservedCurve(k, weights, at + normal * move, normal, across, far)


def _at_places(found: Sighting | None, number: Array, sharp_px: float) -> tuple[Array, Array, Array]:
    """Offsets of a curve's samples (M,) in pixels, their weights, and the residual above which each is an outlier."""
    if found is None:
        return np.zeros(len(number)), np.zeros(len(number)), np.ones(len(number))
    move, deviation, seen = (
        np.interp(number, found.at, each) for each in (found.offset_px, found.deviation_px, found.seen)
    )
    far = np.hypot(deviation, sharp_px)
    alike = ALIKE * (1 + (far / (DIFFUSE * sharp_px)) ** 2)
    return move, seen / far**2 * len(found.at) / len(number) / alike, far
