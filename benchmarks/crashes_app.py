"""The standalone app is killed (SIGKILL) at random moments while mouse and keys work in it.

    python benchmarks/crashes_app.py [--kills 50] [--seed 1] [--json FILE]

The real window, offscreen, on a small plate: points, tangents, crop boxes, seam widths, strokes, groups and landmarks
are dragged, points and landmarks nudged, frames marked, shapes renamed, faces chosen, all by Qt's own mouse and
key events; some edits are undone and redone. After each edit the window reports a hash of its state on a pipe. The same
script without a kill gives the expected states. After a kill the project is opened again. It must hold the state after
the last reported edit, or after the edit in progress, and undo must go back through the same states to the first. A
stand-in for the live engine answers landmark drags. `benchmarks/crashes.py` tests what is kept of a run.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from crashes import command_line, integrity_of
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QColor, QImage, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.project import State, codecs
from rotopaint_ai.project.state import Spread
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape
from rotopaint_ui.session.correction_edits import KeysReply, LandmarkDrag, ShapesReply
from rotopaint_ui.session.session import ShotSession

FRAMES, SIZE = range(1001, 1009), (320, 240)
N_ACTS = 90
LEFT, NO = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
KINDS = (
    "point",
    "landmark",
    "nudge",
    "nudge landmark",
    "crop",
    "width",
    "clone",
    "group",
    "mark",
    "rename",
    "face",
    "undo",
    "redo",
)
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class EditReport:
    """The window's report of an edit: its kind, and a hash of the state."""

    kind: str
    state: str


@dataclass(frozen=True, slots=True)
class Crash:
    """One kill: the number of edits before it, how many of them are on disk, and the states of undo."""

    edits: int
    on_disk: int
    undone: int
    integrity: str
    is_right: bool


def state_print(state: State) -> str:
    """A hash of everything in a state."""
    rows = sorted(repr(place).encode() + codecs.pack(place.track.kind, value) for place, value in _places(state))
    return hashlib.blake2b(b"".join(rows), digest_size=12).hexdigest()


def _places(state: State) -> Iterator[tuple[codecs.TrackPlace, object]]:
    return codecs.changes(State(), state)


# --- the window -------------------------------------------------------------------------------------------------------


class StandIn:
    """A stand-in for the live engine: all shapes move by the motion of the first landmark."""

    def drag(self, question: LandmarkDrag, reply: ShapesReply) -> None:
        a, b = question.before[0], question.after[0]
        assert a is not None
        assert b is not None
        seam = question.document.shape("seam").at(question.frame)
        reply({"seam": tuple(p._replace(x=p.x + b.x - a.x, y=p.y + b.y - a.y) for p in seam)})

    def spread(self, way: str, state: State, spread: Spread | None, reply: KeysReply) -> None:
        reply(None)


def make_shot(folder: Path) -> Path:
    """Write a plate of grey frames and the results of a run; returns the first frame."""
    (folder / "plates").mkdir(parents=True)
    picture = QImage(*SIZE, QImage.Format.Format_RGB32)
    for frame in FRAMES:
        picture.fill(QColor(80 + frame - FRAMES[0], 80, 80))
        picture.save(str(folder / "plates" / f"plate.{frame}.png"))

    def key(frame: int) -> Key:
        y = 120.0 + frame - FRAMES[0]
        return Key(tuple(ControlPoint(x, y, -9, 0, 9, 0) for x in (80.0, 130.0, 180.0, 230.0)))

    marks = {frame: (Landmark(130.0, 60.0, 1.0), Landmark(200.0, 60.0, 1.0)) for frame in FRAMES}
    seam = RotoShape("seam", False, "seam", {frame: key(frame) for frame in FRAMES}, width_px=8.0)
    document = RotoDocument(*SIZE, FRAMES[0], FRAMES[-1], landmarks=LandmarkKeys(("a", "b"), marks), shapes=(seam,))
    (folder / "out").mkdir()
    documents.write(folder / "out" / "shapes.roto.json", document)
    return folder / "plates" / f"plate.{FRAMES[0]}.png"


