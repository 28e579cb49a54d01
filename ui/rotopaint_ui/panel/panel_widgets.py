"""The widgets of a panel, made once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QSplitter

from rotopaint_ui.engine.frame_cache import FrameCache
from rotopaint_ui.host import Host
from rotopaint_ui.inspector.inspector import Inspector
from rotopaint_ui.panel.review_bar import ReviewBar
from rotopaint_ui.panel.status_line import StatusLine
from rotopaint_ui.panel.toolbars import ToolStrip, TopBar, ViewBar
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.timeline.timeline import Timeline
from rotopaint_ui.viewer.canvas import Canvas

_OF_SHAPES = ("duplicate_shape", "group", "ungroup", "hold_out", "delete_shape")
_COMPARING = (("wipe", "flip", "preview_seam"), ("canvas.fit_face", "canvas.fit"))


@dataclass(frozen=True, slots=True)
class PanelWidgets:
    """What a panel shows, from top to bottom; `actions` are its commands by name.

    `columns` holds the viewer beside the inspector, `rows` both above the timeline.
    """

    actions: Mapping[str, QAction]
    top: TopBar
    tools: ToolStrip
    view_bar: ViewBar
    canvas: Canvas
    inspector: Inspector
    review_bar: ReviewBar
    timeline: Timeline
    status: StatusLine
    columns: QSplitter
    rows: QSplitter


def make_widgets(
    session: ShotSession, frame_cache: FrameCache, actions: Mapping[str, QAction], host: Host, *, is_app: bool
) -> PanelWidgets:
    """The widgets, not yet laid out; `is_app`: the panel runs as a program of its own."""
    canvas = Canvas(session, frame_cache)
    canvas.commands = actions
    overlays = [actions[name] for name in actions if name.startswith("overlay.")]
    inspector = Inspector(session, None if is_app else host.export_label)
    inspector.seam.set_actions(actions["preview_seam"])
    of_shapes = ("track", "take_off_rig", *(f"edit.{name}" for name in _OF_SHAPES))
    inspector.shapes.shape_actions = [actions[name] for name in of_shapes]
    actions["overlays"].setChecked(True)
    for name in (each for each in actions if each.startswith("pane.")):
        actions[name].setChecked(True)
    for each in fields(canvas.overlay):
        if f"overlay.{each.name}" in actions:
            actions[f"overlay.{each.name}"].setChecked(getattr(canvas.overlay, each.name))
    return PanelWidgets(
        actions=actions,
        top=TopBar("Open" if is_app else f"Open from {host.name}", "Export", [actions["undo"], actions["redo"]]),
        tools=ToolStrip(_tool_groups(actions, canvas.tool_names)),
        view_bar=ViewBar([each for each in overlays if not each.icon().isNull()]),
        canvas=canvas,
        inspector=inspector,
        review_bar=ReviewBar(actions),
        timeline=Timeline(session, frame_cache),
        status=StatusLine(),
        columns=QSplitter(Qt.Orientation.Horizontal),
        rows=QSplitter(Qt.Orientation.Vertical),
    )


def _tool_groups(actions: Mapping[str, QAction], tools: tuple[str, ...]) -> list[list[QAction]]:
    """The buttons of the tool strip: the viewer's tools, then buttons to compare and to fit the view."""
    taken = [action for name, action in actions.items() if name.startswith("tool.") and name[5:] in tools]
    return [taken, *([actions[name] for name in group] for group in _COMPARING)]
