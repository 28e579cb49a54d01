"""The roto document: landmarks and shapes of a shot as frozen values.

Standard library only, so that a host's own Python can load it.
Convention: plate space, pixels, x right, y down, origin at the outer corner of the top-left pixel, pixel centres at
+0.5. Tangents are offsets from their control point. Frames are the integers on disk.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from rotopaint_ai.shapes import between
from rotopaint_ai.shapes.layers import IDENTITY, Layer, in_order, linear_part, transform_row, way_back

Role = Literal["seam", "matte"]
Source = Literal["model", "human", "propagated"]
Interpolation = Literal["linear", "hold", "ease", "smooth"]

DEFAULT_WIDTH_PX = 4.0  # of an open shape without a width: a hairline seam and one pixel on either side


class ControlPoint(NamedTuple):
    """A cubic Bezier control point in plate space: position, incoming and outgoing tangent offsets (pixels)."""

    x: float
    y: float
    in_dx: float = 0.0
    in_dy: float = 0.0
    out_dx: float = 0.0
    out_dy: float = 0.0


Points = tuple[ControlPoint, ...]
Rows = between.Rows


class StrokeWidth(NamedTuple):
    """The distances of a stroke's edges to the left and right of its direction (y down), and its feather."""

    left_px: float
    right_px: float
    feather_px: float = 0.0


Widths = tuple[StrokeWidth, ...]
Metadata = Mapping[str, Any]  # data that only one format uses, JSON values by the format's name


@dataclass(frozen=True, slots=True)
class Slopes:
    """The rate of each number of a key, leaving this key and arriving at the next, in pixels per frame.

    One row per control point; the feather rows are empty if neither key has a feather line.
    """

    leaving: Points
    arriving: Points
    feather_leaving: Points = ()
    feather_arriving: Points = ()


@dataclass(frozen=True, slots=True)
class Key:
    """A shape fixed at one frame.

    `interpolation` to the next key: `linear` moves every control point in a straight line; `hold` keeps this key;
    `ease` starts and ends at rest; `smooth` is a cubic through the keys, with these `slopes` or, if None, those of
    `between.spline_slopes`.
    `feather`: the feather line of a closed shape, where its feather ends; one row per control point with its offset
    from the point and its own tangents. Outside the edge it softens outwards, inside inwards. `widths`: an open shape's
    profile, one row per control point. Both may be empty: no feather line, constant width.
    """

    points: Points
    source: Source = "model"
    interpolation: Interpolation = "linear"
    feather: Points = ()
    widths: Widths = ()
    slopes: Slopes | None = None

    def reversed(self) -> Key:
        """The same curve of an open shape from its other end."""
        widths = tuple(StrokeWidth(row.right_px, row.left_px, row.feather_px) for row in self.widths[::-1])
        slopes = self.slopes and Slopes(_reverse_open(self.slopes.leaving), _reverse_open(self.slopes.arriving))
        return replace(self, points=_reverse_open(self.points), widths=widths, slopes=slopes)


def _reverse_open(points: Points) -> Points:
    return tuple(ControlPoint(*row[:2], *row[4:6], *row[2:4]) for row in points[::-1])


