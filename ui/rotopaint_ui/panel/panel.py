"""The panel: one widget, the same in Nuke, in the standalone app and under test.

It holds the session, the widgets and the engine's processes; `wiring` ties them together, `screen` shows what changed,
`results` takes in what processes bring. Nothing here blocks, opens a modal dialog
or loads numpy: plates are decoded, runs and exports are made in other processes.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QWidget

from rotopaint_ai.errors import RotopaintError
from rotopaint_ui.engine.export_client import ExportClient
from rotopaint_ui.engine.frame_cache import FrameCache
from rotopaint_ui.engine.live_client import LiveClient
from rotopaint_ui.host import Host, PlateChoice
from rotopaint_ui.inspector.inspector import Inspector
from rotopaint_ui.panel import layout
from rotopaint_ui.panel.actions import make_actions, set_keys
from rotopaint_ui.panel.command_handlers import handler_of
from rotopaint_ui.panel.connections import connect
from rotopaint_ui.panel.diagnostics import report
from rotopaint_ui.panel.export_runner import ExportRunner
from rotopaint_ui.panel.result_handlers import ResultHandlers
from rotopaint_ui.panel.review_bar import ReviewBar
from rotopaint_ui.panel.screen_updates import ScreenUpdates
from rotopaint_ui.panel.status_line import StatusLine
from rotopaint_ui.panel.toolbars import ToolStrip, TopBar, ViewBar
from rotopaint_ui.services.autosave import Autosave
from rotopaint_ui.services.importer import Importer, dropped
from rotopaint_ui.services.opening import Opening
from rotopaint_ui.services.player import Player
from rotopaint_ui.services.previewer import Previewer
from rotopaint_ui.services.review_loop import ReviewLoop
from rotopaint_ui.services.shot_jobs import RUN, ShotJobs
from rotopaint_ui.session.project_file import is_project
from rotopaint_ui.session.session import Box, Session
from rotopaint_ui.settings import preferences
from rotopaint_ui.settings.commands import Keys, keys_of
from rotopaint_ui.settings.preferences import Preferences
from rotopaint_ui.timeline.timeline import Timeline
from rotopaint_ui.viewer.canvas import Canvas
from rotopaint_ui.widgets import dialogs
from rotopaint_ui.widgets.focus import Guard

WELCOME = "Open a plate, drag a box around the face, press Run"


class Panel(QWidget):
    """Open a plate, drag a box, Run, look, correct, export."""

    plate_opened = Signal()
    run_ended = Signal(bool)
    preferences_changed = Signal()

    def __init__(self, host: Host, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("rotopaint_panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setStyleSheet(dialogs.style())
        self.setAcceptDrops(True)
        self.host = host
        self.preferences, trouble = preferences.read(preferences.default_path())
        self.session = Session()
        self.frame_cache = FrameCache(self, budget_bytes=self.preferences.cache_mb << 20)
        self.review = ReviewLoop(self.session, lambda text: self.status.say(text))
        self.player = Player(self.session, self.frame_cache, self)
        self.jobs = ShotJobs(self.session, host.engine, self)
        self.autosave = Autosave(self.session, self._may_write, self)
        self.importer = Importer(self.session, self)
        self.opening = Opening(self.session, self.frame_cache, host.engine, self)
        self.session.live = self.live = LiveClient(self)
        self.live.project_path = lambda: self.session.project_path
        self.clerk = ExportClient(self)
        self.previewer = Previewer(self.session, self.frame_cache, self.live, self)
        self.commands = make_actions(self, self._keys(), partial(handler_of, self))
        self._make_widgets()
        self.exports = ExportRunner(self.session, host, self.inspector.export, self)
        self.display, self.results = ScreenUpdates(self), ResultHandlers(self)
        connect(self)
        self._use_preferences()
        self.status.say(trouble or WELCOME, "trouble" if trouble else "plain")
        self.display.refresh()

    # --- the shot

    @property
    def choice(self) -> PlateChoice | None:
        """The plate that is open, as it was asked for."""
        return self.opening.choice

    def open_plate(self, choice: PlateChoice, out: Path | None = None, crop: tuple[int, Box] | None = None) -> None:
        """Open a plate; `out` is where runs write (default: beside the plate's folder). Errors show in the status."""
        if self._may_open():
            self.opening.open_plate(choice, out, crop)

    def open_chosen(self) -> None:
        """Open what the host points at, or ask for a file."""
        try:
            choice = self.host.chosen_plate()
        except RotopaintError as error:
            self.status.say(str(error), "trouble")
            return
        if choice is not None:
            self.open_plate(choice)
        else:
            dialogs.ask_for_file(self, "Open a plate: one frame of a sequence, a still or a movie", self.open_path)

    def open_path(self, path: str, out: Path | None = None) -> None:
        """Open whatever a path is: a project, shapes that go into the shot that is open, or else a plate."""
        if is_project(path):
            if self._may_open():
                self.opening.open_project(Path(path))
        elif self.importer.takes(path):
            self.importer.read(path)
        else:
            self.open_plate(PlateChoice(path), out)

    def _may_write(self) -> bool:
        """Whether shapes.roto.json is ours to write: no run writes it, and it is known whose it is."""
        return self.jobs.kind != RUN and self.session.plate is not None

    def _may_open(self) -> bool:
        if self.jobs.is_running:
            self.status.say("A run is under way; stop it before opening another shot", "trouble")
            return False
        self.autosave.save()
        return True

    def run(self, checked: bool = False, *, ignores_range: bool = False) -> None:
        """Start a run of the frames between In and Out, or ask the job that is under way to stop."""
        if self.jobs.is_running:
            self.jobs.stop()
        elif self.session.plate is None or self.choice is None:
            self.status.say("Open a plate first", "trouble")
        else:
            self.autosave.save()
            self.jobs.run(self.choice, self.top.chosen_pack, self.preferences, ignores_range=ignores_range)

    def run_all(self) -> None:
        """Start a run of the whole shot, whatever In and Out are."""
        self.run(ignores_range=True)

    def make_all(self) -> None:
        """Paint all frames of the clean plate again that no longer fit, whatever In and Out are."""
        self.make_clean(ignores_range=True)

    def make_clean(self, *, ignores_range: bool = False) -> None:
        """Paint the frames of the clean plate again that no longer fit, between In and Out."""
        if self.session.document is None or self.choice is None:
            self.status.say("Nothing to paint away yet: press Run first", "trouble")
        else:
            self.autosave.save()
            patch = self.inspector.seam.patch.isChecked()
            self.jobs.make_clean(
                self.choice, self.top.chosen_pack, self.preferences, patch=patch, ignores_range=ignores_range
            )

    def export(self) -> None:
        """Write what the Export tab says, and hand the shapes to the host."""
        if self.session.document is not None:
            self.inspector.setCurrentWidget(self.inspector.export)
        self.exports.export()

    def shut_down(self) -> None:
        """Save and end every process; the panel is going away."""
        self.player.play(False)
        self.importer.wait()
        self.jobs.shut_down()
        self.autosave.shut_down()
        self.opening.shut_down()
        self.live.shut_down()
        self.clerk.shut_down()
        self.exports.shut_down()
        self.frame_cache.shut_down()

    # --- preferences

    def set_preferences(self, changed: Preferences) -> None:
        """Use other preferences from now on, and keep them."""
        self.preferences = changed
        self._use_preferences()
        try:
            preferences.write(preferences.default_path(), changed)
        except OSError as error:
            self.status.say(f"Preferences not kept: {error}", "trouble")
        self.preferences_changed.emit()

    def _use_preferences(self) -> None:
        set_keys(self.commands, self._keys())
        self.autosave.set_rest(self.preferences.autosave_s)
        self.frame_cache.set_budget(self.preferences.cache_mb << 20)
        if self.session.plate is None:
            self.view_bar.start_with(self.preferences.view)

    def _keys(self) -> dict[str, Keys]:
        return keys_of(self.preferences.preset, self.preferences.shortcuts)

    # --- building

    def _make_widgets(self) -> None:
        get, host = self.commands, self.host
        opens = "Open" if host.name == "standalone" else f"Open from {host.name}"
        self.top = TopBar(opens, "Export", [get["undo"], get["redo"]])
        self.canvas = Canvas(self.session, self.frame_cache)
        self.tools = ToolStrip(layout.tool_groups(get, self.canvas.tool_names))
        overlays = [get[name] for name in get if name.startswith("overlay.")]
        self.view_bar = ViewBar([each for each in overlays if not each.icon().isNull()])
        self.inspector = Inspector(self.session, None if host.name == "standalone" else host.export_label)
        self.inspector.seam.set_actions(get["preview_seam"])
        self.review_bar = ReviewBar(get)
        self.timeline = Timeline(self.session, self.frame_cache)
        self.status = StatusLine()
        layout.arrange(
            self,
            top=self.top,
            tools=self.tools,
            view_bar=self.view_bar,
            canvas=self.canvas,
            inspector=self.inspector,
            review_bar=self.review_bar,
            timeline=self.timeline,
            status=self.status,
        )
        get["overlays"].setChecked(True)
        for each in fields(self.canvas.overlay):
            if f"overlay.{each.name}" in get:
                get[f"overlay.{each.name}"].setChecked(getattr(self.canvas.overlay, each.name))
        self.take_tool("select")
        self._guard = Guard(self, self.canvas)
        self.timeline.installEventFilter(self._guard)  # a click there leaves fields, too
        self.canvas.setFocus()

    # --- commands

    def take_tool(self, name: str) -> None:
        """Take a tool of the viewer in hand; the clone brush is of use only where its paint is seen."""
        self.canvas.tool = name
        if name == "clone" and not self.previewer.is_on and self.session.state.document is not None:
            self.commands["preview_seam"].trigger()
        for each, made in self.commands.items():
            if each.startswith("tool."):
                made.setChecked(each == f"tool.{name}")

    def copy_diagnostics(self) -> None:
        """Put what is known of this session on the clipboard, for those who mend it."""
        text = report(self.host, self.session, self.status.history, self.jobs.worker.complaint)
        QApplication.clipboard().setText(text)
        self.status.say("Diagnostics are on the clipboard: paste them into your message", "good")

    def show_clean(self) -> None:
        """Wipe, or flip to the clean plate, as the buttons say."""
        self.canvas.show_wipe(self.commands["wipe"].isChecked())
        self.canvas.shows_clean = self.commands["flip"].isChecked()
        self.results.open_clean()
        self.display.refresh()

    def preview_seam(self) -> None:
        """Show this frame with its seams painted away, or go back to what was shown."""
        on = self.commands["preview_seam"].isChecked()
        if on != self.commands["flip"].isChecked():
            self.commands["flip"].trigger()
        self.previewer.switch(on)

    def lengthen_reach(self, by: int) -> None:
        """Let the correction reach some frames further on both sides."""
        self.review.lengthen(by)
        self.display.show_reach()

    # --- the window system

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Plates, projects and shapes may be dropped."""
        if dropped(event.mimeData()) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Open what was dropped."""
        path = dropped(event.mimeData())
        if path is not None:
            self.open_path(path)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Leave no process behind."""
        self.shut_down()
        super().closeEvent(event)
