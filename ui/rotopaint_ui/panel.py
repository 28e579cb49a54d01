"""The panel: one widget, the same in Nuke, in the standalone app and under test.

It wires the session to the screen and the engine's processes to the session. Nothing here blocks, opens a modal dialog
or loads numpy: plates are decoded, runs and exports are made in other processes.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QWidget

from rotopaint_ai.errors import RotopaintError
from rotopaint_ui import layout, preferences
from rotopaint_ui.actions import make_actions, set_keys
from rotopaint_ui.bars import ToolStrip, TopBar, ViewBar
from rotopaint_ui.canvas import Canvas
from rotopaint_ui.clerk_client import ClerkClient
from rotopaint_ui.commands import Keys, keys_of
from rotopaint_ui.diagnostics import report
from rotopaint_ui.dropping import Importer, dropped
from rotopaint_ui.exports import Exports
from rotopaint_ui.focus import Guard
from rotopaint_ui.handlers import handler_of
from rotopaint_ui.host import Host, PlateChoice
from rotopaint_ui.inspector import Inspector
from rotopaint_ui.jobs import CLEAN as CLEAN_JOB
from rotopaint_ui.jobs import RUN, ShotJobs
from rotopaint_ui.keeper import Keeper
from rotopaint_ui.live_client import LiveClient, SeamPreview
from rotopaint_ui.opening import Opening, is_project
from rotopaint_ui.player import Player
from rotopaint_ui.preferences import Preferences
from rotopaint_ui.preview import Previewer
from rotopaint_ui.reel import CLEAN, PLATE, Look, Reel
from rotopaint_ui.render import View
from rotopaint_ui.review import ReviewLoop, Visits
from rotopaint_ui.review_bar import ReviewBar
from rotopaint_ui.session import Box, PlateFacts, Session
from rotopaint_ui.shot import Results
from rotopaint_ui.status import StatusLine
from rotopaint_ui.timeline import Timeline
from rotopaint_ui.timeline.reach import Reach

COALESCE_MS = 100  # of a hand at rest, after which the slower widgets look at what a drag has done
PREFETCH = (1, -1, 2, -2, 3, 4)
CLEAN_REFRESH_MS = 3000
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
        self.setStyleSheet(layout.style())
        self.setAcceptDrops(True)
        self.host = host
        self.preferences, trouble = preferences.read(preferences.default_path())
        self.session = Session()
        self.reel = Reel(self, budget_bytes=self.preferences.cache_mb << 20)
        self.review = ReviewLoop(self.session, lambda text: self.status.say(text))
        self.player = Player(self.session, self.reel, self)
        self.jobs = ShotJobs(self.session, host.engine, self)
        self.keeper = Keeper(self.session, lambda: self.jobs.kind != RUN, self)
        self.importer = Importer(self.session, self)
        self.opening = Opening(self.session, self.reel, host.engine, self)
        self.session.live = self.live = LiveClient(self)
        self.live.project_path = lambda: self.session.project_path
        self.clerk = ClerkClient(self)
        self.previewer = Previewer(self.session, self.reel, self.live, self)
        self._shown: object = None
        self.commands = make_actions(self, self._keys(), partial(handler_of, self))
        self._make_widgets()
        self.exports = Exports(self.session, host, self.inspector.export, self)
        self._connect()
        self._connect_work()
        self._use_preferences()
        self.status.say(trouble or WELCOME, "trouble" if trouble else "plain")
        self._refresh()

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
            layout.ask_for_file(self, "Open a plate: one frame of a sequence, a still or a movie", self.open_path)

    def open_path(self, path: str, out: Path | None = None) -> None:
        """Open whatever a path is: a project, shapes that go into the shot that is open, or else a plate."""
        if is_project(path):
            if self._may_open():
                self.opening.open_project(Path(path))
        elif self.importer.takes(path):
            self.importer.read(path)
        else:
            self.open_plate(PlateChoice(path), out)

    def _may_open(self) -> bool:
        if self.jobs.is_running:
            self.status.say("A run is under way; stop it before opening another shot", "trouble")
            return False
        self.keeper.save()
        return True

    def run(self) -> None:
        """Start a run of the shot, or ask the job that is under way to stop."""
        if self.jobs.is_running:
            self.jobs.stop()
        elif self.session.plate is None or self.choice is None:
            self.status.say("Open a plate first", "trouble")
        else:
            self.keeper.save()
            self.jobs.run(self.choice, self.top.chosen_pack, self.preferences)

    def make_clean(self) -> None:
        """Paint the frames of the clean plate again that no longer fit."""
        if self.session.document is None or self.choice is None:
            self.status.say("Nothing to paint away yet: press Run first", "trouble")
        else:
            self.keeper.save()
            patch = self.inspector.seam.patch.isChecked()
            self.jobs.make_clean(self.choice, self.top.chosen_pack, self.preferences, patch=patch)

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
        self.keeper.shut_down()
        self.opening.shut_down()
        self.live.shut_down()
        self.clerk.shut_down()
        self.exports.shut_down()
        self.reel.shut_down()

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
        self.keeper.set_rest(self.preferences.autosave_s)
        self.reel.set_budget(self.preferences.cache_mb << 20)
        if self.session.plate is None:
            self.view_bar.start_with(self.preferences.view)

    def _keys(self) -> dict[str, Keys]:
        return keys_of(self.preferences.preset, self.preferences.shortcuts)

    # --- building

    def _make_widgets(self) -> None:
        get, host = self.commands, self.host
        opens = "Open" if host.name == "standalone" else f"Open from {host.name}"
        self.top = TopBar(opens, "Export", [get["undo"], get["redo"]])
        self.canvas = Canvas(self.session, self.reel)
        self.tools = ToolStrip(layout.tool_groups(get, self.canvas.tool_names))
        overlays = [get[name] for name in get if name.startswith("overlay.")]
        self.view_bar = ViewBar([each for each in overlays if not each.icon().isNull()])
        self.inspector = Inspector(self.session, None if host.name == "standalone" else host.export_label)
        self.inspector.seam.set_actions(get["preview_seam"])
        self.review_bar = ReviewBar(get)
        self.timeline = Timeline(self.session, self.reel)
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
        self._guard = Guard(self)
        self.canvas.setFocus()

    def _connect(self) -> None:
        self.session.listeners.append(self._refresh)
        self.session.said.append(lambda text: self.status.say(text))
        self.top.open.clicked.connect(self.open_chosen)
        self.top.run.clicked.connect(self.run)
        self.top.export.clicked.connect(self.export)
        self.status.diagnostics_wanted.connect(self.copy_diagnostics)
        self.top.pack.currentTextChanged.connect(lambda text: self._load_pack())
        self.view_bar.look_changed.connect(self._change_look)
        self.canvas.readout_changed.connect(self.view_bar.show_readout)
        self.player.measured.connect(self.canvas.show_rate)
        self.timeline.frame_wanted.connect(self.session.go_to)
        self.timeline.shape_wanted.connect(self.session.select)
        self.timeline.reach_changed.connect(self._drag_reach)
        self.review_bar.frame_wanted.connect(self.session.go_to)
        self.review_bar.visits_changed.connect(lambda text: setattr(self.review, "visits", Visits(text)))
        self.inspector.shapes.chosen_changed.connect(self.inspector.seam.choose)
        self.inspector.seam.make_wanted.connect(self.make_clean)
        self.inspector.currentChanged.connect(lambda index: self._refresh_slow())
        self.inspector.export.folder_wanted.connect(self._ask_for_export_folder)
        self._slow = QTimer(self, singleShot=True, interval=COALESCE_MS)
        self._slow.timeout.connect(self._refresh_slow)
        self._clean_refresh = QTimer(self, singleShot=True, interval=CLEAN_REFRESH_MS)
        self._clean_refresh.timeout.connect(self._open_clean)

    def _connect_work(self) -> None:
        say, jobs = self.status.say, self.jobs
        self.reel.opened.connect(self._clean_opened)
        self.opening.opened.connect(self._opened)
        self.opening.put_back.connect(self._ask_for_pictures)
        self.reel.views.connect(self.view_bar.show_views)
        self.reel.packs.connect(self.top.show_packs)
        self.reel.image_ready.connect(self._image_ready)
        self.reel.thumb_ready.connect(lambda frame: self.timeline.update())
        self.reel.failed.connect(lambda text: say(self.opening.explain(text), "trouble"))
        for source in (jobs.said, self.exports.said, self.importer.said, self.opening.said):
            source.connect(say)
        jobs.progressed.connect(self.status.show_progress)
        jobs.device.connect(self.top.show_device)
        jobs.started.connect(lambda kind: self._show_running())
        jobs.painted.connect(lambda frame: self._clean_refresh.isActive() or self._clean_refresh.start())
        jobs.read.connect(self._results_read)
        jobs.ended.connect(self._job_ended)
        self.exports.mattes_wanted.connect(lambda document, out: jobs.draw_mattes(document, out, self.preferences))
        jobs.drew.connect(self.exports.take_mattes)
        self.live.said.connect(lambda text: say(text, "trouble"))
        self.live.lost.connect(lambda text: say(text, "trouble"))
        self.previewer.shown.connect(self._show_preview)
        self.keeper.kept.connect(self._refresh)
        self.keeper.failed.connect(lambda text: say(text, "trouble"))

    # --- from the session to the screen

    def _refresh(self) -> None:
        """Something in the session changed. The viewer follows at once, the rest while a drag goes on now and then."""
        self.canvas.refresh()
        self.previewer.refresh()
        if self.session.is_dragging:
            self._slow.start()  # again and again: the slower widgets follow when the hand rests
        else:
            self._refresh_slow()
            self.keeper.touch()
        wanted = (self.session.frame, self.session.plate, self.canvas.wipe is not None, self.canvas.shows_clean)
        if wanted != self._shown:
            self._shown = wanted
            self._want_frames()

    def _refresh_slow(self) -> None:
        session = self.session
        self.review.refresh()
        self._show_reach()
        self.inspector.refresh()
        self.timeline.moved = self.review.moved
        self.timeline.refresh()
        self._refresh_commands()
        if not session.is_live and session.document is not None:
            self.status.saved.setText("Saved" if session.is_saved else "Not saved yet")
        if self.inspector.currentWidget() is self.inspector.seam and not session.is_dragging:
            n_painted, is_painting = len(session.painting.painted), self.jobs.kind == CLEAN_JOB
            self.inspector.seam.show_stale(session.stale_frames(), n_painted, is_painting)

    def _refresh_commands(self) -> None:
        session, get = self.session, self.commands
        mark = session.state.marks.get(session.frame)
        has_plate, has_document = session.plate is not None, session.document is not None
        for name, on in (
            *(("undo", session.can_undo), ("redo", session.can_redo), ("refit", has_document)),
            *((name, has_plate) for name in ("accept", "needs_work", "accept_next", "run", "play", "find_face")),
            *((name, has_document) for name in ("make_clean", "preview_seam", "export")),
        ):
            get[name].setEnabled(on)
        get["accept"].setChecked(mark == "accepted")
        get["needs_work"].setChecked(mark == "needs work")
        self.review_bar.show_frame(session.plate, session.frame)
        self.review_bar.summary.setText(self.review.summary())
        self.top.export.setEnabled(has_document)

    def _show_reach(self) -> None:
        self.timeline.reach = self.review.reach
        self.review_bar.show_reach(self.review.reach)
        self.timeline.update()

    def _drag_reach(self, reach: Reach, has_let_go: bool) -> None:
        self.review.drag(reach, has_let_go)
        self._show_reach()

    def _want_frames(self) -> None:
        """This frame first, in both plates where both are seen; then its neighbours."""
        plate, frame = self.session.plate, self.session.frame
        if plate is None:
            return
        frames = set(plate.frames)
        near = [frame, *(frame + step for step in PREFETCH)]
        names = [PLATE]
        if self.canvas.wipe is not None or self.canvas.shows_clean:
            names = [CLEAN, PLATE] if self.canvas.shows_clean else [PLATE, CLEAN]
        self.reel.want([(name, each) for each in near if each in frames for name in names])

    def _clean_opened(self, name: str, facts: object) -> None:
        if name == CLEAN:
            self._want_frames()
            self.canvas.refresh()

    def _opened(self, plate: PlateFacts) -> None:
        self.live.use(self.host.engine())
        if self.previewer.is_on:
            self.commands["preview_seam"].trigger()
        self.reel.forget(CLEAN)
        self.review.reset()
        self.top.show_plate(plate)
        self.canvas.view = View(aspect=plate.pixel_aspect)
        self.canvas.fit()
        self.reel.ask_choices()
        self._ask_for_pictures()
        self._open_clean()
        self.take_tool("crop")
        self.status.say("Drag a box around the face, then press Run")
        self.live.open_plate(plate.source, None if self.choice is None else self.choice.colourspace)
        self.jobs.read_results()
        self.set_preferences(self.preferences.with_recent(plate.source))
        self.plate_opened.emit()

    def _ask_for_pictures(self) -> None:
        self._want_frames()
        self.reel.want_thumbs(self.timeline.thumb_frames())

    def _results_read(self, results: Results, is_run: bool) -> None:
        session = self.session
        if not is_run:
            self.opening.keep(results)
        speed = "" if session.run.ms_per_frame is None else f", {session.run.ms_per_frame:.0f} ms/frame"
        self.top.show_device(f"{session.run.device}{speed}" if session.run.device else "", self.preferences.device)
        if session.document is not None:
            self.take_tool("select")
            self._load_pack()
            if not is_run:
                self.status.say("The shapes of the last run. N jumps to the worst frame")
        self._refresh()

    def _job_ended(self, kind: str, is_whole: bool) -> None:
        self._show_running()
        self.status.hide_progress()
        self._clean_refresh.stop()
        self._open_clean()
        self._refresh()
        if kind == RUN:
            self.run_ended.emit(is_whole)

    def _load_pack(self) -> None:
        """Another pack answers landmark drags, and may have another choice of ways to paint."""
        if self.session.document is not None:
            pack, tab = self.top.chosen_pack, self.inspector.seam
            self.live.load_pack(pack)
            ask = {"ask": "methods", "model": pack}
            self.clerk.ask(self.host.engine(), ask, lambda facts: tab.offer_methods(facts.get("methods", ())))

    def _show_preview(self, preview: SeamPreview | None) -> None:
        self.inspector.seam.show_preview(None if preview is None else (preview.before, preview.after))
        self.canvas.refresh()

    def _show_running(self) -> None:
        self.top.show_running(self.jobs.is_running)
        self._refresh_slow()

    def _image_ready(self, name: str, frame: int) -> None:
        if frame == self.session.frame:
            self.canvas.refresh()
        if (name, frame) in self.reel.broken:
            self.timeline.update()

    def _open_clean(self) -> None:
        """Look at the clean plate's folder again; nothing is said while there is none."""
        out, plate = self.session.out, self.session.plate
        if out is None or plate is None:
            return
        folder = out / "clean"
        if folder.is_dir() and any(folder.iterdir()):
            self.reel.open(CLEAN, str(folder))

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
        self._open_clean()
        self._refresh()

    def preview_seam(self) -> None:
        """Show this frame with its seams painted away, or go back to what was shown."""
        on = self.commands["preview_seam"].isChecked()
        if on != self.commands["flip"].isChecked():
            self.commands["flip"].trigger()
        self.previewer.switch(on)

    def lengthen_reach(self, by: int) -> None:
        """Let the correction reach some frames further on both sides."""
        self.review.lengthen(by)
        self._show_reach()

    def _change_look(self, look: Look) -> None:
        self.reel.look = look
        self._want_frames()
        self.previewer.refresh()

    def _ask_for_export_folder(self) -> None:
        layout.ask_for_folder(self, "Where exports go", self.inspector.export.folder.setText)

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
