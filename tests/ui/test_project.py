"""A session and its project file: undo after closing and after a crash, plates that were moved, disks that refuse."""

from __future__ import annotations

import gc
import json
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from rotopaint_ai.errors import PlateError, ProjectError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.locks import FileLock
from rotopaint_ai.project import Project, SeamSettings, State, run_record
from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.project.state import CropBox
from rotopaint_ui.session import history
from rotopaint_ui.session.project_file import look_at_witnesses
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts, frame_paths, read_run_results

from .conftest import FRAMES, make_document, move_points, run_json, write_plate


def drag(session: ShotSession, dx: float) -> None:
    document = session.document
    assert document is not None
    session.edits.push(
        "move points", replace(session.state, document=move_points(document, "seam", [1003], [0], dx, 0))
    )


def x(session: ShotSession) -> float:
    assert session.document is not None
    return session.document.shape("seam").at(1003)[0].x


def started(facts: PlateFacts, out: Path) -> ShotSession:
    session = ShotSession()
    session.open(facts, out)
    results = read_run_results(out)
    session.take_results(results)
    session.start_project(results=results)
    return session


def reopened(path: Path, facts: PlateFacts | None = None) -> ShotSession:
    session = ShotSession()
    session.open_project(path)
    if facts is not None:
        session.open(facts)
    return session


@pytest.fixture
def kept(facts: PlateFacts, out: Path) -> ShotSession:
    return started(facts, out)


def test_every_edit_is_in_the_file_and_can_be_undone_after_closing(kept: ShotSession, facts: PlateFacts) -> None:
    drag(kept, 4.0)
    kept.review.mark([1001, 1002], "accepted")
    kept.seams.set({"seam": SeamSettings(width_px=7.0)})
    kept.edits.undo()
    state, path = kept.state, kept.project.path
    assert path is not None
    kept.close()
    again = reopened(path, facts)
    assert again.state == state
    assert again.edits.redo() == "seam settings"
    assert again.edits.undo() == "seam settings"
    assert again.edits.undo() == "accept"
    assert again.edits.undo() == "move points"
    assert x(again) == 10.0
    assert again.edits.undo() is None
    again.close()


def test_a_session_that_was_killed_is_recovered_with_its_undo(kept: ShotSession, facts: PlateFacts) -> None:
    drag(kept, 4.0)
    kept.edits.begin("move points")
    kept.edits.preview(replace(kept.state, crops={1001: CropBox(0, 0, 9, 9)}))  # under the hand
    path = kept.project.path
    assert path is not None
    locks = [each for each in gc.get_objects() if type(each) is FileLock]
    for lock in locks:  # as the system does when their process ends
        lock.release()
    said: list[str] = []
    again = ShotSession()
    again.message_sent.append(said.append)
    again.open_project(path)
    assert said == ["Recovered: the last session ended without closing; 1 step can be undone"]
    assert x(again) == 14.0
    assert again.state.crops == {}
    again.edits.undo()
    assert x(again) == 10.0
    again.close()


def test_the_run_record_comes_with_the_project(kept: ShotSession) -> None:
    kept.take_run(read_run_results(kept.out or Path()))
    worst, path = kept.worst(), kept.project.path
    kept.close()
    assert path is not None
    again = reopened(path)
    assert again.run == kept.run
    assert worst[0] == 1006
    again.close()


def test_a_project_that_is_open_is_opened_again_to_be_written(kept: ShotSession) -> None:
    drag(kept, 4.0)
    path = kept.project.path
    assert path is not None
    kept.open_project(path)
    assert not kept.project.is_read_only
    assert (kept.edits.undo(), x(kept)) == ("move points", 10.0)
    kept.close()


def test_a_project_without_a_record_takes_none_of_the_shot_before_it(kept: ShotSession, tmp_path: Path) -> None:
    kept.run = replace(kept.run, held=((1001, 1003),))
    Project.create(tmp_path / "other.rotopaint", State()).close()
    kept.open_project(tmp_path / "other.rotopaint")
    assert kept.run == RunRecord()  # another shot's holds would move its keys
    kept.close()


