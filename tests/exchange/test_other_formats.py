"""Shake, Fusion, Silhouette, COCO, labelme, Cryptomatte: their forms by hand, and files that other programs saved."""

from __future__ import annotations

import json
import re
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import OpenImageIO as oiio
import pytest

from rotopaint_ai import watch
from rotopaint_ai.cli import main
from rotopaint_ai.errors import DocumentError, UsageError
from rotopaint_ai.exchange import (
    coco,
    cryptomatte,
    feather_edges,
    formats,
    fusion,
    json_files,
    labelme,
    lua,
    polygons,
    silhouette,
    ssf,
)
from rotopaint_ai.exchange.format_spec import FormatSpec
from rotopaint_ai.shapes.rasterise import matte
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoShape

from . import shots
from .work import calls

VERTEX = "10 70 8 71 12 69"


def shake(*vertices: str, closed: int = 1, extra: str = "") -> str:
    """A Shake file of one shape with one key."""
    return (
        f"shake_shape_data 4.0\nmotion_blur 0\nnum_shapes 1\nshape_name a b\nparent_name\nclosed {closed}\nvisible 1\n"
        f"num_vertices {len(vertices)}\nnum_key_times 1\n{extra}key_time 0\ncenter_x 1\ncolor_a 1.0\n"
        f"vertex_data {' '.join(vertices)}\n"
    )


# --- Shake ------------------------------------------------------------------------------------------------------------


def test_a_shake_vertex_by_hand() -> None:
    """Point, incoming and outgoing handle, absolute with y up: in a plate 80 high, 70 up is 10 down."""
    found = ssf.loads(shake(f"{VERTEX} {VERTEX}", f"{VERTEX} {VERTEX}", closed=0), width=100, height=80).document
    assert found.shapes[0].name == "a b"
    assert found.shapes[0].at(0)[0] == ControlPoint(10, 10, -2, -1, 2, 1)


def test_tabs_part_words_of_a_shake_file_as_blanks_do() -> None:
    text = shake(f"{VERTEX} {VERTEX}", f"{VERTEX} {VERTEX}")
    tabbed = "\n".join(line.replace(" ", "\t", 1) for line in text.splitlines())
    assert ssf.loads(tabbed, width=100, height=80) == ssf.loads(text, width=100, height=80)


def test_wrapped_lines_are_one() -> None:
    whole = shake(f"{VERTEX} {VERTEX}", f"{VERTEX} {VERTEX}", f"{VERTEX} {VERTEX}")
    wrapped = whole.replace(" 8 71", "\n   8 71").replace("69 10", "69\n10")
    assert ssf.loads(wrapped, width=100, height=80) == ssf.loads(whole, width=100, height=80)


def test_an_edge_of_zeros_is_no_edge() -> None:
    """Some writers leave the last six numbers 0: this is not a feather curve at the origin."""
    text = shake(f"{VERTEX} 0 0 0 0 0 0", "50 70 48 71 52 69 0 0 0 0 0 0", "50 20 48 21 52 19 0 0 0 0 0 0")
    found = ssf.loads(text, width=100, height=80)
    assert (found.document.shapes[0].feather_px, found.losses) == (0.0, ())


@pytest.mark.parametrize("word", ["motion_blur 0\\", "motion_blur tter_timing 0", "color_a 1.2.3", "color_a"])
def test_odd_words_of_a_shake_file_are_no_traceback(word: str) -> None:
    text = shake(f"{VERTEX} {VERTEX}").replace("motion_blur 0", word).replace("color_a 1.0", word)
    assert ssf.loads(text, width=100, height=80).document.shapes[0].n_points == 1


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", "does not begin with"),
        ("{}", "does not begin with"),
        (shake(VERTEX), "6 numbers, wanted 12"),
        (shake(f"{VERTEX} {VERTEX}").replace("num_shapes 1", "num_shapes 2"), "holds 1 shapes, but states 2"),
        (shake(f"{VERTEX} {VERTEX}").replace("num_key_times 1", "num_key_times 7"), "1 keys, but states 7"),
        (shake(f"{VERTEX} {VERTEX}").replace("70", "nan"), "finite number"),
        (shake(f"{VERTEX} {VERTEX}").replace("key_time 0\n", ""), "points without a key_time"),
    ],
)
def test_damaged_shake_files_are_refused(text: str, reported: str) -> None:
    with pytest.raises(DocumentError, match=reported):
        ssf.loads(text, width=100, height=80)


