"""The panel as an artist uses it: open, box, Run, look, correct, export; the decoder is real, the engine made up."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QDialog, QLabel, QWidget
from pytestqt.qtbot import QtBot

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.project.state import CropBox, State
from rotopaint_ui.engine.frame_cache import CLEAN, PLATE
from rotopaint_ui.host import Engine, PlateChoice, package_folders
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.edit_stack import LET_GO
from rotopaint_ui.session.shot_files import PlateFacts, read_run_results

from .conftest import make_document, run_json, write_plate
from .mouse import LEFT, NONE, move, spot

ENGINE = """
import json, pathlib, shutil, sys
words = sys.argv[1:]
out = pathlib.Path(words[words.index("--out") + 1])
ready = pathlib.Path(__file__).parents[1] / "ready"
say = lambda **facts: print(json.dumps(facts), flush=True)
out.mkdir(parents=True, exist_ok=True)
(out / "words.json").write_text(json.dumps(words))
say(event="started", name="plate", total=5, pack="puppet", device="CPU, 8.4 ms/frame", width=64, height=48,
    first_frame=1001, last_frame=1006, pixel_aspect=1.0, fps=24.0, landmarks=[],
    shapes=[{"name": "seam", "closed": False, "role": "seam", "feather_px": 0.0}])
for done, frame in enumerate((1001, 1002, 1003), 1):
    say(event="frame", frame=frame, status="done", shapes={"seam": [[1, 2, 0, 0, 1, 0], [3, 4, 0, 0, 1, 0]]},
        expected_error_px={"seam": 1.5})
    say(event="progress", done=done, total=5, eta_s=1.0, ms_per_frame=20.0)
shutil.copytree(ready, out, dirs_exist_ok=True)
"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The files that the fake engine leaves in its folder."""
    folder = tmp_path / "engine" / "ready"
    folder.mkdir(parents=True)
    documents.write(folder / "shapes.roto.json", make_document())
    (folder / "run.json").write_text(json.dumps(run_json()))
    write_plate(folder / "clean", add=30)
    return folder


def open_plate(qtbot: QtBot, panel: Panel, choice: PlateChoice, out: Path) -> None:
    with qtbot.waitSignal(panel.plate_opened, timeout=120_000):
        panel.open_plate(choice, out)
    qtbot.waitUntil(lambda: panel.frame_cache.image(PLATE, 1001) is not None, timeout=120_000)
    if (out / "shapes.roto.json").exists():
        qtbot.waitUntil(lambda: panel.session.document is not None, timeout=120_000)


def run(qtbot: QtBot, panel: Panel, engine: Engine) -> None:
    panel.host.the_engine = engine  # type: ignore[attr-defined]
    with qtbot.waitSignal(panel.run_ended, timeout=120_000):
        panel.run()


