"""How the panel's widgets lie."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QSplitter, QVBoxLayout, QWidget

from rotopaint_ui.inspector.inspector import Inspector
from rotopaint_ui.panel.review_bar import ReviewBar
from rotopaint_ui.panel.status_line import StatusLine
from rotopaint_ui.panel.toolbars import ToolStrip, TopBar, ViewBar
from rotopaint_ui.timeline.timeline import Timeline
from rotopaint_ui.viewer.canvas import Canvas
from rotopaint_ui.widgets import dialogs


def arrange(
    panel: QWidget,
    *,
    top: TopBar,
    tools: ToolStrip,
    view_bar: ViewBar,
    canvas: Canvas,
    inspector: Inspector,
    review_bar: ReviewBar,
    timeline: Timeline,
    status: StatusLine,
) -> None:
    """Tools at the left, viewer in the middle, inspector at the right, review and timeline below."""
    viewer = QWidget()
    column = dialogs.tight(QVBoxLayout(viewer))
    column.addWidget(view_bar)
    column.addWidget(canvas, 1)
    middle = QWidget()
    row = dialogs.tight(QHBoxLayout(middle))
    row.addWidget(tools)
    row.addWidget(viewer, 1)
    split = QSplitter(Qt.Orientation.Horizontal)
    split.addWidget(middle)
    split.addWidget(inspector)
    split.setStretchFactor(0, 1)
    split.setSizes([1000, 310])
    split.setHandleWidth(3)
    split.setChildrenCollapsible(False)
    whole = dialogs.tight(QVBoxLayout(panel))
    for widget in (top, split, review_bar, timeline, status):
        whole.addWidget(widget, 1 if widget is split else 0)


def tool_groups(actions: Mapping[str, QAction], tools: tuple[str, ...]) -> list[list[QAction]]:
    """What stands in the tool strip: the viewer's tools, then what compares and fits."""
    taken = [action for name, action in actions.items() if name.startswith("tool.") and name[5:] in tools]
    names = (("wipe", "flip", "preview_seam"), ("canvas.fit_face", "canvas.fit"))
    return [taken, *([actions[name] for name in group] for group in names)]
