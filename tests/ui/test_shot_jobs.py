"""Jobs of one shot: what the engine is handed, and what is refused before it starts; the engine is made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from rotopaint_ai.exchange import document as documents
from rotopaint_ui.host import Engine
from rotopaint_ui.jobs import MATTES, ShotJobs
from rotopaint_ui.preferences import Preferences
from rotopaint_ui.session import Session

from .conftest import make_document

KEEPS_ITS_SHAPES = """
import pathlib, shutil, sys
words = sys.argv[1:]
out = pathlib.Path(words[words.index("--out") + 1])
out.mkdir(parents=True, exist_ok=True)
shutil.copy(words[1], out / "drawn.roto.json")
"""


def test_mattes_are_drawn_of_the_shapes_as_they_are_now(
    qtbot: QtBot, session: Session, out: Path, engine_of: Callable[[str], Engine]
) -> None:
    """Into the shot's own folder, twice: each time what was given, and no file of ours is lost."""
    owner = QObject()
    jobs = ShotJobs(session, lambda: engine_of(KEEPS_ITS_SHAPES), owner)
    for given in (make_document(), replace(make_document(), fps=25.0)):
        with qtbot.waitSignal(jobs.ended, timeout=120_000) as ended:
            jobs.draw_mattes(given, out, Preferences())
        assert ended.args == [MATTES, True]
        assert documents.read(out / "drawn.roto.json") == given
    assert documents.read(out / "shapes.roto.json") == make_document()
    jobs.shut_down()
