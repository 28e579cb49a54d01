"""The ribbon's columns run along the curves and on beyond their ends."""

from __future__ import annotations

import numpy as np

from rotopaint_ai.seams.ribbon import _centre_line


def test_columns_go_on_beyond_an_end_the_way_that_the_curve_goes_there() -> None:
    """A quarter of a circle from the right to the bottom of a matte that covers all: on to the left, on downwards."""
    turn = np.linspace(0, np.pi / 2, 40)
    arc = np.stack([60 + 30 * np.sin(turn), 90 - 30 * np.cos(turn)], 1).astype(np.float32)
    line = _centre_line([(arc, 2.0)], np.ones((200, 200), np.bool_), 1.0)
    beyond = np.flatnonzero(line.half_S == 0)
    first, last = beyond[0], beyond[-1]
    assert line.points_S[first, 0] < arc[0, 0] - 5
    np.testing.assert_allclose(line.tangents_S[first], (1, 0), atol=0.1)
    assert line.points_S[last, 1] > arc[-1, 1] + 5
    np.testing.assert_allclose(line.tangents_S[last], (0, 1), atol=0.1)
