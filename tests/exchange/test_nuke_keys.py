"""How one component of a point goes from a key frame to the next, by hand."""

from __future__ import annotations

import pytest

from rotopaint_ai.exchange.nuke_keys import _span_motion
from rotopaint_ai.exchange.nuke_tree import CurveKey, NukeCurve

CUBIC = (CurveKey(5, 0.0, right_slope=2.0, step=False), CurveKey(9, 4.0, left_slope=0.0, step=False))
CHORD = (CurveKey(5, 0.0, right_slope=1.0, step=False), CurveKey(9, 4.0, left_slope=1.0, step=False))
HEAVY = (CUBIC[0]._replace(right_weight=2.0), CUBIC[1])


@pytest.mark.parametrize(
    ("keys", "verdict"),
    [
        ((CurveKey(1, 3.0),), (False, False, 0.0)),  # holds behind its last key
        ((CurveKey(9, 3.0),), (False, False, 0.0)),  # and before its first
        ((CurveKey(7, 3.0),), None),  # a key inside
        ((CurveKey(1, 3.0), CurveKey(9, 4.0)), (True, True, 0.0)),  # the end of a span that began before
        ((CurveKey(5, 3.0, step=False),), (False, False, 0.0)),  # the last key
        ((CurveKey(5, 3.0),), (True, False, 0.0)),
        ((CurveKey(5, 3.0), CurveKey(9, 4.0)), (True, True, 0.0)),
        ((CurveKey(5, 3.0), CurveKey(9, 3.0)), (True, False, 0.0)),
        ((CurveKey(5, 3.0), CurveKey(8, 4.0)), None),  # the next key lies inside
        (CHORD, (False, True, 0.0)),
        (CUBIC, (False, True, (1 + 1) * 4 * 4 / 27)),  # the chord's slope is 1, the ends' are 2 and 0, over 4 frames
        (HEAVY, None),  # the bound holds for weights of one
    ],
)
def test_a_span_steps_changes_and_strays(keys: tuple[CurveKey, ...], verdict: tuple[bool, bool, float] | None) -> None:
    assert _span_motion(NukeCurve(keys=keys), 5, 9) == (verdict if verdict is None else pytest.approx(verdict))
