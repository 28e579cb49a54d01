"""How one component of a point goes from a key frame to the next, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from rotopaint_ai.exchange import formats
from rotopaint_ai.exchange.nuke_keys import _span_motion
from rotopaint_ai.exchange.nuke_tree import CurveKey, NukeCurve
from rotopaint_ai.shapes.roto import ControlPoint, Interpolation, Key, RotoDocument, RotoShape

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


@pytest.mark.parametrize("kind", ["ease", "smooth"])
def test_eased_keys_a_frame_apart_are_written(tmp_path: Path, kind: Interpolation) -> None:
    """Such a step is read as linear, which is equal at every whole frame."""
    places = {1001: 0.0, 1002: 8.0, 1010: 0.0}
    keys = {
        frame: Key((ControlPoint(20 + x, 8), ControlPoint(28 + x, 8)), "human", kind) for frame, x in places.items()
    }
    meant = RotoDocument(64, 48, 1001, 1010, shapes=(RotoShape("line", False, "matte", keys),))
    formats.write(tmp_path / "line.nk", meant)
    found = formats.read(tmp_path / "line.nk")[0].shapes[0]
    for frame in range(1001, 1011):
        assert [p.x for p in found.at(frame)] == pytest.approx([p.x for p in meant.shapes[0].at(frame)], abs=1e-4)
