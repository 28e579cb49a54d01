"""The response times of the panel (goal P5): `python benchmarks/panel.py --help`.

It drives the real panel with its real decoder process, offscreen: mouse events go through Qt's event loop, and a step
ends when the viewer has painted. There are 20 shapes x 500 keys and 43 landmarks on a 1920 x 1080 plate. It measures:

- the drag of a control point in the panel, and in the same run in a plain QGraphicsView editor with the same shapes;
- the drag of a landmark that all 20 shapes follow; a stand-in for the live engine answers after 1 ms. With `--engine`
  also on the shipped sample shot with the real engine and pack (64 landmarks; the pack's 10 shapes follow, and there
  are 10 drawn shapes);
- undo and redo of steps that moved a shape;
- the next frame and playback from the cache; the time to the first picture of 2,000 frames; memory while scrubbing.

Times depend on the machine; compare them only with the baseline of the same run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from panel_peer import PlainEditor

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEvent, QObject, QPointF, Qt, QTimer
from PySide6.QtGui import QMouseEvent, QPixmap
from PySide6.QtWidgets import (
    QApplication,
    QWidget,
)

import rotopaint_models
from rotopaint_ai.project.state import Spread, State
from rotopaint_ai.shapes.layers import Layer, LayerPose
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, Points, RotoDocument, RotoShape
from rotopaint_ui.engine.frame_cache import PLATE
from rotopaint_ui.host import Engine, PlateChoice, package_folders
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.correction_edits import KeysReply, LandmarkDrag, ShapesReply

WIDTH, HEIGHT = 1920, 1080
N_SHAPES, N_KEYS, N_MARKS = 20, 500, 43
FIRST = 1001
ENGINE_MS = 1


class Desk:
    """A host with an engine and no chosen plate."""

    name = "standalone"
    export_label = "Export"

    def engine(self) -> Engine:
        return Engine(sys.executable, package_folders())

    def chosen_plate(self) -> PlateChoice | None:
        return None

    def export(self, document: RotoDocument, shapes: Path) -> str:
        return ""


class StandIn:
    """A stand-in for the live engine that answers after 1 ms: all shapes move by half of the landmarks' motion."""

    def drag(self, question: LandmarkDrag, reply: ShapesReply) -> None:
        offsets = [(b.x - a.x, b.y - a.y) for a, b in zip(question.before, question.after) if a and b and a != b]
        dx, dy = (sum(each) / 2 for each in zip(*offsets)) if offsets else (0.0, 0.0)
        shapes = {
            shape.name: tuple(p._replace(x=p.x + dx, y=p.y + dy) for p in shape.at(question.frame))
            for shape in question.document.shapes
        }
        QTimer.singleShot(ENGINE_MS, lambda: reply(shapes))

    def spread(self, way: str, state: State, spread: Spread | None, reply: KeysReply) -> None:
        reply(None)


