"""Drag the width of a seam and the feather of a shape, on the plate: whole, or at one control point."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter

from rotopaint_ai.exchange.document import MOST_WIDTH_PX
from rotopaint_ai.project.state import MOST_PROFILE, SeamSettings, WidthProfile
from rotopaint_ai.shapes.edit_feather import Offsets, outward_offset, pull_feather
from rotopaint_ai.shapes.edit_points import find_nearest
from rotopaint_ai.shapes.roto import DEFAULT_WIDTH_PX, RotoShape
from rotopaint_ui.drawing.render import ViewTransform, widths_of
from rotopaint_ui.tools.base import MouseEvent
from rotopaint_ui.tools.drag_path import DragPath, DragTool
from rotopaint_ui.tools.edge_handles import Edge, EdgeHandle, edge_handle_at, left_normal, paint_edges
from rotopaint_ui.tools.edit_context import EditContext
from rotopaint_ui.tools.pick import shape_at


class WidthTool(DragTool):
    """A drag away from a seam widens it, towards it narrows it; Shift drags its feather, Ctrl by a tenth.

    The width changes by twice the mouse's distance, because the matte grows on both sides. All selected seams change by
    the same amount. A handle beside a control point drags the width there on its side (Shift: on both sides); the
    profile holds on all frames. On a closed shape a handle is dragged to where the feather ends. The selected points of
    all selected seams, or of all closed shapes, change together.
    """

    def __init__(self, context: EditContext) -> None:
        super().__init__(context)
        self._shape: RotoShape | None = None
        self._shapes: list[RotoShape] = []  # all selected ones, as they were at the press
        self._handle: EdgeHandle | None = None

    def press(self, mouse: MouseEvent) -> None:
        """Grab a handle of a selected shape, else the seams that are selected or under the mouse."""
        self._handle, under = self._handle_at(mouse), shape_at(self._context, mouse)
        if self._handle is not None:
            self._session.set_selection(self._session.selection.with_shape(self._handle.shape.name))
        elif under is not None:
            self._session.select(under)
        shapes = self._shapes = self._context.last_selected_first
        pressed = shapes if self._handle is not None or under is not None else self._selected_seams
        shape = next(iter(pressed), None)
        if shape is None or (shape.closed and self._handle is None):
            self._session.say(
                "Drag a point to where its feather ends" if shapes else "Select a seam, then drag its width"
            )
            return
        self._shape, self._path = shape, DragPath(mouse, has_axis=False)

    def drag(self, mouse: MouseEvent) -> None:
        """Change the width, or the feather."""
        if self._path is None or self._shape is None:
            return
        had_begun = self._path.has_begun
        if not self._path.go(mouse):
            return
        if not had_begun and not self._begin_width():
            self._path = self._shape = None
            return
        if self._handle is None:
            self._set_widths(self._grown(self._shape, self._path), is_soft=mouse.shift)
        elif self._handle.edge == "feather":
            self._pull_feathers(self._handle, self._path.offset)
        else:
            self._set_profiles(self._handle, self._path.offset, is_both=mouse.shift)

    def _let_go(self) -> None:
        super()._let_go()
        self._shape = None

    def cursor(self, mouse: MouseEvent) -> Qt.CursorShape:
        """A cross over handles; two arrows where a drag would change a width."""
        if self._handle_at(mouse) is not None:
            return Qt.CursorShape.SizeAllCursor
        drags = self._selected_seams or shape_at(self._context, mouse) is not None
        return Qt.CursorShape.SplitVCursor if drags else Qt.CursorShape.ArrowCursor

    def paint(self, painter: QPainter, view: ViewTransform) -> None:
        """Draw the edges of the selected shapes and of their feathers, with their handles."""
        for shape in reversed(self._context.last_selected_first):
            paint_edges(painter, shape, self._session.frame, view)

    @property
    def _selected_seams(self) -> list[RotoShape]:
        return [shape for shape in self._context.last_selected_first if not shape.closed]

    def _handle_at(self, mouse: MouseEvent) -> EdgeHandle | None:
        return edge_handle_at(self._context.last_selected_first, self._session.frame, mouse)

    def _begin_width(self) -> bool:
        if not self._context.is_free:
            return False
        if self._handle is None:
            label = "seam width"
        else:
            label = "feather points" if self._handle.edge == "feather" else "width profile"
        self._session.edits.begin(label)
        return True

    # --- the whole seam

    def _grown(self, shape: RotoShape, path: DragPath) -> float:
        """How much the mouse's distance from the curve has grown since the press, plate pixels."""
        points = shape.at(self._session.frame)
        start, now = find_nearest(points, False, *path.start.plate), find_nearest(points, False, *path.place)
        assert start is not None
        assert now is not None
        return now.distance - start.distance

    def _set_widths(self, grown: float, *, is_soft: bool) -> None:
        new: dict[str, SeamSettings] = {}
        for seam in [shape for shape in self._shapes if not shape.closed]:
            settings = self._session.edits.before_gesture.seam(seam.name)
            if is_soft:
                new[seam.name] = replace(settings, feather_px=_bounded_width(seam.feather_px + grown))
            else:
                new[seam.name] = replace(settings, width_px=_bounded_width(2 * (_half_width(seam) + grown)))
        self._session.seams.set(new)

    # --- control points

    def _with_others(self, handle: EdgeHandle) -> list[tuple[RotoShape, frozenset[int]]]:
        """The selected points of all selected shapes of the handle's kind if its point is one of them, else that point
        alone."""
        chosen, own = self._context.selected_points, handle.shape
        if handle.index not in chosen.get(own.name, ()):
            return [(own, frozenset({handle.index}))]
        return [(each, chosen[each.name]) for each in self._shapes if each.closed == own.closed and each.name in chosen]

    def _set_profiles(self, handle: EdgeHandle, offset: tuple[float, float], *, is_both: bool) -> None:
        if _half_width(handle.shape) <= 0:
            self._session.say("The seam is 0 px wide: drag its curve first, then its handles")
            return
        dx, dy = left_normal(handle.shape.at(self._session.frame), handle.index)
        away = (dx * offset[0] + dy * offset[1]) * (1 if handle.edge == "left" else -1)
        sides: set[Edge] = {"left", "right"} if is_both else {handle.edge}
        new: dict[str, SeamSettings] = {}
        for seam, chosen in self._with_others(handle):
            if (half := _half_width(seam)) > 0:
                profile: WidthProfile = tuple(
                    _profile_row((row.left_px, row.right_px), away if k in chosen else 0.0, sides, half)
                    for k, row in enumerate(widths_of(seam, self._session.frame))
                )
                new[seam.name] = replace(self._session.edits.before_gesture.seam(seam.name), profile=profile)
        self._session.seams.set(new)

    def _pull_feathers(self, handle: EdgeHandle, offset: tuple[float, float]) -> None:
        """Move the feather of one point to the mouse; other selected points get the same distance, perpendicular to the
        edge."""
        before, frame = self._session.edits.before_gesture, self._session.frame
        document, others = before.document, self._with_others(handle)
        assert document is not None
        nx, ny = outward_offset(handle.shape.at(frame), handle.index, 1.0)
        away = nx * offset[0] + ny * offset[1]
        is_alone = sum(len(chosen) for _, chosen in others) == 1
        for shape, chosen in others:
            points = shape.at(frame)
            offsets: Offsets = {k: offset if is_alone else outward_offset(points, k, away) for k in chosen}
            document = pull_feather(document, shape.name, self._context.reached_frames(shape), offsets)
        self._session.edits.preview(replace(before, document=document))


def _half_width(seam: RotoShape) -> float:
    return (DEFAULT_WIDTH_PX if seam.width_px is None else seam.width_px) / 2


def _profile_row(
    reach: tuple[float, float], away: float, dragged: Collection[Edge], half: float
) -> tuple[float, float]:
    """The reach of a seam to the left and right as shares of its half width, with the dragged sides extended by
    `away`."""
    left, right = (
        _bounded_share((px + (away if side in dragged else 0.0)) / half) for side, px in zip(("left", "right"), reach)
    )
    return left, right


def _bounded_width(value: float) -> float:
    return min(max(0.0, round(value, 2)), MOST_WIDTH_PX)  # avoids -0.0


def _bounded_share(value: float) -> float:
    return min(max(0.0, round(value, 4)), MOST_PROFILE) if math.isfinite(value) else 0.0
