"""Shapes of all frames, ready to be brought into step: with their mirror images, and the landmarks they hang on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.sheet import Role
from rotopaint_ai.training.mining import symmetry
from rotopaint_ai.training.mining.faces import Faces, place
from rotopaint_ai.training.mining.frontal import frontal_places
from rotopaint_ai.training.mining.join import Row
from rotopaint_ai.training.mining.outline import Array, Outlines, outlines
from rotopaint_ai.training.mining.register import Registration, Rows, register
from rotopaint_ai.training.mining.tracks import Twist, tracks

ON_CURVE = 0.006  # face units: a landmark this near to a shape in half of the frames lies on it
_ON_OWN = 0.012  # the same for one that bears the shape's name
_SPREAD = 2.2  # the distance in 9 of 10 frames may be this many times that
_REACH = 0.03  # face units: further from the curve a landmark is not where the shape is


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape's raw curves in every frame that has it.

    `rows`: places of those frames in the whole; `raw` in the tracks' order; `face_FMC`: the samples in face space;
    `width_px`, `feather_px`: per row, NaN where no width is known.
    """

    name: str
    closed: bool
    role: Role
    rows: Rows
    raw: tuple[Array, ...]
    groups: Rows
    twists: tuple[Twist, ...]
    curves: Outlines
    face_FMC: Array
    width_px: Array
    feather_px: float

    @property
    def most_points(self) -> int:
        """Control points that the artists themselves took, at most."""
        return max(len(points) for points in self.raw)


@dataclass(frozen=True, slots=True)
class Member:
    """A shape's part in a family; `mirrored`: its curves are turned over to match the others. `anchors`: landmarks on
    the shape by name, each with its share of the mean."""

    shape: Shape
    mirrored: bool
    registration: Registration
    anchors: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Family:
    """Shapes brought into step together: one alone, two that mirror each other, or one with its own mirror image."""

    members: tuple[Member, ...]

    @property
    def own_mirror(self) -> bool:
        """Whether the second member is the first one's own mirror image."""
        return len(self.members) > 1 and self.members[0].shape is self.members[1].shape


def find_faces(rows: Sequence[Row], landmark_names: Sequence[str]) -> tuple[Faces, Array]:
    """The face in each frame, from landmarks and the middles of shapes; and the landmarks [F, L, 3], NaN unknown."""
    marks = np.full((len(rows), len(landmark_names), 3), np.nan)
    shape_names = sorted({name for row in rows for name in row.truth.shapes})
    middles = np.full((len(rows), len(shape_names), 2), np.nan)
    extent = np.zeros(len(rows))
    for at, row in enumerate(rows):
        for column, name in enumerate(landmark_names):
            if name in row.truth.landmarks:
                marks[at, column] = row.truth.landmarks[name]
        clouds = [marks[at, :, :2][np.isfinite(marks[at, :, 0])]]
        for column, name in enumerate(shape_names):
            if name in row.truth.shapes:
                shape = row.truth.shapes[name]
                samples = outlines([shape.points], shape.closed, n_samples=64).samples_FMC[0]
                middles[at, column] = samples.mean(axis=0)
                clouds.append(samples)
        extent[at] = np.ptp(np.concatenate(clouds), axis=0).max()
    features = np.concatenate((marks[..., :2], middles), axis=1)
    names = [f"landmark {name}" for name in landmark_names] + [f"shape {name}" for name in shape_names]
    pairs = [(names.index(one), names.index(two)) for one, two in symmetry.name_pairs(names)]
    return place(features, pairs, extent=extent), marks


def collect(rows: Sequence[Row], faces: Faces, shots: Rows) -> tuple[Shape, ...]:
    """Every shape with its raw curves. Raises DocumentError where a shape is open in one place and closed in
    another."""
    names = list(dict.fromkeys(name for row in rows for name in row.truth.shapes))
    return tuple(_collected(name, rows, faces, shots) for name in names)


def _collected(name: str, rows: Sequence[Row], faces: Faces, shots: Rows) -> Shape:
    has = np.array([at for at, row in enumerate(rows) if name in row.truth.shapes], dtype=np.intp)
    own = [rows[at].truth.shapes[name] for at in has]
    closed = own[0].closed
    for at, shape in zip(has, own):
        if shape.closed != closed:
            raise DocumentError(
                f"shape '{name}': {'closed' if closed else 'open'} in {rows[has[0]].shot}, "
                f"{'open' if closed else 'closed'} in {rows[at].shot}; rename one of them"
            )
    tracked = tracks([shape.points for shape in own], closed, shots[has], faces.turn[has])
    curves = outlines(tracked.raw, closed, groups=tracked.groups)
    return Shape(
        name=name,
        closed=closed,
        role="seam" if any(shape.role == "seam" for shape in own) else "matte",
        rows=has,
        raw=tracked.raw,
        groups=tracked.groups,
        twists=tracked.twists,
        curves=curves,
        face_FMC=faces.to_face(curves.samples_FMC, has),
        width_px=np.array([np.nan if shape.width_px is None else shape.width_px for shape in own]),
        feather_px=float(np.median([shape.feather_px for shape in own])),
    )


