"""Paint settings of each seam in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.seams.paint_settings import Paint, read_settings


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "is a list of 0; wanted named fields"),
        ({"upper": 3, "lower": {}}, "upper is 3; wanted named fields"),
        ({"upper": {"colour": 1}}, "unknown field 'colour'"),
        ({"upper": {"method": "magic"}}, "upper: method is 'magic'; wanted one of"),
        ({"upper": {"grain": 2}}, "grain is 2.0; wanted a share"),
        ({"upper": {"strength": True}}, "strength is True; wanted a number"),
        ({"upper": {"hold_out": 1}}, "hold_out is 1; wanted"),
    ],
)
def test_settings_are_checked_at_the_door(value: Any, text: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(UsageError, match=text):
        read_settings(path, Paint())


def test_settings_default_to_those_for_all_seams(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"upper": {"grain": 0.5}}), encoding="utf-8")
    paints = read_settings(path, Paint("two-bank"))
    assert paints.of("upper") == Paint("two-bank", 0.5)
    assert paints.of("lower") == Paint("two-bank")


def test_a_seams_hold_out_can_be_switched_off(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"upper": {"hold_out": False}, "lower": {"grain": 0.5}}), encoding="utf-8")
    paints = read_settings(path, Paint())
    assert [paints.of(name).hold_out for name in ("upper", "lower", "brow")] == [False, True, True]
