"""Frames chosen out of many."""

from __future__ import annotations

from rotopaint_ai.frames import evenly_spread


def test_evenly_spread_items_include_both_ends() -> None:
    assert evenly_spread(range(1001, 1012), 3) == [1001, 1006, 1011]
    assert evenly_spread([5, 7, 9], 2) == [5, 9]
    assert evenly_spread([5, 7, 9], 3) == evenly_spread([5, 7, 9], 8) == [5, 7, 9]
    assert evenly_spread((), 4) == []
    assert evenly_spread([5, 7, 9], 1) == [5]
