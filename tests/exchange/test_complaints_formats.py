"""What users of roto exchange complain about, by the list's numbers, for every format but Nuke's and the document."""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import (
    aftereffects,
    blender,
    coco,
    feather_edges,
    formats,
    fusion,
    labelme,
    silhouette,
    ssf,
)
from rotopaint_ai.exchange.format_spec import FormatSpec
from rotopaint_ai.shapes import edit
from rotopaint_ai.shapes.reduce import reduce_document
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, Points, RotoDocument, RotoShape

from . import shots

FORMS = shots.TEXT_FORMS
CURVES = [form for form in FORMS if form.name != "COCO"]  # those that hold curves
FEATHERED = [shots.form(name) for name in ("SSF", "Fusion", "AfterEffects", "Blender")]


def there_and_back(document: RotoDocument, form: FormatSpec, folder: Path) -> RotoDocument:
    """A document written and read; formats that count from the first frame are shifted back."""
    path = folder / f"shot{form.suffixes[0]}"
    formats.write(path, document)
    aspect = document.pixel_aspect if form.read_stretched else None
    found, _ = formats.read(path, width=document.width, height=document.height, pixel_aspect=aspect)
    return edit.shift_frames(found, document.first_frame) if form.name == "SSF" else found


def all_told(document: RotoDocument, form: FormatSpec, folder: Path) -> str:
    """Everything that writing reports."""
    return "; ".join(formats.write(folder / f"shot{form.suffixes[0]}", document)[1])


