"""The ribbon's columns run along the curves and extend beyond their ends."""

from __future__ import annotations

import numpy as np

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