@pytest.mark.shared
def test_a_file_of_mocha_is_read_and_written_again(shared: Path, tmp_path: Path) -> None:
    """Its numbers have three decimals; the first vertex is 167.342 521.753 of a plate 720 high."""
    path = shared / "formats/ssf/TypesettingTools_Aegisub-Motion_movement.ssf"
    reading = ssf.read_report(path, width=1280, height=720)
    (shape,) = reading.document.shapes
    assert (shape.name, shape.closed, shape.n_points, shape.frames) == ("Layer_4_0_mask", True, 7, tuple(range(10)))
    assert (reading.losses, shape.feather_px) == ((), 0.0)
    first = shape.at(0)[0]
    assert (first.x, first.y, first.out_dx) == pytest.approx((167.342, 720 - 521.753, 157.479 - 167.342))
    numbers = [
        [float(w) for line in text.splitlines() if line.startswith("vertex_data") for w in line.split()[1:]]
        for text in (path.read_text(), ssf.dumps(reading.document))
    ]
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-6)


# --- Fusion -----------------------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_a_mask_saved_by_fusion_is_read_and_written_again(shared: Path) -> None:
    path = shared / "formats/fusion/fusion_saved_PolylineMask_2static.setting"
    reading = fusion.read_report(path)
    (shape,) = reading.document.shapes
    assert (reading.document.width, reading.document.height, shape.frames, shape.n_points) == (1349, 1768, (5,), 9)
    assert (shape.closed, shape.feather_px, reading.losses) == (True, 0.0, ())
    assert shape.at(5)[0].x == pytest.approx((0.5 - 0.431142419576645) * 1349)
    assert shape.at(5)[0].y == pytest.approx((0.5 - 0.482100248336792) * 1768)
    tables = [lua.loads(text) for text in (path.read_text(), fusion.dumps(reading.document))]
    rows = [t.table("Tools").table("Polygon1_1Polyline").table("KeyFrames").table(5.0) for t in tables]
    items = [[p.fields for p in row.table("Value").table("Points").items] for row in rows]  # type: ignore[union-attr]
    for a, b in zip(*items, strict=True):
        assert a == pytest.approx(b, abs=1e-12)


def test_a_pose_that_stands_still_is_flattened_once() -> None:
    """Counts calls: a hundred frames of one pose need little more than one frame."""
    pose = (ControlPoint(10, 20, -30, 9, 30, 40), ControlPoint(400, 300, 90, -80, -60, 70))
    still = shots.shot(RotoShape("a", True, "matte", {1: Key(pose)}))
    long = replace(still, first_frame=1, last_frame=100)
    once = calls(lambda: polygons.to_polygons(replace(long, last_frame=1), open_lines=False))
    assert calls(lambda: polygons.to_polygons(long, open_lines=False)) < 100 * once / 2
    assert len(polygons.to_polygons(long, open_lines=False).shapes[0].keys) == 100


def test_lua_numbers_in_other_forms() -> None:
    table = lua.loads("{ [0x10] = 0x1F, [-0x2] = 1e3 }")
    assert table.fields == {16.0: 31.0, -2.0: 1000.0}
    with pytest.raises(DocumentError, match=r"^setting: line 1: 0xf{18} is too large a number; copy"):
        lua.loads("{ [0x" + "f" * 400 + "] = 1 }")


def test_a_refusal_of_a_shake_file_stays_one_short_line() -> None:
    text = shake(f"{VERTEX} {VERTEX}").replace("num_key_times 1", "num_key_times " + "9" * 5000)
    name = next(line for line in text.splitlines() if line.startswith("shape_name"))
    with pytest.raises(DocumentError) as reported:
        ssf.loads(text.replace(name, "shape_name " + "n" * 5000), width=100, height=80)
    assert len(str(reported.value)) < 200
    assert "1 keys, but states 999" in str(reported.value)


def test_lua_tables_by_hand() -> None:
    found = lua.loads(
        '{ A = ordered() { B = Input { Value = 0x10, }, ["C.D"] = "q\\"uo", [5] = -1.5e1; true, nil } } -- end'
    )
    inner = found.table("A")
    assert (inner.table("B").kind, inner.table("B").fields) == ("Input", {"Value": 16.0})
    assert (inner.fields["C.D"], inner.fields[5.0], inner.items) == ('q"uo', -15.0, [True, None])
    for bad in ("", "{", "{ a = }", "{ [a] = 1 }", "1", "{} {}", "{ @ }"):
        with pytest.raises(DocumentError):
            lua.loads(bad)


