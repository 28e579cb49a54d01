"""Splines on the screen, drawn fast: paths are built once for each drawing, lines are hairlines.

A line wider than one device pixel costs Qt's painter fifty times as much as a hairline (20 outlines of 750 px: 34 ms
against 0.5 ms, measured). So a line is made of hairlines side by side, dark ones beneath so that it reads on any plate.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPen, QTransform

from rotopaint_ai.shapes.roto import Points, RotoDocument, RotoShape
from rotopaint_ui.drawing.render import ViewTransform, colours_of, painter_path_of

MOST_PATHS = 512
_NONE: Mapping[str, str] = MappingProxyType({})
USUAL_PX = 1.5  # width of a plain line
ONION_KEYS = 2  # on either side
Style = Literal["plain", "bold", "dashed", "thin", "moving"]
_PLATE = ViewTransform()
_DARK = QColor(0, 0, 0, 170)
# Onion skins: blue behind, yellow ahead, which colour-blind people can distinguish.
_EARLIER, _LATER = "#5ab4ff", "#ffe14d"
_LOOK, _ROOM_PX = "#f2a541", 10.0  # the box around a place that needs a look
_FILLING = ((-0.25, -0.25), (0.25, 0.25), (-0.25, 0.25), (0.25, -0.25))
_SHADOWS: Mapping[Style, Sequence[tuple[float, float]]] = {
    "plain": ((0.0, 1.0), (1.0, 0.0), (-1.0, 0.0), (0.0, -1.0)),
    "bold": ((-1.5, 0.0), (0.0, -1.5), (1.5, 0.0), (0.0, 1.5)),
    "dashed": ((0.0, 1.0),),
    "thin": (),
    "moving": ((0.0, 1.0),),
}
# Symmetric about the curve, so that the line is not displaced.
_LINES: Mapping[Style, Sequence[tuple[float, float]]] = {
    "plain": ((-0.25, -0.25), (0.25, 0.25)),
    "bold": ((-0.5, 0.0), (0.5, 0.0), (0.0, -0.5), (0.0, 0.5)),
    "dashed": ((0.0, 0.0),),
    "thin": ((0.0, 0.0),),
    "moving": ((0.0, 0.0),),
}


@dataclass(frozen=True, slots=True)
class Outline:
    """A shape as drawn at a frame."""

    shape: RotoShape
    points: Points
    path: QPainterPath  # plate space
    colour: QColor
    extent: QRectF  # bounds of points and tangents in plate space, which contain the curve
    is_shown: bool  # False: known to be hidden at this frame, drawn dashed

    def box(self, view: ViewTransform, margin: float) -> QRectF:
        """The bounding box of the outline, its points and tangents on the screen."""
        return transform_of(view).mapRect(self.extent).adjusted(-margin, -margin, margin, margin)


class Paths:
    """A cache of paths, so that frames shown again and shapes at rest are fast."""

    def __init__(self) -> None:
        self._paths: OrderedDict[int, tuple[Points, bool, QPainterPath]] = OrderedDict()

    def of(self, points: Points, closed: bool) -> QPainterPath:
        """The path of a spline in plate space."""
        key = id(points)
        found = self._paths.get(key)
        if found is not None and found[0] is points and found[1] == closed:
            self._paths.move_to_end(key)
            return found[2]
        path = painter_path_of(points, closed, _PLATE)
        self._paths[key] = points, closed, path
        while len(self._paths) > MOST_PATHS:
            self._paths.popitem(last=False)
        return path


class Outlines:
    """The outlines of a document at a frame; an unchanged shape keeps its outline object."""

    def __init__(self) -> None:
        self._paths = Paths()
        self._frame: int | None = None
        self._names: tuple[str, ...] = ()
        self._colours: dict[str, QColor] = {}
        self._own: Mapping[str, str] = _NONE
        self._last: dict[str, Outline] = {}

    def of(
        self, document: RotoDocument, frame: int, hidden: frozenset[str], own: Mapping[str, str] = _NONE
    ) -> list[Outline]:
        """The outlines to draw, in the order of the document; `own` are people's colours."""
        names = tuple(shape.name for shape in document.shapes)
        if names != self._names or own is not self._own:
            self._names, self._own, self._colours, self._last = names, own, colours_of(document, own), {}
        if frame != self._frame:
            self._frame, self._last = frame, {}
        self._last = {shape.name: self._outline_at(shape, frame) for shape in document.shapes if shape.keys}
        return [outline for name, outline in self._last.items() if name not in hidden]

    def onion(self, shape: RotoShape, frame: int) -> list[tuple[QPainterPath, QColor]]:
        """The selected shape at the keys around a frame, farthest first and faintest."""
        frames = shape.frames
        before, after = bisect_left(frames, frame), bisect_right(frames, frame)
        found = []
        for step in range(ONION_KEYS, 0, -1):
            for at, ink in ((before - step, _EARLIER), (after + step - 1, _LATER)):
                if 0 <= at < len(frames):
                    colour = QColor(ink)
                    colour.setAlphaF(0.75 / step)
                    found.append((self._paths.of(shape.keys[frames[at]].points, shape.closed), colour))
        return found

    def _outline_at(self, shape: RotoShape, frame: int) -> Outline:
        last = self._last.get(shape.name)
        if last is not None and last.shape is shape:
            return last
        points = shape.at(frame)
        if last is not None and last.points == points and last.shape.closed == shape.closed:
            points = last.points
        path, colour = self._paths.of(points, shape.closed), self._colours[shape.name]
        return Outline(shape, points, path, colour, _extent(points), shape.is_visible(frame))


