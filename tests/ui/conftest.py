"""A small plate on disk, a host that stands for any program, and a session with shapes whose places are known."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PySide6.QtGui import QColor, QImage
from pytestqt.qtbot import QtBot

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.shapes import edit
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape
from rotopaint_ui.engine.frame_cache import CLEAN, PLATE, DisplayLook, FrameCache
from rotopaint_ui.host import Engine, PlateChoice, package_folders
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts, read_run_results
from rotopaint_ui.standalone.app import MainWindow
from rotopaint_ui.viewer.canvas import Canvas

WIDTH, HEIGHT = 64, 48
FRAMES = (1001, 1002, 1003, 1005, 1006)  # 1004 is missing


def code(frame: int) -> int:
    """The grey level of a frame of the plate."""
    return 40 + 10 * (frame - 1001)


def write_plate(folder: Path, name: str = "plate", add: int = 0) -> str:
    """Flat grey frames, each with its own level and a white pixel at column 10, row 5; returns the pattern."""
    folder.mkdir(parents=True, exist_ok=True)
    for frame in FRAMES:
        picture = np.full((HEIGHT, WIDTH, 3), code(frame) + add, np.uint8)
        picture[5, 10] = 255
        cv2.imwrite(str(folder / f"{name}.{frame}.png"), picture)
    return str(folder / f"{name}.####.png")


def make_document() -> RotoDocument:
    """An open seam and a closed shape, with model keys on every frame, and two landmarks."""

    def seam(frame: int) -> Key:
        y = 20.0 + (frame - 1001)
        return Key(
            (ControlPoint(10, y, 0, 0, 5, 0), ControlPoint(30, y, -5, 0, 5, 0), ControlPoint(50, y, -5, 0, 0, 0))
        )

    def eye(frame: int) -> Key:
        return Key((ControlPoint(20, 8), ControlPoint(28, 8), ControlPoint(24, 14)))

    return RotoDocument(
        width=WIDTH,
        height=HEIGHT,
        first_frame=1001,
        last_frame=1006,
        landmarks=LandmarkKeys(("nose", "chin"), {1001: (Landmark(30, 20, 1.0), None)}),
        shapes=(
            RotoShape("seam", False, "seam", {frame: seam(frame) for frame in FRAMES}, width_px=4.0),
            RotoShape("eye", True, "matte", {frame: eye(frame) for frame in FRAMES}),
        ),
    )


def move_points(
    document: RotoDocument, shape: str, frames: Iterable[int], indices: Iterable[int], dx: float, dy: float
) -> RotoDocument:
    """Move control points by (dx, dy) plate pixels at these frames; each becomes a human key."""
    offsets = dict.fromkeys(indices, (dx, dy))
    for frame in frames:
        document = edit.move_points(document, shape, frame, offsets)
    return document


def run_json(held: list[list[int]] | None = None) -> dict[str, Any]:
    """The parts of `run.json` that screens read; 1003 is worst, 1006 is lost."""
    errors = {1001: 0.2, 1002: 0.5, 1003: 2.0, 1005: 1.0}
    return {
        "format": "rotopaint-run",
        "version": 1,
        "device": {"used": "cpu", "note": "CPU (no GPU in this machine)"},
        "frames": {"failed": {}, "lost": [1006], "held": held or []},
        "errors": {"shapes": ["seam", "eye"], "by_frame": {str(f): [e, e / 2] for f, e in errors.items()}},
        "seam": {"by_frame": {"1001": [2.5, 0.5]}},
        "timing": {"ms_per_frame": 12.5},
    }


@dataclass
class FakeHost:
    """A host whose plate, engine and export the test sets."""

    name: str = "Nuke"
    export_label: str = "Export"
    choice: PlateChoice | None = None
    the_engine: Engine = field(default_factory=lambda: Engine(sys.executable, package_folders()))
    exported: list[tuple[RotoDocument, Path]] = field(default_factory=list)

    def engine(self) -> Engine:
        return self.the_engine

    def chosen_plate(self) -> PlateChoice | None:
        return self.choice

    def export(self, document: RotoDocument, shapes: Path) -> str:
        self.exported.append((document, shapes))
        return "exported"


@pytest.fixture(autouse=True)
def own_preferences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Preferences for this test only."""
    path = tmp_path / "preferences.json"
    monkeypatch.setenv("ROTOPAINT_PREFERENCES", str(path))
    return path


