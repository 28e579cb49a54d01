"""Feather as a second curve: the edge at which it ends, and the feather's width from such an edge.

Standard library only. Convention: plate space; an edge has one point for each control point of its shape, with its own
handles as offsets from the edge's point. At a corner the edge is offset along the mitre, so that the feather has the
same width along both sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rotopaint_ai.exchange.limits import MOST_WIDTH_PX
from rotopaint_ai.shapes.roto import ControlPoint, Points, RotoDocument, RotoShape, feather_line, feather_rows

LONGEST_MITRE = 2.0
_TINY = 1e-9
_UNEVEN_PX = 0.1  # a feather that varies by more than this along a shape or over time needs a feather line

Vector = tuple[float, float]


def signed_area(points: Points) -> float:
    """Signed area of the polygon of points and handles, positive where it runs clockwise on screen (y down)."""
    ring: list[Vector] = []
    for p in points:
        ring += [(p.x + p.in_dx, p.y + p.in_dy), (p.x, p.y), (p.x + p.out_dx, p.y + p.out_dy)]
    shifted = ring[1:] + ring[:1]
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(ring, shifted, strict=True)) / 2


def reversed_points(points: Points, closed: bool) -> Points:
    """The same curve in the other direction; a closed curve keeps its first point."""
    turned = [ControlPoint(p.x, p.y, p.out_dx, p.out_dy, p.in_dx, p.in_dy) for p in reversed(points)]
    return (turned[-1], *turned[:-1]) if closed else tuple(turned)


def edge(points: Points, feather_px: float) -> Points:
    """The closed curve at which a feather of that width ends, outside the shape."""
    return line_of_widths(points, [feather_px] * len(points))


def line_of_widths(points: Points, feathers: Sequence[float]) -> Points:
    """The closed curve at which a feather of these widths ends, one for each control point; above 0 is outside."""
    side = 1.0 if signed_area(points) >= 0 else -1.0
    stands = [_mitre(points, i) for i in range(len(points))]
    shifts = [(nx * side * f * m, ny * side * f * m) for ((nx, ny), m), f in zip(stands, feathers, strict=True)]
    n = len(points)
    moved = []
    for i, p in enumerate(points):
        grow_in = _growth(points, shifts, (i - 1) % n, i)
        grow_out = _growth(points, shifts, i, (i + 1) % n)
        dx, dy = shifts[i]
        moved.append(
            ControlPoint(
                p.x + dx, p.y + dy, p.in_dx * grow_in, p.in_dy * grow_in, p.out_dx * grow_out, p.out_dy * grow_out
            )
        )
    return tuple(moved)


def line_around(shape: RotoShape, frame: float, points: Points) -> Points:
    """The curve at which a shape's whole feather ends at a frame: its feather line plus the width added outside it."""
    if not shape.closed:
        return points
    line = feather_line(points, shape.feather_at(frame)) if shape.has_feather_line else points
    return edge(line, shape.feather_px) if shape.feather_px > 0 else line


def as_one_line(shape: RotoShape) -> RotoShape:
    """The shape with its whole feather as one line, or as one width where the line varies by less than 0.1 px."""
    if not shape.has_feather_line:
        return shape
    lines = {frame: line_around(shape, frame, key.points) for frame, key in shape.keys.items()}
    return with_lines(shape, lines)


def reduce_feathers(document: RotoDocument) -> RotoDocument:
    """The document with each feather as one line, or as one width where it varies by less than 0.1 px."""
    return replace(document, shapes=tuple(map(as_one_line, document.shapes)))


def with_lines(shape: RotoShape, lines: Mapping[int, Points]) -> RotoShape:
    """The shape with a feather that ends at these curves at its keys; one width where it varies by less than 0.1 px."""
    rows = {frame: feather_rows(key.points, lines[frame]) for frame, key in shape.keys.items()}
    # a shape that is closed to a point has no outside
    wide = [frame for frame, key in shape.keys.items() if len({(p.x, p.y) for p in key.points}) > 1]
    found = [width for frame in wide for width in line_widths(shape.keys[frame].points, rows[frame])]
    if not shape.closed or not _is_uneven(found):
        bare = {frame: replace(key, feather=()) for frame, key in shape.keys.items()}
        return replace(shape, feather_px=_mean_width(found) if shape.closed else 0.0).with_keys(bare)
    keys = {frame: replace(key, feather=rows[frame]) for frame, key in shape.keys.items()}
    return replace(shape, feather_px=0.0).with_keys(keys)


def _is_uneven(found: Sequence[float]) -> bool:
    """Whether a feather is more than a single width outside the edge."""
    return bool(found) and (max(found) - min(found) > _UNEVEN_PX or min(found) < -_UNEVEN_PX)


