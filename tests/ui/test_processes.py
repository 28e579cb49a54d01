"""The two processes beside the panel: pictures from the decoder, events from the engine; both may fail."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from rotopaint_ai.errors import UsageError
from rotopaint_ui.engine.frame_cache import PLATE, DisplayLook, FrameCache
from rotopaint_ui.engine.run_worker import RunWorker
from rotopaint_ui.host import Engine, find_engine, package_folders

from .conftest import HEIGHT, WIDTH, code

EVENTS = """
import json, sys
print("a library says hello")
print(json.dumps({"event": "started", "words": sys.argv[1:]}), flush=True)
print(json.dumps({"event": "error", "message": "plate.1002.exr: the file ends early", "frame": 1002}))
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def frame_cache(qtbot: QtBot) -> Iterator[FrameCache]:
    frame_cache = FrameCache()
    frame_cache.use(Engine(sys.executable, package_folders()))
    yield frame_cache
    frame_cache.shut_down()


def test_frames_come_in_their_look_and_stay_within_the_budget(
    qtbot: QtBot, frame_cache: FrameCache, plate: str
) -> None:
    with qtbot.waitSignal(frame_cache.opened, timeout=120_000):
        frame_cache.open(PLATE, plate)
    frame_cache._budget = 2 * WIDTH * HEIGHT * 4
    wanted = (1001, 1002, 1003)
    frame_cache.want((PLATE, frame) for frame in wanted)
    qtbot.waitUntil(lambda: frame_cache.image(PLATE, 1003) is not None, timeout=120_000)
    assert frame_cache.cached_bytes <= 2 * WIDTH * HEIGHT * 4
    assert frame_cache.image(PLATE, 1001) is None
    image = frame_cache.image(PLATE, 1003)
    assert image is not None
    assert image.pixelColor(20, 20).red() == code(1003)
    frame_cache.look = DisplayLook(exposure=8.0)
    frame_cache.want([(PLATE, 1003)])
    assert frame_cache.image(PLATE, 1003) is not None  # the earlier look, until the new one is there
    qtbot.waitUntil(lambda: frame_cache.image(PLATE, 1003).pixelColor(20, 20).red() == 255, timeout=120_000)


