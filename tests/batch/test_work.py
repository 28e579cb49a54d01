"""A show is done once, goes on after whatever ends it, and says what failed: in one process, and task by task."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import event_command
from rotopaint_ai.batch import tasks as tasks_module
from rotopaint_ai.batch.attempt import Do, do_one, work_here
from rotopaint_ai.batch.jobs_file import JobShot, read_show
from rotopaint_ai.batch.notes import TaskNotes
from rotopaint_ai.batch.show_plan import ShowPlan, plan_show
from rotopaint_ai.batch.summary import summarise_show, write_summary
from rotopaint_ai.batch.tasks import BatchTask, select_tasks
from rotopaint_ai.cli import main
from rotopaint_ai.errors import BusyError
from rotopaint_ai.frames import FrameRange
from rotopaint_ai.inference.pack import write_card
from rotopaint_ai.jobs import Cancel, Event, RunJob, Sink
from rotopaint_ai.pipeline.record_store import CHUNKS, FrameRecord, Journal, open_state
from rotopaint_ai.pipeline.run import _collect_ranges

SHOT = JobShot("sh010", RunJob("a.####.exr", "out", ("auto",)), chunk=2, retries=2)
TASKS = (
    BatchTask(SHOT, "track"),
    *(BatchTask(SHOT, "paint", FrameRange(n, n + 1), ("sh010/track",)) for n in range(1, 13, 2)),
    BatchTask(SHOT, "gather", None, tuple(f"sh010/paint.{FrameRange(n, n + 1)}" for n in range(1, 13, 2))),
)


class Done:
    """A fake engine that sleeps for some milliseconds and counts; `moods` gives the attempts of a task that fail."""

    def __init__(self, moods: Mapping[str, int] | None = None) -> None:
        self.count: Counter[str] = Counter()
        self.order: list[str] = []
        self._moods = dict(moods or {})
        self._lock = threading.Lock()

    def __call__(self, task: BatchTask, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
        with self._lock:
            self.count[task.key] += 1
            self.order.append(task.key)
        time.sleep(0.01)
        if self.count[task.key] <= self._moods.get(task.key, 0):
            raise OSError("the disk is full")
        return {"frames": 2, "failed": {}, "seconds": 0.01}


def _nobody(event: Event) -> None:
    pass


def _work(notes: TaskNotes, do: Do, reported: list[Event] | None = None) -> None:
    work_here(TASKS, notes, do, _nobody if reported is None else reported.append, Cancel())


def _one(task: BatchTask, notes: TaskNotes, do: Do, sink: Sink = _nobody) -> str | None:
    return do_one(task, notes, do, sink, Cancel())


def test_tasks_are_done_in_order_and_a_second_time_by_nobody(tmp_path: Path) -> None:
    done, notes = Done(), TaskNotes(tmp_path)
    _work(notes, done)
    assert done.order == [task.key for task in TASKS]
    _work(notes, done)
    assert done.count == Counter({task.key: 1 for task in TASKS})


def test_a_task_that_fails_is_tried_again_and_then_left(tmp_path: Path) -> None:
    patient, reported = Done({"sh010/paint.3-4": 2}), list[Event]()
    _work(TaskNotes(tmp_path / "a"), patient, reported)
    assert patient.count["sh010/paint.3-4"] == 3
    assert patient.count["sh010/gather"] == 1
    assert [event.facts["message"] for event in reported] == [
        f"sh010/paint.3-4: the disk is full (attempt {n})" for n in (1, 2)
    ]
    hopeless = Done({"sh010/paint.3-4": 99})
    notes = TaskNotes(tmp_path / "b")
    _work(notes, hopeless)
    assert hopeless.count["sh010/paint.3-4"] == 3
    assert hopeless.count["sh010/gather"] == 0  # and everything else was done
    assert sum(map(notes.is_done, TASKS)) == len(TASKS) - 2
    _work(notes, Done())  # whoever starts it again tries again
    assert all(map(notes.is_done, TASKS))


def test_a_range_with_failing_frames_is_done_after_its_last_try(tmp_path: Path) -> None:
    count: list[str] = []

    def torn(task: BatchTask, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
        count.append(task.key)
        return {"frames": 1, "failed": {"1": "torn"}, "seconds": 0.0}

    notes = TaskNotes(tmp_path)
    assert _one(TASKS[1], notes, torn) is None
    assert len(count) == 3
    assert notes.facts(TASKS[1])["failed"] == {"1": "torn"}


def test_a_silent_worker_is_waited_for_and_its_work_counts(tmp_path: Path) -> None:
    notes, reported, asked = TaskNotes(tmp_path), list[Event](), list[str]()

    def busy(task: BatchTask, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
        asked.append(task.key)
        if len(asked) == 2:
            notes.finish(task, {"seconds": 1.0})  # by the other, meanwhile
        raise BusyError("another run is writing here")

    assert _one(TASKS[0], notes, busy, reported.append) is None
    assert len(asked) == 2
    assert [event.facts["message"] for event in reported] == [
        "sh010/track: another process works on it; waiting until it has ended"
    ]


def test_a_worker_of_another_version_is_refused(tmp_path: Path) -> None:
    other = replace(TASKS[0], build="of another day")
    assert "another version of RotoPaint AI" in (_one(other, TaskNotes(tmp_path), Done()) or "")


def test_another_job_is_another_task(tmp_path: Path) -> None:
    notes = TaskNotes(tmp_path)
    notes.finish(TASKS[0], {"frames": 0})
    other = JobShot("sh010", RunJob("a.####.exr", "out", ("1,1,9,9",)), chunk=2, retries=2)
    assert notes.is_done(TASKS[0])
    assert not notes.is_done(BatchTask(other, "track"))


@pytest.fixture
def show(puppet: ModuleType, puppet_pack: Path, tmp_path: Path) -> Path:
    """Two shots that can be done, one of them with a broken frame, and one whose plates are missing."""
    puppet.make_plates(tmp_path / "a", range(1001, 1007))
    puppet.make_plates(tmp_path / "b", range(1001, 1004))
    broken = tmp_path / "b/plate.1002.exr"
    broken.write_bytes(broken.read_bytes()[:900])
    settings = {"model": str(puppet_pack), "crop": puppet.crop_text(), "chunk": 2, "retries": 1, "threads": 1}
    shots = [{"name": name, "plates": f"{name}/plate.####.exr"} for name in ("a", "b", "gone")]
    path = tmp_path / "show.yaml"
    path.write_text(json.dumps({"out": "renders", "defaults": settings, "shots": shots}))  # JSON is YAML
    return path


def test_a_show_in_one_process(show: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", str(show)]) == 3
    out = show.parent / "renders"
    states = {shot.name: shot for shot in summarise_show(read_show(show), plan_show(read_show(show)))}
    assert {name: shot.state for name, shot in states.items()} == {"a": "done", "b": "frames failed", "gone": "failed"}
    assert "plate.1002.exr" in (states["b"].failed or {})["1002"]
    assert len(list((out / "a/clean").glob("*.exr"))) == 6
    assert len(list((out / "b/clean").glob("*.exr"))) == 2
    page = (out / "index.html").read_text()
    assert "a/report/index.html" in page
    assert "plate.1002.exr" in page
    assert "gone" in capsys.readouterr().err


def test_a_shot_is_judged_by_its_record(show: Path) -> None:
    """`run.json` has null for shapes that are not known in a frame without a face; it may also be damaged."""
    main(["batch", str(show)])
    record = show.parent / "renders/a/run.json"
    content = json.loads(record.read_text())
    content["shapes"] = {"a": {"role": "seam"}, "b": {"role": "seam"}}
    content["errors"] = {"shapes": ["a", "b"], "by_frame": {"1001": [None, 2.5], "1002": [0.5, 1.5], "1003": []}}
    record.write_text(json.dumps(content))
    first, *_ = summarise_show(read_show(show), plan_show(read_show(show)))
    assert (first.worst, first.median_error_px) == (((1001, 2.5), (1002, 1.5)), 2.0)
    content["frames"]["lost"] = [1003, 1004]
    record.write_text(json.dumps(content))
    first, *_ = summarise_show(read_show(show), plan_show(read_show(show)))
    assert (first.state, first.trouble) == ("frames failed", "no face at frames 1003-1004")
    for torn in ("[]", "{}", '{"frames": 5, "errors": {"by_frame": {}}}', "{"):
        record.write_text(torn)
        first, *_ = summarise_show(read_show(show), plan_show(read_show(show)))
        assert first.trouble == f"{record}: is damaged; delete it, then the shot is gathered again"


def test_a_killed_show_goes_on_where_it_was(show: Path) -> None:
    at = "event.kind == 'frame' and event.facts.get('task', '').startswith('a/paint')"
    words = event_command.command(["batch", str(show), "--events"], at=at, deed=event_command.DIE)
    paths = os.pathsep.join(path for path in sys.path if path)
    killed = subprocess.run(words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert {task.key for task in plan_show(read_show(show)).of_shot("a")} - {
        task.key for task in plan_show(read_show(show)).unfinished("a")
    } == {"a/track"}
    assert main(["batch", str(show)]) == 3
    assert not plan_show(read_show(show)).unfinished()
    assert len(list((show.parent / "renders/a/clean").glob("*.exr"))) == 6


def test_a_stopped_show_names_the_command_that_resumes_it(
    show: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(job: RunJob, sink: Sink, cancel: Cancel) -> None:
        cancel.check()
        os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C, and a farm that stops the whole group after it
        os.kill(os.getpid(), signal.SIGTERM)
        cancel.check()

    monkeypatch.setattr("rotopaint_ai.batch.attempt.track", stop)
    assert main(["batch", str(show), "--shot", "a"]) == 130
    assert "rotopaint batch: stopped on request; the same command goes on" in capsys.readouterr().err
    assert "0 of 5 tasks done" in (show.parent / "renders/index.html").read_text()


def test_single_tasks_wait_for_what_they_need(show: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", str(show), "--task", "paint", "--shot", "a", "--frames", "1001-1002"]) == 2
    assert "a/paint.1001-1002: waits for a/track" in capsys.readouterr().err
    assert main(["batch", str(show), "--task", "paint", "--shot", "a", "--frames", "1-9"]) == 2
    assert "there are a/track, a/paint.1001-1002" in capsys.readouterr().err
    assert main(["batch", str(show), "--task", "track", "--shot", "a"]) == 0
    capsys.readouterr()
    assert main(["batch", str(show), "--task", "track", "--shot", "gone"]) == 3
    assert "rotopaint batch: gone: " in capsys.readouterr().err
    assert main(["batch", str(show), "--task", "track"]) == 2
    assert "--task track: needs --shot NAME" in capsys.readouterr().err
    page = write_summary(read_show(show), plan_show(read_show(show)))
    assert "1 of 5 tasks done" in page.read_text()


def test_a_farm_task_is_retried_up_to_the_shots_limit(tmp_path: Path) -> None:
    notes = TaskNotes(tmp_path)
    plan = ShowPlan(TASKS, {}, notes)
    assert _one(TASKS[0], notes, Done({"sh010/track": 2})) is None
    hopeless = Done({"sh010/paint.1-2": 99})
    assert _one(TASKS[1], notes, hopeless) == "the disk is full"
    assert hopeless.count["sh010/paint.1-2"] == 3
    assert plan.blocking_failure(TASKS[2]) is None  # other ranges go on
    assert plan.blocking_failure(TASKS[-1]) == "sh010/paint.1-2 failed: the disk is full"


def test_an_unexpected_error_ends_a_shot_but_not_the_show(
    show: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stumble(job: RunJob, sink: Sink, cancel: Cancel) -> None:
        raise ValueError("odd")

    monkeypatch.setattr("rotopaint_ai.batch.attempt.track", stumble)
    monkeypatch.setattr(tempfile, "tempdir", str(show.parent))
    assert main(["batch", str(show), "--shot", "a"]) == 3
    reported = capsys.readouterr().err
    assert "error: a/track: ValueError: odd. Please send us" in reported
    assert "rotopaint batch: a: ValueError: odd" in reported  # and again at the end


def test_a_full_disk_is_reported_with_its_file(tmp_path: Path) -> None:
    def fill(task: BatchTask, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
        raise OSError(errno.ENOSPC, "No space left on device", "clean/plate.1001.exr")

    reason = _one(TASKS[0], TaskNotes(tmp_path), fill)
    assert reason == "clean/plate.1001.exr: No space left on device; check the disk, its space and its permissions"


def test_a_farm_continues_past_a_broken_frame_and_a_failed_shot(show: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["batch", str(show), "--keep-going", "--task"]
    assert main([*words, "track", "--shot", "gone"]) == 0
    assert main([*words, "track", "--shot=b"]) == 0
    assert main([*words, "paint", "--shot=b", "--frames=1001-1003"]) == 0
    assert main([*words, "gather", "--shot=b"]) == 0
    capsys.readouterr()
    assert main(["batch", str(show), "--task", "summary"]) == 3
    reported = capsys.readouterr().err.splitlines()
    assert reported[0] == "rotopaint batch: a: 0 of 5 tasks done"
    assert re.match("rotopaint batch: b: 1 frame failed, first 1002: .*plate.1002.exr", reported[1])
    assert reported[2].startswith("rotopaint batch: gone: ")
    assert len(list((show.parent / "renders/b/clean").glob("*.exr"))) == 2


def _once(show: Path, puppet_pack: Path, **settings: object) -> list[BatchTask]:
    """The tasks of a show with one shot and a pack that tests may change."""
    pack = show.parent / "pip"
    if not pack.exists():
        shutil.copytree(puppet_pack, pack)
    entry = {"name": "a", "plates": "a/plate.####.exr", "crop": "1,1,9,9", "model": "pip", "chunk": 3, **settings}
    show.write_text(json.dumps({"out": "renders", "shots": [entry]}))
    return list(plan_show(read_show(show)).tasks)


def test_a_show_is_the_same_wherever_it_is_seen_from(
    show: Path, puppet_pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = _once(show, puppet_pack)
    monkeypatch.chdir(show.parent)
    near = plan_show(read_show(Path("show.yaml"))).tasks
    assert [task.fingerprint for task in near] == [task.fingerprint for task in tasks]
    threads = _once(show, puppet_pack, threads=3, retries=5)
    assert [task.fingerprint for task in threads] == [task.fingerprint for task in tasks]


def test_plates_and_packs_that_change_make_a_shot_be_done_again(show: Path, puppet_pack: Path) -> None:
    def prints() -> list[str]:
        return [task.fingerprint for task in _once(show, puppet_pack)]

    seen = [prints()]
    plate = show.parent / "a/plate.1006.exr"
    os.utime(plate, (1, 1))
    seen.append(prints())
    plate.unlink()
    seen.append(prints())
    card = show.parent / "pip/card.json"
    (show.parent / "pip/sheet.yaml").write_text((show.parent / "pip/sheet.yaml").read_text() + "\n")
    write_card(card.parent, json.loads(card.read_text()))
    seen.append(prints())
    assert all(len({row[place] for row in seen}) == len(seen) for place in (0, 1, -1))


def test_a_finished_shot_stays_so_when_the_program_is_renewed(
    show: Path, puppet_pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = TaskNotes(show.parent)
    for task in _once(show, puppet_pack):
        notes.finish(task, {})
    monkeypatch.setattr(tasks_module, "build_digest", lambda: "renewed")
    renewed = ShowPlan(tuple(_once(show, puppet_pack)), {}, notes)
    assert not renewed.unfinished()
    notes._note_path(renewed.tasks[-1], "done").unlink()  # not finished: what was begun is begun anew
    assert renewed.unfinished() == renewed.tasks


def test_what_is_deleted_is_made_again(show: Path) -> None:
    words = ["batch", str(show), "--shot", "a"]
    assert main(words) == 0
    out = show.parent / "renders/a"
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.exr")}
    gone = sorted(before)[-1]
    gone.unlink()
    assert main(words) == 0
    after = {path: path.stat().st_mtime_ns for path in out.rglob("*.exr")}
    frame = gone.name.split(".")[-2]
    assert {path for path in before if after[path] != before[path]} == {p for p in before if f".{frame}." in p.name}
    (out / ".rotopaint" / "settled.journal").unlink()  # from which the next is painted
    gone.unlink()
    assert main(words) == 0
    assert gone.exists()
    settled = out / ".rotopaint" / "settled.journal"
    os.truncate(settled, settled.stat().st_size // 2)
    gone.unlink()
    assert main(words) == 0
    assert gone.exists()
    shutil.rmtree(out)
    assert main(words) == 0
    assert set(out.rglob("*.exr")) == set(before)


def test_plates_that_are_rendered_anew_are_tracked_anew(show: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["batch", str(show), "--shot", "a"]
    assert main(words) == 0
    folder = show.parent / "a"
    shutil.copy(folder / "plate.1006.exr", folder / "plate.1001.exr")
    os.utime(folder / "plate.1001.exr", (1, 1))
    shutil.copy(folder / "plate.1006.exr", folder / "plate.1007.exr")  # and one that came late
    assert main(words) == 0
    assert "a: plate: 7 frames, pack" in capsys.readouterr().err
    assert len(list((show.parent / "renders/a/clean").glob("*.exr"))) == 7


def test_of_overlapping_ranges_the_last_painted_one_counts(tmp_path: Path) -> None:
    state, _ = open_state(tmp_path, {}, resume=True)
    (state.folder / CHUNKS).mkdir()
    for name, frames, age in (("1-4", (1, 2, 3, 4), 20), ("3-4", (3, 4), 10)):  # seconds after 1970
        path = state.folder / CHUNKS / f"{name}.journal"
        journal = Journal(path)
        for frame in frames:
            journal.append(FrameRecord(frame, "done", work=name))
        journal.close()
        os.utime(path, (age, age))
    _collect_ranges(state, (1, 2, 3, 4))
    assert [record.work for record in state.records()] == ["1-4"] * 4
    state.close()


def test_openjd_runs_the_whole_show(show: Path) -> None:
    template = show.with_name("farm.yaml")
    assert main(["batch", str(show), "--openjd", str(template)]) == 3  # one shot's plates are not there
    content = json.loads(show.read_text())
    content["shots"] = content["shots"][:1]
    show.write_text(json.dumps(content))
    assert main(["batch", str(show), "--openjd", str(template)]) == 0
    launcher = show.with_name("rotopaint")
    paths = os.pathsep.join(path for path in sys.path if path)
    launcher.write_text(f'#!/bin/sh\nPYTHONPATH="{paths}" exec "{sys.executable}" -m rotopaint_ai "$@"\n')
    launcher.chmod(0o755)
    openjd = str(Path(sys.executable).with_name("openjd"))
    subprocess.run([openjd, "check", str(template)], check=True, capture_output=True)
    words = [openjd, "run", str(template), "-p", f"Program={launcher}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    shots = json.loads((show.parent / "renders/show.json").read_text())["shots"]
    assert [(shot["name"], shot["state"], shot["frames"]) for shot in shots] == [("a", "done", 6)]


@pytest.mark.parametrize("parts", [["1-12"], ["1-3", "4-4", "5-12"], [f"{n}-{n}" for n in range(1, 13)]])
def test_however_a_farm_divides_the_frames_every_task_is_done_once(parts: list[str]) -> None:
    asked = [select_tasks(TASKS, "sh010", "paint", FrameRange.parse(part)) or [] for part in parts]
    assert sorted(task.key for part in asked for task in part) == sorted(t.key for t in TASKS if t.kind == "paint")
    assert select_tasks(TASKS, "sh010", "paint", FrameRange(1, 13)) is None
    assert select_tasks(TASKS, "sh020", "paint", FrameRange(1, 2)) is None


def test_a_template_whose_frames_the_farm_divides(show: Path) -> None:
    template = show.with_name("farm.yaml")
    assert main(["batch", str(show), "--openjd", str(template), "--farm-chunks"]) == 3
    openjd = str(Path(sys.executable).with_name("openjd"))
    subprocess.run([openjd, "check", str(template)], check=True, capture_output=True)
    done = subprocess.run([openjd, "summary", str(template)], capture_output=True, text=True, check=True)
    assert "Paint 1 a" in done.stdout
    assert "Paint 2 b" in done.stdout