def test_masks_of_fusion_in_groups_and_compositions_are_found() -> None:
    inner = fusion.dumps(shots.shot(shots.corners())).strip()
    grouped = "Composition { CurrentTime = 5, Tools = ordered() { Group1 = GroupOperator { " + inner[1:-1] + "} } }"
    assert fusion.loads(grouped).document.shapes[0].at(1001) == fusion.loads(inner).document.shapes[0].at(1001)
    rectangle = inner.replace("Tools = ordered() {", "Tools = ordered() { R = RectangleMask { Inputs = { } },", 1)
    assert "a RectangleMask is not read" in fusion.loads(rectangle).losses[0]
    with pytest.raises(DocumentError, match="holds no polygon"):
        fusion.loads("{ Tools = { B = Blur { } } }")


def test_words_of_lua_name_no_mask_of_fusion() -> None:
    """`end = PolylineMask { ... }` is a syntax error in Lua: Fusion would refuse the whole paste."""
    document = shots.shot(shots.corners("end"), shots.corners("not"))
    assert list(fusion.fusion_names(document).values()) == ["Shape_end", "Shape_not"]


def test_a_soft_edge_keyed_elsewhere_than_its_mask_moves_with_both() -> None:
    """A still square keyed at 0; its second outline is 4 px away at 0 and 8 px at 10, so 6 px at 5. Both have keys."""
    meant = shots.shot(replace(shots.corners(by=0.0), feather_px=4.0), first=0, last=10)
    still = meant.shapes[0].with_keys({0: Key(shots.CORNERS, "human")})
    soft = [replace(still, feather_px=px) for px in (4.0, 8.0)]
    outer = {f: feather_edges.edge(shots.CORNERS, each.feather_px) for f, each in zip((0, 10), soft, strict=True)}
    one = fusion.dumps(replace(meant, shapes=(soft[0],)))
    second = fusion._spline_tool("cornersPolyline2", outer, still, meant)
    begin = one.index("\t\tcornersPolyline2 = BezierSpline")
    found = fusion.loads(one[:begin] + second + "\n\t}\n}\n").document.shapes[0]
    assert found.frames == (0, 10)
    for frame, width in ((0, 4.0), (5, 6.0), (10, 8.0)):
        widths = feather_edges.line_widths(found.at(frame), found.feather_at(frame))
        assert widths == pytest.approx([width] * 4, abs=1e-3)


def test_strokes_of_fusion_have_a_width() -> None:
    """BorderWidth is a share of the picture's width: 6 px of 960."""
    text = fusion.dumps(shots.shot(shots.seam()))
    assert "Solid = Input { Value = 0, }" in text
    assert "BorderWidth = Input { Value = 0.00625, }" in text
    assert fusion.loads(text).document.shapes[0].width_px == 6.0


# --- Silhouette -------------------------------------------------------------------------------------------------------


def test_silhouette_says_that_it_is_experimental() -> None:
    assert "experimental" in silhouette.loads(silhouette.dumps(shots.shot(shots.corners()))).losses[0]
    assert "experimental" in shots.form("Silhouette").about


def test_silhouettes_layers_are_nested() -> None:
    document = shots.shot(shots.corners("pip/face/eye"), shots.corners("pip/face/brow"), shots.corners("prop"))
    text = silhouette.dumps(document)
    assert text.count('label="face"') == 1
    assert [shape.name for shape in silhouette.loads(text).document.shapes] == ["pip/face/eye", "pip/face/brow", "prop"]


# --- COCO and labelme -------------------------------------------------------------------------------------------------


def test_coco_polygons_by_hand() -> None:
    square = tuple(ControlPoint(x, y) for x, y in ((10, 20), (60, 20), (60, 50), (10, 50)))
    data = json.loads(coco.dumps(shots.shot(RotoShape("a", True, "matte", {1001: Key(square)}), last=1001)))
    (row,) = data["annotations"]
    assert row["segmentation"] == [[10, 20, 60, 20, 60, 50, 10, 50]]
    assert (row["area"], row["bbox"], data["images"][0]["file_name"]) == (1500, [10, 20, 50, 30], "frame.1001.png")


