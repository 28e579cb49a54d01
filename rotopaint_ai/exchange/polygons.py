"""Shapes as polygons, one per picture, as in data sets for computer vision.

Standard library only. Curves are flattened to within FLAT_PX. A shape has the same number of vertices at every frame,
so that it stays one shape over time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import parsing, stroke_outlines
from rotopaint_ai.exchange.features import Feature
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoDocument, RotoShape

FLAT_PX: Final = 0.05
MOST_PICTURES: Final = 5_000
MOST_CELLS: Final = 2_000_000  # limit of shapes times pictures, because each shape lists its hidden frames
SETTLED: Final[frozenset[Feature]] = frozenset(
    ("tangents", "points", "open", "keys", "holds", "feather", "width", "taper")
)  # losses that `to_polygons` already includes
_MOST_PIECES: Final = 64
_DIGITS: Final = re.compile(r"(\d+)(?=\D*$)")


@dataclass(frozen=True, slots=True)
class FramePolygon:
    """One polygon or line of one picture, in plate space."""

    frame: int
    name: str
    closed: bool
    points: Points


def to_polygons(document: RotoDocument, *, open_lines: bool) -> RotoDocument:
    """The document with straight segments only, and a key at every frame at which a shape is visible.

    With `open_lines` open shapes stay lines; otherwise they become closed bands of their width.
    """
    source = document if open_lines else stroke_outlines.closed_strokes(document)
    shapes = [_flat(shape, document) for shape in source.shapes if shape.keys]
    return replace(document, shapes=tuple(shape for shape in shapes if shape.keys))


def _flat(shape: RotoShape, document: RotoDocument) -> RotoShape:
    pieces = _lines_per_segment(shape)
    every = range(document.first_frame, document.last_frame + 1)
    keys: dict[int, Key] = {}
    for frame in every:
        if shape.is_visible(frame):
            keys[frame] = Key(_polyline(shape.at(frame), shape.closed, pieces), "human")
    hidden = {frame: False for frame in every if not shape.is_visible(frame)}
    return RotoShape(shape.name, shape.closed, parsing.role_of(shape.name, shape.closed), keys, visible=hidden)


def _segment_pairs(points: Points, closed: bool) -> list[tuple[ControlPoint, ControlPoint]]:
    return list(pairwise(points)) + ([(points[-1], points[0])] if closed and len(points) > 1 else [])


def _lines_per_segment(shape: RotoShape) -> tuple[int, ...]:
    """The number of lines for each segment, sufficient at every key.

    Divided into n lines, a cubic deviates by at most 3/4 of its second difference over n^2.
    """
    counts = [1] * len(_segment_pairs(next(iter(shape.keys.values())).points, shape.closed))
    for key in shape.keys.values():
        for i, (a, b) in enumerate(_segment_pairs(key.points, shape.closed)):
            if not any((a.out_dx, a.out_dy, b.in_dx, b.in_dy)):
                continue  # straight, even if its parameter is not uniform
            bend = max(
                math.hypot(a.out_dx * 2 - (b.x + b.in_dx - a.x), a.out_dy * 2 - (b.y + b.in_dy - a.y)),
                math.hypot(b.in_dx * 2 - (a.x + a.out_dx - b.x), b.in_dy * 2 - (a.y + a.out_dy - b.y)),
            )
            counts[i] = max(counts[i], min(_MOST_PIECES, math.ceil(math.sqrt(0.75 * bend / FLAT_PX))))
    return tuple(counts)


@lru_cache(maxsize=512)  # reused by held poses, and when a written file is compared
def _polyline(points: Points, closed: bool, pieces: tuple[int, ...]) -> Points:
    line = [ControlPoint(points[0].x, points[0].y)]
    for (a, b), count in zip(_segment_pairs(points, closed), pieces, strict=True):
        line += [_point_on(a, b, step / count) for step in range(1, count + 1)]
    return tuple(line[:-1] if closed and len(line) > 1 else line)


def _point_on(a: ControlPoint, b: ControlPoint, t: float) -> ControlPoint:
    u = 1.0 - t
    w0, w1, w2, w3 = u**3, 3 * u * u * t, 3 * u * t * t, t**3
    return ControlPoint(
        w0 * a.x + w1 * (a.x + a.out_dx) + w2 * (b.x + b.in_dx) + w3 * b.x,
        w0 * a.y + w1 * (a.y + a.out_dy) + w2 * (b.y + b.in_dy) + w3 * b.y,
    )


def polygon_area(points: Points) -> float:
    """Area of a polygon in square pixels."""
    ring = [*points[1:], *points[:1]]
    return abs(sum(a.x * b.y - b.x * a.y for a, b in zip(points, ring, strict=True))) / 2


def frame_of(name: str, default: int) -> int:
    """The frame number in a picture's name: its last run of digits, before the suffix."""
    stem = name.replace("\\", "/").rsplit("/", 1)[-1].split(".", 1)
    found = _DIGITS.search(name if len(stem) < 2 else name.rsplit(".", 1)[0])
    return int(found[1]) if found and len(found[1]) <= 9 else default


def assemble(rows: Iterable[FramePolygon], frames: Sequence[int], where: str) -> tuple[RotoShape, ...]:
    """Shapes over time from polygons of pictures. Polygons with the same name and number of points form one shape.

    A shape is hidden in pictures without its polygon.

    `frames` are those of all pictures. Raises DocumentError where that would fill the memory.
    """
    tracks: dict[str, tuple[bool, int, dict[int, Points]]] = {}
    counts: dict[tuple[str, int, bool, int], int] = {}  # the first number of a name that a polygon may use
    for row in rows:
        kind = (row.name, row.frame, row.closed, len(row.points))
        count = counts.get(kind, 1)
        name = row.name if count == 1 else f"{row.name}_{count}"
        while not _fits_track(tracks.get(name), row):
            count += 1
            name = f"{row.name}_{count}"
        counts[kind] = count
        tracks.setdefault(name, (row.closed, len(row.points), {}))[2][row.frame] = row.points
        if len(tracks) * len(frames) > MOST_CELLS:
            raise DocumentError(
                f"{where}: {len(frames):,} pictures with more than {len(tracks):,} shapes; split the file"
            )
    return tuple(_shape_of_track(name, closed, keys, frames) for name, (closed, _, keys) in tracks.items())


def _fits_track(track: tuple[bool, int, dict[int, Points]] | None, row: FramePolygon) -> bool:
    return track is None or (track[:2] == (row.closed, len(row.points)) and row.frame not in track[2])


def _shape_of_track(name: str, closed: bool, keys: dict[int, Points], frames: Sequence[int]) -> RotoShape:
    shape = parsing.foreign_shape(name, closed, keys)
    return replace(shape, visible={frame: False for frame in sorted(frames) if frame not in keys})