@dataclass(frozen=True, slots=True)
class RotoShape:
    """One named spline over time. Every key has the same number of control points."""

    name: str
    closed: bool
    role: Role = "matte"
    keys: Mapping[int, Key] = field(default_factory=dict)
    width_px: float | None = None  # open splines: full width of the matte
    feather_px: float = 0.0  # softness outside the edge, or outside the feather line
    taper: tuple[float, float] = (0.0, 0.0)  # open splines: share of the length over which each end narrows to zero
    visible: Mapping[int, bool] = field(default_factory=dict)  # False at frames where it is hidden
    subtract: bool = False  # its matte is subtracted from those of all other shapes
    layer: Layer | None = None  # moves the shape between and beyond its keys
    metadata: Metadata = field(default_factory=dict, compare=False)

    @property
    def n_points(self) -> int:
        """Control points in each key; 0 without keys."""
        return len(next(iter(self.keys.values())).points) if self.keys else 0

    @property
    def frames(self) -> tuple[int, ...]:
        """Keyed frames in ascending order."""
        return tuple(sorted(self.keys))

    @property
    def has_feather_line(self) -> bool:
        """Whether a key has a feather line."""
        return any(key.feather for key in self.keys.values())

    @property
    def has_widths(self) -> bool:
        """Whether a key has a width profile."""
        return any(key.widths for key in self.keys.values())

    def at(self, frame: float) -> Points:
        """Control points at a frame: interpolated between keys, constant before the first and after the last.

        Empty if the shape has no key.
        """
        if frame in self.keys:
            return self.keys[int(frame)].points  # the fast path: called at every step of a drag
        left, right = self._around(frame)
        if left is None:
            return ()
        if right is None and self.layer is None:
            return self.keys[left].points
        within = self._between(left, right, frame, is_feather=False)
        return tuple(ControlPoint(*row) for row in (within if self.layer is None else self._transformed(within, frame)))

    def feather_at(self, frame: float) -> Points:
        """The feather line at a frame, as in keys; empty if no key has one. Keys without one use the shape's edge."""
        if not self.has_feather_line:
            return ()
        left, right = (frame, None) if frame in self.keys else self._around(frame)
        assert left is not None  # some key has a feather line
        if right is None and (self.layer is None or left == frame):
            return self._feather(int(left))
        within = self._between(int(left), right, frame, is_feather=True)
        if self.layer is not None:
            within = self._transformed(within, frame, self._between(int(left), right, frame, is_feather=False))
        return tuple(ControlPoint(*row) for row in within)

    def widths_at(self, frame: float) -> Widths:
        """The width profile of an open shape at a frame; empty if no key has one. Always interpolated linearly."""
        if not self.has_widths:
            return ()
        left, right = (frame, None) if frame in self.keys else self._around(frame)
        assert left is not None
        if right is None:
            return self._widths(int(left))
        share = (frame - left) / (right - left)
        rows = between.interpolate_linear(self._widths(int(left)), self._widths(right), share)
        return tuple(StrokeWidth(*row) for row in rows)

    def _around(self, frame: float) -> tuple[int | None, int | None]:
        """The keys before and after a frame without a key; the second is None if the shape is constant there."""
        frames = self.frames
        if not frames:
            return None, None
        after = bisect_right(frames, frame)
        left = frames[max(after - 1, 0)]
        is_held = after in (0, len(frames)) or self.keys[left].interpolation == "hold"
        return left, None if is_held else frames[after]

    def _between(self, left: int, right: int | None, frame: float, *, is_feather: bool) -> Rows:
        """Interpolated rows in layer space; the left key's rows if `right` is None."""
        key = self.keys[left]
        if right is None:
            return self._rows(left, is_feather)
        span = right - left
        share = (frame - left) / span
        a, b = self._rows(left, is_feather), self._rows(right, is_feather)
        if key.interpolation == "smooth":
            return between.hermite(a, b, *self.slopes_between(left, right, is_feather), share, span)
        return between.interpolate_linear(a, b, between.ease(share) if key.interpolation == "ease" else share)

    def slopes_between(self, left: int, right: int, is_feather: bool = False) -> tuple[Rows, Rows]:
        """Slopes of a smooth key and of the next: the stored ones, else those computed from neighbouring keys."""
        stated = self.keys[left].slopes
        if stated is not None and not is_feather:
            return self._slopes_in_layer(stated.leaving, left), self._slopes_in_layer(stated.arriving, right)
        if stated is not None and stated.feather_leaving:
            return self._slopes_in_layer(stated.feather_leaving, left), self._slopes_in_layer(
                stated.feather_arriving, right
            )
        frames = self.frames
        place = frames.index(left)
        before = frames[place - 1] if place and self.keys[frames[place - 1]].interpolation == "smooth" else None
        runs_on = self.keys[right].interpolation == "smooth" and place + 2 < len(frames)
        return (
            self._slopes_at(before, left, right, is_feather),
            self._slopes_at(left, right, frames[place + 2] if runs_on else None, is_feather),
        )

    def slopes_within(self, left: int, right: int, frame: int, is_feather: bool = False) -> Points:
        """Slopes in plate space at a frame between two neighbouring keys, of which the first is `ease` or `smooth`."""
        a, b = self._rows(left, is_feather), self._rows(right, is_feather)
        still = [[0.0] * len(row) for row in a]
        is_smooth = self.keys[left].interpolation == "smooth"
        leaving, arriving = self.slopes_between(left, right, is_feather) if is_smooth else (still, still)
        span = right - left
        rows = between.hermite_slopes(a, b, leaving, arriving, (frame - left) / span, span)
        matrix = IDENTITY if self.layer is None else linear_part(self.layer.matrix_at(frame))
        return tuple(ControlPoint(*transform_row(matrix, tuple(row))) for row in rows)

    def _slopes_at(self, before: int | None, here: int, after: int | None, is_feather: bool) -> Rows:
        a, c = (None if frame is None else self._rows(frame, is_feather) for frame in (before, after))
        gaps = 0 if before is None else here - before, 0 if after is None else after - here
        return between.spline_slopes(a, self._rows(here, is_feather), c, *gaps)

    def _rows(self, frame: int, is_feather: bool) -> Rows:
        """The rows of a key in layer space."""
        rows = self._feather(frame) if is_feather else self.keys[frame].points
        if self.layer is None:
            return rows
        return self._transformed(rows, frame, self.keys[frame].points if is_feather else None, is_back=True)

    def _transformed(self, rows: Rows, frame: float, around: Rows | None = None, *, is_back: bool = False) -> Rows:
        """Transform rows from layer to plate space at a frame, or back; feather rows are offsets from the points
        `around`."""
        matrix = IDENTITY if self.layer is None else self.layer.matrix_at(frame)
        matrix = way_back(matrix) if is_back else matrix
        places = [None] * len(rows) if around is None else [(row[0], row[1]) for row in around]
        return [transform_row(matrix, tuple(row), place) for row, place in zip(rows, places, strict=True)]

    def _slopes_in_layer(self, slopes: Points, frame: int) -> Rows:
        """Slopes of a key in layer space."""
        if self.layer is None:
            return slopes
        matrix = way_back(linear_part(self.layer.matrix_at(frame)))
        return [transform_row(matrix, tuple(row)) for row in slopes]

    def _feather(self, frame: int) -> Points:
        key = self.keys[frame]
        return key.feather or tuple(p._replace(x=0.0, y=0.0) for p in key.points)

    def _widths(self, frame: int) -> Widths:
        key = self.keys[frame]
        half = (DEFAULT_WIDTH_PX if self.width_px is None else self.width_px) / 2
        return key.widths or (StrokeWidth(half, half, self.feather_px),) * len(key.points)

    def is_visible(self, frame: int) -> bool:
        """Whether the shape is drawn at a frame (the default)."""
        return self.visible.get(frame, True)

    def with_keys(self, keys: Mapping[int, Key]) -> RotoShape:
        """The same shape with other keys."""
        return replace(self, keys=dict(keys))


