"""The learned fill in the ribbon, and when it runs, with models of two lines."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.inference.models import open_fill
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.seams import bank_fill, cleanplate, learned_fill, relight

from . import synthetic_seams

LINE = synthetic_seams.curve()
MATTE = synthetic_seams.matte(LINE, 5.0)
CURVES = [(LINE, 5.0)]


def banks_alone(strips: np.ndarray) -> np.ndarray:
    """A model that gives the banks all the weight."""
    answer = np.zeros((*strips.shape[:3], learned_fill.N_ANSWERS), np.float32)
    answer[..., 3] = 60.0
    return answer


def tables_alone(strips: np.ndarray) -> np.ndarray:
    answer = np.zeros((*strips.shape[:3], learned_fill.N_ANSWERS), np.float32)
    answer[..., 0] = 60.0
    return answer


def plate_alone(strips: np.ndarray) -> np.ndarray:
    answer = np.zeros((*strips.shape[:3], learned_fill.N_ANSWERS), np.float32)
    answer[..., 1] = 60.0
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
    own_TS = np.ones((1, 1), bool)
    answer = np.full((learned_fill.N_ANSWERS, 1), 0.0, np.float32)
    answer[:4, 0] = -30.0, np.log(share), np.log(1 - share), -30.0
    relit, face, banks = np.zeros((1, 1, 4), np.float32), np.full((3, 1), 2.0, np.float32), np.zeros((3, 1), np.float32)
    mixed = learned_fill.mix_answer(answer, relit, face, banks, own_TS)[0, 0]
    assert mixed == pytest.approx([2.0 * (1 - kept)] * 3 + [kept], abs=1e-6)


def test_an_identity_model_equals_two_bank_for_values_of_any_size() -> None:
    plate, _ = seamed()
    plate = plate * np.float32(20.0)
    plate[40:44, 100:104] = -0.05
    table = cleanplate.fill(plate, MATTE, CURVES, "two-bank")
    assert table[MATTE > 0].max() > 1.0
    assert np.allclose(cleanplate.fill(plate, MATTE, CURVES, "auto", tables_alone), table, rtol=1e-4, atol=1e-4)


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
    auto, table = (cleanplate.paint(plate, MATTE, CURVES, method) for method in ("auto", "two-bank"))
    assert np.array_equal(auto.rgb, table.rgb)
    assert auto.chosen == {"two-bank": 1.0}
    assert cleanplate.paint(plate, MATTE, CURVES, "auto", banks_alone).chosen == {"learned": 1.0}


def test_a_strip_contains_each_rows_distance_from_the_curve() -> None:
    light_TSC = np.zeros((31, 40, 3), np.float32)
    hole = np.zeros((31, 40), bool)
    hole[10:20] = True
    known = relight.sources(light_TSC, hole)
    relit = relight.relight_in_turn(light_TSC, hole, hole, bank_fill.TABLES[-1:])
    strip = learned_fill.strip_of(known, relit, hole, 0.01)
    assert strip[[15, 11, 23, 0], 7, 11] == pytest.approx([0.0, 0.5, 1.0, 15 / 8])
