"""Learn from this show, with a real mouse and keys; the engine is a stand-in that says what it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from rotopaint_ui.host import Engine
from rotopaint_ui.panel.learn_window import LearnWindow
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.services.learner import ALONE, MISSING, verdict_line

from .mouse import LEFT

ENGINE = """
import json, sys, time
from pathlib import Path
words = sys.argv[1:]
Path({log!r}).open("a").write(json.dumps(words) + "\\n")
def say(**facts):
    print(json.dumps(facts), flush=True)
if words[0] == "mine":
    say(event="progress", stage="reading roto", share=0.5)
    print("a line for people")
elif words[0] == "train":
    say(event="progress", stage="train", share=0.25, held_out_px=1.5)
    time.sleep({slow})
    Path(words[words.index("--out") + 1]).mkdir(parents=True)
else:
    gate = {gate}
    Path(words[words.index("--json") + 1]).parent.mkdir(parents=True, exist_ok=True)
    Path(words[words.index("--json") + 1]).write_text(json.dumps(dict(gate=gate)))
    sys.exit(4 if any(row["is_worse"] for row in gate) else 0)
"""
ROW = {"where": "sh02", "figure": "landmarks mean px", "new": 0.8, "old": 2.0, "limit": 2.1, "is_worse": False}


@pytest.fixture
def learning(
    qtbot: QtBot, panel: Panel, tmp_path: Path, engine_of: Callable[[str], Engine], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., LearnWindow]:
    """A window with one project and a fake engine that takes `slow` seconds to train and answers with a `gate`."""

    def make(gate: list[dict[str, object]], slow: float = 0.0) -> LearnWindow:
        script = ENGINE.format(log=str(tmp_path / "log"), slow=slow, gate=repr(gate))
        monkeypatch.setattr("rotopaint_ui.services.learner._PROBE", "")  # as where PyTorch is there
        window = LearnWindow(lambda: engine_of(script), panel, tmp_path)
        qtbot.addWidget(window)
        window.offer(tmp_path / "shot.rotopaint", "puppet")
        return window

    (tmp_path / "shot.rotopaint").touch()
    return make


def learn(qtbot: QtBot, window: LearnWindow, name: str) -> None:
    window.name.clear()
    qtbot.keyClicks(window.name, name)
    qtbot.mouseClick(window.begin, LEFT)


def test_projects_become_a_pack_and_the_gate_says_how_good(
    qtbot: QtBot, learning: Callable[..., LearnWindow], tmp_path: Path
) -> None:
    window, shares = learning([ROW]), []
    window.learner.progressed.connect(lambda doing, share: shares.append((doing, share)))
    with qtbot.waitSignal(window.pack_made, timeout=60_000) as made:
        learn(qtbot, window, "mia")
    assert made.args == ["mia"]
    assert window.line.text() == "The gate is green: mia is not worse than the pack before in any of 1 figures"
    asked = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    data, pack = str(tmp_path / "lessons" / "mia" / "dataset"), str(tmp_path / "models" / "mia")
    assert asked[0] == ["mine", str(tmp_path / "shot.rotopaint"), "--out", data, "--overwrite", "--events"]
    assert asked[1] == ["train", data, "--out", pack, "--init", "puppet", "--set", "minutes=5", "--events"]
    assert asked[2][:5] == ["evaluate", pack, data, "--against", "puppet"]
    assert ("Training: 1.50 px on held-out frames", pytest.approx((1 + 0.25 * 5) / 6.5)) in shares
    assert [share for _, share in shares] == sorted(share for _, share in shares)
    learn(qtbot, window, "mia")
    assert window.line.text() == "There is a pack 'mia' already; choose another name"


def test_a_red_gate_names_where(qtbot: QtBot, learning: Callable[..., LearnWindow]) -> None:
    worse = {**ROW, "where": "sh02, nose_seam", "figure": "curve mean px", "new": 3.0, "is_worse": True}
    window = learning([worse, ROW])
    with qtbot.waitSignal(window.learner.ended, timeout=60_000):
        learn(qtbot, window, "mia")
    assert window.line.text() == (
        "The gate is red: mia is worse in 1 of 2 figures (sh02, nose_seam, curve mean px 2.00 -> 3.00)"
    )


def test_one_shot_is_reported_in_an_artists_words(
    qtbot: QtBot, learning: Callable[..., LearnWindow], tmp_path: Path
) -> None:
    window = learning([])
    dataset = tmp_path / "lessons" / "mia" / "dataset"
    dataset.mkdir(parents=True)
    (dataset / "samples.jsonl").write_text('{"split": "train"}\n')
    (tmp_path / "lessons" / "mia" / "gate.json").mkdir()  # the gate ends with an error of its own
    with qtbot.waitSignal(window.pack_made, timeout=60_000):
        learn(qtbot, window, "mia")
    assert window.line.text() == f"mia is trained, and not compared: {ALONE}"
    (dataset / "samples.jsonl").write_text('{"split": "train"}\n{"split": "val"}\n')
    (tmp_path / "models" / "mia").rmdir()
    with qtbot.waitSignal(window.pack_made, timeout=60_000):
        learn(qtbot, window, "mia")
    assert "IsADirectoryError" in window.line.text()  # what else went wrong is said as it is


def test_stop_ends_it_and_the_fields_are_free_again(qtbot: QtBot, learning: Callable[..., LearnWindow]) -> None:
    window = learning([ROW], slow=60.0)
    learn(qtbot, window, "mia")
    qtbot.waitUntil(lambda: "held-out" in window.line.text(), timeout=60_000)
    assert not window.begin.isEnabled()
    with qtbot.waitSignal(window.learner.ended, timeout=60_000):
        qtbot.mouseClick(window.stop, LEFT)
    assert window.line.text() == "Stopped: no pack was made"
    assert window.begin.isEnabled()


@pytest.mark.parametrize("code", [1, 2])  # of Python without PyTorch; of the bundle's program, which refuses `-c`
def test_one_line_says_what_to_install(
    qtbot: QtBot, learning: Callable[..., LearnWindow], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    window = learning([ROW])
    monkeypatch.setattr("rotopaint_ui.services.learner._PROBE", f"raise SystemExit({code})")
    with qtbot.waitSignal(window.learner.ended, timeout=60_000):
        learn(qtbot, window, "mia")
    assert window.line.text() == MISSING
    assert "rotopaint-ai[train]" in MISSING


def test_what_cannot_be_begun_says_why(qtbot: QtBot, learning: Callable[..., LearnWindow]) -> None:
    window = learning([ROW])
    learn(qtbot, window, "../mia")
    assert "wanted letters" in window.line.text()
    window.rows.setCurrentRow(0)
    qtbot.mouseClick(window.remove, LEFT)
    learn(qtbot, window, "mia")
    assert window.line.text().startswith("No project")
    assert not window.learner.is_running
    assert "could not be read" in verdict_line("mia", None)


def test_the_command_offers_the_open_project(qtbot: QtBot, shot: Panel) -> None:
    shot.session.start_project()
    shot.commands["learn"].trigger()
    window = shot.findChild(LearnWindow)
    assert window is not None
    assert window.isVisible()
    assert window.projects == [str(shot.session.project.path)]
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow, timeout=20_000)
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert not window.isVisible()
