"""Jobs of one shot: what the engine is handed, and what is refused before it starts; the engine is made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.project.state import State
from rotopaint_ui.host import Engine, PlateChoice
from rotopaint_ui.services.shot_jobs import MATTES, RUN, ShotJobs
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.settings.preferences import Preferences

from .conftest import make_document

KEEPS_ITS_SHAPES = """
import pathlib, shutil, sys
words = sys.argv[1:]
out = pathlib.Path(words[words.index("--out") + 1])
out.mkdir(parents=True, exist_ok=True)
shutil.copy(words[1], out / "drawn.roto.json")
"""


LOSES_A_FACE_AND_STOPS = """
import json, sys
plate = {"width": 64, "height": 48, "pixel_aspect": 1.0, "fps": 24.0, "first_frame": 1001, "last_frame": 1006}
shapes = [{"name": "seam", "closed": False, "role": "seam", "points": 3}]
print(json.dumps({"event": "started", "total": 5, "landmarks": [], "shapes": shapes, **plate}))
rows = [[x, 20, 0, 0, 0, 0] for x in (10, 30, 50)]
frame = {"event": "frame", "status": "done", "shapes": {"seam": rows}, "expected_error_px": {"seam": 9.0}}
print(json.dumps({**frame, "frame": 1001}))
print(json.dumps({**frame, "frame": 1002, "status": "lost", "shapes": {}}))
sys.exit(1)
"""


def test_what_a_stopped_run_said_goes_with_its_shapes(
    qtbot: QtBot, session: ShotSession, out: Path, engine_of: Callable[[str], Engine]
) -> None:
    owner, before = QObject(), session.run
    jobs = ShotJobs(session, lambda: engine_of(LOSES_A_FACE_AND_STOPS), owner)
    for is_first in (False, True):
        if is_first:
            session.start_project(out / "shot.rotopaint")
            session.edits.push("none", State())
            session.run = RunRecord()
        with qtbot.waitSignal(jobs.ended, timeout=120_000) as ended:
            jobs.run(PlateChoice("plate.####.png"), None, Preferences())
        assert ended.args == [RUN, False]
        if not is_first:
            assert session.document == make_document()
            assert session.run == before  # the new run's errors are of shapes that nobody sees
    assert (session.edits.last_step, session.run.lost) == ("stopped run", {1002})
    session.close()
    again = ShotSession()
    again.open_project(out / "shot.rotopaint")
    assert (again.run.error_at(1001), again.run.lost) == (9.0, {1002})
    again.close()
    jobs.shut_down()


def test_what_the_model_doubts_is_painted_where_the_artist_asks_for_it(
    qtbot: QtBot, session: ShotSession, tmp_path: Path, engine_of: Callable[[str], Engine]
) -> None:
    reported = tmp_path / "told.txt"
    writes = f"import pathlib, sys; pathlib.Path({str(reported)!r}).write_text(' '.join(sys.argv[1:])); sys.exit(1)"
    owner = QObject()
    jobs = ShotJobs(session, lambda: engine_of(writes), owner)
    for force in (False, True):
        with qtbot.waitSignal(jobs.ended, timeout=120_000):
            jobs.run(PlateChoice("plate.####.png"), None, Preferences(), force=force)
        assert ("--force" in reported.read_text().split()) == force
    jobs.shut_down()


def test_mattes_are_drawn_of_the_shapes_as_they_are_now(
    qtbot: QtBot, session: ShotSession, out: Path, engine_of: Callable[[str], Engine]
) -> None:
    """Draws twice into the shot's own folder: each time the given document is used, and our shapes file stays."""
    owner = QObject()
    jobs = ShotJobs(session, lambda: engine_of(KEEPS_ITS_SHAPES), owner)
    for given in (make_document(), replace(make_document(), fps=25.0)):
        with qtbot.waitSignal(jobs.ended, timeout=120_000) as ended:
            jobs.draw_mattes(given, out, Preferences())
        assert ended.args == [MATTES, True]
        assert documents.read(out / "drawn.roto.json") == given
    assert documents.read(out / "shapes.roto.json") == make_document()
    jobs.shut_down()
