"""Draws a document on a QPainter from a frozen view. It knows no widgets and no mouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontInfo, QPainter, QPainterPath, QPen, QPolygonF

from rotopaint_ai.shapes.roto import (
    DEFAULT_WIDTH_PX,
    ControlPoint,
    Landmark,
    Points,
    RotoDocument,
    RotoShape,
    StrokeWidth,
    Widths,
    feather_line,
)

# Light cyan and deep violet: they differ from skin by hue, from each other by lightness (tests/ui/test_viewer.py).
SEAM_COLOURS = ("#37e6ff", "#7dffe4", "#a8f0ff", "#63f2d2", "#c9fff4", "#7ae0ff")
MATTE_COLOURS = ("#9b8cff", "#8a7bff", "#b07fff", "#7d86f0", "#a06cf0", "#8f6fe0", "#6a7cff", "#b48af0")
SELECTED = "#ffe14d"
HANDLE_PX = 7.0
_STEPS = 12  # chords per cubic where a stroke of changing width is drawn


@dataclass(frozen=True, slots=True)
class ViewTransform:
    """The map from plate to screen: screen = offset + plate * zoom, with x multiplied by the pixel aspect."""

    zoom: float = 1.0
    x: float = 0.0
    y: float = 0.0
    aspect: float = 1.0

    def to_screen(self, x: float, y: float) -> QPointF:
        """A plate-space point in widget coordinates."""
        return QPointF(self.x + x * self.zoom * self.aspect, self.y + y * self.zoom)

    def to_plate(self, point: QPointF) -> tuple[float, float]:
        """A widget point in plate space."""
        return (point.x() - self.x) / (self.zoom * self.aspect), (point.y() - self.y) / self.zoom

    def rect(self, x: float, y: float, width: float, height: float) -> QRectF:
        """A plate-space rectangle in widget coordinates."""
        return QRectF(self.to_screen(x, y), self.to_screen(x + width, y + height))

    def zoomed(self, factor: float, about: QPointF) -> ViewTransform:
        """The view magnified about a point of the screen."""
        zoom = min(max(self.zoom * factor, 0.02), 64.0)
        share = zoom / self.zoom
        x, y = about.x() - (about.x() - self.x) * share, about.y() - (about.y() - self.y) * share
        return ViewTransform(zoom, x, y, self.aspect)

    def snapped(self, ratio: float) -> ViewTransform:
        """The view moved by less than a device pixel, so that the edges of magnified plate pixels lie on device
        pixels."""
        if self.zoom * ratio < 1.0:
            return self
        return ViewTransform(self.zoom, round(self.x * ratio) / ratio, round(self.y * ratio) / ratio, self.aspect)


@dataclass(frozen=True, slots=True)
class Overlay:
    """Which overlays are drawn on the plate."""

    splines: bool = True
    landmarks: bool = True
    mattes: bool = False
    onion: bool = False
    loupe: bool = True
    line_px: float = 1.5  # width of the lines, points of the selected shape: screen pixels
    point_px: float = HANDLE_PX


def resize_font(font: QFont, factor: float) -> QFont:
    """The font scaled by `factor`, at least 8 px high, whether its size was set in points or in pixels."""
    changed = QFont(font)
    changed.setPixelSize(max(round(QFontInfo(font).pixelSize() * factor), 8))
    return changed


def colours_of(document: RotoDocument, own: Mapping[str, str] = MappingProxyType({})) -> dict[str, QColor]:
    """A colour per shape in the document's order: people's `own`, else cyan for seams and violet for the rest."""
    found: dict[str, QColor] = {}
    counts = {"seam": 0, "matte": 0}
    for shape in document.shapes:
        palette = SEAM_COLOURS if shape.role == "seam" else MATTE_COLOURS
        found[shape.name] = QColor(palette[counts[shape.role] % len(palette)])
        counts[shape.role] += 1
    return {name: QColor(own[name]) if name in own else colour for name, colour in found.items()}


def painter_path_of(points: Points, closed: bool, view: ViewTransform) -> QPainterPath:
    """A spline as a path on the screen."""
    path = QPainterPath()
    if not points:
        return path
    path.moveTo(view.to_screen(points[0].x, points[0].y))
    for a, b in _segment_points(points, closed):
        path.cubicTo(
            view.to_screen(a.x + a.out_dx, a.y + a.out_dy),
            view.to_screen(b.x + b.in_dx, b.y + b.in_dy),
            view.to_screen(b.x, b.y),
        )
    return path


def paint_matte(painter: QPainter, shape: RotoShape, frame: int, view: ViewTransform, colour: QColor) -> None:
    """Tint a shape's matte, with its feather as a lighter edge."""
    points = shape.at(frame)
    if not points or not shape.is_visible(frame):
        return
    solid, soft = QColor(colour), QColor(colour)
    if shape.subtract:
        solid, soft = QColor(0, 0, 0), QColor(0, 0, 0)
    solid.setAlphaF(0.42)
    soft.setAlphaF(0.18)
    painter.setPen(Qt.PenStyle.NoPen)
    if shape.closed:
        path = painter_path_of(points, True, view)
        line = shape.feather_at(frame)
        if line:
            end = painter_path_of(feather_line(points, line), True, view)
            painter.fillPath(path.united(end).subtracted(path.intersected(end)), soft)
            path = path.intersected(end)
        elif shape.feather_px > 0:
            _paint_feather(painter, path, soft, shape.feather_px * view.zoom)
        painter.fillPath(path, solid)
        return
    widths = widths_of(shape, frame)
    if any(row.feather_px > 0 for row in widths):
        painter.fillPath(stroke_of(points, feather_widths(widths), shape.taper, view), soft)
    painter.fillPath(stroke_of(points, widths, shape.taper, view), solid)


