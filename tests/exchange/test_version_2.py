"""Version 2 of the document: eases, feather lines and widths, in our own format, in Nuke's, and given up elsewhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from benchmarks import format_matrix
from rotopaint_ai import roto
from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import document, formats, nuke, nuke_reader
from rotopaint_ai.project import codecs
from rotopaint_ai.shapes import edit, edit_frames, edit_points
from rotopaint_ai.shapes.rasterise import matte
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape, Slopes, StrokeWidth

SQUARE = tuple(ControlPoint(x, y, -8, 0, 8, 0) for x, y in ((40, 30), (80, 30), (80, 70), (40, 70)))
LINE = tuple(ControlPoint(dx, dy, -9, 0, 9, 0) for dx, dy in ((-6, -6), (9, -3), (2, 12), (-4, 4)))


def moved(by: float) -> tuple[ControlPoint, ...]:
    return tuple(p._replace(x=p.x + by) for p in SQUARE)


def eased() -> RotoShape:
    slopes = Slopes(
        (ControlPoint(3, 0),) * 4, (ControlPoint(-1, 0),) * 4, (ControlPoint(1, 1),) * 4, (ControlPoint(0, 0),) * 4
    )
    grown = tuple(row._replace(x=row.x * 2, y=row.y * 2) for row in LINE)
    keys = {
        1: Key(SQUARE, "human", "smooth", LINE, slopes=slopes),
        11: Key(moved(20), "human", "ease", grown),
        21: Key(moved(5), "human", "hold", LINE),
        25: Key(SQUARE, "human", feather=LINE),
    }
    return RotoShape("eye", True, "matte", keys, feather_px=1.5)


def seam() -> RotoShape:
    rows = (StrokeWidth(2, 4, 1), StrokeWidth(5, 3, 2), StrokeWidth(1, 1, 0), StrokeWidth(2, 2, 0))
    return RotoShape("nose_seam", False, "seam", {1: Key(SQUARE, "human", widths=rows), 9: Key(moved(4), "human")}, 6.0)


def shot(*shapes: RotoShape) -> RotoDocument:
    return RotoDocument(160, 100, 1, 25, shapes=shapes)


def test_all_of_it_comes_back_and_is_valid() -> None:
    text = document.dumps(shot(eased(), seam()))
    assert document.loads(text) == shot(eased(), seam())
    assert json.loads(text)["version"] == 2
    Draft202012Validator(roto.schema()).validate(json.loads(text))


def test_a_document_without_anything_new_is_written_as_version_1() -> None:
    plain = shot(RotoShape("a", True, keys={1: Key(SQUARE), 5: Key(moved(3), "human", "hold")}, feather_px=2.0))
    assert json.loads(document.dumps(plain))["version"] == 1


def test_a_reader_of_version_1_finds_its_fields_where_they_were() -> None:
    corners = tuple(ControlPoint(x, y) for x, y in ((40, 30), (80, 30), (80, 70), (40, 70)))
    line = tuple(ControlPoint(x, y) for x, y in ((-2, -2), (4, -4), (6, 6), (-4, 4)))
    shape = RotoShape("a", True, keys={7: Key(corners, feather=line)}, feather_px=1.5)
    written = json.loads(document.dumps(shot(shape)))["shapes"][0]
    assert written["keys"]["7"] == [list(p) for p in corners]
    assert written["feather_px"] == pytest.approx(1.5 + (2 + 4 + 6 + 4) / 4)  # the mean stands for the line


@pytest.mark.parametrize(
    ("field", "value", "reported"),
    [
        ("feather", {"keys": {"2": []}}, "feather: keys: frame 2 has no key"),
        ("feather", {"keys": {"1": [[0, 0, 0, 0, 0, 0]]}}, "1 rows for 4 control points"),
        ("feather", {"uniform_px": -1, "keys": {}}, "uniform_px is -1"),
        ("widths", {"1": [[1, 2]] * 4}, "wanted [left_px, right_px, feather_px]"),
        ("widths", {"1": [[1, 2, -3]] * 4}, "each must lie between 0 and"),
        ("widths", {"1": [[1, 2, 3]]}, "1 rows for 4 control points"),
        ("slopes", {"1": {"leaving": [list(SQUARE[0])] * 4}}, "wanted leaving and arriving"),
        ("slopes", {"1": {"sideways": []}}, "field 'sideways' is not known"),
    ],
)
def test_what_is_wrong_is_named(field: str, value: object, reported: str) -> None:
    data = json.loads(document.dumps(shot(eased())))
    data["shapes"][0][field] = value
    with pytest.raises(DocumentError) as caught:
        document.loads(json.dumps(data))
    assert reported in str(caught.value)


def test_version_1_knows_no_field_of_version_2() -> None:
    data = json.loads(document.dumps(shot(eased()))) | {"version": 1}
    with pytest.raises(DocumentError, match="version 1"):
        document.loads(json.dumps(data))


# --- between keys -----------------------------------------------------------------------------------------------------


def test_eases_by_hand() -> None:
    eye = eased()
    # Hermite at u = 1/2 over 10 frames: the middle, plus (leaving - arriving) * 10 / 8
    assert eye.at(6)[0].x == pytest.approx(40 + 10 + (3 + 1) * 10 / 8)
    assert eye.at(13.5)[0].x == pytest.approx(60 - 15 * (3 * 0.25**2 - 2 * 0.25**3))
    assert eye.feather_at(16)[0].x == pytest.approx(-9)
    assert eye.at(23) == eye.at(21)


def test_smooth_keys_without_slopes_never_overshoot_and_do_not_jerk() -> None:
    xs = {0: 0.0, 10: 10.0, 20: 100.0, 30: 100.0, 40: 20.0}
    shape = RotoShape("a", True, keys={f: Key((ControlPoint(x, 0),), interpolation="smooth") for f, x in xs.items()})
    way = [shape.at(f / 4)[0].x for f in range(161)]
    assert min(way) >= 0.0
    assert max(way) <= 100.0
    for frame in (10, 20, 30):
        before, after = (shape.at(frame + step)[0].x - xs[frame] for step in (-1e-4, 1e-4))
        assert after == pytest.approx(-before, abs=1e-5)


def test_a_key_set_by_hand_keeps_the_feather_and_drops_slopes_that_led_elsewhere() -> None:
    changed = edit.set_key(shot(eased()), "eye", 11, moved(30)).shape("eye")
    assert changed.keys[11].feather == eased().keys[11].feather
    assert changed.keys[1].slopes is None
    added = edit.set_key(shot(eased()), "eye", 16).shape("eye")
    assert added.keys[16].feather == eased().feather_at(16)
    gone = edit_frames.delete_keys(shot(eased()), ("eye",), (11,)).shape("eye")
    assert gone.keys[1].slopes is None


def test_a_point_more_and_a_point_less_take_feather_and_widths_along() -> None:
    more = edit_points.add_point(shot(eased(), seam()), "eye", 1, 0.5)
    key = more.shape("eye").keys[1]
    assert len(key.feather) == len(key.points) == 5
    assert edit_points.add_point(more, "nose_seam", 0, 0.5).shape("nose_seam").keys[1].widths[1] == (3.5, 3.5, 1.5)
    less = edit_points.delete_points(shot(eased(), seam()), "nose_seam", (1,))
    assert less.shape("nose_seam").keys[1].widths == tuple(seam().keys[1].widths[i] for i in (0, 2, 3))


def test_a_project_keeps_every_key_and_reads_those_of_older_ones() -> None:
    for key in [*eased().keys.values(), *seam().keys.values(), Key(SQUARE, "propagated", "hold")]:
        assert codecs.unpack("key", codecs.pack("key", key)) == key
    assert codecs.pack("key", Key(SQUARE))[1] == 0  # as before


# --- other formats ----------------------------------------------------------------------------------------------------


def test_nuke_keeps_eases_and_feather_lines(tmp_path: Path) -> None:
    assert formats.write(tmp_path / "a.nk", shot(eased()))[0] < 1e-4
    found = nuke.read(tmp_path / "a.nk").shape("eye")
    assert [key.interpolation for _, key in sorted(found.keys.items())] == ["smooth", "ease", "hold", "linear"]
    assert found.feather_px == 1.5
    for frame in (1, 3.5, 8, 11, 17, 21, 24, 25):
        for ours, theirs in (
            (eased().at(frame), found.at(frame)),
            (eased().feather_at(frame), found.feather_at(frame)),
        ):
            assert [v for row in theirs for v in row] == pytest.approx([v for row in ours for v in row], abs=1e-4)


def test_an_animated_feather_of_a_script_moves() -> None:
    outline = "{{0 0} {20 20} {0 0}} {{0 0} {60 20} {0 0}} {{0 0} {60 60} {0 0}}".replace("{{", "{").replace("}}", "}")
    ends = "{0 0} {{{1 2 -} {11 12 -}} 0} {0 0} {0 0} {3 0} {0 0} {0 0} {3 0} {0 0}"
    block = (
        "{{v x3f99999a} {f 0} {n {layer Root {f 0} {t x42a00000 x42480000} {a} {curvegroup S 512 bezier "
        "{{cc {f 8192} {p " + outline + "}} {cc {f 8192} {p " + ends + "}}} {t} {a}}}}}"
    )
    reading = nuke_reader.read_text("{" + block + "}")
    shape = reading.document.shapes[0]
    assert [round(shape.feather_at(f)[0].x, 3) for f in (1, 6, 11)] == [2, 7, 12]
    assert not any("feather" in line for line in reading.losses)


def test_what_a_format_cannot_hold_is_said_once_with_the_number(tmp_path: Path) -> None:
    lost = formats.write(tmp_path / "a.ssf", shot(eased(), seam()))[1]
    found = formats.read(tmp_path / "a.ssf", width=160, height=100)[0].shape("eye")
    assert sum("additional linear keys, within 0.1 px" in line for line in lost) == 1
    assert not any("became its mean" in line for line in lost)
    given_up = formats.write(tmp_path / "a.svg", shot(eased(), seam()))[1]
    assert sum("became its mean" in line for line in given_up) == 1
    assert sum("widths of 2.0 to 8.0 px became their mean" in line for line in lost) == 1
    assert max(abs(a.x - b.x) for f in range(1, 22) for a, b in zip(eased().at(f), found.at(f - 1))) < 0.11


@pytest.mark.parametrize("suffix", [".ssf", ".setting"])
def test_second_outlines_keep_a_feather_line_and_what_is_added_outside_it(tmp_path: Path, suffix: str) -> None:
    eye = format_matrix.SHOTS["feather line"]().shapes[0]
    held = eye.with_keys({frame: replace(key, interpolation="hold") for frame, key in eye.keys.items()})
    inside = tuple(row._replace(x=-row.x / 4, y=-row.y / 4) for row in eye.keys[1001].feather)
    softer = replace(eye.with_keys({1001: replace(eye.keys[1001], feather=inside)}), name="inner")
    flat = tuple(ControlPoint(0.0, 0.0, *point[2:]) for point in eye.keys[1001].points)
    even = eye.with_keys({frame: replace(key, feather=flat) for frame, key in eye.keys.items()})
    even = replace(even, name="even", feather_px=2.0)
    shapes = (replace(held, name="held"), replace(eye, name="wider", feather_px=3.0), softer, even)
    meant = replace(format_matrix.SHOTS["feather line"](), shapes=shapes)
    proof, _ = formats.write_with_proof(tmp_path / f"a{suffix}", meant)
    assert 1e-3 < proof.matte_difference < 0.01  # of the shape that has both feathers
    found, _ = formats.read(tmp_path / f"a{suffix}", width=200, height=120)
    found = edit.shift_frames(found, 1001 - found.first_frame)
    assert [shape.has_feather_line for shape in found.shapes] == [True, True, True, False]
    assert found.shape("even").feather_px == pytest.approx(2.0, abs=1e-5)
    for frame in range(1001, 1007):
        for a, b in zip(held.feather_at(frame), found.shape("held").feather_at(frame), strict=True):
            assert a == pytest.approx(b, abs=1e-5)
    drawn = [matte(shape, 1004, 200, 120).paste(200, 120) for shape in (shapes[1], found.shape("wider"))]
    assert abs(drawn[0] - drawn[1]).sum() / drawn[0].sum() < 0.02


def test_a_shape_that_holds_out_is_version_2_in_documents_projects_and_the_schema() -> None:
    plain = RotoShape("eye", True, "matte", {1: Key(SQUARE, "human")})
    away = RotoShape("hand", True, "matte", {1: Key(SQUARE, "human")}, subtract=True)
    assert document.version_of(shot(plain)) == 1
    text = document.dumps(shot(plain, away))
    assert json.loads(text)["version"] == 2
    Draft202012Validator(roto.schema()).validate(json.loads(text))
    assert document.loads(text) == shot(plain, away)
    with pytest.raises(DocumentError, match="subtract"):
        document.loads(text.replace('"version": 2', '"version": 1'))
    heads = [codecs.ShapeHead(True, "matte", None, 0.0, (0.0, 0.0), each) for each in (False, True)]
    packed = [codecs.pack("shape", head) for head in heads]
    assert b"subtract" not in packed[0]  # a project without any is read by programs before it
    assert [codecs.unpack("shape", data) for data in packed] == heads


def test_what_a_shape_holds_out_is_drawn_and_formats_without_it_say_so(tmp_path: Path) -> None:
    away = RotoShape("hand", True, "matte", {1: Key(moved(20), "human")}, subtract=True)
    eye = RotoShape("eye", True, "matte", {1: Key(SQUARE, "human")})
    whole, cut = (roto.rasterise(eye, 1, shot(*shapes)) for shapes in ((eye,), (eye, away)))
    inside = roto.rasterise(away, 1, shot(eye, away))
    assert cut == pytest.approx(whole * (1 - inside), abs=1e-6)
    assert 0 < cut.sum() < whole.sum()
    for suffix in (".svg", ".ssf"):
        _, lost = formats.write(tmp_path / f"shot{suffix}", shot(eye, away))
        assert [line for line in lost if "hold-out" in line], suffix
        _, lost = formats.write(tmp_path / f"plain{suffix}", shot(eye))
        assert not [line for line in lost if "hold-out" in line], suffix


def test_a_shape_that_holds_out_is_minus_in_nuke_and_back(tmp_path: Path) -> None:
    """12 is the blending mode to which an exporter in use since 2013 converts Silhouette's Subtract."""
    away = RotoShape("hand", True, "matte", {1: Key(moved(20), "human")}, subtract=True)
    eye = RotoShape("eye", True, "matte", {1: Key(SQUARE, "human")})
    _, lost = formats.write(tmp_path / "a.nk", shot(away, eye))
    assert not any("hold-out" in line for line in lost)
    assert re.findall(r"curvegroup (\w+)|bm (\w+)", (tmp_path / "a.nk").read_text()) == [
        ("hand", ""),
        ("", "x41400000"),
        ("eye", ""),
    ]
    found, reported = formats.read(tmp_path / "a.nk")
    assert [shape.subtract for shape in found.shapes] == [True, False]
    assert not any("blending mode" in line or "taken away" in line for line in reported)
    turned = tuple(replace(shape, subtract=not shape.subtract) for shape in found.shapes)
    formats.write(tmp_path / "b.nk", replace(found, shapes=turned))  # into the script's own nodes
    found, reported = formats.read(tmp_path / "b.nk")
    assert [shape.subtract for shape in found.shapes] == [False, True]
    assert any("eye: is also subtracted from the shapes above it" in line for line in reported)


def test_hold_outs_stand_on_top_in_nuke_wherever_they_were_drawn(tmp_path: Path) -> None:
    """Nuke subtracts a shape from those after it in its list; a shape that is drawn last is last in the document."""
    seam = RotoShape("seam", False, "seam", {1: Key(SQUARE)}, width_px=4.0)
    eye = RotoShape("eye", True, "matte", {1: Key(SQUARE)})
    hand = RotoShape("hand", True, "matte", {1: Key(moved(20), "human")}, subtract=True)

    def names(file: str, document: RotoDocument) -> list[str]:
        _, reported = formats.write(tmp_path / file, document)
        assert not any("hold-out" in line for line in reported)
        return re.findall(r"curvegroup (\w+)", (tmp_path / file).read_text())

    assert names("a.nk", shot(seam, eye, hand)) == ["hand", "seam", "eye"]
    formats.write(tmp_path / "b.nk", shot(seam, eye))
    script, _ = formats.read(tmp_path / "b.nk")
    assert names("c.nk", replace(script, shapes=(*script.shapes, hand))) == ["hand", "seam", "eye"]