class Paints(QObject):
    """Counts the paint events of a widget."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.count = 0
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            self.count += 1
        return False


# --- the shot ---------------------------------------------------------------------------------------------------------


def ring(x: float, y: float, rx: float, ry: float, n: int = 12) -> Points:
    """A closed curve of n points."""
    k = 4 / 3 * math.tan(math.pi / 2 / n)
    turns = [(math.cos(2 * math.pi * i / n), math.sin(2 * math.pi * i / n)) for i in range(n)]
    return tuple(
        ControlPoint(x + rx * c, y + ry * s, k * rx * s, -k * ry * c, -k * rx * s, k * ry * c) for c, s in turns
    )


def line(x: float, y: float, length: float, n: int = 8) -> Points:
    """An open curve of n points."""
    step = length / (n - 1)
    return tuple(ControlPoint(x + step * i, y + 20 * math.sin(i), -step / 3, 0, step / 3, 0) for i in range(n))


def make_document(n_frames: int) -> RotoDocument:
    """Four seams and sixteen closed shapes, keyed at every frame, and landmarks all over them.

    The last four have a key every second, in a group that turns.
    """
    frames = range(FIRST, FIRST + n_frames)
    turned = {frames[0]: LayerPose(pivot_x=950, pivot_y=860), frames[-1]: LayerPose(0, 0, 20, 1, 1, 950, 860)}
    layer, in_group = Layer("group", turned), N_SHAPES - 4

    def points(index: int, frame: int) -> Points:
        sway = 20 * math.sin(frame / 15)
        if index < 4:
            return line(520 + sway, 240 + 170 * index, 860)
        column, row = (index - 4) % 4, (index - 4) // 4
        return ring(500 + 300 * column + sway, 200 + 220 * row, 110, 70)

    def marks(frame: int) -> tuple[Landmark, ...]:
        sway = 20 * math.sin(frame / 15)
        return tuple(Landmark(450 + 160 * (i % 8) + sway, 180 + 130 * (i // 8), 1.0 + i % 4) for i in range(N_MARKS))

    shapes = tuple(
        RotoShape(
            f"seam {i}" if i < 4 else f"part {i}",
            i >= 4,
            "seam" if i < 4 else "matte",
            {frame: Key(points(i, frame)) for frame in (frames if i < in_group else frames[::24])},
            width_px=6.0 if i < 4 else None,
            feather_px=2.0,
            layer=layer if i >= in_group else None,
        )
        for i in range(N_SHAPES)
    )
    names = tuple(f"mark {i}" for i in range(N_MARKS))
    landmarks = LandmarkKeys(names, {frame: marks(frame) for frame in frames})
    return RotoDocument(WIDTH, HEIGHT, FIRST, FIRST + n_frames - 1, landmarks=landmarks, shapes=shapes)


def write_frames(folder: Path, n_frames: int) -> str:
    """Write a plate of `n_frames` files, hard links to a few pictures; returns its pattern."""
    folder.mkdir(parents=True)
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    rng = np.random.default_rng(7)
    originals = []
    for index in range(8):
        base = 90 + 50 * np.sin(columns / 97 + index) * np.cos(rows / 71)
        picture = np.clip(base[..., None] + rng.normal(0, 4, (HEIGHT, WIDTH, 3)) + (0, 8, 16), 0, 255).astype(np.uint8)
        path = folder / f"original{index}.jpg"
        cv2.imwrite(str(path), picture, [cv2.IMWRITE_JPEG_QUALITY, 90])
        originals.append(path)
    for number in range(n_frames):
        os.link(originals[number % len(originals)], folder / f"plate.{FIRST + number}.jpg")
    for path in originals:
        path.unlink()
    return str(folder / "plate.####.jpg")


# --- time and memory --------------------------------------------------------------------------------------------------


def until(done: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Process Qt events until `done` is true."""
    end = time.perf_counter() + timeout_s
    while not done():
        QApplication.processEvents()
        if time.perf_counter() > end:
            raise TimeoutError("the panel did not reach the expected state")


