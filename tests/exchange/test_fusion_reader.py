"""Small parts of a Fusion mask, by hand: a key's handles, and what is reported of its controls."""

from __future__ import annotations

import pytest

from rotopaint_ai.exchange.fusion_reader import _handle, _report_mask_controls
from rotopaint_ai.exchange.lua import LuaTable, Value


def _key(*handle: Value, is_linear: bool = False) -> LuaTable:
    flags = LuaTable(fields={"Linear": is_linear})
    return LuaTable(fields={"RH": LuaTable(items=list(handle)), "Flags": flags})


def test_a_handle_is_a_share_of_the_time_and_of_the_way() -> None:
    place = (10, 2.0, 8, 4.0)  # from frame 10 at 2 over 8 frames by 4
    assert _handle(_key(12.0, 5.0), "RH", 1 / 3, place, "m") == pytest.approx((0.25, 0.75))
    assert _handle(_key(12.0, 5.0, is_linear=True), "RH", 1 / 3, place, "m") == (1 / 3, 1 / 3)
    assert _handle(_key(), "RH", 2 / 3, place, "m") == (2 / 3, 2 / 3)


def _mask(name: str, value: float) -> LuaTable:
    return LuaTable(fields={"Inputs": LuaTable(fields={name: LuaTable(fields={"Value": value})})})


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        *(("Level", 0.0, ""), ("Level", 1.0, ""), ("Level", 0.5, "partly transparent")),
        *(("WritePosition", 0.0, ""), ("WritePosition", 0.2, "drawn partly (WritePosition)")),
        *(("WriteLength", 1.0, ""), ("WriteLength", 0.0, "drawn partly (WriteLength)")),
        *(("SoftEdge", 0.0, ""), ("SoftEdge", 0.01, "soft edge by blur"), ("Invert", 1.0, "inversion")),
        *(("Invert", 0.0, ""), ("MotionBlur", 0.0, ""), ("MotionBlur", 1.0, "motion blur")),
    ],
)
def test_what_a_document_does_not_hold_of_a_mask_is_reported(name: str, value: float, wanted: str) -> None:
    warnings: list[str] = []
    _report_mask_controls("m", _mask(name, value), warnings)
    assert len(warnings) == bool(wanted)
    assert all(wanted in warning for warning in warnings)
