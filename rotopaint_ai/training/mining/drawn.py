"""Control points that a pack of the same sheet drew: they are the sheet's own, and stay as the artist left them.

F frames, P control points, L landmarks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from rotopaint_ai.sheet import ShapeSpec
from rotopaint_ai.training.mining.faces import Faces
from rotopaint_ai.training.mining.join import Row
from rotopaint_ai.training.mining.outline import Array
from rotopaint_ai.training.mining.propose import Plan
from rotopaint_ai.training.mining.sources import RawShape

_SITS_SHARE: Final = 0.8  # of the frames in which the control point on a landmark is the one that the sheet says


def as_drawn(plan: Plan, spec: ShapeSpec, rows: Sequence[Row], n_rows: int, faces: Faces, marks: Array) -> Plan:
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
            points[group] = [_raw(row, spec).points for row in drawn]
    return replace(plan, points_FP6=points)


def _raw(row: Row, spec: ShapeSpec) -> RawShape:
    return row.truth.shapes[spec.name]


def _sits(drawn: Sequence[Row], spec: ShapeSpec) -> bool:
    """Whether the control points that sit on landmarks by the sheet are those next to them in these frames."""
    right = []
    for row in drawn:
        for point, name in spec.on_landmarks.items():
            if name in row.truth.landmarks:
                away = np.linalg.norm(_raw(row, spec).points[:, :2] - row.truth.landmarks[name][:2], axis=1)
                right.append(away.argmin() == point)
    return not right or bool(np.mean(right) >= _SITS_SHARE)


def _is_in_order(
    plan: Plan, spec: ShapeSpec, rows: Sequence[Row], own: list[int], known: list[int], faces: Faces, marks: Array
) -> bool:
    """Whether control points lie nearest to those of the sheet's own frames in the order in which they are.

    Each frame is compared with the one whose landmarks are most alike; without any there is nothing to compare with.
    """
    if not known:
        return True
    at, to = (plan.shape.rows[part] for part in (own, known))
    places = [np.stack([_raw(rows[row], spec).points[:, :2] for row in part]) for part in (at, to)]
    own_FP2, known_FP2 = (faces.to_face(points, part) for points, part in zip(places, (at, to)))
    mine, theirs = (faces.to_face(marks[part, :, :2], part) for part in (at, to))
    away = np.linalg.norm(mine[:, None] - theirs[None], axis=3)
    n_both = np.isfinite(away).sum(axis=2)
    alike = np.where(n_both > 0, np.nansum(away, axis=2) / np.maximum(n_both, 1), np.inf).argmin(axis=1)
    off = [float(np.linalg.norm(own_FP2 - known_FP2[alike][:, order], axis=2).mean()) for order in _orders(spec)]
    return int(np.argmin(off)) == 0


def _orders(spec: ShapeSpec) -> list[Array]:
    """Orders in which the same control points may have been named: as they are, then from elsewhere and backwards."""
    steps = np.arange(spec.n_points)
    both = (steps, steps[::-1])
    return [np.roll(way, -shift) for way in both for shift in (range(spec.n_points) if spec.closed else (0,))]