def test_from_plate_to_corrected_shapes(
    qtbot: QtBot, panel: Panel, plate: str, results: Path, engine_of: Callable[[str], Engine], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    open_plate(qtbot, panel, PlateChoice(plate, frames="1001-1006", colourspace="sRGB"), out)
    assert panel.top.name.text() == "shot"  # its folder: the plate is called plate
    assert "missing 1004" in panel.top.facts.text()
    assert panel.canvas.tool == "crop"

    panel.session.edits.push("crop box", State(None, {1002: CropBox(5, 6, 30, 32)}))
    seen: list[str] = []
    panel.jobs.worker.happened.connect(lambda facts: seen.append(facts["event"]))
    run(qtbot, panel, engine_of(ENGINE))
    words = json.loads((out / "words.json").read_text())
    assert words[:4] == ["run", plate, "--out", str(out)]
    assert words[words.index("--crop") + 1] == "1002:5,6,30,32"
    assert words[words.index("--frames") + 1] == "1001-1006"
    assert words[words.index("--colourspace") + 1] == "sRGB"
    assert "--events" in words
    assert seen == ["started", *["frame", "progress"] * 3]
    assert panel.session.document == make_document()
    assert panel.status.text.text().startswith("Done.")
    assert panel.top.device.text() == "CPU, 12 ms/frame"
    assert panel.canvas.tool == "select"

    qtbot.keyClick(panel.canvas, Qt.Key.Key_N)
    assert panel.session.frame == 1006
    qtbot.keyClick(panel.canvas, Qt.Key.Key_N)
    assert panel.session.frame == 1003

    qtbot.keyClick(panel.canvas, Qt.Key.Key_W)
    qtbot.waitUntil(lambda: panel.frame_cache.image(CLEAN, 1003) is not None, timeout=120_000)
    assert panel.canvas.wipe is not None

    panel.session.select("seam")
    panel.inspector.setCurrentWidget(panel.inspector.seam)
    panel.inspector.seam.width_px.setValue(7.0)
    qtbot.keyClick(panel.canvas, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
    assert documents.read(out / "shapes.roto.json").shape("seam").width_px == 7.0
    qtbot.keyClick(panel.canvas, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert panel.session.document == make_document()
    panel.host.the_engine = Engine(sys.executable, package_folders())  # type: ignore[attr-defined]
    panel.inspector.export.reduces.setChecked(False)
    with qtbot.waitSignal(panel.exports.ended, timeout=120_000) as ended:
        panel.export()
    assert ended.args == [True]
    assert panel.host.exported == [(make_document(), out / "shapes.roto.json")]  # type: ignore[attr-defined]


def test_corrections_are_saved_without_being_asked(qtbot: QtBot, panel: Panel, plate: str, out: Path) -> None:
    open_plate(qtbot, panel, PlateChoice(plate), out)
    panel.autosave.set_rest(0.01)
    from rotopaint_ai.shapes import edit

    state = panel.session.state
    assert state.document is not None
    wide = edit.replace_shape(state.document, "seam", replace(state.document.shape("seam"), width_px=9.0))
    panel.session.edits.push("seam", State(wide, state.crops))
    qtbot.waitUntil(lambda: panel.session.shapes_file.is_saved, timeout=120_000)
    assert documents.read(out / "shapes.roto.json").shape("seam").width_px == 9.0


def test_a_reopened_shot_shows_its_last_run(qtbot: QtBot, panel: Panel, plate: str, out: Path) -> None:
    open_plate(qtbot, panel, PlateChoice(plate), out)
    assert panel.session.document == make_document()
    assert panel.inspector.shapes.tree.topLevelItemCount() == 2
    assert ("Seam visibility", "2.5 \u2192 0.5 (plain skin 0.9)") in panel.inspector.frame.rows()


def test_nothing_opens_a_modal_dialog_and_every_error_is_one_line(
    qtbot: QtBot, panel: Panel, plate: str, tmp_path: Path, engine_of: Callable[[str], Engine]
) -> None:
    panel.run()
    assert "Open a plate" in panel.status.text.text()
    panel.export()
    assert "press Run first" in panel.status.text.text()
    with qtbot.waitSignal(panel.frame_cache.failed, timeout=120_000):
        panel.open_plate(PlateChoice(str(tmp_path / "no" / "plate.####.exr")))
    assert "no: cannot list" in panel.status.text.text()
    assert panel.status.text.property("kind") == "trouble"
    open_plate(qtbot, panel, PlateChoice(plate), tmp_path / "out")
    run(qtbot, panel, engine_of("import sys; sys.exit('rotopaint run: the pack\\nis altered')"))
    assert panel.status.text.text() == "is altered"
    assert not [window for window in QApplication.topLevelWidgets() if isinstance(window, QDialog) and window.isModal()]


def test_keys_do_nothing_harmful_without_a_plate(qtbot: QtBot, panel: Panel) -> None:
    for key in (Qt.Key.Key_N, Qt.Key.Key_F, Qt.Key.Key_H, Qt.Key.Key_Space, Qt.Key.Key_Right, Qt.Key.Key_End):
        qtbot.keyClick(panel.canvas, key)
    assert panel.session.plate is None
    assert not panel.player.is_playing


def test_the_panel_loads_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys, json\n"
        "import rotopaint_ui.panel.panel, rotopaint_ui.host\n"
        "import rotopaint_ui.engine.run_worker, rotopaint_ui.standalone.app\n"
        "heavy = {'numpy', 'cv2', 'onnxruntime', 'torch', 'OpenImageIO', 'av', 'yaml', 'PyOpenColorIO'}\n"
        "print(json.dumps(sorted(heavy & set(sys.modules))))"
    )
    environment = Engine(sys.executable, package_folders()).environment()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert json.loads(done.stdout) == []


def test_a_readout_without_room_never_shows_half_of_it(qtbot: QtBot, panel: Panel) -> None:
    bar = panel.view_bar
    text = "0.1000  0.2000  0.3000   x 1.0  y 2.0   frame 1001   100 %"
    bar.readout.setFixedWidth(bar.readout.fontMetrics().horizontalAdvance(text) + 1)
    bar.show_readout(text)
    assert bar.readout.text() == text
    bar.readout.setFixedWidth(bar.readout.fontMetrics().horizontalAdvance(text) - 1)
    bar.show_readout(text)
    assert bar.readout.text() == "x 1.0  y 2.0   frame 1001   100 %"


def test_a_readout_that_has_less_room_than_before_is_not_cut(qtbot: QtBot, panel: Panel) -> None:
    panel.resize(1700, 800)
    bar = panel.view_bar
    qtbot.waitUntil(lambda: bar.readout.width() > 250, timeout=20_000)
    bar.show_readout("x 1.0  y 2.0   frame 1001   91 %")
    whole = bar.readout.text()
    panel.resize(panel.minimumSizeHint().width(), 655)
    qtbot.waitUntil(lambda: bar.readout.width() < 60, timeout=20_000)
    assert bar.readout.fontMetrics().horizontalAdvance(bar.readout.text()) <= bar.readout.width()
    panel.resize(1700, 800)
    qtbot.waitUntil(lambda: bar.readout.text() == whole, timeout=20_000)


def test_the_seam_tab_knows_the_clean_plate_as_soon_as_it_is_opened(
    qtbot: QtBot, panel: Panel, plate: str, out: Path
) -> None:
    write_plate(out / "clean", add=30)
    with qtbot.waitSignal(panel.jobs.read, timeout=120_000):
        panel.open_plate(PlateChoice(plate), out)
    panel.inspector.setCurrentWidget(panel.inspector.seam)
    assert panel.inspector.seam.state.text() == "All 5 frames are up to date"
    assert not panel.inspector.seam.render_button.isEnabled()


def test_the_face_is_found_on_demand_and_its_box_is_a_step(
    panel: Panel, facts: PlateFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel.session.open(facts)
    asked: list[int] = []
    monkeypatch.setattr(panel.live, "load_pack", lambda pack: None)

    def find(frame: int, reply: Callable[[CropBox | None, str], None]) -> None:
        asked.append(frame)
        reply(
            CropBox(10, 8, 30, 30),
            "crop 'auto': took 1,2,3,3 (sure by 83%), the largest of 2 faces; --crop for another",
        )

    monkeypatch.setattr(panel.live, "propose_crop", find)
    panel.session.go_to(1002)
    panel.commands["find_face"].trigger()
    assert asked == [1002]
    assert panel.session.state.crops == {1002: CropBox(10, 8, 30, 30)}
    assert panel.session.edits.last_step == "crop box"
    text = panel.status.text.text()
    assert text == "The face on 1002: sure by 83%, the largest of 2 faces. Drag the box where it is wrong, then Run"


def test_nothing_is_cut_off_in_a_small_window(panel: Panel, facts: PlateFacts, out: Path) -> None:
    """Only the longest device line is shortened, with its full text in the tooltip; buttons and labels keep theirs."""
    panel.session.open(facts, out)
    panel.session.take_results(read_run_results(out))
    panel.top.show_plate(facts)
    text = "CUDA (83% of nodes, rest on CPU), 309 ms/frame"
    panel.top.show_device(text, "cuda")
    panel.session.set_span((1002, 1003))
    panel.session.select("seam")
    panel.session.seams.set({"seam": replace(panel.session.seams.of("seam"), grain=0.5)})
    panel.resize(panel.minimumSizeHint().width(), 620)
    assert panel.width() <= 1024
    assert panel.top.device.toolTip().startswith(text)
    assert panel.view_bar.view.toolTip().startswith(panel.view_bar.view.currentText())
    for index in range(panel.inspector.count()):
        panel.inspector.setCurrentIndex(index)
        QApplication.processEvents()
        shown = [each for each in panel.findChildren(QWidget) if each.isVisible()]
        words = [each for each in shown if isinstance(each, QAbstractButton | QComboBox)]
        words.remove(panel.view_bar.view)  # names of views are long: its tip has the whole one
        words += [each for each in shown if type(each) is QLabel and each.text() and not each.wordWrap()]
        assert [each for each in words if each.width() < each.minimumSizeHint().width()] == []
        assert len(words) > 25


@pytest.fixture
def shot(qtbot: QtBot, panel: Panel, facts: PlateFacts, out: Path) -> Panel:
    """A panel with the results of a run and no edits; its window is active."""
    panel.session.open(facts, out)
    panel.session.take_results(read_run_results(out))
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow, timeout=120_000)
    return panel


def test_the_very_first_nudge_can_be_undone_at_once(qtbot: QtBot, shot: Panel) -> None:
    session, before = shot.session, shot.session.state
    shot.canvas._burst.setInterval(10_000_000)  # a slow machine must not end the burst by itself
    shot.take_tool("select")
    session.select("seam")
    qtbot.keyClick(shot.canvas, Qt.Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    assert session.edits.is_dragging
    qtbot.keyClick(shot.canvas, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert shot.status.text.text() == "Undone: nudge"
    assert session.state == before


def test_shift_and_an_arrow_go_ten_frames(qtbot: QtBot, shot: Panel) -> None:
    """The plate has frames 1001 to 1006."""
    qtbot.keyClick(shot.canvas, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert shot.session.frame == 1006
    asked: list[int] = []
    shot.session.go_to = asked.append  # type: ignore[method-assign]
    qtbot.keyClick(shot.canvas, Qt.Key.Key_Left, Qt.KeyboardModifier.ShiftModifier)
    assert asked == [996]


def test_keys_are_stepped_through(qtbot: QtBot, shot: Panel) -> None:
    shot.session.go_to(1003)
    qtbot.keyClick(shot.canvas, Qt.Key.Key_Right, Qt.KeyboardModifier.ControlModifier)
    assert shot.session.frame == 1005
    qtbot.keyClick(shot.canvas, Qt.Key.Key_Left, Qt.KeyboardModifier.ControlModifier)
    assert shot.session.frame == 1003


def test_the_current_tool_stays_after_a_run(shot: Panel, out: Path) -> None:
    for tool, then in (("landmark", "landmark"), ("clone", "clone"), ("crop", "select")):
        shot.canvas.tool = tool
        shot._results.show_results(read_run_results(out), True)
        assert shot.canvas.tool == then


def test_commands_do_nothing_during_a_drag(qtbot: QtBot, shot: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command during a drag used to be lost with the next move, and undo restored a half-moved point."""
    session, canvas, before = shot.session, shot.canvas, shot.session.state
    monkeypatch.setattr(shot.jobs, "_start_job", lambda *words: pytest.fail("a job was begun"))
    shot.opening.choice = PlateChoice("plate.####.png")
    shot.take_tool("select")
    session.select("seam")
    canvas.fit()
    qtbot.mousePress(canvas, LEFT, NONE, spot(canvas, (10, 20)))
    move(qtbot, canvas, (12, 24))
    move(qtbot, canvas, (13, 25))
    assert session.edits.is_dragging
    shot.commands["accept"].trigger()
    shot.inspector.seam.strength.setValue(50.0)
    shot.commands["run"].trigger()
    shot.commands["make_clean"].trigger()
    assert [line.endswith(LET_GO) for line in shot.status.history[-4:]] == [True] * 4
    move(qtbot, canvas, (14, 26))
    qtbot.mouseRelease(canvas, LEFT, NONE, spot(canvas, (14, 26)))
    assert (session.edits.last_step, session.state.marks, session.seams.of("seam").strength) == ("move points", {}, 1.0)
    assert not shot.commands["accept"].isChecked()
    assert session.edits.undo() == "move points"
    assert session.state == before
    assert not session.edits.can_undo


def test_a_pack_is_asked_for_when_its_name_is_typed_to_the_end(
    qtbot: QtBot, shot: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, name = list[str | None](), shot.top.pack.lineEdit()
    monkeypatch.setattr(shot.live, "load_pack", asked.append)
    monkeypatch.setattr(shot._services.exporter, "ask", lambda *words: None)
    name.setFocus()
    name.selectAll()
    qtbot.keyClicks(name, "abc")
    assert asked == []
    qtbot.keyClick(name, Qt.Key.Key_Return)
    shot.canvas.setFocus()
    assert asked == ["abc"]
    shot.top.show_packs(["abc", "other"])  # the list alone changes nothing
    assert asked == ["abc"]
