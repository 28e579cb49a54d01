"""Our own fill methods, run on the cases of `rotopaint bench clean`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai import fills
from rotopaint_ai.bench.clean_cases import Case, Sight
from rotopaint_ai.inference.models import open_fill
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.seams.cleanplate import PaintedCrop, paint
from rotopaint_ai.seams.learned_fill import LearnedFill
from rotopaint_ai.seams.ribbon import WideCurve

Array = NDArray[Any]

METHODS = fills.names()
OWN = ", own matte"


@dataclass(frozen=True, slots=True)
class FillResult:
    """The result of one fill on a case.

    It holds the filled light (H, W, 3) and the processor milliseconds of each frame, and the share of the seam that
    each method painted.
    """

    lights: tuple[Array, ...]
    ms: tuple[float, ...]
    chosen: Mapping[str, float]


def model_of(pack: str | None) -> LearnedFill | None:
    """The learned fill of a pack; None where none is installed."""
    return open_fill(load_pack(pack))


def fill_case(case: Case, methods: Sequence[str], pack: str | None) -> dict[str, FillResult]:
    """Run every method on a case with the true matte, and also with the predicted matte where the case has one."""
    model = model_of(pack)
    made = {name: _fill_sights(case.sights, name, model, own=False) for name in methods}
    if all(sight.own_matte is not None for sight in case.sights):
        made |= {name + OWN: _fill_sights(case.sights, name, model, own=True) for name in methods}
    return made


def _fill_sights(sights: Sequence[Sight], method: str, model: LearnedFill | None, *, own: bool) -> FillResult:
    painted, times = [], []
    for sight in sights:
        matte, curves = _fill_inputs(sight, own)
        start = time.process_time()
        painted.append(paint(sight.plate, matte, curves, method, model))
        times.append(1e3 * (time.process_time() - start))
    lights, chosen = [each.rgb for each in painted], _painted_shares(painted)
    return FillResult(tuple(lights), tuple(times), chosen)


def _painted_shares(painted: Sequence[PaintedCrop]) -> Mapping[str, float]:
    names = sorted({name for each in painted for name in each.chosen})
    return {name: round(sum(each.chosen.get(name, 0.0) for each in painted) / len(painted), 3) for name in names}


def _fill_inputs(sight: Sight, own: bool) -> tuple[Array, tuple[WideCurve, ...]]:
    if not own:
        return sight.hole.astype(np.float32), sight.curves
    assert sight.own_matte is not None
    return sight.own_matte, sight.own_curves
