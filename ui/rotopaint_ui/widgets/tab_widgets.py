"""Small widgets that the tabs share."""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPaintEvent, QPalette, QPixmap, QShowEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QComboBox,
    QDoubleSpinBox,
    QFormLayout,
    QFrame,
    QLabel,
    QLayout,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from rotopaint_ui.widgets.focus import is_typed

B = TypeVar("B", bound=QAbstractSpinBox)
PLAIN_SKIN = 0.9  # seam visibility on plain skin without a seam
_SIDE, _SCALE = 18, 3
_FIELD, _LABEL = QFormLayout.ItemRole.FieldRole, QFormLayout.ItemRole.LabelRole


def number_box(low: float, high: float, unit: str, about: str, step: float = 0.5) -> QDoubleSpinBox:
    """A box for a number, which reports only finished changes."""
    box = QDoubleSpinBox()
    box.setRange(low, high)
    box.setDecimals(0 if unit == " %" else 2)
    box.setSuffix(unit)
    box.setSingleStep(step)
    box.setKeyboardTracking(False)
    box.setToolTip(about)
    return padded_box(box)


def padded_box(box: B) -> B:
    """A number box with a margin around its text, which style sheets cannot set."""
    box.lineEdit().setTextMargins(5, 0, 5, 0)
    return box


MIXED = "mixed"


def put_widget(box: QDoubleSpinBox, *values: float) -> None:
    """Show a value (`mixed` where there are several) without a change signal, unless the artist is typing one.

    A box that shows `mixed` is set one step below its range, so that every typed number is a change.
    """
    if is_typed(box):
        return
    low = box.property("low")
    if low is None:
        low = box.minimum()
        box.setProperty("low", low)
    is_mixed = len(set(values)) > 1
    box.blockSignals(True)
    box.setMinimum(low - box.singleStep() if is_mixed else low)
    box.setSpecialValueText(MIXED if is_mixed else "")
    box.setValue(box.minimum() if is_mixed else values[0])
    box.blockSignals(False)


def note_label(text: str = "") -> QLabel:
    """A label for explanatory text."""
    label = QLabel(text)
    label.setObjectName("note")
    label.setWordWrap(True)
    label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
    return label


def visibility_text(before: float, after: float) -> str:
    """The visibility of a seam in the plate and in the clean plate; plain skin has 0.9 (`seams.visibility`)."""
    return f"{before:.1f} \u2192 {after:.1f} (plain skin {PLAIN_SKIN})"


def heading(text: str) -> QLabel:
    """A heading for a group of fields."""
    label = QLabel(text)
    label.setObjectName("heading")
    return label


def make_scroll_area(hint: QWidget, fields: QLayout) -> QScrollArea:
    """Fields under a hint, in an area that scrolls vertically, also with the mouse over a field."""
    inside = QWidget()
    column = QVBoxLayout(inside)
    column.setContentsMargins(12, 12, 12, 12)
    column.addWidget(hint)
    column.addLayout(fields)
    column.addStretch(1)
    area = QScrollArea()
    area.setWidget(inside)
    area.setWidgetResizable(True)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    leave_wheel(area, *inside.findChildren(QAbstractSpinBox), *inside.findChildren(QComboBox))
    return area


def leave_wheel(owner: QWidget, *fields: QWidget) -> None:
    """Let the wheel change a field only while the field has the focus; the wheel itself does not give it."""
    wheel = _Wheel(owner)
    for field in fields:
        field.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # not by the wheel
        field.installEventFilter(wheel)


class _Wheel(QObject):
    """Ignores the wheel over a field without the focus, so that scrolling changes no value."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Pass the wheel on to the scroll area."""
        is_passing = event.type() == QEvent.Type.Wheel and isinstance(watched, QWidget) and not watched.hasFocus()
        if is_passing:
            event.ignore()
        return is_passing


def make_scrolling_label(label: QLabel, most_px: int) -> QScrollArea:
    """A text of any length with a limited height; longer text scrolls."""
    area = _ScrollingText(label, most_px)
    area.setWidget(label)
    area.setWidgetResizable(True)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    label.setAlignment(Qt.AlignmentFlag.AlignTop)
    return area


class _ScrollingText(QScrollArea):
    """A label as high as its text, up to a limit."""

    def __init__(self, label: QLabel, most_px: int) -> None:
        super().__init__()
        self._label, self._most_px = label, most_px
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        label.installEventFilter(self)

    def sizeHint(self) -> QSize:
        """The text's height at this width."""
        wanted = self._label.heightForWidth(max(self.viewport().width(), 1)) if self._label.text() else 0
        return QSize(200, min(max(wanted, 0), self._most_px))

    def minimumSizeHint(self) -> QSize:
        """The height of the text; no minimum width."""
        return QSize(0, self.sizeHint().height())

    def showEvent(self, event: QShowEvent) -> None:
        """Adjust the height to a text that was set, and wrapped, while the area was hidden."""
        super().showEvent(event)
        self.updateGeometry()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Adjust the height when text or width changes."""
        if event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Resize):
            self.updateGeometry()
        return False


class ElidedLabel(QLabel):
    """A line of text that is elided where it does not fit; its tooltip then has the full text."""

    def minimumSizeHint(self) -> QSize:
        """A small minimum width, so that neighbours get the room."""
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """As much as there is room for; all of it as any label, whose text can be selected."""
        if self.fontMetrics().horizontalAdvance(self.text()) <= self.contentsRect().width():
            super().paintEvent(event)
            return
        painter = QPainter(self)
        painter.setPen(self.palette().color(QPalette.ColorRole.WindowText))
        shown = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, self.width())
        painter.drawText(self.rect(), int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft), shown)


def level(form: QFormLayout) -> None:
    """Centre the labels of a form on their fields, in any style."""
    for row in range(form.rowCount()):
        field, label = (form.itemAt(row, role) for role in (_FIELD, _LABEL))
        text = None if label is None else label.widget()
        if field is not None and text is not None:
            text.setMinimumHeight(field.sizeHint().height())


def footer(*widgets: QWidget) -> QFrame:
    """A row of widgets that stays visible below scrolling fields."""
    frame = QFrame()
    frame.setObjectName("footer")
    column = QVBoxLayout(frame)
    column.setContentsMargins(12, 8, 12, 10)
    column.setSpacing(6)
    for widget in widgets:
        column.addWidget(widget)
    return frame


def swatch(colour: QColor, *, closed: bool) -> QIcon:
    """An icon in the shape's colour: a disc for a closed shape, a bar for an open one."""
    pixmap = QPixmap(_SIDE * _SCALE, _SIDE * _SCALE)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(_SCALE, _SCALE)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    if closed:
        painter.drawEllipse(4, 4, 10, 10)
    else:
        painter.drawRoundedRect(2, 7, 14, 4, 2, 2)
    painter.end()
    return QIcon(pixmap)
