"""Proposes a sheet from the roto: landmarks of shapes, and the specification of each shape.

A shape is predicted from landmarks. Where the nearest one is a fifth of the face away, as on the upper half of an
outline around the face, the prediction is poor however accurate the landmarks are: control points there become
landmarks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.plates import Plate
from rotopaint_ai.shapes.revectorise.mean_face import Faces
from rotopaint_ai.shapes.revectorise.mirror_partners import partners
from rotopaint_ai.shapes.revectorise.point_tracks import point_orders
from rotopaint_ai.shapes.revectorise.raw_curves import Array, share_distance
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet
from rotopaint_ai.training.data.dataset import Dataset, read_dataset
from rotopaint_ai.training.data.seam_widths import USUAL_SEAM_SHARE
from rotopaint_ai.training.mining.join import JoinedFrame
from rotopaint_ai.training.mining.plans import ShapePlan
from rotopaint_ai.training.mining.symmetric_groups import GroupMember, RawShapeTrack
from rotopaint_ai.training.mining.takes import FrameTruth, RawShape

_MOST = 24  # frames per shape
_GRID = 480  # samples of a curve to locate control points on
_SHOT: Final = "the sheet's own data set"
# smallest share of frames in which the control point nearest to a landmark must be the sheet's
_SAME_POINT_SHARE: Final = 0.8


def reference_rows(sheet: Path, plate: Plate) -> tuple[JoinedFrame, ...]:
    """Frames of the data set that a sheet belongs to, in plate pixels; none for a sheet on its own.

    `plate`: any plate, to fill the field; these frames are not read.
    """
    data = _dataset_of(sheet)
    if data is None:
        return ()
    return tuple(
        JoinedFrame(_SHOT, _SHOT, number, plate, _sample_truth(data, number)) for number in _spread_samples(data)
    )


def val_shots_of_sheet(sheet: Path) -> set[tuple[str, str]]:
    """The shots (character, shot) in a sheet's validation and test splits; empty for a sheet without a data set."""
    data = _dataset_of(sheet)
    return set() if data is None else {(s.character, s.shot) for s in data.samples if s.split != "train"}


def _dataset_of(sheet: Path) -> Dataset | None:
    """The data set that a sheet belongs to; None for a sheet on its own."""
    try:
        return read_dataset(sheet.parent) if sheet.name == "sheet.yaml" else None
    except TrainingError:
        return None


def _spread_samples(data: Dataset) -> list[int]:
    """Samples spread evenly over those that have each shape; training and validation samples if there are any, else
    all."""
    usable = data.rows_of("train", "val")
    rows = usable.tolist() if len(usable) else list(range(len(data)))
    found: set[int] = set()
    for name in data.sheet.shape_names:
        own = [row for row in rows if name in data.samples[row].shapes]
        found.update(evenly_spread(own, _MOST))
    return sorted(found)


def _sample_truth(data: Dataset, row: int) -> FrameTruth:
    sample, specs = data.samples[row], {spec.name: spec for spec in data.sheet.shapes}
    shapes = {
        name: RawShape(np.asarray(shape.points, np.float64) / sample.pixel_scale, specs[name].closed, specs[name].role)
        for name, shape in sample.shapes.items()
    }
    marks = {
        name: (x / sample.pixel_scale, y / sample.pixel_scale, seen) for name, (x, y, seen) in sample.landmarks.items()
    }
    return FrameTruth(shapes, marks)


def sheet_places_on(member: GroupMember, rows: Sequence[JoinedFrame], n_points: int, first: int) -> dict[int, float]:
    """Positions of a sheet's control points as shares of the mean curve; empty if unknown.

    They come from rows `first` and later (the sheet's own data set), else from projects with predictions of as many
    points.
    """
    shape = member.shape
    truths = [rows[row].truth for row in shape.rows]
    own = [each.shapes[shape.name] for each in truths]
    drawn = np.array([each.is_on_sheet and len(each.points) == n_points for each in own])
    inside = np.flatnonzero(shape.rows >= first)
    inside = inside if len(inside) else np.flatnonzero(drawn)[:_MOST]
    if not len(inside):
        return {}
    part = member.correspondence.part(inside)
    grid = np.arange(_GRID) / _GRID if shape.closed else np.linspace(0, 1, _GRID)
    curves = part.curves.at(part.at(grid))
    points = np.stack([own[at].points[:, :2] for at in inside])
    away = np.stack([np.linalg.norm(row[:, None] - curve, axis=2) for row, curve in zip(points, curves)])
    found = grid[away.argmin(axis=2)]
    return {point: _middle(found[:, point], shape.closed) for point in range(found.shape[1])}


def _middle(shares: Array, closed: bool) -> float:
    """The curve share with the smallest total distance to all others; cyclic on a closed curve."""
    apart = share_distance(shares[:, None], shares, closed)
    return float(shares[apart.sum(axis=1).argmin()])


