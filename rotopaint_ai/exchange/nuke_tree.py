"""The content of the `curves` knob of Nuke's Roto and RotoPaint nodes, as values.

Standard library only. The tree keeps everything in the file: flags, unknown attributes, expressions, strokes, and which
curves share key times.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

OPEN: Final = 32
OPEN_SPLINE: Final = 1048576
RELATIVE: Final = 8192
RENDERABLE: Final = 512
LINEAR: Final = 1  # interpolation of a key's `code`
CYCLE: Final = 2  # extrapolation of a key's `code`

LARGEST: Final = 3.4028234663852886e38  # the largest 32-bit float
KINDS = ("bezier", "bspline", "catmullrom")


class CurveKey(NamedTuple):
    """A key of one component: slopes in value per frame, weights in thirds of the span; `step` holds to the next.

    `code` is the interpolation number that a key may state, None without one. Its low byte is the interpolation: 0
    step, 1 linear, 2 cubic. The next byte is the extrapolation: 0 constant, 1 linear, 2 cycle.
    """

    time: float
    value: float
    left_slope: float = 0.0
    left_weight: float = 1.0
    right_slope: float = 0.0
    right_weight: float = 1.0
    step: bool = True
    code: int | None = None

    @property
    def is_straight(self) -> bool:
        """Whether the curve is linear up to the next key, regardless of its slopes."""
        return self.code is not None and self.code & 255 == LINEAR


class Views(NamedTuple):
    """Curves of several views: the names, the one that is read, and the original block of the file."""

    names: tuple[str, ...]
    read: str
    text: str


@dataclass(frozen=True, slots=True)
class NukeCurve:
    """One component over time: keys, or a constant where there are none.

    An expression keeps the value or keys that the file stores for it; `is_bare` means that the file stores none. Where
    the file holds a curve for each view of a stereo pair, this is the curve of the view that `views` names.
    """

    constant: float = 0.0
    keys: tuple[CurveKey, ...] = ()
    expression: str | None = None
    is_bare: bool = False
    views: Views | None = None

    def at(self, time: float) -> float:
        """Value at a frame; constant before the first key and after the last."""
        keys = self.keys
        if not keys:
            return self.constant
        after = bisect_right(keys, time, key=lambda key: key.time)
        if after == 0:
            return keys[0].value
        left = keys[after - 1]
        if after == len(keys) or left.step or left.time == time:
            return left.value
        if left.is_straight:
            right = keys[after]
            return left.value + (right.value - left.value) * (time - left.time) / (right.time - left.time)
        return _cubic_value(left, keys[after], time)

    def slope(self, time: float, is_leaving: bool) -> float:
        """The slope after a frame (`is_leaving`) or before it, in value per frame.

        Valid for cubics whose weights are 1.
        """
        find = bisect_right if is_leaving else bisect_left
        after = find(self.keys, time, key=lambda key: key.time)
        if after in (0, len(self.keys)) or self.keys[after - 1].step:
            return 0.0
        left, right = self.keys[after - 1], self.keys[after]
        span = right.time - left.time
        chord = (right.value - left.value) / span
        if left.is_straight:
            return chord
        if time in (left.time, right.time):
            return left.right_slope if time == left.time else right.left_slope
        u = (time - left.time) / span
        return 6 * u * (1 - u) * chord + (1 - u) * (1 - 3 * u) * left.right_slope + u * (3 * u - 2) * right.left_slope


def _cubic_value(left: CurveKey, right: CurveKey, time: float) -> float:
    """Value between two keys: a cubic whose handles lie `weight / 3` of the span along each slope."""
    span = right.time - left.time
    u = (time - left.time) / span
    a, b = left.right_weight / 3.0, right.left_weight / 3.0
    if left.right_weight != 1.0 or right.left_weight != 1.0:
        u = _solve_time(a, b, u)
    p1 = left.value + left.right_slope * a * span
    p2 = right.value - right.left_slope * b * span
    v = 1.0 - u
    return v * v * v * left.value + 3 * v * v * u * p1 + 3 * v * u * u * p2 + u * u * u * right.value


def _solve_time(a: float, b: float, x: float) -> float:
    """The parameter at which the time polynomial with handles a and 1 - b reaches x, by bisection (it increases)."""
    low, high = 0.0, 1.0
    for _ in range(52):
        u = (low + high) / 2
        v = 1.0 - u
        if 3 * v * v * u * a + 3 * v * u * u * (1 - b) + u * u * u < x:
            low = u
        else:
            high = u
    return (low + high) / 2


Attributes = tuple[tuple[str, NukeCurve], ...]
Times = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One entry of a point list: up to three components, and its attributes."""

    values: tuple[NukeCurve, ...]
    attributes: Attributes = ()


@dataclass(frozen=True, slots=True)
class NukeCubic:
    """A `cc` block. `times` are the shared key times of the `px` form; None is the `p` form."""

    flags: int
    times: Times | None
    points: Sequence[CurvePoint]


@dataclass(frozen=True, slots=True)
class NukeTransform:
    """A transform list: up to 35 components; `times` as in `NukeCubic`."""

    times: Times | None
    values: tuple[NukeCurve, ...]


@dataclass(frozen=True, slots=True)
class NukeShape:
    """A `curvegroup`: outline and feather curve; None is Nuke's `idem`, a shape without a feather line."""

    name: str
    flags: int
    kind: str
    outline: NukeCubic
    feather: NukeCubic | None
    transform: NukeTransform
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class NukeStroke:
    """A `cubiccurve`: a paint stroke."""

    name: str
    flags: int
    kind: str
    cubic: NukeCubic
    transform: NukeTransform
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class NukeLayer:
    """A layer and its elements, in file order."""

    name: str
    flags: int
    transform: NukeTransform
    attributes: Attributes
    children: tuple[NukeLayer | NukeShape | NukeStroke, ...]


@dataclass(frozen=True, slots=True)
class CurvesTree:
    """A whole `curves` value."""

    version: float
    flags: int
    root: NukeLayer


def unquote(name: str) -> str:
    """An element's name without the quotes and backslashes that protect it in a script."""
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = name[1:-1]
    return re.sub(r"\\(.)", r"\1", name, flags=re.DOTALL)


def as_float32(value: float) -> float:
    """The nearest 32-bit float: the value that a `.nk` will hold."""
    return float(struct.unpack(">f", struct.pack(">f", value))[0])


def values_of(curve: NukeCurve) -> list[float]:
    """The values of a curve's keys; its constant where there are none."""
    return [key.value for key in curve.keys] or [curve.constant]
