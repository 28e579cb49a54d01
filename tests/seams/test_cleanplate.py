"""Clean plates: what changes, what does not, and how close the paint comes to the truth."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.inference.models import open_fill
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.seams import cleanplate, rig
from rotopaint_ai.seams.ribbon import RUN_OUT, SPARE, build_ribbon, sample_normals

from . import synthetic_seams

LINE = synthetic_seams.curve()
MATTE = synthetic_seams.matte(LINE, 5.0)


def seamed(*, depth: float = 0.7, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    clean = synthetic_seams.face(seed=seed)
    return clean * synthetic_seams.groove(LINE, depth=depth), clean


@pytest.mark.parametrize("method", ["auto", "two-bank"])
def test_pixels_outside_the_matte_are_bit_identical(method: str) -> None:
    plate, _ = seamed()
    plate[0, 0] = [-0.25, 7.5, np.inf]
    plate[1, 1, 0] = np.nan
    out = cleanplate.fill(plate, MATTE, [(LINE, 5.0)], method)
    assert np.array_equal(out[MATTE == 0].view(np.uint32), plate[MATTE == 0].view(np.uint32))
    assert not np.array_equal(out[MATTE > 0], plate[MATTE > 0])


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_pixels_that_are_not_finite_are_painted_from_those_around_them(value: float) -> None:
    plate, clean = seamed()
    x, y = (int(v) for v in LINE[len(LINE) // 2])
    plate[y - 6 : y + 7, x : x + 2] = value  # across the seam, from bank to bank
    out = cleanplate.fill(plate, MATTE, [(LINE, 5.0)], "auto", open_fill(load_pack(None)))[MATTE > 0]
    assert np.isfinite(out).all()
    assert 0.5 * clean[MATTE > 0].min() < out.min() < out.max() < 1.5 * clean[MATTE > 0].max()


@pytest.mark.parametrize("half", [5.0, 8.0])
def test_two_bank_takes_off_most_of_the_seam_and_beats_telea(half: float) -> None:
    clean, matte = synthetic_seams.face(), synthetic_seams.matte(LINE, half)
    plate = clean * synthetic_seams.groove(LINE, depth=0.7, gap=0.8)
    marched = plate.copy()
    marched[matte > 0] = rig.inpaint_hole(plate, matte > 0, 3.0, cv2.INPAINT_TELEA)
    ours, theirs = (
        synthetic_seams.rms(x, clean, matte)
        for x in (cleanplate.fill(plate, matte, [(LINE, half)], "two-bank"), marched)
    )
    assert ours < 0.2 * synthetic_seams.rms(plate, clean, matte)
    assert ours < theirs * (1.0 if half == 5.0 else 1.15)  # smooth skin is Telea's best case


def test_the_same_input_gives_the_same_output() -> None:
    plate, _ = seamed()
    first, second = (cleanplate.fill(plate, MATTE, [(LINE, 5.0)]) for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("gain", [0.01, 30.0])
def test_exposure_drops_out(gain: float) -> None:
    plate, _ = seamed()
    plain = cleanplate.fill(plate, MATTE, [(LINE, 5.0)])
    exposed = cleanplate.fill(plate * np.float32(gain), MATTE, [(LINE, 5.0)])
    assert np.allclose(exposed / gain, plain, rtol=1e-3, atol=1e-4)


def test_light_above_one_and_below_nought_survives_beside_the_seam() -> None:
    plate, clean = seamed()
    bright, dark = plate * 12.0, plate - 0.6
    over = cleanplate.fill(bright, MATTE, [(LINE, 5.0)])[MATTE > 0]
    assert over.max() > 1.0
    assert np.abs(np.median(over) / np.median(12.0 * clean[MATTE > 0]) - 1.0) < 0.05
    under = cleanplate.fill(dark, MATTE, [(LINE, 5.0)], model=open_fill(load_pack(None)))
    assert np.isfinite(under).all()
    assert under[MATTE > 0].min() < 0.0


def test_a_soft_matte_mixes_paint_and_plate() -> None:
    plate, _ = seamed()
    full = cleanplate.fill(plate, MATTE, [(LINE, 5.0)])
    half = cleanplate.fill(plate, 0.5 * MATTE, [(LINE, 5.0)])
    assert np.allclose(half, 0.5 * (plate + full), atol=1e-6)


def test_a_shade_step_between_the_pieces_becomes_gradual() -> None:
    plate, _ = seamed(depth=0.8)
    below = np.arange(96)[:, None] + 0.5 > np.interp(np.arange(160) + 0.5, LINE[:, 0], LINE[:, 1])
    stepped = np.where(below[..., None], plate * 0.8, plate).astype(np.float32)
    out = cleanplate.fill(stepped, MATTE, [(LINE, 5.0)])
    profile = np.log(out[30:80, 60:100].mean((1, 2)))
    assert np.abs(np.diff(profile)).max() < 0.6 * np.log(1 / 0.8)


def test_an_empty_matte_and_a_matte_without_curves() -> None:
    plate, clean = seamed()
    assert np.array_equal(cleanplate.fill(plate, np.zeros_like(MATTE), [(LINE, 5.0)]), plate)
    out = cleanplate.fill(plate, MATTE, [])
    assert synthetic_seams.rms(out, clean, MATTE) < 0.35 * synthetic_seams.rms(plate, clean, MATTE)


@pytest.mark.parametrize("is_upright", [False, True])
def test_normals_stand_on_the_right_of_a_curves_way(is_upright: bool) -> None:
    """A straight line to the right or downwards; a pixel's position in a map is its centre minus a half."""
    way = np.arange(30.0, dtype=np.float32)
    there = np.full(30, 10.0, np.float32)
    offsets = np.array([-2.0, 0.0, 3.0], np.float32)
    x, y = sample_normals(np.stack([there, way] if is_upright else [way, there], 1), offsets)
    along, aside = (y, x) if is_upright else (x, y)
    np.testing.assert_allclose(along, np.tile(way - 0.5, (3, 1)), atol=1e-5)
    side = -1 if is_upright else 1  # right of a downward direction is smaller x, right of a rightward direction is down
    np.testing.assert_allclose(aside, np.tile(9.5 + side * offsets[:, None], (1, 30)), atol=1e-5)


