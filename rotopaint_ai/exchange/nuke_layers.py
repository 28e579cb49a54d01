"""Conversion between our layers and Nuke's: their transforms key by key.

Standard library only. Nuke's y runs up from the bottom of the format, and rotation is counter-clockwise. A transform
that only translates, rotates and scales with linear keys becomes poses of our layer. Any other transform becomes a
track, sampled at every frame.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange.limits import check_range
from rotopaint_ai.exchange.nuke_motion import Motion
from rotopaint_ai.exchange.nuke_tree import CurveKey, NukeCurve, NukeLayer, NukeTransform, values_of
from rotopaint_ai.exchange.parsing import TakenNames, free_name
from rotopaint_ai.shapes.layers import Layer, LayerPose, Matrix, product

_POSED = {0: 0.0, 1: 0.0, 3: 0.0, 4: 0.0, 8: 0.0, 9: 1.0, 10: 1.0}  # positions in Nuke's list that a pose uses
_MATRIX = (0, 1, 3, 4, 5, 7, 12, 13, 15)  # positions of the 3 x 3 matrix in the 4 x 4 matrix
_FIRST_OF_MATRIX, _LENGTH = 19, 35
TRACK = "track"  # name of the inner layer that holds the track


def nuke_transform_of(layer: Layer, height: int, *, of_track: bool = False) -> NukeTransform:
    """Nuke's transform list for a layer's poses, or for its track, in a format of that height."""
    if of_track:
        flip: Matrix = (1.0, 0.0, 0.0, 0.0, -1.0, float(height), 0.0, 0.0, 1.0)
        rows = {frame: product(flip, product(row, flip)) for frame, row in layer.track.items()}
        places = {_FIRST_OF_MATRIX + place: i for i, place in enumerate(_MATRIX)}
        usual = [1.0 if i in (9, 10, 11) or (i >= 19 and (i - 19) % 5 == 0) else 0.0 for i in range(_LENGTH)]
        return _list_curves({frame: {p: row[i] for p, i in places.items()} for frame, row in rows.items()}, usual)
    posed = {frame: _nuke_numbers(pose, height) for frame, pose in layer.poses.items()}
    return _list_curves(posed, [0.0] * (max(_POSED) + 1))


def _nuke_numbers(pose: LayerPose, height: int) -> dict[int, float]:
    values = (pose.pivot_x, height - pose.pivot_y, pose.x, -pose.y, -pose.degrees, pose.scale_x, pose.scale_y)
    return dict(zip(_POSED, values, strict=True))


def _list_curves(rows: dict[int, dict[int, float]], usual: Sequence[float]) -> NukeTransform:
    """All curves of the list: those of `rows` by frame, the others at their default value."""
    if not rows:
        return NukeTransform(None, ())
    frames = sorted(rows)
    named = rows[frames[0]]
    curves = (
        _straight_curve(frames, [rows[frame][place] for frame in frames]) if place in named else NukeCurve(value)
        for place, value in enumerate(usual)
    )
    return NukeTransform(None, tuple(curves))


def _straight_curve(frames: Sequence[int], values: Sequence[float]) -> NukeCurve:
    """A curve of linear keys; a constant where nothing changes."""
    if len(set(values)) == 1:
        return NukeCurve(values[0])
    slopes = [(b - a) / (g - f) for (f, a), (g, b) in pairwise(zip(frames, values))]
    lefts, rights = [0.0, *slopes], [*slopes, 0.0]
    keys = (CurveKey(float(f), v, a, 1.0, b, 1.0, False) for f, v, a, b in zip(frames, values, lefts, rights))
    return NukeCurve(keys=tuple(keys))


class LayersRead:
    """Our layers for those of a Nuke node, so that its shapes share them.

    A layer whose name another one has gets a number, and `losses` says so.
    """

    def __init__(self, height: int, losses: list[str]) -> None:
        self._height, self._losses = height, losses
        self._found: dict[tuple[int, ...], Layer] = {}
        self._taken = TakenNames()

    def find_layer(self, above: Sequence[NukeLayer], names: Sequence[str]) -> Layer | None:
        """Our layer for a chain of Nuke layers (outermost first, without the root); None where none of them moves.

        `names`: the names of the Nuke layers. An inner layer that our writer made only to hold a track becomes that
        track again. Raises DocumentError where a layer is scaled to zero, and for impossible frames.
        """
        layer: Layer | None = None
        moving = -1  # the depth of the layer that `layer` was read from
        for depth, (each, name) in enumerate(zip(above, names, strict=True)):
            motion = Motion([each.transform])
            if motion.is_identity:
                continue
            key = tuple(id(part) for part in above[: depth + 1])
            if key not in self._found:
                holds_track = moving == depth - 1 >= 0 and name == f"{names[moving]}/{TRACK}"
                self._found[key] = self._read_layer(each, name, motion, layer, holds_track=holds_track)
            layer, moving = self._found[key], depth
        return layer

    def _read_layer(
        self, each: NukeLayer, name: str, motion: Motion, parent: Layer | None, *, holds_track: bool
    ) -> Layer:
        if motion.times:
            check_range(math.floor(motion.times[0]), math.ceil(motion.times[-1]), f"layer {name}")
        posed, track = _poses_read(each.transform, motion, self._height), dict[int, Matrix]()
        if posed is None:
            flip: Matrix = (1.0, 0.0, 0.0, 0.0, -1.0, float(self._height), 0.0, 0.0, 1.0)
            track = {frame: product(flip, product(motion.at(frame), flip)) for frame in _frames_of(motion)}
            if holds_track and parent is not None and not parent.track:
                return Layer(parent.name, parent.poses, track, parent.parent)
        free = free_name(name, self._taken)
        if free != name:
            self._losses.append(f"layer {name}: the name occurs twice; the other layer is now called {free}")
        return Layer(free, posed or {}, track, parent)


def _frames_of(motion: Motion) -> list[int]:
    """Whole frames from a transform's first key to its last; frame 0 where it has none."""
    times = motion.times or [0.0]
    return list(range(math.floor(times[0]), math.ceil(times[-1]) + 1))