def test_holds_outlive_a_run_of_some_frames_and_the_plate_opened_anew(
    kept: ShotSession, facts: PlateFacts, out: Path
) -> None:
    kept.run = replace(kept.run, held=((1002, 1003),))
    kept.prepare_run((1005, 1006))
    part = run_json()
    part["errors"]["by_frame"] = {"1005": [4.0, 2.0]}
    (out / "run.json").write_text(json.dumps(part))
    kept.take_run(read_run_results(out))
    kept.shapes_file.save()
    kept.close()
    again = started(facts, out)
    assert again.hold_frames(1002) == range(1002, 1004)
    assert [again.run.error_at(frame) for frame in FRAMES] == [0.2, 0.5, 2.0, 4.0, float("inf")]
    again.close()


def test_undo_of_a_run_brings_its_record_back_and_redo_too(kept: ShotSession, out: Path) -> None:
    before, path = kept.run, kept.project.path
    assert path is not None
    kept.prepare_run()
    kept.run = kept.run.with_frame({"frame": 1001, "status": "lost"})  # as it comes while the run goes on
    (out / "run.json").write_text(json.dumps(run_json(held=[[1001, 1003]])))
    documents.write(out / "shapes.roto.json", replace(make_document(), fps=25.0))
    kept.take_run(read_run_results(out))
    after = kept.run
    kept.review.mark([1005], "accepted")
    kept.edits.undo()
    assert kept.run == after
    assert kept.edits.undo() == "run"
    assert kept.run == before
    assert kept.hold_frames(1002) == range(1002, 1003)  # an edit here moves the keys of this frame alone again
    kept.edits.redo()
    assert kept.run == after
    kept.edits.undo()
    kept.close()
    again = reopened(path)
    assert again.run == before
    again.close()


def test_undo_of_a_run_far_back_brings_its_record_back(kept: ShotSession, out: Path) -> None:
    before = kept.run
    kept.prepare_run()
    (out / "run.json").write_text(json.dumps(run_json(held=[[1001, 1003]])))
    documents.write(out / "shapes.roto.json", replace(make_document(), fps=25.0))
    kept.take_run(read_run_results(out))
    after = kept.run
    n = history.IN_MEMORY + 5
    for k in range(n):
        drag(kept, 1.0 + k)
    for _ in range(n):
        kept.edits.undo()
        assert kept.run == after
    assert kept.edits.undo() == "run"
    assert kept.run == before != after
    kept.edits.redo()
    assert kept.run == after


def test_a_width_set_by_hand_outlives_a_run(kept: ShotSession) -> None:
    kept.seams.set({"seam": SeamSettings(width_px=7.0, taper=(0.1, 0.0))})
    kept.take_run(read_run_results(kept.out or Path()))
    assert kept.document is not None
    assert kept.document.shape("seam").width_px == 7.0
    assert kept.document.shape("seam").taper == (0.1, 0.0)
    kept.seams.set({"seam": SeamSettings()})
    assert kept.document.shape("seam").width_px == 4.0
    kept.close()


def test_hand_landmarks_outlive_a_run(kept: ShotSession) -> None:
    kept.edits.begin("move landmark")
    kept.corrections.move_landmarks(1001, {0: (33.0, 22.0)})
    kept.corrections.finish()
    kept.take_run(read_run_results(kept.out or Path()))
    assert kept.document is not None
    assert kept.document.landmarks.keys[1001][0] == (33.0, 22.0, 0.0)
    assert kept.document.landmarks.hand[1001] == {"nose"}
    kept.close()


def test_shapes_that_a_run_outside_has_written_come_in_as_one_step(
    kept: ShotSession, facts: PlateFacts, out: Path
) -> None:
    drag(kept, 4.0)
    kept.shapes_file.save()
    kept.close()
    again = started(facts, out)
    assert again.edits.last_step == "move points"  # nothing new on disk
    again.close()
    newer = replace(make_document(), fps=25.0)
    documents.write(out / "shapes.roto.json", newer)
    again = started(facts, out)
    assert again.edits.last_step == "run"
    assert again.document is not None
    assert (again.document.fps, x(again)) == (25.0, 14.0)  # the new shapes, the hand's key
    again.close()


