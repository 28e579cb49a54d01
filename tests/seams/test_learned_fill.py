"""The learned fill in the ribbon, and when it runs, with models of two lines."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.inference.models import open_fill
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.seams import bank_fill, banks, cleanplate, learned_fill

from . import synthetic_seams

LINE = synthetic_seams.curve()
X = np.linspace(20.0, 140.0, 61)
MATTE = synthetic_seams.matte(LINE, 5.0)
CURVES = [(LINE, 5.0)]


def banks_alone(strips: np.ndarray) -> np.ndarray:
    """A model that gives the banks all the weight."""
    answer = np.zeros((*strips.shape[:3], learned_fill.N_ANSWERS), np.float32)
    answer[..., 2] = 60.0
    return answer


def face_alone(strips: np.ndarray) -> np.ndarray:
    answer = np.zeros((*strips.shape[:3], learned_fill.N_ANSWERS), np.float32)
    answer[..., 1] = 60.0
    return answer


def plate_alone(strips: np.ndarray) -> np.ndarray:
    answer = np.zeros((*strips.shape[:3], learned_fill.N_ANSWERS), np.float32)
    answer[..., 0] = 60.0
    return answer


def seamed() -> tuple[np.ndarray, np.ndarray]:
    clean = synthetic_seams.face()
    return clean * synthetic_seams.groove(LINE, depth=0.7), clean


def test_a_model_that_keeps_the_plate_keeps_it() -> None:
    plate, _ = seamed()
    out = cleanplate.fill(plate, MATTE, CURVES, "auto", plate_alone)
    assert np.allclose(out, plate, rtol=2e-3)


@pytest.mark.parametrize(("share", "kept"), [(0.04, 0.0), (0.5, 0.475), (0.96, 0.958)])
def test_a_trace_of_the_plate_moves_to_the_face(share: float, kept: float) -> None:
    """A twentieth of the other weights is subtracted from the plate's: 0.5 - 0.05 * 0.5, 0.96 - 0.05 * 0.04."""
    answer = np.zeros((learned_fill.N_ANSWERS, 1), np.float32)
    answer[:3, 0] = np.log(share), np.log(1 - share), -30.0
    face, banks = np.full((3, 1), 2.0, np.float32), np.zeros((3, 1), np.float32)
    mixed = learned_fill.mix_answer(answer, face, banks)[0]
    assert mixed == pytest.approx([2.0 * (1 - kept)] * 3 + [kept], abs=1e-6)


def test_a_model_that_trusts_the_joined_face_equals_two_bank_for_values_of_any_size() -> None:
    plate, _ = seamed()
    plate = plate * np.float32(20.0)
    plate[40:44, 100:104] = -0.05
    joined = cleanplate.fill(plate, MATTE, CURVES, "two-bank")
    assert joined[MATTE > 0].max() > 1.0
    assert np.allclose(cleanplate.fill(plate, MATTE, CURVES, "auto", face_alone), joined, rtol=1e-4, atol=1e-4)


def test_a_model_that_trusts_the_banks_takes_the_groove_away() -> None:
    plate, clean = seamed()
    out = cleanplate.fill(plate, MATTE, CURVES, "auto", banks_alone)
    assert synthetic_seams.rms(out, clean, MATTE) < 0.35 * synthetic_seams.rms(plate, clean, MATTE)


def test_strips_are_multiples_of_four_and_free_of_exposure() -> None:
    plate, _ = seamed()
    seen: list[np.ndarray] = []

    def spy(strips: np.ndarray) -> np.ndarray:
        seen.append(strips)
        return banks_alone(strips)

    for gain in (1.0, 8.0):
        cleanplate.fill(plate * np.float32(gain), MATTE, CURVES, "auto", spy)
    assert seen[0].shape[0] == 1
    assert seen[0].shape[1] % learned_fill.MULTIPLE == seen[0].shape[2] % learned_fill.MULTIPLE == 0
    assert seen[0].shape[3] == learned_fill.N_CHANNELS
    assert np.allclose(seen[0], seen[1], atol=2e-3)


