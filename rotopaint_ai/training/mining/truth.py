"""Everything known of all frames once shapes stand on fixed control points, in plate space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rotopaint_ai.shapes import bezier
from rotopaint_ai.sheet import Sheet
from rotopaint_ai.training.mining.faces import Faces
from rotopaint_ai.training.mining.join import Row
from rotopaint_ai.training.mining.outline import Array
from rotopaint_ai.training.mining.propose import Plan
from rotopaint_ai.training.mining.register import Rows


@dataclass(frozen=True, slots=True)
class Truth:
    """`rows`: the frames; `shots`: [F] number of each one's shot; `names` and `marks`: [F, L, 3] landmarks of the
    sheet, x, y and 1 seen or 0 hidden, NaN unknown; `distances`: of each plan, [F, 2] as `residuals.distances`."""

    rows: tuple[Row, ...]
    shots: Rows
    names: tuple[str, ...]
    marks: Array
    faces: Faces
    plans: tuple[Plan, ...]
    distances: tuple[Array, ...]
    sheet: Sheet

    def plans_at(self, row: int) -> list[tuple[Plan, int]]:
        """The shapes that a frame has, each with the place of the frame among its own."""
        found = []
        for plan in self.plans:
            at = int(np.searchsorted(plan.shape.rows, row))
            if at < len(plan.shape.rows) and plan.shape.rows[at] == row:
                found.append((plan, at))
        return found

    def curves(self, row: int) -> dict[str, Array]:
        """The new splines of a frame as points (N, 2) along them."""
        return {
            plan.shape.name: bezier.sample(plan.points_FP6[at], plan.shape.closed, per_segment=8)
            for plan, at in self.plans_at(row)
        }

    def extent(self, row: int) -> Array:
        """Points (N, 2) that a crop has to hold: the landmarks; with fewer than three of them the shapes too."""
        points = self.marks[row, :, :2]
        points = points[np.isfinite(points[:, 0])]
        return np.asarray(points if len(points) >= 3 else np.concatenate([points, *self.curves(row).values()]))

    def given(self) -> list[int]:
        """Columns of landmarks that a source gave, which are not a shape's own control points."""
        return [at for at, name in enumerate(self.names) if any(name in row.truth.landmarks for row in self.rows)]
