"""The live engine beside a session: landmarks that carry their splines, refits, previews; engines that are lost."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.project.state import SeamSettings, State
from rotopaint_ai.shapes.roto import Key, RotoDocument
from rotopaint_ui.engine import live_client
from rotopaint_ui.engine.live_client import LiveClient, SeamQuestion
from rotopaint_ui.host import Engine, find_engine, package_folders
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts

SAMPLE = Path(live_client.__file__).parents[2] / "models" / "rotopaint_models" / "sample"


@pytest.fixture(scope="module")
def shot(tmp_path_factory: pytest.TempPathFactory) -> RotoDocument:
    """The shipped pack's predictions for the first frames of the sample shot."""
    from rotopaint_ai.cli import main
    from rotopaint_ai.inference.sample import CROP_FILE, find_sample, read_crops

    sample, out = find_sample(), tmp_path_factory.mktemp("run")
    crops = [word for crop in read_crops(sample / CROP_FILE) for word in ("--crop", crop)]
    plates = str(sample)
    assert main(["run", plates, "--out", str(out), "--frames", "1001-1006", "--no-clean", "--events", *crops]) == 0
    return documents.read(out / "shapes.roto.json")


@pytest.fixture
def client(qtbot: QtBot) -> Iterator[LiveClient]:
    client = LiveClient()
    client.use(find_engine(own_python=True))
    yield client
    client.shut_down()


def session_of(document: RotoDocument, client: LiveClient) -> ShotSession:
    session = ShotSession()
    session.plate = PlateFacts(
        "",
        "p",
        Path("p.1001.jpg"),
        document.width,
        document.height,
        1,
        24,
        (1001, 1002, 1003, 1004, 1005, 1006),
        (),
        "",
        "",
    )
    session.frame = 1001
    session.edits.push("run", State(document=document, predicted=document))
    session.corrections.live = client
    client.message_sent.connect(session.say)
    return session


def idle(client: LiveClient) -> Callable[[], bool]:
    return lambda: not client.is_busy


def moved(before: RotoDocument, after: RotoDocument | None, frame: int) -> dict[str, float]:
    """How far the control points of each shape moved at a frame, pixels."""
    assert after is not None
    return {
        shape.name: max(
            abs(p.x - q.x) + abs(p.y - q.y) for p, q in zip(shape.at(frame), after.shape(shape.name).at(frame))
        )
        for shape in before.shapes
    }


def test_a_dragged_landmark_takes_its_splines_along_in_one_step(
    qtbot: QtBot, client: LiveClient, shot: RotoDocument
) -> None:
    session = session_of(shot, client)
    client.load_pack(None)
    index = next(k for k, mark in enumerate(shot.landmarks.keys[1001]) if mark and "nose" in shot.landmarks.names[k])
    mark = shot.landmarks.keys[1001][index]
    assert mark is not None
    session.edits.begin("move landmark")
    for part in (2.0, 5.0, 9.0):
        session.corrections.move_landmarks(1001, {index: (mark.x + part, mark.y)})
    session.corrections.finish()
    qtbot.waitUntil(lambda: session.edits.last_step == "move landmark", timeout=120_000)
    after = session.document
    went = moved(shot, after, 1001)
    assert max(went.values()) > 1.0
    assert all(distance == 0 for distance in moved(shot, after, 1005).values())
    assert after is not None
    assert after.landmarks.hand[1001] == {shot.landmarks.names[index]}
    assert session.edits.undo() == "move landmark"
    assert session.document == shot


def test_human_keys_do_not_follow_a_landmark_that_does_not_sit_on_them(
    qtbot: QtBot, client: LiveClient, shot: RotoDocument
) -> None:
    shapes = tuple(shape.with_keys({f: Key(k.points, "human") for f, k in shape.keys.items()}) for shape in shot.shapes)
    session = session_of(replace(shot, shapes=shapes), client)
    client.load_pack(None)
    from rotopaint_ai.inference.pack import load_pack

    sheet = load_pack(None).sheet
    index = next(k for k, name in enumerate(shot.landmarks.names) if shot.landmarks.keys[1001][k] is not None)
    name = shot.landmarks.names[index]
    mark = shot.landmarks.keys[1001][index]
    assert mark is not None
    session.edits.begin("move landmark")
    session.corrections.move_landmarks(1001, {index: (mark.x, mark.y + 8)})
    session.corrections.finish()
    qtbot.waitUntil(lambda: session.edits.last_step == "move landmark", timeout=120_000)
    sits = {shape.name for shape in sheet.shapes if name in shape.on_landmarks.values()}
    went = moved(shot, session.document, 1001)
    assert {each for each, distance in went.items() if distance > 0} == sits