class Hands:
    """Sends mouse and key events to the viewer of a window."""

    def __init__(self, window: object, application: QApplication) -> None:
        self.panel = window.panel  # type: ignore[attr-defined]
        self.session: ShotSession = self.panel.session
        self.application = application

    def wait(self, holds: Callable[[], object]) -> None:
        """Process events until a condition is true."""
        end = time.monotonic() + PATIENCE_S
        while not holds():
            self.application.processEvents()
            time.sleep(0.002)
            if time.monotonic() > end:
                sys.exit(f"did not come; the status says: {self.panel.status.text.text()}")

    def drag(self, start: tuple[float, float], way: tuple[float, float], held: Qt.KeyboardModifier = NO) -> None:
        """Press, move in three steps, release; positions on the plate."""
        canvas = self.panel.canvas
        a = canvas.view.to_screen(*start).toPoint()
        b = canvas.view.to_screen(start[0] + way[0], start[1] + way[1]).toPoint()
        QTest.mousePress(canvas, LEFT, held, a)
        for share in (0.3, 0.6, 1.0):
            point = QPointF(a) + (QPointF(b) - QPointF(a)) * share
            button = Qt.MouseButton.NoButton
            event = QMouseEvent(QEvent.Type.MouseMove, point, canvas.mapToGlobal(point), button, LEFT, held)
            self.application.sendEvent(canvas, event)
        QTest.mouseRelease(canvas, LEFT, held, b)

    def type_face(self, name: str) -> None:
        """Type a name into the box Face, then Return."""
        field = self.panel.top.face.lineEdit()
        field.setFocus()
        field.selectAll()
        QTest.keyClicks(field, name)
        QTest.keyClick(field, Qt.Key.Key_Return)

    def key(self, key: Qt.Key, held: Qt.KeyboardModifier = NO) -> None:
        """Press a key in the viewer."""
        QTest.keyClick(self.panel.canvas, key, held)


