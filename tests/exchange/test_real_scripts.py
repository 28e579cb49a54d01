"""What real scripts do that a compositor would swear about: sizes, bad items, and warnings without end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rotopaint_ai.cli import main
from rotopaint_ai.errors import DocumentError, UsageError
from rotopaint_ai.exchange import document, formats, fusion, fusion_reader, lossiness, nuke, nuke_reader
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

SQUARE = tuple(ControlPoint(x, y) for x, y in ((10.0, 20.0), (30.0, 20.0), (30.0, 60.0)))


def shot(name: str, width: int, height: int, points: tuple[ControlPoint, ...] = SQUARE) -> RotoDocument:
    return RotoDocument(width, height, 1, 1, shapes=(RotoShape(name, True, "matte", {1: Key(points, "human")}),))


def node(document: RotoDocument, name: str) -> str:
    return nuke.dumps(document, name=name).split("push $cut_paste_input\n")[1]


def test_a_node_without_shapes_decides_no_size() -> None:
    empty = node(replace(shot("s", 100, 80), shapes=()), "Roto1")
    reading = nuke_reader.read_text(empty + node(shot("s", 200, 150), "Roto2"))
    assert (reading.document.width, reading.document.height) == (200, 150)
    assert [point.y for point in reading.document.shapes[0].at(1)] == [20.0, 20.0, 60.0]


def test_each_node_is_read_at_its_own_size() -> None:
    reading = nuke_reader.read_text(node(shot("s", 100, 80), "A") + node(shot("t", 200, 150), "B"))
    assert (reading.document.width, reading.document.height) == (100, 80)
    assert [shape.at(1) for shape in reading.document.shapes] == [SQUARE, SQUARE]
    assert any("nodes read at their own other size: B (200 x 150)" in line for line in reading.losses)


def test_a_format_knob_that_leaves_every_shape_outside_gives_way_to_the_pivot() -> None:
    far = tuple(point._replace(x=point.x + 3000) for point in SQUARE)
    text = nuke.dumps(shot("s", 4000, 3000, far)).replace(
        'format "4000 3000 0 0 4000 3000', 'format "640 480 0 0 640 480'
    )
    reading = nuke_reader.read_text(text)
    assert any("lie outside its format, 640 x 480; read at 4000 x 3000" in line for line in reading.losses)
    inside = nuke.dumps(shot("s", 400, 300)).replace('format "400 300 0 0 400 300', 'format "640 480 0 0 640 480')
    assert nuke_reader.read_text(inside).document.shapes[0].at(1)[0].y == 20.0 + 180


def test_a_size_that_is_asked_for_overrides_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nuke.write_verified(tmp_path / "a.nk", shot("s", 100, 80))
    target = tmp_path / "b.roto.json"
    words = ["convert", str(tmp_path / "a.nk"), str(target), "--width", "100", "--height", "180"]
    assert main(words) == 0
    assert "warning: made for 100 x 80, but 100 x 180 was given" in capsys.readouterr().err
    assert document.read(target).shapes[0].at(1)[0].y == 120.0
    assert formats.read(target, width=50, height=90, override=True)[0].shapes[0].at(1)[0].y == 120.0
    with pytest.raises(DocumentError, match="given 50 x 90; take the shapes of this plate"):
        formats.read(target, width=50, height=90)


def test_numbers_relative_to_the_plate_grow_with_it(tmp_path: Path) -> None:
    formats.write(tmp_path / "a.setting", shot("s", 100, 80))
    found, lost = formats.read(tmp_path / "a.setting", width=200, height=240, override=True)
    assert [tuple(p)[:2] for p in found.shapes[0].at(1)] == [
        pytest.approx((p.x * 2, p.y * 3), abs=1e-3) for p in SQUARE
    ]
    assert lost[0] == "made for 100 x 80, read as 200 x 240: shapes are scaled"


@pytest.mark.parametrize("suffix", ["ssf", "setting", "py", "nk", "svg", "jsx", "fxs"])
def test_a_feathered_lid_that_closes_to_a_point_is_written(tmp_path: Path, suffix: str) -> None:
    edge = tuple(ControlPoint(10.0 * x, 10.0 * y) for x, y in ((1, 1), (4, 1), (4, 4), (1, 4)))
    keys = {1: Key(edge, "human"), 5: Key((ControlPoint(20.0, 20.0),) * 4, "human")}
    shape = RotoShape("lid", True, "matte", keys, feather_px=3.0)
    shown, _ = formats.write(tmp_path / f"a.{suffix}", RotoDocument(100, 80, 1, 5, shapes=(shape,)))
    assert shown < 0.01


def test_a_feather_line_grows_with_the_plate(tmp_path: Path) -> None:
    edge = tuple(ControlPoint(10.0 * (1 + x), 10.0 * (1 + y)) for x, y in ((0, 0), (3, 0), (3, 3), (0, 3)))
    rows = tuple(ControlPoint(-1.0 * k, 2.0 * k) for k in range(1, 5))
    shape = RotoShape("s", True, "matte", {1: Key(edge, "human", feather=rows)})
    formats.write(tmp_path / "a.setting", RotoDocument(100, 80, 1, 1, shapes=(shape,)))
    found, _ = formats.read(tmp_path / "a.setting", width=200, height=240, override=True)
    assert [tuple(row)[:2] for row in found.shapes[0].keys[1].feather] == [
        pytest.approx((row.x * 2, row.y * 3), abs=1e-3) for row in rows
    ]


def test_a_node_is_picked_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.nk").write_text(node(shot("s", 100, 80), "A") + node(shot("t", 200, 150), "B"), encoding="utf-8")
    assert main(["convert", str(tmp_path / "a.nk"), str(tmp_path / "b.roto.json"), "--node", "B"]) == 0
    found = document.read(tmp_path / "b.roto.json")
    assert ([shape.name for shape in found.shapes], found.height) == (["t"], 150)
    with pytest.raises(UsageError, match="--node B: a RotoPaint file has no nodes"):
        formats.read(tmp_path / "b.roto.json", node="B")


def test_one_bad_shape_does_not_sink_a_script() -> None:
    both = RotoDocument(100, 80, 1, 1, shapes=(*shot("good", 100, 80).shapes, *shot("bad", 100, 80).shapes))
    text = nuke.dumps(both)
    place = text.index("{curvegroup bad")
    reading = nuke_reader.read_text(text[:place] + text[place:].replace("bezier", "catmullrom", 1))
    assert [shape.name for shape in reading.document.shapes] == ["good"]
    assert any(line.startswith("bad: is left out (") for line in reading.losses)


def test_warnings_of_one_kind_are_one_line_with_a_count() -> None:
    lines = [f"s{i}: eased moves got {i} additional linear keys" for i in range(5)] + ["t: is inverted", "alone"]
    assert lossiness.group_lines([*lines, "alone"]) == [
        "5 times, s0, s1, s2 and 2 more: eased moves got 0 additional linear keys (and similar)",
        "t: is inverted",
        "alone",
    ]


def test_what_drives_a_fusion_mask_is_reported() -> None:
    text = in_fusion(shot("s", 100, 80))
    for control, line in (
        ('Center = Input { Expression = "Point(0, 0)", },', "its Center has an expression, which is not followed"),
        ('ZRotation = Input { Expression = "time", },', "its ZRotation has an expression"),
        ("WriteLength = Input { Value = 0.5, },", "is drawn partly (WriteLength)"),
        ('WritePosition = Input { SourceOp = "a", },', "is drawn partly (WritePosition)"),
    ):
        reading = fusion_reader.loads(text.replace("Inputs = {", "Inputs = { " + control, 1), where="a.setting")
        assert any(line in each for each in reading.losses), control


def in_fusion(document: RotoDocument) -> str:
    return fusion.dumps(document)


def test_an_experimental_format_says_so_when_it_is_written(tmp_path: Path) -> None:
    assert formats.write(tmp_path / "a.fxs", shot("s", 100, 80))[1][0].startswith("experimental")


def test_a_feather_wider_than_a_document_holds_is_cut_and_named(tmp_path: Path) -> None:
    wide = replace(shot("s", 100, 80), shapes=(replace(shot("s", 100, 80).shapes[0], feather_px=1500.0),))
    for suffix in (".nk", ".ssf"):
        formats.write(tmp_path / f"a{suffix}", wide)
        found, lost = formats.read(tmp_path / f"a{suffix}", width=100, height=80)
        assert found.shapes[0].feather_px == 1000.0
        assert any("feather of 1,500 px was cut to 1,000 px" in line for line in lost), suffix
        document.write(tmp_path / "b.roto.json", found)
        assert document.read(tmp_path / "b.roto.json").shapes[0].feather_px == 1000.0


def test_a_feather_that_grows_reaches_what_it_reaches() -> None:
    text = nuke.dumps(shot("s", 100, 80))
    zero = " {0 0} {0 0} {0 0}" * 2
    grows = "{{{1 0} {9 57}} 0}"
    feather = "{cc {f 8192} {p {0 0} " + grows + " {0 0}" + zero + "}}"
    assert "idem" in text
    reading = nuke_reader.read_text(text.replace("idem", feather))
    shape = reading.document.shapes[0]
    assert [shape.feather_at(frame)[0].x for frame in (1, 8, 9)] == [0.0, 0.0, 57.0]
