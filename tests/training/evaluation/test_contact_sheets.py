"""Which samples a contact sheet shows, and what it says of them."""

from __future__ import annotations

import numpy as np

from rotopaint_ai.training.evaluation.contact_sheets import worst_rows
from rotopaint_ai.training.evaluation.predictions import Predictions


def _predictions(landmarks_px: np.ndarray, curves_px: np.ndarray) -> Predictions:
    n = len(curves_px)
    places, face = np.zeros((n, landmarks_px.shape[1], 2)), np.full(n, 100.0)
    return Predictions(
        places, landmarks_px, landmarks_px, landmarks_px, {}, curves_px, curves_px, curves_px, face, face, 1.0, ()
    )


def test_without_landmarks_the_worst_curves_are_shown_first() -> None:
    nothing = np.full((3, 2), np.nan)
    assert worst_rows(_predictions(nothing, np.array([[1.0, np.nan], [2.0, 7.0], [3.0, 1.0]]))).tolist() == [1, 2, 0]


def test_landmarks_decide_where_some_are_measured() -> None:
    some = np.array([[5.0, np.nan], [np.nan, np.nan], [np.nan, 9.0]])
    assert worst_rows(_predictions(some, np.array([[1.0], [9.0], [2.0]]))).tolist() == [2, 0, 1]
