"""Seams by the whole shot: one rigid head is solved from all holds, and each seam is searched near its projection.

A hold alone may mistake a wrinkle, a silhouette or the rim of an eye for its seam. A seam is cut into a print, so all
holds show the same curves in space: seams found in most holds predict the others (`head_solve.py`). A pack that was
trained on the character brings these curves along (`known_head.py`); then no seam stays as predicted. People's edits
are not used here; `carried_corrections` carries them over.

H holds, L landmarks, D numbers of a spline, complex x + iy in the plate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.crops import crop_around
from rotopaint_ai.errors import PlateError
from rotopaint_ai.frames import summarise
from rotopaint_ai.jobs import Cancel, Sink, notice
from rotopaint_ai.pipeline.executor import Steps, make_progress
from rotopaint_ai.pipeline.face_tracker import DIGITS, STILL, LazyRgb, crop_area, look_near, rounded_rows
from rotopaint_ai.pipeline.head_solve import (
    KNOWN,
    NEW,
    ShotObservations,
    SolvedHead,
    build_of,
    know_character,
    names_off_seams,
    open_seams,
    solve_cameras,
    solve_new_head,
)
from rotopaint_ai.pipeline.known_head import INFERRED
from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.process_frame import TrackedFrame
from rotopaint_ai.pipeline.record_store import FrameRecord, PointRow
from rotopaint_ai.pipeline.seam_ends import CurveInHold, read_ends, with_agreed_ends
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.seams.placement import PlacedSeam, Seam, SeamLook, place, unseen_third
from rotopaint_ai.shapes.facespace import TOO_FEW, Complex, align_faces
from rotopaint_ai.shapes.head_poses import head_poses
from rotopaint_ai.shapes.rigid_head import KnownCurve
from rotopaint_ai.shapes.samples import open_curve_distance, point_numbers, spline_points
from rotopaint_ai.sheet import ShapeSpec, Sheet

Array = NDArray[Any]
T = TypeVar("T")

N_SEARCHES = len(NEW.looks) + 3  # of each hold: for marks, on the head, for its ends, and once more near it
N_KNOWN = len(KNOWN.looks) + 2  # the same on a known head, whose ends are known
STRETCH = 160  # holds solved together: no shot takes more memory than that
FEWEST = 4  # holds that can outvote one
# Chosen on eight training shots of two characters that no pack had seen and on four shots of the stage.
NEAR = 0.003  # share of the face: final deviation of a seam from the head's curve
OUTLIER = 0.03  # share of the head's size: a curve further off is an outlier, if the models know the character
LEAST_PX = 0.4  # least deviation of a hold's own curve
STRANGE = 0.05  # share of the head's size: seams further from a known head are another character's
# Factors on a known head's standard deviation and on the doubt of what the picture shows near it: on two held-out
# training shots they rank frames by their worst seam at 0.67 and 0.76, the second alone at 0.43 and 0.39.
UNSURE, DOUBTED = 1.3, 0.35
NEW_UNSURE = 1.5  # factor on a new head's standard deviation, because observations are not independent
UNKNOWN = 0.5  # share of the head's size: deviation of a hidden curve

Shapes = Mapping[str, Sequence[PointRow]]


@dataclass(frozen=True, slots=True, eq=False)
class _Hold:
    """An exposure as tracked alone.

    Its record, the sheet's landmarks (L,) with expected errors, the longest side of the face; each seam's spline and
    expected error, and which seams are hidden.
    """

    record: FrameRecord
    points_L: Complex
    error_px_L: Array
    face_px: float
    splines: Mapping[str, Complex]
    noise_px: Mapping[str, float]
    hidden: frozenset[str]


@dataclass(slots=True, eq=False)
class ShotSeams:
    """Tracked frames with their seams at the positions from the whole shot; can be iterated several times."""

    records: Iterable[FrameRecord]
    sheet: Sheet
    placed: dict[int, dict[str, PlacedSeam]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[FrameRecord]:
        for record in self.records:
            found = self.placed.get(record.exposure) if record.landmarks else None
            yield with_placed(record, found, self.sheet) if found else record


def with_shot_seams(plan: Plan, records: Iterable[FrameRecord], sink: Sink, cancel: Cancel) -> ShotSeams:
    """Tracked frames with the open seams of each stretch solved together; `records` is iterated twice.

    Raises CancelledError.
    """
    made = ShotSeams(records, plan.pack.sheet)
    known = _known_head(plan)
    specs = movable_seams(plan) if known is None else known.specs
    if specs:
        holds = [hold_of(record, specs) for record in records if record.hold is None and record.landmarks]
        holds = [hold for hold in holds if _says_enough(hold, specs, plan.pack.sheet)]
        progress = Steps(make_progress("seams", sink, cancel), (N_SEARCHES if known is None else N_KNOWN) * len(holds))
        for stretch in stretches(sorted(holds, key=lambda hold: hold.record.frame), FEWEST if known is None else 1):
            made.placed |= _solve_seams(plan, stretch, specs, known, progress, sink)
        progress.finish()
    return made


class _SeamsInSpace(NamedTuple):
    """What a pack knows of a character's head: the seams, points in space (N, 3), and how far landmarks move (L,)."""

    specs: list[ShapeSpec]
    points: Array
    motion_L: Array


