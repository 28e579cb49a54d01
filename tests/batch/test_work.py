"""Workers share a show without doing a task twice or losing one, whatever dies on the way."""

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
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import told_command
from rotopaint_ai.batch import tasks as tasks_module
from rotopaint_ai.batch.jobs_file import JobShot, read_show
from rotopaint_ai.batch.ledger import Claim, Ledger
from rotopaint_ai.batch.summary import summarise_show, write_summary
from rotopaint_ai.batch.tasks import BatchTask, asked_for
from rotopaint_ai.batch.work import Board, do_one, given_up, plan_show, work
from rotopaint_ai.cli import main
from rotopaint_ai.frames import FrameRange
from rotopaint_ai.inference.pack import write_card
from rotopaint_ai.jobs import Cancel, Event, RunJob, Sink
from rotopaint_ai.pipeline import split
from rotopaint_ai.pipeline.record_store import CHUNKS, FrameRecord, Journal, open_state

SHOT = JobShot("sh010", RunJob("a.####.exr", "out", ("auto",)), chunk=2, retries=2)
TASKS = (
    BatchTask(SHOT, "track"),
    *(BatchTask(SHOT, "paint", FrameRange(n, n + 1), ("sh010/track",)) for n in range(1, 13, 2)),
    BatchTask(SHOT, "gather", None, tuple(f"sh010/paint.{FrameRange(n, n + 1)}" for n in range(1, 13, 2))),
)


TROUBLE = {"sh010/track": 99}


class Done:
    """Does nothing for some milliseconds, and counts; `moods` says which attempts at a task fail."""

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


def test_workers_side_by_side_do_everything_once_and_in_order(tmp_path: Path) -> None:
    done = Done()
    boards = [Board(TASKS, Ledger(tmp_path)) for _ in range(4)]
    threads = [threading.Thread(target=work, args=(board, _nobody, Cancel(), done)) for board in boards]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done.count == Counter({task.key: 1 for task in TASKS})
    assert (done.order[0], done.order[-1]) == ("sh010/track", "sh010/gather")


def test_a_task_that_fails_is_tried_again_and_then_given_up(tmp_path: Path) -> None:
    patient, told = Done({"sh010/paint.3-4": 2}), list[Event]()
    work(Board(TASKS, Ledger(tmp_path / "a")), told.append, Cancel(), patient)
    assert patient.count["sh010/paint.3-4"] == 3
    assert patient.count["sh010/gather"] == 1
    assert [event.facts["message"] for event in told] == [
        f"sh010/paint.3-4: the disk is full (attempt {n})" for n in (1, 2)
    ]
    hopeless = Done({"sh010/paint.3-4": 99})
    ledger = Ledger(tmp_path / "b")
    work(Board(TASKS, ledger), _nobody, Cancel(), hopeless)
    assert hopeless.count["sh010/paint.3-4"] == 3
    assert hopeless.count["sh010/gather"] == 0  # and everything else was done
    assert sum(map(ledger.is_done, TASKS)) == len(TASKS) - 2


AGES_S = 1e6  # no machine is so slow that a worker who lives is silent for so long


def _claim(folder: Path) -> Claim:
    """A claim whose heart beats every ten milliseconds."""
    claim = Ledger(folder, lease_s=0.06).claim(TASKS[0])
    assert claim is not None
    return claim


def test_a_silent_worker_loses_its_task_to_one_other_and_notices(tmp_path: Path) -> None:
    silent, ledger = _claim(tmp_path), Ledger(tmp_path, AGES_S)
    assert ledger.claim(TASKS[0]) is None
    os.utime(silent.path, (1, 1))
    winners = [ledger.claim(TASKS[0]) for _ in range(2)]
    assert [winner is not None for winner in winners] == [True, False]
    lost = threading.Event()
    silent.beat(lost.set)
    assert lost.wait(200)
    silent.release()  # does not let go of what is not its own
    assert ledger.holder(TASKS[0]) is not None


def test_a_beating_worker_keeps_its_task(tmp_path: Path) -> None:
    claim, ledger = _claim(tmp_path), Ledger(tmp_path, AGES_S)
    claim.beat(lambda: None)
    for _ in range(2):
        os.utime(claim.path, (1, 1))  # as if it had been silent
        while claim.path.stat().st_mtime == 1:  # until its heart beats, or pytest's own limit ends it
            time.sleep(0.005)
        assert ledger.claim(TASKS[0]) is None
    claim.release()
    assert ledger.claim(TASKS[0]) is not None


