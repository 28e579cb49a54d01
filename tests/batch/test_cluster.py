"""A show on Dask: workers do its tasks, crash, are withdrawn and return, and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rotopaint_ai.batch import cluster
from rotopaint_ai.batch.cluster import connect_cluster, dask_key, work_on
from rotopaint_ai.batch.jobs_file import JobShot, read_show
from rotopaint_ai.batch.notes import TaskNotes
from rotopaint_ai.batch.show_plan import plan_show
from rotopaint_ai.batch.tasks import BatchTask
from rotopaint_ai.cli import main
from rotopaint_ai.errors import CancelledError, ClusterError, UsageError
from rotopaint_ai.frames import FrameRange
from rotopaint_ai.jobs import Cancel, Event, RunJob, Sink

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own loops and sockets that tests end roughly

SHOT = JobShot("sh010", RunJob("a.####.exr", "out", ("auto",)), chunk=2, retries=1)
PAINT = tuple(BatchTask(SHOT, "paint", FrameRange(n, n), ("sh010/track",)) for n in range(1, 7))
TASKS = (BatchTask(SHOT, "track"), *PAINT, BatchTask(SHOT, "gather", None, tuple(task.key for task in PAINT)))


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two workers in processes of their own that import this file."""
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    before, os.environ["PYTHONPATH"] = os.environ.get("PYTHONPATH", ""), paths
    try:
        with connect_cluster(None, 2) as found:
            yield found
    finally:
        os.environ["PYTHONPATH"] = before


def test_our_own_workers_leave_ctrl_c_to_us_and_work_for_nobody_else(client: Any) -> None:
    assert set(client.run(signal.getsignal, signal.SIGINT).values()) == {signal.SIG_IGN}
    assert client.scheduler.address.startswith("tls://")  # with keys that this cluster made
    with pytest.raises(OSError, match=r"127\.0\.0\.1"):
        distributed.Client(client.scheduler.address.replace("tls", "tcp"), timeout=0.5, set_as_default=False)


def test_our_own_workers_are_never_paused_for_their_memory(client: Any) -> None:
    def limit(dask_worker: Any) -> int | None:
        found: int | None = dask_worker.memory_manager.memory_limit
        return found

    assert set(client.run(limit).values()) == {None}


def test_dask_prints_nothing() -> None:
    """Runs in a new process, where Dask is imported for the first time."""
    program = (
        "import logging; from rotopaint_ai.batch import cluster\n"
        "with cluster._quiet_logs():\n"
        "    import distributed\n"
        "    names = ('distributed', 'distributed.client', 'distributed.worker')\n"
        "    print(any(logging.getLogger(name).isEnabledFor(logging.ERROR) for name in names))\n"
        "print(logging.getLogger('distributed.client').isEnabledFor(logging.ERROR))"
    )
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], env=paths, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def _log(task: BatchTask) -> Path:
    return Path(task.shot.job.out) / f"{task.kind}{task.frames or ''}.log"


