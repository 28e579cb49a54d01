"""The row between viewer and timeline: frame and playback, where N goes, review marks, Spread and Refit shot."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QComboBox, QFrame, QHBoxLayout, QSizePolicy, QSpinBox, QToolButton

from rotopaint_ai.spreads import RANGE, SPREADS
from rotopaint_ui.panel.toolbars import button_of
from rotopaint_ui.services.review_loop import Visits
from rotopaint_ui.session.shot_files import PlateFacts
from rotopaint_ui.session.spread_reach import SpreadReach
from rotopaint_ui.widgets.tab_widgets import ElidedLabel, leave_wheel, padded_box

_CARRYING = (*(way.name for way in SPREADS), "teach", "learn_shot")
_LABELLED = ("accept", "needs_work", *_CARRYING)


class ReviewBar(QFrame):
    """Buttons of commands, a box for the frame number and a filter."""

    frame_wanted = Signal(int)
    visits_changed = Signal(str)

    def __init__(self, actions: Mapping[str, QAction]) -> None:
        super().__init__()
        self.setObjectName("review_bar")
        self.frame = padded_box(QSpinBox())
        self.frame.setKeyboardTracking(False)
        self.frame.setRange(0, 0)
        self.frame.setMinimumWidth(76)
        self.frame.setToolTip("Frame: type a number and press Return")
        self.frame.setAccessibleName("Frame")
        self.visits = QComboBox()
        self.visits.addItems([each.value for each in Visits])
        self.visits.setToolTip("Which frames N goes to")
        self.visits.setAccessibleName("Frames that N goes to")
        self.reason = ElidedLabel()
        self.reason.setObjectName("note")
        self.summary = ElidedLabel()  # gives way first: marks must not hide why N came here, or widen the window
        self.summary.setObjectName("note")
        self.summary.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        leave_wheel(self, self.frame, self.visits)
        self.buttons: dict[str, QToolButton] = {}
        row = QHBoxLayout(self)
        row.setContentsMargins(10, 3, 10, 3)
        row.setSpacing(4)
        row.addWidget(self.frame)
        self._add_buttons(row, actions, "first", "previous", "play", "next", "last")
        row.addSpacing(8)
        self._add_buttons(row, actions, "worst_back", "worst")
        row.addWidget(self.visits)
        row.addSpacing(8)
        self._add_buttons(row, actions, "accept", "needs_work", "reject")
        row.addSpacing(4)
        row.addWidget(self.reason)
        row.addSpacing(8)
        row.addWidget(self.summary, 1)
        self._add_buttons(row, actions, *_CARRYING)
        self._fit_labels()
        self.frame.valueChanged.connect(self.frame_wanted)
        self.visits.currentTextChanged.connect(self.visits_changed)

    def show_frame(self, plate: PlateFacts | None, frame: int) -> None:
        """Show the number of the current frame."""
        self.frame.setEnabled(plate is not None)
        self.frame.blockSignals(True)
        if plate is not None:
            self.frame.setRange(plate.first, plate.last)
        if not self.frame.hasFocus() or self.frame.value() != frame:
            self.frame.setValue(frame)
        self.frame.blockSignals(False)

    def show_reason(self, text: str) -> None:
        """Show the reason why this frame needs review."""
        self.reason.setText(text)
        about = "Why this frame wants to be looked at: the worst shape that nobody has keyed here"
        self.reason.setToolTip(f"{text}\n{about}" if text else about)
        self._fit_labels()

    def show_summary(self, text: str) -> None:
        """Show how much of the shot is reviewed."""
        self.summary.setText(text)
        self.summary.setToolTip(text)

    def show_reach(self, reach: SpreadReach | None) -> None:
        """Show the effect of the buttons that need a range."""
        for way in SPREADS:
            if way.needs == "range":
                button = self.buttons[way.name]
                button.defaultAction().setEnabled(reach is not None)
                span = "" if reach is None or way.name != RANGE else f" {reach.first}\u2013{reach.last}"
                button.setText(way.label + span)
        self._fit_labels()

    def show_offer(self, name: str, is_offered: bool) -> None:
        """Highlight the button of the suggested command."""
        button = self.buttons[name]
        if bool(button.property("offered")) != is_offered:
            button.setProperty("offered", is_offered)
            button.style().unpolish(button)
            button.style().polish(button)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Hide the buttons' labels where they do not fit."""
        super().resizeEvent(event)
        self._fit_labels()

    def _fit_labels(self) -> None:
        """Show the labels where they and the whole reason fit, else icons only; icons set the least width."""
        self._style_labels(Qt.ToolButtonStyle.ToolButtonIconOnly)
        self.setMinimumWidth(self._wanted_width())
        self._style_labels(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        if self._wanted_width() + self.reason.sizeHint().width() > self.width():
            self._style_labels(Qt.ToolButtonStyle.ToolButtonIconOnly)

    def _style_labels(self, style: Qt.ToolButtonStyle) -> None:
        for name in _LABELLED:
            self.buttons[name].setToolButtonStyle(style)

    def _wanted_width(self) -> int:
        """Return the width of the row in pixels with every button as it is styled, reason and summary empty."""
        widgets = (self.frame, self.visits, *self.buttons.values())
        gaps = (len(widgets) + 1) * 4 + 4 * 8
        return sum(max(each.sizeHint().width(), each.minimumWidth()) for each in widgets) + gaps + 20

    def _add_buttons(self, row: QHBoxLayout, actions: Mapping[str, QAction], *names: str) -> None:
        for name in names:
            button = button_of(actions[name], 18)
            if name in _LABELLED:
                button.setIconSize(QSize(16, 16))
            self.buttons[name] = button
            row.addWidget(button)
