"""Jitter of synthetic tracks whose noise is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rotopaint_ai.plates.coded_pictures import write_picture
from rotopaint_ai.sheet import LandmarkSpec, Sheet
from rotopaint_ai.training.data.dataset import Dataset, Sample, Truth
from rotopaint_ai.training.evaluation.error_statistics import consecutive_runs, exposure_rows, jitter_figures
from rotopaint_ai.training.evaluation.predictions import Predictions

N_LANDMARKS = 12


def shot(folder: Path, n_frames: int, *, on_twos: bool) -> Dataset:
    """A face that moves by 3 px an exposure, and smooth pictures that move with it, written to a folder."""
    rng = np.random.default_rng(1)
    face = rng.uniform(30, 90, (N_LANDMARKS, 2))
    steps = np.arange(n_frames) // (2 if on_twos else 1)
    y, x = np.mgrid[0:128, 0:128]
    samples, marks = [], []
    for row, step in enumerate(steps):
        light = 120 + 50 * np.sin((x - 3 * step) / 5.0) * np.cos(y / 7.0)
        write_picture(folder / f"{row}.png", np.repeat(light[..., None], 3, axis=2).astype(np.uint8))
        samples.append(Sample(f"{row}.png", 128, 128, "c", "s", 1001 + row, "test", {}, pixel_scale=0.5))
        marks.append(face + (3.0 * step, 0))
    truth = Truth(
        np.array(marks, np.float32),
        np.ones((n_frames, N_LANDMARKS), np.float32),
        np.zeros((n_frames, 0, 6), np.float32),
        np.zeros((n_frames, 0), np.float32),
    )
    sheet = Sheet("made-up", tuple(LandmarkSpec(f"p{k}") for k in range(N_LANDMARKS)))
    return Dataset("made-up", "none", sheet, (folder,) * n_frames, tuple(samples), truth)


def said(data: Dataset, errors: np.ndarray) -> Predictions:
    """Landmarks with `errors` (N, L, 2) in plate pixels; a plate pixel is half a picture pixel here."""
    n = len(data)
    found = data.truth.landmarks.astype(np.float64) + errors * 0.5
    full, none = np.full((n, N_LANDMARKS), 1.0), np.zeros((n, 0))
    distance = np.linalg.norm(errors, axis=2)
    return Predictions(found, full, full, distance, {}, none, none, none, full[:, 0], full[:, 0], 1.0, ())


def test_jitter_is_that_of_the_noise_and_a_bias_is_none(tmp_path: Path) -> None:
    data = shot(tmp_path, 200, on_twos=False)
    noise = np.random.default_rng(0).normal(0, 0.8, (200, N_LANDMARKS, 2))
    figures = jitter_figures(data, said(data, noise + 5.0))
    assert figures["moving_px"]["raw"] == pytest.approx(0.8, rel=0.05)
    assert figures["moving_px"]["steadied"] < 0.6
    assert figures["in_holds_px"] == {"raw": None, "steadied": None}


def test_holds_are_found_and_stand_still_after_dejitter(tmp_path: Path) -> None:
    data = shot(tmp_path, 40, on_twos=True)
    (run,) = consecutive_runs(data)
    assert exposure_rows(data, run) == [row - row % 2 for row in range(40)]
    noise = np.random.default_rng(0).normal(0, 0.8, (40, N_LANDMARKS, 2))
    figures = jitter_figures(data, said(data, noise))
    assert figures["in_holds_px"]["raw"] == pytest.approx(0.8, rel=0.1)
    assert figures["in_holds_px"]["steadied"] == 0


def test_gaps_and_shots_end_a_run(tmp_path: Path) -> None:
    data = shot(tmp_path, 9, on_twos=False)
    samples = [replace(s, frame=s.frame + (10 if row >= 5 else 0)) for row, s in enumerate(data.samples)]
    samples[8] = replace(samples[8], shot="other")
    assert list(consecutive_runs(replace(data, samples=tuple(samples)))) == [[0, 1, 2, 3, 4], [5, 6, 7]]
