"""Training examples of the seam network: straightened strips around curves that err like predictions do.

The target is the offset of the true curve at each pair of rows, or that the seam is not visible there.
B pictures, N strips, T rows along the curve, S pairs of rows, D offsets across it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import CROP_MARGIN, Crop, crop_around, cut
from rotopaint_ai.seams.path import N_OFFSETS, OFFSETS
from rotopaint_ai.seams.placement import (
    ACROSS,
    ALONG,
    COARSE_PICTURE_PX,
    PICTURE_PX,
    ZOOMS,
    CurvePlaces,
    picture_for,
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
_PAST = 24  # most positions past either end
_SHORT, _SHORT_SHARE = 6, 0.2  # most positions that are missing there instead, and most of a curve's
_SHIFT, _STRETCH = 0.03, 0.07  # deviations of a crop's place and of the logarithm of its side, as shares of the side
_WANDER = 0.2  # furthest match along the curve, as a share of its length


class StripBatch(NamedTuple):
    """Crops [B, P, P, 3] uint8; strips [N, T, D, 3] of the crops in `row` [N], where they lie on it [N, T, D, 2], and
    target probabilities [N, S, D + 1], zero where unknown."""

    picture: Array
    strip: Array
    places: Array
    row: Array
    target: Array


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """A picture's strips (T, D, 3) at one zoom with the true offset (S,) in steps at each pair of rows; NaN: seam not
    visible.

    `places` (T, D, 2): -1 to 1 from one side of the crop to the other, beyond it between strips. `weight` (S,) is 0
    where unknown.
    """

    strip: Array
    places: Array
    offset: Array
    weight: Array


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """A sample's crop (P, P, 3), and strips from it at each zoom."""

    picture: Array
    strips: tuple[Strip, ...]


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
        """An example of one sample; None if it has no seam long enough."""
        truth = self.dataset.truth
        known = truth.landmarks[row][np.isfinite(truth.landmarks[row]).all(axis=1)]
        crop = crop_around(known.astype(np.float64), margin=CROP_MARGIN)
        face = crop.side / CROP_MARGIN * (float(np.exp(rng.normal(0, 0.06))) if augment else 1.0)
        if augment:
            x, y = np.array([crop.x, crop.y]) + rng.normal(0, _SHIFT * crop.side, 2)
            crop = Crop(float(x), float(y), crop.side * float(np.exp(rng.normal(0, _STRETCH))))
        picture = _cut_crop(self.pictures[row], crop, PICTURE_PX, rng if augment else None)
        made = [self._strip(row, picture, crop, face / zoom, zoom, rng) for zoom in ZOOMS]
        strips = tuple(each for each in made if each is not None)
        if augment and rng.random() < 0.5:  # the crop's mirror image; a strip is the same from either side
            picture = np.ascontiguousarray(picture[:, ::-1])
            strips = tuple(replace(each, places=each.places * np.array([-1, 1], np.float32)) for each in strips)
        return Example(picture, strips) if strips else None

    def _strip(
        self, row: int, picture: Array, crop: Crop, face: float, zoom: int, rng: np.random.Generator
    ) -> Strip | None:
        found = [item for spec in self._seams() if (item := self._seam(row, spec, face, rng)) is not None]
        if not found:
            return None
        step, ribbons = face / ACROSS, [item[0] for item in found]
        strip, pairs = strips(ribbons, picture_for(zoom, picture), crop, step)
        strip, offset = strip[0], np.full(strip.shape[1] // 2, np.nan)
        weight, places = np.zeros(len(offset)), np.full((*strip.shape[:2], 2), -2 * CROP_MARGIN, np.float32)
        for part, (ribbon, at, known_at) in zip(pairs, found):
            offset[part], weight[part] = at, known_at
            rows = slice(2 * part.start, 2 * part.start + len(ribbon.at))
            places[rows] = 2 * (ribbon.points_at(OFFSETS * step) - (crop.x, crop.y)) / crop.side
        if rng.random() < 0.5:
            strip, places, offset = strip[:, ::-1], places[:, ::-1], -offset
        return Strip(strip, places, offset, weight)

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
    """Positions along a curve (P, 6), extended past either end by any number of them up to _PAST, or a few too few.

    Nothing but the picture tells the network then where a seam ends.
    """
    places = places_along(points, spacing, _PAST)
    if places is None:
        return None
    own = len(places.at) - 2 * _PAST
    first, last = rng.integers(-min(_SHORT, int(_SHORT_SHARE * own)), _PAST + 1, 2)
    kept = slice(_PAST - first, _PAST + own + last - (first + last) % 2)
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
    rows = [row for row, item in enumerate(examples) for _ in item.strips]
    parts = [part for item in examples for part in item.strips]
    longest = max(len(part.strip) for part in parts)
    strip = np.zeros((len(parts), longest, N_OFFSETS, 3), np.float32)
    places = np.full((len(parts), longest, N_OFFSETS, 2), -2 * CROP_MARGIN, np.float32)
    target = np.zeros((len(parts), longest // 2, N_OFFSETS + 1), np.float32)
    for k, part in enumerate(parts):
        strip[k, : len(part.strip)], places[k, : len(part.strip)] = part.strip, part.places
        seen = np.isfinite(part.offset)
        peak = np.exp(-0.5 * ((OFFSETS - np.nan_to_num(part.offset)[:, None]) / _SPREAD) ** 2)
        peak /= peak.sum(axis=1, keepdims=True) + 1e-9
        own = target[k, : len(part.offset)]
        own[:, :-1] = peak * (seen * part.weight)[:, None]
        own[:, -1] = ~seen * part.weight * 0.7
    return StripBatch(np.stack([item.picture for item in examples]), strip, places, np.array(rows), target)
