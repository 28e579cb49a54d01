"""An artist's whole way through one shot: the real window, the real engine, the pack and sample shot that ship.

Four frames (two exposures, each held for two frames) keep it short. The second half kills the program and begins again.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QDialog
from pytestqt.qtbot import QtBot

from rotopaint_ai.exchange import formats, nuke
from rotopaint_ai.inference.sample import find_sample
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.engine.frame_cache import CLEAN, PLATE
from rotopaint_ui.host import Engine, package_folders
from rotopaint_ui.standalone.app import MainWindow

LEFT = Qt.MouseButton.LeftButton
CONTROL = Qt.KeyboardModifier.ControlModifier
FRAMES = (1001, 1002, 1003, 1004)


@pytest.fixture(scope="module")
def shot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four frames of the sample shot in a folder of their own."""
    folder = tmp_path_factory.mktemp("show") / "sh010"
    folder.mkdir()
    for frame in FRAMES:
        shutil.copy(find_sample() / f"plate.{frame}.exr", folder)
    return folder


def open_shot(qtbot: QtBot, window: MainWindow, path: Path) -> None:
    with qtbot.waitSignal(window.panel.jobs.read, timeout=120_000):
        window.panel.open_path(str(path))
    qtbot.waitUntil(
        lambda: window.panel.frame_cache.image(PLATE, window.panel.session.frame) is not None, timeout=120_000
    )


