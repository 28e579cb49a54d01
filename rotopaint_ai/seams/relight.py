"""Separate the light of groove and bevels inside a matte from the face's own light.

A matte is wider than the damage in it. The groove is a valley across the curve that continues along it; freckles, folds
and shadows of the face do not. So each sample of the ribbon is described by its profile across the seam, smoothed along
the seam. A small fitted network (two hidden layers, `relight_table.py`) then mixes three sources: the sample itself,
the face interpolated across apparent valleys, and the two banks interpolated across the whole matte.
`scripts/fit_relight.py` fits it. Two fits work in turn. The first, fitted on narrow seams, removes hairlines that the
second, fitted on seams of every width, would leave faintly visible.

All light here is log light, ln(max(rgb, 0) + floor), where a shadow is an offset and exposure drops out.

Dimensions: T rows across, S columns along, C colour components, N samples, Q features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams import banks, glint, layer_text

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool

REACH = 6  # rows on either side of a sample in its profile
_VALLEYS = (2, 3, 4, 8)  # half-widths, in rows, of the valleys and ridges searched
_GROOVE = 3  # valleys of this half-width lower the weight of samples
_EDGES = (-6, -3, 3, 6)  # rows away at which the matte is sampled
_VALLEY_LIMIT = 0.1  # depth of valley, log light, that halves the weight: best of 0.03 0.06 0.12 on the training shots
_GAPS = (-4, -2, 0, 2, 4)  # rows away at which the two fills are compared
N_PROFILE = (2 * REACH + 1) + (REACH + 1)
N_FEATURES = N_PROFILE + len(_GAPS) + 2 * len(_VALLEYS) + 2 + len(_EDGES) + 4
N_ANSWERS = 6
EVERY = 6  # every sixth column is evaluated, those between are interpolated
_BETWEEN = np.ones((1, 2 * EVERY - 1), np.uint8)
_AT_ONCE = 160  # samples: products this small stay in cache and on one core, and leave the other to other threads
_NEAR = 1.5  # columns: sigma of the profile's smoothing along the seam
_FAR = (5.0**2 - _NEAR**2) ** 0.5  # columns: further smoothing, to a second profile with a sigma of 5 columns
_RESIDUAL = 4 + 2 * (len(_VALLEYS) + 1)  # fields of `_described`: near, far, gap, edge, forms, three residuals, step
_STEP = _RESIDUAL + 3


def _stencil() -> Array:
    """The field that each feature is read from, and how many rows away: (2, Q)."""
    parts = [(0, range(-REACH, REACH + 1)), (1, range(-REACH, REACH + 1, 2)), (2, _GAPS)]
    parts += [(form, (0,)) for form in range(4, _RESIDUAL)] + [(3, _EDGES)]
    parts += [(field, (0,)) for field in range(_RESIDUAL, _STEP + 1)]
    return np.array([(field, row) for field, rows in parts for row in rows]).T


_STENCIL = _stencil()


@dataclass(frozen=True, slots=True)
class RelightTable:
    """The network's numbers: input mean and scale, and three layers (weights are inputs x outputs)."""

    mean: Array
    scale: Array
    weights: tuple[Array, Array, Array]
    biases: tuple[Array, Array, Array]


@dataclass(frozen=True, slots=True)
class DescribedSamples:
    """Features (Q, N) of the N evaluated samples, and their light (C, N) from three sources.

    own: the plate. face: interpolated across apparent valleys. banks: interpolated from outside the matte.
    """

    features: Array
    own: Array
    face: Array
    banks: Array


@dataclass(frozen=True, slots=True)
class BankLight:
    """A ribbon's log light and its two fills: (T, C, S) each.

    own: the plate. face: interpolated across apparent valleys. banks: interpolated from outside the matte. near, far:
    the plate's mean over colours, (T, S), smoothed a little and much along the seam.
    """

    own: Array
    face: Array
    banks: Array
    near: Array
    far: Array

    def thinned(self) -> BankLight:
        """Every sixth column."""
        whole = (self.own, self.face, self.banks, self.near, self.far)
        return BankLight(*(np.ascontiguousarray(field[..., ::EVERY]) for field in whole))


