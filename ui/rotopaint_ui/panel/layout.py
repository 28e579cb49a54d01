"""The layout of the panel's widgets."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QSplitter, QVBoxLayout, QWidget

from rotopaint_ui.panel.panel_widgets import PanelWidgets
from rotopaint_ui.widgets.dialogs import remove_margins

INSPECTOR_PX = 310
_VIEWER_PX = 500  # less than there is: what is left over is the viewer's


def arrange(panel: QWidget, widgets: PanelWidgets) -> None:
    """Tools at the left, viewer in the middle, inspector at the right, review and timeline below."""
    viewer = QWidget()
    column = remove_margins(QVBoxLayout(viewer))
    column.addWidget(widgets.view_bar)
    column.addWidget(widgets.canvas, 1)
    middle = QWidget()
    row = remove_margins(QHBoxLayout(middle))
    row.addWidget(widgets.tools)
    row.addWidget(viewer, 1)
    below = QWidget()
    rows = remove_margins(QVBoxLayout(below))
    rows.addWidget(widgets.review_bar)
    rows.addWidget(widgets.timeline, 1)
    _fill_splitter(widgets.columns, middle, widgets.inspector)
    widgets.columns.setSizes([_VIEWER_PX, INSPECTOR_PX])
    _fill_splitter(widgets.rows, widgets.columns, below)
    whole = remove_margins(QVBoxLayout(panel))
    for widget in (widgets.top, widgets.rows, widgets.status):
        whole.addWidget(widget, 1 if widget is widgets.rows else 0)


def _fill_splitter(splitter: QSplitter, viewer: QWidget, pane: QWidget) -> None:
    """Give the viewer all spare room; the pane beside it keeps its size."""
    splitter.addWidget(viewer)
    splitter.addWidget(pane)
    splitter.setStretchFactor(0, 1)
    splitter.setStretchFactor(1, 0)
    splitter.setHandleWidth(3)
    splitter.setChildrenCollapsible(False)