def landmarks_on(shape: Shape, names: Sequence[str], marks_face_FLC: Array, others: Sequence[str]) -> list[str]:
    """Landmarks that lie on a shape; one that bears another shape's name has to lie on it closely."""
    found = []
    rows = shape.rows[:: max(1, len(shape.rows) // 60)]
    curves = shape.face_FMC[:: max(1, len(shape.rows) // 60)]
    for column, name in enumerate(names):
        points = marks_face_FLC[rows, column]
        known = np.isfinite(points[:, 0])
        if known.sum() < max(1, 0.5 * len(rows)):
            continue
        away = np.linalg.norm(curves[known] - points[known, None], axis=2).min(axis=1)
        own = _bears(name, shape.name)
        limit = _ON_OWN if own else ON_CURVE / 3 if any(_bears(name, other) for other in others) else ON_CURVE
        if np.median(away) <= limit and np.quantile(away, 0.9) <= _SPREAD * limit:
            found.append(name)
    return found


def _bears(landmark: str, shape: str) -> bool:
    return landmark == shape or landmark.startswith((shape + "_", shape + ".", shape + "-"))


def bring_into_step(
    shapes: Sequence[Shape], names: Sequence[str], marks: Array, faces: Faces, *, fixed: Mapping[str, str] | None = None
) -> tuple[Family, ...]:
    """Register every shape, pairs and self-mirrored ones together with their mirror images.

    `marks`: [F, L, 3] landmarks in plate space; `fixed`: mirror partners of landmarks that a sheet names.
    """
    everywhere = np.arange(len(faces.turn))
    places = faces.to_face(marks[..., :2], everywhere)
    with np.errstate(all="ignore"):
        known = np.isfinite(places).all(axis=2).any(axis=0)
        mean = np.full((len(names), 2), np.nan)
        mean[known] = np.nanmedian(places[:, known], axis=0)
    partner = symmetry.partners(names, frontal_places(places, mean, names), fixed=fixed)
    shape_names = [shape.name for shape in shapes]
    middles = np.array([np.median(shape.face_FMC.mean(axis=1), axis=0) for shape in shapes]).reshape(-1, 2)
    twins = symmetry.partners(shape_names, np.where(np.abs(middles[:, :1]) > 0.06, middles, np.nan))
    done: set[str] = set()
    families = []
    for shape in shapes:
        if shape.name in done:
            continue
        twin = shapes[shape_names.index(twins[shape.name])]
        if twin is not shape and twin.closed == shape.closed:
            parts = [(shape, False), (twin, True)]
        else:
            twin = shape
            parts = [(shape, False), (shape, True)]
            parts = parts if symmetry.is_own_mirror(shape.face_FMC, shape.closed) else parts[:1]
        others = [name for name in shape_names if name not in (shape.name, twin.name)]
        on = landmarks_on(shape, names, places, others)
        if twin is not shape:
            theirs = landmarks_on(twin, names, places, others)
            on = [name for name in on if partner[name] in theirs]
        elif len(parts) > 1 and on:
            parts = parts[:1]  # landmarks say more than symmetry does
        done |= {shape.name, twin.name}
        families.append(_family(parts, on, partner, names, places))
    return tuple(families)


def _family(
    parts: Sequence[tuple[Shape, bool]],
    on: Sequence[str],
    partner: Mapping[str, str],
    names: Sequence[str],
    places: Array,
) -> Family:
    turn_over = np.array([-1.0, 1.0])
    curves = Outlines(
        np.concatenate([shape.curves.samples_FMC for shape, _ in parts]),
        np.concatenate([shape.curves.lengths for shape, _ in parts]),
        parts[0][0].closed,
    )
    face = np.concatenate([shape.face_FMC * (turn_over if mirrored else 1.0) for shape, mirrored in parts])
    columns = [[names.index(partner[name] if mirrored else name) for name in on] for _, mirrored in parts]
    anchors = np.concatenate(
        [
            places[shape.rows][:, own] * (turn_over if mirrored else 1.0)
            for (shape, mirrored), own in zip(parts, columns)
        ]
    )
    groups = np.concatenate([shape.groups + 100_000 * at for at, (shape, _) in enumerate(parts)])
    whole = register(curves, face, anchors, groups=groups, reach=_REACH)
    members, start = [], 0
    for (shape, mirrored), own in zip(parts, columns):
        end = start + len(shape.rows)
        anchors_of = {names[column]: float(share) for column, share in zip(own, whole.anchor_shares) if share == share}
        members.append(Member(shape, mirrored, whole.part(slice(start, end)), anchors_of))
        start = end
    return Family(tuple(members))
