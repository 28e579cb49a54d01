"""The learned fill: a small network reads the straightened seam and predicts base and keep of every sample.

A matte is wider than the damage in it. The network separates the light of groove and bevels from the face's own light.
Its output is the weights of three sources (the plate, the face interpolated across the groove, the two banks
interpolated) and an offset per colour. Light is log light relative to the banks' or to the floor, so exposure and HDR
drop out.

    fill.onnx   `strip` float32 [N, T, S, 11], T and S multiples of 4 -> `answer` [N, T, S, 6]

N batch, T rows across, S columns along.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams.banks import BankLight, mean_of_colours
from rotopaint_ai.seams.ribbon import Ribbon

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool
LearnedFill = Callable[[Array], Array]  # strips to answers

N_CHANNELS = 11
AGAINST_BANKS = [*range(6), 9]  # channels that are log light relative to the banks'
N_ANSWERS = 6
MULTIPLE = 4
ROWS = 32  # least number of rows of the network's input, as in training
BESIDE = 5  # least number of rows on either side of the matte in the network's input
_LIMIT = 3.0
_DISTANCE_UNIT = np.float32(1 / 8)  # rows or pixels from a curve that count as 1
# Share of the network's offsets that is painted: its loss on what is left of a seam asks for more than the truth.
OFFSETS = 0.9
TRACE = 0.05  # a weight of the plate up to this leaves a hairline visible on smooth skin
_ALL = slice(None)


def strip_of(known: BankLight, ribbon: Ribbon, hole_TS: Bools, floor: float, rows: slice = _ALL) -> Array:
    """The network's input for some rows of a ribbon: (t, S, 11).

    Relative to the banks' light: plate and interpolated face (3 + 3). Then the matte; the banks' light above the floor;
    each row's distance from its curve; the plate relative to the banks, as each row's mean over its run's matte; and
    the distance from the nearest of all curves, which shows where seams meet.
    """
    own, face, banks = (field[rows].transpose(1, 0, 2) for field in (known.own, known.face, known.banks))
    n_rows, n_columns = own.shape[1:]
    planes: Array = np.empty((N_CHANNELS, n_rows, n_columns), np.float32)
    np.subtract(own, banks, out=planes[0:3])
    np.subtract(face, banks, out=planes[3:6])
    planes[6] = hole_TS[rows]
    planes[7] = banks[0] + banks[1] + banks[2]
    planes[7] *= np.float32(0.25 / 3)
    planes[7] -= np.float32(0.25 * np.log(floor))
    planes[8] = np.abs(np.arange(len(hole_TS)) - len(hole_TS) // 2)[rows, None] * _DISTANCE_UNIT
    total, count = ribbon.row_sums(mean_of_colours(known.own) - mean_of_colours(known.banks))
    planes[9] = (total / np.maximum(count, 1)).T[rows].take(ribbon.line.run_S, axis=1)
    planes[10] = _curve_distance(ribbon)[rows] * _DISTANCE_UNIT
    np.clip(planes, -_LIMIT, _LIMIT, out=planes)
    return np.asarray(cv2.transpose(planes.reshape(N_CHANNELS, -1)).reshape(n_rows, n_columns, N_CHANNELS))


def _curve_distance(ribbon: Ribbon) -> Array:
    """Distance (T, S) of each sample from the nearest of all curves, in pixels of the shrunk crop."""
    seeds = np.full(ribbon.size, 255, np.uint8)
    x, y = np.floor(ribbon.line.points_S[ribbon.line.half_S > 0]).astype(np.intp).T
    inside = (x >= 0) & (y >= 0) & (x < ribbon.size[1]) & (y < ribbon.size[0])
    seeds[y[inside], x[inside]] = 0
    return ribbon.sample(cv2.distanceTransform(seeds, cv2.DIST_L2, 3))


def pad_strip(strip_TSC: Array, before: int, n_rows: int) -> Array:
    """Pad a strip by repeating its edges: `before` rows above, rows below up to `n_rows`, columns up to a multiple of
    4."""
    more = -strip_TSC.shape[1] % MULTIPLE
    around = (before, n_rows - before - len(strip_TSC)), (0, more), (0, 0)
    return np.pad(strip_TSC, around, "edge") if before or more or n_rows > len(strip_TSC) else strip_TSC


def rows_of(own_TS: Bools) -> tuple[slice, int, int]:
    """The rows of a ribbon for the network, the number of padded rows before them, and the total number of rows.

    The curve lies in the middle row, as in training.
    """
    n_ribbon = len(own_TS)
    centre, used = n_ribbon // 2, np.flatnonzero(own_TS.any(1))
    reach = max(int(np.abs(used - centre).max()), 0) + BESIDE if len(used) else 0
    n_rows = max(ROWS, -(-(2 * reach + 1) // MULTIPLE) * MULTIPLE)
    first = centre - n_rows // 2
    shown = slice(max(0, first), min(n_ribbon, first + n_rows))
    return shown, shown.start - first, n_rows


def repaint(known: BankLight, ribbon: Ribbon, hole_TS: Bools, floor: float, model: LearnedFill) -> Array:
    """Base and keep of every sample (T, S, 4), as in `bank_fill.base_and_keep`, by the network."""
    own_TS = ribbon.own_TS
    rows, before, n_rows = rows_of(own_TS)
    strip = pad_strip(strip_of(known, ribbon, hole_TS, floor, rows), before, n_rows)
    at = np.flatnonzero(own_TS)
    row, column = np.divmod(at, own_TS.shape[1])
    place = (row - rows.start + before) * strip.shape[1] + column
    answer = cv2.transpose(model(strip[None])[0].reshape(-1, N_ANSWERS).take(place, axis=0))
    of_colour = row * (3 * own_TS.shape[1]) + column + own_TS.shape[1] * np.arange(3)[:, None]
    face, banks = (field.reshape(-1).take(of_colour) for field in (known.face, known.banks))
    out = np.zeros((*own_TS.shape, 4), np.float32)
    out[..., 3] = 1.0
    out.reshape(-1, 4)[at] = mix_answer(answer, face, banks)
    return out


def mix_answer(answer: Array, face: Array, banks: Array) -> Array:
    """Base and keep (N, 4) from the network's answers (6, N) and the light of face and banks (C, N).

    A small weight of the plate (up to `TRACE`) moves to the interpolated face; a larger one loses less.
    """
    shares = np.exp(np.clip(answer[:3] - answer[:3].max(0), -30.0, 0.0))
    shares /= shares.sum(0)
    traces = np.minimum(shares[0], TRACE * (1.0 - shares[0]))
    out: Array = np.empty((4, answer.shape[1]), np.float32)
    np.multiply(shares[1] + traces, face, out=out[:3])
    out[:3] += shares[2] * banks
    out[:3] += np.float32(OFFSETS) * answer[3:]
    np.subtract(shares[0], traces, out=out[3])
    return np.asarray(cv2.transpose(out))
