"""Teach shot with real keys and clicks; the engine is a process of our own making that says what it is told to say."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from rotopaint_ai.project.codecs import pack
from rotopaint_ai.shapes.roto import Key
from rotopaint_ui.host import Engine, PlateChoice, package_folders
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.repeats import repeated_correction
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts, read_run_results

from .conftest import FRAMES, make_document, move_points
from .mouse import ALT, CTRL, LEFT, SHIFT, drag, places

K = Qt.Key
ENGINE = """
import json, pathlib, shutil, sys, time
here = pathlib.Path(__file__).parents[2]
def say(**facts):
    print(json.dumps(facts), flush=True)
for line in sys.stdin:
    ask = json.loads(line)
    with (here / "asks").open("a") as asks:
        asks.write(line)
    echo = {"id": ask["id"], "ask": ask["ask"]}
    if ask["ask"] == "hello":
        (here / "blocks").mkdir(exist_ok=True)
        say(**echo, folder=str(here / "blocks"))
    elif ask["ask"] != "teach":
        say(**echo, pack="puppet")
    else:
        say(**echo, done=1, total=2)
        while (here / "wait").exists():
            time.sleep(0.01)
        shutil.copy(here / "answer.block", here / "blocks" / "1.block")
        say(**echo, **json.loads((here / "answer.json").read_text()), block=str(here / "blocks" / "1.block"))
"""

TRAIN = """
import json, pathlib, sys, time
here, words = pathlib.Path(__file__).parents[1], sys.argv[1:]
(here / "words").write_text(json.dumps(words))
print(json.dumps(dict(event="progress", stage="train", share=0.25)), flush=True)
while (here / "wait").exists():
    time.sleep(0.01)
if (here / "refusal").exists():
    print((here / "refusal").read_text(), file=sys.stderr)
    sys.exit(2)
if "--out" in words:
    pathlib.Path(words[words.index("--out") + 1]).mkdir()
else:
    (pathlib.Path(words[words.index("--to") + 1]) / words[words.index("--name") + 1]).mkdir()
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """The folder of a fake engine that moves the seam 3 px to the right at 1002 and 1003, and is unsure at 1005."""
    package = tmp_path / "engine" / "rotopaint_ai" / "live"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(ENGINE)
    (package.parent / "__main__.py").write_text(TRAIN)
    folder = tmp_path / "engine"
    seam = make_document().shape("seam")
    keys = [Key(tuple(p._replace(x=p.x + 3) for p in seam.at(frame)), "propagated") for frame in (1002, 1003)]
    packed = [pack("key", key) for key in keys]
    listed = [["seam", frame, len(data)] for frame, data in zip((1002, 1003), packed)]
    (folder / "answer.block").write_bytes(b"".join(packed))
    answer = {"keys": listed, "doubtful": {"seam": [1005]}, "errors": {"seam": {1002: 7.0}}, "moved": 2}
    (folder / "answer.json").write_text(json.dumps(answer))
    return folder


@pytest.fixture
def shot(qtbot: QtBot, panel: Panel, facts: PlateFacts, out: Path, engine: Path) -> Panel:
    """A panel with the results of a run and one seam corrected by hand on 1001; its window is active."""
    panel.session.open(facts, out)
    panel.session.take_results(read_run_results(out))
    panel.opening.choice = PlateChoice(facts.source)
    panel.host.the_engine = Engine(sys.executable, (str(engine), *package_folders()))  # type: ignore[attr-defined]
    panel.canvas.fit()
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow, timeout=20_000)
    correct(panel, 1001)
    return panel


def correct(panel: Panel, frame: int, dx: float = 2) -> None:
    """Move all points of the seam as a person."""
    panel.session.go_to(frame)
    document = panel.session.state.document
    assert document is not None
    moved = move_points(document, "seam", [frame], range(3), dx, 0)
    panel.session.edits.push("move points", replace(panel.session.state, document=moved))


def taught(panel: Panel) -> bool:
    return panel.session.edits.last_step == "teach shot"


def test_what_teach_expects_is_known_when_the_shot_is_opened_again(
    qtbot: QtBot, shot: Panel, facts: PlateFacts, out: Path
) -> None:
    shot.session.start_project()
    shot.session.store_run()
    before = dict(shot.session.run.errors[1002])
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
    qtbot.waitUntil(lambda: taught(shot), timeout=60_000)
    assert shot.session.run.errors[1002]["seam"] == 7.0 != before["seam"]
    shot.shut_down()
    again = ShotSession()
    again.open(facts, out)
    again.start_project()
    assert again.run.errors[1002]["seam"] == 7.0
    assert again.edits.undo() == "teach shot"
    assert again.run.errors[1002] == before


