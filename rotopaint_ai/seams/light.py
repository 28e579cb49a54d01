"""How much of what stands inside a matte is seam: the groove's and the bevels' light, told from the face's own.

A matte is wider than the damage in it. The groove is a valley across the curve that runs on along it; freckles,
folds and shadows of the face do not. So each sample of the ribbon is described by its profile across the seam,
smoothed along the seam, and a small fitted function (two hidden layers, `light_table.py`) says how to mix three
sources: the sample itself, the face joined across what looks like a valley, and the two banks joined across the
whole matte. `rotopaint_ai.training.fill.table` fits it. Two fits work in turn: one on narrow seams, whose hairlines the
other, fitted on seams of every width (`light_table.py`), would leave faintly visible.

Everything here is in log light, ln(max(rgb, 0) + floor), where a shadow is an offset and exposure drops out.

Dimensions: T rows across, S columns along, C colour components, N samples, Q features.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams import banks

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool

REACH = 6  # rows on either side of a sample that its profile covers
_VALLEYS = (2, 3, 4, 8)  # half-widths, rows, of the valleys and ridges looked for
_GROOVE = 3  # the one of them whose valleys are not believed
_EDGES = (-6, -3, 3, 6)  # rows away at which the matte is asked for
_VALLEY_LIMIT = (
    0.1  # depth of valley, log light, at which half the trust is gone: best of 0.03 0.06 0.12 on the training shots
)
_GAPS = (-4, -2, 0, 2, 4)  # rows away at which the two fills are compared
N_PROFILE = (2 * REACH + 1) + (REACH + 1)
N_FEATURES = N_PROFILE + len(_GAPS) + 2 * len(_VALLEYS) + 2 + len(_EDGES) + 4
N_ANSWERS = 6
EVERY = 4  # columns from one that is asked to the next
_BETWEEN = np.ones((1, 2 * EVERY - 1), np.uint8)
_AT_ONCE = 160  # samples: products this small stay in cache and on one core, and leave the other to other threads


@dataclass(frozen=True, slots=True)
class Table:
    """The fitted function's numbers: input scale and three layers (weights are inputs x outputs)."""

    mean: Array
    scale: Array
    weights: tuple[Array, Array, Array]
    biases: tuple[Array, Array, Array]


@dataclass(frozen=True, slots=True)
class Described:
    """What is known of the N samples to be judged: features (Q, N), and their light (C, N) as three sources have it.

    own: the plate. face: joined across what looks like a valley, from all else. banks: joined from outside the matte.
    """

    features: Array
    own: Array
    face: Array
    banks: Array


@dataclass(frozen=True, slots=True)
class Sources:
    """A ribbon's light, ln, and what its two fills make of it: (T, C, S) each.

    own: the plate. face: joined across what looks like a valley, from all else. banks: joined from outside the matte.
    near, far: the plate's mean over colours, (T, S), smoothed a little and much along the seam.
    """

    own: Array
    face: Array
    banks: Array
    near: Array
    far: Array

    def thinned(self) -> Sources:
        """Every fourth column."""
        whole = (self.own, self.face, self.banks, self.near, self.far)
        return Sources(*(np.ascontiguousarray(field[..., ::EVERY]) for field in whole))


def sources(light_TSC: Array, hole_TS: Bools) -> Sources:
    """The three sources of corrected light; `hole_TS` are samples in the matte or off the crop, not to be believed."""
    light_TCS = np.ascontiguousarray(light_TSC.transpose(0, 2, 1))
    n_columns = light_TCS.shape[2]
    near, far, trust = _shading(light_TCS, hole_TS)
    trust = np.concatenate([trust, (~hole_TS).astype(np.float32)], 1)
    joined = banks.join(np.concatenate([light_TCS, light_TCS], 2), trust)
    face_TCS, banks_TCS = _along_colours(joined[..., :n_columns], 1.0), _along_colours(joined[..., n_columns:], 2.0)
    return Sources(light_TCS, face_TCS, banks_TCS, near, far)


def _relit(known: Sources, light_CN: Array, hole_TS: Bools, places: _Places) -> Sources:
    """The sources once the samples at some places show other light. The banks do not: those are in the matte."""
    light_TCS = known.own.copy()
    for colour, light_N in enumerate(light_CN):
        np.put(light_TCS.reshape(-1), places.of(colour), light_N)
    near, far, trust = _shading(light_TCS, hole_TS)
    return Sources(light_TCS, _along_colours(banks.join(light_TCS, trust), 1.0), known.banks, near, far)