def test_curves_that_cross_leave_the_picture_or_are_tiny() -> None:
    clean = synthetic_seams.face(seed=3)
    upright = np.stack([np.full(50, 80.0), np.linspace(-10.0, 130.0, 50)], 1)
    plate = clean * synthetic_seams.groove(LINE, depth=0.7) * synthetic_seams.groove(upright, depth=0.7)
    matte = np.maximum(MATTE, synthetic_seams.matte(upright, 5.0))
    curves = [(LINE, 5.0), (upright, 5.0), (np.array([[80.0, 48.0], [80.1, 48.0]]), 1.0), (np.array([[1.0, 1.0]]), 1.0)]
    out = cleanplate.fill(plate, matte, curves)
    assert np.isfinite(out).all()
    assert synthetic_seams.rms(out, clean, matte) < 0.3 * synthetic_seams.rms(plate, clean, matte)


def test_the_whole_picture_as_matte_stays_finite() -> None:
    plate, _ = seamed()
    assert np.isfinite(cleanplate.fill(plate, np.ones_like(MATTE), [(LINE, 5.0)])).all()


def test_a_method_that_is_not_there_is_named_with_those_that_are() -> None:
    plate, _ = seamed()
    with pytest.raises(UsageError, match=r"'magic'.*auto, two-bank"):
        cleanplate.fill(plate, MATTE, [(LINE, 5.0)], "magic")


def test_sizes_that_do_not_fit_are_refused() -> None:
    plate, _ = seamed()
    with pytest.raises(UsageError, match="matte"):
        cleanplate.fill(plate, MATTE[:-1], [(LINE, 5.0)])


@pytest.mark.parametrize("half", [5.0, 8.0, 11.0, 14.0])
@pytest.mark.parametrize("method", ["auto", "two-bank"])
def test_a_hairline_under_a_wide_matte_cannot_be_seen_any_more(half: float, method: str) -> None:
    """Wide mattes are painted in a shrunk crop, which is less sharp than the hairline."""
    from rotopaint_ai.seams import visibility

    clean, matte = synthetic_seams.face(), synthetic_seams.matte(LINE, half)
    plate = clean * synthetic_seams.groove(LINE, depth=0.7, gap=0.8)
    out = cleanplate.fill(plate, matte, [(LINE, half)], method, open_fill(load_pack(None)))
    assert visibility.score(out, [(LINE, 5.0)]) < 1.5 * visibility.score(clean, [(LINE, 5.0)])


def test_large_mattes_are_shrunk_more_than_they_grow_and_without_a_hop() -> None:
    from rotopaint_ai.seams.ribbon import shrinkage

    assert [shrinkage(wide) for wide in (4.0, 10.0)] == [1.0, 1.0]
    assert shrinkage(13.0) == pytest.approx(1.3)
    assert shrinkage(27.0) == pytest.approx(2.7 * 2**0.5)
    assert abs(shrinkage(13.51) - shrinkage(13.49)) < 0.01


def test_a_ribbon_extends_as_far_as_the_matte_beyond_its_curves_end() -> None:
    line = np.stack([np.linspace(60.0, 120.0, 61), np.full(61, 40.0)], 1)
    columns = {}
    for beyond in (0, 10, 60):
        hole = np.zeros((80, 200), bool)
        hole[38:41, 60 - beyond : 121 + beyond] = True
        ribbon = build_ribbon(hole, [(line, 1.5)])
        assert ribbon is not None
        assert ribbon.step == 1.0
        columns[beyond] = ribbon.map_x_TS.shape[1]
    wanted = {0: RUN_OUT[0], 10: 10 + SPARE, 60: RUN_OUT[1]}
    assert columns == {beyond: 61 + 2 * n for beyond, n in wanted.items()}


def test_an_isolated_short_piece_of_a_seam_is_painted_along_its_curve() -> None:
    """The visible part of a side seam between nose and silhouette is wider than long; the fill must not blur it to a
    ball."""
    clean = synthetic_seams.face()
    clean[:, 70:] *= np.float32(0.4)  # the head's edge
    stub = np.stack([np.linspace(62.0, 74.0, 13), np.full(13, 20.0)], 1)
    plate = clean * synthetic_seams.groove(LINE, depth=0.7) * synthetic_seams.groove(stub, depth=0.7)
    alone, both = synthetic_seams.matte(stub, 5.0), np.maximum(MATTE, synthetic_seams.matte(stub, 5.0))
    out = cleanplate.fill(plate, both, [(LINE, 5.0), (stub, 5.0)], model=open_fill(load_pack(None)))
    assert synthetic_seams.rms(out, clean, alone) < 0.3 * synthetic_seams.rms(plate, clean, alone)