def act(hands: Hands, draw: random.Random) -> str:
    """Do one edit of a script that is the same for a seed; returns the kind of the edit."""
    session, kind = hands.session, draw.choice(KINDS)
    session.go_to(draw.choice(FRAMES))
    way = draw.uniform(-14, 14), draw.choice((-9.0, 9.0))
    document = session.document
    assert document is not None
    seam = document.shapes[0].name  # it has another name while its face is set aside
    p = document.shape(seam).at(session.frame)[draw.randrange(4)]
    if kind in ("point", "nudge"):
        hands.panel.take_tool("select")
        session.select(seam)
        if kind == "point":
            hands.drag((p.x, p.y), way, CTRL if draw.random() < 0.3 else NO)
        else:
            for _ in range(3):
                hands.key(Qt.Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    elif kind in ("landmark", "nudge landmark"):
        if session.frame not in document.landmarks.keys:
            return kind  # of a face that was not run
        hands.panel.take_tool("landmark")
        mark = document.landmarks.keys[session.frame][0]
        assert mark is not None
        hands.drag((mark.x, mark.y), way if kind == "landmark" else (0, 0))
        if kind == "nudge landmark":
            for _ in range(3):
                hands.key(Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    elif kind == "crop":
        hands.panel.take_tool("crop")
        hands.drag((20 + draw.uniform(0, 20), 20), (180, 150))
    elif kind == "width":
        hands.panel.take_tool("width")
        session.select(seam)
        hands.drag((p.x + 20, p.y + 4), (0, way[1] / 3), SHIFT if draw.random() < 0.5 else NO)
    elif kind == "clone":
        hands.panel.canvas.tool = "clone"
        QTest.mouseClick(hands.panel.canvas, LEFT, CTRL, hands.panel.canvas.view.to_screen(60, 200).toPoint())
        hands.drag((p.x, p.y), way)
    elif kind == "group" and document.layers:
        session.select_layer(document.layers[0].name)
        hands.panel.take_tool("transform")
        hands.drag((p.x, p.y), way)
    elif kind == "group":
        session.select(seam)
        hands.key(Qt.Key.Key_G, CTRL)
    elif kind == "mark":
        hands.key(draw.choice((Qt.Key.Key_Y, Qt.Key.Key_X)))
    elif kind == "rename":
        session.names.rename(seam, f"seam {draw.randrange(1000)}")
    elif kind == "face":
        hands.type_face(draw.choice(("Anna", "Bo", "Cy")))
    else:
        hands.key(Qt.Key.Key_Z, CTRL if kind == "undo" else CTRL | SHIFT)
    session.edits.settle()
    return kind


def perform(folder: Path, seed: int) -> None:
    """The child process: work until it is killed, or the script ends."""
    os.environ["ROTOPAINT_PREFERENCES"] = str(folder / "preferences.json")
    from rotopaint_ui.standalone.app import MainWindow

    application = QApplication([])
    window = MainWindow()
    window.resize(1000, 760)
    window.show()
    hands, draw = Hands(window, application), random.Random(seed)
    hands.panel.open_path(str(make_shot(folder)), folder / "out")
    hands.wait(lambda: hands.session.project.path is not None and hands.session.document is not None)
    hands.wait(lambda: hands.panel.canvas.tool == "select")
    hands.session.corrections.live = StandIn()
    hands.panel.canvas._burst.setInterval(10_000_000)  # the gesture ends with this edit
    _say("begin", hands.session.state)
    for _ in range(N_ACTS):
        kind = act(hands, draw)
        application.processEvents()
        _say(kind, hands.session.state)
    window.close()


def _say(kind: str, state: State) -> None:
    os.write(1, f"{kind.replace(' ', '_')} {state_print(state)}\n".encode())


# --- evaluation -------------------------------------------------------------------------------------------------------


def work(folder: Path, seed: int, kill_after_s: float | None) -> list[EditReport]:
    """Start a window, and kill it some time after its shot is open (None: let it end); returns its reports."""
    folder.mkdir()
    words = [sys.executable, __file__, "--perform", str(folder), "--seed", str(seed)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        output = child.stdout.readline()
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            child.send_signal(signal.SIGKILL)
        output += child.stdout.read()
    rows = (line.split() for line in output.decode().split("\n")[:-1])
    return [EditReport(kind, state) for kind, state in rows]


def undo_chain(acknowledged: Sequence[EditReport]) -> list[str]:
    """The states to which undo goes back, the nearest last, from the reports of all edits."""
    behind: list[str] = []
    ahead: list[str] = []
    shown = acknowledged[0].state
    for each in acknowledged[1:]:
        if each.kind in ("undo", "redo"):
            source, target = (behind, ahead) if each.kind == "undo" else (ahead, behind)
            if source:
                target.append(shown)
                shown = source.pop()
        elif each.state != shown:
            behind.append(shown)
            ahead.clear()
            shown = each.state
        assert shown == each.state, f"{each.kind} led to another state than its undo says"
    return behind


def look(project: Path, whole: Sequence[EditReport], n: int) -> Crash:
    """Compare a killed window's project with the reports of the full script; `n`: number of its own reports."""
    session = ShotSession()
    session.open_project(project)
    found = state_print(session.state)
    on_disk = next((k for k in (n, n + 1) if k <= len(whole) and whole[k - 1].state == found), -1)
    is_right, undone = on_disk > 0, 0
    for wanted in reversed(undo_chain(whole[:on_disk])) if is_right else ():
        session.edits.undo()
        undone += 1
        is_right = is_right and state_print(session.state) == wanted
    is_right = is_right and not session.edits.can_undo
    session.close()
    integrity = integrity_of(project)
    return Crash(n - 1, on_disk - 1, undone, integrity, is_right and integrity == "ok")


def measure(folder: Path, kills: int, seed: int) -> Iterator[Crash]:
    """Kills at random moments over the length of a script, ten per script."""
    draw = random.Random(seed)
    whole: list[EditReport] = []
    for k in range(kills):
        if k % 10 == 0:
            script, start = draw.randrange(1 << 30), time.monotonic()
            whole = work(folder / f"whole{k}", script, None)
            took = max(time.monotonic() - start - 1.5, 0.5)  # without the start of the program
        output = work(folder / f"{k}", script, draw.uniform(0, took))
        assert output == whole[: len(output)], "the script is not reproducible"
        yield look(next((folder / f"{k}" / "out").glob("*.rotopaint")), whole, len(output))


def _summary(found: Sequence[Crash]) -> dict[str, Any]:
    return {
        "kills": len(found),
        "right": sum(each.is_right for each in found),
        "edits_before_the_kill": sorted(each.edits for each in found),
        "edits_lost": sum(max(each.edits - each.on_disk, 0) for each in found),
        "steps_undone": sum(each.undone for each in found),
        "wrong": [asdict(each) for each in found if not each.is_right],
    }


if __name__ == "__main__":
    sys.exit(command_line(__doc__, perform, measure, _summary))