def _shading(light_TCS: Array, hole_TS: Bools) -> tuple[Array, Array, Array]:
    """The mean over colours, smoothed a little and much along the seam, and how far each sample may be believed."""
    luma = _mean(light_TCS)
    near, far = _along(luma, 1.5), _along(luma, 5.0)
    groove = cv2.morphologyEx(near, cv2.MORPH_BLACKHAT, np.ones((2 * _GROOVE + 1, 1), np.uint8))
    return near, far, _trust(groove, hole_TS)


def describe(known: Sources, hole_TS: Bools, own_TS: Bools) -> Described:
    """Describe the samples in `own_TS`, which stand at least REACH rows away from the ribbon's edges."""
    n_columns = known.own.shape[2]
    face, gap = _mean(known.face), _mean(known.banks)
    gap -= face
    places = _Places.where(own_TS)
    at = places.at
    own, face_here, banks_here = (places.read(field) for field in (known.own, known.face, known.banks))
    near, far = known.near, known.far
    features = np.empty((N_FEATURES, len(at)), np.float32)
    rows = iter(features)
    for field, offsets in ((near, range(-REACH, REACH + 1)), (far, range(-REACH, REACH + 1, 2)), (gap, _GAPS)):
        for offset in offsets:
            np.take(field, at + offset * n_columns, out=next(rows), mode="clip")
    features[:N_PROFILE] -= np.take(face, at)
    forms = [form for half in _VALLEYS for form in _valley_and_ridge(near, half)] + _valley_and_ridge(far, REACH)
    edge = hole_TS.astype(np.float32)
    for field, offset in [(form, 0) for form in forms] + [(edge, offset) for offset in _EDGES]:
        np.take(field, at + offset * n_columns, out=next(rows), mode="clip")
    residual = own - face_here
    mean = (residual[0] + residual[1] + residual[2]) * np.float32(1 / 3)
    for row in (residual[0] - mean, residual[2] - mean, mean, np.take(far - face - gap, at)):
        next(rows)[:] = row
    np.clip(features, -2.0, 2.0, out=features)
    return Described(features, own, face_here, banks_here)


def relight(light_TSC: Array, hole_TS: Bools, own_TS: Bools, table: Table) -> Array:
    """What to make of each sample: (T, S, 4), a base per colour and the share to keep.

    Corrected log light = base + keep * own log light. Outside `own_TS` base is 0 and keep 1.
    """
    return relight_in_turn(light_TSC, hole_TS, own_TS, (table,))


def relight_in_turn(
    light_TSC: Array, hole_TS: Bools, own_TS: Bools, tables: Sequence[Table], known: Sources | None = None
) -> Array:
    """`relight` by one table after the other, each on what the one before it left: (T, S, 4).

    known: the light's sources, where they are known already.
    """
    places = _Places.where(own_TS)
    known = known or sources(light_TSC, hole_TS)
    light_CN = places.read(known.own)
    base_CN, keep_N = _paint(known, hole_TS, own_TS, places, tables[0])
    for table in tables[1:]:
        known = _relit(known, base_CN + keep_N * light_CN, hole_TS, places)
        more_CN, keep = _paint(known, hole_TS, own_TS, places, table)
        base_CN, keep_N = more_CN + keep * base_CN, keep * keep_N
    out = np.zeros((own_TS.size, 4), np.float32)
    out[:, 3] = 1.0
    out[places.at] = np.concatenate([base_CN, keep_N[None]]).T
    return out.reshape(*own_TS.shape, 4)


@dataclass(frozen=True, slots=True)
class _Places:
    """Some samples of a ribbon, N, counted row by row."""

    at: Array
    rows: Array
    columns: Array
    n_columns: int

    @classmethod
    def where(cls, wanted_TS: Bools) -> _Places:
        at = np.flatnonzero(wanted_TS)
        rows, columns = np.divmod(at.astype(np.int32), np.int32(wanted_TS.shape[1]))
        return cls(at, rows, columns, wanted_TS.shape[1])

    def of(self, colour: int) -> Array:
        """Where they stand in a field (T, C, S)."""
        return self.at + self.n_columns * (2 * self.rows.astype(np.intp) + colour)

    def read(self, field_TCS: Array) -> Array:
        """A field (T, C, S) there: (C, N)."""
        out = np.empty((3, len(self.at)), np.float32)
        first = self.of(0)
        for colour in range(3):
            np.take(field_TCS, first + colour * self.n_columns, out=out[colour], mode="clip")
        return out


