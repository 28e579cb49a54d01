"""The panel: one widget, the same in Nuke, in the standalone app and under test.

It makes the session's services and the widgets, and connects them. `shot_commands` and `view_commands` hold the
commands, `screen_updates` updates the widgets, `result_handlers` takes the results of processes. Nothing here blocks,
opens a modal dialog or loads numpy: plates are decoded, and runs and exports are made, in other processes.
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QKeyEvent
from PySide6.QtWidgets import QWidget

from rotopaint_ai.project.state import CropBox
from rotopaint_ui.host import Host, PlateChoice
from rotopaint_ui.panel import layout
from rotopaint_ui.panel.actions import connect_actions, make_actions, set_action_keys
from rotopaint_ui.panel.command_handlers import command_handlers
from rotopaint_ui.panel.connections import connect_services, connect_widgets
from rotopaint_ui.panel.export_runner import ExportRunner
from rotopaint_ui.panel.panel_widgets import make_widgets
from rotopaint_ui.panel.result_handlers import ResultHandlers
from rotopaint_ui.panel.screen_updates import ScreenUpdates
from rotopaint_ui.panel.shot_commands import ShotCommands
from rotopaint_ui.panel.view_commands import ViewCommands
from rotopaint_ui.panel.view_memory import ViewMemory
from rotopaint_ui.services.importer import dropped_file
from rotopaint_ui.services.panel_services import make_services
from rotopaint_ui.settings import preferences
from rotopaint_ui.settings.commands import KeySequences, keys_of_preset
from rotopaint_ui.settings.preferences import Preferences
from rotopaint_ui.widgets import dialogs
from rotopaint_ui.widgets.focus import Guard, take_typed

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
        self._make_services()
        self._make_parts()
        self._make_controllers()
        self._use_preferences()
        trouble = self._services.preferences.trouble
        self.status.say(trouble or WELCOME, "trouble" if trouble else "plain")
        self._updates.refresh()

    def _make_services(self) -> None:
        self._services = services = make_services(self.host.engine, preferences.default_path(), self)
        self.session, self.frame_cache, self.live = services.session, services.frame_cache, services.live
        self.jobs, self.opening, self.player = services.jobs, services.opening, services.player
        self.autosave, self.previewer = services.autosave, services.previewer

    def _make_parts(self) -> None:
        self.commands = make_actions(self, self._keys_of_commands())
        is_app = self.host.name == "standalone"
        widgets = make_widgets(self.session, self.frame_cache, self.commands, self.host, is_app=is_app)
        self._widgets = widgets
        self.top, self.tools, self.view_bar, self.canvas = widgets.top, widgets.tools, widgets.view_bar, widgets.canvas
        self.inspector, self.review_bar = widgets.inspector, widgets.review_bar
        self.timeline, self.status = widgets.timeline, widgets.status
        layout.arrange(self, widgets)

    def _make_controllers(self) -> None:
        services, widgets = self._services, self._widgets
        self.exports = ExportRunner(self.session, self.host, self.inspector.export, self)
        self._updates = updates = ScreenUpdates(services, widgets, self)
        self._shot = shot = ShotCommands(self.host, services, widgets, self.exports, self)
        self._view = view = ViewCommands(services, widgets, updates)
        self._results = results = ResultHandlers(
            services, widgets, updates, view, ViewMemory(self.session, widgets), self
        )
        connect_actions(self.commands, command_handlers(services, widgets, shot, view))
        connect_widgets(services, widgets, updates, shot, self)
        connect_services(services, widgets, updates, results, self.exports)
        results.plate_opened.connect(self.plate_opened)
        results.run_ended.connect(self.run_ended)
        services.preferences.changed.connect(self._use_preferences)
        services.preferences.changed.connect(self.preferences_changed)
        view.take_tool("select")
        self._guard = Guard(self, self.canvas)
        self.timeline.installEventFilter(self._guard)  # a click there leaves fields, too
        self.canvas.setFocus()

    # --- what a host or a window may ask for

    @property
    def choice(self) -> PlateChoice | None:
        """The source of the open plate, as the caller gave it."""
        return self.opening.choice

    @property
    def preferences(self) -> Preferences:
        """The preferences in force."""
        return self._services.preferences.value

    def set_preferences(self, changed: Preferences) -> None:
        """Change the preferences, and save them."""
        self._services.preferences.set(changed)

    def open_plate(self, choice: PlateChoice, out: Path | None = None, crop: tuple[int, CropBox] | None = None) -> None:
        """Open a plate; `out` is where runs write (default: beside the plate's folder). Errors show in the status."""
        self._shot.open_plate(choice, out, crop)

    def open_chosen(self) -> None:
        """Open the plate that is chosen in the host, or ask for a file."""
        self._shot.open_chosen()

    def open_path(self, path: str, out: Path | None = None) -> None:
        """Open a project, a file of shapes (into the open shot), or else a plate."""
        self._shot.open_path(path, out)

    def run(self) -> None:
        """Start a run of the frames between In and Out, or ask the job that is under way to stop."""
        self._shot.run()

    def export(self) -> None:
        """Export with the settings of the Export tab, and pass the shapes to the host."""
        self._shot.export()

    def take_tool(self, name: str) -> None:
        """Choose a tool of the viewer."""
        self._view.take_tool(name)

    def shut_down(self) -> None:
        """Save and end every process; the panel is going away."""
        take_typed(self)
        self._shot.shut_down()
        self._services.shut_down()
        self.exports.shut_down()

    # --- preferences

    def _use_preferences(self) -> None:
        set_action_keys(self.commands, self._keys_of_commands())
        self.autosave.set_rest(self.preferences.autosave_s)
        self.frame_cache.set_budget(self.preferences.cache_mb << 20)
        self.canvas.set_weights(self.preferences.line_px, self.preferences.point_px)
        if self.session.plate is None:
            self.view_bar.start_with(self.preferences.view)

    def _keys_of_commands(self) -> dict[str, KeySequences]:
        return keys_of_preset(self.preferences.preset, self.preferences.shortcuts)

    # --- the window system

    def event(self, event: QEvent) -> bool:
        """End a view that is shown while a key is held when the window loses the focus, and so misses the release."""
        if event.type() == QEvent.Type.WindowDeactivate:
            self._view.let_go_of_before()
        return super().event(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Accept plates, projects and shapes."""
        if dropped_file(event.mimeData()) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Open what was dropped."""
        path = dropped_file(event.mimeData())
        if path is not None:
            self.open_path(path)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        """End a view that is shown only while a key is held."""
        held = [*self.commands["before"].shortcuts(), *self.commands["last_version"].shortcuts()]
        keys = {each[0].key() for each in held if each.count()}  # type: ignore[index]
        if not event.isAutoRepeat() and event.key() in keys:
            self._view.let_go_of_before()
        super().keyReleaseEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """End all processes."""
        self.shut_down()
        super().closeEvent(event)