@pytest.mark.parametrize("categories", [None, 3, "a"])
def test_coco_whose_categories_are_no_list_is_read_without_them(categories: object) -> None:
    square = tuple(ControlPoint(x, y) for x, y in ((0, 0), (10, 0), (10, 10), (0, 10)))
    document = shots.shot(RotoShape("a", True, "matte", {1001: Key(square)}), last=1001)
    data = {**json.loads(coco.dumps(document)), "categories": categories}
    assert [len(shape.keys) for shape in coco.loads(json.dumps(data)).document.shapes] == [1]


@pytest.mark.shared
def test_a_public_coco_file_is_read(shared: Path) -> None:
    path = shared / "formats/polygons/labelme_instance_segmentation_data_dataset_coco_annotations.json"
    found, reported = formats.read(path)
    assert (found.width, found.height, found.first_frame) == (500, 338, 3)
    assert any("2 of 3 pictures are not 500 x 338" in line for line in reported)
    raw = json.loads(path.read_text())
    first = next(row for row in raw["annotations"] if row["image_id"] == 0)["segmentation"][0]
    points = found.shapes[0].at(3)
    assert [v for p in points for v in p[:2]] == pytest.approx(first)
    other, _ = formats.read(path, width=500, height=375)
    assert [other.first_frame, other.last_frame] == [6, 25]
    assert all(sum(shape.is_visible(f) for f in (6, 25)) == 1 for shape in other.shapes)


@pytest.mark.shared
def test_public_labelme_files_are_read(shared: Path) -> None:
    found, _ = formats.read(shared / "formats/polygons/labelme_instance_segmentation_data_annotated_2011_000003.json")
    assert (found.width, found.height, found.shapes[0].name) == (500, 338, "person")
    assert found.shapes[0].at(3)[0][:2] == pytest.approx((250.8142292490119, 107.33596837944665))
    drawn, reported = formats.read(shared / "formats/polygons/labelme_primitives_primitives.json")
    circle = drawn.shape("circle")
    covered = matte(circle, drawn.first_frame, drawn.width, drawn.height).coverage.sum()
    assert covered == pytest.approx(np.pi * (30**2 + 41**2), rel=1e-3)  # centre (195, 84), rim (225, 125)
    assert [(p.x, p.y) for p in drawn.shape("rectangle").at(1)] == [(32, 35), (132, 35), (132, 135), (32, 135)]
    assert reported == ("'octagon' is a mask, which is not read; draw it as a polygon",)


def test_labelme_writes_a_file_a_frame(tmp_path: Path) -> None:
    document = shots.shot(shots.corners(), shots.seam(), last=1003)
    formats.write(tmp_path / "a.labelme.json", document)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"a.{f}.labelme.json" for f in (1001, 1002, 1003)]
    assert formats.written_path(tmp_path / "a.labelme.json").name == "a.####.labelme.json"
    kinds = [row["shape_type"] for row in json.loads((tmp_path / "a.1002.labelme.json").read_text())["shapes"]]
    assert kinds == ["polygon", "linestrip"]
    found, _ = formats.read(tmp_path / "a.####.labelme.json")
    assert [(s.name, s.closed, s.frames) for s in found.shapes] == [
        ("corners", True, (1001, 1002, 1003)),
        ("nose_seam", False, (1001, 1002, 1003)),
    ]
    one, _ = formats.read(tmp_path / "a.1002.labelme.json")
    assert (one.first_frame, one.last_frame) == (1002, 1002)
    with pytest.raises(DocumentError, match="no file has a name"):
        labelme.read_report(tmp_path / "b.####.labelme.json")


def test_json_files_are_read_by_what_stands_in_them(tmp_path: Path) -> None:
    document = shots.shot(shots.corners(), last=1001)
    formats.write(tmp_path / "a.coco.json", document)
    (tmp_path / "b.json").write_text((tmp_path / "a.coco.json").read_text())
    assert formats.read(tmp_path / "b.json")[0].shapes[0].name == "corners"
    with pytest.raises(DocumentError, match="not a known JSON format"):
        json_files.loads("{}")
    with pytest.raises(UsageError, match=r"write \.coco\.json or \.labelme\.json"):
        formats.write(tmp_path / "c.json", document)


# --- Cryptomatte ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [  # the first two are the names in the documentation of an independent decoder, the others of the hash's author
        ("bunny", 0x13851A76),
        ("default", 0x42C9679F),
        ("", 0),
        ("hello", 0x248BFA47),
        ("The quick brown fox jumps over the lazy dog", 0x2E4FF723),
    ],
)
def test_hashes_are_murmur3(text: str, value: int) -> None:
    assert cryptomatte.murmur3(text.encode()) == value


