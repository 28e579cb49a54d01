"""The agreement of two mattes: overlap, and distance of boundaries."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.shapes.rasterise import Region

Array = npt.NDArray[np.float64]
Matte = npt.NDArray[np.float32]

TOLERANCES_PX = (1, 2, 3)
_ROOM = 2


def side_by_side(one: Region, other: Region) -> tuple[Matte, Matte]:
    """Two mattes in their common bounding window: (h, w) each, with a margin for boundaries."""
    known = [region for region in (one, other) if not region.is_empty]
    if not known:
        return np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32)
    x, y = min(r.x for r in known) - _ROOM, min(r.y for r in known) - _ROOM
    width = max(r.x + r.coverage.shape[1] for r in known) + _ROOM - x
    height = max(r.y + r.coverage.shape[0] for r in known) + _ROOM - y
    first, second = (Region(r.x - x, r.y - y, r.coverage).paste(width, height) for r in (one, other))
    return first, second


def intersection_over_union(a: Matte, b: Matte) -> float:
    """Sum of the smaller over sum of the larger coverage (h, w), 0 to 1; 1 for two empty mattes."""
    larger = float(np.maximum(a, b).sum())
    return float(np.minimum(a, b).sum()) / larger if larger > 0 else 1.0


def boundary_f(found: Matte, true: Matte) -> Array:
    """Harmonic mean (3,) of precision and recall of two mattes' boundary pixels within 1, 2 and 3 px of the other
    boundary; found, true: (h, w)."""
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
