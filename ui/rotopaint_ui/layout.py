"""How the panel's widgets lie, what it looks like, and the file dialogs that it may show. None of them is modal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QSplitter, QVBoxLayout, QWidget

from rotopaint_ui.bars import ToolStrip, TopBar, ViewBar
from rotopaint_ui.canvas import Canvas
from rotopaint_ui.inspector import Inspector
from rotopaint_ui.review_bar import ReviewBar
from rotopaint_ui.status import StatusLine
from rotopaint_ui.timeline import Timeline


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
    column = tight(QVBoxLayout(viewer))
    column.addWidget(view_bar)
    column.addWidget(canvas, 1)
    middle = QWidget()
    row = tight(QHBoxLayout(middle))
    row.addWidget(tools)
    row.addWidget(viewer, 1)
    split = QSplitter(Qt.Orientation.Horizontal)
    split.addWidget(middle)
    split.addWidget(inspector)
    split.setStretchFactor(0, 1)
    split.setSizes([1000, 310])
    split.setHandleWidth(3)
    split.setChildrenCollapsible(False)
    whole = tight(QVBoxLayout(panel))
    for widget in (top, split, review_bar, timeline, status):
        whole.addWidget(widget, 1 if widget is split else 0)


def tool_groups(actions: Mapping[str, QAction], tools: tuple[str, ...]) -> list[list[QAction]]:
    """What stands in the tool strip: the viewer's tools, then what compares and fits."""
    taken = [action for name, action in actions.items() if name.startswith("tool.") and name[5:] in tools]
    names = (("wipe", "flip", "preview_seam"), ("canvas.fit_face", "canvas.fit"))
    return [taken, *([actions[name] for name in group] for group in names)]


def style() -> str:
    """The style sheet."""
    folder = Path(__file__).resolve().parent / "resources"
    return (folder / "panel.qss").read_text(encoding="utf-8").replace("RESOURCES", folder.as_posix())


def ask_for_file(parent: QWidget, title: str, then: Callable[[str], None], filter: str = "") -> QFileDialog:
    """Ask for a file; the panel goes on meanwhile."""
    return _ask(parent, title, then, QFileDialog.FileMode.ExistingFile, filter)


def ask_for_folder(parent: QWidget, title: str, then: Callable[[str], None]) -> QFileDialog:
    """Ask for a folder; the panel goes on meanwhile."""
    return _ask(parent, title, then, QFileDialog.FileMode.Directory, "")


def ask_where(parent: QWidget, title: str, then: Callable[[str], None], filter: str) -> QFileDialog:
    """Ask where a file should be written; the panel goes on meanwhile."""
    dialog = _ask(parent, title, then, QFileDialog.FileMode.AnyFile, filter)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    return dialog


def tight(layout: Any) -> Any:
    """A layout without air of its own."""
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(0)
    return layout


def _ask(
    parent: QWidget, title: str, then: Callable[[str], None], mode: QFileDialog.FileMode, filter: str
) -> QFileDialog:
    dialog = QFileDialog(parent, title)
    dialog.setFileMode(mode)
    if filter:
        dialog.setNameFilter(filter)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setModal(False)
    dialog.fileSelected.connect(then)
    dialog.show()
    return dialog
