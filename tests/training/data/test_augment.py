"""Augmentation: labels move with the picture, and photometric changes leave them alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rotopaint_ai.sheet import mirror_permutation
from rotopaint_ai.training.data.augment import (
    PARTS,
    Augmenter,
    Geometry,
    crop_matrix,
    move_points,
    move_spline,
    straight_batch,
    warp_picture,
)
from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.data.memory import Memory, load_pictures

CHANNEL = (0, 1, 2)  # of the discs on the first three landmarks


@pytest.fixture(scope="module")
def memory(faces: Path) -> Memory:
    return load_pictures(read_dataset(faces), side_px=1000, margin=1.3)


def _disc(crop: np.ndarray, channel: int) -> np.ndarray:
    """Centre of the disc that is bright in one channel and dark in the others, by its brightness; corner origin."""
    others = [c for c in range(3) if c != channel]
    light = np.maximum(crop[..., channel].astype(float) - crop[..., others].max(axis=2) - 20, 0)
    ys, xs = np.mgrid[0 : crop.shape[0], 0 : crop.shape[1]] + 0.5
    return np.array([(light * xs).sum(), (light * ys).sum()]) / light.sum()


def test_landmarks_stay_on_their_discs_through_every_geometry(memory: Memory, faces: Path) -> None:
    order = mirror_permutation(read_dataset(faces).sheet)
    geometry = Geometry(scale=(0.95, 1.35), shift=0.03, perspective=0.5)
    batch = Augmenter(geometry, {}, 1.6, order).batch(memory, range(24), 96, np.random.default_rng(5))
    seen_mirrored = 0
    for crop, landmarks in zip(batch.crops, batch.landmarks):
        # in a mirrored crop the row of the right eye is where the left eye's (green) disc lies
        mirrored = np.linalg.norm(_disc(crop, 0) - landmarks[0]) > 5
        seen_mirrored += int(mirrored)
        rows = (1, 0, 2) if mirrored else (0, 1, 2)
        for channel, row in zip(CHANNEL, rows):
            assert np.linalg.norm(_disc(crop, channel) - landmarks[row]) < 0.4
    assert 4 < seen_mirrored < 20


def test_the_same_generator_gives_the_same_batch(memory: Memory) -> None:
    augmenter = Augmenter(Geometry(), dict.fromkeys(PARTS, 0.5), 1.3, range(4))
    first, second = (augmenter.batch(memory, [0, 1, 2], 64, np.random.default_rng((1, 2))) for _ in range(2))
    np.testing.assert_array_equal(first.crops, second.crops)
    np.testing.assert_array_equal(first.landmarks, second.landmarks)


@pytest.mark.parametrize("name", list(PARTS))
def test_a_part_keeps_size_and_kind_and_changes_something(memory: Memory, name: str) -> None:
    crop = straight_batch(memory, [0], 96, 1.3).crops[0]
    changed = False
    for seed in range(8):
        made, hidden = PARTS[name](crop.copy(), np.random.default_rng(seed))
        assert made.shape == crop.shape
        assert made.dtype == np.uint8
        assert hidden is None or (hidden.shape == crop.shape[:2] and hidden.dtype == bool)
        changed = changed or bool((made != crop).any())
    assert changed


def test_an_occluder_hides_what_it_covers(memory: Memory) -> None:
    augmenter = Augmenter(Geometry(), {"occluders": 1.0}, 1.3, range(4))
    batch = augmenter.batch(memory, list(range(24)) * 4, 64, np.random.default_rng(0))
    assert 0.02 < (batch.visible == 0).mean() < 0.6


def test_the_crop_matrix_keeps_the_corner_origin() -> None:
    matrix = crop_matrix(50, 40, 20, 100)
    np.testing.assert_allclose(
        move_points(np.array([[40.0, 30.0], [60.0, 50.0]], np.float32), matrix), [[0, 0], [100, 100]]
    )
    picture = np.zeros((80, 90, 3), np.uint8)
    picture[30:32, 40:42] = 255  # the four pixels at the crop's corner, each five crop pixels wide
    crop = warp_picture(picture, matrix, 100)
    assert crop[4, 4].min() == 255
    assert crop[14, 14].max() == 0


def test_a_spline_moves_as_its_points_do() -> None:
    matrix = np.array([[0.8, 0.3, 5.0], [-0.2, 1.1, -3.0], [0, 0, 1.0]])
    points = np.array([[10.0, 20.0, -3.0, 1.0, 4.0, 2.0]], np.float32)
    moved = move_spline(points, matrix)
    np.testing.assert_allclose(moved[0, :2], matrix[:2, :2] @ [10, 20] + matrix[:2, 2], rtol=1e-6)
    np.testing.assert_allclose(moved[0, 2:4], matrix[:2, :2] @ [-3, 1], rtol=1e-5)
    np.testing.assert_allclose(moved[0, 4:], matrix[:2, :2] @ [4, 2], rtol=1e-5)
