"""In and Out: a run and the clean plate mean the frames between them, say so, and leave the other frames alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.shapes.roto import Key, RotoDocument
from rotopaint_ui.batch.open_shot import queue_open_shot
from rotopaint_ui.engine.command_lines import run_command, run_frames
from rotopaint_ui.host import PlateChoice
from rotopaint_ui.panel.panel import Panel
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts, range_text, read_run_results
from rotopaint_ui.settings.preferences import Preferences
from rotopaint_ui.standalone.app import MainWindow

from .conftest import FRAMES, make_document

CHOICE = PlateChoice("plate.####.png")


def y(document: RotoDocument | None, frame: int) -> float:
    assert document is not None
    return document.shape("seam").at(frame)[0].y


def between(first: int, last: int, down: float, width_px: float = 4.0) -> RotoDocument:
    """The results of a run of some frames: the seam lies lower, and has another width."""
    document = make_document()
    seam = document.shape("seam")
    keys = {
        frame: Key(tuple(p._replace(y=p.y + down) for p in key.points))
        for frame, key in seam.keys.items()
        if first <= frame <= last
    }
    eye = document.shape("eye")
    shapes = (
        replace(seam, keys=keys, width_px=width_px),
        eye.with_keys({f: key for f, key in eye.keys.items() if f in keys}),
    )
    return replace(document, first_frame=first, last_frame=last, shapes=shapes)


def test_a_run_is_asked_for_the_frames_between_in_and_out(session: ShotSession) -> None:
    assert run_frames(session, CHOICE) is None
    session.set_span((1002, 1005))
    assert run_frames(session, CHOICE) == (1002, 1003, 1005)  # 1004 is not on disk
    assert run_frames(session, replace(CHOICE, frames="1003-1006")) == (1003, 1005)  # and what the Read node says
    assert run_frames(session, CHOICE, ignores_range=True) is None
    words = run_command(session, CHOICE, None, Preferences(), run_frames(session, CHOICE))
    assert words[words.index("--frames") + 1] == "1002-1005"
    session.set_span((1004, 1004))
    with pytest.raises(UsageError, match="no frame of the plate lies between them"):
        run_frames(session, CHOICE)


def test_a_run_goes_on_only_where_one_of_the_same_frames_was_begun(session: ShotSession, out: Path) -> None:
    (out / ".rotopaint").mkdir()
    (out / ".rotopaint" / "job.json").write_text(json.dumps({"frames": ["1001-1003, 1005-1006"]}))
    assert "--resume" in run_command(session, CHOICE, None, Preferences())
    assert "--resume" not in run_command(session, CHOICE, None, Preferences(), (1002, 1003))
    (out / ".rotopaint" / "job.json").write_text(json.dumps({"frames": ["1002-1003"]}))
    assert "--resume" in run_command(session, CHOICE, None, Preferences(), (1002, 1003))
    (out / ".rotopaint" / "job.json").write_text("torn")
    assert "--resume" not in run_command(session, CHOICE, None, Preferences())


@pytest.mark.parametrize("is_own", [True, False], ids=["run in the panel", "run outside"])
def test_frames_that_were_not_run_stay_as_they_were(session: ShotSession, out: Path, is_own: bool) -> None:
    session.start_project(out / "shot.rotopaint", read_run_results(out))
    painted = dict(session.painting.painted_fingerprints)
    session.review.mark([1006], "accepted")
    session.set_span((1002, 1003))
    if is_own:
        session.prepare_run(run_frames(session, CHOICE))
    found = between(1002, 1003, down=3.0, width_px=9.0)
    documents.write(out / "shapes.roto.json", found)
    run = json.loads((out / "run.json").read_text())
    run["errors"]["by_frame"] = {"1002": [7.0, 1.0], "1003": [6.0, 1.0]}
    run["frames"]["lost"] = []
    (out / "run.json").write_text(json.dumps(run))
    session.take_run(read_run_results(out))
    assert [y(session.document, frame) for frame in FRAMES] == [20.0, 24.0, 25.0, 24.0, 25.0]
    assert [y(session.state.predicted, frame) for frame in FRAMES] == [20.0, 24.0, 25.0, 24.0, 25.0]
    assert session.document is not None
    assert (session.document.first_frame, session.document.last_frame) == (1001, 1006)
    assert session.document.shape("seam").width_px == 4.0  # of the shot: two frames do not change it
    assert [session.run.error_at(frame) for frame in FRAMES] == [0.2, 7.0, 6.0, 1.0, float("inf")]
    assert session.stale_frames() == []  # the run has painted what it found, the others show what they showed
    assert {f: each for f, each in session.painting.painted_fingerprints.items() if f not in (1002, 1003)} == {
        f: each for f, each in painted.items() if f not in (1002, 1003)
    }
    assert session.edits.undo() == "run"
    assert y(session.document, 1002) == 21.0
    session.close()


def test_a_run_under_way_leaves_the_other_frames_in_sight(session: ShotSession) -> None:
    specs = [{"name": "seam", "closed": False, "role": "seam"}, {"name": "eye", "closed": True, "role": "matte"}]
    head = {"width": 64, "height": 48, "pixel_aspect": 1.0, "fps": 24.0, "first_frame": 1002, "last_frame": 1003}
    session.runs.take_event({"event": "started", "landmarks": ["nose", "chin"], "shapes": specs, **head})
    rows = [list(p._replace(y=40.0)) for p in make_document().shape("seam").at(1002)]
    session.runs.take_event({"event": "frame", "frame": 1002, "landmarks": [[1, 1, 1], None], "shapes": {"seam": rows}})
    session.runs.show_live()
    assert [y(session.document, frame) for frame in FRAMES] == [20.0, 40.0, 22.0, 24.0, 25.0]
    session.runs.end_live()


def test_records_are_joined_frame_by_frame() -> None:
    old = RunRecord(
        errors={1: {"a": 1.0}, 2: {"a": 2.0}, 3: {"a": 3.0}},
        lost=frozenset({1, 2}),
        failed={3: "torn"},
        held=((1, 2), (4, 5)),
        seam={2: (3.0, 1.0), 3: (4.0, 1.0)},
        unseen={1: {"a": "left third"}, 2: {"a": "left third"}},
    )
    new = RunRecord(errors={2: {"a": 0.5}}, seam={2: (3.0, 0.5)}, held=((2, 3),), device="CPU")
    joined = new.joined(old, {2, 3})
    assert joined.errors == {1: {"a": 1.0}, 2: {"a": 0.5}}
    assert (joined.lost, joined.failed, joined.held) == (frozenset({1}), {}, ((2, 3), (4, 5)))
    assert (joined.seam, joined.device, joined.unseen) == ({2: (3.0, 0.5)}, "CPU", {1: {"a": "left third"}})


def test_buttons_say_the_range_and_how_to_do_it_all(qtbot: QtBot, panel: Panel, facts: PlateFacts, out: Path) -> None:
    session, seam, top = panel.session, panel.inspector.seam, panel.top
    session.open(facts, out)
    session.take_results(read_run_results(out))
    panel.inspector.setCurrentWidget(seam)
    session.seams.set({"seam": replace(session.seams.of("seam"), grain=0.5)})  # every frame is stale
    assert (top.run.text(), top.run_all.isVisible()) == ("Run", False)
    assert (seam.render_button.text(), seam.render_all_button.isVisible()) == ("Render 5 frames", False)
    assert seam.state.text() == "5 of 5 frames no longer fit the shapes"
    session.go_to(1002)
    panel.commands["range_in"].trigger()
    session.go_to(1003)
    panel.commands["range_out"].trigger()
    assert (top.run.text(), top.run_all.isVisible()) == (f"Run {range_text((1002, 1003))}", True)
    assert (seam.render_button.text(), seam.render_all_button.text()) == (
        f"Render 2 frames, {range_text((1002, 1003))}",
        "Render all 5",
    )
    assert seam.render_all_button.isVisible()
    assert "runs and paints" in panel.status.text.text()
    assert seam.state.text() == "5 of 5 frames no longer fit the shapes; 2 of them between In and Out"
    session.painting.show({})
    panel._updates.refresh()
    assert seam.state.text() == "No clean plate yet"
    panel.commands["range_all"].trigger()
    assert (top.run.text(), top.run_all.isVisible(), seam.render_button.text()) == ("Run", False, "Render 5 frames")
    session.set_span((1001, 1002))
    session.open(replace(facts, name="other"), out)
    assert session.span is None  # In and Out are of one shot


def test_the_jobs_get_what_the_buttons_say(panel: Panel, facts: PlateFacts, out: Path) -> None:
    session, started = panel.session, []
    session.open(facts, out)
    session.take_results(read_run_results(out))
    session.seams.set({"seam": replace(session.seams.of("seam"), grain=0.5)})
    session.set_span((1002, 1003))
    panel.opening.choice = CHOICE
    panel.jobs.worker.start = lambda engine, words: started.append(list(words))  # type: ignore[method-assign]
    for command in ("run", "run_all", "make_clean", "make_all"):
        panel.commands[command].trigger()
    frames = [words[words.index("--frames") + 1] if "--frames" in words else "all" for words in started]
    assert frames == ["1002-1003", "all", "1002-1003", "1001-1003,1005-1006"]


def test_a_shot_goes_into_the_batch_from_in_to_out(qtbot: QtBot, facts: PlateFacts, out: Path) -> None:
    window = MainWindow()
    qtbot.addWidget(window)
    window.panel.session.open(facts, out)
    window.panel.opening.choice = CHOICE
    window.panel.session.set_span((1002, 1003))
    window.add_to_batch()
    assert [shot.frames for shot in window.batch.queue.shots] == ["1002-1003"]
    window.close()


def test_a_run_from_one_file_of_a_sequence_is_for_all_of_it(session: ShotSession) -> None:
    assert session.plate is not None
    assert "--frames" not in run_command(session, CHOICE, None, Preferences())
    session.plate = replace(session.plate, is_named_by_frame=True)
    words = run_command(session, CHOICE, None, Preferences())
    assert words[words.index("--frames") + 1] == f"{session.plate.first}-{session.plate.last}"


def test_no_shot_is_queued_before_a_plate_is_open() -> None:
    with pytest.raises(UsageError, match="Open a plate first"):
        queue_open_shot(ShotSession(), None, None)
