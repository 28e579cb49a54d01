"""A run in tasks gives the files of one run, whatever happens in between."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rotopaint_ai.errors import CancelledError, UsageError
from rotopaint_ai.frames import FrameRange
from rotopaint_ai.jobs import Cancel, Event, RunJob
from rotopaint_ai.pipeline.overrides import inputs_for
from rotopaint_ai.pipeline.record_store import Journal, read_journal
from rotopaint_ai.pipeline.run import gather, paint, run, track
from rotopaint_ai.plates import open_plate
from rotopaint_ai.project import Project, State
from rotopaint_ai.project.face_groups import choose_face
from rotopaint_ai.project.fingerprints import NOTE, PaintFingerprints
from rotopaint_ai.shapes.layers import Layer
from rotopaint_ai.shapes.roto import Key


def _job(puppet: ModuleType, plates: str, pack: Path, out: Path, **changes: object) -> RunJob:
    job = RunJob(plates=plates, out=str(out), crops=(puppet.crop_text(),), model=str(pack), threads=2, resume=True)
    return replace(job, **changes)  # type: ignore[arg-type]


def _nobody(event: Event) -> None:
    pass


def _bytes(out: Path) -> dict[str, bytes]:
    """The files that a run leaves for others, by name; without run.json and the page, which contain times."""
    files = [path for path in out.rglob("*") if path.is_file() and ".rotopaint" not in path.parts]
    return {str(p.relative_to(out)): p.read_bytes() for p in files if p.name not in ("run.json", "index.html")}


def test_the_time_to_go_counts_exports_where_they_follow(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rotopaint_ai.pipeline.run.expected_s", lambda *asked: 50.0)
    for act, after_s in ((track, 0.0), (run, 50.0)):
        left = list[float]()

        def note(event: Event, left: list[float] = left, act: Any = act) -> None:
            if event.kind == "progress" and event.facts["task"] == ("track" if act is track else "paint"):
                left.append(event.facts["eta_s"])

        act(_job(puppet, plates, pack, tmp_path / act.__name__, frames="1001-1002"), note, Cancel())
        assert left[-1] == after_s


@pytest.fixture(scope="module")
def whole(puppet: ModuleType, plates: str, pack: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of one unbroken run."""
    out = tmp_path_factory.mktemp("whole")
    run(_job(puppet, plates, pack, out), _nobody, Cancel())
    return out


def test_tasks_give_the_files_of_one_run(
    puppet: ModuleType, plates: str, pack: Path, whole: Path, tmp_path: Path
) -> None:
    job = _job(puppet, plates, pack, tmp_path)
    assert track(job, _nobody, Cancel()) == ()
    for first, last in ((1006, 1012), (1001, 1005)):  # a hold is cut in two, and the order is turned round
        painted = paint(job, FrameRange(first, last), _nobody, Cancel())
        assert painted.done == tuple(range(first, last + 1))
    outcome = gather(job, _nobody)
    assert outcome.done == tuple(range(1001, 1013))
    assert _bytes(tmp_path) == _bytes(whole)
    ours, theirs = (json.loads((out / "run.json").read_text()) for out in (tmp_path, whole))
    for name in ("plate", "frames", "errors", "seam", "matte_px", "pictures", "keys"):
        assert ours[name] == theirs[name]


def test_a_task_that_was_stopped_goes_on(
    puppet: ModuleType, plates: str, pack: Path, whole: Path, tmp_path: Path
) -> None:
    job = _job(puppet, plates, pack, tmp_path)
    cancel = Cancel()

    def stop_at_third(event: Event) -> None:
        if event.kind in ("tracked", "frame") and event.facts["frame"] == 1003:
            cancel.request()

    with pytest.raises(CancelledError):
        track(job, stop_at_third, cancel)
    track(job, _nobody, Cancel())
    cancel = Cancel()
    with pytest.raises(CancelledError):
        paint(job, FrameRange(1001, 1012), stop_at_third, cancel)
    reported: list[Event] = []
    paint(job, FrameRange(1001, 1012), reported.append, Cancel())
    assert 0 < sum(event.kind == "frame" for event in reported) < 10  # what stood was not done again
    gather(job, _nobody)
    assert _bytes(tmp_path) == _bytes(whole)


