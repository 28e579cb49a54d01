"""Marks shared by several holds: found where the picture shows them, and none where it shows nothing."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from rotopaint_ai.landmarks.shared_marks import (
    FINE,
    QUICK,
    Features,
    MarkPicture,
    SharedMarks,
    _components,
    _marks_of_ties,
    features,
    shared_marks,
)

Array = np.ndarray[Any, Any]
FACE = 150 + np.exp(2j * np.pi * np.arange(9) / 9) * (60 + 20 * np.cos(np.arange(9))) + 150j
MOTIONS = [np.exp(0.04j * k) * (1 + 0.02 * k) for k in range(5)]  # of a head about a point, hold by hold
MIDDLE, CORNER = 150 + 150j, 40 + 20j


def moved(at: Array, k: int) -> Array:
    """Points of the first hold, in plate space, as hold k shows them."""
    return np.asarray((at - MIDDLE) * MOTIONS[k] + MIDDLE + 3 * k)


def picture(k: int, seed: int = 1, scale: float = 1.0) -> Array:
    """A head with spots of all sizes, the top-left pixel at CORNER."""
    draw = np.random.default_rng(seed)
    grey = sum(cv2.GaussianBlur(draw.normal(0, s, (300, 300)), (0, 0), s) for s in (1.5, 3, 6)) + 2.0
    a, b = MOTIONS[k], MIDDLE * (1 - MOTIONS[k]) + 3 * k - CORNER
    half = 0.5 - a * (0.5 + 0.5j) + 0.5j  # warpAffine counts from the centres of pixels
    motion = np.array([[a.real, -a.imag, (b - half).real], [a.imag, a.real, (b - half).imag]])
    seen = cv2.warpAffine(np.asarray(grey, np.float32), motion, (240, 260), flags=cv2.INTER_CUBIC)
    return cv2.resize(seen, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)


def found(seeds: tuple[int, ...] = (1,) * 5, scale: float = 1.0) -> SharedMarks:
    points = np.array([moved(FACE, k) for k in range(5)])
    seen = [
        features(MarkPicture.of(picture(k, seed, scale), CORNER, scale, 160.0, FINE), FINE)
        for k, seed in enumerate(seeds)
    ]
    faces = (points - points.mean(axis=1, keepdims=True)) / np.array(MOTIONS)[:, None]
    return shared_marks(seen, points, faces, np.full(5, 160.0), FINE)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_a_mark_is_the_same_place_of_the_head_in_every_hold(scale: float) -> None:
    marks = found(scale=scale)
    assert marks.count > 30
    assert np.bincount(marks.mark, minlength=marks.count).min() >= 3
    first = np.array([(at - MIDDLE - 3 * k) / MOTIONS[k] + MIDDLE for at, k in zip(marks.at, marks.hold)])
    middle = [first[marks.mark == n].mean() for n in range(marks.count)]
    off = abs(first - np.array(middle)[marks.mark])
    assert np.median(off) < 0.25 / scale
    assert np.percentile(off, 95) < 1.0 / scale


def test_a_hold_has_a_mark_once() -> None:
    marks = found()
    assert len({*zip(marks.mark.tolist(), marks.hold.tolist())}) == len(marks.mark)


def test_holds_with_different_pictures_share_next_to_no_marks() -> None:
    assert found((1, 2, 3, 4, 5)).count < found().count / 200


def test_a_hold_that_shows_nothing_has_no_marks() -> None:
    nothing = features(MarkPicture.of(np.zeros((40, 50), np.float16), CORNER, 1.0, 40.0, FINE), FINE)
    assert nothing.at.shape == (0,)
    points = np.array([moved(FACE, k) for k in range(3)])
    marks = shared_marks([nothing] * 3, points, points, np.full(3, 160.0), FINE)
    assert marks.count == 0
    assert shared_marks([nothing], points[:1], points[:1], np.full(1, 160.0), FINE).count == 0


def test_a_hold_is_matched_with_as_many_of_the_most_similar_views_as_are_asked_for() -> None:
    """Holds turn evenly, so the nearest views are the neighbours in time."""
    nothing = Features(np.zeros(0, complex), np.zeros((0, 128)), np.zeros(0))
    faces = np.array([FACE + 3 * k for k in range(9)])
    pairs = []
    for nearest in (2, 4):
        told = lambda match, one, other: pairs.append({*zip(one, other)}) or []  # type: ignore[func-returns-value]  # noqa: E731
        shared_marks([nothing] * 9, faces, faces, np.full(9, 160.0), QUICK._replace(nearest=nearest), told)
    assert {b - a for a, b in pairs[0]} == {1, 2}  # 2 at either end
    assert len(pairs[0]) == 10
    assert {b - a for a, b in pairs[1]} == {1, 2, 3, 4}


def test_a_feature_that_a_hold_shows_twice_is_no_mark_there() -> None:
    """Two features of one hold match the same feature elsewhere."""
    ties = np.array([(0, 1), (1, 2), (3, 1), (4, 5), (6, 7), (7, 8), (8, 9)])
    hold, at = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 3]), np.arange(10) + 0j
    marks = _marks_of_ties(_components(10, ties), hold, at)
    assert marks.count == 1
    assert marks.at.real.tolist() == [6, 7, 8, 9]