def test_a_refit_and_a_spread_come_back_as_steps(qtbot: QtBot, client: LiveClient, shot: RotoDocument) -> None:
    session = session_of(shot, client)
    seam = next(shape for shape in shot.shapes if shape.role == "seam")
    points = tuple(p._replace(x=p.x + 5) for p in seam.at(1003))
    keys = {**seam.keys, 1003: Key(points, "human")}
    corrected = replace(shot, shapes=tuple(s.with_keys(keys) if s is seam else s for s in shot.shapes))
    session.edits.push("move points", replace(session.state, document=corrected))
    session.corrections.refit()
    qtbot.waitUntil(lambda: session.edits.last_step == "refit shot", timeout=120_000)
    assert session.document is not None
    new = session.document.shape(seam.name)
    assert new.keys[1003] == keys[1003]
    assert new.keys[1002].source == "propagated"
    assert 2 < new.keys[1002].points[0].x - seam.keys[1002].points[0].x < 8
    session.edits.undo()
    session.corrections.spread(1003, 1002, 1004)
    qtbot.waitUntil(lambda: session.edits.last_step == "spread", timeout=120_000)
    spread = session.document.shape(seam.name)
    assert spread.keys[1006] == seam.keys[1006]
    assert session.state.spreads[0].frame == 1003


