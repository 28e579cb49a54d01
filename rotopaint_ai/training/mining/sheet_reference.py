"""A sheet that is given: the frames of its data set, and control points that a pack of it drew.

A sheet names control points and tells how many there are; which place of an outline is the first one only frames tell
that stand on it. Frames of the data set that the sheet comes from are aligned together with the new ones and left out
again. Control points that a pack of the same sheet drew are the sheet's own, and stay as the artist left them.

F frames, P control points, L landmarks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.plates import Plate
from rotopaint_ai.sheet import ShapeSpec
from rotopaint_ai.training.data.dataset import Dataset, read_dataset
from rotopaint_ai.training.mining.curves import Array
from rotopaint_ai.training.mining.faces import Faces
from rotopaint_ai.training.mining.join import JoinedFrame
from rotopaint_ai.training.mining.plans import ShapePlan
from rotopaint_ai.training.mining.symmetric_groups import GroupMember
from rotopaint_ai.training.mining.takes import FrameTruth, RawShape

_MOST = 24  # frames of each shape
_GRID = 480  # places on a curve at which a control point is looked for
_SHOT: Final = "the sheet's own data set"
_SITS_SHARE: Final = 0.8  # of the frames in which the control point on a landmark is the one that the sheet says


def reference_rows(sheet: Path, plate: Plate) -> tuple[JoinedFrame, ...]:
    """Frames of the data set whose sheet this is, in pixels of their plates; none where it lies alone.

    `plate`: of whatever frame; nothing of these is read.
    """
    try:
        data = read_dataset(sheet.parent) if sheet.name == "sheet.yaml" else None
    except TrainingError:
        return ()
    if data is None:
        return ()
    return tuple(
        JoinedFrame(_SHOT, _SHOT, number, plate, _sample_truth(data, number)) for number in _spread_samples(data)
    )


def val_shots_of_sheet(sheet: Path) -> set[tuple[str, str]]:
    """Character and shot of what the data set whose sheet this is does not learn from; nothing where it lies alone."""
    try:
        data = read_dataset(sheet.parent) if sheet.name == "sheet.yaml" else None
    except TrainingError:
        return set()
    return set() if data is None else {(s.character, s.shot) for s in data.samples if s.split != "train"}


def _spread_samples(data: Dataset) -> list[int]:
    """Samples spread evenly over those that have each shape; all that may be learnt from, else any."""
    usable = data.rows_of("train", "val")
    rows = usable.tolist() if len(usable) else list(range(len(data)))
    found: set[int] = set()
    for name in data.sheet.shape_names:
        own = [row for row in rows if name in data.samples[row].shapes]
        found |= {own[at] for at in np.linspace(0, len(own) - 1, min(_MOST, len(own))).round().astype(int)}
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
    """Shares of the mean at which a sheet's control points stand: by the frames from row `first` on, else by those of
    projects, which a pack drew with as many points; empty without."""
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
    """The share that is nearest to all others; on a closed curve round its start."""
    apart = np.abs(shares[:, None] - shares)
    apart = np.minimum(apart, 1 - apart) if closed else apart
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


def drop_face_rows(faces: Faces, first: int) -> Faces:
    """Faces without the frames from row `first` on."""
    return replace(
        faces,
        turn=faces.turn[:first],
        centre=faces.centre[:first],
        misfit=faces.misfit[:first],
        features_FKC=faces.features_FKC[:first],
    )


def keep_drawn(
    plan: ShapePlan, spec: ShapeSpec, rows: Sequence[JoinedFrame], n_rows: int, faces: Faces, marks: Array
) -> ShapePlan:
    """The plan with the control points of corrected projects as they stand, where a pack with this sheet drew them.

    They are looked for along the curve elsewhere; here they are known. Rows from `n_rows` on are frames that the sheet
    comes from. `marks`: [F, L, 3]. A pack of another sheet shows by how many points there are, by those that sit on
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
        if _sits(drawn, spec) and _is_in_order(plan, spec, rows, group, known, faces, marks):
            points[group] = [_raw_shape(row, spec).points for row in drawn]
    return replace(plan, points_FP6=points)


def _raw_shape(row: JoinedFrame, spec: ShapeSpec) -> RawShape:
    return row.truth.shapes[spec.name]


def _sits(drawn: Sequence[JoinedFrame], spec: ShapeSpec) -> bool:
    """Whether the control points that sit on landmarks by the sheet are those next to them in these frames."""
    right = []
    for row in drawn:
        for point, name in spec.on_landmarks.items():
            if name in row.truth.landmarks:
                away = np.linalg.norm(_raw_shape(row, spec).points[:, :2] - row.truth.landmarks[name][:2], axis=1)
                right.append(away.argmin() == point)
    return not right or bool(np.mean(right) >= _SITS_SHARE)


def _is_in_order(
    plan: ShapePlan,
    spec: ShapeSpec,
    rows: Sequence[JoinedFrame],
    own: list[int],
    known: list[int],
    faces: Faces,
    marks: Array,
) -> bool:
    """Whether control points lie nearest to those of the sheet's own frames in the order in which they are.

    Each frame is compared with the one whose landmarks are most alike; without any there is nothing to compare with.
    """
    if not known:
        return True
    at, to = (plan.shape.rows[part] for part in (own, known))
    places = [np.stack([_raw_shape(rows[row], spec).points[:, :2] for row in part]) for part in (at, to)]
    own_FP2, known_FP2 = (faces.to_face(points, part) for points, part in zip(places, (at, to)))
    mine, theirs = (faces.to_face(marks[part, :, :2], part) for part in (at, to))
    away = np.linalg.norm(mine[:, None] - theirs[None], axis=3)
    n_both = np.isfinite(away).sum(axis=2)
    alike = np.where(n_both > 0, np.nansum(away, axis=2) / np.maximum(n_both, 1), np.inf).argmin(axis=1)
    off = [float(np.linalg.norm(own_FP2 - known_FP2[alike][:, order], axis=2).mean()) for order in _point_orders(spec)]
    return int(np.argmin(off)) == 0


def _point_orders(spec: ShapeSpec) -> list[Array]:
    """Orders in which the same control points may have been named: as they are, then from elsewhere and backwards."""
    steps = np.arange(spec.n_points)
    both = (steps, steps[::-1])
    return [np.roll(way, -shift) for way in both for shift in (range(spec.n_points) if spec.closed else (0,))]