def test_a_second_person_reads_and_keeps_nothing(kept: ShotSession, facts: PlateFacts) -> None:
    path = kept.project.path
    assert path is not None
    second = reopened(path, facts)
    assert second.project.is_read_only
    assert second.project.lock_owner is not None
    assert " on " in second.project.lock_owner
    drag(second, 4.0)
    assert x(second) == 14.0
    second.edits.undo()
    assert x(second) == 10.0
    second.close()
    kept.close()
    third = reopened(path)
    assert not third.project.is_read_only
    assert third.edits.last_step is None
    third.close()


def test_a_moved_plate_is_known_again_and_another_one_refused(
    kept: ShotSession, facts: PlateFacts, tmp_path: Path
) -> None:
    write_plate(facts.path.parent)
    kept.project.take_witnesses(look_at_witnesses(facts))
    drag(kept, 1.0)
    path = kept.project.path
    kept.close()
    assert path is not None
    moved = tmp_path / "elsewhere"
    shutil.copytree(facts.path.parent, moved)  # other times, same content
    for each in moved.iterdir():
        each.touch()
    other = tmp_path / "other"
    write_plate(other, add=3)
    again = ShotSession()
    place = again.open_project(path)
    assert place.source == facts.source
    with pytest.raises(PlateError, match=r"other pictures than the project's plate \(compared frames 1001-1003, 1005"):
        again.open(replace(facts, path=other / "plate.1001.png"))
    assert again.project.awaits_plate
    with pytest.raises(PlateError, match="is 32 x 48, the project was made on plate of 64 x 48"):
        again.open(replace(facts, width=32))
    again.open(replace(facts, path=moved / "plate.1001.png", source=str(moved)))
    assert not again.project.awaits_plate
    assert x(again) == 11.0
    again.close()
    assert reopened(path).open_project(path).source == str(moved)