def test_an_undone_teach_leaves_no_expected_errors_after_reopening(
    qtbot: QtBot, shot: Panel, facts: PlateFacts, out: Path
) -> None:
    """The key at 1002 comes from an earlier spread, so it does not show that Teach's keys are still there."""
    session = shot.session
    session.start_project()
    session.store_run()
    document = session.state.document
    assert document is not None
    seam = document.shape("seam")
    spread = replace(seam, keys={**seam.keys, 1002: replace(seam.keys[1002], source="propagated")})
    shapes = tuple(spread if shape.name == "seam" else shape for shape in document.shapes)
    session.edits.push("spread", replace(session.state, document=replace(document, shapes=shapes)))
    before = dict(session.run.errors[1002])
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
    qtbot.waitUntil(lambda: taught(shot), timeout=60_000)
    assert session.run.errors[1002]["seam"] == 7.0
    qtbot.keyClick(shot.canvas, K.Key_Z, CTRL)
    assert session.run.errors[1002] == before
    shot.shut_down()
    again = ShotSession()
    again.open(facts, out)
    again.start_project()
    assert again.run.errors[1002] == before


def test_teach_is_one_step_and_reports_its_changes(qtbot: QtBot, shot: Panel) -> None:
    before = shot.session.state
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
    assert shot.status.progress.isVisible()
    qtbot.waitUntil(lambda: taught(shot), timeout=60_000)
    assert places(shot.session, frame=1002)[0] == (13.0, 21.0)
    assert places(shot.session, frame=1001)[0] == (12.0, 20.0)  # a person's key stays
    assert shot.session.state.marks == {1005: "needs work"}
    said = shot.status.text.text()
    assert said.startswith(
        "Teach shot: moved seam on 2 of 5 frames, at most 3.0 px at 1002; not sure of seam: 1 marked needs work"
    )
    assert shot.timeline.moved is not None
    assert set(shot.timeline.moved.by_frame) == {1002, 1003}
    assert not shot.status.progress.isVisible()
    qtbot.keyClick(shot.canvas, K.Key_Z, CTRL)
    assert shot.session.state == before


def test_the_curves_before_are_shown_while_a_key_is_held(qtbot: QtBot, shot: Panel) -> None:
    qtbot.mouseClick(shot.review_bar.buttons["teach"], LEFT)
    qtbot.waitUntil(lambda: taught(shot), timeout=60_000)
    shot.session.go_to(1002)

    def drawn() -> float:
        scene = shot.canvas._stack.scene(shot.canvas._view_settings())
        return next(each.points[0].x for each in scene.still if each.shape.name == "seam")

    assert drawn() == 13.0
    qtbot.keyPress(shot.canvas, K.Key_U)
    assert drawn() == 10.0
    shot.session.go_to(1003)  # the frames can be gone through meanwhile
    assert drawn() == 10.0
    qtbot.keyRelease(shot.canvas, K.Key_U)
    assert drawn() == 13.0
    assert taught(shot)  # looking makes no step


def test_keys_made_by_hand_while_it_works_are_kept(qtbot: QtBot, shot: Panel, engine: Path) -> None:
    (engine / "wait").touch()
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
    qtbot.waitUntil(lambda: shot.status.eta.text() == "looking at every pose", timeout=60_000)
    shot.session.go_to(1003)
    shot.session.select("seam")
    shot.take_tool("select")
    drag(qtbot, shot.canvas, (10, 22), (10, 30))
    by_hand = places(shot.session, frame=1003)
    assert by_hand[0] == pytest.approx((10, 30), abs=0.2)
    (engine / "wait").unlink()
    qtbot.waitUntil(lambda: taught(shot), timeout=60_000)
    assert places(shot.session, frame=1003) == by_hand
    assert places(shot.session, frame=1002)[0] == (13.0, 21.0)