def _mean_width(found: Sequence[float]) -> float:
    return max(0.0, round(sum(found) / len(found), 6)) if found else 0.0


def along_normals(shape: RotoShape) -> tuple[RotoShape, float, float]:
    """The shape with its feather as a width at each control point, outside the edge, for formats that hold no line.

    Returns the shape, the largest move of its line at a control point, and the largest inner feather that is dropped,
    both in pixels.
    """
    lines, off, cut = {}, 0.0, 0.0
    for frame, key in shape.keys.items():
        meant = line_around(shape, frame, key.points)
        found = widths(key.points, [(p.x, p.y) for p in meant])
        lines[frame] = line_of_widths(key.points, [max(0.0, width) for width in found])
        gaps = (math.hypot(p.x - q.x, p.y - q.y) for p, q in zip(meant, lines[frame], strict=True))
        off = max(off, *(gap for gap, width in zip(gaps, found, strict=True) if width >= 0), 0.0)
        cut = max(cut, -min(found))
    return with_lines(shape, lines), off, cut


def widths(points: Points, outer: Sequence[Vector]) -> list[float]:
    """The feather's width at each point of a closed shape, from the points of its edge; negative inside."""
    side = 1.0 if signed_area(points) >= 0 else -1.0
    found = []
    for i, (p, (x, y)) in enumerate(zip(points, outer, strict=True)):
        (nx, ny), mitre = _mitre(points, i)
        dx, dy = x - p.x, y - p.y
        outward = 1.0 if (dx * nx + dy * ny) * side >= 0 else -1.0
        found.append(outward * math.hypot(dx, dy) / mitre)
    return found


def line_widths(points: Points, feather: Points) -> list[float]:
    """The width of a key's feather line at each control point; negative inside."""
    return widths(points, [(p.x + row.x, p.y + row.y) for p, row in zip(points, feather, strict=True)])


def span_px(shape: RotoShape) -> tuple[float, float]:
    """The narrowest and the widest feather of a shape at its keys' control points; negative inside."""
    found = [width for key in shape.keys.values() if key.feather for width in line_widths(key.points, key.feather)]
    lined = [shape.feather_px + width for width in found]
    if not lined or not all(key.feather for key in shape.keys.values()):
        lined.append(shape.feather_px)
    return min(lined), max(lined)


def mean_px(shape: RotoShape) -> float:
    """A single width for a shape's feather: its mean over the keys' control points, at least 0."""
    found = [width for key in shape.keys.values() if key.feather for width in line_widths(key.points, key.feather)]
    count = sum(len(key.points) for key in shape.keys.values())
    return shape.feather_px if not found else min(max(0.0, shape.feather_px + sum(found) / count), MOST_WIDTH_PX)


def normals(points: Points) -> list[Vector]:
    """The unit normal at each point of a closed shape, on either side; (1, 0) where a point has no direction."""
    found = [_mitre(points, i)[0] for i in range(len(points))]
    return [(x, y) if x or y else (1.0, 0.0) for x, y in found]


def _growth(points: Points, shifts: Sequence[Vector], a: int, b: int) -> float:
    """The ratio of the edge's length to the shape's between two neighbouring points; handles are scaled by it."""
    length = math.hypot(points[b].x - points[a].x, points[b].y - points[a].y)
    if length < _TINY:
        return 1.0
    x = points[b].x + shifts[b][0] - points[a].x - shifts[a][0]
    y = points[b].y + shifts[b][1] - points[a].y - shifts[a][1]
    return min(max(math.hypot(x, y) / length, 0.0), 4.0)


def _mitre(points: Points, i: int) -> tuple[Vector, float]:
    """The normal at a point, left of the curve's direction with y down, and the ratio of the mitre to the feather."""
    before = _way_direction(points, i, -1)
    after = _way_direction(points, i, 1)
    x, y = before[0] + after[0], before[1] + after[1]
    length = math.hypot(x, y)
    if length < _TINY:
        return (before[1], -before[0]), 1.0
    half = min(max(length / 2, 1.0 / LONGEST_MITRE), 1.0)
    return (y / length, -x / length), 1.0 / half


def _way_direction(points: Points, i: int, step: int) -> Vector:
    """Unit direction of the curve into a point (step -1) or out of it (step 1)."""
    p, n = points[i], len(points)
    q = points[(i + step) % n]
    near = (p.out_dx, p.out_dy) if step > 0 else (p.in_dx, p.in_dy)
    far = (q.in_dx, q.in_dy) if step > 0 else (q.out_dx, q.out_dy)
    chord = (q.x - p.x, q.y - p.y)
    for x, y in (near, (chord[0] + far[0], chord[1] + far[1]), chord):
        length = math.hypot(x, y)
        if length > _TINY:
            return step * x / length, step * y / length
    return 0.0, 0.0
