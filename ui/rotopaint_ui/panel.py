"""The panel: one widget, the same in Nuke, in the standalone app and under test.

It wires the session to the screen and the engine's processes to the session. Nothing here blocks, opens a modal dialog
or loads numpy: plates are decoded and runs are made in other processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QMimeData, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QCloseEvent, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QSplitter, QVBoxLayout, QWidget

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.bars import StatusLine, ToolStrip, TopBar, ViewBar, action
from rotopaint_ui.canvas import Canvas
from rotopaint_ui.errand import Errand
from rotopaint_ui.host import Host, PlateChoice
from rotopaint_ui.inspector import Inspector
from rotopaint_ui.reel import CLEAN, PLATE, Look, Reel
from rotopaint_ui.session import PlateFacts, Results, Session, read_results, write_document
from rotopaint_ui.timeline import Timeline
from rotopaint_ui.worker import Worker

AUTOSAVE_MS = 1200
PREFETCH = (1, -1, 2, -2, 3, 4)
CLEAN_REFRESH_MS = 3000
LIVE_REFRESH_MS = 200


class Panel(QWidget):
    """Open a plate, drag a box, Run, look, correct, export."""

    plate_opened = Signal()
    run_ended = Signal(bool)

    def __init__(self, host: Host, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("rotopaint_panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setStyleSheet(_style())
        self.setAcceptDrops(True)
        self.host = host
        self.session = Session()
        self.reel = Reel(self)
        self.worker = Worker(self)
        self._reading, self._writing = Errand(self), Errand(self)
        self._outcome = ""
        self._choice: PlateChoice | None = None
        self._out: Path | None = None
        self._shown: object = None
        self._actions = self._make_actions()
        self._lay_out()
        self._connect()
        self.status.say("Open a plate, drag a box around the face, press Run")

    # --- the shot

    def open_plate(self, choice: PlateChoice, out: Path | None = None) -> None:
        """Open a plate; `out` is where runs write (default: beside the plate's folder). Errors show in the status."""
        if self.worker.is_running:
            self.status.say("A run is under way; stop it before opening another plate", "trouble")
            return
        self._save()
        try:
            self.reel.use(self.host.engine())
        except RotopaintError as error:
            self.status.say(str(error), "trouble")
            return
        self._choice, self._out = choice, out
        self.status.say(f"Opening {choice.source}")
        self.reel.open(PLATE, choice.source, choice.colourspace)

    def open_chosen(self) -> None:
        """Open what the host points at, or ask for a file."""
        try:
            choice = self.host.chosen_plate()
        except RotopaintError as error:
            self.status.say(str(error), "trouble")
            return
        if choice is not None:
            self.open_plate(choice)
            return
        dialog = QFileDialog(self, "Open a plate: one frame of a sequence, a still or a movie")
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setModal(False)
        dialog.fileSelected.connect(lambda path: self.open_plate(PlateChoice(path)))
        dialog.show()

    def run(self) -> None:
        """Start a run of the shot, or ask the one that is under way to stop."""
        if self.worker.is_running:
            self.worker.cancel()
            self.status.say("Stopping after the frames that are being written")
            return
        session = self.session
        if session.plate is None or session.out is None:
            self.status.say("Open a plate first", "trouble")
            return
        self._save()
        try:
            engine = self.host.engine()
            session.prepare_run()
        except (RotopaintError, OSError) as error:
            self.status.say(str(error), "trouble")
            return
        self.worker.start(engine, self.run_words())
        self.top.show_running(True)
        self.status.say("Starting the engine")
        self.status.show_progress(0, 0, "")

    def run_words(self) -> list[str]:
        """The command line of a run of this shot."""
        session = self.session
        assert session.plate is not None
        words = ["run", session.plate.source, "--out", str(session.out), "--events", "--resume"]
        crops = [box.word(frame) for frame, box in sorted(session.state.crops.items())]
        for crop in crops or ["auto"]:
            words += ["--crop", crop]
        if self.top.chosen_pack is not None:
            words += ["--model", self.top.chosen_pack]
        if self._choice is not None and self._choice.frames is not None:
            words += ["--frames", self._choice.frames]
        if self._choice is not None and self._choice.colourspace is not None:
            words += ["--colourspace", self._choice.colourspace]
        return words

    def export(self) -> None:
        """Save, and hand the shapes to the host."""
        document, path = self.session.document, self.session.shapes_path
        if document is None or path is None:
            self.status.say("Nothing to export yet: press Run first", "trouble")
            return
        self._save()
        try:
            self.status.say(self.host.export(document, path), "good")
        except (RotopaintError, OSError) as error:
            self.status.say(str(error), "trouble")

    def shut_down(self) -> None:
        """Save and end every process; the panel is going away."""
        self._play.stop()
        self._autosave.stop()
        self._reading.wait()
        self._save()
        self.worker.shut_down()
        self.reel.shut_down()

    # --- building

    def _make_actions(self) -> dict[str, QAction]:
        """The table of commands: label, icon, keys (Nuke's where Nuke has one), what they do."""
        step, session = self._step, self.session
        rows: Sequence[tuple[str, str, str, tuple[str, ...], Any]] = (
            ("select", "Select and reshape", "select", ("V",), partial(self._take_tool, "select")),
            ("crop", "Crop box", "crop", ("C",), partial(self._take_tool, "crop")),
            ("wipe", "Wipe between plate and clean plate", "wipe", ("W",), self._toggle_wipe),
            ("flip", "Show the clean plate", "flip", ("`",), self._toggle_clean),
            ("splines", "Splines", "splines", ("Q",), self._change_overlay),
            ("landmarks", "Landmarks", "landmarks", ("L",), self._change_overlay),
            ("mattes", "Mattes", "mattes", ("M",), self._change_overlay),
            ("face", "Fit the face", "face", ("F",), lambda: self.canvas.fit_face()),
            ("fit", "Fit the plate", "fit", ("H",), lambda: self.canvas.fit()),
            ("pixels", "One plate pixel to one screen pixel", "", ("1",), lambda: self.canvas.zoom_to(1.0)),
            ("worst", "Worst frame, then the next", "worst", ("N", "Up"), partial(self._worst, 1)),
            ("worst_back", "Back to a worse frame", "", ("Shift+N", "Down"), partial(self._worst, -1)),
            ("play", "Play", "play", ("Space",), self._toggle_play),
            ("next", "Next frame", "", ("Right",), partial(step, 1)),
            ("previous", "Previous frame", "", ("Left",), partial(step, -1)),
            ("next_key", "Next key", "", ("Ctrl+Right",), lambda: session.step_key(1)),
            ("previous_key", "Previous key", "", ("Ctrl+Left",), lambda: session.step_key(-1)),
            ("first", "First frame", "", ("Home",), lambda: self._go_to_end(0)),
            ("last", "Last frame", "", ("End",), lambda: self._go_to_end(-1)),
            ("undo", "Undo", "undo", ("Ctrl+Z",), lambda: self._told("Undone", session.undo())),
            ("redo", "Redo", "redo", ("Ctrl+Shift+Z", "Ctrl+Y"), lambda: self._told("Redone", session.redo())),
            ("save", "Save", "", ("Ctrl+S",), self._save),
            ("run", "Run", "", ("Ctrl+Return",), self.run),
            ("leave", "Leave the drag, or stop the run", "", ("Esc",), self._leave),
        )
        checkable = {"select", "crop", "wipe", "flip", "splines", "landmarks", "mattes", "play"}
        made = {}
        for name, text, picture, keys, act in rows:
            made[name] = action(self, text, picture, keys, checkable=name in checkable)
            made[name].triggered.connect(lambda checked=False, act=act: act())
        for name in ("select", "splines", "landmarks"):
            made[name].setChecked(True)
        return made

    def _lay_out(self) -> None:
        get = self._actions
        self.top = TopBar(
            "Open" if self.host.name == "standalone" else f"Open from {self.host.name}", self.host.export_label
        )
        self.tools = ToolStrip(
            [
                [get["select"], get["crop"]],
                [get["wipe"], get["flip"]],
                [get["face"], get["fit"]],
                [get["worst"], get["play"]],
                [get["undo"], get["redo"]],
            ]
        )
        self.view_bar = ViewBar([get["splines"], get["landmarks"], get["mattes"]])
        self.canvas = Canvas(self.session, self.reel)
        self.inspector = Inspector(self.session)
        self.timeline = Timeline(self.session, self.reel)
        self.status = StatusLine()
        viewer = QWidget()
        column = _tight(QVBoxLayout(viewer))
        column.addWidget(self.view_bar)
        column.addWidget(self.canvas, 1)
        middle = QWidget()
        row = _tight(QHBoxLayout(middle))
        row.addWidget(self.tools)
        row.addWidget(viewer, 1)
        split = QSplitter(Qt.Orientation.Horizontal)
        split.addWidget(middle)
        split.addWidget(self.inspector)
        split.setStretchFactor(0, 1)
        split.setSizes([1000, 280])
        split.setHandleWidth(2)
        whole = _tight(QVBoxLayout(self))
        for widget in (self.top, split, self.timeline, self.status):
            whole.addWidget(widget, 1 if widget is split else 0)

    def _connect(self) -> None:
        self.session.listeners.append(self._refresh)
        self.top.open.clicked.connect(self.open_chosen)
        self.top.run.clicked.connect(self.run)
        self.top.export.clicked.connect(self.export)
        self.view_bar.look_changed.connect(self._change_look)
        self.canvas.cursor_moved.connect(self._read_out)
        self.timeline.frame_wanted.connect(self.session.go_to)
        self.reel.opened.connect(self._opened)
        self.reel.views.connect(self.view_bar.show_views)
        self.reel.packs.connect(self.top.show_packs)
        self.reel.image_ready.connect(self._image_ready)
        self.reel.thumb_ready.connect(lambda frame: self.timeline.update())
        self.reel.failed.connect(lambda text: self.status.say(text, "trouble"))
        self.worker.happened.connect(self._take_event)
        self.worker.finished.connect(self._run_ended)
        self._reading.done.connect(self._take_results)
        self._reading.failed.connect(lambda text: self.status.say(text, "trouble"))
        self._writing.done.connect(self._written)
        self._writing.failed.connect(lambda text: self.status.say(f"Not saved: {text}", "trouble"))
        self._autosave = QTimer(self, singleShot=True, interval=AUTOSAVE_MS)
        self._autosave.timeout.connect(self._save_beside)
        self._clean_refresh = QTimer(self, singleShot=True, interval=CLEAN_REFRESH_MS)
        self._clean_refresh.timeout.connect(self._open_clean)
        self._live_refresh = QTimer(self, singleShot=True, interval=LIVE_REFRESH_MS)
        self._live_refresh.timeout.connect(self.session.show_live)
        self._play = QTimer(self)
        self._play.timeout.connect(self._advance)

    # --- from the session to the screen

    def _refresh(self) -> None:
        """Something in the session changed."""
        session = self.session
        self.inspector.refresh()
        self.canvas.update()
        self.timeline.update()
        self._actions["undo"].setEnabled(session.can_undo)
        self._actions["redo"].setEnabled(session.can_redo)
        if not session.is_dragging and not session.is_live and session.document is not None:
            self.status.saved.setText("Saved" if session.is_saved else "Not saved yet")
            if not session.is_saved and not self.worker.is_running:
                self._autosave.start()
        wanted = (session.frame, session.plate, self.canvas.wipe is not None, self.canvas.shows_clean)
        if wanted != self._shown:
            self._shown = wanted
            self._want_frames()

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

    def _opened(self, name: str, facts: Mapping[str, Any]) -> None:
        if name == CLEAN:
            self._want_frames()
            self.canvas.update()
            return
        if self._choice is None:
            return
        plate = PlateFacts.from_json(self._choice.source, facts)
        self.reel.forget(CLEAN)
        self.session.open(plate, self._out)
        self.top.show_plate(plate)
        self.canvas.view = type(self.canvas.view)(aspect=plate.pixel_aspect)
        self.canvas.fit()
        self.reel.ask_choices()
        self.reel.want_thumbs(self.timeline.thumb_frames())
        self._open_clean()
        self._take_tool("crop")
        self.status.say("Drag a box around the face, then press Run")
        self._read_results()
        self.plate_opened.emit()

    def _read_results(self) -> None:
        out = self.session.out
        if out is not None:
            self._reading.start(lambda: read_results(out))

    def _take_results(self, results: Results) -> None:
        """What a run left has been read: that of an earlier one, or of the one that has just ended."""
        session, outcome = self.session, self._outcome
        self._outcome = ""
        if results.out != session.out:
            return
        if outcome:
            session.end_live()
            session.take_run(results)
        else:
            session.take_results(results)
        self._show_device()
        if session.document is not None:
            self._take_tool("select")
        if results.trouble is not None:
            self.status.say(results.trouble, "trouble")
        elif outcome:
            text = self._summary() if outcome == "Done" else outcome
            self.status.say(text, "good" if outcome == "Done" else "trouble")
        elif session.document is not None:
            self.status.say("The shapes of the last run. N jumps to the worst frame")
        self._refresh()
        if outcome:
            self.run_ended.emit(results.trouble is None)

    def _image_ready(self, name: str, frame: int) -> None:
        if frame == self.session.frame:
            self.canvas.update()
        if (name, frame) in self.reel.broken:
            self.timeline.update()

    def _read_out(self, x: float, y: float) -> None:
        if self.session.plate is not None:
            self.view_bar.readout.setText(f"x {x:.1f}  y {y:.1f}   {self.canvas.view.zoom * 100:.0f} %")

    # --- commands

    def _take_tool(self, name: str) -> None:
        self.canvas.tool = name
        for each in ("select", "crop"):
            self._actions[each].setChecked(each == name)

    def _toggle_wipe(self) -> None:
        self.canvas.wipe = 0.5 if self._actions["wipe"].isChecked() else None
        self._open_clean()
        self._refresh()

    def _toggle_clean(self) -> None:
        self.canvas.shows_clean = self._actions["flip"].isChecked()
        self._open_clean()
        self._refresh()

    def _change_overlay(self) -> None:
        shown = {name: self._actions[name].isChecked() for name in ("splines", "landmarks", "mattes")}
        self.canvas.overlay = type(self.canvas.overlay)(**shown)
        self.canvas.update()

    def _change_look(self, look: Look) -> None:
        self.reel.look = look
        self._want_frames()

    def _worst(self, direction: int) -> None:
        if self.session.step_worst(direction):
            self.status.say(self.timeline.tip(self.session.frame).replace("\n", ", "))
        else:
            is_run = bool(self.session.run.errors)
            self.status.say("No frame is left to check: all are keyed by hand" if is_run else "Press Run first")

    def _step(self, by: int) -> None:
        self.session.go_to(self.session.frame + by)

    def _go_to_end(self, index: int) -> None:
        if self.session.plate is not None:
            self.session.go_to(self.session.plate.frames[index])

    def _toggle_play(self) -> None:
        plate = self.session.plate
        if plate is None or not self._actions["play"].isChecked():
            self._actions["play"].setChecked(False)
            self._play.stop()
        else:
            self._play.start(round(1000 / plate.fps))

    def _advance(self) -> None:
        """Play every frame: wait for one that is still being read."""
        session, plate = self.session, self.session.plate
        if plate is None or session.is_dragging:
            return
        following = session.frame + 1 if session.frame < plate.last else plate.first
        is_there = self.reel.image(PLATE, following) is not None or (PLATE, following) in self.reel.broken
        if is_there or following not in plate.frames:
            session.go_to(following)
        else:
            self.reel.want([(PLATE, following), *((PLATE, following + step) for step in (1, 2, 3))])

    def _leave(self) -> None:
        if self.session.is_dragging:
            self.canvas.cancel_gesture()
        elif self.worker.is_running:
            self.run()

    def _told(self, what: str, label: str | None) -> None:
        self.status.say(f"{what}: {label}" if label is not None else f"Nothing to be {what.lower()}")

    def _save_beside(self) -> None:
        """Save in a thread: a long shot takes a second to write, and the artist goes on."""
        session, document, path = self.session, self.session.document, self.session.shapes_path
        if session.is_dragging or session.is_live or self._writing.is_running:
            self._autosave.start()
        elif document is not None and path is not None and not session.is_saved and not self.worker.is_running:

            def write() -> object:
                write_document(path, document)
                return path, document

            self._writing.start(write)

    def _written(self, result: tuple[Path, RotoDocument]) -> None:
        path, document = result
        if path == self.session.shapes_path:
            self.session.mark_saved(document)
            self._refresh()

    def _save(self) -> None:
        """Save now."""
        self._writing.wait()
        if self.session.is_dragging or self.worker.is_running:
            return
        try:
            if self.session.save():
                self.status.saved.setText("Saved")
        except (RotopaintError, OSError) as error:
            self.status.say(f"Not saved: {error}", "trouble")

    # --- runs

    def _take_event(self, facts: Mapping[str, Any]) -> None:
        """One object of the event stream; fields that this version does not know are left alone."""
        kind = facts["event"]
        self.session.take_event(facts)
        if kind == "started":
            self.top.device.setText(str(facts.get("device", "")))
            self.status.say(f"{facts.get('total', '?')} frames with {facts.get('pack', 'the pack')}")
        elif kind == "frame" and "frame" in facts:
            if not self._live_refresh.isActive():
                self._live_refresh.start()
            if not self._clean_refresh.isActive():
                self._clean_refresh.start()
        elif kind == "progress":
            note = f"{facts['done']} of {facts['total']}"
            if facts.get("eta_s") is not None:
                note += f", {facts['eta_s']:.0f} s to go"
            if facts.get("ms_per_frame") is not None:
                note += f", {facts['ms_per_frame']:.0f} ms/frame"
            self.status.show_progress(int(facts["done"]), int(facts["total"]), note)
        elif kind in ("warning", "error"):
            self.status.say(str(facts.get("message", kind)), "trouble")

    def _run_ended(self, is_done: bool, text: str) -> None:
        self.top.show_running(False)
        self.status.hide_progress()
        self._clean_refresh.stop()
        self._live_refresh.stop()
        self._open_clean()
        if is_done:
            self._outcome = text
            self._read_results()
            return
        self.session.end_live()
        self.status.say(text, "trouble")
        self._refresh()
        self.run_ended.emit(False)

    def _summary(self) -> str:
        run = self.session.run
        text = f"Done. {len(run.errors)} frames"
        if run.ms_per_frame is not None:
            text += f", {run.ms_per_frame:.0f} ms each"
        if run.lost:
            text += f", the face was not found in {len(run.lost)}"
        return text + ". N jumps to the worst frame"

    def _show_device(self) -> None:
        """What really ran, and how fast."""
        run = self.session.run
        speed = "" if run.ms_per_frame is None else f", {run.ms_per_frame:.0f} ms/frame"
        self.top.device.setText(f"{run.device}{speed}" if run.device else "")

    def _open_clean(self) -> None:
        """Look at the clean plate's folder again; nothing is said while there is none."""
        out, plate = self.session.out, self.session.plate
        if out is None or plate is None:
            return
        folder = out / "clean"
        if folder.is_dir() and any(folder.iterdir()):
            self.reel.open(CLEAN, str(folder))

    # --- the window system

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """A file or folder may be dropped."""
        if _dropped(event.mimeData()) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Open what was dropped."""
        path = _dropped(event.mimeData())
        if path is not None:
            self.open_plate(PlateChoice(path))

    def closeEvent(self, event: QCloseEvent) -> None:
        """Leave no process behind."""
        self.shut_down()
        super().closeEvent(event)


def _dropped(data: QMimeData) -> str | None:
    paths = [url.toLocalFile() for url in data.urls() if url.isLocalFile()]
    return paths[0] if paths else None


def _style() -> str:
    folder = Path(__file__).resolve().parent / "resources"
    return (folder / "panel.qss").read_text(encoding="utf-8").replace("RESOURCES", folder.as_posix())


def _tight(layout: Any) -> Any:
    """A layout without air of its own."""
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(0)
    return layout
