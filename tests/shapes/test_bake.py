"""Linear keys that replace other interpolation."""

from __future__ import annotations

import pytest

from rotopaint_ai.shapes.bake import turning_frames
from rotopaint_ai.shapes.roto import ControlPoint


@pytest.mark.parametrize("tangent", [("in_dx", "in_dy"), ("out_dx", "out_dy")])
@pytest.mark.parametrize("way", [0, 1])
def test_a_key_is_needed_where_the_end_of_a_tangent_strays(tangent: tuple[str, str], way: int) -> None:
    """A deviation of 0.08 px of the point needs no key; with 0.02 px of its tangent, the tangent's end deviates by 0.1
    px."""
    still, place = ControlPoint(10, 20, -3, 1, 3, -1), ("x", "y")[way]
    strays = still._replace(**{place: getattr(still, place) + 0.08})

    def needed(by_px: float) -> list[int]:
        turned = strays._replace(**{tangent[way]: getattr(still, tangent[way]) + by_px})
        return turning_frames([7, 8, 9], [(still,), (turned,), (still,)])

    assert needed(0.0) == []
    assert needed(0.02) == [8]
    assert needed(-0.07) == []
    assert needed(-0.18) == [8]


def test_the_keys_of_a_bent_way_are_its_corners() -> None:
    """Straight from 1 to 4, and from 4 to 6 with another slope; frames may be more than one step apart."""
    frames, places = [1, 2, 4, 5, 6], [0.0, 1.0, 3.0, 1.0, -1.0]
    assert turning_frames(frames, [(ControlPoint(x, 0),) for x in places]) == [4]
    assert turning_frames(frames, [(ControlPoint(2.0 * f, 0),) for f in frames]) == []
