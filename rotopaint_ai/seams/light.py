"""How much of what stands inside a matte is seam: the groove's and the bevels' light, told from the face's own.

A matte is wider than the damage in it. The groove is a valley across the curve that runs on along it; freckles,
folds and shadows of the face do not. So each sample of the ribbon is described by its profile across the seam,
smoothed along the seam, and a small fitted function (two hidden layers, `light_table.py`) says how to mix three
sources: the sample itself, the face joined across what looks like a valley, and the two banks joined across the
whole matte. `benchmarks/fit_seam_light.py` fits it.

Everything here is in log light, ln(max(rgb, 0) + floor), where a shadow is an offset and exposure drops out.

Dimensions: T rows across, S columns along, C colour components, N samples, Q features.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams import banks

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool

REACH = 6  # rows on either side of a sample that its profile covers
_VALLEYS = (2, 4, 8)  # half-widths, rows, of the valleys and ridges looked for
_EDGES = (-6, -3, 3, 6)  # rows away at which the matte is asked for
_VALLEY_LIMIT = (
    0.1  # depth of valley, log light, at which half the trust is gone: best of 0.03 0.06 0.12 on the training shots
)
_GAPS = (-4, -2, 0, 2, 4)  # rows away at which the two fills are compared
N_FEATURES = (2 * REACH + 1) + (REACH + 1) + 2 * len(_VALLEYS) + 2 + 2 + len(_EDGES) + 1 + len(_GAPS) + 1
N_ANSWERS = 6


@dataclass(frozen=True, slots=True)
class Table:
    """The fitted function's numbers: input scale and three layers (weights are inputs x outputs)."""

    mean: Array
    scale: Array
    weights: tuple[Array, Array, Array]
    biases: tuple[Array, Array, Array]


@dataclass(frozen=True, slots=True)
class Relight:
    """Corrected log light of a sample = `keep` * its own log light + `base`."""

    keep_TS: Array
    base_TSC: Array


@dataclass(frozen=True, slots=True)
class Described:
    """What is known of the N samples to be judged: features (N, Q), and their light (N, C) as three sources have it.

    own: the plate. face: joined across what looks like a valley, from all else. banks: joined from outside the matte.
    """

    features: Array
    own: Array
    face: Array
    banks: Array


def describe(light_TSC: Array, hole_TS: Bools, own_TS: Bools) -> Described:
    """Describe the samples in `own_TS`; `hole_TS` are those inside the matte or off the crop, not to be believed."""
    luma = np.ascontiguousarray(light_TSC.mean(2))
    near, far = _along(luma, 1.5), _along(luma, 5.0)
    face_TSC = _along(banks.join(light_TSC, _trust(near, hole_TS), stiffness=1.0), 1.0)
    banks_TSC = _along(banks.join(light_TSC, (~hole_TS).astype(np.float32), stiffness=1.0), 2.0)
    face = face_TSC.mean(2)
    rows, columns = np.nonzero(own_TS)
    last = len(luma) - 1

    def around(field: Array, offsets: Array) -> Array:
        return field[np.clip(rows[:, None] + offsets, 0, last), columns[:, None]]

    here = face[rows, columns][:, None]
    offsets = np.arange(-REACH, REACH + 1)
    forms = [form for half in _VALLEYS for form in _valley_and_ridge(near, half)] + _valley_and_ridge(far, REACH)
    own = light_TSC[rows, columns]
    residual = own - face_TSC[rows, columns]
    mean = residual.mean(1, keepdims=True)
    lower = banks_TSC.mean(2)
    features = np.concatenate(
        [
            around(near, offsets) - here,
            around(far, offsets[::2]) - here,
            *(form[rows, columns][:, None] for form in forms),
            residual[:, 0:1] - mean,
            residual[:, 2:3] - mean,
            around(hole_TS.astype(np.float32), np.array(_EDGES)),
            mean,
            around(lower - face, np.array(_GAPS)),
            (far - lower)[rows, columns][:, None],
        ],
        1,
    )
    clipped = np.clip(features, -2.0, 2.0).astype(np.float32)
    return Described(clipped, own, face_TSC[rows, columns], banks_TSC[rows, columns])


def relight(light_TSC: Array, hole_TS: Bools, own_TS: Bools, table: Table) -> Relight:
    """What to keep of each sample in the matte, and what to put there; outside `own_TS` all is kept."""
    known = describe(light_TSC, hole_TS, own_TS)
    answer = evaluate(known.features, table)
    shares = np.exp(np.clip(answer[:, :3] - answer[:, :3].max(1, keepdims=True), -30.0, 0.0))
    shares /= shares.sum(1, keepdims=True)
    keep_TS = np.ones(own_TS.shape, np.float32)
    base_TSC = np.zeros_like(light_TSC)
    keep_TS[own_TS] = shares[:, 0]
    base_TSC[own_TS] = shares[:, 1:2] * known.face + shares[:, 2:] * known.banks + answer[:, 3:]
    return Relight(keep_TS, base_TSC)


def evaluate(features: Array, table: Table) -> Array:
    """The fitted function: (N, Q) -> (N, 6), logits of the shares of own, face and banks, an offset per colour."""
    x = (features - table.mean) * table.scale
    for weights, bias in zip(table.weights[:2], table.biases[:2], strict=True):
        x = np.maximum(x @ weights + bias, 0.0)
    out: Array = x @ table.weights[2] + table.biases[2]
    return out


def _trust(near_TS: Array, hole_TS: Bools) -> Array:
    """How far each sample may be believed: 1 outside the matte, less the deeper in a valley."""
    valley, _ = _valley_and_ridge(near_TS, 3)
    trust = cv2.erode(1.0 / (1.0 + (valley / _VALLEY_LIMIT) ** 2), np.ones((3, 1), np.uint8))
    return np.where(hole_TS, trust * trust, 1.0).astype(np.float32)


def _along(field: Array, sigma: float) -> Array:
    width = 2 * round(3 * sigma) + 1
    out: Array = cv2.GaussianBlur(field, (width, 1), sigma, borderType=cv2.BORDER_REPLICATE)
    return out


def _valley_and_ridge(field: Array, half: int) -> list[Array]:
    """How far a sample lies below the closing, and above the opening, across the seam (Serra's top-hats)."""
    element = np.ones((2 * half + 1, 1), np.uint8)
    return [cv2.morphologyEx(field, cv2.MORPH_BLACKHAT, element), cv2.morphologyEx(field, cv2.MORPH_TOPHAT, element)]


def unpack(numbers: str, units: int) -> Table:
    """A table from base-85 text of little-endian float32: mean, scale, then weights and bias of each layer."""
    flat = np.frombuffer(base64.b85decode(numbers), "<f4").astype(np.float32)
    shapes: list[tuple[int, ...]] = [(N_FEATURES,), (N_FEATURES,)]
    for n_in, n_out in ((N_FEATURES, units), (units, units), (units, N_ANSWERS)):
        shapes += [(n_in, n_out), (n_out,)]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    parts = [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]
    return Table(parts[0], parts[1], (parts[2], parts[4], parts[6]), (parts[3], parts[5], parts[7]))
