"""The live engine's answers to a panel: drags, crops, looks, and refusals."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.crops import Crop, CropKeys
from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange.document import dumps
from rotopaint_ai.live import engine as engines
from rotopaint_ai.live import wire
from rotopaint_ai.live.engine import LiveEngine, _display, parse
from rotopaint_ai.plates.colour import DISPLAY
from rotopaint_ai.seams.paint_settings import Paint, PaintTable
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet

SHEET = Sheet(
    "pip",
    (LandmarkSpec("left"), LandmarkSpec("nose"), LandmarkSpec("right")),
    (
        ShapeSpec("seam", closed=False, role="seam", n_points=2, on_landmarks={0: "left", 1: "right"}),
        ShapeSpec("lip", closed=False, n_points=2),
        ShapeSpec("brow", closed=False, n_points=2),
    ),
)
STILL = [[10.0, 20.0], [30.0, 40.0], [50.0, 60.0]]
LIP = slice(2, 4)


def nose_moves_the_lip(landmarks: Any) -> Any:
    """Points (2, 6, 6) of both rows: the lip's move twice as far as the nose, all others stay."""
    points = np.zeros((2, 6, 6))
    points[:, LIP, :2] = 2 * landmarks[:, 1:2]
    return points, None


@pytest.fixture
def engine(tmp_path: Path) -> LiveEngine:
    engine = LiveEngine(tmp_path)
    pack = SimpleNamespace(sheet=SHEET, name="pip")
    engine._models = SimpleNamespace(pack=pack, predict_shapes=nose_moves_the_lip)  # type: ignore[assignment]
    return engine


def drag(engine: LiveEngine, landmark: int, by: tuple[float, float]) -> tuple[dict[str, Any], Any]:
    """The answer to a drag of one landmark, and the motion of the points (6, 6). Names are not in the sheet's order."""
    after = [list(row) for row in STILL]
    after[landmark] = [after[landmark][0] + by[0], after[landmark][1] + by[1]]
    order = (2, 0, 1)
    ask = {"names": [SHEET.landmark_names[k] for k in order]}
    ask |= {"before": [STILL[k] for k in order], "after": [after[k] for k in order]}
    answer = engine.answer({"id": 4, "ask": "drag", **ask})
    return answer, np.frombuffer(wire.take_block(answer["block"])).reshape(6, 6)


def test_shapes_follow_the_model_and_points_follow_their_landmark(engine: LiveEngine) -> None:
    answer, moved = drag(engine, 1, (1.0, -3.0))
    assert (answer["id"], answer["shapes"], answer["sits"]) == (4, {"lip": [2, 4]}, [])
    np.testing.assert_array_equal(moved[LIP, :2], [(2.0, -6.0)] * 2)
    answer, moved = drag(engine, 2, (0.0, 5.0))
    assert (answer["shapes"], answer["sits"]) == ({"seam": [0, 2]}, ["seam"])
    np.testing.assert_array_equal(moved[:2, :2], [(0.0, 0.0), (0.0, 5.0)])
    assert not moved[2:].any()


def test_a_shape_that_goes_by_a_thousandth_of_a_pixel_stays(engine: LiveEngine) -> None:
    assert drag(engine, 1, (0.0, 2e-4))[0]["shapes"] == {}
    assert drag(engine, 1, (0.0, -2e-3))[0]["shapes"] == {"lip": [2, 4]}


def test_landmarks_of_another_pack_are_refused_by_name(engine: LiveEngine) -> None:
    ask = {"ask": "drag", "names": ["left", "right"], "before": STILL[:2], "after": STILL[:2]}
    assert "landmark 'nose'" in engine.answer(ask)["error"]
    engine._models = None
    assert "no model pack is open" in engine.answer(ask)["error"]


def test_a_panel_of_another_version_is_refused(engine: LiveEngine, tmp_path: Path) -> None:
    answer = engine.answer({"id": 7, "ask": "hello", "version": wire.VERSION})
    assert (answer["id"], answer["version"], answer["folder"]) == (7, wire.VERSION, str(tmp_path))
    assert "the same RotoPaint AI" in engine.answer({"ask": "hello", "version": wire.VERSION + 1})["error"]
    assert engine.answer({"id": 8, "ask": "nothing"})["error"].startswith("KeyError")


def test_an_answer_tells_its_milliseconds(engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines.time, "perf_counter", iter((10.0, 10.25)).__next__)
    assert engine.answer({"ask": "hello", "version": wire.VERSION})["ms"] == 250.0


