"""Shapes of all frames in correspondence with each other and with their mirror images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.shapes.revectorise.correspondence import Correspondence, find_correspondence
from rotopaint_ai.shapes.revectorise.mean_face import Faces, mean_places, place_faces
from rotopaint_ai.shapes.revectorise.mirror_partners import frontalise, is_own_mirror, name_pairs, partners
from rotopaint_ai.shapes.revectorise.point_tracks import Twist, find_tracks
from rotopaint_ai.shapes.revectorise.raw_curves import Array, RawCurves, Rows, sample_curves
from rotopaint_ai.sheet import Role
from rotopaint_ai.training.mining.join import JoinedFrame
from rotopaint_ai.watch import StageProgress, ignore_progress, work_on_each

ON_CURVE = 0.006  # face units: a landmark this close to a shape in half of the frames lies on it
_ON_OWN = 0.012  # the same for a landmark that carries the shape's name
_SPREAD = 2.2  # the distance in 9 of 10 frames may be this many times as large
_REACH = 0.03  # face units: search range along the curve for a landmark


@dataclass(frozen=True, slots=True)
class RawShapeTrack:
    """A shape's raw curves in every frame that has it.

    `rows`: those frames among all. `raw`: curves in the order of `rows`. `face_FMC`: samples in face space. `width_px`:
    per row, NaN where unknown.
    """

    name: str
    closed: bool
    role: Role
    rows: Rows
    raw: tuple[Array, ...]
    groups: Rows
    twists: tuple[Twist, ...]
    curves: RawCurves
    face_FMC: Array
    width_px: Array
    feather_px: float

    @property
    def most_points(self) -> int:
        """The largest number of control points that artists used."""
        return max(len(points) for points in self.raw)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A shape in a group.

    `mirrored`: its curves are mirrored to match the others. `anchors`: landmarks on the shape, each with its position
    as a share of the mean curve.
    """

    shape: RawShapeTrack
    mirrored: bool
    correspondence: Correspondence
    anchors: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SymmetricGroup:
    """Shapes aligned together: a single one, two that mirror each other, or one with its own mirror image."""

    members: tuple[GroupMember, ...]

    @property
    def own_mirror(self) -> bool:
        """Whether the second member is the first one's own mirror image."""
        return len(self.members) > 1 and self.members[0].shape is self.members[1].shape


def faces_of_frames(rows: Sequence[JoinedFrame], landmark_names: Sequence[str]) -> tuple[Faces, Array]:
    """The face in each frame, from landmarks and shape centres; and the landmarks [F, L, 3], NaN where unknown."""
    marks = np.full((len(rows), len(landmark_names), 3), np.nan)
    drawn = [{**row.truth.context, **row.truth.shapes} for row in rows]
    shape_names = sorted({name for shapes in drawn for name in shapes})
    middles = np.full((len(rows), len(shape_names), 2), np.nan)
    extent = np.zeros(len(rows))
    for at, row in enumerate(rows):
        for column, name in enumerate(landmark_names):
            if name in row.truth.landmarks:
                marks[at, column] = row.truth.landmarks[name]
        clouds = [marks[at, :, :2][np.isfinite(marks[at, :, 0])]]
        for column, name in enumerate(shape_names):
            if name in drawn[at]:
                shape = drawn[at][name]
                samples = sample_curves([shape.points], shape.closed, n_samples=64).samples_FMC[0]
                middles[at, column] = samples.mean(axis=0)
                clouds.append(samples)
        extent[at] = np.ptp(np.concatenate(clouds), axis=0).max()
    features = np.concatenate((marks[..., :2], middles), axis=1)
    names = [f"landmark {name}" for name in landmark_names] + [f"shape {name}" for name in shape_names]
    pairs = [(names.index(one), names.index(two)) for one, two in name_pairs(names)]
    return place_faces(features, pairs, extent=extent), marks


def collect_shapes(rows: Sequence[JoinedFrame], faces: Faces, shots: Rows) -> tuple[RawShapeTrack, ...]:
    """Every shape with its raw curves. Raises DocumentError if a shape is open in one frame and closed in another."""
    names = list(dict.fromkeys(name for row in rows for name in row.truth.shapes))
    return tuple(_collect_shape(name, rows, faces, shots) for name in names)


