"""How wide a character's seams are, where its roto does not say.

An artist's open spline runs along a seam and says nothing of its width. The keyed frames do: pictures are straightened
along every keyed seam, and what happens across it in all of them, above what the skin beside it does, is summed up.
That sum, the light a seam takes away times the width it takes it from, stays the same however soft the lens is, while
the width of a dark line in a small picture is that of the lens (the equivalent width of a spectral line). A groove's
bevels grow with its root.

T places along, D offsets across. Widths in shares of the face (longest side of its landmarks' box).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.seams.placement import places_along
from rotopaint_ai.sheet import ShapeSpec
from rotopaint_ai.training.data.dataset import Dataset, Picture
from rotopaint_ai.training.data.memory import face_side
from rotopaint_ai.training.data.shards.stream import smaller

Array = npt.NDArray[Any]

USUAL_SEAM_SHARE = 0.019  # of a seam that nobody measured: the median of 4,000 stage pictures
FACE_PX = 250.0  # larger faces are shrunk: all are measured alike
MOST_SAMPLES = 80
MOST_SHARDS = 4
FEWEST_PLACES = 120

# Half the width that holds 95 % of a seam's pixels is this times the root of its equivalent width: the median of 207
# seams of rendered characters (`python -m rotopaint_ai.stage seams`, seed 30000), off by a factor of 1.7 (deviation).
_HALF_OF_ROOT = 0.272
_HELD = 0.85  # of that width: mattes are widened by what a curve may be off besides
_LEAST, _MOST = 0.008, 0.05
_SPAN, _STEP = 0.05, 0.001  # offsets looked at
_BANKS = (0.022, 0.04)  # where the skin beside a seam tells what would be there without it
_FLOOR = (0.015, 0.025)  # where what happens across is not the seam's any more
_CORE = 0.02
_CLEAR = 0.01  # change of light, as a share of it, below which nothing is to be seen of a seam
_GAMMA = 2.2


def with_seam_widths(data: Dataset) -> Dataset:
    """The data set with widths in its sheet for open seams that have none but the usual one: as some samples tell, such
    as those of a project where a person set it, else measured."""
    rows = _rows_at_hand(data, np.concatenate([data.rows_of("train"), data.rows_of("val")]))
    rows = np.array(evenly_spread(rows.tolist(), MOST_SAMPLES), np.intp)
    measured = np.asarray(np.isfinite(data.truth.width).any(axis=0)).tolist()
    unknown = [spec for spec, is_known in zip(data.sheet.shapes, measured) if _is_usual(spec) and not is_known]
    if not len(rows):
        return data
    found = {name: share for name, share in measure_widths(data, unknown, rows).items() if share is not None}
    found |= widths_by_hand(data)
    if not found:
        return data
    shapes = tuple(replace(spec, width_share=found.get(spec.name, spec.width_share)) for spec in data.sheet.shapes)
    return replace(data, sheet=replace(data.sheet, shapes=shapes))


def _rows_at_hand(data: Dataset, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """The rows of a few shards; the others are fetched while training goes on. All rows where there are no shards."""
    if (groups := data.groups()) is None:
        return rows
    shards = np.asarray(groups)[rows]
    return rows[np.isin(shards, list(dict.fromkeys(shards.tolist()))[:MOST_SHARDS])]


def _is_usual(spec: ShapeSpec) -> bool:
    own = spec.width_share is not None and spec.width_share != USUAL_SEAM_SHARE
    return spec.role == "seam" and not spec.closed and not own


def widths_by_hand(data: Dataset) -> dict[str, float]:
    """Full widths as shares of the face of seams that have the usual one in the sheet and another in some samples only:
    for the others."""
    sides, found = face_side(data.truth.landmarks), {}
    for k, spec in enumerate(data.sheet.shapes):
        width = data.truth.width[:, k]
        known = np.isfinite(width) & (width > 0)
        if _is_usual(spec) and known.any() and not known.all():
            found[spec.name] = float(np.median(width[known] / sides[known]).round(5))
    return found


def measure_widths(data: Dataset, specs: Sequence[ShapeSpec], rows: npt.NDArray[np.intp]) -> dict[str, float | None]:
    """Full width of each seam's matte as a share of the face, from some samples; None where none is to be seen."""
    strips: dict[str, list[Array]] = {spec.name: [] for spec in specs}
    slots, sides = data.sheet.point_rows(), face_side(data.truth.landmarks)
    for row in rows:
        whole = data.picture(int(row))
        picture = smaller(whole, min(1.0, FACE_PX / float(sides[row])))
        factor = picture.shape[1] / whole.shape[1]
        grey = _grey(picture)
        for spec in specs:
            points = data.truth.points[row, slots[spec.name]].astype(np.float64)
            strip = _straight_strip(grey, points * factor, float(sides[row]) * factor)
            if strip is not None:
                strips[spec.name].append(strip)
    return {name: _strip_width(np.concatenate(parts)) if parts else None for name, parts in strips.items()}


def _grey(picture: Picture) -> Array:
    light = cv2.cvtColor((picture.astype(np.float32) / 255) ** _GAMMA, cv2.COLOR_RGB2GRAY)
    return np.asarray(light ** (1 / _GAMMA))


def _offsets() -> Array:
    return np.linspace(-_SPAN, _SPAN, round(2 * _SPAN / _STEP) + 1)


def _straight_strip(grey: Array, points: Array, face: float) -> Array | None:
    """The picture straightened along a curve (T, D); None for one that is unknown or of no length."""
    places = places_along(points, face / 160) if np.isfinite(points).all() else None
    if places is None:
        return None
    at = places.centre[:, None] + places.normal[:, None] * (_offsets() * face)[:, None] - 0.5
    maps = at.astype(np.float32)
    return cast(Array, cv2.remap(grey, maps[..., 0], maps[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE))


def _strip_width(strip: Array) -> float | None:
    excess = _light_excess(strip)
    if len(strip) < FEWEST_PLACES or excess.max() < _CLEAR:
        return None
    half = _HALF_OF_ROOT * np.sqrt(float(excess.sum()) * _STEP)
    return float(np.clip(2 * _HELD * half, _LEAST, _MOST).round(5))


def _light_excess(strip: Array) -> Array:
    """How far the light across a seam (T, D) strays from a straight run between its banks, as a share of it and in the
    median over its places, above what it strays beside the seam (D,)."""
    away = np.abs(_offsets())
    line = np.stack([np.ones_like(away), _offsets()], axis=1)
    bank = (away > _BANKS[0]) & (away < _BANKS[1])
    run, *_ = np.linalg.lstsq(line[bank], strip[:, bank].T, rcond=None)
    off = (strip - (line @ run).T) / np.maximum(strip.mean(axis=1, keepdims=True), 1e-3)
    usual = np.sqrt(np.median(off**2, axis=0))
    usual = (usual + usual[::-1]) / 2
    floor = np.median(usual[(away > _FLOOR[0]) & (away < _FLOOR[1])])
    return np.asarray(np.clip(usual - floor, 0, None) * (away < _CORE))
