"""The learned fill's place in the ribbon, and the choice between it and the table, with models of two lines."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.inference.models import open_fill
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.seams import bank_fill, cleanplate, learned, method_selection, relight

from . import made_up

LINE = made_up.curve()
MATTE = made_up.matte(LINE, 5.0)
CURVES = [(LINE, 5.0)]


def banks_alone(strips: np.ndarray) -> np.ndarray:
    """A model that trusts the banks and nothing else."""
    answer = np.zeros((*strips.shape[:3], learned.N_ANSWERS), np.float32)
    answer[..., 3] = 60.0
    return answer


def tables_alone(strips: np.ndarray) -> np.ndarray:
    answer = np.zeros((*strips.shape[:3], learned.N_ANSWERS), np.float32)
    answer[..., 0] = 60.0
    return answer


def plate_alone(strips: np.ndarray) -> np.ndarray:
    answer = np.zeros((*strips.shape[:3], learned.N_ANSWERS), np.float32)
    answer[..., 1] = 60.0
    return answer


def seamed() -> tuple[np.ndarray, np.ndarray]:
    clean = made_up.face()
    return clean * made_up.groove(LINE, depth=0.7), clean


def test_a_model_that_keeps_the_plate_keeps_it() -> None:
    plate, _ = seamed()
    out = cleanplate.fill(plate, MATTE, CURVES, "learned", plate_alone)
    assert np.allclose(out, plate, rtol=2e-3)


def test_a_model_that_keeps_the_tables_paint_is_two_bank_on_values_below_0_and_above_1_too() -> None:
    plate, _ = seamed()
    plate = plate * np.float32(20.0)
    plate[40:44, 100:104] = -0.05
    table = cleanplate.fill(plate, MATTE, CURVES, "two-bank")
    assert table[MATTE > 0].max() > 1.0
    assert np.allclose(cleanplate.fill(plate, MATTE, CURVES, "learned", tables_alone), table, rtol=1e-4, atol=1e-4)


def test_a_model_that_trusts_the_banks_takes_the_groove_away() -> None:
    plate, clean = seamed()
    out = cleanplate.fill(plate, MATTE, CURVES, "learned", banks_alone)
    assert made_up.rms(out, clean, MATTE) < 0.35 * made_up.rms(plate, clean, MATTE)


def test_strips_are_multiples_of_four_and_free_of_exposure() -> None:
    plate, _ = seamed()
    seen: list[np.ndarray] = []

    def spy(strips: np.ndarray) -> np.ndarray:
        seen.append(strips)
        return banks_alone(strips)

    for gain in (1.0, 8.0):
        cleanplate.fill(plate * np.float32(gain), MATTE, CURVES, "learned", spy)
    assert seen[0].shape[0] == 1
    assert seen[0].shape[1] % learned.MULTIPLE == seen[0].shape[2] % learned.MULTIPLE == 0
    assert seen[0].shape[3] == learned.N_CHANNELS
    assert np.allclose(seen[0], seen[1], atol=2e-3)


@pytest.mark.parametrize("method", ["auto", "learned"])
def test_the_shipped_fill_keeps_exposure_hdr_and_everything_outside(method: str) -> None:
    fill = open_fill(load_pack(None))
    assert fill is not None
    plate, clean = seamed()
    painted = cleanplate.paint(plate, MATTE, CURVES, method, fill)
    bright = cleanplate.paint(plate * np.float32(16.0), MATTE, CURVES, method, fill)
    assert bright.rgb[MATTE > 0].max() > 1.0
    assert np.allclose(bright.rgb, 16.0 * painted.rgb, rtol=5e-3)
    assert np.array_equal(painted.rgb[MATTE == 0], plate[MATTE == 0])
    assert np.array_equal(painted.rgb, cleanplate.paint(plate, MATTE, CURVES, method, fill).rgb)
    assert made_up.rms(painted.rgb, clean, MATTE) < 0.35 * made_up.rms(plate, clean, MATTE)
    assert sum(painted.chosen.values()) == pytest.approx(1.0)


def test_auto_without_a_model_is_two_bank_and_says_so() -> None:
    plate, _ = seamed()
    auto, table = (cleanplate.paint(plate, MATTE, CURVES, method) for method in ("auto", "two-bank"))
    assert np.array_equal(auto.rgb, table.rgb)
    assert auto.chosen == {"two-bank": 1.0}
    with pytest.raises(UsageError, match=r"fill\.onnx"):
        cleanplate.paint(plate, MATTE, CURVES, "learned")


def test_auto_gives_the_network_the_hard_stretches_and_leaves_the_rest_as_the_table_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plate, _ = seamed()
    plate = plate * (1.0 + np.float32(0.01))
    patchy = plate.copy()
    patchy[:, 110:122] *= 0.25  # a stripe that crosses the seam
    table = cleanplate.paint(patchy, MATTE, CURVES, "two-bank").rgb
    scene = bank_fill.straighten(patchy, MATTE > 0, CURVES)
    assert scene is not None
    known = relight.sources(scene.light_TSC, scene.hole_TS)
    relit, _ = method_selection.two_bank(scene.light_TSC, scene.hole_TS, scene.ribbon.own_TS, scene.floor, None)
    doubts = method_selection.doubt(relit, known, scene.hole_TS, scene.ribbon.own_TS)
    monkeypatch.setattr(method_selection, "EASY", float(np.sort(doubts)[-2]))
    monkeypatch.setattr(method_selection, "HARD", float(np.sort(doubts)[-1]))
    auto = cleanplate.paint(patchy, MATTE, CURVES, "auto", banks_alone)
    assert 0.0 < auto.chosen["learned"] < 0.6
    assert auto.chosen["learned"] + auto.chosen["two-bank"] == pytest.approx(1.0)
    changed = np.flatnonzero((np.abs(auto.rgb - table) > 2e-3).any((0, 2)))  # less is grain, limited over all of it
    assert len(changed)
    assert changed.max() - changed.min() < 90


def test_the_networks_share_grows_with_doubt_and_never_hops() -> None:
    quiet, loud = method_selection.EASY, method_selection.HARD
    doubts = np.array([0.0, quiet, 0.5 * (quiet + loud), loud, 10 * loud, 0.0])
    share = method_selection.shares(doubts, 6 * method_selection.STRETCH)
    middles = np.clip(np.arange(6) * method_selection.STRETCH + method_selection.STRETCH // 2, 0, len(share) - 1)
    wanted = method_selection.MOST * np.array([0.0, 0.0, 0.5, 1.0, 1.0, 0.0])
    assert share[middles] == pytest.approx(wanted, abs=0.5 / method_selection.STRETCH + 1e-6)
    assert np.abs(np.diff(share)).max() <= 1.0 / method_selection.STRETCH + 1e-6
    a_little_more = method_selection.shares(doubts + 0.02 * (loud - quiet), 6 * method_selection.STRETCH)
    assert np.abs(a_little_more - share).max() < 0.03


def test_stretches_that_would_be_shown_the_same_columns_twice_are_one() -> None:
    wanted = np.zeros(300, bool)
    wanted[[*range(10, 40), *range(60, 90), *range(200, 230), *range(290, 300)]] = True
    assert method_selection._parts(wanted) == [slice(10, 90), slice(200, 230), slice(290, 300)]
    assert method_selection._parts(np.zeros(50, bool)) == []
    assert method_selection._parts(np.ones(50, bool)) == [slice(0, 50)]


def test_a_stretch_gets_the_same_answer_whether_it_is_seen_alone_or_with_the_others() -> None:
    rng = np.random.default_rng(0)
    light_TSC = rng.standard_normal((31, 202, 3)).astype(np.float32)
    hole = np.zeros((31, 202), bool)
    hole[10:20] = True
    known, own = relight.sources(light_TSC, hole), hole.copy()
    relit = relight.relight(light_TSC, hole, own, method_selection.TABLES[-1])
    seen: list[tuple[int, ...]] = []

    def echo(strips: np.ndarray) -> np.ndarray:
        seen.append(strips.shape)
        return strips[..., : learned.N_ANSWERS]

    whole = learned.mend(relit, known, hole, own, 0.01, echo, slice(0, 202))
    for columns in (slice(66, 96), slice(190, 202)):
        assert np.array_equal(learned.mend(relit, known, hole, own, 0.01, echo, columns), whole[:, columns])
    assert seen[1][2] <= 30 + 2 * learned.CONTEXT + 2 * learned.MULTIPLE
    assert all(size % learned.MULTIPLE == 0 for shape in seen for size in shape[1:3])
