"""Choices made on held-out samples after the networks are trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet
from rotopaint_ai.training.data.dataset import Truth, read_dataset
from rotopaint_ai.training.models.landmarks.config import load_pack_config
from rotopaint_ai.training.models.shape_fit import choose_guards
from rotopaint_ai.training.pack.prepare import choose_margin

NAMES = tuple(f"mark_{k}" for k in range(8))
SHEET = Sheet("made up", tuple(LandmarkSpec(name) for name in NAMES), (ShapeSpec("line", False, 3),))


def samples(n: int, seed: int) -> Truth:
    """Eight landmarks with independent motion, and a line at the top that follows one of the bottom landmarks."""
    rng = np.random.default_rng(seed)
    rest = np.array([[60, 60], [100, 70], [140, 60], [60, 140], [100, 150], [140, 140], [80, 100], [120, 100]], float)
    marks = rest + rng.normal(0, 2, (n, 8, 2))
    points = np.zeros((n, 3, 6))
    points[..., :2] = rest[:3] + 3 * (marks[:, 5:6] - rest[5])
    points[..., 2:] = [-10, 0, 10, 0]
    nothing = np.full((n, 1), np.nan)
    return Truth(*(np.asarray(part, np.float32) for part in (marks, np.ones((n, 8)), points, nothing)))


def test_shapes_are_as_careful_as_held_out_landmarks_ask_for() -> None:
    learn, held = samples(60, 0), samples(30, 1)
    reported = np.full(8, 0.004)
    found = held.landmarks + np.random.default_rng(3).normal(0, 0.4, held.landmarks.shape)  # as inaccurate as expected
    assert choose_guards(SHEET, learn, reported, found, held).tolist() == [1.0]
    # ten times as inaccurate as expected
    worse = held.landmarks + np.random.default_rng(2).normal(0, 4.0, held.landmarks.shape)
    assert choose_guards(SHEET, learn, reported, worse, held).tolist() == [4.0]


def test_the_crop_holds_all_that_is_keyed_and_no_more(faces: Path) -> None:
    data = read_dataset(faces)
    recipe = load_pack_config(None, ["crop_margin=1.3", "shape_margin=1.15"])
    far = data.truth.points.copy()
    far[:, :, :2] = np.nan
    unknown = replace(data, truth=replace(data.truth, points=far))
    assert choose_margin(recipe, unknown) == 1.15  # only the landmarks are known
    wide = data.truth.points.copy()
    middle = data.truth.landmarks.mean(axis=1, keepdims=True)
    wide[..., :2] = middle + (wide[..., :2] - middle) * 3
    assert choose_margin(recipe, replace(data, truth=replace(data.truth, points=wide))) == 1.3
    whole = np.concatenate([data.truth.landmarks, data.truth.points[..., :2]], axis=1)
    size = [np.ptp(part, axis=1).max(axis=1) for part in (whole, data.truth.landmarks)]
    assert choose_margin(recipe, data) == round(float(np.clip(1.15 * np.median(size[0] / size[1]), 1.0, 1.3)), 3)
