"""Seam widths that the roto does not state, measured in pictures where the seam is keyed (`keyed_width`).

Widths are shares of the face: of the longest side of its landmarks' bounding box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.seams.keyed_width import display_grey, straight_strip, strip_width
from rotopaint_ai.sheet import ShapeSpec
from rotopaint_ai.training.data.dataset import Dataset
from rotopaint_ai.training.data.memory import face_side
from rotopaint_ai.training.data.shards.stream import shrink_picture

Array = npt.NDArray[Any]

USUAL_SEAM_SHARE = 0.019  # width of an unmeasured seam: the median over 4,000 stage pictures
FACE_PX = 250.0  # larger faces are shrunk to this size, so that all are measured at one scale
MOST_SAMPLES = 80
MOST_SHARDS = 4


def add_seam_widths(data: Dataset) -> Dataset:
    """The data set with a width in its sheet for every open seam that still has the default width.

    A width comes from samples that state one, such as those of a project where a person set it; else it is measured.
    """
    rows = _rows_in_first_shards(data, np.concatenate([data.rows_of("train"), data.rows_of("val")]))
    rows = np.array(evenly_spread(rows.tolist(), MOST_SAMPLES), np.intp)
    measured = np.asarray(np.isfinite(data.truth.width).any(axis=0)).tolist()
    unknown = [spec for spec, is_known in zip(data.sheet.shapes, measured) if _has_default_width(spec) and not is_known]
    if not len(rows):
        return data
    found = {name: share for name, share in measure_widths(data, unknown, rows).items() if share is not None}
    found |= stated_widths(data)
    if not found:
        return data
    shapes = tuple(replace(spec, width_share=found.get(spec.name, spec.width_share)) for spec in data.sheet.shapes)
    return replace(data, sheet=replace(data.sheet, shapes=shapes))


def _rows_in_first_shards(data: Dataset, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """The rows in the first few shards, because the others are downloaded during training. All rows without shards."""
    if (groups := data.groups()) is None:
        return rows
    shards = np.asarray(groups)[rows]
    return rows[np.isin(shards, list(dict.fromkeys(shards.tolist()))[:MOST_SHARDS])]


def _has_default_width(spec: ShapeSpec) -> bool:
    own = spec.width_share is not None and spec.width_share != USUAL_SEAM_SHARE
    return spec.role == "seam" and not spec.closed and not own


def stated_widths(data: Dataset) -> dict[str, float]:
    """Full width, as a share of the face, of each seam that has the default width in the sheet.

    It is the median over the samples that state a width; seams that no sample or every sample states are left out.
    """
    sides, found = face_side(data.truth.landmarks), {}
    for k, spec in enumerate(data.sheet.shapes):
        width = data.truth.width[:, k]
        known = np.isfinite(width) & (width > 0)
        if _has_default_width(spec) and known.any() and not known.all():
            found[spec.name] = float(np.median(width[known] / sides[known]).round(5))
    return found


def measure_widths(data: Dataset, specs: Sequence[ShapeSpec], rows: npt.NDArray[np.intp]) -> dict[str, float | None]:
    """Full width of each seam's matte as a share of the face, measured on `rows`; None where no seam is visible."""
    strips: dict[str, list[Array]] = {spec.name: [] for spec in specs}
    slots, sides = data.sheet.point_rows(), face_side(data.truth.landmarks)
    for row in rows:
        whole = data.picture(int(row))
        picture = shrink_picture(whole, min(1.0, FACE_PX / float(sides[row])))
        factor = picture.shape[1] / whole.shape[1]
        grey = display_grey(picture)
        for spec in specs:
            points = data.truth.points[row, slots[spec.name]].astype(np.float64)
            strip = straight_strip(grey, points * factor, float(sides[row]) * factor)
            if strip is not None:
                strips[spec.name].append(strip)
    return {name: strip_width(np.concatenate(parts)) if parts else None for name, parts in strips.items()}
