"""A planar tracker as a baseline: curves are propagated from keyed frames by the optical flow around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes.bezier import as_array, as_points, sample
from rotopaint_ai.shapes.roto import Points

Array = NDArray[Any]
Grey = Callable[[int], Array]

_SPACING_PX, _ROUND_PX = 4.0, (-14, -7, 0, 7, 14)  # number of tracked points: along the curve and beside it
_FEWEST = 8


def track(keyed: Mapping[int, Points], frames: Sequence[int], grey: Grey) -> dict[int, Points]:
    """An open curve at every frame, propagated from the nearest keyed curves before and after.

    Each is moved from frame to frame by the affine motion of the picture around it (pyramidal Lucas-Kanade, RANSAC).
    The two are blended by their distance in frames."""
    ahead, back = _walk(keyed, frames, grey), _walk(keyed, frames[::-1], grey)
    found = {}
    for frame in frames:
        a, b = ahead.get(frame), back.get(frame)
        if a is None or b is None:
            found[frame] = as_points((a or b or (np.zeros((0, 6)), 0))[0])
        else:
            share = a[1] / max(a[1] + b[1], 1)
            found[frame] = as_points((1 - share) * a[0] + share * b[0])
    return found


def _walk(keyed: Mapping[int, Points], frames: Sequence[int], grey: Grey) -> dict[int, tuple[Array, int]]:
    """The curve propagated along `frames` from each keyed frame, and the number of frames since that key."""
    found: dict[int, tuple[Array, int]] = {}
    now: tuple[Array, int] | None = None
    for before, frame in pairwise([frames[0], *frames]):
        if frame in keyed:
            now = as_array(keyed[frame]), 0
        elif now is not None:
            now = _moved(now[0], grey(before), grey(frame)), now[1] + 1
        if now is not None:
            found[frame] = now
    return found


def _moved(points: Array, before: Array, after: Array) -> Array:
    line = sample(points, False, spacing=_SPACING_PX)
    places = np.concatenate([line + (dx, dy) for dx in _ROUND_PX for dy in _ROUND_PX]).astype(np.float32)
    there, ok, _ = cv2.calcOpticalFlowPyrLK(before, after, places[:, None], None)
    good = ok.ravel() == 1
    if good.sum() < _FEWEST:
        return points
    over, _ = cv2.estimateAffine2D(places[good], there[good, 0], ransacReprojThreshold=1.0)
    if over is None:
        return points
    new = points.copy()
    new[:, :2] = points[:, :2] @ over[:, :2].T + over[:, 2]
    for k in (2, 4):
        new[:, k : k + 2] = points[:, k : k + 2] @ over[:, :2].T
    return new
