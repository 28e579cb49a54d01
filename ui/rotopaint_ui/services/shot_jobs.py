"""Jobs of one shot in the engine's process: the run, the clean plate made again, mattes. One at a time.

A job is started here, its events go into the session, and what it has left on disk is read beside the screen.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.shapes.manual_keys import without_manual_edits
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.engine.background_task import BackgroundTask
from rotopaint_ui.engine.command_lines import (
    clean_command,
    matte_command,
    rig_command,
    run_command,
    run_frames,
)
from rotopaint_ui.engine.run_worker import RunWorker, outcome_kind
from rotopaint_ui.host import Engine, PlateChoice
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import SHAPES_NAME, Results, read_run_results, rig_frames_folder
from rotopaint_ui.settings.preferences import Preferences

LIVE_REFRESH_MS = 200
RUN, CLEAN, MATTES, RIG = "run", "clean", "mattes", "rig"
_TASKS = {"track": "following the face", "paint": "painting"}  # Track is the panel's planar track
_BEGINS = {
    RUN: "Starting the engine",
    CLEAN: "Painting the seams",
    MATTES: "Drawing mattes",
    RIG: "Removing the rig, from other frames where they show what it hides",
}


class ShotJobs(QObject):
    """`message_sent` gives a line and its kind; `progressed` done, total and a note; `ended` the job's name and whether
    it finished."""

    message_sent = Signal(str, str)
    progressed = Signal(int, int, str)
    started = Signal(str)
    ended = Signal(str, bool)
    drew = Signal(bool, str)  # sent once per request: whether all requested mattes are drawn, and a message
    painted = Signal(int)  # a frame of the clean plate is on disk
    device = Signal(str)
    read = Signal(object, bool)  # results that are in the session, and whether of this very run

    def __init__(self, session: ShotSession, engine: Callable[[], Engine], parent: QObject) -> None:
        super().__init__(parent)
        self.worker = RunWorker(self)
        self._session, self._engine = session, engine
        self._kind = ""
        self._outcome = ""
        self._why = ""  # the last job was not begun
        self._n_painted = 0
        self._arrived_frames: list[int] = []  # frames that the run under way has painted
        self._known = session.runs.record  # the run record before the current run
        self._handed: tempfile.TemporaryDirectory[str] | None = None  # path of the document whose mattes are drawn
        self._reading = BackgroundTask(self)
        self._live = QTimer(self, singleShot=True, interval=LIVE_REFRESH_MS)
        self._live.timeout.connect(session.runs.show_live)
        self.worker.happened.connect(self._take_run_event)
        self.worker.finished.connect(self._end_job)
        self._reading.done.connect(self._take_results)
        self._reading.failed.connect(lambda text: self.message_sent.emit(text, "trouble"))

    @property
    def is_running(self) -> bool:
        """Whether a job is under way."""
        return self.worker.is_running

    @property
    def kind(self) -> str:
        """Which job is under way: run, clean, mattes, or nothing."""
        return self._kind if self.is_running else ""

    def stop(self) -> None:
        """Ask the job to stop after the frames that are being written."""
        if self.is_running:
            self.worker.cancel()
            self.message_sent.emit("Stopping after the frames that are being written", "plain")

    def run(
        self,
        choice: PlateChoice,
        pack: str | None,
        preferences: Preferences,
        *,
        ignores_range: bool = False,
        force: bool = False,
    ) -> None:
        """Run the frames between In and Out, or the whole shot; `force`: also where the model doubts a face."""
        if self._is_refused():
            return
        try:
            frames = run_frames(self._session, choice, ignores_range=ignores_range)
            self._session.prepare_run(frames)
            words = run_command(self._session, choice, pack, preferences, frames)
            words += ["--force"] if force else []
        except (RotopaintError, OSError) as error:
            self.message_sent.emit(str(error), "trouble")
            return
        self._known = self._session.runs.record
        if self._start_job(RUN, words):
            self._session.painting.suspend()

    def make_clean(
        self,
        choice: PlateChoice,
        pack: str | None,
        preferences: Preferences,
        *,
        patch: bool,
        ignores_range: bool = False,
    ) -> None:
        """Render the clean plate's frames that are out of date, between In and Out or all of them.

        `patch`: also write the paint as a separate layer.
        """
        if self._is_refused():
            return
        all_stale, wanted = self._session.stale_frames(), set(self._session.wanted_frames)
        stale = [frame for frame in all_stale if ignores_range or frame in wanted]
        if not stale:
            left = f"; {len(all_stale)} outside In and Out do not" if all_stale else ""
            self.message_sent.emit(
                f"Every frame {'between In and Out ' if left else ''}fits the shapes already{left}", "plain"
            )
            return
        try:
            words = clean_command(self._session, choice, pack, preferences, stale, patch=patch)
        except (RotopaintError, OSError) as error:
            self.message_sent.emit(str(error), "trouble")
            return
        if self._start_job(CLEAN, words):
            self._session.painting.begin(stale, self._session.state)

    def draw_mattes(self, document: RotoDocument, folder: Path, preferences: Preferences) -> None:
        """Draw the mattes of a document into a folder; the document is passed to the engine as a file."""
        if self.is_running:
            self.drew.emit(False, self._refuse_job("A job is under way; Esc stops it"))
            return
        if not self._start_on(document, MATTES, lambda path: matte_command(path, folder, preferences)):
            self.drew.emit(False, self._why)

    def take_off_rig(self, choice: PlateChoice, names: Sequence[str], preferences: Preferences) -> None:
        """Write the frames between In and Out with the area of some closed shapes painted out."""
        document = self._session.state.document
        if self.is_running:
            self._refuse_job("A job is under way; Esc stops it")
        elif document is not None and not self._is_refused():
            make = partial(rig_command, self._session, choice, preferences)
            self._start_on(document, RIG, lambda path: make(path, names, run_frames(self._session, choice)))

    def _start_on(self, document: RotoDocument, kind: str, words_for: Callable[[Path], Sequence[str]]) -> bool:
        """Start a job on a document, which is passed as a file; returns whether the job started."""
        self._handed = tempfile.TemporaryDirectory(prefix="rotopaint-", ignore_cleanup_errors=True)
        path = Path(self._handed.name) / SHAPES_NAME
        try:
            documents.write(path, document)
            begun = self._start_job(kind, words_for(path))
        except (RotopaintError, OSError) as error:
            self._refuse_job(str(error))
            begun = False
        if not begun:
            self._forget_handed()
        return begun

    def read_results(self) -> None:
        """Search for results of an earlier run of this shot."""
        out = self._session.out
        if out is not None:
            self._reading.start(lambda: read_run_results(out))

    def shut_down(self) -> None:
        """End what is under way."""
        self._reading.wait()
        self.worker.shut_down()
        self._forget_handed()

    def _forget_handed(self) -> None:
        handed, self._handed = self._handed, None
        if handed is not None:
            handed.cleanup()

    def _is_refused(self) -> bool:
        """Whether nothing may start, because a drag is in progress or somebody else has the shot's folder; shows the
        reason."""
        if self._session.edits.is_gesture_open():
            return True
        why = self._session.project.refusal
        if why is not None:
            self.message_sent.emit(why, "trouble")
        return why is not None

    def _start_job(self, kind: str, words: Sequence[str]) -> bool:
        if self.is_running:
            self._refuse_job("A job is under way; Esc stops it")
            return False
        try:
            engine = self._engine()
        except RotopaintError as error:
            self._refuse_job(str(error))
            return False
        self._session.flush()
        self._kind, self._arrived_frames, self._n_painted = kind, [], 0
        self.message_sent.emit(_BEGINS[kind], "plain")
        self.progressed.emit(0, 0, "")
        self.worker.start(engine, words)
        self.started.emit(kind)
        return True

    def _refuse_job(self, why: str) -> str:
        self._why = why
        self.message_sent.emit(why, "trouble")
        return why

    # --- events

    def _take_run_event(self, facts: Mapping[str, Any]) -> None:
        """Take one object of the event stream; fields that this version does not know are ignored."""
        event = facts["event"]
        if self._kind == RUN:
            self._session.runs.take_event(facts)
        if event == "started":
            self._tell_start(facts)
        elif event == "tracked" and "frame" in facts:
            self._show_soon()
        elif event == "frame" and "frame" in facts:
            if self._kind == CLEAN:
                self._session.runs.take_visibility(facts)
            self._handle_frame(int(facts["frame"]))
        elif event == "progress" and "done" in facts:
            self.progressed.emit(int(facts["done"]), int(facts["total"]), _run_note(facts))
        elif event == "note":
            self.message_sent.emit(str(facts.get("message", event)), "plain")
        elif event in ("warning", "error"):
            self.message_sent.emit(str(facts.get("message", event)), "trouble")

    def _tell_start(self, facts: Mapping[str, Any]) -> None:
        if self._kind == RUN:
            self.device.emit(str(facts.get("device", "")))
            self.message_sent.emit(f"{facts.get('total', '?')} frames with {facts.get('pack', 'the pack')}", "plain")

    def _handle_frame(self, frame: int) -> None:
        if self._kind == CLEAN:
            self._n_painted += 1
            self._session.painting.take_frame(frame)
        elif self._kind == RUN:
            self._arrived_frames.append(frame)
            self._show_soon()
        if self._kind in (RUN, CLEAN):
            self.painted.emit(frame)

    def _show_soon(self) -> None:
        """Show the run's new shapes after a short delay."""
        if not self._live.isActive():
            self._live.start()

    def _end_job(self, is_done: bool, text: str) -> None:
        kind, out = self._kind, self._session.out
        self._live.stop()
        if kind == RUN and is_done and out is not None:
            self._outcome = text
            self.read_results()
            return
        if kind == RUN:
            self._keep_arrived_frames()
        if kind == CLEAN:
            self._session.painting.end()
            self._session.store_run()
            text = f"Painted {self._n_painted} frame{'' if self._n_painted == 1 else 's'}" if text == "Done" else text
        if kind == RIG and text == "Done" and out is not None:
            text = f"W wipes to the frames without the rig, in {rig_frames_folder(out)}"
        self._forget_handed()
        self.message_sent.emit(text, outcome_kind(text, is_done=is_done))
        if kind == MATTES:
            self.drew.emit(is_done and text == "Done", text)
        self.ended.emit(kind, is_done)

    def _keep_arrived_frames(self) -> None:
        """After a stopped first run: keep its frames for review and correction; Run continues with the others."""
        session = self._session
        session.runs.show_live()
        came = session.document if session.runs.is_live else None
        if session.state.document is not None:
            session.run = self._known  # the shapes are unchanged, so the old record belongs to them
        session.runs.end_live()
        session.painting.forget(self._arrived_frames)  # they show the run's shapes, which are not the shot's
        if came is not None and session.state.document is None and any(shape.keys for shape in came.shapes):
            session.edits.push(
                "stopped run", replace(session.state, document=came, predicted=without_manual_edits(came))
            )
            session.painting.note(self._arrived_frames, session.state)
            session.notify()
            session.store_run()

    def _take_results(self, results: Results) -> None:
        """Take the results that were read: an earlier run's, or those of the run that has just ended."""
        session, outcome = self._session, self._outcome
        self._outcome = ""
        if results.out != session.out:
            return
        if outcome:
            session.runs.end_live()
            session.take_run(results)
        else:
            session.take_results(results)
        if results.trouble is not None:
            self.message_sent.emit(results.trouble, "trouble")
        elif outcome:
            text = self._run_summary() if outcome == "Done" else outcome
            self.message_sent.emit(text, outcome_kind(text, is_done=outcome == "Done"))
        self.read.emit(results, bool(outcome))
        if outcome:
            self.ended.emit(RUN, results.trouble is None)

    def _run_summary(self) -> str:
        run = self._session.run
        text = f"Done. {len(run.errors)} frames"
        if run.ms_per_frame is not None:
            text += f", {run.ms_per_frame:.0f} ms each"
        if run.lost:
            text += f", the face was not found in {len(run.lost)}"
        return text + ". N jumps to the worst frame, L drags landmarks"


def _run_note(facts: Mapping[str, Any]) -> str:
    task = facts.get("task")
    what = "" if task is None else f"{_TASKS.get(task, task)}: "
    note = f"{what}{facts['done']} of {facts['total']}"
    if facts.get("eta_s") is not None:
        note += f", {facts['eta_s']:.0f} s to go"
    if facts.get("ms_per_frame") is not None:
        note += f", {facts['ms_per_frame']:.0f} ms/frame"
    return note