def drop_plan_rows(plan: ShapePlan, first: int) -> ShapePlan:
    """A plan without the frames from row `first` on."""
    shape = plan.shape
    n = int(np.searchsorted(shape.rows, first))
    kept = replace(
        shape,
        rows=shape.rows[:n],
        raw=shape.raw[:n],
        groups=shape.groups[:n],
        twists=tuple(twist for twist in shape.twists if twist.row < n),
        curves=shape.curves.rows(slice(0, n)),
        face_FMC=shape.face_FMC[:n],
        width_px=shape.width_px[:n],
    )
    return replace(
        plan, shape=kept, correspondence=plan.correspondence.part(slice(0, n)), points_FP6=plan.points_FP6[:n]
    )


def keep_drawn(
    plan: ShapePlan, spec: ShapeSpec, rows: Sequence[JoinedFrame], n_rows: int, faces: Faces, marks: Array
) -> ShapePlan:
    """The plan with the control points of corrected projects unchanged, if a pack with this sheet predicted them.

    Elsewhere control points are searched along the curve; here they are known. Rows from `n_rows` on are the sheet's
    own frames. `marks`: [F, L, 3]. A pack with another sheet is recognised by the number of points, by points on
    landmarks, or by points that match better in another order.
    """
    own: dict[int, list[int]] = defaultdict(list)
    for at, row in enumerate(plan.shape.rows):
        raw = rows[row].truth.shapes[spec.name]
        if row < n_rows and raw.is_on_sheet and len(raw.points) == spec.n_points:
            own[id(rows[row].plate)].append(at)
    known = [at for at, row in enumerate(plan.shape.rows) if row >= n_rows]
    points = plan.points_FP6.copy()
    for group in own.values():
        drawn = [rows[plan.shape.rows[at]] for at in group]
        if _matches_landmarks(drawn, spec) and _is_in_order(plan, spec, rows, group, known, faces, marks):
            points[group] = [row.truth.shapes[spec.name].points for row in drawn]
    return replace(plan, points_FP6=points)


def _matches_landmarks(drawn: Sequence[JoinedFrame], spec: ShapeSpec) -> bool:
    """Whether each landmark's nearest control point is the sheet's, in nearly all of these frames."""
    right = []
    for row in drawn:
        for point, name in spec.on_landmarks.items():
            if name in row.truth.landmarks:
                away = np.linalg.norm(row.truth.shapes[spec.name].points[:, :2] - row.truth.landmarks[name][:2], axis=1)
                right.append(away.argmin() == point)
    return not right or bool(np.mean(right) >= _SAME_POINT_SHARE)


def _is_in_order(
    plan: ShapePlan,
    spec: ShapeSpec,
    rows: Sequence[JoinedFrame],
    own: list[int],
    known: list[int],
    faces: Faces,
    marks: Array,
) -> bool:
    """Whether control points match those of the sheet's own frames best in their present order.

    Each frame is compared with the one of most similar landmarks; without sheet frames the order is accepted.
    """
    if not known:
        return True
    at, to = (plan.shape.rows[part] for part in (own, known))
    places = [np.stack([rows[row].truth.shapes[spec.name].points[:, :2] for row in part]) for part in (at, to)]
    own_FP2, known_FP2 = (faces.to_face(points, part) for points, part in zip(places, (at, to)))
    mine, theirs = (faces.to_face(marks[part, :, :2], part) for part in (at, to))
    away = np.linalg.norm(mine[:, None] - theirs[None], axis=3)
    n_both = np.isfinite(away).sum(axis=2)
    alike = np.where(n_both > 0, np.nansum(away, axis=2) / np.maximum(n_both, 1), np.inf).argmin(axis=1)
    _, orders = point_orders(spec.n_points, spec.closed)
    off = [float(np.linalg.norm(own_FP2 - known_FP2[alike][:, order], axis=2).mean()) for order in orders]
    return int(np.argmin(off)) == 0


_MOST_OWN = 8  # most landmarks made from a shape's own control points
# landmarks that a shape is predicted from: nearest to each point, and nearest to the shape
_NEAR_POINT, _NEAR_SHAPE = 4, 20
FAR_FROM_LANDMARKS = 0.085  # face units: a control point further from every landmark becomes a landmark


def choose_own_landmarks(plans: Sequence[ShapePlan]) -> list[ShapePlan]:
    """Plans whose landmarks are their own control points: `<shape>_<point>`."""
    out = []
    for plan in plans:
        on = {point: f"{plan.shape.name}_{point}" for point in _landmark_points(plan)}
        out.append(replace(plan, on_landmarks=on))
    return out


def _landmark_points(plan: ShapePlan) -> list[int]:
    """Control points that make good landmarks: corners and ends first, then those furthest from the chosen ones."""
    shares, closed = plan.placement.shares, plan.shape.closed
    n = len(shares)
    chosen = set(np.flatnonzero(plan.placement.corners).tolist()) | ({0} if closed else {0, n - 1})
    while len(chosen) < min(n, _MOST_OWN):
        away = share_distance(shares[:, None], shares[sorted(chosen)], closed)
        chosen.add(int(away.min(axis=1).argmax()))
        if plan.twin == plan.shape.name:
            chosen |= {image[1] for point in chosen if (image := plan.mirror_of(point))}
    return sorted(chosen)


