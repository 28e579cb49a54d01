"""Layers: shapes that move together by a keyed transform or by a planar track.

Standard library only. Keys of shapes are in plate space; a layer moves its shapes between and beyond their keys.
Between keys A and B with layer matrix M, points interpolate in layer space: M(f) ((1 - u) M(a)^-1 A + u M(b)^-1 B).
Moving a layer moves the keys too.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.shapes import between

Matrix = tuple[float, ...]  # 3 x 3, row by row, plate space
IDENTITY: Matrix = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
LEAST_SCALE = 0.001
_STILL = 1e-9  # largest deviation of a matrix from the identity that moves nothing
SixNumbers = tuple[float, ...]


class LayerPose(NamedTuple):
    """A transform: scale about the pivot, rotate clockwise on the screen, then shift; plate pixels and degrees."""

    x: float = 0.0
    y: float = 0.0
    degrees: float = 0.0
    scale_x: float = 1.0
    scale_y: float = 1.0
    pivot_x: float = 0.0
    pivot_y: float = 0.0

    @property
    def matrix(self) -> Matrix:
        """The matrix of the transform; pixels count as square, as in Nuke."""
        cosine, sine = math.cos(math.radians(self.degrees)), math.sin(math.radians(self.degrees))
        a, b, d, e = cosine * self.scale_x, -sine * self.scale_y, sine * self.scale_x, cosine * self.scale_y
        x, y = self.pivot_x, self.pivot_y
        return a, b, x + self.x - a * x - b * y, d, e, y + self.y - d * x - e * y, 0.0, 0.0, 1.0


@dataclass(frozen=True, slots=True)
class Layer:
    """A named transform over time; its `parent` moves it in turn.

    `poses`: keys, interpolated linearly, constant before the first and after the last. `track`: matrices from the
    tracked frame to others, frame by frame, linear in between; applied before the pose, so that poses correct it.
    """

    name: str
    poses: Mapping[int, LayerPose] = field(default_factory=dict)
    track: Mapping[int, Matrix] = field(default_factory=dict)
    parent: Layer | None = None

    def __post_init__(self) -> None:
        for frame, pose in self.poses.items():
            if not all(map(math.isfinite, pose)) or min(abs(pose.scale_x), abs(pose.scale_y)) < LEAST_SCALE:
                raise DocumentError(
                    f"layer '{self.name}': frame {frame} is scaled by {pose.scale_x:g}, {pose.scale_y:g}; "
                    f"wanted finite numbers and scales of at least {LEAST_SCALE}"
                )
        for frame, matrix in self.track.items():
            if len(matrix) != 9 or not all(map(math.isfinite, matrix)) or abs(_determinant(matrix)) < 1e-9:
                raise DocumentError(f"layer '{self.name}': the track at frame {frame} cannot be inverted; track again")

    def pose_at(self, frame: float) -> LayerPose:
        """The pose at a frame."""
        row = _row_at(self.poses, frame)
        return LayerPose() if row is None else LayerPose(*row)

    def matrix_at(self, frame: float) -> Matrix:
        """The matrix of the layer at a frame, its parents included."""
        own = self.pose_at(frame).matrix if self.poses else IDENTITY
        if self.track:
            row = _row_at(self.track, frame)
            assert row is not None
            own = product(own, row)
        return own if self.parent is None else product(self.parent.matrix_at(frame), own)

    def placement_at(self, frame: float) -> Matrix:
        """The transform of the poses of a layer and its parents at a frame; tracks are ignored."""
        whole = self.matrix_at(frame)
        if not any(each.track for each in self.chain):
            return whole
        return product(whole, way_back(self._without_poses().matrix_at(frame)))

    def _without_poses(self) -> Layer:
        return Layer(self.name, track=self.track, parent=self.parent and self.parent._without_poses())

    @property
    def chain(self) -> tuple[Layer, ...]:
        """The layer and its parents, outermost first."""
        return (self,) if self.parent is None else (*self.parent.chain, self)


def _row_at(rows: Mapping[int, SixNumbers], frame: float) -> SixNumbers | None:
    """The row at a frame: linear between keys, constant before the first and after the last; None without keys."""
    if frame in rows:
        return rows[int(frame)]
    frames = sorted(rows)
    if not frames:
        return None
    after = bisect_right(frames, frame)
    if after in (0, len(frames)):
        return rows[frames[min(after, len(frames) - 1)]]
    left, right = frames[after - 1], frames[after]
    return tuple(between.interpolate_linear([rows[left]], [rows[right]], (frame - left) / (right - left))[0])


def product(a: Matrix, b: Matrix) -> Matrix:
    """The matrix that applies `b`, then `a`."""
    return tuple(sum(a[3 * i + k] * b[3 * k + j] for k in range(3)) for i in range(3) for j in range(3))


def way_back(m: Matrix) -> Matrix:
    """The inverse matrix. Raises DocumentError if there is none."""
    a, b, c, d, e, f, g, h, i = m
    size = _determinant(m)
    if abs(size) < 1e-12:
        raise DocumentError("a layer is scaled to zero; give it a scale")
    first = (e * i - f * h, c * h - b * i, b * f - c * e)
    adjoint = (*first, f * g - d * i, a * i - c * g, c * d - a * f, d * h - e * g, b * g - a * h, a * e - b * d)
    return tuple(value / size for value in adjoint)


def _determinant(m: Matrix) -> float:
    a, b, c, d, e, f, g, h, i = m
    return a * (e * i - f * h) + b * (f * g - d * i) + c * (d * h - e * g)


def place_point(m: Matrix, x: float, y: float) -> tuple[float, float]:
    """Transform a point, perspective included."""
    w = m[6] * x + m[7] * y + m[8]
    return (m[0] * x + m[1] * y + m[2]) / w, (m[3] * x + m[4] * y + m[5]) / w


def transform_row(m: Matrix, row: SixNumbers, at: tuple[float, float] | None = None) -> SixNumbers:
    """Transform a control point's six numbers; tangents by their end points.

    `at`: the row is an offset from this point, as in feather rows, and stays one.
    """
    x, y, in_dx, in_dy, out_dx, out_dy = row
    x, y = (x, y) if at is None else (x + at[0], y + at[1])
    px, py = place_point(m, x, y)
    ix, iy = place_point(m, x + in_dx, y + in_dy)
    ox, oy = place_point(m, x + out_dx, y + out_dy)
    ax, ay = (0.0, 0.0) if at is None else place_point(m, *at)
    return px - ax, py - ay, ix - px, iy - py, ox - px, oy - py


def leaves_alone(m: Matrix) -> bool:
    """Whether a matrix is the identity."""
    size = m[8] or 1.0
    return all(abs(value / size - (i % 4 == 0)) < _STILL for i, value in enumerate(m))


def linear_part(m: Matrix) -> Matrix:
    """The matrix for offsets and slopes, without translation and perspective."""
    return m[0], m[1], 0.0, m[3], m[4], 0.0, 0.0, 0.0, 1.0


def in_order(layers: Iterable[Layer | None]) -> tuple[Layer, ...]:
    """Every layer once by its name, parents before their children."""
    found: dict[str, Layer] = {}
    for layer in layers:
        for each in layer.chain if layer is not None else ():
            found.setdefault(each.name, each)
    return tuple(found.values())
