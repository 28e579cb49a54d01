"""Workers share a show without doing a task twice or losing one, whatever dies on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rotopaint_ai.batch.jobs_file import Shot, read_show
from rotopaint_ai.batch.ledger import Ledger
from rotopaint_ai.batch.summary import summarise_show, write_summary
from rotopaint_ai.batch.tasks import Task, asked_for
from rotopaint_ai.batch.work import Board, plan_show, work
from rotopaint_ai.cli import main
from rotopaint_ai.frames import FrameRange
from rotopaint_ai.jobs import Cancel, Event, RunJob, Sink

SHOT = Shot("sh010", RunJob("a.####.exr", "out", ("auto",)), chunk=2, retries=2)
TASKS = (
    Task(SHOT, "track"),
    *(Task(SHOT, "paint", FrameRange(n, n + 1), ("sh010/track",)) for n in range(1, 13, 2)),
    Task(SHOT, "gather", None, tuple(f"sh010/paint.{FrameRange(n, n + 1)}" for n in range(1, 13, 2))),
)


class Done:
    """Does nothing for some milliseconds, and counts; `moods` says which attempts at a task fail."""

    def __init__(self, moods: Mapping[str, int] | None = None) -> None:
        self.count: Counter[str] = Counter()
        self.order: list[str] = []
        self._moods = dict(moods or {})
        self._lock = threading.Lock()

    def __call__(self, task: Task, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
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


def test_a_silent_worker_loses_its_task_to_one_other_and_notices(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, lease_s=0.3)
    silent = ledger.claim(TASKS[0])
    assert silent is not None
    assert ledger.claim(TASKS[0]) is None
    old = time.time() - 5
    os.utime(silent.path, (old, old))
    winners = [ledger.claim(TASKS[0]) for _ in range(2)]
    assert [winner is not None for winner in winners] == [True, False]
    lost = threading.Event()
    silent.beat(lost.set)
    assert lost.wait(2)
    silent.release()  # does not let go of what is not its own
    assert ledger.holder(TASKS[0]) is not None


def test_a_beating_worker_keeps_its_task(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, lease_s=0.3)
    claim = ledger.claim(TASKS[0])
    assert claim is not None
    claim.beat(lambda: None)
    time.sleep(0.7)
    assert ledger.claim(TASKS[0]) is None
    claim.release()
    assert ledger.claim(TASKS[0]) is not None


def test_another_job_is_another_task(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.finish(TASKS[0], {"frames": 0})
    other = Shot("sh010", RunJob("a.####.exr", "out", ("1,1,9,9",)), chunk=2, retries=2)
    assert ledger.is_done(TASKS[0])
    assert not ledger.is_done(Task(other, "track"))


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
    words = [sys.executable, "-m", "rotopaint_ai", "batch", str(show), "--events"]
    paths = os.pathsep.join(path for path in sys.path if path)
    worker = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths})
    assert worker.stdout is not None
    for line in worker.stdout:
        event = json.loads(line)
        if event["event"] == "frame" and event.get("task", "").startswith("a/paint"):
            worker.send_signal(signal.SIGKILL)
            break
    worker.wait()
    worker.stdout.close()
    ledger = show.parent / "renders/.rotopaint/tasks"
    for claim in ledger.rglob("*.claim"):  # as if the lease had run out
        os.utime(claim, (1, 1))
    assert main(["batch", str(show)]) == 3
    planned = plan_show(read_show(show))
    assert all(map(planned.board.ledger.is_done, planned.board.tasks))
    assert not list(ledger.rglob("*.claim*"))
    assert len(list((show.parent / "renders/a/clean").glob("*.exr"))) == 6


def test_single_tasks_wait_for_what_they_need(show: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", str(show), "--task", "paint", "--shot", "a", "--frames", "1001-1002"]) == 2
    assert "a/paint.1001-1002: waits for a/track" in capsys.readouterr().err
    assert main(["batch", str(show), "--task", "paint", "--shot", "a", "--frames", "1-9"]) == 2
    assert "there are a/track, a/paint.1001-1002" in capsys.readouterr().err
    assert main(["batch", str(show), "--task", "track", "--shot", "a"]) == 0
    assert main(["batch", str(show), "--task", "track", "--shot", "gone"]) == 2
    page = write_summary(read_show(show), plan_show(read_show(show)))
    assert "1 of 5 tasks done" in page.read_text()


def test_a_farm_s_task_that_was_killed_is_done_when_its_claim_has_lapsed(
    show: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["batch", str(show), "--task", "track", "--shot", "a"]
    board = plan_show(read_show(show)).board
    task = next(task for task in board.tasks if task.key == "a/track")
    killed = board.ledger.claim(task)  # by a worker that is never heard of again
    assert killed is not None
    assert main(words) == 2
    assert "is at it; try again later" in capsys.readouterr().err
    os.utime(killed.path, (1, 1))
    assert main(words) == 0
    assert board.ledger.is_done(task)
    when = board.ledger._path(task, "done").stat().st_mtime_ns
    assert main(words) == 0  # a farm that asks again gets it as it is
    assert board.ledger._path(task, "done").stat().st_mtime_ns == when


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