def test_a_crop_is_its_corner_and_its_side(engine: LiveEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine._plate = SimpleNamespace()  # type: ignore[assignment]
    note = SimpleNamespace(facts={"message": "two faces"})
    for reported, message in ((note, "two faces"), (None, None)):
        found = CropKeys({1001: Crop(100.0, 80.0, 60.0)}), reported
        monkeypatch.setattr(engines, "propose_crop", lambda *_, found=found: found)
        answer = engine.answer({"ask": "crop", "frame": 1001})
        assert (answer["crop"], answer["note"]) == ([70.0, 50.0, 60.0, 60.0], message)


def test_pixels_are_shown_by_exposure_then_view_then_gamma() -> None:
    """One stop less makes 0.5 to 0.25: 1.055 * 0.25 ^ (1 / 2.4) - 0.055 = 0.537 in sRGB, and its square root at gamma
    2."""
    light = np.array([[[0.5, 4.0, np.nan]]], np.float32)
    view = DISPLAY["view"]
    srgb = 1.055 * 0.25 ** (1 / 2.4) - 0.055
    assert _display(light, (-1.0, 1.0, view))[0, 0] == pytest.approx([srgb, 1.0, 0.0], abs=2e-3)
    assert _display(light, (-1.0, 2.0, view))[0, 0] == pytest.approx([srgb**0.5, 1.0, 0.0], abs=2e-3)


@pytest.mark.parametrize("text", [b"{", b"[]", b"{}", b'{"ask": 1}', b'"ask"'])
def test_a_line_that_asks_nothing_is_refused(text: bytes) -> None:
    with pytest.raises(UsageError, match="request: "):
        parse(text)
    assert parse(b'{"ask": "hello", "id": 3}') == {"ask": "hello", "id": 3}


def test_frames_that_the_shapes_are_for_are_painted_as_a_run_paints_them(
    engine: LiveEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine._plate = SimpleNamespace(frames=range(1000, 1006))  # type: ignore[assignment]
    engine._models = None
    monkeypatch.setattr(engines.Painter, "of", lambda plate, frames, **given: (plate, frames, given))
    plate, frames, given = engine._painter(RotoDocument(64, 48, 1001, 1004), {"seam": {"grain": 0.5}})  # type: ignore[misc]
    assert (plate, frames) == (engine._plate, [1001, 1002, 1003, 1004])
    assert (given["out"], given["shapes"], given["model"], given["mattes"]) == (tmp_path, (), None, None)
    assert given["paints"] == PaintTable(by_name={"seam": Paint(grain=0.5)})


def test_a_preview_holds_out_what_stands_in_front(puppet: ModuleType, puppet_pack: Path, tmp_path: Path) -> None:
    """The same request with the hold-out switched off shows what it is; only the hand's pixels differ."""
    pack = puppet.add_front(shutil.copytree(puppet_pack, tmp_path / "pack"))
    plates = puppet.make_plates(tmp_path / "plates", range(1001, 1002), with_hand=True)
    cx, cy, radius = puppet.face_at(1001, 192, 120)
    marks = tuple(Landmark(cx + dx * radius, cy + dy * radius) for dx, dy in puppet.OFFSETS)
    points = tuple(ControlPoint(cx + dx * radius, cy, 0, 0, 0, 0) for dx in (-1.0, 1.0))
    seam = RotoShape("seam", False, "seam", {1001: Key(points)}, width_px=5.0)
    document = RotoDocument(192, 120, 1001, 1001, shapes=(seam,), landmarks=LandmarkKeys(puppet.NAMES, {1001: marks}))
    live = LiveEngine(tmp_path)
    for ask in ({"ask": "pack", "model": str(pack)}, {"ask": "plate", "source": plates}):
        assert "error" not in live.answer(ask)
    mattes = []
    for held in (True, False):
        request = {"ask": "seam", "frame": 1001, "shapes": dumps(document), "look": [0.0, 1.0, "Un-tone-mapped"]}
        answer = live.answer({**request, "settings": {"seam": {"hold_out": held}}})
        x, y, width, height = answer["region"]
        block = np.frombuffer(wire.take_block(answer["block"]), np.uint8)
        mattes.append(block[3 * width * height :].reshape(height, width))
    rows, columns = np.mgrid[y : y + height, x : x + width] + 0.5
    hand_x, hand_y, size = puppet.hand_at(1001, 192, 120)
    away = np.hypot(rows - hand_y, columns - hand_x)
    assert not mattes[0][away < size - 2].any()
    assert mattes[1][away < size - 2].any()
    assert np.array_equal(mattes[0][away > size + 3], mattes[1][away > size + 3])
