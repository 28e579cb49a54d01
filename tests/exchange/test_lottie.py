"""Lottie files: by hand, there and back, of other programs, and as rlottie and ThorVG draw them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import formats, lottie
from rotopaint_ai.shapes.rasterise import matte
from rotopaint_ai.shapes.roto import ControlPoint, Interpolation, Key, RotoDocument, RotoShape

from . import host_shots

SQUARE = (ControlPoint(10, 20, -1, 2, 3, -4), ControlPoint(60, 20), ControlPoint(60, 70))


def layer(**more: Any) -> dict[str, Any]:
    """A layer with one closed path of three points, from the point (10, 20)."""
    path = {"i": [[-1, 2], [0, 0], [0, 0]], "o": [[3, -4], [0, 0], [0, 0]], "v": [[10, 20], [60, 20], [60, 70]]}
    return {"ty": 4, "nm": "eye", "shapes": [{"ty": "sh", "ks": {"a": 0, "k": {**path, "c": True}}}], **more}


def animation(*layers: dict[str, Any], **more: Any) -> str:
    return json.dumps({"fr": 24, "ip": 1001, "op": 1011, "w": 100, "h": 80, "layers": layers, **more})


def test_a_key_by_hand() -> None:
    keys = {1001: Key(SQUARE, "human", "ease"), 1005: Key(SQUARE, "human", "hold"), 1009: Key(SQUARE)}
    data = json.loads(lottie.dumps(RotoDocument(100, 80, 1001, 1010, shapes=(RotoShape("eye", True, "matte", keys),))))
    assert (data["w"], data["h"], data["fr"], data["ip"], data["op"]) == (100, 80, 24.0, 0, 10)
    first, second, last = data["layers"][0]["shapes"][0]["it"][0]["ks"]["k"]
    assert first["s"][0]["v"][0] == [10, 20]
    assert (first["s"][0]["i"][0], first["s"][0]["o"][0], first["s"][0]["c"]) == ([-1, 2], [3, -4], True)
    assert first["o"] == {"x": [pytest.approx(1 / 3)], "y": [0.0]}
    assert first["i"] == {"x": [pytest.approx(2 / 3)], "y": [1.0]}
    assert (first["t"], second["t"], second["h"]) == (0, 4, 1)
    assert set(last) == {"t", "s"}  # rlottie draws nothing of a path whose last key leads on


def test_every_kind_of_key_comes_back(tmp_path: Path) -> None:
    document = RotoDocument(200, 120, 1001, 1006, fps=23.976, shapes=tuple(host_shots.SHAPES.values()))
    _, lost = formats.write(tmp_path / "a.lottie.json", document)
    found, warnings = formats.read(tmp_path / "a.lottie.json")
    assert warnings == ()
    assert not any("eases became" in line for line in lost)
    assert found.fps == 23.976
    for shape in document.shapes:
        kinds = [key.interpolation for key in found.shape(shape.name).keys.values()]
        assert kinds[:-1] == [key.interpolation for key in shape.keys.values()][:-1]
    renamed = (tmp_path / "a.lottie.json").rename(tmp_path / "b.json")
    assert formats.read(renamed)[0] == found


def test_another_ease_becomes_linear_keys_within_a_tenth_of_a_pixel() -> None:
    """Compared with the cubic solved by numpy: time 3(1-t)^2 t 0.6 + 3(1-t) t^2 0.9 + t^3, value with 0.1 and 1.0."""
    key = json.loads(animation(layer()))["layers"][0]["shapes"][0]["ks"]["k"]
    there = {**key, "v": [[110, 20], [160, 20], [160, 70]]}
    rows = [{"t": 1001, "s": [key], "o": {"x": 0.6, "y": 0.1}, "i": {"x": 0.9, "y": 1}}, {"t": 1041, "s": [there]}]
    curve = {"ty": "sh", "ks": {"a": 1, "k": rows}}
    found = lottie.loads(animation(layer(shapes=[curve])))
    assert any("eases became" in line for line in found.losses)
    for frame in range(1001, 1042):
        time = (frame - 1001) / 40
        roots = np.roots([3 * 0.6 - 3 * 0.9 + 1, -6 * 0.6 + 3 * 0.9, 3 * 0.6, -time])
        t = next(root.real for root in roots if abs(root.imag) < 1e-9 and -1e-9 <= root.real <= 1 + 1e-9)
        way = 3 * (1 - t) ** 2 * t * 0.1 + 3 * (1 - t) * t * t + t**3
        assert found.document.shape("eye").at(frame)[0].x == pytest.approx(10 + 100 * way, abs=0.1)


def test_masks_of_other_programs_are_read() -> None:
    curve = json.loads(animation(layer()))["layers"][0]["shapes"][0]["ks"]
    mask = {"mode": "a", "pt": curve, "nm": "Mask 1"}
    found = lottie.loads(animation({"ty": 2, "nm": "plate", "masksProperties": [mask, {**mask, "nm": "Mask 2"}]}))
    assert [shape.name for shape in found.document.shapes] == ["plate/Mask 1", "plate/Mask 2"]
    assert found.document.shapes[0].at(1001) == SQUARE
    assert found.losses == ()


@pytest.mark.parametrize(
    ("row", "reported"),
    [
        ({"ks": {"r": {"a": 0, "k": 45}}}, "moved, scaled or rotated"),
        ({"ks": {"p": {"a": 0, "k": [5, 5]}}}, "moved, scaled or rotated"),
        ({"ks": {"p": {"a": 1, "k": [{"t": 1, "s": [5, 5]}]}}}, "moved, scaled or rotated"),
        ({"ks": {"o": {"a": 0, "k": 50}}}, "partly transparent"),
        ({"shapes": [*layer()["shapes"], {"ty": "fl", "o": {"a": 0, "k": 0}}]}, "its fill or stroke is transparent"),
        ({"shapes": [*layer()["shapes"], {"ty": "st", "o": {"k": [{"s": [9]}]}}]}, "its fill or stroke is transparent"),
        ({"shapes": [{"ty": "gr", "it": [{"ty": "tr", "o": {"a": 0, "k": 50}}]}]}, "its group is transparent"),
        (
            {"masksProperties": [{"o": {"a": 0, "k": 50}, "pt": layer()["shapes"][0]["ks"]}]},
            "its mask is transparent",
        ),
        ({"shapes": [{"ty": "gr", "it": [{"ty": "el"}]}]}, "convert it to a path"),
        ({"shapes": [{**layer()["shapes"][0], "hd": True}]}, "hidden and is left out"),
        ({"ty": 0, "shapes": []}, "separate composition"),
        ({"masksProperties": [{"mode": "s", "pt": layer()["shapes"][0]["ks"]}]}, "inverted or not added"),
    ],
)
def test_what_a_document_cannot_hold_is_reported(row: dict[str, Any], reported: str) -> None:
    assert any(reported in line for line in lottie.loads(animation(layer(**row))).losses)


def test_a_layer_is_seen_from_its_begin_to_before_its_end() -> None:
    rows = [layer(ip=1003, op=1006), layer(nm="off", hd=True), layer(nm="all", st=5)]
    found = lottie.loads(animation(*rows)).document
    seen = {shape.name: [frame for frame in range(1001, 1011) if shape.is_visible(frame)] for shape in found.shapes}
    assert seen == {"eye": [1003, 1004, 1005], "off": [], "all": [*range(1001, 1011)]}


def test_a_shape_shows_while_it_fades_in_and_the_fade_is_reported() -> None:
    keys = [{"t": 1001, "s": [0]}, {"t": 1005, "s": [100]}, {"t": 1009, "s": [0], "h": 1}]
    found = lottie.loads(animation(layer(ks={"o": {"a": 1, "k": keys}})))
    assert sorted(found.document.shapes[0].visible) == [1001, 1009, 1010]
    assert found.losses == ("eye: is partly transparent at times; the document draws it opaque",)


def test_strokes_around_an_opaque_fill_are_not_reported() -> None:
    looks = [{"ty": "fl", "o": {"a": 0, "k": 100}}, {"ty": "st", "o": {"a": 0, "k": 0}}]
    assert lottie.loads(animation(layer(shapes=[*layer()["shapes"], *looks]))).losses == ()


def test_a_layer_that_another_moves_is_reported() -> None:
    moved = {"ty": 3, "nm": "null", "ind": 1, "ks": {"p": {"a": 0, "k": [5, 5]}}}
    still = {"ty": 3, "nm": "null", "ind": 2, "parent": 2}
    (line,) = lottie.loads(animation(moved, layer(parent=1))).losses
    assert "eye: is moved" in line
    assert lottie.loads(animation(still, layer(parent=2))).losses == ()


@pytest.mark.parametrize("text", ["[]", "{}", animation(layer(shapes=[{"ty": "sh"}])), animation(layer(), fr=0)])
def test_what_is_no_animation_is_reported_in_one_line(text: str) -> None:
    with pytest.raises(DocumentError, match=r"a\.json: .*;"):
        lottie.loads(text, where="a.json")


# --- in renderers of other people -------------------------------------------------------------------------------------


def _rlottie() -> Callable[[str, int], NDArray[np.float64]]:
    module = pytest.importorskip("rlottie_python")

    def draw(text: str, frame: int) -> NDArray[np.float64]:
        pixels = module.LottieAnimation.from_data(text).lottie_animation_render(frame, width=200, height=120)
        return np.frombuffer(pixels, np.uint8).reshape(120, 200, 4)[..., 3] / 255.0

    return draw


def _thorvg() -> Callable[[str, int], NDArray[np.float64]]:
    module = pytest.importorskip("thorvg_python")
    engine = module.Engine()

    def draw(text: str, frame: int) -> NDArray[np.float64]:
        canvas, film = module.SwCanvas(engine), module.Animation(engine)
        canvas.set_target(200, 120)
        picture = film.get_picture()
        picture.load_data(text.encode() + b"\0", "lottie", None, True)
        picture.set_size(200, 120)
        canvas.add(picture)
        film.set_frame(frame)
        canvas.update()
        canvas.draw(True)
        canvas.sync()
        return np.frombuffer(canvas.buffer_arr, np.uint8).reshape(120, 200, 4)[..., 3] / 255.0

    return draw


@pytest.mark.parametrize("host", [_rlottie, _thorvg], ids=lambda host: host.__name__.strip("_"))
@pytest.mark.parametrize("name", host_shots.SHAPES)
def test_renderers_draw_the_mattes_that_we_draw(name: str, host: Callable[[], Callable[..., Any]]) -> None:
    """At keys and between them: linear, held and eased moves, strokes, hidden frames."""
    draw, shape = host(), host_shots.SHAPES[name]
    text = lottie.dumps(RotoDocument(200, 120, 1001, 1006, shapes=(shape,)))
    most = 0.013 if not shape.closed else 0.004  # rlottie draws strokes 1.1 % thinner
    for frame in range(1001, 1007):
        theirs, ours = draw(text, frame - 1001), matte(shape, frame, 200, 120).paste(200, 120)
        assert abs(theirs.sum() - ours.sum()) <= most * ours.sum()
        assert abs(theirs - ours).max() < 0.2


MLT = """<mlt LC_NUMERIC="C" producer="main"><profile width="200" height="120" progressive="1" sample_aspect_num="1"
 sample_aspect_den="1" display_aspect_num="5" display_aspect_den="3" frame_rate_num="24" frame_rate_den="1"/>
