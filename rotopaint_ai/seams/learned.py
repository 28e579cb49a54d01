"""The learned fill: a small network looks at the straightened seam and says what to make of every sample.

It sees whole stretches of the ribbon where `light` sees one profile at a time, and answers in the same words: shares
of the plate itself, of the face joined across the groove and of the two banks, and an offset per colour. Everything it
sees is log light against the banks', so exposure and HDR drop out.

    fill.onnx   `strip` float32 [N, T, S, 8], T and S multiples of 4 -> `answer` [N, T, S, 6]

N batch, T rows across, S columns along.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams import light
from rotopaint_ai.seams.light import Sources

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool
FillModel = Callable[[Array], Array]  # strips to answers

N_CHANNELS = 8
MULTIPLE = 4
CONTEXT = 16  # columns that a stretch is shown beside its own
_LIMIT = 3.0


def strip_of(known: Sources, hole_TS: Bools, floor: float) -> Array:
    """What the network sees of a ribbon: (T, S, 8).

    Plate and joined face against the banks' light (3 + 3), the matte, and how far the banks' light is above the floor.
    """
    n_rows, _, n_columns = known.own.shape
    strip = np.empty((n_rows, n_columns, N_CHANNELS), np.float32)
    strip[..., 0:3] = (known.own - known.banks).transpose(0, 2, 1)
    strip[..., 3:6] = (known.face - known.banks).transpose(0, 2, 1)
    strip[..., 6] = hole_TS
    strip[..., 7] = np.float32(0.25) * (known.banks.mean(1) - np.float32(np.log(floor)))
    return np.clip(strip, -_LIMIT, _LIMIT, out=strip)


def padded(strip_TSC: Array) -> Array:
    """A strip with its edges repeated until both sides are multiples of 4."""
    n_rows, n_columns = strip_TSC.shape[:2]
    return np.pad(strip_TSC, ((0, -n_rows % MULTIPLE), (0, -n_columns % MULTIPLE), (0, 0)), "edge")


def answers(model: FillModel, strip_TSC: Array, columns: slice) -> Array:
    """The network's answer (T, s, 6) for a stretch of columns, with some context on either side."""
    first, last = max(0, columns.start - CONTEXT), min(strip_TSC.shape[1], columns.stop + CONTEXT)
    answer = model(padded(strip_TSC[:, first:last])[None])[0]
    return np.asarray(answer[: strip_TSC.shape[0], columns.start - first : columns.stop - first])


def relight(known: Sources, hole_TS: Bools, own_TS: Bools, floor: float, model: FillModel) -> Array:
    """What to make of each sample, (T, S, 4) as `light.relight` gives it, by the network."""
    strip = strip_of(known, hole_TS, floor)
    answer = answers(model, strip, slice(0, strip.shape[1]))
    at = np.flatnonzero(own_TS)
    answer_KN = answer.reshape(-1, light.N_ANSWERS)[at].T.copy()
    return light.mixed(answer_KN, light.colours(known.face, at), light.colours(known.banks, at), own_TS)
