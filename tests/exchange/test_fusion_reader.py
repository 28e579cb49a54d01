"""Small parts of a Fusion mask, by hand: a key's handles, and what is reported of its controls."""

from __future__ import annotations

import pytest

from rotopaint_ai.exchange import fusion
from rotopaint_ai.exchange.fusion_reader import _handle, _report_mask_controls
from rotopaint_ai.exchange.lua import LuaTable, Value
from rotopaint_ai.exchange.parsing import ReadResult


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


TRIANGLE = "Points = { { X = -0.1, Y = -0.1 }, { X = 0.1, Y = -0.1 }, { X = 0.1, Y = 0.1 } }"
SUBTRACT = 'PaintMode = Input { Value = FuID { "Subtract" }, },'


def _setting(level: str = "", closed: bool = True, **masks: str) -> ReadResult:
    """Triangles with these inputs, one for each name; L is a spline with the keys `level`."""
    line = f"Polyline = Input {{ Value = Polyline {{ {'Closed = true, ' * closed}{TRIANGLE} }} }}"
    size = "MaskWidth = Input { Value = 200 }, MaskHeight = Input { Value = 100 },"
    nodes = [f"{name} = PolylineMask {{ Inputs = {{ {each} {size} {line} }} }}" for name, each in masks.items()]
    return fusion.loads(
        f"{{ Tools = {{ {', '.join(nodes)}, L = BezierSpline {{ KeyFrames = {{ {level} }} }} }} }}", where="a.setting"
    )


def _fed_by(name: str) -> str:
    return f'EffectMask = Input {{ SourceOp = "{name}", Source = "Mask" }},'


def test_masks_that_subtract_hold_out() -> None:
    """A hold-out is exact where every other mask leads into it; elsewhere its reach is reported."""
    found = _setting(a="", b=_fed_by("a"), c=SUBTRACT + _fed_by("b"))
    assert [shape.subtract for shape in found.document.shapes] == [False, False, True]
    assert found.losses == ()
    for masks in ({"a": "", "c": SUBTRACT}, {"a": _fed_by("c"), "c": SUBTRACT}, {"a": "", "b": "", "c": SUBTRACT}):
        (line,) = _setting(**masks).losses
        assert line == "c: is subtracted only from the shapes before it; the document subtracts it from every shape"


@pytest.mark.parametrize(
    ("inputs", "closed", "wanted"),
    [
        ("Solid = Input { Value = 0, }, BorderWidth = Input { Value = 0.02, },", True, "is drawn only as an outline"),
        ("BorderWidth = Input { Value = 0.02, },", True, "its BorderWidth moves the edge"),
        ('BorderWidth = Input { SourceOp = "L", Source = "Value", },', True, "its BorderWidth moves the edge"),
        ('BorderWidth = Input { SourceOp = "L", Source = "Value", },', False, "its BorderWidth is animated"),
        ('PaintMode = Input { Value = FuID { "Multiply" }, },', True, "is in mode multiply"),
        ('Level = Input { Value = 1, Expression = "time/20", },', True, "its Level has an expression"),
        ("Solid = Input { Value = 0, }, BorderWidth = Input { Value = 0.02, },", False, ""),
        ('PaintMode = Input { Value = FuID { "Merge" }, },', True, ""),
    ],
)
def test_borders_modes_and_expressions_are_reported(inputs: str, closed: bool, wanted: str) -> None:
    found = _setting(closed=closed, m=inputs)
    assert len(found.losses) == bool(wanted)
    assert all(line.startswith(f"m: {wanted}") for line in found.losses)


@pytest.mark.parametrize(
    ("level", "hidden", "fades"),
    [
        ("[1] = { 0 }, [5] = { 1 }", [1], True),
        ("[1] = { 1 }, [5] = { 0 }, [8] = { 0 }", [5, 6, 7, 8], True),
        ("[1] = { 0.5 }, [5] = { 0.25 }", [], True),
        ("[1] = { 0 }, [4] = { 0 }, [5] = { 1 }", [1, 2, 3, 4], False),
        ("[1] = { 0, Flags = { StepOut = true } }, [5] = { 1 }", [1, 2, 3, 4], False),
        ("[1] = { 0 }, [5] = { 1, Flags = { StepIn = true } }", [1, 2, 3, 4], False),
    ],
)
def test_a_mask_shows_where_its_level_is_above_0_and_fades_are_reported(
    level: str, hidden: list[int], fades: bool
) -> None:
    """Between keys the level moves from one value to the other, unless a key steps."""
    found = _setting(level, m='Level = Input { SourceOp = "L", Source = "Value", },')
    assert sorted(found.document.shapes[0].visible) == hidden
    wanted = ("m: is partly transparent at times; the document draws it opaque",)
    assert found.losses == (wanted if fades else ())


def test_a_mask_of_level_0_is_hidden() -> None:
    found = _setting(m="Level = Input { Value = 0, },", n="")
    assert [shape.is_visible(1) for shape in found.document.shapes] == [False, True]
