"""The loupe: the plate around the mouse, magnified, with the outlines over it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen, QPixmap

from rotopaint_ui.drawing.render import ViewTransform
from rotopaint_ui.viewer.outlines import Outline, paint_path

RADIUS_PX = 72.0
_RIM_PX = 2.0
_AWAY_PX = 96.0  # distance from the mouse to the middle of the loupe, so that it never covers the dragged point
_LEAST_PX = 8.0  # screen pixels per pixel of the plate
MOST_ZOOM = 6.0  # zoom of the viewer above which no loupe is needed


@dataclass(frozen=True, slots=True)
class Loupe:
    """A magnifier with its middle at `centre` on the screen, which shows the place `at` (screen) in `view`."""

    at: QPointF
    centre: QPointF
    view: ViewTransform

    @property
    def box(self) -> QRectF:
        """Its rectangle on the screen."""
        radius = RADIUS_PX + _RIM_PX
        return QRectF(self.centre.x() - radius, self.centre.y() - radius, 2 * radius, 2 * radius)


def loupe_at(mouse: QPointF, view: ViewTransform, size: QSize) -> Loupe:
    """The loupe for a mouse position: above and to the left of it, or where there is room."""
    x = mouse.x() - _AWAY_PX if mouse.x() > _AWAY_PX + RADIUS_PX else mouse.x() + _AWAY_PX
    y = mouse.y() - _AWAY_PX if mouse.y() > _AWAY_PX + RADIUS_PX else mouse.y() + _AWAY_PX
    zoom = max(view.zoom * 4, _LEAST_PX)
    px, py = view.to_plate(mouse)
    centre = QPointF(min(x, size.width() - RADIUS_PX), min(y, size.height() - RADIUS_PX))
    return Loupe(
        mouse, centre, ViewTransform(zoom, centre.x() - px * zoom * view.aspect, centre.y() - py * zoom, view.aspect)
    )


def paint_loupe(
    painter: QPainter, loupe: Loupe, image: QImage | None, outlines: Iterable[Outline], *, shrink: int = 1
) -> None:
    """Draw the magnifier: unfiltered pixels, thin outlines, a cross at the mouse. `shrink`: how much smaller the image
    is."""
    ratio = painter.device().devicePixelRatioF()
    corner = loupe.centre - QPointF(RADIUS_PX, RADIUS_PX)
    view = ViewTransform(loupe.view.zoom, loupe.view.x - corner.x(), loupe.view.y - corner.y(), loupe.view.aspect)
    tile = _blank(ratio)
    inner = QPainter(tile)
    inner.setRenderHint(QPainter.RenderHint.Antialiasing)
    glass = QRectF(0, 0, 2 * RADIUS_PX, 2 * RADIUS_PX)
    inner.fillRect(glass, QColor("#101114"))
    if image is not None:
        _paint_pixels(inner, image, view, glass, shrink)
    for outline in outlines:
        if outline.box(view, 2.0).intersects(glass):
            paint_path(inner, outline.path, view, outline.colour, style="moving")
    inner.setCompositionMode(QPainter.CompositionMode.CompositionMode_DestinationIn)
    inner.drawPixmap(QPointF(0, 0), _disc(ratio))
    inner.end()
    painter.drawPixmap(corner, tile)
    painter.drawPixmap(loupe.box.topLeft(), _loupe_rim(ratio))


def _blank(ratio: float) -> QPixmap:
    tile = QPixmap(round(2 * RADIUS_PX * ratio), round(2 * RADIUS_PX * ratio))
    tile.setDevicePixelRatio(ratio)
    tile.fill(Qt.GlobalColor.transparent)
    return tile


@lru_cache(maxsize=4)
def _disc(ratio: float) -> QPixmap:
    """The disc that masks the loupe; compositing with it is much faster than a round clip."""
    disc = _blank(ratio)
    painter = QPainter(disc)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor("#ffffff"))
    painter.drawEllipse(QRectF(0.5, 0.5, 2 * RADIUS_PX - 1, 2 * RADIUS_PX - 1))
    painter.end()
    return disc


@lru_cache(maxsize=4)
def _loupe_rim(ratio: float) -> QPixmap:
    """Draw the rim, and the cross in the middle."""
    side = 2 * (RADIUS_PX + _RIM_PX)
    ring = QPixmap(round(side * ratio), round(side * ratio))
    ring.setDevicePixelRatio(ratio)
    ring.fill(Qt.GlobalColor.transparent)
    painter = QPainter(ring)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    middle = QPointF(side / 2, side / 2)
    for pen in (QPen(QColor(0, 0, 0, 200), 4.0), QPen(QColor("#dfe4ec"), 1.6)):
        painter.setPen(pen)
        painter.drawEllipse(middle, RADIUS_PX, RADIUS_PX)
    painter.setPen(QPen(QColor(255, 255, 255, 200), 1.0))
    for dx, dy in ((7.0, 0.0), (0.0, 7.0)):
        painter.drawLine(middle - QPointF(dx, dy), middle + QPointF(dx, dy))
    painter.end()
    return ring


def _paint_pixels(painter: QPainter, image: QImage, view: ViewTransform, glass: QRectF, shrink: int) -> None:
    """Draw only the part of the plate that the loupe shows: whole pixels, nearest neighbour."""
    (x0, y0), (x1, y1) = view.to_plate(glass.topLeft()), view.to_plate(glass.bottomRight())
    left, top = max(int(x0) - 1, 0), max(int(y0) - 1, 0)
    right, bottom = min(int(x1) + 2, image.width() * shrink), min(int(y1) + 2, image.height() * shrink)
    if right <= left or bottom <= top:
        return
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, False)
    source = QRectF(left / shrink, top / shrink, (right - left) / shrink, (bottom - top) / shrink)
    painter.drawImage(view.rect(left, top, right - left, bottom - top), image, source)