def test_frames_that_nobody_painted_are_named(puppet: ModuleType, plates: str, pack: Path, tmp_path: Path) -> None:
    job = _job(puppet, plates, pack, tmp_path)
    with pytest.raises(UsageError, match="has not been tracked yet"):
        paint(job, FrameRange(1001, 1002), _nobody, Cancel())
    track(job, _nobody, Cancel())
    paint(job, FrameRange(1001, 1004), _nobody, Cancel())
    with pytest.raises(UsageError, match="frames 1005-1012 have not been painted yet"):
        gather(job, _nobody)
    with pytest.raises(UsageError, match="was tracked with another fill"):
        paint(replace(job, clean=False), FrameRange(1005, 1012), _nobody, Cancel())


@pytest.mark.parametrize(("name", "text"), [("tracked.json", "is not whole"), ("settled.journal", "lacks frames")])
def test_what_another_machine_does_not_see_yet_is_reported(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path, name: str, text: str
) -> None:
    """A network disk may show a file late, or only its beginning."""
    job = _job(puppet, plates, pack, tmp_path)
    track(job, _nobody, Cancel())
    late = tmp_path / ".rotopaint" / name
    whole = late.read_bytes()
    late.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match=rf"{re.escape(name)}: {text}.*not yet to be seen from here"):
        paint(job, FrameRange(1001, 1012), _nobody, Cancel())
    late.write_bytes(whole)
    assert len(paint(job, FrameRange(1001, 1012), _nobody, Cancel()).done) == 12


def test_a_truncated_picture_is_not_done(puppet: ModuleType, plates: str, pack: Path, tmp_path: Path) -> None:
    job = _job(puppet, plates, pack, tmp_path)
    track(job, _nobody, Cancel())
    paint(job, FrameRange(1001, 1012), _nobody, Cancel())
    late = next((tmp_path / "matte").glob("all.1004.*"))
    whole = late.read_bytes()
    late.write_bytes(whole[:200])
    outcome = gather(job, _nobody)
    assert list(outcome.failed) == [1004]
    assert "not those that were written; --resume makes them again" in outcome.failed[1004]
    late.write_bytes(whole)
    assert gather(job, _nobody).is_whole


def test_a_frame_that_breaks_after_tracking_fails_alone(puppet: ModuleType, pack: Path, tmp_path: Path) -> None:
    pattern = puppet.make_plates(tmp_path / "plates", range(1001, 1005))
    job = _job(puppet, pattern, pack, tmp_path / "out")
    track(job, _nobody, Cancel())
    broken = tmp_path / "plates/plate.1003.exr"
    good = broken.read_bytes()
    broken.write_bytes(good[:900])
    painted = paint(job, FrameRange(1001, 1004), _nobody, Cancel())
    assert painted.done == (1001, 1002, 1004)
    assert "plate.1003.exr" in painted.failed[1003]
    broken.write_bytes(good)
    assert paint(job, FrameRange(1001, 1004), _nobody, Cancel()).failed == {}


def test_tasks_respect_what_people_did_and_fill_the_project(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path
) -> None:
    path = tmp_path / "shot.rotopaint"
    job = _job(puppet, plates, pack, tmp_path / "out", project=str(path))
    Project.create(path).close()
    _in_tasks(job)
    with closing(Project.open(path)) as project:
        state = project.load().state
        assert state.document is not None
        seam = state.document.shape("seam_middle")
        new = _pushed_down(state, 1003)
        assert new.document is not None
        moved = new.document.shape("seam_middle")
        project.append("fix", state, new)
    _in_tasks(job)
    with closing(Project.open(path, write=False)) as project:
        loaded = project.load()
    assert [step.label for step in loaded.behind] == ["run", "fix", "run"]
    assert loaded.state.document is not None
    assert loaded.state.document.shape("seam_middle").keys[1003] == moved.keys[1003]
    now = loaded.state.document.shape("seam_middle")
    tops = [_top(tmp_path / "out", frame) - min(p.y for p in now.at(frame)) for frame in (1003, 1005)]
    assert tops[0] == pytest.approx(
        tops[1], abs=2
    )  # mattes are where the hand put the seam, and where that was carried
    assert now.keys[1005].points[0].y - seam.keys[1005].points[0].y == pytest.approx(9, abs=4)
    assert inputs_for(job).work.fingerprint() != ""  # what makes a batch do the shot again


