"""The rows of the dope sheet: which keys are in which row, and how hold, ease and smooth keys look."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPainterPath, QPen, QPolygonF

from rotopaint_ai.shapes.edit_keys import KeyPlace, group_place
from rotopaint_ai.shapes.roto import Interpolation, RotoShape
from rotopaint_ui.timeline.axis import Axis
from rotopaint_ui.timeline.key_strip import key_sources

_ROOMY_PX = 4.0  # a smaller cell has no room for the interpolation mark of a key
_LINK = QColor("#8f96a3")
_CHOSEN = QColor("#ffffff")
_HIDDEN = QColor("#5b626e")


@dataclass(frozen=True, slots=True)
class KeyRow:
    """Keys of one shape, or of several shapes together: a frame has one if any of them has. `sources`: the maker, by
    frame.

    `group`: the row has the keys of that group's transform.
    """

    shapes: tuple[RotoShape, ...]
    sources: Mapping[int, str]
    group: str | None = None

    @property
    def frames_of(self) -> Mapping[str, Collection[int]]:
        """The keyed frames of one shape or group of the row."""
        if self.group is not None:
            return {group_place(self.group): self.sources}
        return {shape.name: shape.keys for shape in self.shapes}

    def places_at(self, frame: int) -> frozenset[KeyPlace]:
        """The keys at a frame."""
        return frozenset((name, frame) for name, frames in self.frames_of.items() if frame in frames)

    def places_in(self, first: int, last: int) -> frozenset[KeyPlace]:
        """The keys between two frames, both included."""
        return frozenset((name, f) for name, frames in self.frames_of.items() for f in frames if first <= f <= last)


def key_rows(shapes: Sequence[RotoShape], *, is_apart: bool) -> tuple[KeyRow, ...]:
    """A row for each shape, or one for all together."""
    groups: Iterable[tuple[RotoShape, ...]] = ((shape,) for shape in shapes) if is_apart else (tuple(shapes),)
    return tuple(KeyRow(group, key_sources(group)) for group in groups)


def paint_ways_on(painter: QPainter, axis: Axis, y: float, height: float, shape: RotoShape) -> None:
    """Draw the interpolation between keys: a bar for hold, a bow-tie for ease, a wave for smooth."""
    if axis.cell < _ROOMY_PX:
        return
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    frames = shape.frames
    seen = frames[max(bisect_left(frames, axis.frames.start) - 1, 0) : bisect_left(frames, axis.frames.stop) + 1]
    for left, right in pairwise(seen):
        kind = shape.keys[left].interpolation
        if kind != "linear" or right - left > 1:
            begin, end = QPointF(axis.middle_of(left), y + height / 2), QPointF(axis.middle_of(right), y + height / 2)
            _paint_way_on(painter, begin, end, kind)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def paint_hidden(painter: QPainter, axis: Axis, y: float, height: float, shape: RotoShape) -> None:
    """Draw hatching where a shape is known to be hidden: outside its lifetime, and in gaps within."""
    if shape.visible:
        for frame in axis.frames:
            if not shape.is_visible(frame):
                area = QRectF(axis.x_of(frame), y + 2, axis.cell, height - 4)
                painter.fillRect(area, QBrush(_HIDDEN, Qt.BrushStyle.BDiagPattern))


def paint_chosen(painter: QPainter, axis: Axis, y: float, height: float, frames: Iterable[int]) -> None:
    """Draw a ring around each selected key."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(_CHOSEN, 1.5))
    painter.setBrush(QColor(255, 255, 255, 60))
    half = min(max(axis.cell * 0.45, 2.0), height / 2 - 0.5, 7.0)
    for frame in frames:
        centre = QPointF(axis.middle_of(frame), y + height / 2)
        painter.drawRoundedRect(QRectF(centre.x() - half, centre.y() - half, 2 * half, 2 * half), 2, 2)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _paint_way_on(painter: QPainter, begin: QPointF, end: QPointF, kind: Interpolation) -> None:
    middle, reach = (begin + end) / 2, 3.0
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(_LINK, 1.0))
    if kind == "hold":
        painter.fillRect(QRectF(begin.x(), begin.y() - 1.5, end.x() - begin.x() - reach, 3.0), _LINK)
    elif kind == "ease":
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(_LINK)
        for tip in (begin, end):
            painter.drawPolygon(QPolygonF([middle, tip + QPointF(0, -reach), tip + QPointF(0, reach)]))
    elif kind == "smooth":
        wave = QPainterPath(begin)
        third = QPointF((end.x() - begin.x()) / 3, 0)
        wave.cubicTo(begin + third + QPointF(0, -2.5 * reach), end - third + QPointF(0, 2.5 * reach), end)
        painter.drawPath(wave)
    else:
        painter.setPen(QPen(QColor(143, 150, 163, 110), 1.0))
        painter.drawLine(begin, end)
