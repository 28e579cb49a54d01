"""Plates on the screen: exact when magnified, averaged when reduced, with a message where a frame is missing."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QPointF, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QBrush, QColor, QImage, QPainter, QPainterPath

from rotopaint_ui.drawing.labels import paint_label
from rotopaint_ui.engine.frame_cache import CLEAN, PLATE, FrameCache
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts
from rotopaint_ui.viewer.wipe import Wipe

REFINE_MS = 120  # milliseconds without change, after which a reduced picture is averaged instead of sampled
EXACT_ZOOM = 1.0  # device pixels for a plate pixel from which pixels are shown as they are
_MOST_SCALED = 4
_DOUBLINGS = 2
GAIN = 2**_DOUBLINGS
_TOP_CENTRE = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop
_MISSING, _HATCH, _DIM = QColor("#1b1d22"), QColor(255, 255, 255, 14), QColor(16, 17, 20, 110)


class PlatePainter(QObject):
    """Draws the plate and the clean plate of a frame into an area of the screen."""

    def __init__(
        self, session: ShotSession, frame_cache: FrameCache, refined: Callable[[], None], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session, self._frames = session, frame_cache
        self._scaled: dict[tuple[int, QSize], QImage] = {}
        self._to_refine: dict[tuple[int, QSize], QImage] = {}
        self._refined = refined
        self._refine = QTimer(self, singleShot=True, interval=REFINE_MS)
        self._refine.timeout.connect(self._draw_finely)
        self._last: tuple[PlateFacts | None, QImage] | None = None  # the plate's picture painted last
        self._differed: tuple[tuple[int, int], QImage] | None = None
        self.version = 0  # increases when the same frame must be painted in another quality

    def key(self, *, shows_clean: bool, has_wipe: bool) -> tuple[int, int, int, str | None]:
        """The values of the frame cache that determine the picture of the session's frame."""
        frame = self._session.frame
        plate = self._frames.image(PLATE, frame)
        clean = self._frames.image(CLEAN, frame) if shows_clean or has_wipe else None
        last = self._last_clean if clean is not None else None
        keys = tuple(0 if image is None else image.cacheKey() for image in (plate, clean, last))
        return keys[0], hash(keys[1:]), self.version, self._frames.broken.get((PLATE, frame))

    def paint(
        self,
        painter: QPainter,
        area: QRectF,
        *,
        wipe: Wipe | None,
        shows_clean: bool,
        has_difference: bool = False,
        against_last: bool = False,
        shows_last: bool = False,
    ) -> None:
        """Draw the plate, the clean plate, or both with a wipe, which has priority; and a frame around the plate.

        `has_difference`: in place of the clean plate, its difference from the plate (`difference_of`); `against_last`:
        from the last rendered clean plate. `shows_last`: that one in place of a preview.
        """
        frame = self._session.frame
        plate, clean, last = self._frames.image(PLATE, frame), self._frames.image(CLEAN, frame), self._last_clean
        clean, base = last if shows_last else clean, last if against_last else plate
        if shows_clean and wipe is None and clean is not None and has_difference and base is not None:
            self._paint_image(painter, self._difference(base, clean), area)
        elif shows_clean and wipe is None and clean is not None:
            self._paint_image(painter, clean, area)
        elif plate is None:
            self._paint_missing(painter, area)
        else:
            self._last = self._session.plate, plate
            self._paint_image(painter, plate, area)
        if wipe is not None and clean is not None:
            painter.save()
            side = QPainterPath()
            side.addPolygon(wipe.clean_side(area))
            painter.setClipPath(side)
            self._paint_image(painter, clean, area)
            painter.restore()
        _paint_frame(painter, area)

    @property
    def _last_clean(self) -> QImage | None:
        return self._frames.own_image(CLEAN, self._session.frame)

    def _paint_image(self, painter: QPainter, image: QImage, area: QRectF) -> None:
        ratio = painter.device().devicePixelRatioF()
        scale = area.height() * ratio / image.height()
        is_exact = scale >= EXACT_ZOOM - 1e-9
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, not is_exact)
        if is_exact or scale >= 0.66:
            painter.drawImage(area, image)
            return
        size = (area.size() * ratio).toSize().expandedTo(QSize(1, 1))
        key = image.cacheKey(), size
        if key in self._scaled:
            painter.drawImage(
                QRectF(area.topLeft(), QRectF(0, 0, size.width() / ratio, size.height() / ratio).size()),
                self._scaled[key],
            )
            return
        painter.drawImage(area, image)
        self._to_refine[key] = image
        while len(self._to_refine) > _MOST_SCALED:  # older ones must not be held beyond the cache
            del self._to_refine[next(iter(self._to_refine))]
        self._refine.start()

    def _difference(self, plate: QImage, clean: QImage) -> QImage:
        """The difference of two pictures, cached."""
        keys = plate.cacheKey(), clean.cacheKey()
        if self._differed is None or self._differed[0] != keys:
            self._differed = keys, difference_of(plate, clean)
        return self._differed[1]

    def _draw_finely(self) -> None:
        """After a pause, replace the fast scaling by a smooth one."""
        ways = Qt.AspectRatioMode.IgnoreAspectRatio, Qt.TransformationMode.SmoothTransformation
        self._scaled = {key: image.scaled(key[1], *ways) for key, image in self._to_refine.items()}
        self._to_refine.clear()
        self.version += 1
        self._refined()

    def _paint_missing(self, painter: QPainter, area: QRectF) -> None:
        """Draw why there is no picture. While it is being read, the previous picture stays, dimmed, to avoid
        flicker."""
        plate, frame = self._session.plate, self._session.frame
        broken = self._frames.broken.get((PLATE, frame))
        is_reading = plate is not None and frame in plate.frames and broken is None
        if is_reading and self._last is not None and self._last[0] is plate:
            self._paint_image(painter, self._last[1], area)
            painter.fillRect(area, _DIM)
            corner = area.intersected(QRectF(painter.viewport())).topLeft()
            paint_label(painter, corner + QPointF(10, 10), f"Reading frame {frame}")
            return
        painter.fillRect(area, _MISSING)
        if not is_reading and broken is None:
            painter.fillRect(area, QBrush(_HATCH, Qt.BrushStyle.BDiagPattern))
        painter.setPen(QColor("#ff9d7a" if broken else "#a3aab7"))
        inner = area.intersected(QRectF(painter.viewport())).adjusted(16, 16, -16, -16)
        text = f"Reading frame {frame}" if is_reading else broken or f"Frame {frame} is not on disk"
        painter.drawText(inner, int(_TOP_CENTRE | Qt.TextFlag.TextWordWrap), text)


def difference_of(plate: QImage, clean: QImage) -> QImage:
    """The difference of two pictures on the screen, `GAIN` times; black where nothing was painted."""
    apart = plate.convertToFormat(QImage.Format.Format_RGB32)
    painter = QPainter(apart)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Difference)
    painter.drawImage(apart.rect(), clean)
    painter.end()
    for _ in range(_DOUBLINGS):
        again = apart.copy()
        painter = QPainter(apart)
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Plus)
        painter.drawImage(0, 0, again)
        painter.end()
    return apart


def _paint_frame(painter: QPainter, area: QRectF) -> None:
    """Draw a hairline around the plate as four filled sides, which is much faster than an outline."""
    ink, px = QColor(255, 255, 255, 40), 1.0 / painter.device().devicePixelRatioF()
    for x, width in ((area.left() - px, px), (area.right(), px)):
        painter.fillRect(QRectF(x, area.top(), width, area.height()), ink)
    for y in (area.top() - px, area.bottom()):
        painter.fillRect(QRectF(area.left(), y, area.width(), px), ink)