def test_a_seam_preview_comes_as_pixels(qtbot: QtBot, client: LiveClient, shot: RotoDocument) -> None:
    from rotopaint_ai.inference.sample import find_sample

    client.open_plate(str(find_sample()))
    got: list[Any] = []
    seams = {shape.name: SeamSettings(strength=0.0) for shape in shot.shapes if shape.role == "seam"}
    client.seam(SeamQuestion(1001, shot, {}, (0.0, 1.0, "Un-tone-mapped")), got.append)
    qtbot.waitUntil(idle(client), timeout=120_000)
    client.seam(SeamQuestion(1001, shot, seams, (0.0, 1.0, "Un-tone-mapped")), got.append)
    qtbot.waitUntil(idle(client), timeout=120_000)
    painted, unpainted = got
    assert len(painted.picture) == 3 * painted.width * painted.height == 3 * len(painted.matte)
    differs = {k // 3 for k, (a, b) in enumerate(zip(painted.picture, unpainted.picture)) if a != b}
    assert differs
    assert all(painted.matte[k] > 0 for k in differs)  # nothing changes outside the matte
    assert painted.after < painted.before == unpainted.before == unpainted.after


def test_a_preview_asks_with_the_landmarks_and_the_paint_of_its_frame(shot: RotoDocument) -> None:
    asked: list[Any] = []
    client = LiveClient()
    client._queue_question = lambda facts, take: asked.append(facts)  # type: ignore[method-assign]
    settings = {"seam_left": SeamSettings(hold_out=False)}
    client.seam(SeamQuestion(1003, shot, settings, (0.0, 1.0, "Un-tone-mapped")), lambda preview: None)
    (facts,) = asked
    marks = documents.loads(facts["shapes"], where="test").landmarks
    assert marks.names == shot.landmarks.names
    assert dict(marks.keys) == {1003: shot.landmarks.keys[1003]}
    assert facts["settings"]["seam_left"]["hold_out"] is False


def test_an_engine_killed_in_mid_request_is_started_again_and_answers(
    qtbot: QtBot, client: LiveClient, shot: RotoDocument
) -> None:
    session = session_of(shot, client)
    lost: list[str] = []
    client.lost.connect(lost.append)
    client.load_pack(None)
    qtbot.waitUntil(lambda: client.pid > 0 and client._folder is not None, timeout=120_000)
    os.kill(client.pid, signal.SIGKILL)  # it is loading the pack
    mark = shot.landmarks.keys[1001][0]
    assert mark is not None
    session.edits.begin("move landmark")
    session.corrections.move_landmarks(1001, {0: (mark.x + 5, mark.y)})
    session.corrections.finish()
    qtbot.waitUntil(lambda: session.edits.last_step == "move landmark", timeout=120_000)
    assert lost == ["The live engine stopped and was started again; nothing is lost"]
    assert max(moved(shot, session.document, 1001).values()) > 0


def script(tmp_path: Path, body: str) -> Engine:
    """An engine whose live program is this script."""
    package = tmp_path / "rotopaint_ai" / "live"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("import sys, json, time\n" + body)
    return Engine(sys.executable, (str(tmp_path), *package_folders()))


ANSWERS_HELLO = """
for line in sys.stdin:
    ask = json.loads(line)
    if ask["ask"] == "hello":
        print(json.dumps({"id": ask["id"], "ask": "hello", "version": 1, "folder": "/nonexistent"}), flush=True)
    else:
        REST
"""


def ask_drag(client: LiveClient, shot: RotoDocument) -> tuple[ShotSession, list[str]]:
    session = session_of(shot, client)
    said: list[str] = []
    session.message_sent.append(said.append)
    client.lost.connect(said.append)
    mark = shot.landmarks.keys[1001][0]
    assert mark is not None
    session.edits.begin("move landmark")
    session.corrections.move_landmarks(1001, {0: (mark.x + 5, mark.y)})
    session.corrections.finish()
    return session, said


def test_an_engine_that_dies_of_a_request_is_not_asked_for_ever(
    qtbot: QtBot, client: LiveClient, shot: RotoDocument, tmp_path: Path
) -> None:
    client.use(script(tmp_path, ANSWERS_HELLO.replace("REST", "sys.exit(9)")))
    session, said = ask_drag(client, shot)
    qtbot.waitUntil(lambda: session.edits.last_step == "move landmark", timeout=120_000)  # the landmark moved, alone
    assert "The live engine cannot answer this (drag); nothing was changed" in said
    assert moved(shot, session.document, 1001) == dict.fromkeys(moved(shot, session.document, 1001), 0)


def test_an_engine_that_hangs_is_ended(
    qtbot: QtBot, client: LiveClient, shot: RotoDocument, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(live_client.PATIENCE_MS, "drag", 100)
    client.use(script(tmp_path, ANSWERS_HELLO.replace("REST", "time.sleep(600)")))
    session, said = ask_drag(client, shot)
    qtbot.waitUntil(lambda: session.edits.last_step == "move landmark", timeout=120_000)
    assert any("cannot answer" in line for line in said)


def test_an_engine_of_another_version_or_without_python_is_reported_once(
    qtbot: QtBot, client: LiveClient, shot: RotoDocument, tmp_path: Path
) -> None:
    other = """
ask = json.loads(sys.stdin.readline())
print(json.dumps({"id": ask["id"], "ask": "hello", "error": "version 7"}), flush=True)
sys.stdin.read()
"""
    client.use(script(tmp_path, other))
    session, said = ask_drag(client, shot)
    qtbot.waitUntil(lambda: session.edits.last_step == "move landmark", timeout=120_000)
    assert said == ["version 7"]
    client.use(Engine("/nonexistent/python", ()))
    session, said = ask_drag(client, shot)
    qtbot.waitUntil(lambda: session.edits.last_step == "move landmark", timeout=120_000)
    assert said[0].startswith("/nonexistent/python could not be started")


def test_a_refit_that_cannot_be_says_why(qtbot: QtBot, client: LiveClient, shot: RotoDocument) -> None:
    session, said = session_of(shot, client), list[str]()
    session.message_sent.append(lambda text, *kind: said.append(text))
    client.lost.connect(session.say)
    session.corrections.refit()
    qtbot.waitUntil(idle(client), timeout=120_000)
    assert said[-1].startswith("no shape has a human key")
    client.use(Engine("/nonexistent/python", ()))
    for _ in range(2):
        said.clear()
        session.corrections.refit()
        qtbot.waitUntil(idle(client), timeout=120_000)
        qtbot.waitUntil(lambda: len(said) == 2, timeout=120_000)
        assert said[-1].startswith("/nonexistent/python could not be started")


def test_shapes_of_another_pack_are_refused_in_one_line(qtbot: QtBot, client: LiveClient, shot: RotoDocument) -> None:
    names = tuple(f"x{k}" for k in range(len(shot.landmarks.names)))
    other = replace(shot, landmarks=replace(shot.landmarks, names=names))
    client.load_pack(None)
    session, said = ask_drag(client, other)
    qtbot.waitUntil(lambda: session.edits.last_step == "move landmark", timeout=120_000)
    assert said[0].startswith("the shapes were not made with pack 'puppet'")
