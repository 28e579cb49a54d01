"""Commands that open, run, paint and export a shot."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMenu, QWidget

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.exchange import nuke
from rotopaint_ai.project.face_groups import face_names
from rotopaint_ai.project.names import rename_shapes
from rotopaint_ai.project.state import CropBox
from rotopaint_ui.host import Host, PlateChoice
from rotopaint_ui.panel.diagnostics import diagnostics_text
from rotopaint_ui.panel.export_runner import ExportRunner
from rotopaint_ui.panel.learn_window import LearnWindow
from rotopaint_ui.panel.panel_widgets import PanelWidgets
from rotopaint_ui.services.panel_services import PanelServices
from rotopaint_ui.session.project_file import is_project
from rotopaint_ui.session.shot_files import plates_in
from rotopaint_ui.session.xsheet import read_xsheet
from rotopaint_ui.widgets import dialogs

_OF_A_FACE = re.compile(r"the largest of \d+ faces|sure by \d+ ?%")  # what an artist wants to know of the choice


class ShotCommands:
    """Each method is one command. `window` is the parent of the file dialogs, which are never modal."""

    def __init__(
        self, host: Host, services: PanelServices, widgets: PanelWidgets, exports: ExportRunner, window: QWidget
    ) -> None:
        self._host, self._services, self._widgets = host, services, widgets
        self._exports, self._window = exports, window
        self._say = widgets.status.say
        self._learning: LearnWindow | None = None

    # --- opening

    def open_plate(self, choice: PlateChoice, out: Path | None = None, crop: tuple[int, CropBox] | None = None) -> None:
        """Open a plate; `out` is where runs write (default: beside the plate's folder). Errors show in the status."""
        if self._may_open():
            self._services.opening.open_plate(choice, out, crop)

    def open_chosen(self) -> None:
        """Open the plate that is chosen in the host, or ask for a file."""
        try:
            choice = self._host.chosen_plate()
        except RotopaintError as error:
            self._say(str(error), "trouble")
            return
        if choice is not None:
            self.open_plate(choice)
        else:
            title = "Open a plate: one frame of a sequence, a still or a movie"
            dialogs.ask_for_file(self._window, title, self.open_path, beside=self._last_plate())

    def open_path(self, path: str, out: Path | None = None) -> None:
        """Open a project, a file of shapes (into the open shot), or else a plate."""
        if is_project(path):
            if self._may_open():
                self._services.opening.open_project(Path(path))
        elif self._services.importer.takes(path):
            self._services.importer.read(path)
        elif Path(path).suffix.lower() == ".csv":
            self._take_xsheet(Path(path))
        elif Path(path).is_dir() and len(names := plates_in(Path(path))) > 1:
            self._offer(Path(path), names, out)
        else:
            self.open_plate(PlateChoice(path), out)

    def _last_plate(self) -> Path | None:
        """The plate that was opened last, in this session or an earlier one."""
        recent = self._services.preferences.value.recent
        return Path(recent[0]) if recent else None

    def _take_xsheet(self, path: Path) -> None:
        """Show a face kit's exposure sheet on the timeline."""
        if self._services.session.plate is None:
            self._say(f"{path.name}: open the plate that it belongs to first", "trouble")
            return
        try:
            sheet = read_xsheet(path)
        except RotopaintError as error:
            self._say(str(error), "trouble")
            return
        self._services.session.show_xsheet(sheet)
        n = sum(len(pieces) for pieces in sheet.values())
        self._say(f"{path.name}: {n} exposures of {', '.join(sheet)}", "good")

    def _offer(self, folder: Path, names: list[str], out: Path | None) -> None:
        """A folder with several sequences: ask which one."""
        menu = QMenu(self._window)
        menu.setObjectName("sequences")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for name in names:
            choice = PlateChoice(str(folder / name))
            menu.addAction(name).triggered.connect(partial(self._open_offered, choice, out))
        canvas = self._widgets.canvas
        menu.popup(canvas.mapToGlobal(canvas.rect().center()))
        self._say(f"{folder.name} holds {len(names)} sequences: choose one")

    def _open_offered(self, choice: PlateChoice, out: Path | None, checked: bool = False) -> None:
        self.open_plate(choice, out)

    def ask_for_project(self) -> None:
        """Ask for a project or shapes, and open them."""
        project = self._services.session.project.path
        dialogs.ask_for_file(
            self._window, "Open a project or shapes", self.open_path, beside=project or self._last_plate()
        )

    def relink(self) -> None:
        """Ask for the new place of the open project's plate."""
        dialogs.ask_for_file(self._window, "Where the plate lies now", self._services.opening.relink)

    def ask_for_colourspace(self) -> None:
        """Request the colour spaces that the plate can be read in, to offer them."""
        self._services.frame_cache.ask_spaces()

    def offer_colourspaces(self, names: list[str]) -> None:
        """Offer the colour spaces that have arrived, and the file's own."""
        choice = self._services.opening.choice
        if choice is None or self._services.session.plate is None:
            return
        menu = QMenu(self._window)
        menu.setObjectName("colourspaces")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for name in (None, *names):
            entry = menu.addAction("As the file says" if name is None else name)
            entry.setCheckable(True)
            entry.setChecked(name == choice.colourspace)
            entry.triggered.connect(partial(self._read_as, name))
        facts = self._widgets.top.facts
        menu.popup(facts.mapToGlobal(facts.rect().bottomLeft()))

    def _read_as(self, name: str | None, checked: bool = False) -> None:
        if self._may_open():
            self._services.opening.read_as(name)

    def _may_open(self) -> bool:
        if self._services.jobs.is_running:
            self._say("A run is under way; stop it before opening another shot", "trouble")
            return False
        self._services.autosave.save()
        return True

    # --- runs

    def run(self, *, ignores_range: bool = False, force: bool = False) -> None:
        """Start a run of the frames between In and Out, or ask the job that is under way to stop.

        `force`: also paint where the model doubts that there is a face.
        """
        services, choice = self._services, self._services.opening.choice
        if services.jobs.is_running:
            services.jobs.stop()
        elif services.session.plate is None or choice is None:
            self._say("Open a plate first", "trouble")
        else:
            services.autosave.save()
            pack, preferences = self._widgets.top.chosen_pack, services.preferences.value
            services.jobs.run(choice, pack, preferences, ignores_range=ignores_range, force=force)

    def run_all(self) -> None:
        """Start a run of the whole shot, whatever In and Out are."""
        self.run(ignores_range=True)

    def run_anyway(self) -> None:
        """Start a run that also paints where the model doubts that there is a face."""
        self.run(force=True)

    def make_clean(self, *, ignores_range: bool = False) -> None:
        """Render the clean plate's frames that are out of date, between In and Out."""
        services, choice = self._services, self._services.opening.choice
        if services.session.document is None or choice is None:
            self._say("Nothing to paint away yet: press Run first", "trouble")
            return
        services.autosave.save()
        patch = self._widgets.inspector.seam.patch.isChecked()
        pack, preferences = self._widgets.top.chosen_pack, services.preferences.value
        services.jobs.make_clean(choice, pack, preferences, patch=patch, ignores_range=ignores_range)

    def make_all(self) -> None:
        """Render all frames of the clean plate that are out of date, whatever In and Out are."""
        self.make_clean(ignores_range=True)

    def take_off_rig(self) -> None:
        """Write the plate without the rig under the closed shapes that are selected in Shapes."""
        services, choice = self._services, self._services.opening.choice
        document, chosen = services.session.state.document, self._widgets.inspector.shapes.chosen_names
        closed = [each for each in (document.shapes if document is not None else ()) if each.closed and each.keys]
        names = [each.name for each in closed if each.name in chosen and each.role != "seam" and not each.subtract]
        if choice is None or not names:
            self._say("Draw around the rig (B), a few pixels wide, and select its closed shapes in Shapes first")
            return
        services.autosave.save()
        services.jobs.take_off_rig(choice, names, services.preferences.value)

    def teach(self) -> None:
        """Solve the whole shot from the corrections made so far and its pictures."""
        self._from_corrections(self._services.teacher.teach)

    def learn_shot(self) -> None:
        """Train a pack on the poses corrected so far, and read the shot again with it."""
        self._from_corrections(self._services.teacher.learn)

    def _from_corrections(self, begin: Callable[[PlateChoice, str | None], None]) -> None:
        services, choice = self._services, self._services.opening.choice
        if services.jobs.is_running:
            self._say("A job is under way; Esc stops it", "trouble")
        elif choice is None:
            self._say("Open a plate first", "trouble")
        else:
            services.autosave.save()
            begin(choice, self._widgets.top.chosen_pack)

    def track(self) -> None:
        """Track the surface under the selected shapes, starting from their keys."""
        choice = self._services.opening.choice
        if choice is None:
            self._say("Open a plate first", "trouble")
        else:
            self._services.tracker.track(choice)

    def learn(self) -> None:
        """Show the window that mines projects and trains a pack from them."""
        if self._learning is None:
            self._learning = LearnWindow(self._host.engine, self._window)
            services = self._services
            self._learning.pack_made.connect(
                lambda name: services.frame_cache.ask_choices(services.preferences.value.learnt)
            )
        pack = self._widgets.top.chosen_pack or "default"
        self._services.autosave.save()
        self._learning.offer(self._services.session.project.path, pack)

    def shut_down(self) -> None:
        """End the processes of other windows."""
        if self._learning is not None:
            self._learning.shut_down()

    def export(self) -> None:
        """Export with the settings of the Export tab, and pass the shapes to the host."""
        if self._services.session.document is not None:
            self._widgets.inspector.setCurrentWidget(self._widgets.inspector.export)
        self._exports.export()

    def export_by_key(self) -> None:
        """Show the Export tab; if it is in front already, export."""
        tab = self._widgets.inspector.export
        if self._services.session.document is None or self._widgets.inspector.currentWidget() is tab:
            self.export()
            return
        self._widgets.inspector.setCurrentWidget(tab)
        self._say(f"The same keys again, or Export, write to {tab.folder.text()}")

    def copy_shapes(self) -> None:
        """Copy the shapes selected in Shapes, or all, to the clipboard as a Roto node for Nuke."""
        document, chosen = self._services.session.state.document, self._widgets.inspector.shapes.chosen_names
        if document is None:
            self._say("There are no shapes yet: press Run first")
            return
        shapes = tuple(each for each in document.shapes if each.name in chosen or not chosen)
        try:
            copied = rename_shapes(replace(document, shapes=shapes), self._services.session.state.names)
            QApplication.clipboard().setText(nuke.dumps(copied, layer="RotoPaint_AI", name="RotoPaint_AI"))
        except RotopaintError as error:
            self._say(str(error), "trouble")
            return
        n = len(shapes)
        self._say(f"{n} shape{'' if n == 1 else 's'} on the clipboard: paste into Nuke's node graph", "good")

    # --- the shot's parts

    def choose_face(self, name: str) -> None:
        """Choose another face of the shot as the current face, or name the current one."""
        session, top, is_first = self._services.session, self._widgets.top, not self._services.session.state.face
        known = session.state.faces.get(name)
        if self._services.jobs.is_running:
            self._say("A job is under way; Esc stops it", "trouble")
        elif session.choose_face(name, top.chosen_pack):
            if known is not None:
                top.show_pack(known.pack)
            if is_first:
                text = f"This face is {name}, its shapes a group of that name. Another name there takes another face"
            elif known is not None:
                text = f"{name} is in hand; the other faces' shapes stay as they are"
            else:
                text = f"{name}: choose its pack, draw a box around it (C), then Run; the other faces stay as they are"
            self._say(text, "good")

    def take_next_face(self) -> None:
        """Choose the next face in alphabetical order as the current face."""
        state = self._services.session.state
        names = face_names(state)
        if len(names) < 2:
            self._say("This shot has no other face: type a name into the box Face beside the packs", "trouble")
            return
        self.choose_face(names[(names.index(state.face) + 1) % len(names)] if state.face else names[0])

    def rename(self) -> None:
        """Type another name for the selected shape."""
        shapes = self._widgets.inspector.shapes
        if self._services.session.shape is None:
            self._say("Select the shape to rename, in the viewer or in Shapes")
            return
        self._widgets.inspector.setCurrentWidget(shapes)
        shapes.begin_rename()

    def find_face(self) -> None:
        """Ask the pack where the face is on this frame; its box becomes an undo step, like a drawn one."""
        session = self._services.session
        plate, frame, asked = session.plate, session.frame, session.state

        def take(box: CropBox | None, note: str) -> None:
            if box is None:
                return  # the engine has said why
            if session.plate is not plate or session.state is not asked:
                self._say("The shot was changed meanwhile; ask again")
                return
            session.edits.push("crop box", replace(asked, crops=dict(sorted({**asked.crops, frame: box}.items()))))
            facts = ", ".join(_OF_A_FACE.findall(note))
            self._say(f"The face on {frame}{': ' + facts if facts else ''}. Drag the box where it is wrong, then Run")

        if plate is None:
            self._say("Open a plate first", "trouble")
            return
        if session.project.refuses():
            return
        self._say(f"Looking for the face on {frame}")
        self._services.live.load_pack(self._widgets.top.chosen_pack)
        self._services.live.propose_crop(frame, take)

    def save(self) -> None:
        """Save the shapes now; later changes are compared with this version."""
        session = self._services.session
        self._services.autosave.save()
        session.keep_version()
        project, shapes = session.project, session.shapes_file
        if session.plate is None:
            self._say("Open a plate first")
        elif not project.refuses() and shapes.is_saved and project.trouble is None:
            also = f", shapes in {shapes.path.name}" if session.document is not None and shapes.path else ""
            where = project.path or session.out
            self._say(f"Saved in {where}{also}", "good")

    def clear_touchup(self) -> None:
        """Delete the strokes of this frame and its hold."""
        session = self._services.session
        if session.project.refuses():
            return
        held = set(session.held_frames())
        left = {frame: row for frame, row in session.state.strokes.items() if frame not in held}
        session.edits.push("clear touch-up", replace(session.state, strokes=left))

    def copy_diagnostics(self) -> None:
        """Copy the diagnostics of this session to the clipboard, for the developers."""
        services, messages = self._services, self._widgets.status.history
        text = diagnostics_text(self._host, services.session, messages, services.jobs.worker.complaint)
        QApplication.clipboard().setText(text)
        self._say("Diagnostics are on the clipboard: paste them into your message", "good")