def test_the_shipped_fill_keeps_exposure_hdr_and_everything_outside() -> None:
    fill = open_fill(load_pack(None))
    assert fill is not None
    plate, clean = seamed()
    painted = cleanplate.paint(plate, MATTE, CURVES, "auto", fill)
    bright = cleanplate.paint(plate * np.float32(16.0), MATTE, CURVES, "auto", fill)
    assert bright.rgb[MATTE > 0].max() > 1.0
    assert np.allclose(bright.rgb, 16.0 * painted.rgb, rtol=5e-3)
    assert np.array_equal(painted.rgb[MATTE == 0], plate[MATTE == 0])
    assert np.array_equal(painted.rgb, cleanplate.paint(plate, MATTE, CURVES, "auto", fill).rgb)
    assert synthetic_seams.rms(painted.rgb, clean, MATTE) < 0.35 * synthetic_seams.rms(plate, clean, MATTE)
    assert sum(painted.chosen.values()) == pytest.approx(1.0)


def test_auto_without_a_model_is_two_bank_and_reports_it() -> None:
    plate, _ = seamed()
    auto, joined = (cleanplate.paint(plate, MATTE, CURVES, method) for method in ("auto", "two-bank"))
    assert np.array_equal(auto.rgb, joined.rgb)
    assert auto.chosen == {"two-bank": 1.0}
    assert cleanplate.paint(plate, MATTE, CURVES, "auto", banks_alone).chosen == {"learned": 1.0}


def _scene(plate: np.ndarray, matte: np.ndarray, curves: list) -> bank_fill.StraightenedSeams:
    scene = bank_fill.straighten(plate, matte > 0, curves)
    assert scene is not None
    return scene


def test_a_strip_contains_distances_from_its_curve_and_from_all_curves() -> None:
    level, upright = (np.stack(line, 1) for line in ((X, np.full(61, 48.5)), (np.full(61, 80.5), X - 32.0)))
    matte = np.maximum(*(synthetic_seams.matte(line, 5.0) for line in (level, upright)))
    scene = _scene(synthetic_seams.face(), matte, [(level, 5.0), (upright, 5.0)])
    known = banks.sources(scene.light_TSC, scene.hole_TS)
    strip = learned_fill.strip_of(known, scene.ribbon, scene.hole_TS, scene.floor)
    centre = scene.ribbon.centre
    assert strip[[centre, centre - 4, centre + 8, centre - 8], 7, 8] == pytest.approx([0.0, 0.5, 1.0, 1.0])
    x_S = scene.ribbon.line.points_S[:, 0]
    on_level = scene.ribbon.line.run_S == 0
    meeting, apart = (int(np.flatnonzero(on_level & (np.abs(x_S - x) < 0.6))[0]) for x in (80.0, 40.0))
    row = centre + 4
    assert strip[row, apart, 10] == pytest.approx(0.5, abs=0.1)  # its own curve is the nearest one
    assert strip[row, meeting, 8] == pytest.approx(0.5)
    assert strip[row, meeting, 10] < 0.15  # the other curve runs through here


def test_a_curve_without_a_width_is_far_from_all_curves() -> None:
    line = np.stack([X, np.full(61, 48.5)], 1)
    scene = _scene(synthetic_seams.face(), synthetic_seams.matte(line, 5.0), [(line, 0.0)])
    known = banks.sources(scene.light_TSC, scene.hole_TS)
    strip = learned_fill.strip_of(known, scene.ribbon, scene.hole_TS, scene.floor)
    assert np.isfinite(strip).all()
    assert (strip[..., 10] == 3.0).all()  # the limit
    assert (strip[..., 9] == 0.0).all()


def test_a_strip_contains_what_each_row_of_the_seam_is_like_on_average() -> None:
    """A groove along the whole curve shows in the mean of its rows; a freckle at one place hardly does."""
    clean = np.full((*synthetic_seams.SIZE, 3), 0.4, np.float32)
    line = np.stack([X, np.full(61, 48.5)], 1)
    grooved = clean * synthetic_seams.groove(line, depth=0.5)
    grooved[46, 60:64] *= 0.5
    scene = _scene(grooved, synthetic_seams.matte(line, 6.0), [(line, 6.0)])
    known = banks.sources(scene.light_TSC, scene.hole_TS)
    strip = learned_fill.strip_of(known, scene.ribbon, scene.hole_TS, scene.floor)
    middle = strip[:, 30:90]
    assert np.ptp(middle[..., 9], axis=1).max() == 0.0
    groove, beside = middle[scene.ribbon.centre, 0, 9], middle[scene.ribbon.centre - 4, 0, 9]
    assert groove < 0.6 * np.log(0.5)
    assert abs(beside) < 0.05