def sources(light_TSC: Array, hole_TS: Bools) -> BankLight:
    """The three sources of light; `hole_TS`: samples in the matte or outside the crop, which get no weight."""
    light_TCS = np.ascontiguousarray(light_TSC.transpose(0, 2, 1))
    n_columns = light_TCS.shape[2]
    near, trust = _shading(light_TCS, hole_TS)
    trust = np.concatenate([trust, (~hole_TS).astype(np.float32)], 1)
    joined = banks.join(np.concatenate([light_TCS, light_TCS], 2), trust)
    face_TCS, banks_TCS = _blur_colours(joined[..., :n_columns], 1.0), _blur_colours(joined[..., n_columns:], 2.0)
    return BankLight(light_TCS, face_TCS, banks_TCS, near, _blur_columns(near, _FAR))


def _relit(known: BankLight, light_CN: Array, hole_TS: Bools, places: _Places) -> tuple[BankLight, Array | None]:
    """The sources after the light of some samples has changed, and each one's probability of being on a bright line.

    The banks do not change, because these samples lie in the matte. Bright lines (`glint`) get no weight.
    """
    light_TCS = known.own.copy()
    np.put(light_TCS, places.of_CN, light_CN)
    near, trust = _shading(light_TCS, hole_TS)
    far = _blur_columns(near, _FAR)
    bright = glint.lines(far, hole_TS)
    if bright is not None:
        trust *= (1.0 - bright) ** 2
    face = _blur_colours(banks.join(light_TCS, trust), 1.0)
    bright_N = None if bright is None else bright.reshape(-1).take(places.at)
    return BankLight(light_TCS, face, known.banks, near, far), bright_N


def _shading(light_TCS: Array, hole_TS: Bools) -> tuple[Array, Array]:
    """The mean over colours, smoothed a little along the seam, and the weight (T, S) of each sample."""
    near = _blur_columns(_mean(light_TCS), _NEAR)
    groove = cv2.morphologyEx(near, cv2.MORPH_BLACKHAT, np.ones((2 * _GROOVE + 1, 1), np.uint8))
    return near, _trust(groove, hole_TS)


def describe(known: BankLight, hole_TS: Bools, own_TS: Bools) -> DescribedSamples:
    """Describe the samples in `own_TS`, which lie at least REACH rows away from the ribbon's edges."""
    places = _Places.where(own_TS)
    features = _features(known, hole_TS, places.at)
    return DescribedSamples(features, *(places.read(field) for field in (known.own, known.face, known.banks)))


def _features(known: BankLight, hole_TS: Bools, at: Array) -> Array:
    """Features (..., Q, N) of samples `at` (..., N), flat indices in row order."""
    fields, face = _described(known, hole_TS)
    n_rows, n_columns = hole_TS.shape
    steps = _STENCIL[0] * (n_rows * n_columns) + _STENCIL[1] * n_columns
    features: Array = fields.reshape(-1).take(at[..., None, :] + steps[:, None], mode="clip")
    features[..., :N_PROFILE, :] -= face.reshape(-1).take(at)[..., None, :]
    return np.clip(features, -2.0, 2.0, out=features)


def _described(known: BankLight, hole_TS: Bools) -> tuple[Array, Array]:
    """The fields (K, T, S) that features are read from, and the mean over colours of the interpolated face (T, S)."""
    face = _mean(known.face)
    fields = np.empty((_STEP + 1, *face.shape), np.float32)
    near, far, gap, edge = fields[:4]
    near[:], far[:] = known.near, known.far
    np.subtract(_mean(known.banks), face, out=gap)
    edge[:] = hole_TS
    forms = [(near, half) for half in _VALLEYS] + [(far, REACH)]
    for (field, half), valley, ridge in zip(forms, fields[4:_RESIDUAL:2], fields[5:_RESIDUAL:2]):
        element = np.ones((2 * half + 1, 1), np.uint8)
        cv2.morphologyEx(field, cv2.MORPH_BLACKHAT, element, dst=valley)
        cv2.morphologyEx(field, cv2.MORPH_TOPHAT, element, dst=ridge)
    residual = known.own - known.face
    mean = _mean(residual)
    np.subtract(residual[:, 0], mean, out=fields[_RESIDUAL])
    np.subtract(residual[:, 2], mean, out=fields[_RESIDUAL + 1])
    fields[_RESIDUAL + 2] = mean
    np.subtract(far - face, gap, out=fields[_STEP])
    return fields, face