<producer id="a" in="0" out="5"><property name="mlt_service">glaxnimate</property>
<property name="resource">a.json</property><property name="length">6</property></producer>
<playlist id="main"><entry producer="a" in="0" out="5"/></playlist></mlt>"""


@pytest.fixture(scope="module")
def melt() -> Callable[[Path], None]:
    """MLT's renderer with Glaxnimate, as in Shotcut and Kdenlive: `apt install melt`."""
    display = {**os.environ, "DISPLAY": ":0", "QT_QPA_PLATFORM": "offscreen"}

    def run(*words: str, folder: Path | None = None) -> str:
        done = subprocess.run(words, cwd=folder, env=display, capture_output=True, text=True, timeout=120, check=True)
        return done.stdout

    if shutil.which("melt") is None or "- glaxnimate" not in run("melt", "-query", "producers"):
        pytest.skip("no melt with Glaxnimate here")
    pictures = ("-consumer", "avformat:%02d.png", "vcodec=png", "pix_fmt=rgba", "mlt_image_format=rgba", "real_time=-1")

    def render(folder: Path) -> None:
        for _ in range(3):  # melt ends with 0 now and then although it wrote nothing
            run("melt", "-silent", "a.mlt", *pictures, folder=folder)
            if (folder / "06.png").exists():
                return

    return render