def test_numbers_are_ordinary_floats() -> None:
    for i in range(2000):
        exponent = (cryptomatte.identity(f"shape {i}") >> 23) & 0xFF
        assert 0 < exponent < 255


def decoded(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Every matte of a Cryptomatte file, read by the specification alone: metadata, ranks, manifest."""
    image = oiio.ImageBuf(str(path))
    texts = {a.name: a.value for a in image.spec().extra_attribs if a.name.startswith("cryptomatte/")}
    (key,) = {name.split("/")[1] for name in texts}
    reported = {name.split("/")[2]: value for name, value in texts.items()}
    channels = image.spec().channelnames
    pixels = image.get_pixels(oiio.FLOAT, image.roi_full)
    mattes = {}
    for name, bits in json.loads(reported["manifest"]).items():
        number = struct.unpack("<f", struct.pack("<I", int(bits, 16)))[0]
        mattes[name] = sum(
            np.where(
                pixels[..., channels.index(f"{layer}.{a}")] == number, pixels[..., channels.index(f"{layer}.{b}")], 0
            )
            for layer in sorted({c.rsplit(".", 1)[0] for c in channels if c.startswith(reported["name"])})
            for a, b in ("RG", "BA")
        )
    return {**reported, "key": key}, mattes


def test_cryptomatte_is_decoded_by_the_specification(tmp_path: Path) -> None:
    soft = replace(shots.corners("pip/eye é", by=0), feather_px=40.0)
    document = replace(shots.shot(soft, shots.seam(), shots.corners("hard", by=5), last=1002), pixel_aspect=2.0)
    formats.write(tmp_path / "m.crypto.exr", document)
    reported, mattes = decoded(tmp_path / "m.crypto.1002.exr")
    assert (reported["hash"], reported["conversion"], reported["name"]) == (
        "MurmurHash3_32",
        "uint32_to_float32",
        "CryptoShape",
    )
    assert reported["key"] == f"{cryptomatte.murmur3(b'CryptoShape'):08x}"[:7]
    for shape in document.shapes:
        wanted = matte(shape, 1002, 960, 640).paste(960, 640)
        assert np.array_equal(mattes[shape.name], wanted)
    coverage = oiio.ImageBuf(str(tmp_path / "m.crypto.1002.exr")).get_pixels(oiio.FLOAT)
    assert (coverage[..., 1] >= coverage[..., 3]).all()  # ranks by falling coverage


def test_held_frames_of_cryptomatte_are_checked_one_by_one(tmp_path: Path) -> None:
    """Frames of a hold have equal files; where one is replaced by another frame's, the check finds it."""
    moving = shots.corners()
    held = moving.with_keys({frame: Key(moving.at(frame), "human", "hold") for frame in (1001, 1004)})
    document = shots.shot(held, shots.corners("other", by=0), last=1004)
    formats.write(tmp_path / "m.crypto.exr", document)
    files = [(tmp_path / f"m.crypto.{frame}.exr").read_bytes() for frame in range(1001, 1005)]
    assert files[0] == files[1] == files[2] != files[3]
    assert formats.proof_of(tmp_path / "m.crypto.exr", document).matte_difference == 0.0
    (tmp_path / "m.crypto.1002.exr").write_bytes(files[3])
    assert formats.proof_of(tmp_path / "m.crypto.exr", document).matte_difference == 1.0


def test_a_long_conversion_tells_of_its_frames(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "TERSE_INTERVAL_S", 0.0)
    formats.write(tmp_path / "a.roto.json", shots.shot(shots.corners(), last=1006))
    reported: list[tuple[int, int]] = []
    formats.convert(tmp_path / "a.roto.json", tmp_path / "m.crypto.exr", tell=lambda *each: reported.append(each))
    assert reported == [(done, 6) for done in range(7)]
    assert main(["convert", str(tmp_path / "a.roto.json"), str(tmp_path / "n.crypto.exr")]) == 0
    assert re.findall(r"writing n.crypto.exr: (\d) of 6 frames", capsys.readouterr().err) == list("123456")


@pytest.mark.parametrize("suffix", [".coco.json", ".labelme.json", ".py", ".jsx"])
def test_brackets_in_names_stay_in_json(tmp_path: Path, suffix: str) -> None:
    names = ("a}, {b", "a], [[b")
    formats.write(tmp_path / f"a{suffix}", shots.shot(*(shots.corners(name) for name in names)))
    found, _ = formats.read(formats.written_path(tmp_path / f"a{suffix}"))
    assert [shape.name for shape in found.shapes] == list(names)


KEPT_NAMES = {
    ".jsx": ("a], [b", "a], [[b"),
    ".fxs": ("RotoPaint/x", "x", "RotoPaint", "RotoPaint/RotoPaint/y"),
    ".coco.json": (" a", "a ", "a", "\u2028a"),
    ".labelme.json": (" a", "a ", "a", "\u2028a"),
}


@pytest.mark.parametrize(("suffix", "names"), KEPT_NAMES.items(), ids=KEPT_NAMES)
def test_names_that_a_reader_could_take_for_something_else_come_back(
    tmp_path: Path, suffix: str, names: tuple[str, ...]
) -> None:
    document = shots.shot(*(shots.corners(name, by=10.0 * i) for i, name in enumerate(names)), last=1002)
    formats.write(tmp_path / f"a{suffix}", document)
    found, _ = formats.read(formats.written_path(tmp_path / f"a{suffix}"))
    assert sorted(shape.name for shape in found.shapes) == sorted(names)


@pytest.mark.parametrize("names", [("a", "aPolyline"), ("aPolyline2", "a"), ("a", "aLevel"), ("a", "aLevel", "a_2")])
def test_names_of_fusions_splines_are_nobody_elses(tmp_path: Path, names: tuple[str, ...]) -> None:
    eye = replace(shots.corners(), visible={1003: False}, feather_px=3.0)
    _, losses = formats.write(tmp_path / "a.setting", shots.shot(*(replace(eye, name=name) for name in names)))
    assert len(formats.read(tmp_path / "a.setting")[0].shapes) == len(names)
    assert any("a name in use got a number" in line for line in losses)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
@pytest.mark.parametrize("form", [each for each in formats.FORMATS if each.write], ids=lambda form: form.name)
def test_points_that_are_nowhere_are_refused(tmp_path: Path, form: FormatSpec, value: float) -> None:
    far = RotoShape("far", True, "matte", {1001: Key((ControlPoint(1, value), ControlPoint(1, 1), ControlPoint(2, 3)))})
    with pytest.raises(DocumentError):
        formats.write(tmp_path / f"a{form.suffixes[0]}", shots.shot(far, last=1002))
    assert not list(tmp_path.iterdir())


# --- the command line -------------------------------------------------------------------------------------------------


def test_help_lists_what_is_read_and_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--help"]) == 0
    text = capsys.readouterr().out
    for form in formats.FORMATS:
        assert form.name in text
        assert all(suffix in text for suffix in form.suffixes)
    assert "Cryptomatte   .crypto.exr             writes " in text


def test_host_scripts_are_written(tmp_path: Path) -> None:
    assert main(["convert", "--scripts", str(tmp_path)]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "rotopaint_from_after_effects.jsx",
        "rotopaint_from_blender.py",
    ]
    compile((tmp_path / "rotopaint_from_blender.py").read_text(), "dump", "exec")
    assert main(["convert"]) == 2


def test_bands_replace_strokes_where_asked(tmp_path: Path) -> None:
    formats.write(tmp_path / "a.roto.json", shots.shot(shots.seam()))
    assert main(["convert", str(tmp_path / "a.roto.json"), str(tmp_path / "a.jsx"), "--bands"]) == 0
    (shape,) = formats.read(tmp_path / "a.jsx")[0].shapes
    assert (shape.closed, shape.n_points) == (True, 20)


@pytest.mark.parametrize(
    ("name", "reported"),
    [("a.aep", "read only by After Effects"), ("a.mocha", "export a Shake shape file"), ("a.xyz", "no shape format")],
)
def test_files_of_other_programs_are_answered(name: str, reported: str) -> None:
    with pytest.raises(UsageError, match=reported):
        formats.format_of(name)


@pytest.mark.shared
def test_every_real_file_converts_or_is_answered_in_one_line(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [p for p in sorted((shared / "formats").rglob("*")) if p.is_file() and p.suffix not in (".md", ".tsv")]
    assert files
    for path in files:
        size = ["--width", "1280", "--height", "720"] if path.suffix == ".ssf" else []
        code = main(["convert", str(path), str(tmp_path / "out.roto.json"), *size])
        said = capsys.readouterr()
        if path.suffix == ".txt" or (path.suffix == ".blend" and shutil.which("blender") is None):
            assert (code, said.err.count("\n")) == (2, 1)
        else:
            assert (code, "read back" in said.out) == (0, True), path.name
