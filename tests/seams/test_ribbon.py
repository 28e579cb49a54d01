"""The ribbon's columns run along the seams, not along curves inside their mattes, and extend beyond their ends."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.seams.ribbon import RUN_OUT, _centre_line, _run_out, build_ribbon


def test_columns_extend_an_end_in_the_curves_direction() -> None:
    """A quarter circle from the right to the bottom of a matte that covers everything: extended to the left and
    downwards."""
    turn = np.linspace(0, np.pi / 2, 40)
    arc = np.stack([60 + 30 * np.sin(turn), 90 - 30 * np.cos(turn)], 1).astype(np.float32)
    line = _centre_line([(arc, 2.0)], np.ones((200, 200), np.bool_), 1.0)
    beyond = np.flatnonzero(line.half_S == 0)
    first, last = beyond[0], beyond[-1]
    assert line.points_S[first, 0] < arc[0, 0] - 5
    np.testing.assert_allclose(line.tangents_S[first], (1, 0), atol=0.1)
    assert line.points_S[last, 1] > arc[-1, 1] + 5
    np.testing.assert_allclose(line.tangents_S[last], (0, 1), atol=0.1)


def test_a_curve_is_extended_to_the_last_pixel_of_the_matte_plus_six_columns() -> None:
    """A matte of 40 x 30 pixels: 10 of them to the left of the first end, 9 to the right, 5 above and 2 below."""
    ends = np.array([(10.5, 20.5), (30.5, 20.5), (20.5, 5.5), (20.5, 27.5)], np.float32)
    ways = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)], np.float32)
    steps = np.arange(1, RUN_OUT[1] + 1, dtype=np.float32)[:, None]
    assert _run_out(ends, ways, np.ones((30, 40), np.bool_), steps).tolist() == [16, 15, 11, 8]
    torn = np.ones((30, 40), np.bool_)
    torn[:, 6] = False  # ends it, although the matte continues beyond
    assert _run_out(ends[:1], ways[:1], torn, steps).tolist() == [9]


def test_samples_are_on_the_crop_up_to_the_outer_corners_of_its_last_pixels() -> None:
    """A curve along y = 8 of a crop of 16 rows and 32 columns: y = 0, 1, ... 16 and x = 0 to 32 lie on it."""
    hole = np.zeros((16, 32), np.bool_)
    hole[5:11] = True
    line = np.stack([np.arange(2, 31), np.full(29, 8)], 1).astype(np.float32)
    ribbon = build_ribbon(hole, [(line, 3.0)])
    assert ribbon is not None
    assert ribbon.step == 1.0
    assert len(ribbon.inside_TS) > 17
    assert ribbon.inside_TS.sum(0).max() == 17
    assert ribbon.inside_TS.sum(1).max() == 33
    assert ribbon.inside_TS[ribbon.centre - 8 : ribbon.centre + 9].any(1).all()


@pytest.mark.parametrize(
    ("seam", "half", "crossing", "crossing_half"),
    [
        pytest.param((20, 40, 180, 40), 5.0, (90, 10, 90, 70), 5.0, id="another of the same width"),
        pytest.param((20, 40, 180, 40), 7.0, (90, 10, 90, 70), 1.5, id="a thin hidden one"),
        pytest.param((20, 40, 180, 40), 1.5, (90, 10, 90, 70), 7.0, id="a wide hidden one"),
        pytest.param((84, 40, 100, 40), 7.0, (90, 10, 90, 70), 1.5, id="a thin hidden one, longer than the seam"),
    ],
)
def test_a_curve_inside_another_seams_matte_has_no_columns(
    seam: tuple[int, ...], half: float, crossing: tuple[int, ...], crossing_half: float
) -> None:
    """Else both would share the matte's pixels where they cross, and the paint would be torn there."""
    (x0, y, x1, _), reach = seam, round(half + 2)
    hole = np.zeros((80, 200), np.bool_)
    hole[y - reach : y + reach + 1, x0 : x1 + 1] = True
    curves = [(_straight(seam), half), (_straight(crossing), crossing_half)]
    both, one = build_ribbon(hole, curves), build_ribbon(hole, curves[:1])
    assert both is not None
    assert one is not None
    np.testing.assert_array_equal(both.map_x_TS, one.map_x_TS)


def test_seams_that_meet_have_columns_each() -> None:
    hole = np.zeros((80, 200), np.bool_)
    hole[33:48, 20:181] = True
    hole[40:76, 173:181] = True
    bridge, side = (_straight(ends) for ends in ((20, 40, 177, 40), (177, 40, 177, 75)))
    ribbon = build_ribbon(hole, [(bridge, 5.0), (side, 2.0)])
    assert ribbon is not None
    assert set(ribbon.line.run_S[np.rint(ribbon.along_P).astype(int)]) == {0, 1}


def _straight(ends: tuple[int, ...]) -> np.ndarray:
    x0, y0, x1, y1 = ends
    return np.linspace([x0, y0], [x1, y1], abs(x1 - x0) + abs(y1 - y0) + 1, dtype=np.float32)
