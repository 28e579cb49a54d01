"""Clone strokes over a frame's fill: they paint where the brush went, beside a seam and on frames without one, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.pipeline.paint_settings import Paint
from rotopaint_ai.pipeline.render_frame import Filled, Part, Seams
from rotopaint_ai.plates.plate import Frame
from rotopaint_ai.seams import touchup
from rotopaint_ai.seams.ribbon import Curve
from rotopaint_ai.seams.strokes import Strokes

Array = NDArray[Any]
Window = tuple[int, int, int, int]  # left, top, right, bottom in plate pixels


def touched_up(frame: Frame, filled: Filled | None, strokes: Strokes) -> Filled | None:
    """A fill with clone strokes laid over it; they belong to the paint from then on, in clean plate and patch.

    `filled` is None on a frame without a seam. The region grows to hold the strokes and what they copy, as far as the
    frame has pixels; what they do not cover comes back bit for bit.
    """
    if not strokes:
        return filled
    region = _holding(frame, filled, strokes)
    if region is None:
        return filled
    seams = region.seams
    after, cover = touchup.apply(region.after, (seams.x, seams.y), strokes)
    part = Part(cover, (), Paint())
    grown = replace(seams, matte=np.maximum(seams.matte, cover), parts=(*seams.parts, part))
    return replace(region, seams=grown, after=after)


def _holding(frame: Frame, filled: Filled | None, strokes: Strokes) -> Filled | None:
    """A fill whose region holds all strokes and their sources; None where the frame has no pixels there."""
    windows = [window for stroke in strokes for window in touchup.windows(stroke)]
    own = None if filled is None else _window_of(filled.seams)
    x0, y0, x1, y1 = _union([*windows, *([own] if own is not None else [])])
    if own == (x0, y0, x1, y1):
        return filled
    rgb, (x, y) = frame.region(x0, y0, x1 - x0, y1 - y0)
    if rgb.size == 0:
        return filled
    matte = np.zeros(rgb.shape[:2], np.float32)
    if filled is None:
        return Filled(Seams(x, y, rgb, matte, (), (Part(matte, (), Paint()),)), rgb)
    return _moved(filled, rgb, (x, y))


def _moved(filled: Filled, rgb: Array, corner: tuple[int, int]) -> Filled:
    """A fill in a larger region (H, W, 3) with that top-left pixel."""
    seams = filled.seams
    dx, dy = seams.x - corner[0], seams.y - corner[1]
    rows, columns = seams.matte.shape
    place = np.s_[dy : dy + rows, dx : dx + columns]

    def placed(plane: Array, ground: Array) -> Array:
        out = ground.copy()
        out[place] = plane
        return out

    nothing = np.zeros(rgb.shape[:2], np.float32)
    parts = tuple(replace(p, matte=placed(p.matte, nothing), curves=_shifted(p.curves, dx, dy)) for p in seams.parts)
    grown = replace(
        seams,
        x=corner[0],
        y=corner[1],
        rgb=rgb,
        matte=placed(seams.matte, nothing),
        curves=_shifted(seams.curves, dx, dy),
        parts=parts,
    )
    return replace(filled, seams=grown, after=placed(filled.after, rgb))


def _shifted(curves: Sequence[Curve], dx: int, dy: int) -> tuple[Curve, ...]:
    by = np.array([dx, dy], np.float32)
    return tuple((line + by.astype(line.dtype), half) for line, half in curves)


def _window_of(seams: Seams) -> Window:
    rows, columns = seams.matte.shape
    return seams.x, seams.y, seams.x + columns, seams.y + rows


def _union(windows: Sequence[Window]) -> Window:
    x0, y0, x1, y1 = zip(*windows)
    return min(x0), min(y0), max(x1), max(y1)