@pytest.mark.parametrize("name", [name for name in host_shots.SHAPES if name != "ease"])
def test_video_editors_draw_the_mattes_that_we_draw(name: str, melt: Callable[[Path], None], tmp_path: Path) -> None:
    """All but `ease`: after a third of the time Glaxnimate is at 0.17 of the move, the cubic at 0.26."""
    shape = host_shots.SHAPES[name]
    text = lottie.dumps(RotoDocument(200, 120, 1001, 1006, shapes=(shape,)))
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    (tmp_path / "a.mlt").write_text(MLT, encoding="utf-8")
    melt(tmp_path)
    for frame in range(1001, 1007):
        picture = cv2.imread(str(tmp_path / f"{frame - 1000:02d}.png"), cv2.IMREAD_UNCHANGED)
        theirs, ours = picture[..., 3] / 255.0, matte(shape, frame, 200, 120).paste(200, 120)
        assert abs(theirs.sum() - ours.sum()) <= 0.005 * ours.sum()
        assert abs(theirs - ours).max() < 0.2


@pytest.mark.parametrize("kind", ["linear", "hold", "ease"])
def test_the_shots_move_otherwise_between_keys(kind: Interpolation) -> None:
    """The tests above can tell the kinds apart: at 1002 each gives another shape."""
    shapes = [replace(host_shots.SHAPES[name], name="a") for name in ("linear", "hold", "ease") if name != kind]
    assert all(host_shots.SHAPES[kind].at(1002) != shape.at(1002) for shape in shapes)
