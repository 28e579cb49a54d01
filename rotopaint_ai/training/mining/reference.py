"""Frames of the data set that a sheet comes from: they say where its control points lie on a shape.

A sheet names control points and tells how many there are; which place of an outline is the first one only frames tell
that stand on it. They are brought into step together with the new ones and left out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.plates import Plate
from rotopaint_ai.training.data.dataset import Dataset, read_dataset
from rotopaint_ai.training.mining.faces import Faces
from rotopaint_ai.training.mining.families import Member
from rotopaint_ai.training.mining.join import Row
from rotopaint_ai.training.mining.outline import Array
from rotopaint_ai.training.mining.propose import Plan
from rotopaint_ai.training.mining.sources import FrameTruth, RawShape

_MOST = 24  # frames of each shape
_GRID = 480  # places on a curve at which a control point is looked for
_SHOT: Final = "the sheet's own data set"


def rows_of(sheet: Path, plate: Plate) -> tuple[Row, ...]:
    """Frames of the data set whose sheet this is, in pixels of their plates; none where it lies alone.

    `plate`: of whatever frame; nothing of these is read.
    """
    try:
        data = read_dataset(sheet.parent) if sheet.name == "sheet.yaml" else None
    except TrainingError:
        return ()
    if data is None:
        return ()
    return tuple(Row(_SHOT, _SHOT, number, plate, _truth(data, number)) for number in _chosen(data))


def held_out(sheet: Path) -> set[tuple[str, str]]:
    """Character and shot of what the data set whose sheet this is does not learn from; nothing where it lies alone."""
    try:
        data = read_dataset(sheet.parent) if sheet.name == "sheet.yaml" else None
    except TrainingError:
        return set()
    return set() if data is None else {(s.character, s.shot) for s in data.samples if s.split != "train"}


def _chosen(data: Dataset) -> list[int]:
    """Samples spread evenly over those that have each shape; all that may be learnt from, else any."""
    usable = data.rows_of("train", "val")
    rows = usable.tolist() if len(usable) else list(range(len(data)))
    found: set[int] = set()
    for name in data.sheet.shape_names:
        own = [row for row in rows if name in data.samples[row].shapes]
        found |= {own[at] for at in np.linspace(0, len(own) - 1, min(_MOST, len(own))).round().astype(int)}
    return sorted(found)


def _truth(data: Dataset, row: int) -> FrameTruth:
    sample, specs = data.samples[row], {spec.name: spec for spec in data.sheet.shapes}
    shapes = {
        name: RawShape(np.asarray(shape.points, np.float64) / sample.pixel_scale, specs[name].closed, specs[name].role)
        for name, shape in sample.shapes.items()
    }
    marks = {
        name: (x / sample.pixel_scale, y / sample.pixel_scale, seen) for name, (x, y, seen) in sample.landmarks.items()
    }
    return FrameTruth(shapes, marks)


def places_on(member: Member, rows: Sequence[Row], n_points: int, first: int) -> dict[int, float]:
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
    part = member.registration.part(inside)
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


def plan_without(plan: Plan, first: int) -> Plan:
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
    return replace(plan, shape=kept, registration=plan.registration.part(slice(0, n)), points_FP6=plan.points_FP6[:n])


def faces_without(faces: Faces, first: int) -> Faces:
    """Faces without the frames from row `first` on."""
    return replace(
        faces,
        turn=faces.turn[:first],
        centre=faces.centre[:first],
        misfit=faces.misfit[:first],
        features_FKC=faces.features_FKC[:first],
    )
