"""Esc while the real engine is at work: what has come stays, and Run goes on from there."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from rotopaint_ai.inference.sample import find_sample
from rotopaint_ui.host import Engine, package_folders
from rotopaint_ui.standalone.app import MainWindow

from .test_flow import CONTROL, document_of, drag, key, open_shot

FRAMES = range(1001, 1005)  # four exposures
LAST = FRAMES[-1]
SETTLED = {1001}  # by the last: an exposure is fused with the two after it, and the fourth tells that they are whole

GATE = f"""
import json, sys
from rotopaint_ai.cli.shared import one_thread_per_frame
one_thread_per_frame()
from rotopaint_ai.pipeline.face_tracker import FaceTracker

push = FaceTracker.push

def wait_and_push(tracker, frame, ms):
    if frame.number == {LAST}:
        print(json.dumps({{"event": "gate"}}), flush=True)
        sys.stdin.readline()
    return push(tracker, frame, ms)

FaceTracker.push = wait_and_push
"""


@pytest.fixture
def shot(tmp_path: Path) -> Path:
    """Every second frame of the sample shot, where each exposure is held for two frames."""
    folder = tmp_path / "sh020"
    folder.mkdir()
    for row, frame in enumerate(FRAMES):
        shutil.copy(find_sample() / f"plate.{1001 + 2 * row}.exr", folder / f"plate.{frame}.exr")
    return folder


@pytest.fixture
def gated(tmp_path: Path) -> Engine:
    """The engine, made to wait before its last frame until it gets a line."""
    folder = tmp_path / "gate"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(GATE)  # Python runs it before anything else
    return Engine(sys.executable, (str(folder), *package_folders()))


def press_run(qtbot: QtBot, window: MainWindow, event: str) -> dict[str, object]:
    """Press Run and wait for an event of the engine; returns it."""
    reported: list[dict[str, object]] = []

    def is_it(facts: dict[str, object]) -> bool:
        reported.append(facts)
        return facts["event"] == event

    with qtbot.waitSignal(window.panel.jobs.worker.happened, check_params_cb=is_it, timeout=120_000):
        key(qtbot, window, Qt.Key.Key_Return, CONTROL)
    return reported[-1]


def test_a_stopped_run_keeps_what_has_come_and_run_goes_on(
    qtbot: QtBot, window: MainWindow, shot: Path, gated: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, jobs = window.panel, window.panel.jobs
    open_shot(qtbot, window, shot / "plate.1001.exr")
    drag(qtbot, window, (338, 138), (626, 443))
    monkeypatch.setattr(
        "rotopaint_ui.engine.run_worker.PATIENCE_MS", 10_000_000
    )  # a slow machine must not end it the hard way
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "_engine", lambda: gated)
        press_run(qtbot, window, "gate")
    with qtbot.waitSignal(panel.run_ended, timeout=120_000) as ended:
        key(qtbot, window, Qt.Key.Key_Escape)
        jobs.worker.process.send(b"open\n")
    assert ended.args == [False]
    assert panel.status.text.text() == "Stopped; Run goes on from here"
    assert panel.status.text.property("kind") == "plain"  # a person wanted it
    assert panel.status.log.text() == "\u2261"  # no warning is counted
    assert {frozenset(shape.keys) for shape in document_of(window).shapes} == {frozenset(SETTLED)}
    with qtbot.waitSignal(panel.run_ended, timeout=120_000) as ended:
        started = press_run(qtbot, window, "started")
    assert (started["done"], started["total"]) == (0, len(FRAMES))  # none is painted yet
    assert ended.args == [True], panel.status.text.text()
    assert {frozenset(shape.keys) for shape in document_of(window).shapes} == {frozenset(FRAMES)}
