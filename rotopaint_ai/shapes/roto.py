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
from typing import Literal, NamedTuple

Role = Literal["seam", "matte"]
Source = Literal["model", "human", "propagated"]
Interpolation = Literal["linear", "hold"]

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


@dataclass(frozen=True, slots=True)
class Key:
    """A shape fixed at one frame.

    `interpolation` says how the shape goes on from here to the next key: `linear` moves every control point in a
    straight line, `hold` keeps this key until the next one.
    """

    points: Points
    source: Source = "model"
    interpolation: Interpolation = "linear"


@dataclass(frozen=True, slots=True)
class RotoShape:
    """One named spline over time. Every key has the same number of control points."""

    name: str
    closed: bool
    role: Role = "matte"
    keys: Mapping[int, Key] = field(default_factory=dict)
    width_px: float | None = None  # open splines: full width of the matte across the curve
    feather_px: float = 0.0  # softness added outside the edge
    taper: tuple[float, float] = (0.0, 0.0)  # open splines: share of the length over which each end narrows to nothing
    visible: Mapping[int, bool] = field(default_factory=dict)  # frames where it is known to be hidden carry False

    @property
    def n_points(self) -> int:
        """Control points in each key; 0 without keys."""
        return len(next(iter(self.keys.values())).points) if self.keys else 0

    @property
    def frames(self) -> tuple[int, ...]:
        """Keyed frames in ascending order."""
        return tuple(sorted(self.keys))

    def at(self, frame: float) -> Points:
        """Control points at a frame: interpolated between keys, held before the first and after the last.

        Returns the empty tuple when the shape has no key.
        """
        if frame in self.keys:
            return self.keys[int(frame)].points  # nothing to be put in order: this is asked at every step of a drag
        frames = self.frames
        if not frames:
            return ()
        after = bisect_right(frames, frame)
        if after == 0:
            return self.keys[frames[0]].points
        left = self.keys[frames[after - 1]]
        if after == len(frames) or left.interpolation == "hold":
            return left.points
        right = self.keys[frames[after]]
        weight = (frame - frames[after - 1]) / (frames[after] - frames[after - 1])
        return tuple(
            ControlPoint(*(p + (q - p) * weight for p, q in zip(a, b, strict=True)))
            for a, b in zip(left.points, right.points, strict=True)
        )

    def is_visible(self, frame: int) -> bool:
        """Whether the shape is drawn at a frame (it is, unless a frame says otherwise)."""
        return self.visible.get(frame, True)

    def with_keys(self, keys: Mapping[int, Key]) -> RotoShape:
        """The same shape with other keys."""
        return replace(self, keys=dict(keys))


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
    """For each frame in ascending order the first one of its hold: of the neighbours whose landmarks lie exactly alike.

    `rows`: landmarks by frame, in one order of names. What error is expected of them does not matter.
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

    def shape(self, name: str) -> RotoShape:
        """The shape of that name. Raises KeyError."""
        for shape in self.shapes:
            if shape.name == name:
                return shape
        raise KeyError(name)