def test_a_frame_that_cannot_be_read_is_reported_once_and_not_asked_again(
    qtbot: QtBot, frame_cache: FrameCache, plate: str, tmp_path: Path
) -> None:
    (tmp_path / "shot" / "plates" / "plate.1002.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    with qtbot.waitSignal(frame_cache.opened, timeout=120_000):
        frame_cache.open(PLATE, plate)
    with qtbot.waitSignal(frame_cache.failed, timeout=120_000) as reported:
        frame_cache.want([(PLATE, 1002)])
    assert "plate.1002.png" in reported.args[0]
    assert (PLATE, 1002) in frame_cache.broken
    frame_cache.want([(PLATE, 1002)])
    assert frame_cache._sent == []


def test_a_plate_that_does_not_open_leaves_the_pictures_of_the_one_that_did(
    qtbot: QtBot, frame_cache: FrameCache, plate: str
) -> None:
    with qtbot.waitSignal(frame_cache.opened, timeout=120_000):
        frame_cache.open(PLATE, plate)
    frame_cache.want([(PLATE, 1001)])
    qtbot.waitUntil(lambda: frame_cache.image(PLATE, 1001) is not None, timeout=120_000)
    with qtbot.waitSignal(frame_cache.failed, timeout=120_000):
        frame_cache.open(PLATE, "/no/such/plate.####.exr")
    assert frame_cache.image(PLATE, 1001) is not None
    frame_cache.want([(PLATE, 1002)])
    qtbot.waitUntil(lambda: frame_cache.image(PLATE, 1002) is not None, timeout=120_000)


def test_a_decoder_that_dies_is_started_again_with_its_plates(
    qtbot: QtBot, frame_cache: FrameCache, plate: str
) -> None:
    with qtbot.waitSignal(frame_cache.opened, timeout=120_000):
        frame_cache.open(PLATE, plate)
    with qtbot.waitSignal(frame_cache.failed, timeout=120_000) as reported:
        frame_cache.process.kill()
    assert "started again" in reported.args[0]
    frame_cache.want([(PLATE, 1001)])
    qtbot.waitUntil(lambda: frame_cache.image(PLATE, 1001) is not None, timeout=120_000)


@pytest.mark.parametrize(
    ("exit_code", "is_done", "text"),
    [(0, True, "Done"), (3, True, "some frames failed: plate.1002.exr"), (1, False, "the file ends early")],
)
def test_events_and_outcome_of_a_run(
    qtbot: QtBot, engine_of: Callable[[str], Engine], exit_code: int, is_done: bool, text: str
) -> None:
    worker, events = RunWorker(), []
    worker.happened.connect(events.append)
    with qtbot.waitSignal(worker.finished, timeout=120_000) as ended:
        worker.start(engine_of(EVENTS), [str(exit_code), "run"])
    assert [event["event"] for event in events] == ["started", "error"]
    assert events[0]["words"] == [str(exit_code), "run"]
    assert ended.args[0] is is_done
    assert text in ended.args[1]
    assert not worker.is_running


def test_a_run_whose_export_failed_says_so_and_blames_no_frame(
    qtbot: QtBot, engine_of: Callable[[str], Engine]
) -> None:
    worker = RunWorker()
    code = (
        """import sys; print('{"event": "warning", "message": "--export nuke: shapes.nk: reads back"}'); sys.exit(3)"""
    )
    with qtbot.waitSignal(worker.finished, timeout=120_000) as ended:
        worker.start(engine_of(code), ["run"])
    assert ended.args == [True, "Done, but not all of it: --export nuke: shapes.nk: reads back"]


def test_a_complaint_is_reported_in_one_line(qtbot: QtBot, engine_of: Callable[[str], Engine]) -> None:
    worker = RunWorker()
    engine = engine_of("import sys; sys.exit('rotopaint run: crop 1,2: wanted X,Y,W,H')")
    with qtbot.waitSignal(worker.finished, timeout=120_000) as ended:
        worker.start(engine, ["run"])
    assert ended.args == [False, "rotopaint run: crop 1,2: wanted X,Y,W,H"]


def test_stopping_ends_the_run(qtbot: QtBot, engine_of: Callable[[str], Engine]) -> None:
    script = "import json, time\nprint(json.dumps({'event': 'started'}), flush=True)\ntime.sleep(60)"
    worker = RunWorker()
    with qtbot.waitSignal(worker.happened, timeout=120_000):
        worker.start(engine_of(script), [])
    with qtbot.waitSignal(worker.finished, timeout=120_000) as ended:
        worker.cancel()
    assert ended.args[0] is False
    assert ended.args[1].startswith("Stopped")


def test_an_engine_that_does_not_start_is_reported(qtbot: QtBot) -> None:
    worker = RunWorker()
    with qtbot.waitSignal(worker.finished, timeout=120_000) as ended:
        worker.start(Engine("/no/such/python", ()), ["run"])
    assert ended.args[0] is False
    assert "ROTOPAINT_PYTHON" in ended.args[1]


def test_the_engine_is_found_and_sees_neither_the_hosts_python_nor_its_qt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", "/opt/Nuke/python")
    monkeypatch.setenv("QT_PLUGIN_PATH", "/opt/Nuke/qt")
    monkeypatch.delenv("ROTOPAINT_PYTHON", raising=False)
    engine = find_engine(own_python=True)
    assert engine.python == sys.executable
    environment = engine.environment()
    assert "PYTHONHOME" not in environment
    assert "QT_PLUGIN_PATH" not in environment
    monkeypatch.setenv("ROTOPAINT_PYTHON", sys.executable)
    assert find_engine(own_python=False).python == sys.executable


@pytest.mark.parametrize(
    ("package", "python"),
    [
        ("env/lib/python3.11/site-packages/rotopaint_ai", "env/bin/python3"),
        ("env/Lib/site-packages/rotopaint_ai", "env/Scripts/python.exe"),
        ("checkout/rotopaint_ai", "checkout/.venv/bin/python3"),
    ],
)
def test_inside_a_host_the_python_beside_the_installation_runs_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, python: str
) -> None:
    monkeypatch.delenv("ROTOPAINT_PYTHON", raising=False)
    (tmp_path / package).mkdir(parents=True)
    monkeypatch.setattr("rotopaint_ai.__file__", str(tmp_path / package / "__init__.py"))
    with pytest.raises(UsageError, match="set ROTOPAINT_PYTHON"):
        find_engine(own_python=False)
    (tmp_path / python).parent.mkdir(parents=True)
    (tmp_path / python).touch()
    assert find_engine(own_python=False).python == str(tmp_path / python)