def _collect_shape(name: str, rows: Sequence[JoinedFrame], faces: Faces, shots: Rows) -> RawShapeTrack:
    has = np.array([at for at, row in enumerate(rows) if name in row.truth.shapes], dtype=np.intp)
    own = [rows[at].truth.shapes[name] for at in has]
    closed = own[0].closed
    for at, shape in zip(has, own):
        if shape.closed != closed:
            raise DocumentError(
                f"shape '{name}': {'closed' if closed else 'open'} in {rows[has[0]].shot}, "
                f"{'open' if closed else 'closed'} in {rows[at].shot}; rename one of them"
            )
    tracked = find_tracks([shape.points for shape in own], closed, shots[has], faces.turn[has])
    curves = sample_curves(tracked.raw, closed, groups=tracked.groups)
    return RawShapeTrack(
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


def landmarks_on(shape: RawShapeTrack, names: Sequence[str], marks_face_FLC: Array, others: Sequence[str]) -> list[str]:
    """Landmarks that lie on a shape; those with another shape's name must lie closer."""
    found = []
    rows = shape.rows[:: max(1, len(shape.rows) // 60)]
    curves = shape.face_FMC[:: max(1, len(shape.rows) // 60)]
    for column, name in enumerate(names):
        points = marks_face_FLC[rows, column]
        known = np.isfinite(points[:, 0])
        if known.sum() < max(1, 0.5 * len(rows)):
            continue
        away = np.linalg.norm(curves[known] - points[known, None], axis=2).min(axis=1)
        own = _carries_name(name, shape.name)
        limit = _ON_OWN if own else ON_CURVE / 3 if any(_carries_name(name, other) for other in others) else ON_CURVE
        if np.median(away) <= limit and np.quantile(away, 0.9) <= _SPREAD * limit:
            found.append(name)
    return found


def _carries_name(landmark: str, shape: str) -> bool:
    return landmark == shape or landmark.startswith((shape + "_", shape + ".", shape + "-"))


def align_shapes(
    shapes: Sequence[RawShapeTrack],
    names: Sequence[str],
    marks: Array,
    faces: Faces,
    *,
    fixed: Mapping[str, str] | None = None,
    progress: StageProgress = ignore_progress,
    workers: Executor | None = None,
) -> tuple[SymmetricGroup, ...]:
    """Bring every shape into correspondence; mirror pairs and symmetric shapes together with their mirror images.

    `marks`: [F, L, 3] landmarks in plate space. `fixed`: mirror partners of landmarks from a sheet.
    """
    everywhere = np.arange(len(faces.turn))
    places = faces.to_face(marks[..., :2], everywhere)
    partner = partners(names, frontalise(places, mean_places(places), names), fixed=fixed)
    shape_names = [shape.name for shape in shapes]
    middles = np.array([np.median(shape.face_FMC.mean(axis=1), axis=0) for shape in shapes]).reshape(-1, 2)
    twins = partners(shape_names, np.where(np.abs(middles[:, :1]) > 0.06, middles, np.nan))
    done: set[str] = set()
    groups: list[tuple[list[tuple[RawShapeTrack, bool]], list[str]]] = []
    for shape in shapes:
        if shape.name in done:
            continue
        twin = shapes[shape_names.index(twins[shape.name])]
        if twin is not shape and twin.closed == shape.closed:
            parts = [(shape, False), (twin, True)]
        else:
            twin = shape
            parts = [(shape, False), (shape, True)]
            parts = parts if is_own_mirror(shape.face_FMC, shape.closed) else parts[:1]
        others = [name for name in shape_names if name not in (shape.name, twin.name)]
        on = landmarks_on(shape, names, places, others)
        if twin is not shape:
            theirs = landmarks_on(twin, names, places, others)
            on = [name for name in on if partner[name] in theirs]
        elif len(parts) > 1 and on:
            parts = parts[:1]  # landmarks determine more than symmetry does
        done |= {shape.name, twin.name}
        groups.append((parts, on))

    def align_parts(group: tuple[list[tuple[RawShapeTrack, bool]], list[str]]) -> SymmetricGroup:
        return _align_group(*group, partner, names, places)

    return tuple(work_on_each(align_parts, groups, "aligning shapes", progress, workers))


def _align_group(
    parts: Sequence[tuple[RawShapeTrack, bool]],
    on: Sequence[str],
    partner: Mapping[str, str],
    names: Sequence[str],
    places: Array,
) -> SymmetricGroup:
    mirror = np.array([-1.0, 1.0])
    curves = RawCurves(
        np.concatenate([shape.curves.samples_FMC for shape, _ in parts]),
        np.concatenate([shape.curves.lengths for shape, _ in parts]),
        parts[0][0].closed,
    )
    face = np.concatenate([shape.face_FMC * (mirror if mirrored else 1.0) for shape, mirrored in parts])
    columns = [[names.index(partner[name] if mirrored else name) for name in on] for _, mirrored in parts]
    anchors = np.concatenate(
        [places[shape.rows][:, own] * (mirror if mirrored else 1.0) for (shape, mirrored), own in zip(parts, columns)]
    )
    groups = np.concatenate([shape.groups + 100_000 * at for at, (shape, _) in enumerate(parts)])
    whole = find_correspondence(curves, face, anchors, groups=groups, reach=_REACH)
    members, start = [], 0
    for (shape, mirrored), own in zip(parts, columns):
        end = start + len(shape.rows)
        anchors_of = {names[column]: float(share) for column, share in zip(own, whole.anchor_shares) if share == share}
        members.append(GroupMember(shape, mirrored, whole.part(slice(start, end)), anchors_of))
        start = end
    return SymmetricGroup(tuple(members))