def test_a_disk_that_refuses_costs_no_work(kept: ShotSession, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    kept.message_sent.append(said.append)

    def refuse(*arguments: object) -> int:
        raise ProjectError("shot.rotopaint: the disk is full; free some space")

    with monkeypatch.context() as patch:
        patch.setattr(Project, "append", refuse)
        drag(kept, 4.0)
        drag(kept, 1.0)
        assert kept.project.trouble is not None
        kept.heartbeat()
    assert said == ["Not saved: shot.rotopaint: the disk is full; free some space"]
    kept.edits.undo()
    kept.heartbeat()
    assert said[-1] == "Saved again: everything is in the project file"
    state, path = kept.state, kept.project.path
    kept.close()
    assert path is not None
    assert reopened(path).state == state


def test_old_undo_states_come_back_from_disk_bit_for_bit(kept: ShotSession) -> None:
    """Memory does not grow with the session: whole states are kept for only a few steps."""
    n_others, states = n_states(), [kept.state]
    for k in range(3 * history.IN_MEMORY):
        drag(kept, 1.0 + k)
        states.append(kept.state)
    for state in reversed(states[:-1]):
        kept.edits.undo()
        assert kept.state == state
    for state in states[1:]:
        kept.edits.redo()
        assert kept.state == state
    del states, state
    assert n_states() - n_others <= history.IN_MEMORY + 3
    kept.edits.undo()
    assert x(kept) == x_on_disk(kept)


def n_states() -> int:
    """The number of states in memory."""
    gc.collect()
    return sum(type(thing) is State for thing in gc.get_objects())


def x_on_disk(session: ShotSession) -> float:
    """The dragged point's x in the project file."""
    session.flush()
    assert session.project.path is not None
    with closing(Project.open(session.project.path, write=False)) as project:
        document = project.load().state.document
    assert document is not None
    return document.shape("seam").at(1003)[0].x


def test_steps_that_the_disk_refused_are_undone_on_it_too(kept: ShotSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """One step is refused, the next is written with both; each can be undone alone, on the screen and on disk."""

    def refuse(*arguments: object) -> int:
        raise ProjectError("shot.rotopaint: the disk is full; free some space")

    drag(kept, 1.0)
    with monkeypatch.context() as patch:
        patch.setattr(Project, "append", refuse)
        drag(kept, 2.0)
    drag(kept, 4.0)
    for _ in range(3):
        kept.edits.undo()
        kept.heartbeat()
        kept.flush()
        assert kept.project.path is not None
        assert kept.project.trouble is None
        assert x_on_disk(kept) == x(kept)
    kept.edits.redo()
    assert x_on_disk(kept) == x(kept)


def test_a_file_that_cannot_be_opened_leaves_the_open_shot(kept: ShotSession, tmp_path: Path) -> None:
    (tmp_path / "bad.rotopaint").write_bytes(b"")
    before = kept.state
    with pytest.raises(ProjectError):
        kept.open_project(tmp_path / "bad.rotopaint")
    assert kept.state is before
    drag(kept, 2.0)
    assert kept.project.trouble is None
    kept.close()


def test_paths_of_frames(facts: PlateFacts) -> None:
    assert [path.name for path in frame_paths(facts, FRAMES[:2]).values()] == ["plate.1001.png", "plate.1002.png"]
    padded = replace(facts, path=Path("/p/a2.0099.v3.exr"), frames=(99, 100))
    assert frame_paths(padded, (100,))[100] == Path("/p/a2.0099.v3.exr")  # 3 is not the frame: nothing is guessed
    plain = replace(facts, path=Path("/p/a2.0099.exr"), frames=(99, 100))
    assert frame_paths(plain, (100,))[100] == Path("/p/a2.0100.exr")
    movie = replace(facts, path=Path("/p/take1.mov"), frames=(1, 2))
    assert frame_paths(movie, (2,))[2] == Path("/p/take1.mov")


def test_frames_edited_since_they_were_painted_are_known_to_be_stale(kept: ShotSession, facts: PlateFacts) -> None:
    assert kept.stale_frames() == []
    drag(kept, 4.0)
    assert kept.stale_frames() == [1003]
    kept.review.mark([1001], "accepted")
    kept.painting.note([1003], kept.state)
    assert kept.stale_frames() == []
    kept.edits.undo()
    kept.edits.undo()
    assert kept.stale_frames() == [1003]  # what lies on disk shows the drag
    kept.seams.set({"seam": SeamSettings(strength=0.5)})
    assert kept.stale_frames() == list(FRAMES)
    kept.edits.undo()
    path = kept.project.path
    kept.close()
    assert path is not None
    again = reopened(path, facts)
    assert again.stale_frames() == [1003]
    again.close()


def test_a_width_set_by_hand_makes_all_frames_stale_until_a_run(kept: ShotSession) -> None:
    kept.seams.set({"seam": SeamSettings(width_px=7.0)})
    assert kept.stale_frames() == list(FRAMES)


@pytest.mark.parametrize(
    ("name", "value"),
    [("plate", [1]), ("out", 5), ("painted", {"a": "b"}), ("view", 3), ("run", {}), ("run", [])]
    + [("run", {**run_record.to_json(RunRecord()), "errors": {"1001": {"seam": "much"}}})],
)
def test_a_project_with_invalid_notes_is_refused_and_unlocked(kept: ShotSession, name: str, value: object) -> None:
    path = kept.project.path
    kept.close()
    assert path is not None
    with closing(Project.open(path)) as project:
        project.set_note(name, value)
    with pytest.raises(ProjectError, match="restore"):
        ShotSession().open_project(path)
    Project.open(path).close()


def test_shapes_that_a_panel_has_written_are_no_other_programs_when_it_opens_again(
    facts: PlateFacts, out: Path
) -> None:
    """In the order of `Opening`: first results, then the project; once without a project, twice with one."""
    for fps in (11.0, 12.0, 13.0):
        session = ShotSession()
        session.open(facts, out)
        results = read_run_results(out)
        session.take_results(results)
        session.start_project(out / "shot.rotopaint", results)
        assert session.shapes_file.is_saved == (session.document == results.document)
        document = session.state.document
        assert document is not None
        session.edits.push("rate", replace(session.state, document=replace(document, fps=fps)))
        assert session.shapes_file.save()
        session.edits.undo()
        session.close()
        assert list(out.glob("shapes.other*")) == []