def mean_of(field_TSC: Array) -> Array:
    """The mean over the first three components (T, S) of a field (T, S, ...)."""
    out: Array = field_TSC[..., 0] + field_TSC[..., 1]
    out += field_TSC[..., 2]
    out *= np.float32(1 / 3)
    return out


def light_added(relit_TSC: Array, own_TS: Array) -> Array:
    """Log light (T, S) that paint adds, as the mean over colours; own_TS: `mean_of` the plate's log light."""
    out: Array = relit_TSC[..., 3] - np.float32(1.0)
    out *= own_TS
    out += mean_of(relit_TSC)
    return out


def relight_in_turn(
    light_TSC: Array, hole_TS: Bools, own_TS: Bools, tables: Sequence[RelightTable], known: BankLight | None = None
) -> Array:
    """Base and keep of each sample: (T, S, 4), a base per colour and the share of its own light that is kept.

    Corrected log light = base + keep * own log light. Outside `own_TS` base is 0 and keep 1. Each table works on the
    result of the one before. known: the light's sources, where already computed.
    """
    places = _Places.where(own_TS)
    evaluated = _EvaluatedSamples.where(own_TS, places.at)
    known = known or sources(light_TSC, hole_TS)
    light_CN, banks_CN = places.read(known.own), places.read(known.banks)
    thinned_TS = np.ascontiguousarray(hole_TS[:, ::EVERY])
    base_CN, keep_N = _paint(known, thinned_TS, evaluated, tables[0], places, banks_CN)
    for table in tables[1:]:
        known, bright_N = _relit(known, base_CN + keep_N * light_CN, hole_TS, places)
        more_CN, keep = _paint(known, thinned_TS, evaluated, table, places, banks_CN, bright_N)
        base_CN, keep_N = more_CN + keep * base_CN, keep * keep_N
    out = np.zeros((own_TS.size, 4), np.float32)
    out[:, 3] = 1.0
    out[places.at] = np.concatenate([base_CN, keep_N[None]]).T
    return out.reshape(*own_TS.shape, 4)


