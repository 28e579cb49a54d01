"""Temporal fill: what is borrowed, what is held, and what is left alone."""

from __future__ import annotations

from itertools import pairwise

import cv2
import numpy as np
import pytest

from rotopaint_ai.seams import temporal
from rotopaint_ai.seams.temporal import Still

H, W = 64, 96


def face(shift: float = 0.0, seed: int = 0) -> np.ndarray:
    """Textured skin moved sideways by `shift` pixels."""
    rng = np.random.default_rng(seed)
    noise = cv2.GaussianBlur(rng.standard_normal((H, W + 40)).astype(np.float32), (0, 0), 2.5)
    tone = 0.4 * np.exp(0.8 * noise / noise.std() * 0.15)
    moved = cv2.warpAffine(tone, np.array([[1, 0, shift - 20], [0, 1, 0]], np.float32), (W, H), flags=cv2.INTER_CUBIC)
    return np.repeat(moved[..., None], 3, 2).astype(np.float32)


def hole(left: int, right: int) -> np.ndarray:
    matte = np.zeros((H, W), np.float32)
    matte[28:36, left:right] = 1.0
    return matte


def rms(a: np.ndarray, b: np.ndarray, where: np.ndarray) -> float:
    return float(np.sqrt(np.mean((a[where > 0] - b[where > 0]) ** 2)))


def blurred(light: np.ndarray, matte: np.ndarray) -> np.ndarray:
    """A poor fill: the mean of everything."""
    return np.where(matte[..., None] > 0, light.mean(), light).astype(np.float32)


def test_a_spot_that_is_clean_next_door_is_borrowed() -> None:
    here, there = face(0.0), face(3.0)
    matte, other = hole(40, 60), hole(5, 15)
    now = Still(here, blurred(here, matte), matte, 0, 0)
    near = Still(there, blurred(there, other), other, 0, 0)
    out = temporal.settle(now, [near], [])
    assert rms(out, here, matte) < 0.45 * rms(now.after, here, matte)
    assert np.array_equal(out[matte == 0], now.after[matte == 0])


def test_a_neighbour_of_another_face_is_not_believed() -> None:
    here, there = face(0.0), face(0.0, seed=9) * np.float32(1.7)
    matte = hole(40, 60)
    now = Still(here, here.copy(), matte, 0, 0)
    out = temporal.settle(now, [Still(there, there, hole(0, 4), 0, 0)], [])
    assert rms(out, here, matte) < 0.02


def boil(frames: list[np.ndarray], matte: np.ndarray) -> float:
    return float(np.mean([rms(a, b, matte) for a, b in pairwise(frames)]))


def test_boil_of_the_fills_is_damped() -> None:
    matte, here = hole(10, 86), face()
    rng = np.random.default_rng(4)
    stills = []
    for _ in range(5):
        waves = cv2.GaussianBlur(rng.standard_normal((H, W)).astype(np.float32), (0, 0), 6.0)
        fill = here * np.exp(0.05 * waves / waves.std())[..., None]
        stills.append(Still(here, np.where(matte[..., None] > 0, fill, here).astype(np.float32), matte, 0, 0))
    grainy = [Still(s.before + np.float32(1e-4 * k), s.after, s.matte, 0, 0) for k, s in enumerate(stills)]
    settled = [temporal.settle(s, grainy[:k][::-1], grainy[k + 1 :]) for k, s in enumerate(grainy)]
    change = [boil(each, matte) for each in (settled, [still.after for still in grainy])]
    assert change[0] < 0.7 * change[1]


def test_repeats_of_an_exposure_get_the_same_answer_and_count_once() -> None:
    matte, here = hole(40, 60), face()
    first = Still(here, blurred(here, matte), matte, 0, 0)
    again = Still(here.copy(), first.after.copy(), matte.copy(), 0, 0)
    later = Still(face(2.0), face(2.0), hole(0, 4), 0, 0)
    one = temporal.settle(first, [], [again, later])
    other = temporal.settle(again, [first], [later])
    assert np.array_equal(one, other)
    assert len(temporal.distinct([first, again, later])) == 2


def test_crops_at_other_places_are_laid_over_each_other() -> None:
    whole, matte = face(), hole(40, 60)
    now = Still(whole, blurred(whole, matte), matte, 0, 0)
    near = Still(whole[:, 10:].copy(), whole[:, 10:].copy(), np.zeros((H, W - 10), np.float32), 10, 0)
    out = temporal.settle(now, [], [near])
    assert rms(out, whole, matte) < 0.4 * rms(now.after, whole, matte)


@pytest.mark.parametrize("matte", [np.zeros((H, W), np.float32), np.ones((H, W), np.float32)])
def test_no_matte_and_nothing_but_matte_are_left_alone(matte: np.ndarray) -> None:
    here = face()
    now = Still(here, here, matte, 0, 0)
    out = temporal.settle(now, [Still(face(1.0), face(1.0), matte, 0, 0)], [])
    assert np.allclose(out, here, atol=1e-5)