def test_another_job_is_another_task(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.finish(TASKS[0], {"frames": 0})
    other = JobShot("sh010", RunJob("a.####.exr", "out", ("1,1,9,9",)), chunk=2, retries=2)
    assert ledger.is_done(TASKS[0])
    assert not ledger.is_done(BatchTask(other, "track"))


@pytest.fixture
def show(puppet: ModuleType, puppet_pack: Path, tmp_path: Path) -> Path:
    """Two shots that can be done, one of them with a broken frame, and one whose plates are not there."""
    puppet.make_plates(tmp_path / "a", range(1001, 1007))
    puppet.make_plates(tmp_path / "b", range(1001, 1004))
    broken = tmp_path / "b/plate.1002.exr"
    broken.write_bytes(broken.read_bytes()[:900])
    settings = {"model": str(puppet_pack), "crop": puppet.crop_text(), "chunk": 2, "retries": 1, "threads": 1}
    shots = [{"name": name, "plates": f"{name}/plate.####.exr"} for name in ("a", "b", "gone")]
    path = tmp_path / "show.yaml"
    path.write_text(json.dumps({"out": "renders", "defaults": settings, "shots": shots}))  # JSON is YAML
    return path


def test_a_show_with_two_workers(show: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", str(show), "--workers", "2"]) == 3
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


def test_a_killed_worker_costs_nothing_but_its_task(show: Path) -> None:
    at = "event.kind == 'frame' and event.facts.get('task', '').startswith('a/paint')"
    words = told_command.command(["batch", str(show), "--events"], at=at, deed=told_command.DIE)
    paths = os.pathsep.join(path for path in sys.path if path)
    worker = subprocess.run(words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}, check=False)
    assert worker.returncode == -signal.SIGKILL
    ledger = show.parent / "renders/.rotopaint/tasks"
    for claim in ledger.rglob("*.claim"):  # as if the lease had run out
        os.utime(claim, (1, 1))
    assert main(["batch", str(show)]) == 3
    planned = plan_show(read_show(show))
    assert all(map(planned.board.ledger.is_done, planned.board.tasks))
    assert not list(ledger.rglob("*.claim*"))
    assert len(list((show.parent / "renders/a/clean").glob("*.exr"))) == 6


def test_a_show_that_was_stopped_says_how_to_go_on(
    show: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(job: RunJob, sink: Sink, cancel: Cancel) -> None:
        cancel.check()
        os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C, and a farm that stops the whole group after it
        os.kill(os.getpid(), signal.SIGTERM)
        cancel.check()

    monkeypatch.setattr(split, "track", stop)
    assert main(["batch", str(show), "--shot", "a"]) == 130
    assert "rotopaint batch: stopped because somebody asked; the same command goes on" in capsys.readouterr().err
    assert not list((show.parent / "renders").rglob("*.claim"))
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
    assert "--task track: wanted --shot NAME" in capsys.readouterr().err
    page = write_summary(read_show(show), plan_show(read_show(show)))
    assert "1 of 5 tasks done" in page.read_text()


def test_a_farm_s_task_whose_worker_was_killed_waits_until_the_claim_has_lapsed(tmp_path: Path) -> None:
    board = Board(TASKS, Ledger(tmp_path, lease_s=0.5))
    killed = board.ledger.claim(TASKS[0])  # by a worker that is never heard of again
    assert killed is not None
    done, told = Done(), list[Event]()
    for _ in range(2):  # a farm that asks again gets it as it is
        assert do_one(TASKS[0], board, told.append, Cancel(), done) is None
    assert done.count == Counter({"sh010/track": 1})
    assert [event.kind for event in told] == ["warning"]
    assert "is at it; waiting until that is done, or silent for 0.5 s" in told[0].facts["message"]


def test_a_farm_s_task_is_tried_as_often_as_its_shot_allows(tmp_path: Path) -> None:
    board = Board(TASKS, Ledger(tmp_path))
    assert do_one(TASKS[0], board, _nobody, Cancel(), Done({"sh010/track": 2})) is None
    hopeless = Done({"sh010/paint.1-2": 99})
    assert do_one(TASKS[1], board, _nobody, Cancel(), hopeless) == "the disk is full"
    assert hopeless.count["sh010/paint.1-2"] == 3
    assert given_up(TASKS[2], board) is None  # other ranges go on
    assert given_up(TASKS[-1], board) == "sh010/paint.1-2 failed: the disk is full"


@pytest.mark.parametrize("ask", [given_up, lambda task, board: do_one(task, board, _nobody, Cancel(), Done(TROUBLE))])
def test_a_farm_that_asks_again_while_another_machine_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[BatchTask, Board], str | None]
) -> None:
    """Who asks again forgives what failed, and that just after the other has looked."""
    board, looked = Board(TASKS, Ledger(tmp_path)), Ledger.failures

    def failures(ledger: Ledger, task: BatchTask) -> list[str]:
        found = looked(ledger, task)
        if len(found) > task.shot.retries:
            ledger.forgive(task)
        return found

    do_one(TASKS[0], board, _nobody, Cancel(), Done(TROUBLE))
    monkeypatch.setattr(Ledger, "failures", failures)
    task = TASKS[1] if ask is given_up else TASKS[0]
    assert (ask(task, board) or "").endswith("the disk is full")