def _poses_read(transform: NukeTransform, motion: Motion, height: int) -> dict[int, LayerPose] | None:
    """The poses of a transform that only translates, rotates and scales; None for any other transform."""
    others = [curve for i, curve in enumerate(transform.values) if i not in _POSED]
    usual = [1.0 if i == 11 or (i >= 19 and (i - 19) % 5 == 0) else 0.0 for i in range(_LENGTH) if i not in _POSED]
    if any(abs(value - rest) > 1e-9 for curve, rest in zip(others, usual) for value in values_of(curve)):
        return None
    is_straight = all(_goes_straight(transform.values[i], motion.times) for i in _POSED if i < len(transform.values))
    frames = [int(time) for time in motion.times or [0.0]] if is_straight else _frames_of(motion)
    return {frame: _pose_read(transform, frame, height) for frame in frames}


def _goes_straight(curve: NukeCurve, times: Sequence[float]) -> bool:
    """Whether a component moves linearly between keys at whole frames."""
    if any(time != int(time) for time in times):
        return False
    return all(
        abs(curve.at(a + (b - a) * u) - (curve.at(a) + (curve.at(b) - curve.at(a)) * u)) < 1e-4
        for a, b in pairwise(times)
        for u in (0.25, 0.5, 0.75)
    )


def _pose_read(transform: NukeTransform, frame: int, height: int) -> LayerPose:
    numbers = {
        place: transform.values[place].at(frame) if place < len(transform.values) else usual
        for place, usual in _POSED.items()
    }
    px, py, x, y, turn, scale_x, scale_y = numbers.values()
    if min(abs(scale_x), abs(scale_y)) < 1e-3:
        raise DocumentError(f"a layer is scaled by {scale_x:g}, {scale_y:g} at frame {frame}; give it a size in Nuke")
    return LayerPose(x, -y, -turn, scale_x, scale_y, px, height - py)