def largest_move(a: Points, b: Points) -> float:
    """The largest distance between equal control points of two curves, in their units; infinite for other numbers."""
    if len(a) != len(b):
        return math.inf
    return max((math.hypot(p.x - q.x, p.y - q.y) for p, q in zip(a, b)), default=0.0)


def feather_line(points: Points, feather: Points) -> Points:
    """The feather line in plate space, from a key's points and feather rows."""
    return tuple(row._replace(x=p.x + row.x, y=p.y + row.y) for p, row in zip(points, feather, strict=True))


def feather_rows(points: Points, line: Points) -> Points:
    """The feather rows of a key, from its feather line in plate space."""
    return tuple(row._replace(x=row.x - p.x, y=row.y - p.y) for p, row in zip(points, line, strict=True))


class Landmark(NamedTuple):
    """A named point at a frame, plate space, with its expected error in pixels."""

    x: float
    y: float
    expected_error_px: float = 0.0


@dataclass(frozen=True, slots=True)
class LandmarkKeys:
    """Landmarks of a shot: one tuple per frame in the order of `names`; an occluded one is None."""

    names: tuple[str, ...] = ()
    keys: Mapping[int, tuple[Landmark | None, ...]] = field(default_factory=dict)
    hand: Mapping[int, frozenset[str]] = field(default_factory=dict)  # names placed by a person, per frame


def hold_starts(rows: Mapping[int, Sequence[Landmark | None]]) -> dict[int, int]:
    """For each frame in ascending order, the first frame of its hold, whose frames have exactly equal landmarks.

    `rows`: landmarks by frame, in one order of names. Their expected errors are ignored.
    """
    frames = sorted(rows)
    starts = {frame: frame for frame in frames}
    for before, frame in pairwise(frames):
        if _lie_alike(rows[before], rows[frame]):
            starts[frame] = starts[before]
    return starts


def _lie_alike(a: Sequence[Landmark | None], b: Sequence[Landmark | None]) -> bool:
    return len(a) == len(b) and all(p == q or (p and q and p[:2] == q[:2]) for p, q in zip(a, b))


@dataclass(frozen=True, slots=True)
class RotoDocument:
    """The roto of a shot. An edit returns a new document."""

    width: int
    height: int
    first_frame: int
    last_frame: int
    pixel_aspect: float = 1.0
    fps: float = 24.0
    landmarks: LandmarkKeys = field(default_factory=LandmarkKeys)
    shapes: tuple[RotoShape, ...] = ()
    metadata: Metadata = field(default_factory=dict, compare=False)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of its shapes, parents before their children."""
        return in_order(shape.layer for shape in self.shapes)

    def shape(self, name: str) -> RotoShape:
        """The shape of that name. Raises KeyError."""
        for shape in self.shapes:
            if shape.name == name:
                return shape
        raise KeyError(name)
