"""Packs are measured as a run reads them, whatever their revision."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.crops import Crop
from rotopaint_ai.inference.models import Detection
from rotopaint_ai.training.evaluation.predictions import _read

SIDE = 16
PLACES = np.array([[4.0, 6.0], [12.0, 6.0], [8.0, 12.0]])


def _detect(crops: np.ndarray) -> Detection:
    """Finds everything 0.25 px too far to the right, in a mirrored crop too."""
    points = np.repeat((PLACES + (0.25, 0.0))[None], len(crops), axis=0).astype(np.float32)
    return Detection(points, np.ones(points.shape[:2], np.float32), np.ones(points.shape[:2], np.float32))


@pytest.mark.parametrize(("mirror", "off"), [((1, 0, 2), 0.0), (None, 0.25)])
def test_an_older_pack_is_read_mirrored_as_well(mirror: tuple[int, ...] | None, off: float) -> None:
    models: Any = SimpleNamespace(detect=_detect, pack=SimpleNamespace(mirror=mirror, input_size=SIDE))
    found = _read(models, [np.zeros((SIDE, SIDE, 3), np.uint8)] * 2, [Crop(8.0, 8.0, float(SIDE))] * 2)
    assert len(found) == 2
    for each in found:
        np.testing.assert_allclose(each.points_LC, PLACES + (off, 0.0), atol=1e-6)
