"""What comes into a panel: an opened plate, the results of a run, the end of a job, a clean plate on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from rotopaint_ui.drawing.render import View
from rotopaint_ui.engine.frame_cache import CLEAN
from rotopaint_ui.services.shot_jobs import RUN
from rotopaint_ui.session.shot import PlateFacts, Results

if TYPE_CHECKING:
    from rotopaint_ui.panel.panel import Panel

CLEAN_REFRESH_MS = 3000


class ResultHandlers(QObject):
    """Takes in what a panel's processes have brought."""

    def __init__(self, panel: Panel) -> None:
        super().__init__(panel)
        self._panel = panel
        self._rest = QTimer(self, singleShot=True, interval=CLEAN_REFRESH_MS)
        self._rest.timeout.connect(self.open_clean)

    def take_plate(self, plate: PlateFacts) -> None:
        """A plate is open: its pictures are asked for, and what an earlier run has left."""
        panel = self._panel
        panel.live.use(panel.host.engine())
        if panel.previewer.is_on:
            panel.commands["preview_seam"].trigger()
        panel.frame_cache.forget(CLEAN)
        panel.review.reset()
        panel.top.show_plate(plate)
        panel.canvas.view = View(aspect=plate.pixel_aspect)
        panel.canvas.fit()
        panel.frame_cache.ask_choices()
        panel.display.want_pictures()
        self.open_clean()
        panel.take_tool("crop")
        panel.status.say("Drag a box around the face, then press Run")
        panel.live.open_plate(plate.source, None if panel.choice is None else panel.choice.colourspace)
        panel.jobs.read_results()
        panel.set_preferences(panel.preferences.with_recent(plate.source))
        panel.plate_opened.emit()

    def take_results(self, results: Results, is_run: bool) -> None:
        """Results are in the session; `is_run`: of a run that has just ended."""
        panel, session = self._panel, self._panel.session
        if not is_run:
            panel.opening.keep(results)
        speed = "" if session.run.ms_per_frame is None else f", {session.run.ms_per_frame:.0f} ms/frame"
        panel.top.show_device(f"{session.run.device}{speed}" if session.run.device else "", panel.preferences.device)
        if session.document is not None:
            if panel.canvas.tool == "crop":
                panel.take_tool("select")
            self.load_pack()
            if not is_run:
                panel.status.say("The shapes of the last run. N jumps to the worst frame")
        panel.display.refresh()

    def end_job(self, kind: str, is_whole: bool) -> None:
        """A run or a clean has ended."""
        panel = self._panel
        panel.display.show_running()
        panel.status.hide_progress()
        self._rest.stop()
        self.open_clean()
        panel.display.refresh()
        if kind == RUN:
            panel.run_ended.emit(is_whole)

    def load_pack(self) -> None:
        """Another pack answers landmark drags, and may have another choice of ways to paint."""
        panel = self._panel
        if panel.session.document is not None:
            pack, tab = panel.top.chosen_pack, panel.inspector.seam
            panel.live.load_pack(pack)
            ask = {"ask": "methods", "model": pack}
            panel.clerk.ask(panel.host.engine(), ask, lambda facts: tab.offer_methods(facts.get("methods", ())))

    # --- the clean plate

    def note_painted(self, frame: int) -> None:
        """A frame of the clean plate is on disk: look there now and then."""
        if not self._rest.isActive():
            self._rest.start()

    def open_clean(self) -> None:
        """Look at the clean plate's folder again; nothing is said while there is none."""
        out, plate = self._panel.session.out, self._panel.session.plate
        if out is None or plate is None:
            return
        folder = out / "clean"
        if folder.is_dir() and any(folder.iterdir()):
            self._panel.frame_cache.open(CLEAN, str(folder))

    def take_clean(self, name: str, facts: object) -> None:
        """The clean plate has been opened."""
        if name == CLEAN:
            self._panel.display.want_frames()
            self._panel.canvas.refresh()
