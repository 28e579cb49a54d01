"""Masks in a real Blender: built by the script, rendered, saved, dumped and read back."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
import OpenImageIO as oiio
import pytest
from numpy.typing import NDArray

from rotopaint_ai.errors import DocumentError, UsageError
from rotopaint_ai.exchange import blender, feather_edges, formats, lossiness, round_trip, stroke_outlines
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.rasterise import matte, mattes_of
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape, feather_rows

from . import shots

ROOT = Path(__file__).resolve().parents[2]
OPEN = "import bpy, sys; bpy.ops.wm.open_mainfile(filepath=sys.argv[1]);"
RENDER = """
import bpy, json, sys
job = json.loads(sys.argv[2])
bpy.ops.wm.open_mainfile(filepath=sys.argv[1])
scene = bpy.context.scene
scene.use_nodes = True
tree = scene.node_tree
tree.nodes.clear()
node = tree.nodes.new("CompositorNodeMask")
out = tree.nodes.new("CompositorNodeComposite")
tree.links.new(node.outputs[0], out.inputs[0])
node.mask = bpy.data.masks[0]
scene.render.image_settings.file_format = "OPEN_EXR"
scene.render.image_settings.color_depth = "32"
for frame in job["frames"]:
    scene.frame_set(frame)
    for name in job["layers"]:
        for layer in node.mask.layers:
            layer.hide_render = layer.name != name
        scene.render.filepath = "%s/%s.%d.exr" % (job["out"], name, frame)
        bpy.ops.render.render(write_still=True)
