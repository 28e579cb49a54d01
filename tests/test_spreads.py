"""The table of methods to spread a correction: a new row is all that a new method needs."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType

import pytest

from rotopaint_ai import spreads
from rotopaint_ai.errors import UsageError
from rotopaint_ai.project import Spread, codecs
from rotopaint_ai.project.state import State
from rotopaint_ai.shapes.refit import Keys, repeat_propagations, spread_keys
from rotopaint_ai.shapes.roto import ControlPoint, Key, LandmarkKeys, RotoDocument, RotoShape, Source
from rotopaint_ai.spreads import SPREADS, SpreadWay
from rotopaint_ui.settings.commands import COMMANDS


def key(x: float, source: Source = "model") -> Key:
    return Key((ControlPoint(x, 1.0), ControlPoint(x + 5.0, 2.0)), source)


def document(keys: dict[int, Key]) -> RotoDocument:
    return RotoDocument(64, 48, 1, 9, landmarks=LandmarkKeys(), shapes=(RotoShape("seam", False, keys=keys),))


def copied(predicted: RotoDocument, document: RotoDocument, frame: int, first: int, last: int) -> Keys:
    """A method that copies the corrected key to every frame of the range."""
    points = document.shape("seam").keys[frame].points
    return {"seam": {each: Key(points, "propagated") for each in range(first, last + 1) if each != frame}}


@pytest.fixture
def copy_way(monkeypatch: pytest.MonkeyPatch) -> SpreadWay:
    module = ModuleType("a_new_way")
    module.copied = copied  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    way = SpreadWay("copy", "Copy", "a_new_way:copied", "range")
    monkeypatch.setattr(spreads, "SPREADS", (*SPREADS, way))
    return way


@pytest.mark.parametrize("way", SPREADS, ids=lambda way: way.name)
def test_every_row_names_a_function_and_has_its_command(way: SpreadWay) -> None:
    assert callable(way.load())
    assert {command.name: command.label for command in COMMANDS}[way.name] == way.label


def test_a_new_run_carries_on_by_the_way_of_each_spread(copy_way: SpreadWay) -> None:
    predicted = document({frame: key(float(frame)) for frame in range(1, 10)})
    corrected = predicted.shape("seam").with_keys({**predicted.shape("seam").keys, 4: key(40.0, "human")})
    now = replace(predicted, shapes=(corrected,))
    done = {frame: key(40.0, "propagated") for frame in (3, 5)}
    before = replace(now, shapes=(corrected.with_keys({**corrected.keys, **done}),))
    found = repeat_propagations(predicted, now, before, [Spread(4, 3, 5, way=copy_way.name)], range(1, 10))
    assert [found.shape("seam").keys[frame].points[0].x for frame in (2, 3, 4, 5, 6)] == [2.0, 40.0, 40.0, 40.0, 6.0]


def test_a_project_keeps_the_way_and_an_older_one_has_the_first() -> None:
    kept = Spread(4, 3, 5, frozenset({"seam"}), "copy")
    assert codecs.unpack("spread", codecs.pack("spread", kept)) == kept
    older = b'{"frame": 4, "first": 3, "last": 5, "shapes": []}'
    assert codecs.unpack("spread", older) == Spread(4, 3, 5, way="spread")
    assert codecs.state_of(codecs.tracks_of(State(spreads=(kept,)))).spreads == (kept,)


def test_an_unknown_spread_and_a_missing_range_are_refused() -> None:
    plain, names = document({1: key(1.0)}), ", ".join(way.name for way in SPREADS)
    with pytest.raises(UsageError, match=rf"^spread 'fly': not available; choose one of {names}$"):
        spread_keys("fly", plain, plain, None)
    with pytest.raises(UsageError, match=r"^Spread: needs a range"):
        spread_keys("spread", plain, plain, None)
