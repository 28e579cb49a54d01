"""The visibility score follows what an eye would say of made-up seams."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from rotopaint_ai.seams import cleanplate, visibility

_spec = importlib.util.spec_from_file_location("made_up", Path(__file__).with_name("made_up.py"))
assert _spec is not None
assert _spec.loader is not None
made_up = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(made_up)

LINE = made_up.curve()
CURVES = [(LINE, 5.0)]


def ranks(values: list[float]) -> np.ndarray:
    return np.argsort(np.argsort(values))


@pytest.mark.parametrize("kind", ["groove", "ridge", "step"])
def test_more_contrast_ranks_higher(kind: str) -> None:
    depths = np.linspace(0.0, 0.8, 17)
    below = np.arange(96)[:, None] + 0.5 > np.interp(np.arange(160) + 0.5, LINE[:, 0], LINE[:, 1])

    def plate(depth: float) -> np.ndarray:
        if kind == "step":
            return made_up.face(seed=1) * np.where(below[..., None], 1.0 - 0.5 * depth, 1.0)
        return made_up.face(seed=1) * made_up.groove(LINE, depth=depth if kind == "groove" else -depth)

    scores = [visibility.score(plate(depth), CURVES) for depth in depths]
    agreement = np.corrcoef(ranks(scores), np.arange(len(depths)))[0, 1]
    assert agreement > 0.98
    assert scores[-1] > 5.0 * scores[0]


def test_a_face_without_seam_scores_about_one_and_exposure_drops_out() -> None:
    clean = made_up.face(seed=2)
    assert 0.5 < visibility.score(clean, CURVES) < 2.0
    plate = clean * made_up.groove(LINE, depth=0.5)
    assert visibility.score(plate * 8.0, CURVES) == pytest.approx(visibility.score(plate, CURVES), rel=1e-3)


def test_the_clean_plate_shows_less_seam_than_the_plate() -> None:
    clean = made_up.face(seed=4)
    plate = clean * made_up.groove(LINE, depth=0.7)
    out = cleanplate.fill(plate, made_up.matte(LINE, 5.0), CURVES)
    before, after = visibility.score(plate, CURVES), visibility.score(out, CURVES)
    assert after < 0.3 * before
    assert after < 2.0 * visibility.score(clean, CURVES)


def test_no_seam_on_the_picture_scores_one() -> None:
    plate = made_up.face()
    assert visibility.score(plate, []) == 1.0
    assert visibility.score(plate, [(LINE + 1000.0, 5.0)]) == 1.0
    assert np.isfinite(visibility.score(plate * np.nan, CURVES))