def test_what_nobody_has_foreseen_ends_a_shot_and_not_the_show(
    show: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stumble(job: RunJob, sink: Sink, cancel: Cancel) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(split, "track", stumble)
    monkeypatch.setattr(tempfile, "tempdir", str(show.parent))
    assert main(["batch", str(show), "--shot", "a"]) == 3
    told = capsys.readouterr().err
    assert "error: a/track: ValueError: odd. Please send us" in told
    assert "rotopaint batch: a: ValueError: odd" in told  # and again at the end, as on a run that finds it given up
    assert main(["batch", str(show), "--shot", "a"]) == 3
    assert re.search("rotopaint batch: a: ValueError: odd.*; --again tries once more\n", capsys.readouterr().err)


def test_a_full_disk_is_told_with_its_file(tmp_path: Path) -> None:
    def fill(task: BatchTask, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
        raise OSError(errno.ENOSPC, "No space left on device", "clean/plate.1001.exr")

    reason = do_one(TASKS[0], Board(TASKS, Ledger(tmp_path)), _nobody, Cancel(), fill)
    assert reason == "clean/plate.1001.exr: No space left on device; check the disk, its space and its permissions"


def test_a_farm_goes_on_beside_a_broken_frame_and_a_shot_that_cannot_be_done(
    show: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["batch", str(show), "--keep-going", "--task"]
    assert main([*words, "track", "--shot", "gone"]) == 0
    assert main([*words, "track", "--shot=b"]) == 0
    assert main([*words, "paint", "--shot=b", "--frames=1001-1003"]) == 0
    assert main([*words, "gather", "--shot=b"]) == 0
    capsys.readouterr()
    assert main(["batch", str(show), "--task", "summary"]) == 3
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "rotopaint batch: a: 0 of 5 tasks done"
    assert re.match("rotopaint batch: b: 1 frame failed, first 1002: .*plate.1002.exr", told[1])
    assert told[2].startswith("rotopaint batch: gone: ")
    assert len(list((show.parent / "renders/b/clean").glob("*.exr"))) == 2


def _once(show: Path, puppet_pack: Path, **settings: object) -> list[BatchTask]:
    """The tasks of a show of one shot, with a pack of its own that tests may change."""
    pack = show.parent / "pip"
    if not pack.exists():
        shutil.copytree(puppet_pack, pack)
    entry = {"name": "a", "plates": "a/plate.####.exr", "crop": "1,1,9,9", "model": "pip", "chunk": 3, **settings}
    show.write_text(json.dumps({"out": "renders", "shots": [entry]}))
    return list(plan_show(read_show(show)).board.tasks)


def test_a_show_is_the_same_wherever_it_is_seen_from(
    show: Path, puppet_pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = _once(show, puppet_pack)
    monkeypatch.chdir(show.parent)
    near = plan_show(read_show(Path("show.yaml"))).board.tasks
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
    ledger = Ledger(show.parent)
    for task in _once(show, puppet_pack):
        ledger.finish(task, {})
    monkeypatch.setattr(tasks_module, "code_digest", lambda: "renewed")
    renewed = _once(show, puppet_pack)
    assert all(Board(tuple(renewed), ledger).is_done(task.key) for task in renewed)
    ledger._entry_path(renewed[-1], "done").unlink()  # not finished: what was begun is begun anew
    assert not any(Board(tuple(renewed), ledger).is_done(task.key) for task in renewed)


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


def test_of_ranges_that_were_divided_otherwise_the_one_painted_last_counts(tmp_path: Path) -> None:
    state, _ = open_state(tmp_path, {}, resume=True)
    (state.folder / CHUNKS).mkdir()
    for name, frames, age in (("1-4", (1, 2, 3, 4), 20), ("3-4", (3, 4), 10)):  # seconds after 1970
        path = state.folder / CHUNKS / f"{name}.journal"
        journal = Journal(path)
        for frame in frames:
            journal.append(FrameRecord(frame, "done", work=name))
        journal.close()
        os.utime(path, (age, age))
    split._collect_ranges(state, (1, 2, 3, 4))
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
    asked = [asked_for(TASKS, "sh010", "paint", FrameRange.parse(part)) or [] for part in parts]
    assert sorted(task.key for part in asked for task in part) == sorted(t.key for t in TASKS if t.kind == "paint")
    assert asked_for(TASKS, "sh010", "paint", FrameRange(1, 13)) is None
    assert asked_for(TASKS, "sh020", "paint", FrameRange(1, 2)) is None


def test_a_template_whose_frames_the_farm_divides(show: Path) -> None:
    template = show.with_name("farm.yaml")
    assert main(["batch", str(show), "--openjd", str(template), "--farm-chunks"]) == 3
    openjd = str(Path(sys.executable).with_name("openjd"))
    subprocess.run([openjd, "check", str(template)], check=True, capture_output=True)
    done = subprocess.run([openjd, "summary", str(template)], capture_output=True, text=True, check=True)
    assert "Paint 1 a" in done.stdout
    assert "Paint 2 b" in done.stdout
