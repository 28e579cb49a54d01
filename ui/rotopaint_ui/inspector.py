"""What stands at the right: the shapes, what is known of this frame, and the selected shape's seam."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QBrush, QColor, QIcon, QPainter, QPixmap
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDoubleSpinBox,
    QFormLayout,
    QHeaderView,
    QLabel,
    QTabWidget,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from rotopaint_ai.shapes import edit
from rotopaint_ai.shapes.roto import RotoShape
from rotopaint_ui import edits
from rotopaint_ui.render import DEFAULT_WIDTH_PX, colours_of
from rotopaint_ui.session import Session
from rotopaint_ui.timeline import BAD_SHARE, ramp

_NAME, _ERROR, _KEYS = range(3)
_SOURCES = {"human": "by hand", "model": "model", "propagated": "propagated"}


class Inspector(QTabWidget):
    """Tabs over one session."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.shapes = ShapesTab(session)
        self.frame = FrameTab(session)
        self.seam = SeamTab(session)
        self.addTab(self.shapes, "Shapes")
        self.addTab(self.frame, "Frame")
        self.addTab(self.seam, "Seam")
        self.setDocumentMode(True)
        self.setMinimumWidth(240)

    def refresh(self) -> None:
        """Show the session as it is now."""
        for tab in (self.shapes, self.frame, self.seam):
            tab.refresh()


class ShapesTab(QTreeWidget):
    """Every shape with its colour, an eye (the check box), the error expected at this frame and its number of keys."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._shown: object = None
        self.setHeaderLabels(["Shape", "Error px", "Keys"])
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        header = self.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(_NAME, QHeaderView.ResizeMode.Stretch)
        for column in (_ERROR, _KEYS):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        self.itemChanged.connect(self._eye)
        self.itemClicked.connect(self._pick)

    def refresh(self) -> None:
        """Show the session as it is now; rows are kept while the shapes are the same ones."""
        session = self._session
        shapes = session.document.shapes if session.document is not None else ()
        names = tuple((shape.name, shape.role) for shape in shapes)
        self.blockSignals(True)
        if names != self._shown:
            self._shown = names
            self._fill(shapes)
        for row, shape in enumerate(shapes):
            self._show(self.topLevelItem(row), shape)
        self.blockSignals(False)

    def _fill(self, shapes: tuple[RotoShape, ...]) -> None:
        self.clear()
        colours = colours_of(self._session.document) if self._session.document is not None else {}
        for shape in shapes:
            item = QTreeWidgetItem([shape.name, "", ""])
            item.setIcon(_NAME, _swatch(colours[shape.name], shape.closed))
            kind = "closed" if shape.closed else "open"
            item.setToolTip(_NAME, f"{shape.role}, {kind}, {shape.n_points} points. The box shows or hides it here.")
            for column in (_ERROR, _KEYS):
                item.setTextAlignment(column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            self.addTopLevelItem(item)

    def _show(self, item: QTreeWidgetItem | None, shape: RotoShape) -> None:
        if item is None:
            return
        session = self._session
        shown = shape.name not in session.hidden
        item.setCheckState(_NAME, Qt.CheckState.Checked if shown else Qt.CheckState.Unchecked)
        error = session.run.error_at(session.frame, shape.name)
        lost = error == float("inf")
        item.setText(_ERROR, "" if error is None else "lost" if lost else f"{error:.2f}")
        if error is not None and session.plate is not None:
            share = 1.0 if lost else min(error / (BAD_SHARE * session.plate.width), 1.0)
            item.setForeground(_ERROR, QBrush(ramp(share).lighter(125)))
        n_human = len(edits.human_keys(shape))
        item.setText(_KEYS, f"{len(shape.keys)}  \u25c6{n_human}" if n_human else str(len(shape.keys)))
        item.setSelected(shape.name == session.selection.shape)

    def _eye(self, item: QTreeWidgetItem, column: int) -> None:
        if column == _NAME:
            self._session.show(item.text(_NAME), item.checkState(_NAME) == Qt.CheckState.Checked)

    def _pick(self, item: QTreeWidgetItem, column: int) -> None:
        self._session.select(item.text(_NAME))


class FrameTab(QWidget):
    """What the last run and the keys say of the frame that is shown."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._text = QLabel()
        self._text.setTextFormat(Qt.TextFormat.RichText)
        self._text.setWordWrap(True)
        self._text.setAlignment(Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 12, 12, 12)
        column.addWidget(self._text, 1)

    def refresh(self) -> None:
        """Show the session as it is now."""
        rows = "".join(
            f'<tr><td style="color:#8a919e; padding:2px 14px 2px 0">{label}</td><td>{value}</td></tr>'
            for label, value in self.rows()
        )
        self._text.setText(f"<table>{rows}</table>")

    def rows(self) -> list[tuple[str, str]]:
        """Labels and values, as shown."""
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
            rows.append(
                ("Expected error", "face not found" if error == float("inf") else f"{error:.2f} px (worst shape)")
            )
        before, after = session.run.seam.get(frame, (None, None))
        if before is not None and after is not None:
            rows.append(("Seam visibility", f"{before:.2f} in the plate, {after:.2f} in the clean plate"))
        if session.shape is not None:
            key = session.shape.keys.get(frame)
            rows.append((session.shape.name, "between keys" if key is None else f"key: {_SOURCES[key.source]}"))
        return rows


