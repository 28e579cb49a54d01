"""A head and the motion of its parts, from its views alone."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.shapes.deformable_head import MOST_MOTIONS, DeformableModel, fit_head
from rotopaint_ai.shapes.head_structure import affine_views, nearest_turns

HEAD = np.random.default_rng(5).normal(0, 1, (30, 3)) * [1.0, 1.2, 0.6]
MOTIONS = np.zeros((2, 30, 3))
MOTIONS[0, :9] = np.random.default_rng(6).normal(0, 0.2, (9, 3))
MOTIONS[1, 9:15] = np.random.default_rng(7).normal(0, 0.2, (6, 3))


def views(n: int, seed: int, yaw: float = 0.6) -> np.ndarray:
    """Orthographic views [n, 30, 2] of the head in motion, in pixels."""
    rng, seen = np.random.default_rng(seed), []
    for _ in range(n):
        a, b = rng.uniform(-yaw, yaw), rng.uniform(-0.3, 0.3)
        x = np.array([np.cos(a), 0, np.sin(a)])
        y = np.array([np.sin(a) * np.sin(b), np.cos(b), -np.cos(a) * np.sin(b)])
        moved = HEAD + np.tensordot(rng.normal(0, 1, 2), MOTIONS, 1)
        seen.append(moved @ np.stack([x, y], 1) * rng.uniform(45, 55) + rng.uniform(90, 110, 2))
    return np.array(seen)


def noisy(seen: np.ndarray) -> np.ndarray:
    return seen + np.random.default_rng(1).normal(0, 0.3, seen.shape)


def off(head: DeformableModel, seen: np.ndarray) -> float:
    """Root mean square distance in pixels between views and the fitted head, turned and deformed."""
    faces = seen - seen.mean(axis=1, keepdims=True)
    shapes = np.repeat(head.places[None], len(faces), axis=0)
    for _ in range(20):
        affine, middles = affine_views(faces, shapes, np.ones(faces.shape[:2]))
        turns, scales = nearest_turns(affine)
        sight = turns[:, :2] * scales[:, None, None]
        slopes = np.einsum("ncj,klj->nlck", sight, head.modes).reshape(len(faces), -1, len(head.modes))
        left = (faces - middles[:, None] - head.places @ sight.transpose(0, 2, 1)).reshape(len(faces), -1)
        moved = np.stack([np.linalg.lstsq(a, b, rcond=1e-6)[0] for a, b in zip(slopes, left)])
        shapes = head.places + np.tensordot(moved, head.modes, 1)
    found = middles[:, None] + np.einsum("nlj,ncj->nlc", shapes, sight)
    return float(np.sqrt(((found - faces) ** 2).sum(axis=2).mean()))


def test_a_head_explains_views_that_it_has_not_seen() -> None:
    """Views turned further than any keyed one, which two-dimensional modes would have to extrapolate."""
    head = fit_head(noisy(views(60, 0)), None)
    assert head is not None
    assert off(head, views(30, 1)) < 0.3
    assert off(head, views(30, 2, yaw=0.9)) < 0.5


def test_depth_is_reported_by_turns() -> None:
    head = fit_head(noisy(views(60, 0)), None)
    assert head is not None
    found, true = (places[15:] - places[15:].mean(axis=0) for places in (head.places, HEAD))  # the rigid part
    left, sizes, right = np.linalg.svd(found.T @ true)
    np.testing.assert_allclose(sizes.sum() / (found**2).sum() * found @ left @ right, true, atol=0.04)


def test_what_moves_is_in_the_motions_and_what_does_not_is_not() -> None:
    head = fit_head(noisy(views(80, 0)), None)
    assert head is not None
    strength = np.sqrt((head.modes**2).sum(axis=(0, 2)))
    assert strength[:15].min() > 3 * strength[15:].max()
    assert head.unexplained.max() < 0.01**2


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_unknown_landmarks_do_no_harm(share: float) -> None:
    seen = noisy(views(80, 0))
    holes = np.where(np.random.default_rng(9).random(seen.shape[:2])[..., None] < share, np.nan, seen)
    head = fit_head(holes, None)
    assert head is not None
    assert off(head, views(30, 1)) < 1.0


def test_few_frames_give_few_motions_and_too_few_none() -> None:
    few = fit_head(views(12, 0), None)
    assert few is not None
    assert len(few.modes) == 4
    assert fit_head(views(11, 0), None) is None
    many = fit_head(views(150, 0), None)
    assert many is not None
    assert len(many.modes) == MOST_MOTIONS
