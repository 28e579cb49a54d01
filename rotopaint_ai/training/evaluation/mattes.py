"""Mattes of found and true shapes: intersection over union, and the boundary F measure at 1, 2 and 3 pixels.

Mattes are exact-area float coverage in plate pixels; an open shape is a stroke as wide as its seam.

Source of the boundary measure: Perazzi et al., "A Benchmark Dataset and Evaluation Methodology for Video Object
Segmentation" (2016), section 4.1 (contour accuracy F), with fixed tolerances in pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.shapes import rasterise
from rotopaint_ai.shapes.rasterise import Region
from rotopaint_ai.sheet import ShapeSpec
from rotopaint_ai.training.data.dataset import Dataset
from rotopaint_ai.training.evaluation.predictions import Predictions, true_curve

Array = npt.NDArray[np.float64]
Matte = npt.NDArray[np.float32]

TOLERANCES_PX = (1, 2, 3)
_ROOM = 2
_ROWS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class MatteFigures:
    """Of each looked-at sample and shape, NaN where not known: IoU [N, K], boundary F [N, K, 3]."""

    iou: Array
    boundary: Array


@dataclass(frozen=True, slots=True)
class _ShapePair:
    """A shape of a sample as found and as it is, in plate pixels, with their widths; and the picture's size there."""

    row: int
    column: int
    spec: ShapeSpec
    points: tuple[Array, Array]
    widths: tuple[float, float]
    size: tuple[int, int]


def measure_mattes(
    dataset: Dataset,
    predicted: Predictions,
    rows: npt.NDArray[np.intp],
    tell: Callable[[int, int], None],
    workers: Executor | None = None,
) -> MatteFigures:
    """Rasterise the shapes of some samples, found and true, and compare. Open shapes need a known width.

    `tell` hears how many parts are done, and of how many."""
    shapes = dataset.sheet.shapes
    iou = np.full((len(dataset), len(shapes)), np.nan)
    boundary = np.full((len(dataset), len(shapes), len(TOLERANCES_PX)), np.nan)
    parts = [_pairs_of(dataset, predicted, rows[at : at + _ROWS_AT_ONCE]) for at in range(0, len(rows), _ROWS_AT_ONCE)]
    compared = map(_compare, parts) if workers is None else workers.map(_compare, parts)
    tell(0, len(parts))
    for done, (part, figures) in enumerate(zip(parts, compared), start=1):
        tell(done, len(parts))
        for pair, (overlap, edges) in zip(part, figures):
            iou[pair.row, pair.column] = overlap
            boundary[pair.row, pair.column] = edges
    return MatteFigures(iou, boundary)


def _pairs_of(dataset: Dataset, predicted: Predictions, rows: Iterable[int]) -> list[_ShapePair]:
    found = (
        _pair(dataset, predicted, int(row), column, spec)
        for row in rows
        for column, spec in enumerate(dataset.sheet.shapes)
    )
    return [pair for pair in found if pair is not None]


def _pair(dataset: Dataset, predicted: Predictions, row: int, column: int, spec: ShapeSpec) -> _ShapePair | None:
    true = true_curve(dataset, row, spec.name)
    if true is None or spec.name not in predicted.curves:
        return None
    sample, found = dataset.samples[row], predicted.curves[spec.name][row]
    widths = float(predicted.widths[row, column]), float(dataset.truth.width[row, column])
    if not spec.closed and not all(np.isfinite(width) and width > 0 for width in widths):
        return None
    scale = sample.pixel_scale
    size = (max(8, round(sample.width / scale)), max(8, round(sample.height / scale)))
    points = found.astype(np.float64) / scale, true.astype(np.float64) / scale
    return _ShapePair(row, column, spec, points, (widths[0] / scale, widths[1] / scale), size)


def _compare(pairs: list[_ShapePair]) -> list[tuple[float, Array]]:
    """IoU and boundary F [3] of each pair."""
    drawn = (_rasterise_pair(pair) for pair in pairs)
    return [(intersection_over_union(*mattes), boundary_f(*mattes)) for mattes in drawn]


def _rasterise_pair(pair: _ShapePair) -> tuple[Matte, Matte]:
    found, true = (_region(points, pair.spec, width, pair.size) for points, width in zip(pair.points, pair.widths))
    return _side_by_side(found, true)


def _region(points: Array, spec: ShapeSpec, width: float, size: tuple[int, int]) -> Region:
    if spec.closed:
        return rasterise.rasterise_closed(points, *size)
    return rasterise.rasterise_open(points, *size, width_px=width, taper=spec.taper)


def _side_by_side(one: Region, other: Region) -> tuple[Matte, Matte]:
    """Two mattes in the smallest window that holds both, with room for a boundary all round."""
    known = [region for region in (one, other) if not region.is_empty]
    if not known:
        return np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32)
    x, y = min(r.x for r in known) - _ROOM, min(r.y for r in known) - _ROOM
    width = max(r.x + r.coverage.shape[1] for r in known) + _ROOM - x
    height = max(r.y + r.coverage.shape[0] for r in known) + _ROOM - y
    pair = []
    for region in (one, other):
        matte = np.zeros((height, width), np.float32)
        rows, columns = region.coverage.shape
        matte[region.y - y : region.y - y + rows, region.x - x : region.x - x + columns] = region.coverage
        pair.append(matte)
    return pair[0], pair[1]


def intersection_over_union(a: Matte, b: Matte) -> float:
    """Sum of the smaller over sum of the larger coverage; 1 for two empty mattes."""
    larger = float(np.maximum(a, b).sum())
    return float(np.minimum(a, b).sum()) / larger if larger > 0 else 1.0


def boundary_f(found: Matte, true: Matte) -> Array:
    """[3] harmonic mean of precision and recall of boundary pixels within 1, 2 and 3 px of the other boundary."""
    edges = [_matte_edge(matte) for matte in (found, true)]
    if not edges[0].any() or not edges[1].any():
        return np.full(len(TOLERANCES_PX), float(edges[0].any() == edges[1].any()))
    away = [cv2.distanceTransform((~edge).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE) for edge in edges]
    shares = [
        [float((away[other][edges[own]] <= limit).mean()) for own, other in ((0, 1), (1, 0))] for limit in TOLERANCES_PX
    ]
    return np.array([0.0 if p + r == 0 else 2 * p * r / (p + r) for p, r in shares])


def _matte_edge(matte: Matte) -> npt.NDArray[np.bool_]:
    inside = (matte >= 0.5).astype(np.uint8)
    return np.asarray(inside.astype(bool) & ~cv2.erode(inside, np.ones((3, 3), np.uint8)).astype(bool))