def same(a: Points, b: Points, within: float = 1e-4) -> bool:
    """Whether points and handles are equal."""
    return len(a) == len(b) and all(p == pytest.approx(q, abs=within) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_01_feather_arrives_or_is_reported(form: FormatSpec, tmp_path: Path) -> None:
    document = shots.shot(replace(shots.corners(), feather_px=6.5))
    if form in FEATHERED:
        assert there_and_back(document, form, tmp_path).shapes[0].feather_px == pytest.approx(6.5, abs=1e-3)
    else:
        assert "feather is not written" in all_told(document, form, tmp_path)


def test_01_feather_of_several_widths_stays_a_line() -> None:
    """A foreign file whose edge stands off 0 px at some points and 8 px at others."""
    document = shots.shot(replace(shots.corners(), feather_px=8.0))
    lines = ssf.dumps(document).splitlines()
    for place, line in enumerate(lines):
        if line.startswith("vertex_data"):
            numbers = line.split()[1:]
            lines[place] = "vertex_data " + " ".join(numbers[:6] + numbers[:6] + numbers[12:])
    found = ssf.loads("\n".join(lines), width=960, height=640)
    shape = found.document.shapes[0]
    assert shape.feather_px == 0
    for frame, key in shape.keys.items():
        widths = feather_edges.line_widths(key.points, shape.feather_at(frame))
        assert widths == pytest.approx([0.0, *[8.0] * (len(widths) - 1)], abs=1e-3)


@pytest.mark.parametrize("form", CURVES, ids=lambda form: form.name)
def test_02_unequal_handles_do_not_swap(form: FormatSpec, tmp_path: Path) -> None:
    found = there_and_back(shots.shot(shots.corners()), form, tmp_path)
    assert same(found.shapes[0].at(1001), shots.CORNERS)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize(("width", "height"), [(1920, 1080), (2048, 1556), (1080, 1920)])
def test_03_y_is_flipped_about_this_plates_height(form: FormatSpec, width: int, height: int, tmp_path: Path) -> None:
    document = shots.shot(shots.corners(), width=width, height=height)
    points = there_and_back(document, form, tmp_path).shapes[0].at(1001)
    assert (points[0].x, points[0].y) == pytest.approx((300, 200), abs=1e-3)


def test_03_y_by_hand() -> None:
    """The point (300, 200) of a 960 x 640 plate in each format's own coordinates."""
    document = shots.shot(shots.corners())
    assert "vertex_data 300.0 440.0 290.0 380.0" in ssf.dumps(document)
    assert "{ X = -0.1875, Y = 0.1875, LX = -0.0104166666666667, LY = -0.09375" in fusion.dumps(document)
    assert "[[300, 200, -10, 60, 90, -20]" in aftereffects.dumps(document)
    assert "(-0.281250000,-0.187500000),(-0.296875000,-0.093750000)" in silhouette.dumps(document)
    assert "[0.3125, 0.625, 0.302083333, 0.5625" in blender.dumps(document)


@pytest.mark.parametrize("name", ["Fusion", "AfterEffects", "Blender", "Silhouette", "COCO", "labelme"])
def test_03_a_wrong_height_is_refused_not_guessed(name: str, tmp_path: Path) -> None:
    form = shots.form(name)
    path = tmp_path / f"shot{form.suffixes[0]}"
    formats.write(path, shots.shot(shots.corners(), last=1001))
    source = path if path.exists() else tmp_path / "shot.1001.labelme.json"
    with pytest.raises(DocumentError, match=r"960 x 640, given 960 x 540"):
        formats.read(source, width=960, height=540)


def test_03_a_file_without_a_size_asks_for_it(tmp_path: Path) -> None:
    formats.write(tmp_path / "a.ssf", shots.shot(shots.corners()))
    with pytest.raises(DocumentError, match="give --width and --height"):
        formats.read(tmp_path / "a.ssf")


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("aspect", [2.0, 1.46])
def test_04_pixel_aspect_never_moves_points(form: FormatSpec, aspect: float, tmp_path: Path) -> None:
    document = replace(shots.shot(shots.corners()), pixel_aspect=aspect)
    found = there_and_back(document, form, tmp_path)
    assert found.shapes[0].at(1001)[0].x == pytest.approx(300, abs=1e-3)
    assert found.pixel_aspect == pytest.approx(aspect if form.states_aspect or form.read_stretched else 1.0)


def test_04_silhouette_stretches_x_and_after_effects_does_not() -> None:
    """By hand: x = 300 of 960 at aspect 2 lies at (300 - 480) / 640 * 2."""
    document = replace(shots.shot(shots.corners()), pixel_aspect=2.0)
    assert "(-0.562500000,-0.187500000)" in silhouette.dumps(document)
    assert "[[300, 200," in aftereffects.dumps(document)
    assert "PixelAspect = Input { Value = { 2, 1 }, }" in fusion.dumps(document)


def test_04_a_pixel_aspect_that_is_not_reported_can_be_given(tmp_path: Path) -> None:
    formats.write(tmp_path / "a.ssf", shots.shot(shots.corners()))
    done, _ = formats.read(tmp_path / "a.ssf", width=960, height=640, pixel_aspect=2.0, fps=25.0)
    assert (done.pixel_aspect, done.fps) == (2.0, 25.0)
    formats.write(tmp_path / "a.setting", replace(shots.shot(shots.corners()), pixel_aspect=2.0))
    with pytest.raises(DocumentError, match=r"pixel aspect 2, but 1\.5 was given"):
        formats.read(tmp_path / "a.setting", pixel_aspect=1.5)


@pytest.mark.parametrize("form", CURVES, ids=lambda form: form.name)
def test_05_frames_are_those_on_disk(form: FormatSpec, tmp_path: Path) -> None:
    found = there_and_back(shots.shot(shots.corners()), form, tmp_path)
    assert found.shapes[0].frames == (1001, 1010)


def test_05_frame_bases_by_hand(tmp_path: Path) -> None:
    """Shake and Silhouette count from the clip's first frame, Fusion and Blender do not; `--offset` puts it back."""
    document = shots.shot(shots.corners())
    assert re.findall(r"key_time (\d+)", ssf.dumps(document)) == ["0", "9"]
    assert re.findall(r'<Key frame="(\d+)"', silhouette.dumps(document)) == ["0", "9"]
    assert 'sessionStartFrame="1001"' in silhouette.dumps(document)
    assert re.findall(r"\[(\d+)\] = \{ \d", fusion.dumps(document)) == ["1001", "1010"]
    assert "frames are counted from 0" in all_told(document, shots.form("SSF"), tmp_path)
    formats.write(tmp_path / "a.ssf", document)
    formats.convert(tmp_path / "a.ssf", tmp_path / "b.roto.json", width=960, height=640, offset=1001)
    found, _ = formats.read(tmp_path / "b.roto.json")
    assert (found.first_frame, found.shapes[0].frames) == (1001, (1001, 1010))


@pytest.mark.parametrize("form", CURVES, ids=lambda form: form.name)
def test_06_six_keys_in_200_frames_stay_six_keys(form: FormatSpec, tmp_path: Path) -> None:
    frames = (1001, 1040, 1080, 1120, 1160, 1200)
    keys = {f: Key(shots.moved(shots.CORNERS, 7.0 * i * i, -3.0 * i), "human") for i, f in enumerate(frames)}
    found = there_and_back(shots.shot(RotoShape("a", True, "matte", keys), last=1200), form, tmp_path)
    assert found.shapes[0].frames == frames


def test_06_polygons_of_every_frame_are_reduced_again(tmp_path: Path) -> None:
    """COCO has a polygon per picture, so a key on each frame; key reduction restores the linear move."""
    found = there_and_back(shots.shot(shots.corners(), last=1060), shots.form("COCO"), tmp_path)
    assert len(found.shapes[0].frames) == 60
    loose = replace(
        found,
        shapes=tuple(s.with_keys({f: replace(k, source="model") for f, k in s.keys.items()}) for s in found.shapes),
    )
    assert reduce_document(loose, 0.5).shapes[0].frames == (1001, 1010)


def test_07_eased_moves_stay_within_a_tenth_of_a_pixel() -> None:
    """After Effects' eased keys are sampled by the script; the reader keeps as many as linear keys need."""
    smooth = [(i, 100 * (i / 20) ** 2 * (3 - 2 * i / 20)) for i in range(21)]
    rows = [[1001 + i, "linear" if i in (0, 20) else "eased", [[x, 0, 0, 0, 0, 0]] * 3, True, 0] for i, x in smooth]
    mask = {"name": "a", "feather": [0, 0], "expansion": 0, "opacity": [], "keys": rows}
    layer = {"name": "l", "width": 10, "height": 10, "moved": False, "masks": [mask]}
    data = {"format": aftereffects.FORMAT, "width": 10, "height": 10, "pixel_aspect": 1, "fps": 24, "first_frame": 1001}
    (shape,) = aftereffects.loads(json.dumps({**data, "n_frames": 21, "layers": [layer]})).document.shapes
    assert max(abs(shape.at(1001 + i)[0].x - x) for i, x in smooth) <= 0.1
    assert len(shape.keys) < 21


@pytest.mark.parametrize("form", CURVES, ids=lambda form: form.name)
def test_08_holds_hold_at_every_frame(form: FormatSpec, tmp_path: Path) -> None:
    keys = {1001: Key(shots.CORNERS, "human", "hold"), 1008: Key(shots.moved(shots.CORNERS, 50), "human")}
    found = there_and_back(shots.shot(RotoShape("a", True, "matte", keys)), form, tmp_path)
    assert [round(found.shapes[0].at(f)[0].x) for f in (1001, 1004, 1007, 1008)] == [300, 300, 300, 350]


def test_09_transforms_of_masks_are_applied_or_reported() -> None:
    """By hand: a Fusion mask rotated by 90 degrees counter-clockwise, scaled by a half, and moved to the right."""
    document = shots.shot(
        RotoShape(
            "a", True, "matte", {1: Key((ControlPoint(580, 320), ControlPoint(480, 320), ControlPoint(480, 420)))}
        )
    )
    controls = (
        "ZRotation = Input { Value = 90, }, Size = Input { Value = 0.5, }, Center = Input { Value = { 0.75, 0.5 }, },"
    )
    text = fusion.dumps(document).replace("MaskWidth", controls + " MaskWidth", 1)
    points = fusion.loads(text).document.shapes[0].at(1)
    assert [(round(p.x, 3), round(p.y, 3)) for p in points] == [(720, 270), (720, 320), (770, 320)]
    driven = fusion.dumps(document).replace(
        "MaskWidth", 'Center = Input { SourceOp = "Path1", Source = "Position", }, MaskWidth', 1
    )
    assert any("its Center is animated" in line for line in fusion.loads(driven).losses)
    fxs = silhouette.dumps(document).replace(
        '<Property constant="True" id="color">',
        '<Property id="transform.matrix"/><Property constant="True" id="color">',
        1,
    )
    assert any("moves its shapes" in line for line in silhouette.loads(fxs).losses)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_10_hidden_frames_stay_hidden_or_are_reported(form: FormatSpec, tmp_path: Path) -> None:
    hidden = dict.fromkeys((1001, 1002, 1006, 1009, 1010), False)
    document = shots.shot(replace(shots.corners(), visible=hidden))
    if form.name == "SSF":
        assert "hidden frames are not written" in all_told(document, form, tmp_path)
        return
    found = there_and_back(document, form, tmp_path)
    assert [f for f in range(1001, 1011) if not found.shapes[0].is_visible(f)] == sorted(hidden)


def test_11_motion_blur_modes_and_inversion_are_reported() -> None:
    blurred = ssf.dumps(shots.shot(shots.corners())).replace("motion_blur 0", "motion_blur 1")
    assert "motion blur is not held" in ssf.loads(blurred, width=960, height=640).losses[0]
    inverted = fusion.dumps(shots.shot(shots.corners())).replace(
        "MaskWidth", "Invert = Input { Value = 1, }, MaskWidth", 1
    )
    assert any("inversion is not held" in line for line in fusion.loads(inverted).losses)


@pytest.mark.parametrize("form", CURVES, ids=lambda form: form.name)
def test_11_order_is_kept(form: FormatSpec, tmp_path: Path) -> None:
    document = shots.shot(shots.corners("c"), shots.corners("a"), shots.corners("b"))
    assert [shape.name for shape in there_and_back(document, form, tmp_path).shapes] == ["c", "a", "b"]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_12_names_are_kept_or_the_change_is_reported(form: FormatSpec, tmp_path: Path) -> None:
    names = ["linkes Auge", "linkes_Auge", "Auge é", "9 lives"]
    document = shots.shot(*(shots.corners(name) for name in names))
    found = [shape.name for shape in there_and_back(document, form, tmp_path).shapes]
    assert len(set(found)) == 4
    assert found == names or "in names became '_'" in all_told(document, form, tmp_path)


ODD: dict[str, tuple[ControlPoint, ...]] = {
    "one point": (ControlPoint(5, 6),),
    "two points": (ControlPoint(5, 6, 0, 1, 1, 0), ControlPoint(50, 60, -3, 0, 0, 2)),
    "far outside": (ControlPoint(-90000, 5), ControlPoint(120000, 8), ControlPoint(5, -70000.25)),
    "no area": (ControlPoint(10, 10), ControlPoint(10, 10), ControlPoint(10, 10)),
}


@pytest.mark.parametrize("form", CURVES, ids=lambda form: form.name)
@pytest.mark.parametrize("points", ODD.values(), ids=ODD)
@pytest.mark.parametrize("closed", [True, False])
def test_13_odd_shapes_survive_or_are_reported(form: FormatSpec, points: Points, closed: bool, tmp_path: Path) -> None:
    shape = RotoShape("odd", closed, "matte", {1001: Key(points, "human")})
    document = shots.shot(shape)
    reported = all_told(document, form, tmp_path)  # raises where what was written reads back otherwise
    found = there_and_back(document, form, tmp_path)
    if form.name == "Silhouette" and len(points) == 1:
        assert ("refuses shapes of one point" in reported, found.shapes) == (True, ())
    elif form.name == "Blender" and not closed:
        assert "a closed band as wide as the stroke" in reported
    else:
        assert same(found.shapes[0].at(1001), points, within=1e-2 if form.name == "Blender" else 1e-4)


def test_14_b_spline_points_are_not_taken_for_points_of_the_curve() -> None:
    """A uniform cubic B-spline passes (a + 4 b + c) / 6 at each of its points."""
    corner = [(-0.25, 0.25), (0.25, 0.25), (0.25, -0.25), (-0.25, -0.25)]
    rows = ", ".join(f"{{ X = {x}, Y = {y} }}" for x, y in corner)
    text = (
        "{ Tools = { B = BSplineMask { Inputs = { MaskWidth = Input { Value = 600 }, "
        "MaskHeight = Input { Value = 600 }, Polyline = Input { Value = BSplinePolyline { Closed = true, "
        f"Points = {{ {rows} }}, Order = 4 }} }} }} }} }} }}"
    )
    found = fusion.loads(text)
    points = found.document.shapes[0].at(1)
    assert (points[0].x, points[0].y) == pytest.approx(((450 + 4 * 150 + 150) / 6, (150 + 4 * 150 + 450) / 6))
    assert any("B-spline became a Bezier" in line for line in found.losses)


def test_15_hidden_and_locked_shapes_are_still_read() -> None:
    text = ssf.dumps(shots.shot(shots.corners())).replace("locked 0", "locked 1").replace("visible 1", "visible 0")
    found = ssf.loads(text, width=960, height=640)
    assert len(found.document.shapes) == 1
    assert "is hidden in the file; the document shows" in found.losses[0]


def test_16_expressions_on_controls_are_reported() -> None:
    text = fusion.dumps(shots.shot(shots.corners())).replace(
        "MaskWidth",
        'Size = Input { SourceOp = "Expr1", Source = "NumberOut1", Expression = "time / 10", }, MaskWidth',
        1,
    )
    assert any("its Size is animated" in line for line in fusion.loads(text).losses)


def test_17_no_other_format_has_stereo_views() -> None:
    """Only Nuke's shapes have views, which reading reports; a document has none to lose."""
    assert not [field for field in RotoShape.__slots__ if "view" in field]


@pytest.mark.parametrize("form", CURVES, ids=lambda form: form.name)
def test_18_small_numbers_have_no_exponents_and_exponents_are_read(form: FormatSpec, tmp_path: Path) -> None:
    tiny = tuple(ControlPoint(480 + 1e-7 * i, 320 + 1e-9, 1e-8, -1e-8, 3e-9, 0) for i in range(3))
    document = shots.shot(RotoShape("a", True, "matte", {1001: Key(tiny, "human")}))
    formats.write(tmp_path / f"shot{form.suffixes[0]}", document)
    text = (tmp_path / f"shot{form.suffixes[0]}").read_text()
    if form.name in ("SSF", "Silhouette"):  # their readers reject exponents
        assert not re.search(r"\d[eE][-+]?\d", text)
    shown = ssf.loads(
        ssf.dumps(document).replace("vertex_data 480.0 320.0", "vertex_data 4.8e2 3.2E+02"), width=960, height=640
    )
    assert shown.document.shapes[0].at(0)[0].x == pytest.approx(480)


def test_19_a_point_count_that_changes_is_reported_and_keeps_the_rest() -> None:
    rows = [[1001 + i, "linear", [[1.0 * i] * 6] * (4 if i == 3 else 3), True, 0] for i in range(5)]
    mask = {"name": "a", "feather": [0, 0], "expansion": 0, "opacity": [], "keys": rows}
    layer = {"name": "l", "width": 10, "height": 10, "moved": False, "masks": [mask]}
    data = {"format": aftereffects.FORMAT, "width": 10, "height": 10, "pixel_aspect": 1, "fps": 24, "first_frame": 1001}
    found = aftereffects.loads(json.dumps({**data, "n_frames": 5, "layers": [layer]}))
    assert found.document.shapes[0].frames == (1001, 1002, 1003, 1005)
    assert "its points change in number; keys at 1004 are left out" in found.losses[0]


@pytest.mark.parametrize("fps", [23.976, 24.0, 29.97])
@pytest.mark.parametrize("form", CURVES, ids=lambda form: form.name)
def test_20_frame_rates_never_double_or_drop_keys(form: FormatSpec, fps: float, tmp_path: Path) -> None:
    keys = {f: Key(shots.moved(shots.CORNERS, (f - 1001) ** 2 / 50), "human") for f in range(1001, 1061)}
    found = there_and_back(replace(shots.shot(RotoShape("a", True, "matte", keys), last=1060), fps=fps), form, tmp_path)
    assert found.shapes[0].frames == tuple(range(1001, 1061))
    assert found.fps == pytest.approx(fps if form.states_fps else 24.0, abs=1e-4)


@pytest.mark.parametrize("name", ["SSF", "Fusion", "AfterEffects", "Blender", "Silhouette"])
def test_21_the_cost_per_key_does_not_grow_with_the_file(name: str) -> None:
    form = {"SSF": ssf, "Fusion": fusion, "AfterEffects": aftereffects, "Blender": blender, "Silhouette": silhouette}[
        name
    ]

    def calls(n_shapes: int) -> float:
        keys = {f: Key(shots.moved(shots.CORNERS, f - 1001), "human") for f in range(1001, 1021)}
        text = form.dumps(shots.shot(*(RotoShape(f"s{i}", True, "matte", keys) for i in range(n_shapes)), last=1020))
        count = itertools.count()
        sys.setprofile(lambda frame, event, argument: next(count) if event == "call" else None)
        try:
            form.loads(text, width=960, height=640)
        finally:
            sys.setprofile(None)
        return next(count) / n_shapes

    assert calls(24) < 1.2 * calls(4)  # six times the shapes, and no more work for each


@pytest.mark.parametrize("form", [each for each in FORMS if each.name != "SSF"], ids=lambda form: form.name)
def test_22_coordinates_are_those_of_the_full_plate(form: FormatSpec, tmp_path: Path) -> None:
    """A file made for a half-size proxy is refused for the full plate."""
    half = shots.shot(
        RotoShape(
            "a", True, "matte", {1001: Key(tuple(p._replace(x=p.x / 2, y=p.y / 2) for p in shots.CORNERS), "human")}
        ),
        width=480,
        height=320,
    )
    path = tmp_path / f"half{form.suffixes[0]}"
    formats.write(path, half)
    with pytest.raises(DocumentError, match="480 x 320, given 960 x 640"):
        formats.read(path, width=960, height=640)


def test_landmarks_travel_as_keypoints_and_points(tmp_path: Path) -> None:
    marks = LandmarkKeys(("nose", "chin"), {f: (Landmark(10.5 + f - 1001, 20.0), None) for f in range(1001, 1004)})
    document = replace(shots.shot(shots.corners(), last=1003), landmarks=marks)
    for name, pattern in (("COCO", "shot.coco.json"), ("labelme", "shot.####.labelme.json")):
        formats.write(tmp_path / f"shot{shots.form(name).suffixes[0]}", document)
        found, _ = formats.read(tmp_path / pattern)
        seen = {f: [m and (m.x, m.y) for m in row if m] for f, row in found.landmarks.keys.items()}
        assert seen == {1001: [(10.5, 20.0)], 1002: [(11.5, 20.0)], 1003: [(12.5, 20.0)]}


def test_a_corners_feather_is_as_wide_along_both_sides() -> None:
    """A square feathered by 10 px: the edge's corners lie 10 px out in x and y."""
    square = tuple(ControlPoint(x, y) for x, y in ((0, 0), (100, 0), (100, 100), (0, 100)))
    for points, places in (
        (square, [(-10, -10), (110, -10), (110, 110), (-10, 110)]),
        (square[::-1], [(-10, 110), (110, 110), (110, -10), (-10, -10)]),
    ):
        outer = feather_edges.edge(points, 10.0)
        assert [(round(p.x, 6), round(p.y, 6)) for p in outer] == places
        assert feather_edges.widths(points, [(p.x, p.y) for p in outer]) == pytest.approx([10.0] * 4)
    circle = labelme._circle((0, 0), (50, 0))
    cut_off = 50 * (1 - 0.5523)  # a square of side 100 whose corners are cut off between the ends of handles
    areas = [feather_edges.signed_area(ring) for ring in (circle, feather_edges.reversed_points(circle, True))]
    assert areas == pytest.approx([100**2 - 2 * cut_off**2, 2 * cut_off**2 - 100**2], rel=1e-4)
    assert [math.hypot(p.x, p.y) for p in feather_edges.edge(circle, 10.0)] == pytest.approx([60.0] * 4)
    assert math.hypot(*feather_edges.edge(circle, 10.0)[0][4:]) == pytest.approx(60 * 0.5523, rel=1e-3)


@pytest.mark.parametrize("form", [each for each in formats.FORMATS if each.write], ids=lambda form: form.name)
def test_a_shot_without_shapes_is_written(form: FormatSpec, tmp_path: Path) -> None:
    """A run that found no face still exports; a shape without keys is reported."""
    bare = RotoShape("brow", True, "matte", {})
    for document in (shots.shot(last=1002), shots.shot(bare, last=1002), shots.shot(shots.corners(), bare, last=1002)):
        path = tmp_path / f"shot{len(document.shapes)}{form.suffixes[0]}"
        _, reported = formats.write(path, document)
        assert formats.proof_of(path, document).faults == ()
        if form.losses is not None and bare in document.shapes:
            assert "'brow': has no key and is not written" in reported


def test_proofs_are_those_of_the_report(tmp_path: Path) -> None:
    """Every written format can be checked from its file alone, as `rotopaint run` does for its report."""
    document = shots.shot(shots.corners(), last=1003)
    for form in formats.FORMATS:
        if form.write is not None:
            formats.write(tmp_path / f"shot{form.suffixes[0]}", document)
            assert formats.proof_of(tmp_path / f"shot{form.suffixes[0]}", document).faults == ()
    assert coco.as_coco_holds(document).shapes[0].n_points > 4


def eased(text: str, first: str, second: str) -> str:
    """A setting whose splines have these handles at the keys 1001 (value 0) and 1010 (value 1)."""
    linear = "Flags = { Linear = true, LockedY = true }"
    keys = {"[1001] = { 0, ": first, "[1010] = { 1, ": second}
    for head, handles in keys.items():
        assert f"{head}{linear}" in text
        text = text.replace(f"{head}{linear}", f"{head}{handles}, Flags = {{ LockedY = true }}")
    return text


def test_handles_of_fusions_keys_are_eases() -> None:
    """Flat handles at a third of the time are our ease, 3 u^2 - 2 u^3."""
    text = eased(fusion.dumps(shots.shot(shots.corners())), "RH = { 1004, 0 }", "LH = { 1007, 1 }")
    found = fusion.loads(text)
    assert found.losses == ()
    (shape,) = found.document.shapes
    assert [key.interpolation for key in shape.keys.values()] == ["ease", "linear"]
    start, moved = shape.at(1001)[0].x, shape.at(1004)[0].x
    assert moved - start == pytest.approx(20.0 * (3 / 9 - 2 / 27))


def test_other_handles_of_fusions_keys_become_linear_keys_and_are_reported() -> None:
    """By hand, for a handle over the whole time: time is 3 u^2 (1 - u) + u^3, the move u^3."""
    text = eased(fusion.dumps(shots.shot(shots.corners(by=90.0))), "RH = { 1001, 0 }", "LH = { 1010, 0 }")
    found = fusion.loads(text)
    (line,) = found.losses
    assert re.fullmatch(r"corners: eases became \d additional linear keys, within 0.1 px", line)
    (shape,) = found.document.shapes
    share = 0.5  # of the parameter: x = 3/8 + 1/8 of the time, y = 1/8 of the way
    at = 1001 + 9 * (3 * share**2 * (1 - share) + share**3)
    assert shape.at(at)[0].x - shape.at(1001)[0].x == pytest.approx(90.0 * share**3, abs=0.6)


def test_steps_of_fusions_keys_and_eases_of_second_outlines() -> None:
    soft = replace(shots.corners(), feather_px=6.0)
    text = eased(fusion.dumps(shots.shot(soft)), "RH = { 1004, 0 }", "LH = { 1007, 1 }")
    (shape,) = fusion.loads(text).document.shapes
    assert [key.interpolation for key in shape.keys.values()] == ["ease", "linear"]
    only_inner = text.split("cornersPolyline2 = ")[0] + fusion.dumps(shots.shot(soft)).split("cornersPolyline2 = ")[
        1
    ].join(["cornersPolyline2 = ", ""])
    found = fusion.loads(only_inner)
    assert any("additional linear keys" in line for line in found.losses)
    stepped = text.replace("LockedY = true", "StepOut = true, LockedY = true", 1)
    assert any("1 keys step" in line for line in fusion.loads(stepped).losses)