def test_tasks_of_another_face_leave_the_first_one_as_it_is(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path
) -> None:
    """Only the last task writes into the project, and all work on the named face."""
    path = tmp_path / "shot.rotopaint"
    job = _job(puppet, plates, pack, tmp_path / "out", project=str(path), frames="1001-1003")
    Project.create(path).close()
    _in_tasks(job, (1001, 1003))
    with closing(Project.open(path)) as project:
        first = project.load().state
        named = choose_face(first, "Anna", None)
        project.append("name face", first, named)
    bo = replace(job, face="Bo", out=str(tmp_path / "bo"))
    track(bo, _nobody, Cancel())
    paint(bo, FrameRange(1001, 1003), _nobody, Cancel())
    with closing(Project.open(path, write=False)) as project:
        assert project.load().state == named
    gather(bo, _nobody)
    with closing(Project.open(path, write=False)) as project:
        state = project.load().state
    assert (state.face, list(state.faces)) == ("Bo", ["Anna"])
    assert named.document is not None
    assert state.document is not None
    for shape in named.document.shapes:
        assert state.document.shape(f"Anna_{shape.name}").keys == shape.keys
        assert state.document.shape(shape.name).layer == Layer("Bo")


def test_frames_that_were_tracked_otherwise_since_are_painted_anew(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path
) -> None:
    """A person's key on one frame can move a seam's ends on others."""
    job = _job(puppet, plates, pack, tmp_path, frames="1001-1003")
    track(job, _nobody, Cancel())
    paint(job, FrameRange(1001, 1003), _nobody, Cancel())
    path = tmp_path / ".rotopaint/settled.journal"
    before = next(record for record in read_journal(path) if record.frame == 1002)
    lower = [[row[0], row[1] + 9, *row[2:]] for row in before.shapes["seam_middle"]]
    journal = Journal(path)
    journal.append(replace(before, shapes={**before.shapes, "seam_middle": lower}))
    journal.close()
    reported = list[Event]()
    paint(job, FrameRange(1001, 1003), reported.append, Cancel())
    assert [event.facts["frame"] for event in reported if event.kind == "frame"] == [1002]
    assert _top(tmp_path, 1002) - _top(tmp_path, 1001) == 9


def test_paint_from_before_an_edit_is_not_noted_as_fitting(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path
) -> None:
    path = tmp_path / "shot.rotopaint"
    job = _job(puppet, plates, pack, tmp_path / "out", project=str(path), frames="1001-1003")
    Project.create(path).close()
    _in_tasks(job, (1001, 1003))
    with closing(Project.open(path)) as project:
        state = project.load().state
        project.append("fix", state, _pushed_down(state, 1003))
    gather(job, _nobody)  # what lies on disk was painted before the seam was pushed
    with closing(Project.open(path, write=False)) as project:
        painted = {int(frame): each for frame, each in project.note(NOTE).items()}
        assert PaintFingerprints().stale(project.load().state, range(1001, 1004), painted) == [1003]


def _pushed_down(state: State, frame: int) -> State:
    """The seam moved down by 9 px by hand at a frame."""
    assert state.document is not None
    seam = state.document.shape("seam_middle")
    down = tuple(p._replace(y=p.y + 9) for p in seam.at(frame))
    moved = seam.with_keys({**seam.keys, frame: Key(down, "human")})
    shapes = tuple(moved if shape is seam else shape for shape in state.document.shapes)
    return replace(state, document=replace(state.document, shapes=shapes))


def _in_tasks(job: RunJob, *ranges: tuple[int, int]) -> None:
    track(job, _nobody, Cancel())
    for first, last in ranges or ((1001, 1005), (1006, 1012)):
        paint(job, FrameRange(first, last), _nobody, Cancel())
    gather(job, _nobody)


def _top(out: Path, frame: int) -> int:
    return open_plate(out / "matte" / "seam_middle.####.exr").read(frame).origin[1]
