"""How good a second opinion is: boundary F at 1, 2 and 3 pixels, and intersection over union, against what is true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.seams.agreement import SURE, agreement
from rotopaint_ai.training.evaluation.mattes import TOLERANCES_PX, boundary_f, intersection_over_union
from rotopaint_ai.training.models.segmentation.batches import straight
from rotopaint_ai.training.models.segmentation.views import SegmentationView

Array = npt.NDArray[Any]
SIDEWAYS = 0.06  # of the crop: by how much a matte is moved to see that the agreement falls


def figures(
    opine: Callable[[Array], Sequence[Array]], views: Sequence[SegmentationView], size_px: int, margin: float
) -> dict[str, Any]:
    """Figures on the nominal crops of some views, in crop pixels; `opine` takes and gives what `matte.onnx` does."""
    cutter = straight(views, size_px, margin)
    rng = np.random.default_rng(0)
    rows = [_one(opine, *cutter.one(view, rng)) for view in views]
    names = rows[0].keys()
    return {"views": len(rows), **{name: _mean([row[name] for row in rows if name in row]) for name in names}}


def _one(opine: Callable[[Array], Sequence[Array]], picture: Array, seam: Array, face: Array) -> dict[str, float]:
    said = [np.asarray(part)[0] for part in opine(picture[None].astype(np.float32) / 255)]
    found: dict[str, float] = {}
    for name, probability, true in (("seam", said[0], seam), ("face", said[1], face)):
        drawn = (probability >= SURE).astype(np.float32)
        scores = boundary_f(drawn, (true >= 0.5).astype(np.float32))
        found |= {f"{name}_f_{px}_px": float(score) for px, score in zip(TOLERANCES_PX, scores)}
        found[f"{name}_iou"] = intersection_over_union(drawn, (true >= 0.5).astype(np.float32))
    aside = np.roll(seam, round(SIDEWAYS * len(seam)), 0)
    for name, matte in (("agreement", seam), ("agreement_aside", aside)):
        agreed = agreement(said[0], matte)
        found[name] = 1.0 if agreed is None else agreed.score
    return found


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 4)
