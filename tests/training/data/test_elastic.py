"""Elastic deformation: what is drawn at a landmark remains at it."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from rotopaint_ai.shapes.head_structure import RigidStructure
from rotopaint_ai.training.data.augment import Augmenter, Geometry
from rotopaint_ai.training.data.dataset import Truth
from rotopaint_ai.training.data.memory import Memory
from rotopaint_ai.training.data.pose_augment import ElasticWarp, PoseAugment, cut_elastic

SIZE = 160
DOTS = np.array([(x, y) for x in range(60, 261, 50) for y in range(60, 261, 50)], np.float32) + 0.5
DEPTHS = 60 - ((DOTS - 160) ** 2).sum(axis=1) / 600


def picture() -> np.ndarray:
    made = np.zeros((320, 320, 3), np.uint8)
    for x, y in DOTS:
        cv2.circle(made, (int(x), int(y)), 5, (255, 255, 255), -1)
    return made


def centres(crop: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Centroids [L, 2] of a crop's dots nearest to positions [L, 2]."""
    count, _, _, found = cv2.connectedComponentsWithStats((crop[..., 0] > 100).astype(np.uint8))
    found = found[1:] + 0.5
    assert count > len(near)
    return np.asarray(found[np.linalg.norm(near[:, None] - found, axis=2).argmin(axis=1)])


def memory(known: np.ndarray) -> Memory:
    truth = Truth(known[None], np.ones((1, len(known)), np.float32), np.zeros((1, 0, 6), np.float32),
                  np.zeros((1, 0), np.float32))  # fmt: skip
    return Memory((picture(),), truth, np.ones((1, 2)))


@pytest.mark.parametrize("share_turned", [0.0, 1.0])
def test_landmarks_move_with_the_picture(share_turned: float) -> None:
    """Also where the head is rotated and the crop is rotated."""
    structure = RigidStructure(np.concatenate([DOTS - 160, DEPTHS[:, None]], axis=1) / 80, np.ones(len(DOTS)))
    pose_augment = PoseAugment(structure, share_turned, 6.0, 4.0)
    geometry = Geometry((1.1, 1.3), 0.02, 20.0, 0.0, 0.05, 0.5, elastic=1.0, elastic_shift=0.02)
    made = Augmenter(geometry, {}, 1.3, range(len(DOTS)), pose_augment if share_turned else None)
    straight = Augmenter(Geometry((1.1, 1.3), 0.02, 20.0, 0.0, 0.05, 0.5), {}, 1.3, range(len(DOTS)))
    for seed in range(4):
        batch = made.batch(memory(DOTS), [0], SIZE, np.random.default_rng(seed))
        off = np.linalg.norm(centres(batch.crops[0], batch.landmarks[0]) - batch.landmarks[0], axis=1)
        assert off.mean() < (0.4 if not share_turned else 0.8)  # a rotated picture is a surface through its landmarks
        assert off.max() < (1.0 if not share_turned else 2.0)
        other = straight.batch(memory(DOTS), [0], SIZE, np.random.default_rng(seed))
        assert np.linalg.norm(batch.landmarks - other.landmarks, axis=2).max() > 2.0


def test_unknown_landmarks_stay_unknown() -> None:
    bend = ElasticWarp.draw(SIZE, 0.02, np.random.default_rng(0))
    places = np.array([[np.nan, np.nan], [40.0, 50.0]], np.float32)
    moved = bend.moved(places)
    assert np.isnan(moved[0]).all()
    np.testing.assert_allclose(moved[1] + bend.at(moved)[1], places[1], atol=0.01)


def test_no_bend_is_the_straight_crop() -> None:
    bend = ElasticWarp(np.zeros((33, 33, 2), np.float32), SIZE)
    matrix = np.array([[0.5, 0.02, 3.0], [-0.01, 0.5, 1.0], [1e-5, 0, 1.0]])
    bent = cut_elastic(picture(), bend, matrix, SIZE, cv2.BORDER_REPLICATE)
    back = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1.0]])
    by_centres = back @ matrix @ np.linalg.inv(back)
    wanted = cv2.warpPerspective(picture(), by_centres, (SIZE, SIZE), borderMode=cv2.BORDER_REPLICATE)
    assert np.abs(bent.astype(int) - wanted).mean() < 0.5


def test_augmentations_at_zero_draw_no_random_numbers() -> None:
    """Old recipes give the same crops as before."""
    first, second = (
        Augmenter(Geometry(elastic_shift=bend), {"noise": 1.0}, 1.3, range(len(DOTS)))
        .batch(memory(DOTS), [0, 0], SIZE, np.random.default_rng(3))
        .crops
        for bend in (0.0, 0.05)
    )
    np.testing.assert_array_equal(first, second)
