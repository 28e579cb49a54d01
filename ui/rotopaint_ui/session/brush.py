"""The settings and strokes of the touch-up brush. No Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rotopaint_ai.seams.strokes import CLEAN, MOST_RADIUS_PX, PLATE, Stroke, StrokeSource

LEAST_PX = 0.5
BrushSource = Literal["clone", "plate", "clean"]
LABELS: Mapping[BrushSource, str] = {"clone": "Clone", "plate": "Reveal the plate", "clean": "Reveal the clean plate"}
_REVEALED: Mapping[BrushSource, StrokeSource] = {"clone": None, "plate": PLATE, "clean": CLEAN}


@dataclass(frozen=True, slots=True)
class Brush:
    """The settings of the touch-up brush. `clone` copies pixels; the others restore this frame's plate, or its clean
    plate without strokes.

    `radius_px` in plate pixels; `hardness` and `opacity` as in strokes.
    """

    paints: BrushSource = "clone"
    radius_px: float = 8.0
    hardness: float = 0.5
    opacity: float = 1.0

    def stroke(self, places: tuple[tuple[float, float], ...], offset: tuple[int, int], frame: int | None) -> Stroke:
        """A stroke along positions on the plate. A clone copies pixels `offset` away, from this frame or another."""
        shape = self.radius_px, self.hardness, self.opacity
        if self.paints == "clone":
            return Stroke(places, *offset, *shape, frame)
        return Stroke(places, 0, 0, *shape, _REVEALED[self.paints])


def nearest_size(radius_px: float) -> float:
    """The nearest radius that a brush may have."""
    return min(max(radius_px, LEAST_PX), MOST_RADIUS_PX)
