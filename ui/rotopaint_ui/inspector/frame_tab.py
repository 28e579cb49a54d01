"""The Frame tab: facts of the shown frame, and the provenance of each key and landmark."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QBrush
from PySide6.QtWidgets import QHeaderView, QLabel, QLineEdit, QTreeWidget, QTreeWidgetItem, QVBoxLayout, QWidget

from rotopaint_ai.shapes.roto import RotoDocument, RotoShape
from rotopaint_ai.spreads import spread_way
from rotopaint_ui.drawing.ramp import doubt_colour
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.xsheet import pieces_at
from rotopaint_ui.widgets.tab_widgets import note_label, visibility_text

SOURCES = {"human": "\u25c6 by hand", "model": "\u25cf model", "propagated": "\u25a0 propagated"}
_WRITE = "Note to this frame: Return writes it"
_READ_ONLY = "The project is read only: no notes"
_EMPTY = "Open a plate to see what is known of each frame."


class FrameTab(QWidget):
    """Facts above; below them every shape and landmark with its expected error and its source: seams
    first, then the other shapes, then landmarks, the worst of each first."""

    note_written = Signal(int, str)  # the frame and its note

    def __init__(self, session: ShotSession) -> None:
        super().__init__()
        self._session = session
        self._shapes: list[tuple[QTreeWidgetItem, str]] = []
        self._empty = note_label(_EMPTY)
        self._text = QLabel()
        self._text.setTextFormat(Qt.TextFormat.RichText)
        self._text.setWordWrap(True)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.note = QLineEdit()
        self.note.setAccessibleName("Note to this frame")
        self.note.editingFinished.connect(self._send_note)
        self._noted: int | None = None  # the frame whose note is in the field
        session.leaving.append(self._send_note)
        self.table = self._make_table()
        facts = QVBoxLayout()
        facts.setContentsMargins(0, 0, 12, 0)
        for widget in (self._empty, self._text, self.note):
            facts.addWidget(widget)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 12, 0, 0)
        column.addLayout(facts)
        column.addWidget(self.table, 1)
        column.addStretch(0)  # without the table

    def refresh(self) -> None:
        """Show the session."""
        rows = self.rows()
        self._empty.setVisible(not rows)
        self._text.setVisible(bool(rows))
        cells = "".join(
            f'<tr><td style="color:#9aa1ae; padding:2px 14px 2px 0">{label}</td><td>{escape(value)}</td></tr>'
            for label, value in rows
        )
        self._text.setText(f"<table>{cells}</table>")
        self._show_note()
        self._fill_table()

    def _show_note(self) -> None:
        """Show the frame's note; a note that is being typed stays until the frame changes."""
        session = self._session
        self.note.setVisible(session.plate is not None)
        self.note.setReadOnly(session.project.is_read_only)  # nothing is typed that could not be kept
        self.note.setPlaceholderText(_READ_ONLY if session.project.is_read_only else _WRITE)
        if self._noted != session.frame:
            self._send_note()
            self._noted = session.frame
        text = session.state.notes.get(session.frame, "")
        if not self.note.isModified() and self.note.text() != text:
            self.note.setText(text)

    def _send_note(self) -> None:
        if self.note.isModified() and self._noted is not None:
            self.note.setModified(False)
            self.note_written.emit(self._noted, self.note.text())

    def rows(self) -> list[tuple[str, str]]:
        """Labels and values of the shown facts."""
        session, frame = self._session, self._session.frame
        if session.plate is None:
            return []
        rows = [("Frame", str(frame))]
        first, last = session.run.hold_of(frame)
        if last > first:
            rows.append(("Held", f"{first}-{last}: an edit changes all of it"))
        if frame in session.run.failed:
            rows.append(("Failed", session.run.failed[frame]))
        error = session.run.error_at(frame)
        if error is not None:
            lost = error == float("inf")
            rows.append(("Expected error", "face not found" if lost else f"{error:.2f} px (worst shape)"))
        before, after = session.run.seam.get(frame, (None, None))
        if before is not None and after is not None:
            rows.append(("Seam visibility", visibility_text(before, after)))
        rows += [(part.capitalize(), piece) for part, piece in pieces_at(session.xsheet, frame).items()]
        rows.append(("Review", session.state.marks.get(frame, "not reviewed")))
        rows += [
            (spread_way(spread.way).label, f"from {spread.frame} over {spread.first}-{spread.last}")
            for spread in session.state.spreads
            if spread.first <= frame <= spread.last
        ]
        return rows

    def _make_table(self) -> QTreeWidget:
        table = QTreeWidget()
        table.setHeaderLabels(["Name", "Error", "From"])
        table.headerItem().setToolTip(1, "Expected error on this frame, in pixels of the plate")
        table.headerItem().setToolTip(2, "Who made the key, or placed the landmark")
        table.setUniformRowHeights(True)
        table.setIndentation(12)
        table.setAccessibleName("Errors and sources at this frame")
        header = table.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in (1, 2):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        table.itemClicked.connect(self._select_item)
        return table

    def _fill_table(self) -> None:
        document = self._session.document
        self.table.setVisible(document is not None)
        self.table.clear()
        if document is None:
            return
        self._shapes.clear()
        for title, rows in (("Shapes", self._shape_rows(document)), ("Landmarks", self._listed_landmarks(document))):
            if rows:
                group = QTreeWidgetItem(self.table, [title])
                group.setFlags(Qt.ItemFlag.ItemIsEnabled)
                for name, error, source in rows:
                    called = self._session.names.of(name) if title == "Shapes" else name
                    item = self._add_item(group, called, error, source)
                    if title == "Shapes":
                        self._shapes.append((item, name))
        self.table.expandAll()

    def _add_item(self, group: QTreeWidgetItem, name: str, error: float | None, source: str) -> QTreeWidgetItem:
        lost = error == float("inf")
        item = QTreeWidgetItem(group, [name, "" if error is None else "lost" if lost else f"{error:.2f}", source])
        item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        plate = self._session.plate
        if error is not None and plate is not None:
            share = self._session.error_scale().share(error)
            item.setForeground(1, QBrush(doubt_colour(share).lighter(125)))
        return item

    def _shape_rows(self, document: RotoDocument) -> list[tuple[str, float | None, str]]:
        run, frame = self._session.run, self._session.frame
        followed = {name for name, frames in self._session.review.keyed_frames().items() if frame in frames}
        rows = [
            (shape.name, run.error_at(frame, shape.name), source_at(shape, frame, has_followed=shape.name in followed))
            for shape in document.shapes
        ]
        seams = {shape.name for shape in document.shapes if shape.role == "seam"}
        return sorted(rows, key=lambda row: (row[0] not in seams, -(row[1] or 0.0)))

    def _listed_landmarks(self, document: RotoDocument) -> list[tuple[str, float | None, str]]:
        frame, marks = self._session.frame, document.landmarks
        hand = marks.hand.get(frame, frozenset())
        model = self._session.state.predicted
        predicted = {} if model is None else dict(zip(model.landmarks.names, model.landmarks.keys.get(frame, ())))
        rows: list[tuple[str, float | None, str]] = []
        for name, landmark in zip(marks.names, marks.keys.get(frame, ())):
            if landmark is None:
                rows.append((name, None, "hidden"))
            else:
                source = SOURCES["human"] if name in hand else SOURCES["model"]
                if name not in hand and landmark != predicted.get(name, landmark):
                    source = "\u25c6 followed"
                rows.append((name, None if source.endswith("followed") else landmark.expected_error_px, source))
        return sorted(rows, key=lambda row: -(row[1] or 0.0))

    def _select_item(self, item: QTreeWidgetItem, column: int) -> None:
        name = next((name for row, name in self._shapes if row is item), None)
        if name is not None:
            self._session.select(name)


def source_at(shape: RotoShape, frame: int, *, has_followed: bool = False) -> str:
    """The origin of a shape at a frame: the maker of its key, or the keys that it lies between.

    `has_followed`: it followed a landmark that a person placed, or a person drew it.
    """
    key = shape.keys.get(frame)
    if key is not None and key.source == "model" and has_followed:
        return "\u25c6 followed"
    if key is not None:
        return SOURCES[key.source]
    before = max((each for each in shape.keys if each < frame), default=None)
    after = min((each for each in shape.keys if each > frame), default=None)
    if before is not None and shape.keys[before].interpolation == "hold":
        return f"held from {before}"
    if before is None or after is None:
        return "no key" if before is after else f"as at {after if before is None else before}"
    return f"{before} to {after}"