def _paint_feather(painter: QPainter, path: QPainterPath, colour: QColor, width: float) -> None:
    """Draw a band of some screen pixels along the outside of a closed path."""
    pen = QPen(colour, 2 * width)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    outside = QPainterPath(path)
    outside.addRect(path.controlPointRect().adjusted(-2 * width - 2, -2 * width - 2, 2 * width + 2, 2 * width + 2))
    outside.setFillRule(Qt.FillRule.OddEvenFill)
    painter.save()
    painter.setClipPath(outside, Qt.ClipOperation.IntersectClip)
    painter.strokePath(path, pen)
    painter.restore()


def paint_handles(
    painter: QPainter,
    points: Points,
    view: ViewTransform,
    colour: QColor,
    selected: frozenset[int],
    *,
    size: float = HANDLE_PX,
) -> None:
    """Draw the selected shape's control points; selected ones are filled, larger, and have their tangents."""
    for index in sorted(selected):
        if index < len(points):
            _paint_tangents(painter, points[index], view)
    for index, point in enumerate(points):
        chosen = index in selected
        half = size / 2 + (1.0 if chosen else 0.0)
        centre = view.to_screen(point.x, point.y)
        box = QRectF(centre.x() - half, centre.y() - half, 2 * half, 2 * half)
        painter.setPen(QPen(QColor(0, 0, 0, 200), 1.0))
        painter.setBrush(QBrush(QColor("#ffffff") if chosen else colour.darker(150)))
        painter.drawRect(box)
        if not chosen:
            painter.setPen(QPen(colour, 1.2))
            painter.drawRect(box.adjusted(0.8, 0.8, -0.8, -0.8))


def _paint_tangents(painter: QPainter, point: ControlPoint, view: ViewTransform) -> None:
    centre = view.to_screen(point.x, point.y)
    for dx, dy in ((point.in_dx, point.in_dy), (point.out_dx, point.out_dy)):
        if dx or dy:
            end = view.to_screen(point.x + dx, point.y + dy)
            painter.setPen(QPen(QColor(0, 0, 0, 150), 2.6))
            painter.drawLine(centre, end)
            painter.setPen(QPen(QColor("#e8ebf0"), 1.1))
            painter.drawLine(centre, end)
            painter.setBrush(QColor("#e8ebf0"))
            painter.setPen(QPen(QColor(0, 0, 0, 200), 1.0))
            painter.drawEllipse(end, 3.4, 3.4)


def paint_landmarks(painter: QPainter, landmarks: Sequence[Landmark | None], view: ViewTransform) -> None:
    """Draw landmarks as small crosses."""
    for landmark in landmarks:
        if landmark is None:
            continue
        centre = view.to_screen(landmark.x, landmark.y)
        for pen in (QPen(QColor(0, 0, 0, 150), 2.4), QPen(QColor("#d9f2ff"), 1.1)):
            painter.setPen(pen)
            painter.drawLine(centre + QPointF(-3, 0), centre + QPointF(3, 0))
            painter.drawLine(centre + QPointF(0, -3), centre + QPointF(0, 3))


def paint_uncertainty(painter: QPainter, landmark: Landmark, view: ViewTransform) -> None:
    """Draw a landmark's expected error as a circle, if it is large enough to see."""
    radius = landmark.expected_error_px * view.zoom
    if radius > 4.0:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for pen in (QPen(QColor(0, 0, 0, 120), 2.4), QPen(QColor("#d9f2ff"), 1.0)):
            painter.setPen(pen)
            painter.drawEllipse(view.to_screen(landmark.x, landmark.y), radius, radius)


