"""SVG: what is drawn, and simple drawings read."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import formats, svg
from rotopaint_ai.exchange.parsing import ReadResult
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

NAMESPACE = "{http://www.w3.org/2000/svg}"


def drawing(inner: str, head: str = 'width="100" height="80"') -> str:
    return f'<svg xmlns="http://www.w3.org/2000/svg" {head}>{inner}</svg>'


def read(tmp_path: Path, inner: str, head: str = 'width="100" height="80"', **size: int) -> ReadResult:
    (tmp_path / "a.svg").write_text(drawing(inner, head))
    return svg.read_report(tmp_path / "a.svg", **size)


def sample() -> RotoDocument:
    lid = (ControlPoint(1, 2, -1, 0, 1, 0.5), ControlPoint(9, 2, 0, -1, 0, 1), ControlPoint(5, 8.25, 1, 0, -1, 0))
    moved = tuple(p._replace(x=p.x + 4) for p in lid)
    eye = RotoShape('e & "e"', True, "matte", {5: Key(lid), 7: Key(moved)}, feather_px=2.0, visible={7: False})
    seam = RotoShape("seam", False, "seam", {5: Key(lid[:2])}, width_px=3.5)
    return RotoDocument(100, 80, 5, 7, shapes=(eye, seam))


def test_every_frame_is_a_group_and_the_first_is_shown() -> None:
    root = ElementTree.fromstring(svg.dumps(sample()))
    groups = root.findall(f"{NAMESPACE}g")
    assert [group.get("data-frame") for group in groups] == ["5", "6", "7"]
    assert [group.get("display") for group in groups] == [None, "none", "none"]
    assert [len(group) for group in groups] == [2, 2, 1]
    path = groups[1][0]
    assert path.get("data-name") == 'e & "e"'
    numbers = re.findall(r"[-\d.]+", path.get("d", ""))
    assert [float(v) for v in numbers] == [3, 2, 4, 2.5, 11, 1, 11, 2, 11, 3, 8, 8.25, 7, 8.25, 6, 8.25, 2, 2, 3, 2]


def test_read_back_gives_the_same_points_at_every_frame(tmp_path: Path) -> None:
    meant = sample()
    svg.write(tmp_path / "a.svg", meant)
    found = svg.read(tmp_path / "a.svg")
    eye, seam = found.shapes
    assert (eye.name, eye.closed, eye.role, eye.feather_px) == ('e & "e"', True, "matte", 2.0)
    assert (seam.name, seam.closed, seam.role, seam.width_px) == ("seam", False, "seam", 3.5)
    assert eye.frames == (5, 6)
    for frame in (5, 6):
        for p, q in zip(eye.at(frame), meant.shapes[0].at(frame), strict=True):
            assert p == pytest.approx(q)


def test_other_programs_paths_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, '<path id="p" d="m10 10 h10 v10q5,5,10,0t10 0s1-1 2 2l-5-5z"/>').document
    (shape,) = found.shapes
    assert shape.closed
    assert [(p.x, p.y) for p in shape.at(1)] == [(10, 10), (20, 10), (20, 20), (30, 20), (40, 20), (42, 22), (37, 17)]
    assert shape.at(1)[2].out_dx == pytest.approx(5 * 2 / 3)
    into = [(p.in_dx, p.in_dy) for p in shape.at(1)[3:5]]
    assert into == [pytest.approx((-5 * 2 / 3, 5 * 2 / 3)), pytest.approx((-5 * 2 / 3, -5 * 2 / 3))]
    assert shape.at(1)[3].out_dy == pytest.approx(-5 * 2 / 3)  # t mirrors the control point (25, 25) to (35, 15)


def test_subpaths_polygons_and_lines(tmp_path: Path) -> None:
    inner = (
        '<g id="g"><path id="p" d="M0 0L10 0L10 10ZM20 20L30 20"/></g><polygon id="q" points="0,0 4,0 4,4"/>'
        '<polyline points="1 1 2 2"/><line x1="1" y1="2" x2="3" y2="4"/><circle r="4"/>'
        '<defs><path d="M0 0L1 1"/></defs>'
    )
    reading = read(tmp_path, inner)
    assert [(s.name, s.closed, s.n_points) for s in reading.document.shapes] == [
        ("p", True, 3),
        ("p_2", False, 2),
        ("q", True, 3),
        ("polyline", False, 2),
        ("line", False, 2),
    ]
    assert reading.losses == ("1 elements that are not paths, polygons or lines were left out",)


@pytest.mark.parametrize(
    ("inner", "head", "reported"),
    [
        ('<path d="M0 0A1 1 0 0 0 5 5"/>', 'width="10" height="8"', "convert arcs"),
        ('<g transform="scale(2)"/>', 'width="10" height="8"', "transform"),
        ("", 'width="10" height="8" viewBox="0 0 20 16"', "view box"),
        ("", 'width="10cm"', "does not state its size"),
        ('<path d="M0 0L1"/>', 'width="10" height="8"', "needs 2 numbers"),
        ('<path d="L1 1"/>', 'width="10" height="8"', "begin with M"),
        ('<path d="M1 1e999"/>', 'width="10" height="8"', "wanted a number of pixels"),
        ('<line x1="0x10"/>', 'width="10" height="8"', "holds '0x10'"),
        ("", 'width="10" height="8" viewBox="0 0 a b"', "holds 'a'"),
        ("", 'width="1000000" height="8"', "width is 1000000 px; wanted 1 to 100,000"),
        ('<g data-frame="99999999"><line x2="1"/></g>', 'width="9" height="8"', "wanted numbers up to 10,000,000"),
        ('<line x2="1" stroke-width="1e5"/>', 'width="9" height="8"', "at most 1,000 px"),
    ],
)
def test_what_would_come_out_wrong_is_refused(tmp_path: Path, inner: str, head: str, reported: str) -> None:
    with pytest.raises(DocumentError, match=reported):
        read(tmp_path, inner, head)


def test_size_comes_from_the_caller_where_the_file_has_none(tmp_path: Path) -> None:
    assert read(tmp_path, "", "", width=12, height=34).document.height == 34
    with pytest.raises(DocumentError, match="given 12 x 34"):
        read(tmp_path, "", width=12, height=34)


def test_damaged_and_dangerous_files_are_refused(tmp_path: Path) -> None:
    for text in ("<svg", "", '<!DOCTYPE s [<!ENTITY a "aaaa">]><svg xmlns="http://www.w3.org/2000/svg"/>'):
        (tmp_path / "a.svg").write_text(text)
        with pytest.raises(DocumentError, match=r"a\.svg"):
            svg.read(tmp_path / "a.svg")


def test_outer_handles_of_an_open_curve_are_no_error(tmp_path: Path) -> None:
    line = (ControlPoint(10, 10, -8, -8, 5, 0), ControlPoint(40, 20, -5, 0, 8, 8))  # nothing is drawn by the outer two
    shape = RotoShape("seam", False, "seam", {1: Key(line)}, width_px=3.0)
    written = formats.format_of(tmp_path / "a.svg").write(  # type: ignore[misc]
        tmp_path / "a.svg", RotoDocument(100, 80, 1, 1, shapes=(shape,))
    )
    assert written.error_px < 0.001


def test_a_name_that_xml_cannot_hold_is_reported(tmp_path: Path) -> None:
    shape = RotoShape("a\x1b", True, keys={5: Key((ControlPoint(1, 2), ControlPoint(3, 2), ControlPoint(2, 9)))})
    with pytest.raises(DocumentError, match=r"shape 'a\\x1b': its name holds a character that SVG cannot; rename it"):
        formats.write(tmp_path / "a.svg", RotoDocument(100, 80, 5, 5, shapes=(shape,)))
    assert not list(tmp_path.iterdir())


def test_a_shape_that_a_group_lacks_is_hidden_there_and_what_is_lost_is_said(tmp_path: Path) -> None:
    meant = sample()
    seam = RotoShape("thin", False, "seam", meant.shape("seam").keys, width_px=3.5, taper=(0.5, 0.5))
    meant = RotoDocument(100, 80, 5, 7, shapes=(*meant.shapes, seam), pixel_aspect=2.0)
    _, losses = formats.write(tmp_path / "a.svg", meant)
    found = svg.read(tmp_path / "a.svg")
    assert [found.shape('e & "e"').is_visible(frame) for frame in (5, 6, 7)] == [True, True, False]
    assert found.shape("seam").is_visible(7)
    assert any("thin" in line and "taper" in line for line in losses)
    assert any("aspect" in line for line in losses)


@pytest.mark.parametrize(
    ("inner", "width"),
    [
        ('<path d="M1 1 5 5" style="fill:none;stroke:#000; stroke-width : 12"/>', 12.0),
        ('<path d="M1 1 5 5" stroke-width="3" style="stroke-width:12px"/>', 12.0),
        ('<path d="M1 1 5 5" stroke-width="12pt"/>', 16.0),
        ('<path d="M1 1 5 5" style="stroke-width:.25in"/>', 24.0),
        ('<g stroke-width="12"><g><path d="M1 1 5 5"/></g></g>', 12.0),
        ('<g style="stroke-width:12"><path d="M1 1 5 5" stroke-width="2"/></g>', 2.0),
        ('<path d="M1 1 5 5" stroke-width="50%"/>', None),
    ],
)
def test_widths_of_strokes_are_read_as_browsers_read_them(tmp_path: Path, inner: str, width: float | None) -> None:
    """A style before an attribute, an element before its groups; an inch is 96 px and 72 pt (CSS Values, 6.2)."""
    (shape,) = read(tmp_path, inner).document.shapes
    assert shape.width_px == (None if width is None else pytest.approx(width))


def test_what_is_not_displayed_is_left_out_and_reported(tmp_path: Path) -> None:
    inner = (
        '<path id="a" display="none" d="M1 1 5 5"/><path id="b" style="display:none" d="M1 1 5 5"/>'
        '<g style="display:none" transform="scale(2)"><path id="c" d="M1 1 5 5"/></g><path id="d" d="M1 1 5 5"/>'
    )
    found = read(tmp_path, inner)
    assert [shape.name for shape in found.document.shapes] == ["d"]
    assert found.losses == ("3 hidden elements were left out",)


def test_a_drawing_that_is_hidden_at_one_frame_is_hidden_there(tmp_path: Path) -> None:
    """Groups of frames are hidden for viewers only."""
    svg.write(tmp_path / "a.svg", sample())
    text = (tmp_path / "a.svg").read_text()
    second = text.index("<path", text.index('id="frame.6"'))
    (tmp_path / "a.svg").write_text(f'{text[:second]}<path style="display:none"{text[second + 5 :]}')
    found = svg.read(tmp_path / "a.svg")
    assert found.shapes[0].visible == {6: False, 7: False}
    assert found.shape("seam").frames == (5, 6, 7)


def test_what_draws_nothing_is_not_counted_as_left_out(tmp_path: Path) -> None:
    inkscape = 'xmlns:sodipodi="http://sodipodi.sourceforge.net/DTD/sodipodi-0.dtd" width="100" height="80"'
    inner = "<sodipodi:namedview/><defs><rect/></defs><metadata/><!-- a note --><linearGradient/><line x2='5'/>"
    assert read(tmp_path, inner, inkscape).losses == ()
