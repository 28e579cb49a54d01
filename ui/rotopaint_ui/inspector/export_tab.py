"""The Export tab: formats with what each loses, key reduction, and the results of the self-check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from rotopaint_ai.exchange.formats import FORMATS
from rotopaint_ai.project.corrected_frames import frames_to_learn_from
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.widgets.tab_widgets import (
    footer,
    heading,
    make_scroll_area,
    make_scrolling_label,
    note_label,
    number_box,
)

REST_MS = 500  # milliseconds without edits before keys are counted again
DEFAULT_TOLERANCE_PX = 0.5
RESULT_PX = 150  # largest height of the list of export results
_EMPTY = "Nothing to export yet: open a plate, drag a box around the face, press Run."


class ExportTab(QWidget):
    """The choices of an export; the panel carries it out."""

    wanted = Signal()
    count_wanted = Signal(float)
    folder_wanted = Signal()

    def __init__(self, session: ShotSession, host_label: str | None) -> None:
        super().__init__()
        self._session = session
        self._counted: tuple[RotoDocument, float, frozenset[str] | None] | None = None
        self._folder_of: Path | None = None
        self._make_export_fields(host_label)
        self._arrange_choices()
        self._rest = QTimer(self, singleShot=True, interval=REST_MS)
        self._rest.timeout.connect(self._show_count)

    # --- what is chosen

    @property
    def tolerance_px(self) -> float:
        """The largest deviation that key reduction may cause; 0 keeps every key."""
        return self.tolerance.value() if self.reduces.isChecked() else 0.0

    @property
    def exported_names(self) -> frozenset[str] | None:
        """The shapes that are exported; None: all of them."""
        return self._session.selection.shapes if self.selected.isChecked() else None

    def part_to_export(self, document: RotoDocument) -> RotoDocument:
        """The part of a document that is exported."""
        names = self.exported_names
        kept = (shape for shape in document.shapes if names is None or shape.name in names)
        return replace(document, shapes=tuple(kept))

    @property
    def targets(self) -> list[Path]:
        """Files to be written."""
        folder = Path(self.folder.text().strip())
        return [folder / f"shapes{suffix}" for suffix, box in self.formats.items() if box.isChecked()]

    @property
    def wants_host(self) -> bool:
        """Whether the shapes are passed to the host."""
        return self.host.isChecked()

    # --- showing

    def refresh(self) -> None:
        """Show the session; count keys again when they have changed."""
        document, out = self._session.document, self._session.out
        has_document = document is not None and not self._session.runs.is_live
        self.empty.setVisible(document is None)
        for widget in (
            self.export,
            self.reduces,
            self.tolerance,
            self.selected,
            self.host,
            self.mattes,
            *self.formats.values(),
        ):
            widget.setEnabled(has_document)
        if out is not None and out != self._folder_of:
            self._folder_of = out
            self.result.setText("")
            self._counted = None
            self.folder.setText(str(out / "export"))
        self.training.setText(training_text(self._session))
        if document is None:
            self.count.setText("")
        elif has_document and self.isVisible() and self._counted != (document, self.tolerance_px, self.exported_names):
            self._rest.start()

    def show_count(self, facts: Mapping[str, Any]) -> None:
        """Show the result of reducing keys."""
        if "error" in facts:
            self.count.setText(str(facts["error"]))
            return
        self.count.setText(count_text(facts))
        rows = facts["shapes"].items()
        self.count.setToolTip("\n".join(f"{name}: {a} \u2192 {b}, {off:.2f} px" for name, (a, b, off) in rows))

    def show_running(self) -> None:
        """Show that an export is in progress."""
        self.export.setEnabled(False)
        self.result.setText("Writing, and reading back")

    def show_result(self, facts: Mapping[str, Any], host_line: str = "") -> None:
        """Show the written files, and the results of the self-check."""
        self.export.setEnabled(True)
        lines = [str(facts["error"])] if "error" in facts else [file_text(each) for each in facts.get("files", ())]
        self.result.setText("\n\n".join(line for line in (host_line, *lines) if line))

    def _show_count(self) -> None:
        document = self._session.state.document
        if document is None:
            return
        self._counted = (document, self.tolerance_px, self.exported_names)
        if self.tolerance_px:
            self.count.setText("Counting keys")
            self.count_wanted.emit(self.tolerance_px)
        else:
            n_keys = sum(len(shape.keys) for shape in self.part_to_export(document).shapes)
            self.count.setText(f"{n_keys:,} keys, all kept")

    # --- building

    def _make_export_fields(self, host_label: str | None) -> None:
        self.empty = note_label(_EMPTY)
        self.reduces = QCheckBox("Fewer keys")
        self.reduces.setToolTip("Keys that people made are never dropped or moved; holds stay held")
        self.reduces.setChecked(True)
        self.tolerance = number_box(0.01, 20.0, " px", "Largest distance of any curve from where it is now", 0.1)
        self.tolerance.setValue(DEFAULT_TOLERANCE_PX)
        self.selected = QCheckBox("Selected shapes only")
        self.selected.setToolTip("In Nuke they take the place of what was exported before")
        self.count = note_label()
        self.count.setObjectName("figure")
        self.host = QCheckBox(host_label or "")
        self.host.setChecked(host_label is not None)
        self.host.setVisible(host_label is not None)
        written = [each for each in FORMATS if each.write is not None]
        self.formats = {each.suffixes[0]: QCheckBox(f"{each.name}  ({each.suffixes[0]})") for each in written}
        self._abouts = {each.suffixes[0]: each.about for each in written}
        self.formats[".nk"].setChecked(host_label is None)
        self.mattes = QCheckBox("Mattes (EXR)")
        self.mattes.setToolTip("A file per shape, and one with a named layer for each (rotopaint matte)")
        self.folder = QLineEdit()
        self.folder.setToolTip("Folder that files are written to")
        self.browse = QToolButton()
        self.browse.setText("\u2026")
        self.browse.setToolTip("Choose the folder")
        self.export = QPushButton("Export")
        self.export.setObjectName("strong")
        self.training = note_label()
        self.result = note_label()
        self.result.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.reduces.toggled.connect(self.tolerance.setEnabled)
        for box in (self.reduces, self.selected):
            box.toggled.connect(lambda on: self._rest.start())
        self.tolerance.valueChanged.connect(lambda value: self._rest.start())
        self.export.clicked.connect(self.wanted)
        self.browse.clicked.connect(self.folder_wanted)

    def _arrange_choices(self) -> None:
        """Lay out the choices, which scroll, above the number of keys, Export and its result, which stay visible."""
        choices = QVBoxLayout()
        choices.setSpacing(7)
        keys = QHBoxLayout()
        keys.addWidget(self.reduces)
        keys.addWidget(self.tolerance, 1)
        choices.addWidget(heading("Keys"))
        choices.addLayout(keys)
        choices.addWidget(self.selected)
        choices.addWidget(heading("Where to"))
        if self.host.text():
            choices.addWidget(self.host)
        for suffix, box in self.formats.items():
            choices.addWidget(box)
            about = note_label(self._abouts[suffix])
            about.setContentsMargins(22, 0, 0, 2)
            choices.addWidget(about)
        choices.addWidget(self.mattes)
        folder = QHBoxLayout()
        folder.addWidget(QLabel("Folder"))
        folder.addWidget(self.folder, 1)
        folder.addWidget(self.browse)
        choices.addLayout(folder)
        choices.addWidget(heading("Training"))
        choices.addWidget(self.training)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(make_scroll_area(self.empty, choices), 1)
        column.addWidget(footer(self.count, self.export, make_scrolling_label(self.result, RESULT_PX)))


def training_text(session: ShotSession) -> str:
    """Which frames training can use, and how it gets them."""
    path, frames = session.project.path, frames_to_learn_from(session.state)
    if path is None or not frames:
        return "Frames that you correct or accept wait in the project for training."
    return f"{len(frames)} corrected or accepted frames wait in the project: rotopaint mine {path.name}"


def count_text(facts: Mapping[str, Any]) -> str:
    """`240 \u2192 31 keys, at most 0.46 px off`."""
    return f"{facts['before']:,} \u2192 {facts['after']:,} keys, at most {facts['worst_px']:.2f} px off"


def file_text(row: Mapping[str, Any]) -> str:
    """The result of one written file: its path, the result of reading it back, and its losses."""
    path = Path(row["path"])
    if "error" in row:
        return f"\u2717 {row['error']}"
    losses = "".join(f"\n   {loss}" for loss in row["losses"])
    return f"\u2713 {path}\n   read back, at most {row['error_px']:.4f} px off{losses}"