def paint_crop(painter: QPainter, box: QRectF, *, is_key: bool) -> None:
    """Draw the crop box with strong corners and thin edges; dashed where it is interpolated."""
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(0, 0, 0, 140), 3.0))
    painter.drawRect(box)
    painter.setPen(QPen(QColor("#ffd75e"), 1.2, Qt.PenStyle.SolidLine if is_key else Qt.PenStyle.DashLine))
    painter.drawRect(box)
    arm = min(14.0, box.width() / 4, box.height() / 4)
    painter.setPen(QPen(QColor("#ffd75e"), 3.0))
    for corner, sx, sy in (
        (box.topLeft(), 1, 1),
        (box.topRight(), -1, 1),
        (box.bottomLeft(), 1, -1),
        (box.bottomRight(), -1, -1),
    ):
        painter.drawLine(corner, corner + QPointF(sx * arm, 0))
        painter.drawLine(corner, corner + QPointF(0, sy * arm))


def _segment_points(points: Points, closed: bool) -> list[tuple[ControlPoint, ControlPoint]]:
    pairs = list(pairwise(points))
    return [*pairs, (points[-1], points[0])] if closed and len(points) > 1 else pairs


def widths_of(shape: RotoShape, frame: float) -> Widths:
    """The reach of an open shape to each side at each control point: its profile, or half its width."""
    half = (DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px) / 2
    return shape.widths_at(frame) or (StrokeWidth(half, half, shape.feather_px),) * len(shape.at(frame))


def feather_widths(widths: Widths) -> Widths:
    """The reach to each side of each control point including its feather."""
    return tuple(StrokeWidth(row.left_px + row.feather_px, row.right_px + row.feather_px) for row in widths)


def stroke_of(points: Points, widths: Widths, taper: tuple[float, float], view: ViewTransform) -> QPainterPath:
    """The outline of an open stroke that narrows to nothing over the tapered share of its length.

    `widths` has a row for each point; between points it changes evenly along the curve.
    """
    line = _sampled_line(points)
    lengths = [0.0]
    for (ax, ay), (bx, by) in pairwise(line):
        lengths.append(lengths[-1] + ((bx - ax) ** 2 + (by - ay) ** 2) ** 0.5)
    total = lengths[-1] or 1.0
    left, right = [], []
    for index, (x, y) in enumerate(line):
        ax, ay = line[max(index - 1, 0)]
        bx, by = line[min(index + 1, len(line) - 1)]
        norm = ((bx - ax) ** 2 + (by - ay) ** 2) ** 0.5 or 1.0
        share = _taper_share(lengths[index] / total, taper)
        to_left, to_right = (share * side for side in _width_at(widths, lengths, index))
        nx, ny = (by - ay) / norm, -(bx - ax) / norm
        left.append(view.to_screen(x + nx * to_left, y + ny * to_left))
        right.append(view.to_screen(x - nx * to_right, y - ny * to_right))
    path = QPainterPath()
    path.addPolygon(QPolygonF([*left, *reversed(right)]))
    path.closeSubpath()
    path.setFillRule(Qt.FillRule.WindingFill)
    return path


def _width_at(widths: Widths, lengths: Sequence[float], index: int) -> tuple[float, float]:
    """A stroke's reach to the left and right at a place of its sampled line."""
    segment = min(index // _STEPS, max(len(widths) - 2, 0))
    a, b = widths[segment], widths[min(segment + 1, len(widths) - 1)]
    start, end = lengths[segment * _STEPS], lengths[min((segment + 1) * _STEPS, len(lengths) - 1)]
    t = (lengths[index] - start) / ((end - start) or 1.0)
    return a.left_px + t * (b.left_px - a.left_px), a.right_px + t * (b.right_px - a.right_px)


def _taper_share(at: float, taper: tuple[float, float]) -> float:
    start = min(at / taper[0], 1.0) if taper[0] > 0 else 1.0
    end = min((1 - at) / taper[1], 1.0) if taper[1] > 0 else 1.0
    return max(min(start, end), 0.0)


def _sampled_line(points: Points) -> list[tuple[float, float]]:
    line = [(points[0].x, points[0].y)]
    for a, b in _segment_points(points, False):
        for step in range(1, _STEPS + 1):
            t = step / _STEPS
            u = 1 - t
            weights = (u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t)
            xs = (a.x, a.x + a.out_dx, b.x + b.in_dx, b.x)
            ys = (a.y, a.y + a.out_dy, b.y + b.in_dy, b.y)
            line.append((sum(w * x for w, x in zip(weights, xs)), sum(w * y for w, y in zip(weights, ys))))
    return line