class SeamTab(QWidget):
    """Width, feather and tapered ends of the selected shape; each change is one undo step."""

    edited = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._hint = QLabel()
        self._hint.setObjectName("note")
        self._hint.setWordWrap(True)
        self.width_px = _number(0.0, 500.0, " px")
        self.feather_px = _number(0.0, 200.0, " px")
        self.taper_start = _number(0.0, 100.0, " %")
        self.taper_end = _number(0.0, 100.0, " %")
        form = QFormLayout(self)
        form.setContentsMargins(12, 12, 12, 12)
        form.setVerticalSpacing(8)
        form.addRow(self._hint)
        form.addRow("Width", self.width_px)
        form.addRow("Feather", self.feather_px)
        form.addRow("Taper at start", self.taper_start)
        form.addRow("Taper at end", self.taper_end)
        for box in (self.width_px, self.feather_px, self.taper_start, self.taper_end):
            box.editingFinished.connect(self._edit)

    def refresh(self) -> None:
        """Show the selected shape."""
        shape = self._session.shape
        is_open = shape is not None and not shape.closed
        self._hint.setText("Select a shape" if shape is None else shape.name)
        self.feather_px.setEnabled(shape is not None)
        for box in (self.width_px, self.taper_start, self.taper_end):
            box.setEnabled(is_open)
        if shape is not None:
            _set(self.width_px, DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px)
            _set(self.feather_px, shape.feather_px)
            _set(self.taper_start, shape.taper[0] * 100)
            _set(self.taper_end, shape.taper[1] * 100)

    def _edit(self) -> None:
        session, shape, state = self._session, self._session.shape, self._session.state
        if shape is None or state.document is None or session.is_live:
            return
        old = DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px
        width = self.width_px.value()
        is_new_width = not shape.closed and round(old, 2) != width
        taper = (self.taper_start.value() / 100, self.taper_end.value() / 100)
        same_taper = all(abs(a - b) < 5e-5 for a, b in zip(taper, shape.taper))
        same_feather = round(shape.feather_px, 2) == self.feather_px.value()
        document = edit.set_seam(
            state.document,
            shape.name,
            width_px=width if is_new_width else None,
            feather_px=None if same_feather else self.feather_px.value(),
            taper=None if same_taper or shape.closed else taper,
        )
        session.act("seam", replace(state, document=document))


def _number(low: float, high: float, unit: str) -> QDoubleSpinBox:
    box = QDoubleSpinBox()
    box.setRange(low, high)
    box.setDecimals(2)
    box.setSuffix(unit)
    box.setSingleStep(0.5)
    box.setKeyboardTracking(False)
    return box


def _set(box: QDoubleSpinBox, value: float) -> None:
    if not box.hasFocus():
        box.setValue(value)


def _swatch(colour: QColor, closed: bool) -> QIcon:
    """A round patch of the shape's colour for a closed one, a bar for an open one."""
    pixmap = QPixmap(36, 36)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    if closed:
        painter.drawEllipse(8, 8, 20, 20)
    else:
        painter.drawRoundedRect(4, 14, 28, 8, 4, 4)
    painter.end()
    return QIcon(pixmap)
