"""Keys, hidden frames and switches for formats that know linear keys alone, by hand."""

from __future__ import annotations

from rotopaint_ai.exchange.linear_keys import eased_frames, hidden_runs, linear_keys, switches, visible_between
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoShape


def shape(keys: dict[int, str] | None = None, hidden: tuple[int, ...] = ()) -> RotoShape:
    """A triangle that moves a pixel to the right each frame, with these interpolations of its keys."""
    made = {
        frame: Key(tuple(ControlPoint(x + frame, y) for x, y in ((0, 0), (9, 0), (0, 9))), "human", kind)  # type: ignore[arg-type]
        for frame, kind in (keys or {1: "linear"}).items()
    }
    return RotoShape("a", True, "matte", made, visible=dict.fromkeys(hidden, False))


def test_a_hold_is_two_equal_keys_unless_the_next_key_follows_at_once() -> None:
    held = shape({1: "hold", 5: "hold", 6: "linear", 9: "hold"})
    keys = linear_keys(held)
    assert sorted(keys) == [1, 4, 5, 6, 9]
    assert keys[4] == keys[1] == held.keys[1].points


def test_three_frames_determine_the_cubic_between_eased_keys() -> None:
    assert eased_frames(shape({1: "ease", 5: "smooth", 6: "ease", 8: "linear", 20: "linear"})) == {2, 3, 4, 6.5, 7, 7.5}


def test_hidden_frames_are_runs_and_switches_within_a_range() -> None:
    """Hidden at 2 to 4, 7, and 9 to 12; the range is 3 to 10."""
    hidden = shape(hidden=(2, 3, 4, 7, 9, 10, 11, 12))
    assert hidden_runs(hidden, 3, 10) == [(3, 4), (7, 7), (9, 10)]
    assert switches(hidden, 3, 10) == [(3, False), (5, True), (7, False), (8, True), (9, False)]
    assert switches(hidden, 1, 12) == [(1, True), (2, False), (5, True), (7, False), (8, True), (9, False)]
    assert hidden_runs(hidden, 5, 6) == switches(hidden, 5, 6) == []


def test_switches_read_back_are_the_hidden_frames_before_the_first_one_included() -> None:
    changes = switches(shape(hidden=(2, 3, 7)), 1, 8)
    assert visible_between(changes, 1, 8) == dict.fromkeys((2, 3, 7), False)
    assert visible_between([(4, False), (6, True)], 1, 8) == dict.fromkeys((1, 2, 3, 4, 5), False)
    assert visible_between([(4, True), (6, False)], 1, 8) == dict.fromkeys((6, 7, 8), False)
    assert visible_between([], 1, 8) == {}