@dataclass(frozen=True, slots=True)
class _Places:
    """N samples of a ribbon: flat indices in row order, and their indices in a field (T, C, S): (C, N)."""

    at: Array
    of_CN: Array

    @classmethod
    def where(cls, wanted_TS: Bools) -> _Places:
        at = np.flatnonzero(wanted_TS)
        n_columns = wanted_TS.shape[1]
        first = at + 2 * n_columns * (at // n_columns)
        return cls(at, first + n_columns * np.arange(3)[:, None])

    def read(self, field_TCS: Array) -> Array:
        """The samples of a field (T, C, S): (C, N)."""
        return np.asarray(np.ascontiguousarray(field_TCS).reshape(-1).take(self.of_CN))


@dataclass(frozen=True, slots=True)
class _EvaluatedSamples:
    """The samples to evaluate, and the interpolation of all the ribbon's samples between them.

    The output changes slowly along the seam, so only every sixth column is evaluated.

    at: (blocks, _AT_ONCE), flat indices in every sixth column; the last block repeats its first sample as padding.
    before, after: the two evaluated samples on either side of each of the ribbon's N; share: weight of the second, 0 to
    1.
    """

    at: Array
    before_N: Array
    after_N: Array
    share_N: Array

    @classmethod
    def where(cls, own_TS: Bools, at_N: Array) -> _EvaluatedSamples:
        """own_TS: the ribbon's samples; at_N: the same as flat indices."""
        evaluated_TS = np.ascontiguousarray(cv2.dilate(own_TS.view(np.uint8), _BETWEEN)[:, ::EVERY])
        evaluated = np.flatnonzero(evaluated_TS)
        at = np.full((-(-len(evaluated) // _AT_ONCE), _AT_ONCE), evaluated[0] if len(evaluated) else 0)
        at.reshape(-1)[: len(evaluated)] = evaluated
        rows, columns = np.divmod(at_N.astype(np.int32), np.int32(own_TS.shape[1]))
        left, past = np.divmod(columns, np.int32(EVERY))
        n_columns = evaluated_TS.shape[1]
        before = (np.cumsum(evaluated_TS, dtype=np.intp) - 1).take(rows * np.intp(n_columns) + left)
        after = before + ((past > 0) & (left + 1 < n_columns))
        return cls(at, before, after, past * np.float32(1 / EVERY))

    def between(self, answer: Array) -> Array:
        """Outputs (6, N) of all samples of the ribbon, interpolated from those of the evaluated samples."""
        out: Array = answer.take(self.before_N, axis=1)
        more = answer.take(self.after_N, axis=1)
        more -= out
        more *= self.share_N
        out += more
        return out


def _paint(
    known: BankLight,
    thinned_TS: Bools,
    evaluated: _EvaluatedSamples,
    table: RelightTable,
    places: _Places,
    banks_CN: Array,
    bright_N: Array | None = None,
) -> tuple[Array, Array]:
    """Base (C, N) and keep (N,) at some samples; on bright lines the plate's weight moves to the interpolated face."""
    answers = evaluate(_features(known.thinned(), thinned_TS, evaluated.at), table)
    answer = evaluated.between(to_shares(answers.transpose(1, 0, 2).reshape(N_ANSWERS, -1)))
    if bright_N is not None:
        answer[1] += bright_N * answer[0]
        answer[0] *= 1.0 - bright_N
        answer[3:] *= 1.0 - bright_N
    base = answer[1] * places.read(known.face)
    base += answer[2] * banks_CN
    base += answer[3:]
    return base, answer[0]


def to_shares(answer: Array) -> Array:
    """Outputs (6, N), with the first three rows turned from logits to weights (softmax)."""
    shares = np.exp(np.maximum(answer[:3] - answer[:3].max(0), -30.0))
    answer[:3] = shares / (shares[0] + shares[1] + shares[2])
    return answer


def evaluate(features: Array, table: RelightTable) -> Array:
    """The network: (..., Q, N) -> (..., 6, N): logits of the weights of own, face and banks; an offset per colour.

    Blocks of _AT_ONCE samples stay in cache and on one core, whatever the number of BLAS threads.
    """
    first = np.ascontiguousarray((table.weights[0] * table.scale[:, None]).T)
    x = first @ features
    x += (table.biases[0] - first @ table.mean)[:, None]
    for weights, bias in zip(table.weights[1:], table.biases[1:]):
        x = np.ascontiguousarray(weights.T) @ np.maximum(x, 0.0, out=x)
        x += bias[:, None]
    return np.asarray(x)


def _mean(field_TCS: Array) -> Array:
    out: Array = field_TCS[:, 0] + field_TCS[:, 1]
    out += field_TCS[:, 2]
    out *= np.float32(1 / 3)
    return out


def _trust(valley_TS: Array, hole_TS: Bools) -> Array:
    """The weight of each sample: 1 outside the matte; inside, smaller the deeper it lies in a valley."""
    trust = cv2.erode(1.0 / (1.0 + (valley_TS / np.float32(_VALLEY_LIMIT)) ** 2), np.ones((3, 1), np.uint8))
    return np.where(hole_TS, trust * trust, np.float32(1.0))


def _blur_colours(field_TCS: Array, sigma: float) -> Array:
    flat = np.ascontiguousarray(field_TCS).reshape(-1, field_TCS.shape[2])
    return _blur_columns(flat, sigma).reshape(field_TCS.shape)


def _blur_columns(field: Array, sigma: float) -> Array:
    width = 2 * round(3 * sigma) + 1
    out: Array = cv2.GaussianBlur(field, (width, 1), sigma, borderType=cv2.BORDER_REPLICATE)
    return out


def unpack_table(numbers: str, units: int) -> RelightTable:
    """Decode a table from base-85 text of little-endian float32: mean, scale, then weights and bias of each layer."""
    mean, scale, *layers = layer_text.unpack_layers(numbers, "<f4", N_FEATURES, units, N_ANSWERS, n_scales=2)
    return RelightTable(mean, scale, *layer_text.layers_of(layers))
