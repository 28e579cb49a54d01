"""The roto document: landmarks and shapes of a shot as frozen values, in plain Python.

Standard library only, so that a host's own Python can load it.

Convention: plate space, pixels, x right, y down, origin at the outer corner of the top-left pixel, pixel centres at
+0.5. Tangents are offsets from their control point. Frames are the integers on disk.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from rotopaint_ai.shapes import between
from rotopaint_ai.shapes.layers import IDENTITY, Layer, in_order, linear_part, moved_row, way_back

Role = Literal["seam", "matte"]
Source = Literal["model", "human", "propagated"]
Interpolation = Literal["linear", "hold", "ease", "smooth"]

DEFAULT_WIDTH_PX = 4.0  # an open shape that states no width: a hairline seam with a pixel to spare on either side


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
    """How far a stroke reaches at a control point to the left and right of its way (y down), and its feather."""

    left_px: float
    right_px: float
    feather_px: float = 0.0


Widths = tuple[StrokeWidth, ...]
Metadata = Mapping[str, Any]  # data that only one format uses, JSON values by the format's name


@dataclass(frozen=True, slots=True)
class Slopes:
    """How fast each number of a key leaves it and arrives at the next key, pixels a frame.

    A row for each control point; those of the feather are empty where neither key has one.
    """

    leaving: Points
    arriving: Points
    feather_leaving: Points = ()
    feather_arriving: Points = ()


@dataclass(frozen=True, slots=True)
class Key:
    """A shape fixed at one frame.

    `interpolation` says how the shape goes on from here to the next key: `linear` moves every control point in a
    straight line, `hold` keeps this key until the next one, `ease` leaves and arrives at rest, `smooth` runs through
    the keys without a jerk: with these `slopes`, or with those of `between.spline_slopes` where it states none.

    `feather`: the line at which the feather of a closed shape ends, a row for each control point: its offset from the
    control point, then its own tangents. Outside the edge it softens outwards, inside inwards. `widths`: an open
    shape's profile, a row for each control point. Both may be empty: no line of its own, the shape's one width.
    """

    points: Points
    source: Source = "model"
    interpolation: Interpolation = "linear"
    feather: Points = ()
    widths: Widths = ()
    slopes: Slopes | None = None


@dataclass(frozen=True, slots=True)
class RotoShape:
    """One named spline over time. Every key has the same number of control points."""

    name: str
    closed: bool
    role: Role = "matte"
    keys: Mapping[int, Key] = field(default_factory=dict)
    width_px: float | None = None  # open splines: full width of the matte across the curve
    feather_px: float = 0.0  # softness added outside the edge, or outside the keys' feather line
    taper: tuple[float, float] = (0.0, 0.0)  # open splines: share of the length over which each end narrows to nothing
    visible: Mapping[int, bool] = field(default_factory=dict)  # frames where it is known to be hidden carry False
    subtract: bool = False  # a hold-out: its matte is subtracted from those of all other shapes
    layer: Layer | None = None  # what moves it between its keys and beyond them
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
        """Whether a key has a feather at each control point."""
        return any(key.feather for key in self.keys.values())

    @property
    def has_widths(self) -> bool:
        """Whether a key has a width at each control point."""
        return any(key.widths for key in self.keys.values())

    def at(self, frame: float) -> Points:
        """Control points at a frame: interpolated between keys, held before the first and after the last.

        Returns the empty tuple when the shape has no key.
        """
        if frame in self.keys:
            return self.keys[int(frame)].points  # nothing to be put in order: this is asked at every step of a drag
        left, right = self._around(frame)
        if left is None:
            return ()
        if right is None and self.layer is None:
            return self.keys[left].points
        within = self._between(left, right, frame, is_feather=False)
        return tuple(ControlPoint(*row) for row in (within if self.layer is None else self._moved(within, frame)))

    def feather_at(self, frame: float) -> Points:
        """The feather line at a frame, as keys have it; empty where no key has one. A key without one has it at 0."""
        if not self.has_feather_line:
            return ()
        left, right = (frame, None) if frame in self.keys else self._around(frame)
        assert left is not None  # some key has a feather
        if right is None and (self.layer is None or left == frame):
            return self._feather(int(left))
        within = self._between(int(left), right, frame, is_feather=True)
        if self.layer is not None:
            within = self._moved(within, frame, self._between(int(left), right, frame, is_feather=False))
        return tuple(ControlPoint(*row) for row in within)

    def widths_at(self, frame: float) -> Widths:
        """The profile of an open shape at a frame; empty where no key has one. It moves in straight lines."""
        if not self.has_widths:
            return ()
        left, right = (frame, None) if frame in self.keys else self._around(frame)
        assert left is not None
        if right is None:
            return self._widths(int(left))
        share = (frame - left) / (right - left)
        rows = between.straight(self._widths(int(left)), self._widths(right), share)
        return tuple(StrokeWidth(*row) for row in rows)

    def _around(self, frame: float) -> tuple[int | None, int | None]:
        """The keys before and after a frame without a key; the second is None where the first is a hold."""
        frames = self.frames
        if not frames:
            return None, None
        after = bisect_right(frames, frame)
        left = frames[max(after - 1, 0)]
        is_held = after in (0, len(frames)) or self.keys[left].interpolation == "hold"
        return left, None if is_held else frames[after]

    def _between(self, left: int, right: int | None, frame: float, *, is_feather: bool) -> Rows:
        """Rows as the layer sees them, where there is one; those of the key on the left where nothing is right."""
        key = self.keys[left]
        if right is None:
            return self._rows(left, is_feather)
        span = right - left
        share = (frame - left) / span
        a, b = self._rows(left, is_feather), self._rows(right, is_feather)
        if key.interpolation == "smooth":
            return between.hermite(a, b, *self.slopes_between(left, right, is_feather), share, span)
        return between.straight(a, b, between.ease(share) if key.interpolation == "ease" else share)

    def slopes_between(self, left: int, right: int, is_feather: bool = False) -> tuple[Rows, Rows]:
        """Slopes out of a smooth key and into the next: those it states, else those that its neighbours make."""
        stated = self.keys[left].slopes
        if stated is not None and not is_feather:
            return self._turned(stated.leaving, left), self._turned(stated.arriving, right)
        if stated is not None and stated.feather_leaving:
            return self._turned(stated.feather_leaving, left), self._turned(stated.feather_arriving, right)
        frames = self.frames
        place = frames.index(left)
        before = frames[place - 1] if place and self.keys[frames[place - 1]].interpolation == "smooth" else None
        runs_on = self.keys[right].interpolation == "smooth" and place + 2 < len(frames)
        return (
            self._slopes_at(before, left, right, is_feather),
            self._slopes_at(left, right, frames[place + 2] if runs_on else None, is_feather),
        )

    def _slopes_at(self, before: int | None, here: int, after: int | None, is_feather: bool) -> Rows:
        a, c = (None if frame is None else self._rows(frame, is_feather) for frame in (before, after))
        gaps = 0 if before is None else here - before, 0 if after is None else after - here
        return between.spline_slopes(a, self._rows(here, is_feather), c, *gaps)

    def _rows(self, frame: int, is_feather: bool) -> Rows:
        """What a key says, as the layer sees it."""
        rows = self._feather(frame) if is_feather else self.keys[frame].points
        if self.layer is None:
            return rows
        return self._moved(rows, frame, self.keys[frame].points if is_feather else None, is_back=True)

    def _moved(self, rows: Rows, frame: float, around: Rows | None = None, *, is_back: bool = False) -> Rows:
        """Rows from the layer to the plate at a frame, or back; those of a feather are offsets from rows `around`."""
        matrix = IDENTITY if self.layer is None else self.layer.matrix_at(frame)
        matrix = way_back(matrix) if is_back else matrix
        places = [None] * len(rows) if around is None else [(row[0], row[1]) for row in around]
        return [moved_row(matrix, tuple(row), place) for row, place in zip(rows, places, strict=True)]

    def _turned(self, slopes: Points, frame: int) -> Rows:
        """Slopes of a key as the layer sees them."""
        if self.layer is None:
            return slopes
        matrix = way_back(linear_part(self.layer.matrix_at(frame)))
        return [moved_row(matrix, tuple(row)) for row in slopes]

    def _feather(self, frame: int) -> Points:
        key = self.keys[frame]
        return key.feather or tuple(p._replace(x=0.0, y=0.0) for p in key.points)

    def _widths(self, frame: int) -> Widths:
        key = self.keys[frame]
        half = (DEFAULT_WIDTH_PX if self.width_px is None else self.width_px) / 2
        return key.widths or (StrokeWidth(half, half, self.feather_px),) * len(key.points)

    def is_visible(self, frame: int) -> bool:
        """Whether the shape is drawn at a frame (it is, unless a frame says otherwise)."""
        return self.visible.get(frame, True)

    def with_keys(self, keys: Mapping[int, Key]) -> RotoShape:
        """The same shape with other keys."""
        return replace(self, keys=dict(keys))


def feather_line(points: Points, feather: Points) -> Points:
    """The curve at which a feather ends in plate space, from a key's points and feather rows."""
    return tuple(row._replace(x=p.x + row.x, y=p.y + row.y) for p, row in zip(points, feather, strict=True))


def feather_rows(points: Points, line: Points) -> Points:
    """The feather rows of a key from the curve at which its feather ends."""
    return tuple(row._replace(x=row.x - p.x, y=row.y - p.y) for p, row in zip(points, line, strict=True))


class Landmark(NamedTuple):
    """A named point at a frame, plate space, with the error in pixels to be expected of it."""

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
    """Everything that the product knows of a shot's roto. An edit returns a new document."""

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
