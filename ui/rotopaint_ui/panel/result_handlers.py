"""Handlers of results from processes: an opened plate, the results of a run, the end of a job, a pack's methods."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from rotopaint_ai.files import absolute_place
from rotopaint_ui.drawing.render import ViewTransform
from rotopaint_ui.engine.frame_cache import CLEAN
from rotopaint_ui.panel.panel_widgets import PanelWidgets
from rotopaint_ui.panel.screen_updates import ScreenUpdates
from rotopaint_ui.panel.view_commands import ViewCommands
from rotopaint_ui.panel.view_memory import ViewMemory
from rotopaint_ui.services.panel_services import PanelServices
from rotopaint_ui.services.shot_jobs import RUN
from rotopaint_ui.session.shot_files import PlateFacts, Results


class ResultHandlers(QObject):
    """Shows results in the panel; sends `plate_opened` and `run_ended` once it is up to date."""

    plate_opened = Signal()
    run_ended = Signal(bool)

    def __init__(
        self,
        services: PanelServices,
        widgets: PanelWidgets,
        updates: ScreenUpdates,
        view: ViewCommands,
        memory: ViewMemory,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._services, self._widgets, self._updates = services, widgets, updates
        self._view, self._memory = view, memory

    def show_plate(self, plate: PlateFacts) -> None:
        """After a plate was opened: request its pictures and the results of an earlier run."""
        services, widgets = self._services, self._widgets
        services.live.use(services.engine())
        if services.previewer.is_on:
            widgets.actions["preview_seam"].trigger()
        services.frame_cache.forget(CLEAN)
        services.review.reset()
        self._view.let_go_of_before()
        widgets.canvas.cancel_gesture()
        widgets.timeline.sheet.forget()
        widgets.top.show_plate(plate)
        widgets.canvas.view = ViewTransform(aspect=plate.pixel_aspect)
        widgets.canvas.fit()
        services.frame_cache.ask_choices(services.preferences.value.learnt)
        self._updates.want_pictures()
        services.clean_plate.open()
        self._view.take_tool("crop")
        widgets.canvas.setFocus()  # else Return presses the button that a window begins with
        widgets.status.say("Drag a box around the face, then press Run")
        choice = services.opening.choice
        services.live.open_plate(plate.source, None if choice is None else choice.colourspace)
        services.jobs.read_results()
        services.preferences.set(services.preferences.value.with_recent(absolute_place(plate.source)))
        self.plate_opened.emit()

    def offer_learnt(self, folder: str) -> None:
        """Offer a pack that was learnt from a shot, here and in the next shots."""
        preferences = self._services.preferences
        preferences.set(preferences.value.with_learnt(folder))
        self._services.frame_cache.ask_choices(preferences.value.learnt)

    def show_results(self, results: Results, is_run: bool) -> None:
        """After results were taken into the session; `is_run`: those of a run that has just ended."""
        services, widgets, session = self._services, self._widgets, self._services.session
        session.keep_version()
        if not is_run:
            services.opening.store(results)
            self._memory.restore()
        speed = "" if session.run.ms_per_frame is None else f", {session.run.ms_per_frame:.0f} ms/frame"
        device = f"{session.run.device}{speed}" if session.run.device else ""
        widgets.top.show_device(device, services.preferences.value.device)
        if session.document is not None:
            if widgets.canvas.tool == "crop":
                self._view.take_tool("select")
            self.load_pack()
            if not is_run and session.project.trouble is None:
                has_run = bool(session.run.errors)
                widgets.status.say(
                    "The shapes of the last run. N jumps to the worst frame"
                    if has_run
                    else "The shapes as they were saved"
                )
        if results.is_cut_off and not is_run and session.project.trouble is None:
            widgets.status.say("The last run of this shot has not ended: press Run to finish it")
        self._updates.refresh()

    def end_job(self, kind: str, is_whole: bool) -> None:
        """Handle the end of a job."""
        self._updates.show_running()
        self._services.session.keep_version()
        self._widgets.status.hide_progress()
        self._services.clean_plate.open()
        self._updates.refresh()
        if kind == RUN:
            self.run_ended.emit(is_whole)

    def load_pack(self) -> None:
        """Load the chosen pack into the live engine, which then answers landmark drags."""
        if self._services.session.document is not None:
            self._services.live.load_pack(self._widgets.top.chosen_pack)

    def show_clean(self, name: str) -> None:
        """After the frame cache has opened a plate: show its pictures if it is the clean plate."""
        if name == CLEAN:
            self._updates.want_frames()
            self._widgets.canvas.refresh()