def test_escape_stops_teach_without_changes(qtbot: QtBot, shot: Panel, engine: Path) -> None:
    (engine / "wait").touch()
    before = shot.session.state
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
    qtbot.waitUntil(lambda: shot.status.eta.text() == "looking at every pose", timeout=60_000)
    qtbot.keyClick(shot.canvas, K.Key_Escape)
    assert not shot.status.progress.isVisible()
    assert shot.status.text.text() == "Teach shot: stopped, nothing was changed"
    assert shot.session.state == before
    (engine / "wait").unlink()
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)  # and it can be asked again
    qtbot.waitUntil(lambda: taught(shot), timeout=60_000)


def test_results_of_another_run_are_not_mixed_in(qtbot: QtBot, shot: Panel, engine: Path) -> None:
    (engine / "wait").touch()
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
    qtbot.waitUntil(lambda: shot.status.eta.text() == "looking at every pose", timeout=60_000)
    state = shot.session.state
    assert state.predicted is not None
    shot.session.edits.push("run", replace(state, predicted=replace(state.predicted, last_frame=1007)))
    (engine / "wait").unlink()
    qtbot.waitUntil(lambda: "was run again" in shot.status.text.text(), timeout=60_000)
    assert shot.session.edits.last_step == "run"


def test_a_group_that_is_moved_meanwhile_is_reported(qtbot: QtBot, shot: Panel, engine: Path) -> None:
    """The models' predictions moved along, so the answer belongs to another question."""
    shot.session.select("eye")
    qtbot.keyClick(shot.canvas, K.Key_G, CTRL)
    (engine / "wait").touch()
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
    qtbot.keyClick(shot.canvas, K.Key_Right, ALT)
    shot.session.edits.end_burst()
    before = shot.session.state
    (engine / "wait").unlink()
    qtbot.waitUntil(lambda: not learns(shot), timeout=60_000)
    assert shot.status.history[-1].endswith("or a group moved, meanwhile; Teach shot once more")
    assert shot.session.state is before


def test_teach_without_corrections_reports_what_to_do(qtbot: QtBot, shot: Panel) -> None:
    shot.session.edits.undo()
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
    assert shot.status.text.text() == "Nothing to learn from yet: correct a few frames first"


def test_teach_is_offered_when_corrections_repeat(qtbot: QtBot, shot: Panel) -> None:
    button = shot.review_bar.buttons["teach"]
    assert not button.property("offered")
    correct(shot, 1003, dx=-2)  # the other way: no repetition
    assert not button.property("offered")
    correct(shot, 1005)
    assert button.property("offered")
    assert any("seam was corrected the same way 2 times" in line for line in shot.status.history)
    steps = len(shot.session.edits.labels)
    for frame in FRAMES:
        correct(shot, frame)
    assert not button.property("offered")  # there is no rest
    shot.session.edits.go_to_step(steps)
    assert button.property("offered")
    qtbot.mouseClick(button, LEFT)
    qtbot.waitUntil(lambda: taught(shot), timeout=60_000)
    assert not button.property("offered")
    assert shot._services.review.before is not None
    shot.session.edits.undo()
    assert shot._services.review.before is None  # what U compares with is the step before, from now on


def test_a_hold_counts_as_one_correction() -> None:
    said = make_document()
    document = move_points(said, "seam", [1001, 1002], range(3), 2, 0)
    assert repeated_correction(said, document, lambda frame: range(frame, frame + 1)) == ("seam", 2)
    assert repeated_correction(said, document, lambda frame: range(1001, 1003)) is None
    small = move_points(said, "seam", [1001, 1002], range(3), 0.5, 0)
    assert repeated_correction(said, small, lambda frame: range(frame, frame + 1)) is None


def begin_teaching(qtbot: QtBot, panel: Panel, engine: Path) -> None:
    """Press Ctrl+T with an engine that waits for `answer_now`."""
    (engine / "wait").touch()
    qtbot.keyClick(panel.canvas, K.Key_T, CTRL)
    qtbot.waitUntil(lambda: panel.status.eta.text() == "looking at every pose", timeout=60_000)


def answer_now(qtbot: QtBot, panel: Panel, engine: Path) -> None:
    (engine / "wait").unlink()
    qtbot.waitUntil(lambda: not panel._services.teacher.is_running, timeout=60_000)