@pytest.fixture
def plate(tmp_path: Path) -> str:
    """The pattern of the plate on disk."""
    return write_plate(tmp_path / "shot" / "plates")


@pytest.fixture
def facts(tmp_path: Path) -> PlateFacts:
    """The plate in the decoder's words."""
    path = tmp_path / "shot" / "plates" / "plate.1001.png"
    return PlateFacts("plate.####.png", "plate", path, WIDTH, HEIGHT, 1.0, 24.0, FRAMES, (1004,), "sRGB", "8 bit")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A run's folder with shapes, record and a clean plate."""
    folder = tmp_path / "out"
    (folder / "clean").mkdir(parents=True)
    (folder / "clean" / "plate.1001.png").touch()
    documents.write(folder / "shapes.roto.json", make_document())
    (folder / "run.json").write_text(json.dumps(run_json()))
    return folder


@pytest.fixture
def session(facts: PlateFacts, out: Path) -> ShotSession:
    """The open shot with the results of a run."""
    session = ShotSession()
    session.open(facts, out)
    session.take_results(read_run_results(out))
    return session


@pytest.fixture
def engine_of(tmp_path: Path) -> Callable[[str], Engine]:
    """An engine whose `rotopaint` is the given script."""

    def make(script: str) -> Engine:
        folder = tmp_path / "engine"
        (folder / "rotopaint_ai").mkdir(parents=True, exist_ok=True)
        (folder / "rotopaint_ai" / "__main__.py").write_text(script)
        return Engine(sys.executable, (str(folder),))

    return make


def picture(colour: str = "#404040") -> QImage:
    """A picture of the plate's size in one colour."""
    image = QImage(WIDTH, HEIGHT, QImage.Format.Format_RGB32)
    image.fill(QColor(colour))
    return image


def grabbed(canvas: Canvas) -> np.ndarray:
    """The screen as (H, W, 3) red, green, blue."""
    image = canvas.grab().toImage().convertToFormat(QImage.Format.Format_RGB888)
    rows = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.bytesPerLine())
    return rows[:, : 3 * image.width()].reshape(image.height(), image.width(), 3).astype(int)


@pytest.fixture
def frame_cache() -> FrameCache:
    """Pictures of the first frame, plate and clean plate."""
    frame_cache = FrameCache()
    frame_cache._images[PLATE, 1001] = (DisplayLook(), picture())
    frame_cache._images[CLEAN, 1001] = (DisplayLook(), picture("#a0a0a0"))
    return frame_cache


@pytest.fixture
def canvas(qtbot: QtBot, session: ShotSession, frame_cache: FrameCache) -> Canvas:
    """A viewer of 640 x 480 that shows the session's whole plate: one plate pixel is 10 screen pixels."""
    canvas = Canvas(session, frame_cache)
    qtbot.addWidget(canvas)
    canvas.resize(640, 480)
    canvas.show()
    canvas.fit()
    session.listeners.append(canvas.refresh)
    return canvas


@pytest.fixture
def window(qtbot: QtBot) -> Iterator[MainWindow]:
    """The panel as a standalone program, shown; its processes end after the test."""
    window = MainWindow()
    qtbot.addWidget(window)
    window.show()
    yield window
    window.close()


@pytest.fixture
def panel(qtbot: QtBot) -> Iterator[Panel]:
    """A panel in a fake host, shown; its processes end after the test."""
    panel = Panel(FakeHost())
    qtbot.addWidget(panel)
    panel.resize(1000, 700)
    panel.show()
    yield panel
    panel.shut_down()


@pytest.fixture
def shot(qtbot: QtBot, panel: Panel, facts: PlateFacts, out: Path) -> Panel:
    """A panel with the results of a run; its window is active."""
    panel.session.open(facts, out)
    panel.session.take_results(read_run_results(out))
    panel.canvas.fit()
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow, timeout=20_000)
    return panel
