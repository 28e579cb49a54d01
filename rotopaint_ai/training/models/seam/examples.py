"""Training examples of the seam network: straightened strips around curves that err like predictions do.

The target is the offset of the true curve at each pair of rows, or that the seam is not visible there.
N batch, T rows along the curve, S pairs of rows, D offsets across it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import CROP_MARGIN, Crop, crop_around, cut
from rotopaint_ai.seams.path import N_OFFSETS, OFFSETS
from rotopaint_ai.seams.placement import (
    ACROSS,
    ALONG,
    BEYOND,
    COARSE_PICTURE_PX,
    ZOOMS,
    CurvePlaces,
    places_along,
    strips,
)
from rotopaint_ai.shapes.bezier import evaluate, segments
from rotopaint_ai.sheet import ShapeSpec
from rotopaint_ai.training.data.dataset import Dataset, Picture, Split
from rotopaint_ai.training.data.memory import stream_pictures

Array = npt.NDArray[Any]

_SPREAD = 0.8  # standard deviation of the target around the true offset, in steps
_WAVES = 12  # most half waves of a prediction's error along the curve
_DAMPING = (0.2, 0.5)  # range for the damping of short waves, drawn per curve: some predictions cut corners
_PAST, _PAST_SPREAD = 3 * BEYOND, 6.0  # most positions past either end, and the deviation of their number
_WANDER = 0.2  # furthest match along the curve, as a share of its length


class StripBatch(NamedTuple):
    """Strips [N, T, D, 3] and target probabilities [N, S, D + 1], zero where unknown."""

    strip: Array
    target: Array


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """A frame's strips (T, D, 3) with the true offset (S,) in steps at each pair of rows; NaN: seam not visible.

    `weight` (S,) is 0 where unknown.
    """

    strip: Array
    offset: Array
    weight: Array


@dataclass(frozen=True, slots=True)
class Examples:
    """Makes examples from a data set's samples; `pictures` are decoded on demand."""

    dataset: Dataset
    pictures: Sequence[Picture]

    @classmethod
    def of(cls, dataset: Dataset) -> Examples:
        """The examples of a data set on disk or in shards."""
        return cls(dataset, stream_pictures(dataset))

    def rows_of(self, split: Split) -> Array:
        """Rows of a split's samples that have a seam with a known curve."""
        rows, slots = self.dataset.rows_of(split), self.dataset.sheet.point_rows()
        points = self.dataset.truth.points
        known = [np.isfinite(points[rows][:, slots[spec.name]]).all(axis=(1, 2)) for spec in self._seams()]
        return np.asarray(rows[np.any(known, axis=0)] if known else rows[:0])

    def make(self, row: int, rng: np.random.Generator, *, augment: bool = True) -> Example | None:
        """An example of one sample at a random zoom; None if it has no seam long enough."""
        truth, zoom = self.dataset.truth, int(rng.choice(ZOOMS))
        known = truth.landmarks[row][np.isfinite(truth.landmarks[row]).all(axis=1)]
        crop = crop_around(known.astype(np.float64), margin=CROP_MARGIN)
        face = crop.side / CROP_MARGIN * (float(np.exp(rng.normal(0, 0.06))) if augment else 1.0)
        side = COARSE_PICTURE_PX * zoom
        picture = _cut_crop(self.pictures[row], crop, side, rng if augment else None)
        found = [item for spec in self._seams() if (item := self._seam(row, spec, face / zoom, rng)) is not None]
        if not found:
            return None
        corner = np.array([crop.x, crop.y]) - crop.side / 2
        strip, pairs = strips([item[0] for item in found], picture, side / crop.side, corner, face / zoom / ACROSS)
        offset, weight = np.full(strip.shape[1] // 2, np.nan), np.zeros(strip.shape[1] // 2)
        for part, (_, at, known_at) in zip(pairs, found):
            offset[part], weight[part] = at, known_at
        flip = rng.random() < 0.5
        return Example(strip[0, :, ::-1] if flip else strip[0], -offset if flip else offset, weight)

    def _seams(self) -> list[ShapeSpec]:
        return [shape for shape in self.dataset.sheet.shapes if shape.role == "seam" and not shape.closed]

    def _seam(
        self, row: int, spec: ShapeSpec, face: float, rng: np.random.Generator
    ) -> tuple[CurvePlaces, Array, Array] | None:
        sheet, truth = self.dataset.sheet, self.dataset.truth
        points = truth.points[row, sheet.point_rows()[spec.name]].astype(np.float64)
        if not np.isfinite(points).all():
            return None
        places = places_past_ends(misplace_spline(points, face, rng), face / ALONG, rng)
        if places is None:
            return None
        offset, at = true_offsets(places.pairs, points, face / ACROSS)
        marks = sorted(spec.on_landmarks)
        rows = [sheet.landmark_row(spec.on_landmarks[mark]) for mark in marks]
        visible = np.nan_to_num(truth.visible[row, rows], nan=0.5) if marks else np.ones(1)
        seen = np.interp(at, marks, visible) if marks else np.ones(len(at))
        hidden, unsure = seen < 0.01, (seen >= 0.01) & (seen <= 0.99)
        out = np.isnan(offset) | (np.abs(offset) > N_OFFSETS / 2)
        return places, np.where(hidden | out, np.nan, offset), np.where(unsure & ~out, 0.0, 1.0)


def misplace_spline(points: Array, face: float, rng: np.random.Generator) -> Array:
    """Control points (P, 6) with an error like a prediction's: a random similarity and smooth bend, 0.3 to 5 % of a
    face."""
    size = face * float(np.exp(rng.uniform(np.log(0.003), np.log(0.05))))
    n = len(points) - 1
    own = np.arange(n + 1) / n
    stretch = float(np.exp(rng.normal(0, 0.15))) if rng.random() < 0.5 else 1.0
    turn = np.exp(1j * rng.normal(0, 0.8 * size / face)) * np.exp(rng.normal(0, 0.6 * size / face)) * stretch
    length = float(np.linalg.norm(np.diff(points[:, :2], axis=0), axis=1).sum())
    waves_k = np.arange(_WAVES)
    amplitudes = rng.normal(0, 1, (2, _WAVES)) * size / (1 + (rng.uniform(*_DAMPING) * waves_k * face / length) ** 2)
    phases = rng.uniform(0, 2 * np.pi, (2, _WAVES))
    phases[:, 0] = 0.0

    def moved(at: Array, tau: Array) -> Array:
        waves = np.cos(np.pi * waves_k * tau[:, None, None] + phases)
        z = (at - points[:, :2].mean(axis=0)) @ np.array([1, 1j]) * turn
        centre = points[:, :2].mean(axis=0)
        return np.asarray(np.stack([z.real, z.imag], 1) + centre + (amplitudes * waves).sum(axis=2))

    middle = moved(points[:, :2], own)
    before = moved(points[:, :2] + points[:, 2:4], own - 1 / (3 * n)) - middle
    after = moved(points[:, :2] + points[:, 4:6], own + 1 / (3 * n)) - middle
    return np.concatenate([middle, before, after], axis=1)


def places_past_ends(points: Array, spacing: float, rng: np.random.Generator) -> CurvePlaces | None:
    """Positions along a curve (P, 6), extended past either end by a random number of them, 0 to _PAST.

    Their mean is the number at run time, BEYOND. Nothing but the picture tells the network then where a seam ends.
    """
    places = places_along(points, spacing, _PAST)
    if places is None:
        return None
    first, last = np.clip(rng.normal(BEYOND, _PAST_SPREAD, 2), 0, _PAST).astype(int)
    kept = slice(_PAST - first, len(places.at) - _PAST + last - (first + last) % 2)
    return CurvePlaces(places.centre[kept], places.normal[kept], places.at[kept])


def true_offsets(places: CurvePlaces, points: Array, step: float) -> tuple[Array, Array]:
    """Intersection of the true curve (P, 6) with the normal at each row.

    Returns the offset in steps (S,), NaN where there is none, and the curve's parameter there, counted in segments.
    """
    n = len(points) - 1
    line = evaluate(segments(points, False), np.linspace(0, 1, 16, endpoint=False)).reshape(-1, 2)
    line = np.concatenate([line, points[-1:, :2]])
    u = np.linspace(0, n, len(line))
    away = line[None] - places.centre[:, None]
    across = (away * places.normal[:, None]).sum(axis=2)
    along = away[..., 0] * places.normal[:, None, 1] - away[..., 1] * places.normal[:, None, 0]
    share = along[:, :-1] / np.where(along[:, :-1] == along[:, 1:], 1.0, along[:, :-1] - along[:, 1:])
    crosses = (along[:, :-1] * along[:, 1:] <= 0) & (along[:, :-1] != along[:, 1:])
    value = across[:, :-1] + share * (across[:, 1:] - across[:, :-1])
    past = max(0.0, -float(places.at.min()) / n, float(places.at.max()) / n - 1)
    near = np.abs(u[:-1] / n - (places.at / n)[:, None]) < _WANDER + past
    distance = np.where(crosses & near, np.abs(value), np.inf)
    best = distance.argmin(axis=1)
    rows = np.arange(len(best))
    offset = np.where(np.isfinite(distance[rows, best]), value[rows, best] / step, np.nan)
    return offset, np.where(np.isnan(offset), np.clip(places.at, 0, n), u[best])


def _cut_crop(picture: Array, crop: Crop, side: int, rng: np.random.Generator | None) -> Array:
    cropped = cut(picture.astype(np.float32) / np.float32(255), (0, 0), crop, side)
    if rng is not None:
        cropped = degrade_crop(cropped, rng)
    return np.rint(np.clip(cropped, 0, 1) * 255).astype(np.uint8)


def degrade_crop(picture: Array, rng: np.random.Generator) -> Array:
    """Random lighting, colour, focus, grain and JPEG compression."""
    blur = rng.uniform(-0.8, 1.3) * len(picture) / COARSE_PICTURE_PX
    if blur > 0.3:
        picture = cv2.GaussianBlur(picture, (0, 0), blur)
    elif blur < 0:
        picture = picture + (picture - cv2.GaussianBlur(picture, (0, 0), 1.0)) * -2 * max(blur, -0.8)
    picture = np.clip(picture, 1e-4, 1) ** np.float32(np.exp(rng.normal(0, 0.25)))
    picture = picture * np.exp(rng.normal(0, 0.25) + rng.normal(0, 0.08, 3)).astype(np.float32)
    if rng.random() < 0.2:
        picture = np.repeat(picture.mean(axis=2, keepdims=True), 3, axis=2)
    if rng.random() < 0.6:
        grain = rng.standard_normal((*picture.shape[:2], 1), np.float32) * np.float32(rng.uniform(0, 0.02))
        picture = picture + grain
    if rng.random() < 0.3:
        coded = np.rint(np.clip(picture, 0, 1) * 255).astype(np.uint8)
        _, data = cv2.imencode(".jpg", coded, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(50, 95))])
        picture = cast(Array, cv2.imdecode(data, cv2.IMREAD_COLOR)).astype(np.float32) / 255
    return picture


def pad_examples(examples: Sequence[Example]) -> StripBatch:
    """Pad examples of different lengths into one batch."""
    longest = max(len(item.strip) for item in examples)
    strip = np.zeros((len(examples), longest, N_OFFSETS, 3), np.float32)
    target = np.zeros((len(examples), longest // 2, N_OFFSETS + 1), np.float32)
    for row, item in enumerate(examples):
        strip[row, : len(item.strip)] = item.strip
        seen = np.isfinite(item.offset)
        peak = np.exp(-0.5 * ((OFFSETS - np.nan_to_num(item.offset)[:, None]) / _SPREAD) ** 2)
        peak /= peak.sum(axis=1, keepdims=True) + 1e-9
        own = target[row, : len(item.offset)]
        own[:, :-1] = peak * (seen * item.weight)[:, None]
        own[:, -1] = ~seen * item.weight * 0.7
    return StripBatch(strip, target)