"""


@pytest.fixture(scope="session")
def bpy_python() -> str:
    """A Python that has bpy: this one, or that of .venv-bpy beside the sources."""
    beside = ROOT / ".venv-bpy" / "bin" / "python"
    if find_spec("bpy") is not None:
        return sys.executable
    if beside.exists():
        return str(beside)
    pytest.skip("no bpy: python3.11 -m venv .venv-bpy && .venv-bpy/bin/pip install bpy==4.2.0")


def run(python: str, *words: str) -> str:
    """Run Blender's Python; returns what it printed."""
    done = subprocess.run([python, *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def build(python: str, folder: Path, document: RotoDocument) -> Path:
    """A .blend with the document's masks."""
    script = folder / "masks.py"
    script.write_text(blender.dumps(document), encoding="utf-8")
    run(python, str(script), "--", "--save", str(folder / "masks.blend"))
    return folder / "masks.blend"


def rendered(python: str, blend: Path, frames: Sequence[int], layers: Sequence[str]) -> dict[tuple[str, int], NDArray]:
    """Each layer alone at each frame, as drawn by Blender's compositor."""
    job = {"frames": list(frames), "layers": list(layers), "out": str(blend.parent)}
    run(python, "-c", RENDER, str(blend), json.dumps(job))
    found = {}
    for name in layers:
        for frame in frames:
            pixels = oiio.ImageBuf(f"{blend.parent}/{name}.{frame}.exr").get_pixels(oiio.FLOAT)
            found[name, frame] = np.asarray(pixels)[..., 0]
    return found


def dumped(python: str, blend: Path) -> RotoDocument:
    """The document that the dump script writes for a .blend."""
    script, target = blend.with_name("dump.py"), blend.with_name("masks.blender.json")
    script.write_text(blender.dump_script(), encoding="utf-8")
    code = (
        OPEN
        + "import runpy; sys.argv[1:] = ['--', sys.argv[3]]; runpy.run_path('"
        + str(script)
        + "', run_name='__main__')"
    )
    run(python, "-c", code, str(blend), "-", str(target))
    return blender.read_report(target).document


def shot() -> RotoDocument:
    """An eye that turns and blinks, a counter-clockwise lip with feather, a tapered seam, and a matte with held
    keys."""
    eye = (
        ControlPoint(60, 90, 10, 40, 10, -40),
        ControlPoint(160, 30.5, -40, 0, 40, 0),
        ControlPoint(260.25, 90, 0, -40, 0, 40),
        ControlPoint(160, 150, 40, 0, -40, 0),
    )
    lip = tuple(ControlPoint(320 - p.x, p.y + 2, -p.in_dx, p.in_dy, -p.out_dx, p.out_dy) for p in eye)
    line = (
        ControlPoint(40, 60, 0, 0, 40, -20),
        ControlPoint(160, 100, -40, 10, 40, -10),
        ControlPoint(280, 60.5, -30, 30),
    )
    shapes = (
        RotoShape("eye", True, "matte", {1001: Key(eye), 1011: Key(shots.moved(eye, 12, 6))}, visible={1003: False}),
        RotoShape("lip", True, "matte", {1001: Key(lip), 1009: Key(shots.moved(lip, -8, 3))}, feather_px=9.0),
        RotoShape("nose_seam", False, "seam", {1001: Key(line), 1011: Key(shots.moved(line, 4, 9))}, 7.0, 2.0),
        RotoShape("held", True, "matte", {1001: Key(eye, "human", "hold"), 1008: Key(shots.moved(eye, 30))}),
    )
    return RotoDocument(320, 180, 1001, 1011, 1.0, 24.0, shapes=shapes)


def beyond_a_pixel(ours: NDArray, theirs: NDArray) -> float:
    """The largest amount by which a pixel of `theirs` leaves the range of our values up to one pixel around it."""
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    over = theirs - cv2.dilate(ours, cross)
    under = cv2.erode(ours, cross) - theirs
    return float(max(over.max(), under.max()))


@pytest.mark.blender
def test_blender_draws_what_we_draw(bpy_python: str, tmp_path: Path) -> None:
    document = shot()
    frames = (1001, 1005, 1011)
    names = [shape.name for shape in document.shapes]
    drawn = rendered(bpy_python, build(bpy_python, tmp_path, document), frames, names)
    for shape in document.shapes:
        for frame in frames:
            ours = matte(shape, frame, 320, 180).paste(320, 180)
            theirs = drawn[shape.name, frame]
            assert theirs.shape == ours.shape
            edge = bezier.length(bezier.as_array(shape.at(frame)), shape.closed) * (1 if shape.closed else 2)
            assert abs(float(theirs.sum() - ours.sum())) / edge < 0.8  # px: its anti-aliasing lies outside the edge
            assert beyond_a_pixel(ours, theirs) < 0.2  # a hard edge is softened over a good pixel outside it


@pytest.mark.blender
def test_blender_takes_hold_outs_away(bpy_python: str, tmp_path: Path) -> None:
    """The eye without the lip over it, in either order of the document, as by `mattes_of`."""
    eye, lip, *_ = shot().shapes
    aside = {frame: replace(key, points=shots.moved(key.points, 90.0)) for frame, key in lip.keys.items()}
    document = replace(shot(), shapes=(replace(lip.with_keys(aside), subtract=True), eye))
    blend = build(bpy_python, tmp_path, document)
    run(bpy_python, "-c", RENDER.replace("layer.name != name", "False"), str(blend), _whole_mask_job(tmp_path))
    theirs = np.asarray(oiio.ImageBuf(f"{tmp_path}/all.1001.exr").get_pixels(oiio.FLOAT))[..., 0]
    ours = mattes_of(document.shapes, 1001, 320, 180)["eye"].paste(320, 180)
    uncut = matte(eye, 1001, 320, 180).paste(320, 180)
    assert 0.3 * uncut.sum() < ours.sum() < 0.7 * uncut.sum()
    assert abs(float(theirs.sum() - ours.sum())) < 0.05 * float(ours.sum())  # edges are softened, see above
    assert beyond_a_pixel(ours, theirs) < 0.3
    assert [(shape.name, shape.subtract) for shape in dumped(bpy_python, blend).shapes] == [
        ("eye", False),
        ("lip", True),
    ]


def _whole_mask_job(out: Path) -> str:
    return json.dumps({"frames": [1001], "layers": ["all"], "out": str(out)})


def test_hold_outs_come_last_in_the_script_and_hold_out_again(tmp_path: Path) -> None:
    document = replace(shot(), shapes=tuple(replace(s, subtract=s.name == "eye") for s in shot().shapes))
    formats.write(tmp_path / "a.py", document)
    found, _ = formats.read(tmp_path / "a.py")
    assert [shape.name for shape in found.shapes] == ["lip", "nose_seam", "held", "eye"]
    assert [shape.subtract for shape in found.shapes] == [False, False, False, True]


@pytest.mark.blender
@pytest.mark.parametrize(("width", "height", "aspect"), [(180, 320, 1.0), (320, 180, 2.0), (320, 240, 0.8)])
def test_upright_and_anamorphic_plates_fit(
    bpy_python: str, tmp_path: Path, width: int, height: int, aspect: float
) -> None:
    """Blender divides y by the scene's pixel aspect; points and feather agree with the plate's pixels."""
    a, b, k = 0.3 * width, 0.25 * height, 0.5523
    turns = ((1, 0), (0, 1), (-1, 0), (0, -1))
    points = tuple(
        ControlPoint(0.5 * width + a * c, 0.45 * height + b * s, a * k * s, -b * k * c, -a * k * s, b * k * c)
        for c, s in turns
    )
    shape = RotoShape("eye", True, "matte", {1001: Key(points)}, feather_px=6.0)
    document = RotoDocument(width, height, 1001, 1001, aspect, shapes=(shape,))
    blend = build(bpy_python, tmp_path, document)
    theirs = rendered(bpy_python, blend, (1001,), ("eye",))["eye", 1001]
    ours = matte(shape, 1001, width, height).paste(width, height)
    assert abs(float(theirs.sum() - ours.sum())) / bezier.length(bezier.as_array(points), True) < 1.0  # px
    assert beyond_a_pixel(ours, theirs) < 0.3
    back = dumped(bpy_python, blend)
    assert (back.width, back.height) == (width, height)
    assert back.pixel_aspect == pytest.approx(aspect)
    assert back.shapes[0].feather_px == pytest.approx(6.0, abs=1e-3)


@pytest.mark.blender
def test_blender_draws_a_feather_that_differs_from_point_to_point(bpy_python: str, tmp_path: Path) -> None:
    """A ring of eight points with feathers of 4 to 20 px, half as wide at the end: Blender's picture agrees with
    ours."""
    ring = tuple(
        ControlPoint(160 + 60 * c, 90 + 50 * s, 15.5 * s, -13 * c, -15.5 * s, 13 * c)
        for c, s in ((math.cos(i * math.pi / 4), math.sin(i * math.pi / 4)) for i in range(8))
    )
    wide = [4.0, 8.0, 12.0, 16.0, 20.0, 16.0, 12.0, 8.0]
    keys = {}
    for frame, share in ((1001, 1.0), (1011, 0.5)):
        line = feather_edges.line_of_widths(ring, [share * width for width in wide])
        keys[frame] = Key(ring, "human", feather=feather_rows(ring, line))
    shape = RotoShape("eye", True, "matte", keys)
    document = RotoDocument(320, 180, 1001, 1011, shapes=(shape,))
    blend = build(bpy_python, tmp_path, document)
    drawn = rendered(bpy_python, blend, (1001, 1006, 1011), ("eye",))
    length = bezier.length(bezier.as_array(ring), True)
    for frame in (1001, 1006, 1011):
        ours = matte(shape, frame, 320, 180).paste(320, 180)
        assert abs(float(drawn["eye", frame].sum() - ours.sum())) / length < 0.8  # px
        assert float(abs(drawn["eye", frame] - ours).max()) < 0.35  # where the ramp is 4 px long, a pixel is a quarter
    back = dumped(bpy_python, blend).shapes[0]
    for frame, share in ((1001, 1.0), (1011, 0.5)):
        widths = feather_edges.line_widths(back.at(frame), back.feather_at(frame))
        assert widths == pytest.approx([share * width for width in wide], abs=1e-2)


@pytest.mark.blender
def test_what_was_built_is_dumped_and_read_back(bpy_python: str, tmp_path: Path) -> None:
    document = replace(shot(), pixel_aspect=1.46, fps=23.976)
    blend = build(bpy_python, tmp_path, document)
    found = dumped(bpy_python, blend)
    told = blender.read_report(blend.with_name("masks.blender.json")).losses
    assert not any("transparent" in line for line in told)  # opacity keys of hidden frames hold
    loses = lossiness.features(blender.losses_of(document)) - blender.SETTLED
    shown = round_trip.compare(blender.as_blender_holds(document), found, loses=loses)
    assert shown.faults == ()
    assert shown.max_distance_px < 0.001  # Blender keeps 32-bit floats
    assert [shape.frames for shape in found.shapes] == [(1001, 1011), (1001, 1009), (1001, 1011), (1001, 1007, 1008)]
    assert (found.pixel_aspect, round(found.fps, 3), found.first_frame) == (pytest.approx(1.46), 23.976, 1001)


@pytest.mark.blender
@pytest.mark.shared
def test_a_file_saved_by_blender_is_read(bpy_python: str, shared: Path, tmp_path: Path) -> None:
    blend = tmp_path / "real.blend"
    shutil.copy(shared / "formats/blender/bpy420_mask_3keys_320x180.blend", blend)
    document = dumped(bpy_python, blend)
    (shape,) = document.shapes
    assert (document.width, document.height, shape.closed, shape.frames) == (320, 180, True, (1, 5, 10))
    assert [(p.x, p.y) for p in shape.at(1)] == [(80, 135), (240, 135), (240, 45), (80, 45)]
    assert (shape.at(3)[0].x, shape.at(3)[0].y) == pytest.approx((90, 135))


@pytest.mark.blender
@pytest.mark.shared
def test_a_blend_file_is_converted_by_blender_itself(
    bpy_python: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called as `blender --disable-autoexec -b FILE ... -- OUT`; the program here is a script that uses the bpy
    wheel."""
    program = tmp_path / "blender"
    program.write_text(
        f"#!{bpy_python}\n"
        "import bpy, runpy, sys\n"
        "assert sys.argv[1:3] == ['--disable-autoexec', '-b'] and sys.argv[8] == '--'\n"
        "assert sys.argv[4:7] == ['--python-exit-code', '1', '-P']\n"
        "bpy.ops.wm.open_mainfile(filepath=sys.argv[3])\n"
        "script, sys.argv[1:] = sys.argv[7], sys.argv[8:]\n"
        "runpy.run_path(script, run_name='__main__')\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = formats.convert(shared / "formats/blender/bpy420_mask_3keys_320x180.blend", tmp_path / "a.nk")
    assert (done.n_shapes, done.n_keys) == (1, 3)
    (tmp_path / "b.blend").write_bytes(b"no blend file")
    with pytest.raises(DocumentError, match=r"b\.blend: Blender wrote no masks"):
        formats.read(tmp_path / "b.blend")


# --- without Blender --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_no_script_of_a_blend_file_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blender applies its options in order, so this one has to precede the file."""
    program = tmp_path / "blender"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "a.blend").write_bytes(b"BLENDER")
    with pytest.raises(DocumentError, match="Blender wrote no masks"):
        formats.read(tmp_path / "a.blend")
    assert (tmp_path / "words").read_text().split()[:2] == ["--disable-autoexec", "-b"]


def test_mask_space_is_centred_with_the_longer_side_as_one() -> None:
    """By hand: in 320 x 180 the point (80, 45) lies a quarter across and a quarter down."""
    square = tuple(ControlPoint(x, y) for x, y in ((80, 45), (240, 45), (240, 135), (80, 135)))
    shape = RotoShape("a", True, "matte", {1: Key(square)})
    for size, place in (((320, 180), (0.25, 0.640625)), ((180, 320), (80 / 320 + 0.5 - 90 / 320, 0.5 + 115 / 320))):
        script = blender.dumps(RotoDocument(*size, 1, 1, shapes=(shape,)))
        data = json.loads(script.split("r'''", 1)[1].split("''')", 1)[0])
        assert data["layers"][0]["keys"][0][1][0][:2] == pytest.approx(place)


def test_shapes_run_so_that_feather_lies_outside() -> None:
    """Blender feathers to the left of a clockwise outline (on the screen). Others are reversed, and reversed back when
    read."""
    clockwise = tuple(ControlPoint(x, y) for x, y in ((80, 45), (240, 45), (240, 135), (80, 135)))
    for points, turned in ((clockwise, False), (clockwise[::-1], True)):
        document = RotoDocument(
            320, 180, 1, 1, shapes=(RotoShape("a", True, "matte", {1: Key(points)}, feather_px=4.0),)
        )
        script = blender.dumps(document)
        assert json.loads(script.split("r'''", 1)[1].split("''')", 1)[0])["layers"][0]["reversed"] is turned
        assert blender.loads(script).document.shapes[0].at(1) == points


@pytest.mark.parametrize("width", [2.0, 6.0, 15.0])
def test_bands_cover_what_strokes_cover(width: float) -> None:
    stroke = replace(shots.seam(), width_px=width)
    drawn, banded = (
        matte(each, 1001, 960, 640).paste(960, 640) for each in (stroke, stroke_outlines.stroke_outline(stroke))
    )
    assert float(np.abs(drawn - banded).sum() / drawn.sum()) < 0.005
    assert float(np.abs(drawn - banded).max()) < 0.2


def test_tapered_bands_end_in_points() -> None:
    stroke = replace(shots.seam(), taper=(0.25, 0.5))
    drawn, banded = (
        matte(each, 1001, 960, 640).paste(960, 640) for each in (stroke, stroke_outlines.stroke_outline(stroke))
    )
    assert float(np.abs(drawn - banded).sum() / drawn.sum()) < 0.05
    outline = stroke_outlines.stroke_outline(stroke).at(1001)
    assert (outline[0].x, outline[0].y) == pytest.approx((shots.SEAM[0].x, shots.SEAM[0].y))


def test_a_blend_file_without_blender_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="not on the PATH; run a script"):
        formats.read(tmp_path / "a.blend")
    with pytest.raises(UsageError, match="read only"):
        formats.write(tmp_path / "a.blend", shot())


def test_a_script_of_something_else_is_refused() -> None:
    with pytest.raises(DocumentError, match="not JSON"):
        blender.loads("import bpy\n", where="x.py")
    with pytest.raises(DocumentError, match="run the dump script"):
        blender.loads("{}", where="x.json")


@pytest.mark.parametrize(
    ("alpha", "wanted"),
    [
        ([[1001, 0.0], [1010, 1.0]], "unless its opacity keys hold"),
        ([[1001, 0.0, "eased"], [1010, 1.0, "eased"]], "at times; the document draws it opaque"),
        ([[1001, 0.0, "hold"], [1010, 1.0, "hold"]], ""),
        ([[1001, 0.5], [1010, 0.5]], "at times; the document draws it opaque"),
        ([[1001, 0.0], [1002, 1.0]], ""),
        ([[1001, 1.0], [1010, 1.0]], ""),
    ],
)
def test_a_dump_whose_opacity_may_fade_is_reported(alpha: list[list[object]], wanted: str) -> None:
    """A dump of an earlier script does not tell fades from keys that hold; our own script's keys hold."""
    spline = {"cyclic": True, "keys": [[1001, [[0.1 * i] * 6 + [0.0] for i in range(3)]]]}
    layer = {"name": "eye", "blend": "MERGE_ADD", "alpha": alpha, "splines": [spline]}
    head = {"format": blender.FORMAT, "version": 1, "width": 320, "height": 180, "pixel_aspect": 1, "fps": 24}
    data = {**head, "first_frame": 1001, "last_frame": 1010, "masks": [{"name": "Mask", "layers": [layer]}]}
    losses = blender.loads(json.dumps(data)).losses
    assert len(losses) == bool(wanted)
    assert all(line.startswith("eye: is partly transparent at times") and wanted in line for line in losses)
    assert blender.loads(blender.dumps(shot())).losses == ()