def test_a_shape_that_has_other_points_meanwhile_stays_as_it_is(qtbot: QtBot, shot: Panel, engine: Path) -> None:
    shot.session.edits.undo()
    state = shot.session.state
    assert state.document is not None
    eye = move_points(state.document, "eye", [1001], range(3), 2, 0)  # the only correction; the seam is the models'
    shot.session.edits.push("move points", replace(state, document=eye))
    begin_teaching(qtbot, shot, engine)
    shot.session.select("seam", frozenset({1}))
    qtbot.keyClick(shot.canvas, K.Key_Delete)
    assert len(places(shot.session, frame=1002)) == 2
    document = shot.session.state.document
    answer_now(qtbot, shot, engine)
    assert shot.session.state.document == document
    assert [len(places(shot.session, frame=frame)) for frame in (1001, 1002, 1004)] == [2, 2, 2]


def test_a_correction_that_was_taken_back_meanwhile_is_reported(qtbot: QtBot, shot: Panel, engine: Path) -> None:
    correct(shot, 1005)
    begin_teaching(qtbot, shot, engine)
    qtbot.keyClick(shot.canvas, K.Key_Z, CTRL)
    state = shot.session.state
    answer_now(qtbot, shot, engine)
    assert shot.session.state is state
    assert shot.status.text.text().startswith("Teach shot once more: ")


def test_an_engine_that_has_given_up_is_reported_each_time(qtbot: QtBot, shot: Panel) -> None:
    shot.host.the_engine = Engine(sys.executable + ".not.there", ())  # type: ignore[attr-defined]
    for _ in range(2):
        qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
        qtbot.waitUntil(lambda: not shot._services.teacher.is_running, timeout=60_000)
        assert "could not be started; set ROTOPAINT_PYTHON" in shot.status.text.text()


def test_a_mark_that_a_person_made_anew_is_theirs(qtbot: QtBot, shot: Panel, engine: Path) -> None:
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
    qtbot.waitUntil(lambda: taught(shot), timeout=60_000)
    assert shot.session.state.marks == {1005: "needs work"}
    qtbot.keyClick(shot.canvas, K.Key_Z, CTRL)
    shot.session.go_to(1005)
    qtbot.mouseClick(shot.review_bar.buttons["needs_work"], LEFT)
    text = (engine / "answer.json").read_text()
    (engine / "answer.json").write_text(text.replace("[1005]", "[]"))
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
    qtbot.waitUntil(lambda: taught(shot), timeout=60_000)
    assert shot.session.state.marks == {1005: "needs work"}