def build_sheet(
    name: str, plans: Sequence[ShapePlan], landmark_names: Sequence[str], places: Array, frontal: Array, faces: Faces
) -> Sheet:
    """The sheet of the given plans.

    `places`, `frontal`: (L, 2) landmarks on the mean face and on a frontal one, NaN where unknown.
    """
    fixed: dict[str, str] = {}
    twins = {plan.shape.name: plan for plan in plans}
    for plan in plans:
        for point, landmark in plan.on_landmarks.items():
            image = plan.mirror_of(point)
            own = (f"{plan.shape.name}_{point}", f"{plan.shape.name}_p{point}")
            if image and image[1] in twins[image[0]].on_landmarks and landmark in own:
                fixed[landmark] = twins[image[0]].on_landmarks[image[1]]
    partner = partners(landmark_names, frontal, fixed=fixed)
    landmarks = tuple(LandmarkSpec(each, None if partner[each] == each else partner[each]) for each in landmark_names)
    return Sheet(name, landmarks, tuple(_shape_spec(plan, landmark_names, places, faces) for plan in plans))


def _width_share(shape: RawShapeTrack, known: Array) -> float | None:
    """Median width of an open shape as a share of the face; for seams of unknown width, the median of rendered
    seams."""
    if shape.closed:
        return None
    usual = USUAL_SEAM_SHARE if shape.role == "seam" else None
    return float(np.round(np.median(known), 5)) if len(known) else usual


def _shape_spec(plan: ShapePlan, names: Sequence[str], places: Array, faces: Faces) -> ShapeSpec:
    shape = plan.shape
    widths = shape.width_px / faces.side_px[shape.rows]
    known = widths[np.isfinite(widths) & (widths > 0)]
    return ShapeSpec(
        shape.name,
        shape.closed,
        len(plan.placement.shares),
        shape.role,
        dict(plan.on_landmarks),
        _from_landmarks(plan, names, places, faces),
        width_share=_width_share(shape, known),
        feather_px=shape.feather_px,
    )


def _from_landmarks(plan: ShapePlan, names: Sequence[str], places: Array, faces: Faces) -> tuple[str, ...]:
    """Landmarks on the shape, those nearest to it on the mean face, and those nearest to each of its control points.

    Validation shots of rendered puppets with 0.7 px of noise on the landmarks: 0.69 px mean with about 20 of 64, 0.73
    with only the 3 nearest to each point, 0.72 with all of them.
    """
    points = _on_mean(plan, faces)
    known = np.flatnonzero(np.isfinite(places).all(axis=1))
    away = np.linalg.norm(points[:, None] - places[known], axis=2)
    near = {int(known[column]) for row in np.argsort(away, axis=1, kind="stable")[:, :_NEAR_POINT] for column in row}
    near |= {int(known[column]) for column in np.argsort(away.min(axis=0), kind="stable")[:_NEAR_SHAPE]}
    on = set(plan.on_landmarks.values())
    return tuple(name for row, name in enumerate(names) if name in on or row in near)


def cover_bare_points(plans: Sequence[ShapePlan], places: Array, faces: Faces) -> list[ShapePlan]:
    """Plans with additional landmarks `<shape>_p<point>` where control points are far from every landmark.

    The furthest point comes first, together with its mirror image. `places`: [L, 2] landmarks on the mean face, NaN
    where unknown.
    """
    points = {plan.shape.name: _on_mean(plan, faces) for plan in plans}
    by_name = {plan.shape.name: plan for plan in plans}
    near = {name: _distances(own, places[np.isfinite(places).all(axis=1)]) for name, own in points.items()}
    added: dict[str, dict[int, str]] = {name: {} for name in by_name}
    while (worst := max(near, key=lambda name: float(near[name].max()), default=None)) is not None:
        at = int(near[worst].argmax())
        if near[worst][at] <= FAR_FROM_LANDMARKS:
            break
        for name, point in _with_image(by_name, worst, at):
            if point not in by_name[name].on_landmarks:
                added[name][point] = f"{name}_p{point}"  # sources themselves use `<shape>_<number>`
            for other in near:
                near[other] = np.minimum(near[other], _distances(points[other], points[name][point][None]))
    return [replace(plan, on_landmarks={**plan.on_landmarks, **added[plan.shape.name]}) for plan in plans]


def _with_image(plans: dict[str, ShapePlan], name: str, point: int) -> list[tuple[str, int]]:
    image = plans[name].mirror_of(point)
    return [(name, point)] if image is None or image[0] not in plans else [(name, point), image]


def _on_mean(plan: ShapePlan, faces: Faces) -> Array:
    return np.asarray(np.median(faces.to_face(plan.points_FP6[..., :2], plan.shape.rows), axis=0))


def _distances(points: Array, places: Array) -> Array:
    if not len(places):
        return np.full(len(points), np.inf)
    return np.asarray(np.linalg.norm(points[:, None] - places, axis=2).min(axis=1))