def _extent(points: Points) -> QRectF:
    xs = [x for p in points for x in (p.x, p.x + p.in_dx, p.x + p.out_dx)]
    ys = [y for p in points for y in (p.y, p.y + p.in_dy, p.y + p.out_dy)]
    return QRectF(QPointF(min(xs), min(ys)), QPointF(max(xs), max(ys)))


def third_box(path: QPainterPath, third: str) -> QRectF:
    """The bounding box of a third of an open path, in the path's own space; `third` as in a run: `upper third`."""
    first, last = path.pointAtPercent(0.0), path.pointAtPercent(1.0)
    is_ahead = {"left": first.x() <= last.x(), "upper": first.y() <= last.y()}
    is_ahead |= {"right": not is_ahead["left"], "lower": not is_ahead["upper"]}
    word = third.partition(" ")[0]
    at = 1 if word not in is_ahead else 0 if is_ahead[word] else 2
    places = [path.pointAtPercent((at + k / 8) / 3) for k in range(9)]
    xs, ys = [place.x() for place in places], [place.y() for place in places]
    return QRectF(QPointF(min(xs), min(ys)), QPointF(max(xs), max(ys)))


def transform_of(view: ViewTransform) -> QTransform:
    """The transform from plate to screen."""
    return QTransform(view.zoom * view.aspect, 0, 0, view.zoom, view.x, view.y)


def paint_path(
    painter: QPainter,
    path: QPainterPath,
    view: ViewTransform,
    colour: QColor,
    *,
    style: Style = "plain",
    width: float = 1.5,
) -> None:
    """Draw a spline as hairlines; a plain line is `width` screen pixels wide.

    `style`: `plain`, `bold` (selected), `dashed` (hidden here), `thin` (no dark edge), `moving` (being dragged: the
    fastest).
    """
    base, plate = painter.worldTransform(), transform_of(view)
    filling = _fillings(style, painter.device().devicePixelRatioF())
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for offsets, ink in ((_shadows(style, width), _DARK), (_lines(style, width), colour)):
        is_dashed = style == "dashed" and ink is colour
        painter.setPen(_pen(ink, Qt.PenStyle.DashLine if is_dashed else Qt.PenStyle.SolidLine))
        for dx, dy in offsets:
            for fx, fy in filling:
                painter.setWorldTransform(plate * QTransform.fromTranslate(dx + fx, dy + fy) * base)
                painter.drawPath(path)
    painter.setWorldTransform(base)


def paint_place(painter: QPainter, path: QPainterPath, third: str, view: ViewTransform) -> None:
    """Draw a dashed box around the third of a seam that a person should check."""
    box = transform_of(view).mapRect(third_box(path, third)).adjusted(-_ROOM_PX, -_ROOM_PX, _ROOM_PX, _ROOM_PX)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for ink, style in ((_DARK, Qt.PenStyle.SolidLine), (QColor(_LOOK), Qt.PenStyle.DashLine)):
        painter.setPen(_pen(ink, style))
        painter.drawRoundedRect(box, _ROOM_PX / 2, _ROOM_PX / 2)


@lru_cache(maxsize=64)
def _lines(style: Style, width: float) -> Sequence[tuple[float, float]]:
    """Offsets of a line's hairlines. A line wider than usual is a disc of them, half a pixel apart."""
    if style not in ("plain", "bold") or width <= USUAL_PX:
        return _LINES[style] if width > 1.0 or style == "bold" else ((0.0, 0.0),)
    reach = (width - 1.0 + (1.0 if style == "bold" else 0.0)) / 2
    steps = [0.5 * k for k in range(-math.ceil(2 * reach), math.ceil(2 * reach) + 1)]
    return tuple((x, y) for x in steps for y in steps if math.hypot(x, y) <= reach + 0.01)


@lru_cache(maxsize=64)
def _shadows(style: Style, width: float) -> Sequence[tuple[float, float]]:
    """Offsets of the hairlines of the dark edge, farther out around a wider line."""
    if style not in ("plain", "bold") or width <= USUAL_PX:
        return _SHADOWS[style]
    reach = width / 2 + (1.0 if style == "bold" else 0.5)
    return tuple((reach * math.cos(k * math.pi / 6), reach * math.sin(k * math.pi / 6)) for k in range(12))


def _fillings(style: Style, ratio: float) -> Sequence[tuple[float, float]]:
    """Offsets that fill a hairline on dense screens, where a hairline is only one device pixel wide."""
    if ratio <= 1.0:
        return ((0.0, 0.0),)
    return _FILLING[:2] if style == "moving" else _FILLING


def _pen(colour: QColor, style: Qt.PenStyle) -> QPen:
    pen = QPen(colour, 1.0, style)
    pen.setCosmetic(True)
    return pen