def _paint(known: Sources, hole_TS: Bools, own_TS: Bools, places: _Places, table: Table) -> tuple[Array, Array]:
    """Base (C, N) and keep (N,) at the places of `own_TS`.

    Answers change slowly along the seam: every fourth column is asked, and those between take a mean of the two beside.
    """
    asked_TS = np.ascontiguousarray(cv2.dilate(own_TS.view(np.uint8), _BETWEEN)[:, ::EVERY]).view(bool)
    described = describe(known.thinned(), np.ascontiguousarray(hole_TS[:, ::EVERY]), asked_TS)
    answer = _between(shared(evaluate(described.features, table)), asked_TS, places)
    base = answer[1] * places.read(known.face)
    base += answer[2] * places.read(known.banks)
    base += answer[3:]
    return base, answer[0]


def shared(answer: Array) -> Array:
    """Answers (6, N) with their first three rows turned from logits to shares."""
    shares = np.exp(np.maximum(answer[:3] - answer[:3].max(0), -30.0))
    answer[:3] = shares / (shares[0] + shares[1] + shares[2])
    return answer


def _between(answer: Array, asked_TS: Bools, places: _Places) -> Array:
    """Answers (6, N) at places of the whole ribbon, from those of every fourth column."""
    left, past = np.divmod(places.columns, np.int32(EVERY))
    number_TS = np.cumsum(asked_TS, dtype=np.intp) - 1
    first = places.rows * np.intp(asked_TS.shape[1]) + left
    before = np.take(number_TS, first)
    after = before + ((past > 0) & (left + 1 < asked_TS.shape[1]))
    share = past * np.float32(1 / EVERY)
    out = np.empty((len(answer), len(places.at)), np.float32)
    for row, values in zip(out, answer):
        np.take(values, before, out=row, mode="clip")
        more = np.take(values, after, mode="clip")
        more -= row
        more *= share
        row += more
    return out


def evaluate(features: Array, table: Table) -> Array:
    """The fitted function: (Q, N) -> (6, N), logits of the shares of own, face and banks, an offset per colour."""
    first = np.ascontiguousarray((table.weights[0] * table.scale[:, None]).T)
    second, third = np.ascontiguousarray(table.weights[1].T), np.ascontiguousarray(table.weights[2].T)
    biases = [bias[:, None] for bias in (table.biases[0] - first @ table.mean, *table.biases[1:])]
    out = np.empty((N_ANSWERS, features.shape[1]), np.float32)
    for start in range(0, features.shape[1], _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        x = first @ features[:, part]
        x += biases[0]
        x = second @ np.maximum(x, 0.0, out=x)
        x += biases[1]
        np.matmul(third, np.maximum(x, 0.0, out=x), out=out[:, part])
    out += biases[2]
    return out


def colours(field_TCS: Array, at: Array) -> Array:
    """Samples (C, N) of a field at places counted row by row."""
    return np.stack([np.take(np.ascontiguousarray(field_TCS[:, c]), at) for c in range(3)])


def _mean(field_TCS: Array) -> Array:
    out: Array = (field_TCS[:, 0] + field_TCS[:, 1] + field_TCS[:, 2]) * np.float32(1 / 3)
    return out


def _trust(valley_TS: Array, hole_TS: Bools) -> Array:
    """How far each sample may be believed: 1 outside the matte, less the deeper in a valley."""
    trust = cv2.erode(1.0 / (1.0 + (valley_TS / np.float32(_VALLEY_LIMIT)) ** 2), np.ones((3, 1), np.uint8))
    return np.where(hole_TS, trust * trust, np.float32(1.0))


def _along_colours(field_TCS: Array, sigma: float) -> Array:
    flat = np.ascontiguousarray(field_TCS).reshape(-1, field_TCS.shape[2])
    return _along(flat, sigma).reshape(field_TCS.shape)


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
