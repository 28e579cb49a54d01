"""The services of one panel, made once around a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject

from rotopaint_ui.engine.export_client import ExportClient
from rotopaint_ui.engine.frame_cache import FrameCache
from rotopaint_ui.engine.live_client import LiveClient
from rotopaint_ui.host import Engine
from rotopaint_ui.services.autosave import Autosave
from rotopaint_ui.services.clean_plate import CleanPlate
from rotopaint_ui.services.importer import Importer
from rotopaint_ui.services.opening import Opening
from rotopaint_ui.services.player import Player
from rotopaint_ui.services.preference_store import PreferenceStore
from rotopaint_ui.services.previewer import Previewer
from rotopaint_ui.services.review_loop import ReviewLoop
from rotopaint_ui.services.shot_jobs import RUN, ShotJobs
from rotopaint_ui.services.teacher import Teacher
from rotopaint_ui.services.tracker import ShapeTracker
from rotopaint_ui.session.session import ShotSession


@dataclass(frozen=True, slots=True)
class PanelServices:
    """The services of a panel; `engine` returns the engine's interpreter, and raises where there is none."""

    engine: Callable[[], Engine]
    preferences: PreferenceStore
    session: ShotSession
    frame_cache: FrameCache
    live: LiveClient
    exporter: ExportClient
    review: ReviewLoop
    player: Player
    jobs: ShotJobs
    autosave: Autosave
    importer: Importer
    opening: Opening
    previewer: Previewer
    clean_plate: CleanPlate
    teacher: Teacher
    tracker: ShapeTracker

    def shut_down(self) -> None:
        """Save and end every process."""
        self.player.play(False)
        self.importer.wait()
        self.jobs.shut_down()
        self.autosave.shut_down()
        self.opening.shut_down()
        self.live.shut_down()
        self.teacher.shut_down()
        self.tracker.shut_down()
        self.exporter.shut_down()
        self.frame_cache.shut_down()


def make_services(engine: Callable[[], Engine], preferences_path: Path, parent: QObject) -> PanelServices:
    """The services around a new session."""
    preferences = PreferenceStore(preferences_path, parent)
    session, live = ShotSession(), LiveClient(parent)
    session.corrections.live = live
    live.project_path = lambda: session.project.path
    frame_cache = FrameCache(parent, budget_bytes=preferences.value.cache_mb << 20)
    jobs = ShotJobs(session, engine, parent)
    return PanelServices(
        engine=engine,
        preferences=preferences,
        session=session,
        frame_cache=frame_cache,
        live=live,
        exporter=ExportClient(parent),
        review=ReviewLoop(session, session.say),
        player=Player(session, frame_cache, parent),
        jobs=jobs,
        autosave=Autosave(session, lambda: jobs.kind != RUN and session.plate is not None, parent),
        importer=Importer(session, parent),
        opening=Opening(session, frame_cache, engine, parent),
        previewer=Previewer(session, frame_cache, live, parent),
        clean_plate=CleanPlate(session, frame_cache, parent),
        teacher=Teacher(session, engine, parent),
        tracker=ShapeTracker(session, engine, parent),
    )
