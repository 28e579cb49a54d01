"""The batch window: a queue of the same runs as on the command line, over failures, stops and a crash."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from rotopaint_ai.batch.jobs_file import read_show
from rotopaint_ai.errors import UsageError
from rotopaint_ai.project import CropBox, Project, State
from rotopaint_ui.batch import queue as queues
from rotopaint_ui.batch.batch_window import BatchWindow
from rotopaint_ui.batch.queue import MOST_ATTEMPTS, Queue, QueuedShot, QueueStatus
from rotopaint_ui.host import Engine, find_engine

from .conftest import run_json, write_plate

ENGINE = """
import json, pathlib, sys, time
words = sys.argv[1:]
out = pathlib.Path(words[words.index("--out") + 1])
out.mkdir(parents=True, exist_ok=True)
tried = len(list(out.glob("try*")))
(out / f"try{tried}").write_text(json.dumps(words))
say = lambda **facts: print(json.dumps(facts), flush=True)
say(event="started", total=5, done=0)
say(event="progress", done=3, total=5, eta_s=1.0)
if "slow" in words[1]:
    time.sleep(30)
if "bad" in words[1] and tried == 0:
    sys.exit("rotopaint run: plate.1003.exr ends early")
(out / "run.json").write_text((pathlib.Path(__file__).parents[1] / "run.json").read_text())
say(event="progress", done=5, total=5, eta_s=0.0)
"""


@pytest.fixture
def window(qtbot: QtBot, tmp_path: Path, engine_of: Callable[[str], Engine]) -> Iterator[BatchWindow]:
    engine = engine_of(ENGINE)
    (tmp_path / "engine" / "run.json").write_text(json.dumps(run_json()))
    window = BatchWindow(tmp_path / "batch.json", lambda: engine)
    qtbot.addWidget(window)
    yield window
    window.shut_down()


def shot(tmp_path: Path, name: str) -> QueuedShot:
    return QueuedShot(name, f"/plates/{name}.####.exr", str(tmp_path / "out" / name), ("1001:1,2,3,4",))


def statuses(window: BatchWindow) -> list[str]:
    return [each.status.value for each in window.queue.shots]


def test_shots_run_in_order_and_a_failed_one_is_tried_again_at_the_end(
    qtbot: QtBot, window: BatchWindow, tmp_path: Path
) -> None:
    window.add([shot(tmp_path, "bad"), shot(tmp_path, "one"), shot(tmp_path, "two")])
    window.queue = window.queue.moved("two", -1)
    window.start()
    qtbot.waitUntil(lambda: statuses(window) == ["done"] * 3, timeout=120_000)
    assert [each.name for each in window.queue.shots] == ["bad", "two", "one"]
    bad = window.queue.shots[0]
    assert bad.attempts == 2
    words = json.loads((tmp_path / "out" / "bad" / "try1").read_text())
    assert words[:3] == ["run", "/plates/bad.####.exr", "--out"]
    assert "--resume" in words
    assert words[words.index("--crop") + 1] == "1001:1,2,3,4"
    qtbot.waitUntil(lambda: window.queue.shots[0].worst_px == 2.0, timeout=120_000)
    assert window.line.text() == "3 shots: 3 done"


def test_stop_keeps_the_place_and_a_crash_leaves_a_stopped_shot(
    qtbot: QtBot, window: BatchWindow, tmp_path: Path, engine_of: Callable[[str], Engine]
) -> None:
    window.add([shot(tmp_path, "slow"), shot(tmp_path, "one")])
    window.start()
    qtbot.waitUntil(lambda: window.queue.shots[0].done == 3, timeout=120_000)
    again = BatchWindow(tmp_path / "batch.json", lambda: engine_of(ENGINE))  # as after a crash: nothing was told
    qtbot.addWidget(again)
    assert statuses(again) == ["stopped", "waiting"]
    window.stop()
    qtbot.waitUntil(lambda: statuses(window)[0] == "stopped", timeout=120_000)
    assert not window.is_running
    assert statuses(window) == ["stopped", "waiting"]


def test_a_shot_fails_after_its_attempts_and_can_be_retried() -> None:
    queue = Queue((QueuedShot("a", "p", "o", status=QueueStatus.FAILED, attempts=MOST_ATTEMPTS),))
    assert queue.next() is None
    assert queue.retried().next() is not None
    assert queue.summary() == "1 shot: 1 failed"


def test_two_shots_never_write_into_one_folder(tmp_path: Path) -> None:
    queue = Queue().added([shot(tmp_path, "a")])
    with pytest.raises(UsageError, match="written by another shot"):
        queue.added([shot(tmp_path, "a")])


def test_the_jobs_file_is_the_command_lines(qtbot: QtBot, window: BatchWindow, tmp_path: Path) -> None:
    plates = write_plate(tmp_path / "sh010" / "plates")
    window.add([QueuedShot("sh010", plates, str(tmp_path / "x"), ("1001:1,2,30,40",), model="pip", frames="1001-1003")])
    window.save_jobs(str(tmp_path / "jobs.yaml"))
    job = read_show(tmp_path / "jobs.yaml").shot("sh010").job
    assert (job.crops, job.model, job.frames) == (("1001:1,2,30,40",), "pip", "1001-1003")
    other = BatchWindow(tmp_path / "other.json", lambda: find_engine(own_python=True))
    qtbot.addWidget(other)
    other.open_jobs(str(tmp_path / "jobs.yaml"))
    qtbot.waitUntil(lambda: len(other.queue.shots) == 1, timeout=120_000)
    assert other.queue.shots[0].words()[:2] == ["run", plates]
    other.shut_down()


def test_a_damaged_queue_is_reported_and_does_not_stop_the_window(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "batch.json").write_text("{")
    window = BatchWindow(tmp_path / "batch.json", lambda: find_engine(own_python=True))
    qtbot.addWidget(window)
    assert "cannot be read" in window.line.text()
    assert (tmp_path / "batch.json").read_text() == "{"


def test_dropped_plates_get_a_name_and_a_folder_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "sh 010"
    folder.mkdir()
    found = queues.shot_of(str(folder))
    assert found.name == "sh_010"
    assert found.out == str(tmp_path / "sh 010_rotopaint" / "sh_010")
    assert found.crops == ("auto",)


def test_the_shot_of_a_project_keeps_what_its_artist_did(qtbot: QtBot, window: BatchWindow, tmp_path: Path) -> None:
    path, plates = tmp_path / "sh010.rotopaint", write_plate(tmp_path / "plates")
    window.add_path(str(path))
    assert "sh010.rotopaint" in window.line.text()  # it is not there: told in one line
    project = Project.create(path, State(crops={1001: CropBox(1, 2, 30, 40)}))
    window.add_path(str(path))
    assert "open it in the panel once" in window.line.text()
    project.set_note("plate", {"source": plates, "colourspace": "sRGB"})
    project.set_note("out", str(tmp_path / "out"))
    project.close()
    window.add_path(str(path))
    (shot,) = window.queue.shots
    words = shot.words()
    assert words[:4] == ["run", plates, "--out", str(tmp_path / "out")]
    assert words[words.index("--project") + 1] == str(path)
    assert "--crop" not in words  # the project's own boxes
    (tmp_path / "show.yaml").write_text(queues.jobs_file(window.queue, "renders"))
    (there,) = read_show(tmp_path / "show.yaml").shots
    assert (there.job.project, there.job.crops) == (str(path), ("1001:1,2,30,40",))
    back = queues.shot_of_job({"name": there.name, **there.job.to_json()})
    assert back.project == str(path)
    named = queues.shot_of_job({"name": there.name, **replace(there.job, face="Bo").to_json()})
    words = named.words()
    assert words[words.index("--face") + 1] == "Bo"
    assert '"face": "Bo"' in queues.jobs_file(queues.Queue((named,)), "renders")


def test_a_project_that_names_its_places_relative_to_itself(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "sh010.rotopaint")
    project.set_note("plate", {"source": "plates/p.####.exr"})
    project.set_note("out", "out")
    project.close()
    shot = queues.shot_of_project(str(tmp_path / "sh010.rotopaint"))
    assert (shot.plates, shot.out) == (str(tmp_path / "plates" / "p.####.exr"), str(tmp_path / "out"))
