"""Translate, scale, rotate and push control points. From points to points; standard library only."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

from rotopaint_ai.errors import UsageError
from rotopaint_ai.shapes.roto import ControlPoint, Points


@dataclass(frozen=True, slots=True)
class Affine:
    """An affine map: x' = a x + b y + c, y' = d x + e y + f, plate space."""

    a: float = 1.0
    b: float = 0.0
    c: float = 0.0
    d: float = 0.0
    e: float = 1.0
    f: float = 0.0

    def __call__(self, x: float, y: float) -> tuple[float, float]:
        """Map a point."""
        return self.a * x + self.b * y + self.c, self.d * x + self.e * y + self.f

    def map_offset(self, dx: float, dy: float) -> tuple[float, float]:
        """Map an offset."""
        return self.a * dx + self.b * dy, self.d * dx + self.e * dy


def translation(dx: float, dy: float) -> Affine:
    """A shift in plate pixels."""
    return Affine(c=dx, f=dy)


def scale_about(sx: float, sy: float, pivot: tuple[float, float]) -> Affine:
    """Scaling by (sx, sy); the pivot stays."""
    return Affine(a=sx, c=pivot[0] * (1 - sx), e=sy, f=pivot[1] * (1 - sy))


def rotation(degrees: float, pivot: tuple[float, float], pixel_aspect: float = 1.0) -> Affine:
    """Rotation, clockwise on the screen, about the pivot; corrected for non-square pixels."""
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    b, d = -sine / pixel_aspect, sine * pixel_aspect
    x, y = pivot
    return Affine(cosine, b, x - cosine * x - b * y, d, cosine, y - d * x - cosine * y)


def transform(points: Points, affine: Affine, indices: Collection[int] | None = None) -> Points:
    """The points mapped, or those at `indices`; tangents are mapped too."""
    return tuple(_apply_affine(p, affine) if indices is None or i in indices else p for i, p in enumerate(points))


def push_points(
    points: Points,
    centre: tuple[float, float],
    offset: tuple[float, float],
    radius_px: float,
    pixel_aspect: float = 1.0,
) -> Points:
    """The points pushed by `offset` around `centre`, fading smoothly to zero at `radius_px` (in plate height).

    Tangents follow the deformation, so that the curve stays smooth. The weight is (1 - u^2)^2 for distance u over the
    radius, circular on screen for non-square pixels. Points that lie outside with their tangents stay exactly as they
    are.
    """
    if radius_px <= 0:
        raise UsageError(f"reshape: radius {radius_px:g} px; wanted more than 0")

    def distance(x: float, y: float) -> float:
        return math.hypot((x - centre[0]) * pixel_aspect, y - centre[1]) / radius_px

    def push(x: float, y: float) -> tuple[float, float]:
        u = distance(x, y)
        weight = (1.0 - u * u) ** 2 if u < 1.0 else 0.0
        return x + offset[0] * weight, y + offset[1] * weight

    def is_reached(p: ControlPoint) -> bool:
        ends = (0.0, 0.0), (p.in_dx, p.in_dy), (p.out_dx, p.out_dy)
        return any(distance(p.x + dx, p.y + dy) < 1.0 for dx, dy in ends)

    return tuple(map_point(point, push) if is_reached(point) else point for point in points)


def points_bounds(points: Points) -> tuple[float, float, float, float] | None:
    """Extent of the points' positions: x0, y0, x1, y1; None without points."""
    if not points:
        return None
    xs, ys = [p.x for p in points], [p.y for p in points]
    return min(xs), min(ys), max(xs), max(ys)


def _apply_affine(p: ControlPoint, affine: Affine) -> ControlPoint:
    return ControlPoint(*affine(p.x, p.y), *affine.map_offset(p.in_dx, p.in_dy), *affine.map_offset(p.out_dx, p.out_dy))


def map_point(point: ControlPoint, map_xy: Callable[[float, float], tuple[float, float]]) -> ControlPoint:
    """A control point with the ends of both tangents, mapped by any map of the plane."""
    x, y = map_xy(point.x, point.y)
    ix, iy = map_xy(point.x + point.in_dx, point.y + point.in_dy)
    ox, oy = map_xy(point.x + point.out_dx, point.y + point.out_dy)
    return ControlPoint(x, y, ix - x, iy - y, ox - x, oy - y)