def send(widget: QWidget, kind: QEvent.Type, place: QPointF, held: Qt.MouseButton) -> None:
    """Send a mouse event as the window system would."""
    button = Qt.MouseButton.NoButton if kind == QEvent.Type.MouseMove else Qt.MouseButton.LeftButton
    event = QMouseEvent(kind, place, widget.mapToGlobal(place), button, held, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(widget, event)


Times = tuple[list[float], list[float]]  # wall time, processor time


def drag(
    widget: QWidget, paints: Paints, start: QPointF, steps: int, is_settled: Callable[[], bool] = lambda: True
) -> Times:
    """Milliseconds from each mouse move to its paint, and with `is_settled` also to the answer of the engine."""
    send(widget, QEvent.Type.MouseButtonPress, start, Qt.MouseButton.LeftButton)
    until(lambda: not QApplication.processEvents() or True)
    times, cpu = [], []
    for step in range(steps):
        angle = 2 * math.pi * step / 60
        place = start + QPointF(40 * math.sin(angle) + 8, 25 * (1 - math.cos(angle)) + 8)
        before, begin, work = paints.count, time.perf_counter(), time.thread_time()
        send(widget, QEvent.Type.MouseMove, place, Qt.MouseButton.LeftButton)
        until(lambda before=before: paints.count > before and is_settled())  # type: ignore[misc]
        times.append(1000 * (time.perf_counter() - begin))
        cpu.append(1000 * (time.thread_time() - work))
    send(widget, QEvent.Type.MouseButtonRelease, place, Qt.MouseButton.NoButton)
    for _ in range(20):
        QApplication.processEvents()
    return times, cpu


def spread_of(times: Sequence[float], cpu: Sequence[float]) -> dict[str, float]:
    """Median, 95th percentile and worst of the wall time, and of the processor time of the GUI thread (ms)."""
    rows = (("median", times, 50), ("p95", times, 95), ("worst", times, 100), ("work", cpu, 50), ("work_p95", cpu, 95))
    return {name: round(float(np.percentile(each, q)), 2) for name, each, q in rows}


def resident_mb(pid: int) -> float:
    """The current resident memory of a process, megabytes."""
    for text in Path(f"/proc/{pid}/status").read_text().splitlines():
        if text.startswith("VmRSS"):
            return int(text.split()[1]) / 1024
    return 0.0


# --- measurements -----------------------------------------------------------------------------------------------------


def open_shot(panel: Panel, pattern: str, folder: Path) -> float:
    """Seconds from opening a plate to its first picture on the screen."""
    begin = time.perf_counter()
    panel.open_plate(PlateChoice(pattern), folder / "out")
    until(lambda: panel.frame_cache.image(PLATE, FIRST) is not None)
    panel.canvas.repaint()
    return time.perf_counter() - begin


def measure_drags(panel: Panel, document: RotoDocument, steps: int) -> dict[str, Any]:
    """Measure the drag of a point and of a landmark in the panel, and of a point in the plain editor."""
    session, canvas = panel.session, panel.canvas
    session.edits.show(replace(session.state, document=document, predicted=document))
    session.corrections.live = StandIn()
    session.listeners[0]()
    paints = Paints(canvas)
    panel.take_tool("select")
    session.select("part 6")
    place = document.shape("part 6").at(FIRST)[3]
    for _ in range(30):
        QApplication.processEvents()
    point = drag(canvas, paints, canvas.view.to_screen(place.x, place.y), steps)
    panel.take_tool("landmark")
    mark = document.landmarks.keys[FIRST][10]
    assert mark is not None
    for _ in range(30):
        QApplication.processEvents()
    landmark = drag(canvas, paints, canvas.view.to_screen(mark.x, mark.y), steps, _followed(panel, paints))
    image = panel.frame_cache.image(PLATE, FIRST)
    assert image is not None
    plain = PlainEditor(document, FIRST, QPixmap.fromImage(image))
    plain.resize(canvas.size())
    plain.show()
    until(lambda: plain.isVisible())
    for _ in range(10):
        QApplication.processEvents()
    corner = QPointF(plain.mapFromScene(QPointF(place.x, place.y)))
    base = drag(plain.viewport(), Paints(plain.viewport()), corner, steps)
    plain.close()
    return {"point": spread_of(*point), "landmark": spread_of(*landmark), "plain_editor_point": spread_of(*base)}


def _followed(panel: Panel, paints: Paints) -> Callable[[], bool]:
    """A function that tells whether the shapes have followed the landmark and were painted since."""
    session = panel.session
    seen: list[tuple[Any, int]] = [(session.state, paints.count)]

    def note() -> None:
        if seen[0][0] is not session.state:
            seen[0] = session.state, paints.count

    def is_settled() -> bool:
        return not session.corrections.is_asking and (paints.count > seen[0][1] or not session.edits.is_dragging)

    session.listeners.append(note)
    return is_settled


def measure_steps(panel: Panel, n_steps: int) -> dict[str, float]:
    """Milliseconds from the key press to the picture, for frames in the cache."""
    session, paints = panel.session, Paints(panel.canvas)
    frames = list(range(FIRST, FIRST + 24))
    for frame in frames:
        session.go_to(frame)
        until(lambda frame=frame: panel.frame_cache.image(PLATE, frame) is not None)  # type: ignore[misc]
    times, cpu = [], []
    for step in range(n_steps):
        before, begin, work = paints.count, time.perf_counter(), time.thread_time()
        session.go_to(frames[(step * 5 + 3) % len(frames)])
        until(lambda before=before: paints.count > before)  # type: ignore[misc]
        times.append(1000 * (time.perf_counter() - begin))
        cpu.append(1000 * (time.thread_time() - work))
    return spread_of(times, cpu)


def measure_undo(panel: Panel, n_steps: int) -> dict[str, float]:
    """Milliseconds from undo or redo to the picture, for steps that moved a shape."""
    session, paints = panel.session, Paints(panel.canvas)
    panel.take_tool("select")
    session.select("part 6")
    for _ in range(10):
        panel.canvas.edit("nudge_right")
        session.edits.end_burst()
    times, cpu = [], []
    for step in range(n_steps):
        for _ in range(5):
            QApplication.processEvents()
        before, begin, work = paints.count, time.perf_counter(), time.thread_time()
        panel.commands["undo" if step // 10 % 2 == 0 else "redo"].trigger()
        until(lambda before=before: paints.count > before)  # type: ignore[misc]
        times.append(1000 * (time.perf_counter() - begin))
        cpu.append(1000 * (time.thread_time() - work))
    return spread_of(times, cpu)


def measure_playback(panel: Panel, seconds: float) -> dict[str, float]:
    """The number of frames shown while 24 cached frames play at the plate's rate."""
    session, paints = panel.session, Paints(panel.canvas)
    assert session.plate is not None
    panel.canvas.set_span((FIRST, FIRST + 23))
    session.go_to(FIRST)
    panel.player.play(True)
    shown, work, end = [session.frame], time.thread_time(), time.perf_counter() + seconds
    first = paints.count
    while time.perf_counter() < end:
        QApplication.processEvents()
        if session.frame != shown[-1]:
            shown.append(session.frame)
        time.sleep(0.0005)
    work = time.thread_time() - work
    panel.player.play(False)
    panel.canvas.set_span(None)
    return {
        "wanted_fps": session.plate.fps,
        "shown_fps": round((len(shown) - 1) / seconds, 2),
        "painted_fps": round((paints.count - first) / seconds, 2),
        "cpu_ms_per_frame": round(1000 * work / max(len(shown) - 1, 1), 1),
    }


def measure_scrubbing(panel: Panel, n_frames: int) -> dict[str, Any]:
    """Memory of panel and decoder while the whole shot is scrubbed back and forth."""
    pids = (os.getpid(), panel.frame_cache.process.pid)
    start = [resident_mb(pid) for pid in pids]
    rng, peaks = random.Random(3), []
    for part in range(4):
        most = [0.0, 0.0]
        for step in range(n_frames // 4):
            panel.session.go_to(
                FIRST + (step * 7 + part * 11) % n_frames if part % 2 else FIRST + rng.randrange(n_frames)
            )
            frame = panel.session.frame
            if step % 3 == 0:
                until(lambda frame=frame: panel.frame_cache.image(PLATE, frame) is not None)  # type: ignore[misc]
            QApplication.processEvents()
            if step % 20 == 0:
                most = [max(a, resident_mb(pid)) for a, pid in zip(most, pids)]
        peaks.append([round(each) for each in most])
    return {
        "frames": n_frames,
        "cache_budget_mb": panel.preferences.cache_mb,
        "start_mb": [round(each) for each in start],
        "peak_mb_of_each_quarter": peaks,
        "growth_last_over_second_quarter": round(sum(peaks[3]) / sum(peaks[1]), 3),
    }


def measure_engine(steps: int, size: Sequence[int], folder: Path) -> dict[str, Any]:
    """Measure the drag of a landmark of the sample shot, whose shapes follow through the real engine process."""
    sample = Path(rotopaint_models.__file__).parent / "sample"
    crop = json.loads((sample / "crop.json").read_text())
    box = f"{crop['frame']}:{','.join(str(value) for value in crop['crop'])}"
    job = ["run", str(sample), "--crop", box, "--out", str(folder / "run"), "--no-clean"]
    subprocess.run([sys.executable, "-m", "rotopaint_ai", *job], check=True, capture_output=True)
    panel = Panel(Desk())
    panel.resize(*size)
    panel.show()
    panel.open_plate(PlateChoice(str(sample)), folder / "run")
    until(
        lambda: panel.session.document is not None and panel.frame_cache.image(PLATE, panel.session.frame) is not None
    )
    found = panel.session.document
    assert found is not None
    document = _with_drawn(found)
    panel.session.edits.show(replace(panel.session.state, document=document))
    panel.take_tool("landmark")
    names = document.landmarks.names
    mark = document.landmarks.keys[panel.session.frame][names.index("seam_bridge_4")]
    assert mark is not None
    paints, place = Paints(panel.canvas), panel.canvas.view.to_screen(mark.x, mark.y)
    drag(panel.canvas, paints, place, 20, _followed(panel, paints))  # the engine starts
    panel.session.edits.undo()
    times = drag(panel.canvas, paints, place, steps, _followed(panel, paints))
    panel.shut_down()
    return {"shapes": len(document.shapes), **spread_of(*times)}


def _with_drawn(document: RotoDocument) -> RotoDocument:
    """The document with shapes that a person drew, until there are `N_SHAPES`; each has a key on every frame."""
    frames = range(document.first_frame, document.last_frame + 1)
    drawn = tuple(
        RotoShape(
            f"drawn {at}",
            True,
            "matte",
            {f: Key(ring(200 + 60 * at + 2 * (f - frames[0]), 200, 40, 25), "human") for f in frames},
        )
        for at in range(N_SHAPES - len(document.shapes))
    )
    return replace(document, shapes=(*document.shapes, *drawn))


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print; `--json` writes a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=240, help="mouse moves of each drag, and frame steps")
    parser.add_argument("--frames", type=int, default=2000, help="frames of the opened shot")
    parser.add_argument(
        "--scrub", type=int, default=400, help="frames visited while memory is measured; 0 leaves it out"
    )
    parser.add_argument("--play", type=float, default=5.0, help="seconds of playback")
    parser.add_argument("--engine", action="store_true", help="also measure with the real engine, on the sample shot")
    parser.add_argument("--size", default="1600x1000", help="of the window")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(words)
    app = QApplication.instance() or QApplication([])
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_CONFIG_HOME"] = name
        pattern = write_frames(Path(name) / "shot" / "plates", args.frames)
        panel = Panel(Desk())
        size = [int(each) for each in args.size.split("x")]
        panel.resize(*size)
        panel.show()
        opened = open_shot(panel, pattern, Path(name))
        found: dict[str, Any] = {
            "machine": {"cores": os.cpu_count(), "load": [round(each, 2) for each in os.getloadavg()]},
            "window": args.size,
            "device_pixel_ratio": panel.devicePixelRatioF(),
            "open_s": round(opened, 2),
            "open_frames": args.frames,
            "drag_ms": measure_drags(panel, make_document(N_KEYS), args.steps),
            "frame_step_ms": measure_steps(panel, args.steps),
            "undo_ms": measure_undo(panel, args.steps),
            "playback": measure_playback(panel, args.play),
        }
        if args.scrub:
            found["scrubbing"] = measure_scrubbing(panel, min(args.scrub, args.frames))
        panel.shut_down()
        if args.engine:
            found["landmark_with_engine_ms"] = measure_engine(args.steps, size, Path(name))
    print(json.dumps(found, indent=2))
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    del app
    return 0


if __name__ == "__main__":
    sys.exit(main())
