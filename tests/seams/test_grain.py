"""Grain that the paint lacks is copied from beside the seam: strength, colour, and nothing random."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from rotopaint_ai.seams import cleanplate, grain, learned_fill

SIZE = (96, 200)
LINE = np.stack([np.linspace(10.0, 190.0, 90), np.full(90, 48.0)], 1)
CURVES = [(LINE, 5.0)]


def banks_alone(strips: np.ndarray) -> np.ndarray:
    """A fill that keeps nothing of the plate."""
    answer = np.zeros((*strips.shape[:3], learned_fill.N_ANSWERS), np.float32)
    answer[..., 2] = 30.0
    return answer


def matte() -> np.ndarray:
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]] + 0.5
    return ((np.abs(rows - 48.0) <= 5.0) & (columns > 10) & (columns < 190)).astype(np.float32)


def plate(seed: int, strengths: tuple[float, float, float], soft: float = 0.0) -> np.ndarray:
    """A ramp of light with grain proportional to it, of another strength for each colour."""
    noise = np.random.default_rng(seed).standard_normal((*SIZE, 3)).astype(np.float32)
    if soft:
        noise = cv2.GaussianBlur(noise, (0, 0), soft)
        noise /= noise.std()
    ramp = np.linspace(0.05, 2.0, SIZE[1], dtype=np.float32)[None, :, None]
    return (ramp * (1 + np.array(strengths, np.float32) * noise)).astype(np.float32)


def roughness(rgb: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Standard deviation of each colour's light against its 3 x 3 neighbourhood."""
    detail = np.log(rgb / cv2.GaussianBlur(rgb, (3, 3), 0.85))
    return np.asarray(detail[where].std(0))


@pytest.mark.parametrize("soft", [0.0, 0.6])
def test_the_paint_is_as_grainy_as_its_banks_colour_by_colour(soft: float) -> None:
    before, inside = plate(1, (0.02, 0.04, 0.08), soft), matte() > 0
    out = cleanplate.fill(before, matte(), CURVES, "auto", banks_alone)
    inner = cv2.erode(inside.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    got, wanted = roughness(out, inner), roughness(before, ~inside)
    assert np.allclose(got / wanted, 1.0, atol=0.3 if soft == 0.0 else 0.4)
    assert got[0] < got[1] < got[2]


def test_dark_and_bright_ends_keep_their_own_strength() -> None:
    out = cleanplate.fill(plate(2, (0.05,) * 3), matte(), CURVES, "auto", banks_alone)
    detail = np.abs(out - cv2.GaussianBlur(out, (3, 3), 0.85))[46:51]
    assert detail[:, 150:180].mean() > 3.0 * detail[:, 20:50].mean()  # the ramp is 4.7 times as bright there


def test_another_frame_gets_other_grain_and_the_same_frame_the_same() -> None:
    first, again, other = (
        cleanplate.fill(plate(seed, (0.05,) * 3), matte(), CURVES, "auto", banks_alone) for seed in (3, 3, 4)
    )
    assert np.array_equal(first, again)
    inside = matte() > 0
    a, b = (np.log(out / cv2.GaussianBlur(out, (0, 0), 3.0))[inside].ravel() for out in (first, other))
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.2


def test_a_lower_grain_setting_gives_less_grain() -> None:
    before, inside = plate(5, (0.05,) * 3), matte() > 0
    spreads = [
        roughness(cleanplate.fill(before, matte(), CURVES, "auto", banks_alone, grain=g), inside).mean()
        for g in (1.0, 0.5, 0.0)
    ]
    assert spreads[0] > 1.5 * spreads[1] > 1.5 * 1.3 * spreads[2]


def test_a_lash_in_the_band_is_not_carried_over() -> None:
    noise = np.random.default_rng(6).normal(0, 0.02, (3, 4000)).astype(np.float32)
    noise[:, :100] = -3.0
    assert np.allclose(grain.spread(noise), 0.02, rtol=0.1)


def test_positions_outside_the_crop_and_in_the_matte_give_no_grain() -> None:
    before, hole = plate(7, (0.05,) * 3), matte() > 0
    x, y = np.array([-5.0, 100.0, 100.0, 250.0]), np.array([10.0, 48.0, 20.0, 10.0])
    detail, usable = grain.band(before, hole, x, y, np.float32(0.01))
    assert usable.tolist() == [False, False, True, False]
    assert not detail[:, ~usable].any()
    assert detail[:, 2].any()