def count(task: BatchTask, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
    """Log each attempt in a file, and send an event."""
    with _log(task).open("a") as stream:
        print(os.getpid(), file=stream)
    sink(Event("progress", {"done": 1, "total": 1, "eta_s": 0.0}))
    return {"frames": 1, "failed": {}, "seconds": 0.0}


def die_once(task: BatchTask, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
    """A task that kills its worker with SIGKILL, the first time it does range 3."""
    facts = count(task, sink, cancel)
    if task in of(task.shot.job.out)[3:4] and len(_log(task).read_text().split()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return facts


def die_always(task: BatchTask, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
    """Kill every worker that does range 3."""
    facts = count(task, sink, cancel)
    if task.frames == FrameRange(3, 3):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    return facts


def stumble(task: BatchTask, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
    """Fail on range 2."""
    count(task, sink, cancel)
    if task.frames == FrameRange(2, 2):
        raise OSError(28, "No space left on device", "clean/plate.0002.exr")
    return {"frames": 1, "failed": {}, "seconds": 0.0}


def never_begin(task: BatchTask, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
    """Raise an error that no attempt expects, as where a worker lacks a package."""
    raise ModuleNotFoundError("No module named 'cv2'")


def linger(task: BatchTask, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
    """Work until a stop is requested."""
    count(task, sink, cancel)
    while True:
        time.sleep(0.01)
        cancel.check()


def of(out: Path | str, n: int = 6) -> tuple[BatchTask, ...]:
    """The tasks of a shot with `n` ranges and the folder `out`."""
    shot = replace(SHOT, job=replace(SHOT.job, out=str(out)))
    track, like, *_, gather = (replace(task, shot=shot) for task in TASKS)
    paint = [replace(like, frames=FrameRange(at, at)) for at in range(1, n + 1)]
    return (track, *paint, replace(gather, needs=tuple(task.key for task in paint)))


def test_each_task_is_done_once_after_what_it_waits_for(client: Any, tmp_path: Path) -> None:
    reported = list[Event]()
    notes = TaskNotes(tmp_path / "notes")
    tasks = of(tmp_path)
    work_on(client, tasks, notes, count, reported.append, Cancel())
    assert all(map(notes.is_done, tasks))
    assert [len(_log(task).read_text().split()) for task in tasks] == [1] * len(tasks)
    names = [event.facts["task"] for event in reported]
    assert (names[0], names[-1]) == ("sh010/track", "sh010/gather")
    assert sorted(names) == sorted(task.key for task in tasks)
    work_on(client, tasks, notes, count, reported.append, Cancel())  # as a scheduler asks again after a lost message
    assert [len(_log(task).read_text().split()) for task in tasks] == [1] * len(tasks)


def test_a_killed_worker_loses_only_its_task(client: Any, tmp_path: Path) -> None:
    notes, tasks = TaskNotes(tmp_path / "notes"), of(tmp_path)
    work_on(client, tasks, notes, die_once, lambda event: None, Cancel())
    assert all(map(notes.is_done, tasks))
    attempts = {task.key: len(_log(task).read_text().split()) for task in tasks}
    assert attempts.pop(tasks[3].key) == 2
    assert set(attempts.values()) == {1}


def test_a_task_that_kills_its_workers_is_abandoned_alone(client: Any, tmp_path: Path) -> None:
    """Dask blames a worker's death on all tasks in its queue, here most of the ranges."""
    reported, notes, tasks = list[Event](), TaskNotes(tmp_path / "notes"), of(tmp_path, 40)
    work_on(client, tasks, notes, die_always, reported.append, Cancel())
    lost = tasks[3]
    assert [task.key for task in tasks if not notes.is_done(task)] == [lost.key, tasks[-1].key]
    assert notes.failures(lost) == [
        f"{notes.n_lost(lost) + 1} workers died of it; is there enough memory? fewer 'threads' need less"
    ]
    errors = [event.facts["message"] for event in reported if event.kind == "error"]
    assert errors == [f"{lost.key}: {notes.failures(lost)[0]}"]


def test_a_noted_task_is_done_even_if_its_worker_died_unheard(tmp_path: Path) -> None:
    """As in Dask: the future has ended, but its result is lost when somebody asks for it."""
    notes, tasks, asked = TaskNotes(tmp_path), of(tmp_path, 1), list[str]()

    class Lost:
        status = "lost"

        def add_done_callback(self, call: Any) -> None:
            call(self)

    class Losing:
        status = "running"

        def scheduler_info(self, n_workers: int) -> Any:
            return {"workers": {"tcp://a": {"resources": {}, "nthreads": 1}}}

        def subscribe_topic(self, topic: str, call: Any) -> None: ...

        def submit(self, run: Any, task: BatchTask, *words: Any, **more: Any) -> Lost:
            asked.append(task.key)
            if asked.count(task.key) > (task.kind == "paint"):  # a paint task is lost before it is noted, once
                notes.finish(task, {})
            return Lost()

    work_on(Losing(), tasks, notes, count, lambda event: None, Cancel())  # type: ignore[arg-type]
    assert asked == ["sh010/track", "sh010/paint.1", "sh010/paint.1", "sh010/gather"]


def test_a_worker_that_dies_at_its_start_is_replaced() -> None:
    """Dask's nanny gives up on such a worker."""

    class Given:
        name = "failed"

    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as local:
        local.sync(local.workers[0].close)
        local.workers[0] = type("Nanny", (), {"status": Given})
        local.loop.add_callback(cluster._replace_lost, local, 1)
        assert _eventually(lambda: isinstance(local.workers.get(0), distributed.Worker))


def test_a_failing_task_is_retried_up_to_the_shots_limit(client: Any, tmp_path: Path) -> None:
    reported, notes, tasks = list[Event](), TaskNotes(tmp_path / "notes"), of(tmp_path)
    work_on(client, tasks, notes, stumble, reported.append, Cancel())
    assert len(_log(tasks[2]).read_text().split()) == 2
    assert not _log(tasks[-1]).exists()
    line = "clean/plate.0002.exr: No space left on device; check the disk, its space and its permissions"
    assert notes.failures(tasks[2])[-1] == line
    assert sum(map(notes.is_done, tasks)) == len(tasks) - 2
    errors = [event.facts["message"] for event in reported if event.kind == "error"]
    assert errors == [f"sh010/paint.2: {line} (attempt {n})" for n in (1, 2)]


def test_a_task_that_cannot_start_is_reported_once(client: Any, tmp_path: Path) -> None:
    reported, notes, tasks = list[Event](), TaskNotes(tmp_path / "notes"), of(tmp_path)
    work_on(client, tasks, notes, never_begin, reported.append, Cancel())
    (error,) = (event.facts["message"] for event in reported if event.kind == "error")
    assert error == "sh010/track: a worker could not begin (ModuleNotFoundError: No module named 'cv2')"
    assert [len(notes.failures(task)) for task in tasks] == [1] + [0] * 7


def test_a_show_that_is_stopped_stops_its_workers(client: Any, tmp_path: Path) -> None:
    cancel, tasks = Cancel(), of(tmp_path)[:1]

    def stop(event: Event) -> None:
        cancel.request()

    with pytest.raises(CancelledError):
        work_on(client, tasks, TaskNotes(tmp_path / "notes"), linger, stop, cancel)
    assert _eventually(lambda: not any(client.processing().values()))


def _eventually(holds: Any) -> bool:
    """Wait until something is true; pytest's time limit ends a wait in vain."""
    while not holds():
        time.sleep(0.02)
    return True


def test_a_resource_that_no_worker_offers_is_reported(client: Any, tmp_path: Path) -> None:
    cancel, reported = Cancel(), list[str]()

    def stop(event: Event) -> None:
        reported.append(event.facts["message"])
        cancel.request()

    shot = replace(SHOT, resources={"GPU": 1.0})
    with pytest.raises(CancelledError):
        work_on(client, [replace(TASKS[0], shot=shot)], TaskNotes(tmp_path), count, stop, cancel)
    assert reported == ["no worker offers GPU yet; its tasks wait for one: dask worker ... --resources GPU=1"]


def test_a_cluster_without_workers_is_reported(tmp_path: Path) -> None:
    cancel, reported = Cancel(), list[str]()

    def stop(event: Event) -> None:
        reported.append(event.facts["message"])
        cancel.request()

    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as local:
        ours = distributed.Client(local, set_as_default=False)
        with ours, pytest.raises(CancelledError):
            work_on(ours, TASKS, TaskNotes(tmp_path), count, stop, cancel)
    assert reported == [
        "the cluster has no worker yet; every task waits for one: dask worker ADDRESS --nthreads 1 --memory-limit 0"
    ]


def test_a_lost_scheduler_is_one_line_and_the_show_resumes(client: Any, tmp_path: Path) -> None:
    notes, tasks = TaskNotes(tmp_path / "notes"), of(tmp_path)
    local = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
    ends = threading.Thread(target=lambda: _eventually(_log(tasks[0]).exists) and local.close())
    ends.start()
    ours = distributed.Client(local, timeout=120, set_as_default=False)
    ours._timeout = 1  # for its scheduler to come back; to be connected takes what it takes
    with ours, pytest.raises(ClusterError, match="scheduler is lost; finished tasks are kept"):
        work_on(ours, tasks, notes, linger, lambda event: None, Cancel())
    ends.join()
    work_on(client, tasks, notes, count, lambda event: None, Cancel())
    assert all(map(notes.is_done, tasks))


def test_one_key_for_one_task_of_one_show(tmp_path: Path) -> None:
    here, there = TaskNotes(tmp_path / "a"), TaskNotes(tmp_path / "b")
    assert dask_key(TASKS[0], here) == dask_key(replace(TASKS[0]), TaskNotes(tmp_path / "a"))
    assert dask_key(TASKS[0], here) != dask_key(TASKS[0], there)
    assert dask_key(TASKS[0], here) != dask_key(replace(TASKS[0], given="other plates"), here)


def test_a_missing_scheduler_or_dask_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 1)
    with pytest.raises(UsageError, match=r"--cluster tcp://127.0.0.1:9: no Dask scheduler answers there"):
        connect_cluster("tcp://127.0.0.1:9", 1).__enter__()
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:  # which says no word of Dask's
        threading.Thread(target=other.handle_request, daemon=True).start()
        address = f"tcp://127.0.0.1:{other.server_port}"
        with pytest.raises(UsageError, match=f"--cluster {address}: no Dask scheduler answers there"):
            connect_cluster(address, 1).__enter__()
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"--workers 4: needs Dask; install it with: pip install 'rotopaint-ai\[clus"):
        connect_cluster(None, 4).__enter__()


def test_a_show_by_two_workers(
    puppet: ModuleType, puppet_pack: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    puppet.make_plates(tmp_path / "a", range(1001, 1005))
    settings = {"model": str(puppet_pack), "crop": puppet.crop_text(), "chunk": 2, "threads": 1}
    shots = [{"name": name, "plates": f"{name}/plate.####.exr"} for name in ("a", "gone")]
    show = tmp_path / "show.yaml"
    show.write_text(json.dumps({"out": "renders", "defaults": settings, "shots": shots}))
    assert main(["batch", str(show), "--workers", "2"]) == 3
    assert not plan_show(read_show(show)).unfinished()
    assert len(list((tmp_path / "renders/a/clean").glob("*.exr"))) == 4
    assert "a/report/index.html" in (tmp_path / "renders/index.html").read_text()
    reported = capfd.readouterr().err
    assert "Traceback" not in reported
    assert "rotopaint batch: gone: " in reported


@pytest.mark.parametrize("words", [["--cluster=tcp://a:1", "--workers=2"], ["--task=track", "--shot=a", "--workers=2"]])
def test_engines_are_not_mixed(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", str(tmp_path / "show.yaml"), *words]) == 2
    assert "leave" in capsys.readouterr().err
