"""The selection: shapes, and control points of any of them. No Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected shapes and their selected control points.

    `shape` was selected last, `others` are selected beside it. `points` has the shapes with selected points alone.
    `layer`: the layer that is selected as a whole, with all its shapes.
    """

    shape: str | None = None
    points: Mapping[str, frozenset[int]] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    layer: str | None = None

    @property
    def shapes(self) -> frozenset[str]:
        """All selected shapes."""
        return self.others if self.shape is None else self.others | {self.shape}

    def points_of(self, shape: str) -> frozenset[int]:
        """The selected control points of a shape."""
        return self.points.get(shape, frozenset())

    def with_shape(self, shape: str) -> Selection:
        """The selection with a shape selected last; what else is selected stays."""
        return Selection(shape, self.points, self.shapes - {shape})

    def without_shape(self, shape: str) -> Selection:
        """The selection without a shape and its points."""
        points = {name: own for name, own in self.points.items() if name != shape}
        left = sorted(self.shapes - {shape})
        return Selection(left[-1], points, frozenset(left[:-1])) if left else Selection()

    def with_points(self, points: Mapping[str, frozenset[int]]) -> Selection:
        """The selection with other control points. All selected shapes stay, and the points' shapes join them.

        Where no shape was selected, the shape with most of the points counts as selected last.
        """
        kept = {name: own for name, own in points.items() if own}
        last = self.shape or max(kept, key=lambda name: len(kept[name]), default=None)
        return Selection(last, kept, frozenset({*self.shapes, *kept}) - {last})
