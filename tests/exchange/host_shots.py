"""Small shapes, 200 x 120, frames 1001 to 1006, which other programs draw for comparison with our mattes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rotopaint_ai.shapes.roto import ControlPoint, Interpolation, Key, Points, RotoShape

EYE: Final = (
    ControlPoint(60, 50, -20, 8, 14, -12),
    ControlPoint(130, 40.5, -16, -4, 22, 6),
    ControlPoint(120, 95, 10, -18, -14, 9),
    ControlPoint(70, 100, 18, 4, -6, -16),
)
SEAM: Final = (
    ControlPoint(20, 30, -5, 0, 12, 6),
    ControlPoint(80, 60, -20, -8, 20, 8),
    ControlPoint(150, 50.25, -18, 9, 4, -2),
)
BOW: Final = tuple(ControlPoint(x, y) for x, y in ((40, 20), (150, 100), (150, 20), (40, 100)))  # crosses itself


def _moved(points: Points, by: float) -> Points:
    return tuple(p._replace(x=p.x + by, y=p.y + by / 3, out_dx=p.out_dx * (1 + by / 30)) for p in points)


def _shape(name: str, points: Points, kind: Interpolation = "linear", width_px: float | None = None) -> RotoShape:
    keys = {1001: Key(points, "human", kind), 1004: Key(_moved(points, 9), "human", kind), 1006: Key(points, "human")}
    return RotoShape(name, width_px is None, "matte" if width_px is None else "seam", keys, width_px)


SHAPES: Final = {
    "linear": _shape("linear", EYE),
    "hold": _shape("hold", EYE, "hold"),
    "ease": _shape("ease", EYE, "ease"),
    "crossing": _shape("crossing", BOW),
    "hidden": replace(_shape("hidden", EYE), visible={1003: False, 1004: False}),
    "stroke": _shape("stroke", SEAM, width_px=5.0),
}