def drag(qtbot: QtBot, window: MainWindow, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Drag in the viewer, from and to places in plate space."""
    canvas = window.panel.canvas
    a, b = (canvas.view.to_screen(*place).toPoint() for place in (start, end))
    qtbot.mousePress(canvas, LEFT, pos=a)
    for step in (0.3, 0.7, 1.0):
        qtbot.mouseMove(canvas, a + QPoint(round((b - a).x() * step), round((b - a).y() * step)))
    qtbot.mouseRelease(canvas, LEFT, pos=b)


def key(qtbot: QtBot, window: MainWindow, key: Qt.Key, modifier: Qt.KeyboardModifier | None = None) -> None:
    qtbot.keyClick(window.panel.canvas, key, modifier or Qt.KeyboardModifier.NoModifier)


def document_of(window: MainWindow) -> RotoDocument:
    document = window.panel.session.state.document
    assert document is not None
    return document


def run_whole(qtbot: QtBot, window: MainWindow) -> None:
    with qtbot.waitSignal(window.panel.run_ended, timeout=120_000) as ended:
        key(qtbot, window, Qt.Key.Key_Return, CONTROL)
    assert ended.args == [True], window.panel.status.text.text()


def test_a_day_on_one_shot(qtbot: QtBot, window: MainWindow, shot: Path) -> None:
    panel, session = window.panel, window.panel.session
    open_shot(qtbot, window, shot / "plate.1001.exr")
    assert panel.top.facts.text().startswith("960 x 540   1001-1004")
    assert session.project.path is not None

    drag(qtbot, window, (338, 138), (626, 443))
    box = session.state.crops[1001]
    assert (box.x, box.y, box.width, box.height) == pytest.approx((338, 138, 288, 305), abs=3)

    run_whole(qtbot, window)
    assert set(session.run.errors) == set(FRAMES)
    assert "CPU" in panel.top.device.text()
    model = document_of(window)
    assert all(set(shape.keys) == set(FRAMES) for shape in model.shapes)

    key(qtbot, window, Qt.Key.Key_N)
    worst = session.frame
    seams = [shape.name for shape in model.shapes if shape.role == "seam"]  # N looks at seams only
    worst_of = {frame: max(session.run.error_at(frame, name) or 0.0 for name in seams) for frame in FRAMES}
    assert worst_of[worst] == max(worst_of.values())

    drag_a_landmark(qtbot, window, model)
    fixed = document_of(window)
    spread_it(qtbot, window, fixed)
    key(qtbot, window, Qt.Key.Key_Y)
    assert set(session.state.marks.values()) == {"accepted"}

    set_the_seam(qtbot, window)
    run_a_part(qtbot, window)
    export_it(qtbot, window, shot)
    undo_everything(qtbot, window, model)
    assert not [each for each in QApplication.topLevelWidgets() if isinstance(each, QDialog)]


def drag_a_landmark(qtbot: QtBot, window: MainWindow, model: RotoDocument) -> None:
    """Drag the chin 14 px down: the outline follows on every frame of the hold, and nothing else gets a key."""
    panel, frame = window.panel, window.panel.session.frame
    key(qtbot, window, Qt.Key.Key_L)
    names = model.landmarks.names
    outline = model.shape("face_outline").at(frame)
    lowest = max(range(len(outline)), key=lambda index: outline[index].y)
    row = model.landmarks.keys[frame]
    index = min(
        (k for k, mark in enumerate(row) if mark is not None),
        key=lambda k: (row[k].x - outline[lowest].x) ** 2 + (row[k].y - outline[lowest].y) ** 2,  # type: ignore[union-attr]
    )
    mark = row[index]
    assert mark is not None
    drag(qtbot, window, (mark.x, mark.y), (mark.x, mark.y + 14))
    qtbot.waitUntil(lambda: not panel.session.edits.is_dragging, timeout=120_000)
    qtbot.waitUntil(lambda: document_of(window) != model, timeout=120_000)
    fixed = document_of(window)
    first, last = panel.session.run.hold_of(frame)
    assert last > first
    for each in (first, last):
        moved = fixed.landmarks.keys[each][index]
        assert moved is not None
        assert moved.y == pytest.approx(mark.y + 14, abs=1.5)
        assert names[index] in fixed.landmarks.hand[each]
        assert fixed.shape("face_outline").at(each)[lowest].y > outline[lowest].y + 4
    other = next(each for each in FRAMES if not first <= each <= last)
    nudge_it(qtbot, window, index)
    assert fixed.shape("face_outline").keys[other] == model.shape("face_outline").keys[other]


def nudge_it(qtbot: QtBot, window: MainWindow, index: int) -> None:
    """Nudge the selected landmark three pixels to the right, the outline with it; one undo reverts all."""
    session, before = window.panel.session, document_of(window)
    assert window.panel.canvas.context.landmarks == {index}
    window.panel.canvas._burst.setInterval(10_000_000)  # a slow machine must not make two bursts of it
    for _ in range(3):
        key(qtbot, window, Qt.Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    session.edits.end_burst()
    qtbot.waitUntil(lambda: not session.edits.is_dragging, timeout=120_000)
    after, frame = document_of(window), session.frame
    a, b = before.landmarks.keys[frame][index], after.landmarks.keys[frame][index]
    assert a is not None
    assert b is not None
    assert (b.x - a.x, b.y - a.y) == pytest.approx((3, 0))
    moved = [q.x - p.x for p, q in zip(before.shape("face_outline").at(frame), after.shape("face_outline").at(frame))]
    assert max(moved) > 1
    key(qtbot, window, Qt.Key.Key_Z, CONTROL)
    assert document_of(window) == before


def spread_it(qtbot: QtBot, window: MainWindow, fixed: RotoDocument) -> None:
    """Drag the bracket over the whole shot and press Return: holds move as one, and the keyed frame stays."""
    panel, timeline, session = window.panel, window.panel.timeline, window.panel.session
    assert timeline.reach is not None
    y = int(timeline.place_of("reach"))
    for end, to in ((timeline.reach.first, 1001), (timeline.reach.last + 1, 1005)):
        start, goal = QPoint(int(timeline.x_of(end)), y), QPoint(int(timeline.x_of(to)), y)
        qtbot.mousePress(timeline, LEFT, pos=start)
        qtbot.mouseMove(timeline, goal)
        qtbot.mouseRelease(timeline, LEFT, pos=goal)
    assert (timeline.reach.first, timeline.reach.last) == (1001, 1004)
    key(qtbot, window, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: session.edits.last_step == "spread", timeout=120_000)
    spread = document_of(window).shape("face_outline")
    own = fixed.shape("face_outline")
    held = set(session.held_frames())
    others = [frame for frame in FRAMES if frame not in held]
    assert spread.at(others[0]) == spread.at(others[1]) != own.at(others[0])
    assert spread.at(session.frame) == own.at(session.frame)
    assert "moved, most by" in panel.status.text.text()
    assert timeline.reach.is_spread


def set_the_seam(qtbot: QtBot, window: MainWindow) -> None:
    """Widen a seam, preview it, and render again: only the frames whose paint is out of date."""
    panel, session = window.panel, window.panel.session
    session.select("seam_bridge")
    panel.inspector.setCurrentWidget(panel.inspector.seam)
    tab = panel.inspector.seam
    with qtbot.waitSignal(panel.previewer.shown, timeout=120_000, check_params_cb=lambda found: found is not None):
        tab.preview.click()
    assert tab.meter.before is not None
    assert tab.meter.after is not None
    assert tab.meter.after < tab.meter.before
    plate, painted = (panel.frame_cache.image(name, session.frame) for name in (PLATE, CLEAN))
    assert plate is not None
    assert painted is not None
    assert plate.size() == painted.size()
    assert plate != painted
    tab.width_px.setValue(tab.width_px.value() + 3)
    stale, seen = panel.session.stale_frames(), panel.session.run.seam
    assert stale == list(FRAMES)
    assert tab.render_button.text() == "Render 4 frames"
    touch_up(qtbot, window)
    tab.preview.click()
    with qtbot.waitSignal(panel.jobs.ended, timeout=120_000) as ended:
        tab.render_button.click()
    assert ended.args == ["clean", True], panel.status.text.text()
    assert all(panel.session.run.seam[frame] != seen[frame] for frame in FRAMES)  # measured as it is painted now
    assert (tab.meter.before, tab.meter.after) == panel.session.run.seam[session.frame]
    assert panel.session.stale_frames() == []


def touch_up(qtbot: QtBot, window: MainWindow) -> None:
    """Set the source by Ctrl+click; a stroke over the seam is one step, on both frames of the hold."""
    panel, session = window.panel, window.panel.session
    key(qtbot, window, Qt.Key.Key_K)
    point = document_of(window).shape("seam_bridge").at(session.frame)[2]
    source = panel.canvas.view.to_screen(point.x, point.y + 20).toPoint()
    qtbot.mouseClick(panel.canvas, LEFT, CONTROL, source)
    with qtbot.waitSignal(panel.previewer.shown, timeout=120_000, check_params_cb=lambda found: found is not None):
        drag(qtbot, window, (point.x, point.y), (point.x + 12, point.y))
    assert session.edits.last_step == "clone stroke"
    (stroke,) = session.state.strokes[session.frame]
    assert (stroke.dx, stroke.dy) == pytest.approx((0, 20), abs=1)
    assert set(session.state.strokes) == set(session.held_frames())
    key(qtbot, window, Qt.Key.Key_V)


def run_a_part(qtbot: QtBot, window: MainWindow) -> None:
    """Run the frames between In and Out again: the artist's work stays, and the other two frames do not change."""
    panel, session = window.panel, window.panel.session
    before, record = session.state, session.run
    assert before.document is not None
    held = next(iter(before.document.landmarks.hand))
    first, last = (1003, 1004) if held < 1003 else (1001, 1002)
    untouched = set(FRAMES) - {first, last}
    session.go_to(first)
    key(qtbot, window, Qt.Key.Key_I)
    session.go_to(last)
    key(qtbot, window, Qt.Key.Key_O)
    assert panel.top.run.text() == f"Run {first}\u2013{last}"
    run_whole(qtbot, window)
    qtbot.waitUntil(lambda: session.edits.last_step == "carry on corrections", timeout=120_000)  # what was spread there
    assert any("2 frames with puppet" in line for line in panel.status.history)
    after = document_of(window)
    for shape in before.document.shapes:
        assert set(after.shape(shape.name).keys) == set(FRAMES)
        for frame in untouched:
            assert after.shape(shape.name).keys[frame] == shape.keys[frame]
    assert after.shape("face_outline").at(held) == before.document.shape("face_outline").at(held)
    assert {frame: session.run.errors[frame] for frame in untouched} == {f: record.errors[f] for f in untouched}
    assert (session.state.marks, session.state.strokes) == (before.marks, before.strokes)
    assert set(session.stale_frames()) <= {first, last}
    key(qtbot, window, Qt.Key.Key_I, CONTROL)
    while session.edits.last_step != "clone stroke":
        key(qtbot, window, Qt.Key.Key_Z, CONTROL)
    assert session.state == before


def export_it(qtbot: QtBot, window: MainWindow, shot: Path) -> None:
    """Export: keys are counted before, and the file for Nuke, read back, agrees with the document to half a pixel."""
    panel = window.panel
    tab = panel.inspector.export
    panel.inspector.setCurrentWidget(tab)
    qtbot.waitUntil(lambda: tab.count.text() not in ("", "Counting keys"), timeout=120_000)
    assert "keys, at most" in tab.count.text()
    tab.formats[".svg"].setChecked(True)
    with qtbot.waitSignal(panel.exports.ended, timeout=120_000) as ended:
        key(qtbot, window, Qt.Key.Key_E, CONTROL)
    assert ended.args == [True], panel.status.text.text()
    out = panel.session.out
    assert out is not None
    written, _ = formats.read(out / "export" / "shapes.nk", width=960, height=540)
    document = document_of(window)
    for shape in document.shapes:
        for frame in FRAMES:
            for a, b in zip(shape.at(frame), written.shape(shape.name).at(frame), strict=True):
                assert (a.x, a.y) == pytest.approx((b.x, b.y), abs=0.52)
    assert (out / "export" / "shapes.svg").is_file()
    assert "read back" in tab.result.text()
    assert nuke.NOT_KEPT
    assert sum(len(shape.keys) for shape in written.shapes) < sum(len(shape.keys) for shape in document.shapes)


def undo_everything(qtbot: QtBot, window: MainWindow, model: RotoDocument) -> None:
    session = window.panel.session
    done = document_of(window)
    n = 0
    while session.edits.can_undo:
        key(qtbot, window, Qt.Key.Key_Z, CONTROL)
        n += 1
        assert n < 50
    assert session.state.document is None
    assert session.state.crops == {}
    while session.edits.last_step != "clone stroke":  # what comes after it was undone before
        key(qtbot, window, Qt.Key.Key_Z, CONTROL | Qt.KeyboardModifier.ShiftModifier)
    assert document_of(window) == done


def test_a_shot_that_was_closed_comes_back_with_its_undo(qtbot: QtBot, window: MainWindow, shot: Path) -> None:
    """Continues after the test above, which closed the shot."""
    panel, session = window.panel, window.panel.session
    window.menus.fill_recent()
    assert panel.preferences.recent == ()
    project = next((shot.parent / "sh010_rotopaint" / "plate").glob("*.rotopaint"))
    open_shot(qtbot, window, project)
    assert session.project.path == project
    assert session.plate is not None
    assert session.edits.last_step == "clone stroke"
    before = session.state
    key(qtbot, window, Qt.Key.Key_Z, CONTROL)
    assert session.state.strokes == {}
    key(qtbot, window, Qt.Key.Key_Z, CONTROL)
    assert document_of(window) != before.document
    for _ in range(2):
        key(qtbot, window, Qt.Key.Key_Z, CONTROL | Qt.KeyboardModifier.ShiftModifier)
    assert session.state == before
    assert set(session.state.marks.values()) == {"accepted"}
    assert session.run.errors


CRASH = """
import os, sys
from dataclasses import replace
from PySide6.QtWidgets import QApplication
from rotopaint_ai.shapes import edit
from rotopaint_ui.standalone.app import MainWindow

application = QApplication([])
window = MainWindow()
window.show()
window.panel.open_path(sys.argv[1])
session = window.panel.session

def work():
    for dx in (1, 2, 3):
        document = edit.move_points(session.state.document, "seam_bridge", 1001, {0: (dx, 0)})
        session.edits.push(f"nudge {dx}", replace(session.state, document=document))
    print("worked", session.state.document.shape("seam_bridge").at(1001)[0].x, flush=True)
    application.processEvents()
    import time
    time.sleep(60)

window.panel.jobs.read.connect(lambda results, is_run: work())
application.exec()
"""


def test_a_killed_program_loses_nothing_that_was_done(qtbot: QtBot, window: MainWindow, shot: Path) -> None:
    project = next((shot.parent / "sh010_rotopaint" / "plate").glob("*.rotopaint"))
    environment = {**Engine(sys.executable, package_folders()).environment(), "QT_QPA_PLATFORM": "offscreen"}
    with subprocess.Popen(
        [sys.executable, "-c", CRASH, str(project)], stdout=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert child.stdout is not None
        line = next(each for each in child.stdout if each.startswith("worked"))
        os.kill(child.pid, signal.SIGKILL)
    open_shot(qtbot, window, project)
    session = window.panel.session
    assert document_of(window).shape("seam_bridge").at(1001)[0].x == pytest.approx(float(line.split()[1]))
    assert any("Recovered" in text for text in window.panel.status.history)
    assert session.edits.last_step == "nudge 3"
    for dx in (3, 2, 1):
        before = document_of(window).shape("seam_bridge").at(1001)[0].x
        key(qtbot, window, Qt.Key.Key_Z, CONTROL)
        assert document_of(window).shape("seam_bridge").at(1001)[0].x == pytest.approx(before - dx)