def test_escape_leaves_no_copy_of_a_shot_without_a_project(
    qtbot: QtBot, shot: Panel, engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert shot.session.project.path is None
    begin_teaching(qtbot, shot, engine)
    assert list(tmp_path.glob("rotopaint-*"))
    qtbot.keyClick(shot.canvas, K.Key_Escape)
    assert not list(tmp_path.glob("rotopaint-*"))


def test_the_curves_of_now_come_back_with_the_key_another_window_or_another_shot(
    qtbot: QtBot, shot: Panel, facts: PlateFacts
) -> None:
    shot.set_preferences(replace(shot.preferences, shortcuts={"before": ["Ctrl+U"]}))

    def hold() -> None:
        qtbot.keyPress(shot.canvas, K.Key_U, CTRL)
        assert shot.canvas.before is not None

    hold()
    qtbot.keyRelease(shot.canvas, K.Key_U)
    assert shot.canvas.before is None
    hold()
    QApplication.sendEvent(shot, QEvent(QEvent.Type.WindowDeactivate))
    assert shot.canvas.before is None
    assert not shot.commands["before"].isChecked()
    hold()
    shot.opening.opened.emit(facts)
    assert shot.canvas.before is None
    assert not shot.commands["before"].isChecked()


def test_another_shot_says_what_to_do_there_and_not_what_ended(
    qtbot: QtBot, shot: Panel, engine: Path, facts: PlateFacts
) -> None:
    begin_teaching(qtbot, shot, engine)
    shot.opening.opened.emit(facts)
    assert shot.status.text.text() == "Drag a box around the face, then press Run"
    assert any("Teach shot: stopped" in line for line in shot.status.history)


def test_errors_expected_by_teach_order_the_frames_until_undo(qtbot: QtBot, shot: Panel) -> None:
    before = shot.session.run.errors, shot.session.worst()
    assert before[1][:2] == [1006, 1003]
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
    qtbot.waitUntil(lambda: taught(shot), timeout=60_000)
    assert shot.session.worst()[:2] == [1006, 1002]
    shot.session.run = shot.session.runs.record.with_seam(1002, 9.0, 1.0)  # a frame was painted
    assert shot.session.run.errors[1002]["seam"] == 7.0
    assert shot.session.run.seam[1002] == (9.0, 1.0)
    qtbot.keyClick(shot.canvas, K.Key_Z, CTRL)
    assert (shot.session.run.errors, shot.session.worst()) == before
    qtbot.keyClick(shot.canvas, K.Key_Z, CTRL | SHIFT)
    assert shot.session.run.errors[1002]["seam"] == 7.0


def learns(panel: Panel) -> bool:
    return panel._services.teacher.is_running


def asks_of(engine: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (engine / "asks").read_text().splitlines()]


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that PyTorch is installed."""
    monkeypatch.setattr("rotopaint_ui.services.learner._PROBE", "")


@pytest.mark.usefixtures("training")
def test_the_shot_is_learnt_in_one_step_that_undo_takes_back(qtbot: QtBot, shot: Panel, engine: Path) -> None:
    before, errors = shot.session.state, shot.session.run.errors
    (engine / "wait").touch()
    qtbot.mouseClick(shot.review_bar.buttons["learn_shot"], LEFT)
    qtbot.waitUntil(lambda: shot.status.eta.text() == "Learning", timeout=60_000)
    qtbot.waitUntil(lambda: shot.status.progress.value() == 250, timeout=60_000)
    project = shot.session.project.path
    assert project is not None
    pack_folder = project.with_name(f"{project.stem}_pack")
    (engine / "wait").unlink()
    qtbot.waitUntil(lambda: shot.session.edits.last_step == "learn shot", timeout=60_000)
    words = json.loads((engine / "words").read_text())
    assert words[:6] == ["train", str(project), "--recipe", "shot", "--out", str(pack_folder)]
    asked = asks_of(engine)
    assert [ask["model"] for ask in asked if ask["ask"] == "pack"] == [str(pack_folder)]
    assert [ask["ask"] for ask in asked].count("teach") == 1
    state = shot.session.state
    assert places(shot.session, frame=1002)[0] == (13.0, 21.0)
    assert places(shot.session, frame=1001)[0] == (12.0, 20.0)  # a person's key stays
    assert state.predicted is not None
    assert state.predicted.shape("seam").at(1002)[0][:2] == (13.0, 21.0)  # the models say so from here on
    assert shot.session.run.errors[1002]["seam"] == 7.0
    assert shot.status.text.text().startswith("Learn shot: moved seam on 2 of 5 frames, at most 3.0 px at 1002")
    qtbot.keyClick(shot.canvas, K.Key_Z, CTRL)
    assert shot.session.state == before
    assert shot.session.run.errors == errors
    qtbot.keyClick(shot.canvas, K.Key_Z, CTRL | SHIFT)
    shot.session.start_project(project)  # what the file has
    assert shot.session.state == state
    assert shot.session.run.errors[1002]["seam"] == 7.0


@pytest.mark.usefixtures("training")
def test_the_shot_is_taught_by_its_own_pack_after_it_was_learnt(qtbot: QtBot, shot: Panel, engine: Path) -> None:
    said = shot.session.state.predicted
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL | ALT)
    qtbot.waitUntil(lambda: shot.session.edits.last_step == "learn shot", timeout=60_000)
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
    qtbot.waitUntil(lambda: not learns(shot), timeout=60_000)
    assert sum(ask["ask"] == "pack" for ask in asks_of(engine)) == 1  # the same one reads on
    while shot.session.state.predicted != said:
        assert shot.session.edits.undo() is not None
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
    qtbot.waitUntil(lambda: not learns(shot), timeout=60_000)
    models = [ask.get("model") for ask in asks_of(engine) if ask["ask"] == "pack"]
    assert len(models) == 2
    assert models[0] != models[1]  # what the run's models said, and so their pack


@pytest.mark.usefixtures("training")
def test_the_pack_of_a_shot_is_known_when_its_project_is_opened_again(
    qtbot: QtBot, shot: Panel, engine: Path, facts: PlateFacts
) -> None:
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL | ALT)
    qtbot.waitUntil(lambda: shot.session.edits.last_step == "learn shot", timeout=60_000)
    project = shot.session.project.path
    assert project is not None
    shot._services.teacher.forget()
    shot.session.close()
    shot.session.open_project(project)
    shot.session.open(facts)
    shot._services.teacher._shot = None  # as in another process
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
    qtbot.waitUntil(lambda: not learns(shot), timeout=60_000)
    packs = [ask.get("model") for ask in asks_of(engine) if ask["ask"] == "pack"]
    assert packs == [str(project.with_name(f"{project.stem}_pack"))] * 2


@pytest.mark.usefixtures("training")
def test_learning_is_stopped_or_refused_and_nothing_has_changed(qtbot: QtBot, shot: Panel, engine: Path) -> None:
    before = shot.session.state
    (engine / "wait").touch()
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL | ALT)
    qtbot.waitUntil(lambda: shot.status.eta.text() == "Learning", timeout=60_000)
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL)
    assert shot.status.text.text() == "Learn shot is under way already; Esc stops it"
    qtbot.keyClick(shot.canvas, K.Key_Escape)
    qtbot.waitUntil(lambda: not learns(shot), timeout=60_000)
    assert shot.status.text.text() == "Learn shot: Stopped: no pack was made"
    assert shot.status.text.property("kind") == "plain"
    (engine / "wait").unlink()
    (engine / "refusal").write_text("2 poses are corrected (frames 1001, 1003); wanted 3 or more")
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL | ALT)
    qtbot.waitUntil(lambda: not learns(shot), timeout=60_000)
    assert shot.status.text.text().endswith("2 poses are corrected (frames 1001, 1003); wanted 3 or more")
    assert shot.session.state == before
    assert not shot.status.progress.isVisible()


def test_without_training_learning_keeps_the_head_for_the_next_shots(
    qtbot: QtBot, shot: Panel, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rotopaint_ui.services.learner._PROBE", "raise SystemExit(1)")
    qtbot.keyClick(shot.canvas, K.Key_T, CTRL | ALT)
    qtbot.waitUntil(lambda: shot.session.edits.last_step == "learn shot", timeout=60_000)
    project = shot.session.project.path
    assert project is not None
    pack = f"{project.stem}_pack"
    words = json.loads((engine / "words").read_text())
    assert words == [
        "publish",
        "default",
        "--head",
        str(project),
        "--to",
        str(project.parent),
        "--name",
        pack,
        "--events",
    ]
    assert [ask["model"] for ask in asks_of(engine) if ask["ask"] == "pack"] == [str(project.with_name(pack))]
    assert shot.status.text.text().endswith(
        f"{pack} is the model for this character's next shots; it has the head alone, because training is not "
        "installed: pip install 'rotopaint-ai[train]'"
    )
    folder = project.with_name(pack)
    assert shot.preferences.learnt == (str(folder),)
    shot._services.frame_cache.packs.emit(["kubo"], [str(folder)])  # what the engine answers
    assert shot.top.chosen_pack is None  # this shot stays with the pack of its run
    shot.top.pack.setCurrentText(pack)
    assert shot.top.chosen_pack == str(folder)
    shot.top.show_packs(["other"], [str(folder)])
    assert (shot.top.pack.currentText(), shot.top.chosen_pack) == (pack, str(folder))
    shot.top.show_packs(["other"], [])  # the folder is gone
    assert shot.top.chosen_pack == str(folder)
    shot.top.show_pack(None)
    shot.top.show_packs([pack], [str(folder)])  # an installed pack of the same name
    shot.top.show_pack(str(folder))
    assert shot.top.chosen_pack == str(folder)


@pytest.mark.parametrize("probe", ["", "raise SystemExit(1)"])
def test_learning_is_offered_where_it_is_installed_and_enough_was_corrected(
    qtbot: QtBot, shot: Panel, monkeypatch: pytest.MonkeyPatch, probe: str
) -> None:
    monkeypatch.setattr("rotopaint_ui.services.learner._PROBE", probe)
    button = shot.review_bar.buttons["learn_shot"]
    correct(shot, 1003)
    assert shot.review_bar.buttons["teach"].property("offered")
    with qtbot.assertNotEmitted(shot._services.teacher.wants_look):
        assert not button.property("offered")
    with qtbot.waitSignal(shot._services.teacher.wants_look, timeout=60_000):
        correct(shot, 1005)
    assert bool(button.property("offered")) == (probe == "")
    if probe == "":
        qtbot.mouseClick(button, LEFT)
        qtbot.waitUntil(lambda: shot.session.edits.last_step == "learn shot", timeout=60_000)
        shot.session.notify()
        offered = [shot.review_bar.buttons[name].property("offered") for name in ("teach", "learn_shot")]
        assert offered == [False, False]
