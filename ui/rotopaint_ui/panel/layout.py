"""How the panel's widgets lie."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QSplitter, QVBoxLayout, QWidget

from rotopaint_ui.panel.panel_widgets import PanelWidgets
from rotopaint_ui.widgets.dialogs import tight

INSPECTOR_PX = 310


def arrange(panel: QWidget, widgets: PanelWidgets) -> None:
    """Tools at the left, viewer in the middle, inspector at the right, review and timeline below."""
    viewer = QWidget()
    column = tight(QVBoxLayout(viewer))
    column.addWidget(widgets.view_bar)
    column.addWidget(widgets.canvas, 1)
    middle = QWidget()
    row = tight(QHBoxLayout(middle))
    row.addWidget(widgets.tools)
    row.addWidget(viewer, 1)
    split = QSplitter(Qt.Orientation.Horizontal)
    split.addWidget(middle)
    split.addWidget(widgets.inspector)
    split.setStretchFactor(0, 1)
    split.setSizes([1000, INSPECTOR_PX])
    split.setHandleWidth(3)
    split.setChildrenCollapsible(False)
    below = QWidget()
    rows = tight(QVBoxLayout(below))
    rows.addWidget(widgets.review_bar)
    rows.addWidget(widgets.timeline, 1)
    sides = QSplitter(Qt.Orientation.Vertical)
    sides.addWidget(split)
    sides.addWidget(below)
    sides.setStretchFactor(0, 1)
    sides.setStretchFactor(1, 0)
    sides.setHandleWidth(3)
    sides.setChildrenCollapsible(False)
    whole = tight(QVBoxLayout(panel))
    for widget in (widgets.top, sides, widgets.status):
        whole.addWidget(widget, 1 if widget is sides else 0)