def _known_head(plan: Plan) -> _SeamsInSpace | None:
    """The head of the plan's pack; None where the pack knows none or nothing looks for seams."""
    if plan.head is None or plan.models.find_seams is None:
        return None
    specs = open_seams(plan.pack.sheet)
    found = plan.head.of_sheet(specs, plan.pack.sheet)
    return None if found is None else _SeamsInSpace(specs, *found)


def movable_seams(plan: Plan) -> list[ShapeSpec]:
    """Open seams that the pack's network may place."""
    if plan.models.find_seams is None:
        return []
    still = frozenset(plan.pack.card.get(STILL, ()))
    return [spec for spec in open_seams(plan.pack.sheet) if spec.name not in still]


def stretches(holds: Sequence[T], fewest: int = FEWEST) -> Iterator[Sequence[T]]:
    """The shot's holds divided into parts of about equal length; parts with fewer than `fewest` holds are left out."""
    n = -(-len(holds) // STRETCH)
    for part in np.array_split(np.arange(len(holds)), max(n, 1)):
        if len(part) >= fewest:
            yield [holds[k] for k in part.tolist()]


# --- what each hold says ----------------------------------------------------------------------------------------------


def hold_of(record: FrameRecord, specs: Sequence[ShapeSpec]) -> _Hold:
    """A tracked exposure in the form that the head solver needs."""
    rows = np.array([(np.nan,) * 3 if row is None else row for row in record.landmarks or ()], np.float64)
    seen = rows[np.isfinite(rows[:, 0]), :2]
    names = [spec.name for spec in specs]
    return _Hold(
        record.light(),
        rows[:, 0] + 1j * rows[:, 1],
        rows[:, 2],
        crop_around(seen, margin=1.0).side,
        {name: spline_points(np.array(record.shapes[name], np.float64)) for name in names},
        {name: record.errors.get(name, np.nan) for name in names},
        frozenset(record.hidden),
    )


def _says_enough(hold: _Hold, specs: Sequence[ShapeSpec], sheet: Sheet) -> bool:
    is_known = (np.isfinite(hold.points_L) & np.isfinite(hold.error_px_L))[_rows_off(specs, sheet)]
    return bool(is_known.sum() >= TOO_FEW) and all(np.isfinite(each).all() for each in hold.splines.values())


def look_at(plan: Plan, record: FrameRecord) -> SeamLook | None:
    """A look at a tracked exposure: the one that was kept, or the frame is read again.

    None where the frame cannot be read; painting then reports that.
    """
    kept = plan.looks.look_up(record.frame)
    if kept is not None:
        return kept
    crop = TrackedFrame.of(record).crop
    area = crop_area(crop)
    try:
        read = plan.kept.look_up(record.frame, area) or plan.plate.read(record.frame, keep_native=False, near=area)
    except PlateError:
        return None
    seen = look_near(LazyRgb(read), read.origin, crop, to_display, plan.models.find_seams)
    if seen is not None:
        plan.looks.keep(record.frame, seen)
    return seen


def with_placed(record: FrameRecord, placed: Mapping[str, PlacedSeam], sheet: Sheet) -> FrameRecord:
    """A frame with new positions of some seams, and with their landmarks moved along."""
    new = {name: rounded_rows(each.points) for name, each in placed.items()}
    errors = {name: round(each.expected_error_px, DIGITS) for name, each in placed.items()}
    specs = [spec for spec in sheet.shapes if spec.name in new]
    marks = _marks_along(record.landmarks or (), specs, record.shapes, new, sheet)
    unseen = {**record.unseen, **{name: unseen_third(each) for name, each in placed.items()}}
    return replace(
        record,
        shapes={**record.shapes, **new},
        errors={**record.errors, **errors},
        landmarks=marks,
        unseen={name: third for name, third in unseen.items() if third},
    )


def _marks_along(
    marks: Sequence[PointRow | None], specs: Iterable[ShapeSpec], before: Shapes, after: Shapes, sheet: Sheet
) -> list[PointRow | None]:
    """Landmarks, of which those that sit on the given shapes are moved with the shapes' points."""
    rows = list(marks)
    for spec in specs:
        for point, name in spec.on_landmarks.items():
            k = sheet.landmark_row(name)
            if (row := rows[k]) is not None:
                to, of = after[spec.name][point], before[spec.name][point]
                rows[k] = [*(round(row[axis] + to[axis] - of[axis], DIGITS) for axis in (0, 1)), row[2]]
    return rows


# --- the shot ---------------------------------------------------------------------------------------------------------


def _solve_seams(
    plan: Plan,
    holds: Sequence[_Hold],
    specs: Sequence[ShapeSpec],
    known: _SeamsInSpace | None,
    progress: Steps,
    sink: Sink,
) -> dict[int, dict[str, PlacedSeam]]:
    """By first frame of a hold, its seams that were moved to the stretch's solution; empty where no head fits the
    stretch."""
    found = None if known is None else _on_known_head(plan, holds, known, progress)
    if found is not None:
        return found
    if known is not None:  # another character's head: as without one
        specs = movable_seams(plan)
        if not specs or len(holds) < FEWEST:
            return {}
        progress.total += N_SEARCHES * len(holds)
    try:
        shot = _observe_holds(holds, specs, plan.pack.sheet)
        solve = partial(solve_new_head, shot, build_of(specs, plan.pack.sheet, shot))
        deviations, curves, placed = _place_on_head(plan, holds, specs, solve, progress)
    except np.linalg.LinAlgError:
        where = summarise([hold.record.frame for hold in holds])
        text = f"seams at {where}: no head fits all frames, so that each keeps its own; look them over"
        sink(notice(text, is_warning=True))
        return {}
    far = OUTLIER if know_character(shot.error_px_HL, shot.face_px_H) else 0.0
    sizes = (far * abs(shot.heads.factor_H)).tolist()
    return {
        hold.record.frame: {
            name: _as_sure_as_head(new, off[name])
            for name, new in found.items()
            if _gives_way(hold, name, on_head, size)
        }
        for hold, found, on_head, off, size in zip(holds, placed, curves, deviations, sizes)
    }


def _on_known_head(
    plan: Plan, holds: Sequence[_Hold], known: _SeamsInSpace, progress: Steps
) -> dict[int, dict[str, PlacedSeam]] | None:
    """By first frame of a hold, its seams where a known head has them; None where it is another character's."""
    try:
        shot = _observe_holds(holds, known.specs, plan.pack.sheet, is_rigid=True)
        solve = partial(solve_cameras, shot, known.points, known.motion_L)
        deviations, curves, placed = _place_on_head(plan, holds, known.specs, solve, progress, is_known=True)
    except np.linalg.LinAlgError:
        return None
    if not _is_of(holds, curves, abs(shot.heads.factor_H)):
        return None
    return {
        hold.record.frame: {name: _as_on_head(each, on_head[name], off[name]) for name, each in found.items()}
        for hold, found, on_head, off in zip(holds, placed, curves, deviations)
    }


def _place_on_head(
    plan: Plan,
    holds: Sequence[_Hold],
    specs: Sequence[ShapeSpec],
    solve: Callable[..., SolvedHead],
    progress: Steps,
    *,
    is_known: bool = False,
) -> tuple[list[dict[str, float]], list[dict[str, Complex]], list[dict[str, PlacedSeam]]]:
    """Each hold's seams on the head that `solve` finds with the pictures: their standard deviations in pixels, as the
    head projects them, and as the picture shows them nearby.

    `is_known`: the pack knows where the head's seams end. Raises LinAlgError if no head fits.
    """
    assert plan.models.find_seams is not None
    names = [spec.name for spec in specs]
    with ThreadPoolExecutor(plan.threads) as pool:
        try:
            look = lambda hold: look_at(plan, holds[hold].record)  # noqa: E731
            found = solve(look, plan.models.find_seams, pool, progress.over)
            deviations = [dict(zip(names, each)) for each in found.deviations_px().tolist()]
            curves = [dict(zip(names, each)) for each in zip(*found.head.splines())]
            if not is_known:
                read = list(progress.over(pool.map(partial(_read_ends, plan), holds, curves)))
                curves = with_agreed_ends(found.head, names, found.facts.build, curves, read)
            return deviations, curves, list(progress.over(pool.map(partial(_place_near_head, plan), holds, curves)))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _observe_holds(
    holds: Sequence[_Hold], specs: Sequence[ShapeSpec], sheet: Sheet, *, is_rigid: bool = False
) -> ShotObservations:
    """The observations of each hold alone; hidden landmarks are inferred, for a known head at hardly any weight."""
    off, names = _rows_off(specs, sheet), [spec.name for spec in specs]
    _, _, points = align_faces(np.array([hold.points_L[off] for hold in holds]))
    error = np.array([hold.error_px_L[off] for hold in holds])
    heads = head_poses(points)
    unknown = INFERRED * abs(heads.factor_H)[:, None] if is_rigid else 2 * np.nanmax(error)
    error = np.where(np.isfinite(error), error, unknown)
    known = _by_length([_known_curve(name, holds, abs(heads.factor_H)) for name in names])
    hidden = np.array([[name in hold.hidden for name in names] for hold in holds])
    return ShotObservations(heads, points, error, known, np.array([hold.face_px for hold in holds]), hidden)


def _rows_off(specs: Sequence[ShapeSpec], sheet: Sheet) -> list[int]:
    return [sheet.landmark_row(name) for name in names_off_seams(specs, sheet)]


def _gives_way(hold: _Hold, name: str, on_head: Mapping[str, Complex], far_px: float) -> bool:
    return open_curve_distance(hold.splines[name], on_head[name]) > far_px


def _known_curve(name: str, holds: Sequence[_Hold], size_H: Array) -> KnownCurve:
    """The observations of a seam in all holds."""
    noise = [
        UNKNOWN * size if name in hold.hidden or not np.isfinite(hold.noise_px[name]) else hold.noise_px[name]
        for hold, size in zip(holds, size_H.tolist())
    ]
    splines = np.array([hold.splines[name] for hold in holds])
    return KnownCurve.of(splines, np.maximum(noise, LEAST_PX), np.zeros(len(holds), bool), splines)


def _by_length(known: Sequence[KnownCurve]) -> list[KnownCurve]:
    """Curves with more noise the shorter they are: a short piece of a crease resembles many others."""
    lengths = [float(np.median(abs(np.diff(_control_points(each), axis=1)).sum(axis=1))) for each in known]
    return [
        replace(each, noise_px_H=each.noise_px_H * max(lengths) / max(length, 1e-6))
        for each, length in zip(known, lengths)
    ]


def _control_points(known: KnownCurve) -> Complex:
    return known.splines_HD[:, : known.splines_HD.shape[1] // 3]


def _place_near_head(plan: Plan, hold: _Hold, on_head: Mapping[str, Complex]) -> dict[str, PlacedSeam]:
    """A hold's visible seams as its picture shows them near the head's projection.

    The distance between picture and head counts as expected error, too: it names the worst frame among the truly worst
    tenth in 7 shots of 20, the picture's error alone in 4.
    """
    assert plan.models.find_seams is not None
    names = [name for name in on_head if name not in hold.hidden]
    seen = look_at(plan, hold.record) if names else None
    if seen is None:
        return {}
    near = NEAR * hold.face_px
    seams = [Seam(point_numbers(on_head[name]), hold.record.widths.get(name, 0.0), near) for name in names]
    found = place(seams, seen, hold.face_px, plan.models.find_seams, is_near=True)
    return {name: _less_sure(each, on_head[name]) for name, each in zip(names, found)}


def _read_ends(plan: Plan, hold: _Hold, on_head: Mapping[str, Complex]) -> dict[str, CurveInHold]:
    assert plan.models.find_seams is not None
    visible = {name: each for name, each in on_head.items() if name not in hold.hidden}
    return read_ends(visible, look_at(plan, hold.record), hold.face_px, plan.models.find_seams)


def _is_of(holds: Sequence[_Hold], curves: Sequence[Mapping[str, Complex]], size_H: Array) -> bool:
    """Whether a known head is this character's: most seams lie near the place where it has them."""
    rows = zip(holds, curves, size_H.tolist())
    apart = [
        open_curve_distance(hold.splines[name], each) / size for hold, at, size in rows for name, each in at.items()
    ]
    return float(np.median(apart)) <= STRANGE


def _as_on_head(found: PlacedSeam, on_head: Complex, deviation_px: float) -> PlacedSeam:
    """A seam where a known head has it, which is closer to the truth than what the picture shows nearby."""
    error = float(np.hypot(UNSURE * deviation_px, DOUBTED * found.expected_error_px))
    return replace(found, points=point_numbers(on_head), expected_error_px=error)


def _as_sure_as_head(found: PlacedSeam, deviation_px: float) -> PlacedSeam:
    """A seam near a new head's curve: the error of that curve counts, too, where the picture hardly shows the seam."""
    return replace(found, expected_error_px=float(np.hypot(found.expected_error_px, NEW_UNSURE * deviation_px)))


def _less_sure(found: PlacedSeam, on_head: Complex) -> PlacedSeam:
    apart = open_curve_distance(spline_points(found.points), on_head)
    return replace(found, expected_error_px=float(np.hypot(found.expected_error_px, apart)))
