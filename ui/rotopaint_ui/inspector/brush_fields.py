"""The fields of the touch-up brush in the Seam tab."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from PySide6.QtWidgets import QComboBox, QFormLayout, QWidget

from rotopaint_ai.seams.strokes import MOST_RADIUS_PX
from rotopaint_ui.session.brush import LABELS, LEAST_PX
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.widgets.tab_widgets import heading, number_box, put_widget


class BrushFields:
    """The settings of the brush; existing strokes do not change."""

    def __init__(self, session: ShotSession) -> None:
        self._session = session
        self.paints = QComboBox()
        for name, label in LABELS.items():
            self.paints.addItem(label, name)
        self.paints.setToolTip(
            "Clone: Ctrl+click says where to copy from, here or on another frame; Ctrl+Shift+click the same place"
        )
        self.size = number_box(LEAST_PX, MOST_RADIUS_PX, " px", "Radius; Shift+drag in the viewer, [ and ]", 1)
        self.hardness = number_box(0, 100, " %", "Share of the radius inside which paint is whole", 10)
        self.opacity = number_box(0, 100, " %", "How much of the paint shows", 10)
        self.paints.activated.connect(lambda index: self._set(paints=self.paints.itemData(index)))
        self.size.valueChanged.connect(lambda value: self._set(radius_px=value))
        self.hardness.valueChanged.connect(lambda value: self._set(hardness=value / 100))
        self.opacity.valueChanged.connect(lambda value: self._set(opacity=value / 100))

    def add_to(self, form: QFormLayout) -> None:
        """Add the fields to a form."""
        form.addRow(heading("Touch-up"))
        rows: tuple[tuple[str, QWidget], ...] = (("&Brush", self.paints), ("Si&ze", self.size))
        for label, widget in (*rows, ("&Hardness", self.hardness), ("&Opacity", self.opacity)):
            form.addRow(label, widget)

    def refresh(self) -> None:
        """Show the brush's present settings."""
        brush = self._session.brush
        self.paints.setCurrentIndex(self.paints.findData(brush.paints))
        put_widget(self.size, round(brush.radius_px, 2))
        put_widget(self.hardness, round(brush.hardness * 100))
        put_widget(self.opacity, round(brush.opacity * 100))

    def _set(self, **values: Any) -> None:
        self._session.brush = replace(self._session.brush, **values)
        self._session.notify()
