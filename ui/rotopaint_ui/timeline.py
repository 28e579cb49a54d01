"""The timeline: four strips on one axis - frame numbers and holds, thumbnails, confidence, keys - and the playhead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import ceil

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from rotopaint_ai.shapes.roto import RotoShape
from rotopaint_ui.reel import PLATE, THUMB_HEIGHT, Reel
from rotopaint_ui.render import resized
from rotopaint_ui.session import PlateFacts, Session

RULER, THUMBS, HEAT, KEYS, GAP = 20, THUMB_HEIGHT, 24, 16, 3
LEFT, RIGHT = 52, 12
BAD_SHARE = 0.0025  # of the plate's width: an expected error of this many pixels is drawn full orange
_STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000, 10000)
_RAMP = ((0.0, "#2f6fd0"), (0.35, "#8fb8ee"), (0.6, "#f2efe9"), (0.8, "#ffb46b"), (1.0, "#f06a1d"))
_LOST = QColor("#d83a5e")
_KEY_COLOURS = {"human": "#ffb454", "propagated": "#b9a5ff", "model": "#5f86b8"}
_CROWDED_PX = 4.0


class Timeline(QWidget):
    """Shows the session's frames and lets the artist scrub; the panel is told by `frame_wanted`."""

    frame_wanted = Signal(int)

    def __init__(self, session: Session, reel: Reel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._reel = session, reel
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)

    def sizeHint(self) -> QSize:
        """Four strips high."""
        return QSize(600, RULER + THUMBS + HEAT + KEYS + 5 * GAP)

    # --- the axis

    def x_of(self, frame: float) -> float:
        """The left edge of a frame's cell."""
        plate = self._session.plate
        if plate is None:
            return float(LEFT)
        return LEFT + (frame - plate.first) * self._cell(plate)

    def frame_at(self, x: float) -> int:
        """The frame whose cell holds a place; the nearest one outside the axis."""
        plate = self._session.plate
        if plate is None:
            return 0
        frame = plate.first + int((x - LEFT) // self._cell(plate))
        return min(max(frame, plate.first), plate.last)

    def thumb_frames(self) -> list[int]:
        """The frames whose thumbnails fill the strip, those near the playhead first."""
        plate = self._session.plate
        if plate is None:
            return []
        step = max(1, ceil(self._thumb_width(plate) / self._cell(plate) - 0.05))
        frames = set(plate.frames)
        slots = [frame for frame in range(plate.first, plate.last + 1, step) if frame in frames]
        return sorted(slots, key=lambda frame: abs(frame - self._session.frame))

    def _cell(self, plate: PlateFacts) -> float:
        return max(self.width() - LEFT - RIGHT, 1) / (plate.last - plate.first + 1)

    def _thumb_width(self, plate: PlateFacts) -> float:
        return THUMBS * plate.width * plate.pixel_aspect / plate.height + 2

    # --- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        """All strips, then the playhead."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor("#16181c"))
        painter.setFont(resized(self.font(), 0.85))
        plate = self._session.plate
        if plate is None:
            return
        y = float(GAP)
        self._paint_ruler(painter, plate, y)
        y += RULER + GAP
        self._paint_label(painter, "plate", y, THUMBS)
        self._paint_thumbs(painter, plate, y)
        y += THUMBS + GAP
        self._paint_label(painter, "error", y, HEAT)
        self._paint_heat(painter, plate, y)
        y += HEAT + GAP
        self._paint_label(painter, "keys", y, KEYS)
        self._paint_keys(painter, plate, y)
        self._paint_playhead(painter, plate)

    def _paint_label(self, painter: QPainter, text: str, y: float, height: int) -> None:
        painter.setPen(QColor("#7d8492"))
        area = QRectF(4, y, LEFT - 10, height)
        painter.drawText(area, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)

    def _paint_ruler(self, painter: QPainter, plate: PlateFacts, y: float) -> None:
        cell = self._cell(plate)
        step = next((step for step in _STEPS if step * cell >= 44), _STEPS[-1])
        first = plate.first + (-plate.first) % step
        painter.setPen(QColor("#8a919e"))
        for frame in range(first, plate.last + 1, step):
            x = self.x_of(frame) + cell / 2
            painter.drawLine(QPointF(x, y + RULER - 4), QPointF(x, y + RULER))
            painter.drawText(QRectF(x - 40, y, 80, RULER - 4), Qt.AlignmentFlag.AlignCenter, str(frame))
        painter.setPen(QPen(QColor("#b9a5ff"), 2.0))
        for first, last in self._session.run.held:
            if last > first:
                left, right = self.x_of(first) + 1.5, self.x_of(last + 1) - 1.5
                bracket = [QPointF(left, y + RULER - 3), QPointF(left, y + RULER)]
                bracket += [QPointF(right, y + RULER), QPointF(right, y + RULER - 3)]
                painter.drawPolyline(QPolygonF(bracket))

    def _paint_thumbs(self, painter: QPainter, plate: PlateFacts, y: float) -> None:
        painter.fillRect(self._strip(y, THUMBS), QColor("#0f1013"))
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        width = self._thumb_width(plate)
        for frame in sorted(self.thumb_frames()):
            thumb = self._reel.thumb(frame)
            if thumb is not None:
                left = self.x_of(frame) + max(self._cell(plate) - width, 0.0) / 2
                area = QRectF(left, y, min(width - 2, self.width() - RIGHT - left), THUMBS)
                source = QRectF(0, 0, area.width(), THUMBS)
                painter.drawImage(area, thumb, source)
        for frame in plate.missing:
            self._paint_hole(painter, QRectF(self.x_of(frame), y, self._cell(plate), THUMBS))
        for (name, frame), _ in self._reel.broken.items():
            if name == PLATE:
                area = QRectF(self.x_of(frame), y, max(self._cell(plate), 2), THUMBS)
                painter.fillRect(area, QColor(216, 58, 94, 110))

    def _paint_hole(self, painter: QPainter, area: QRectF) -> None:
        area.setWidth(max(area.width(), 2.0))
        painter.fillRect(area, QColor("#16181c"))
        painter.fillRect(area, Qt.BrushStyle.BDiagPattern)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor("#5b626e"))
        painter.fillRect(area, QColor(91, 98, 110, 60))

    def _paint_heat(self, painter: QPainter, plate: PlateFacts, y: float) -> None:
        """A bar per frame: its colour says how large the error may be, its height how it ranks in the shot."""
        painter.fillRect(self._strip(y, HEAT), QColor("#0f1013"))
        bad = BAD_SHARE * plate.width
        cell = self._cell(plate)
        errors = self._errors(plate)
        tallest = max([bad, *(error for error in errors.values() if error != float("inf"))])
        for frame, error in errors.items():
            left, width = self.x_of(frame), max(cell - (1 if cell > 4 else 0), 1.0)
            if error == float("inf"):
                painter.fillRect(QRectF(left, y, width, HEAT), _LOST)
                painter.setPen(QPen(QColor("#ffffff"), 1.2))
                middle = QPointF(left + width / 2, y + HEAT / 2)
                painter.drawLine(middle + QPointF(-3, -3), middle + QPointF(3, 3))
                painter.drawLine(middle + QPointF(-3, 3), middle + QPointF(3, -3))
                continue
            height = HEAT * (0.15 + 0.85 * error / tallest)
            painter.fillRect(QRectF(left, y + HEAT - height, width, height), ramp(error / bad))

    def _errors(self, plate: PlateFacts) -> Mapping[int, float]:
        name = self._session.selection.shape
        run = self._session.run
        rows = {frame: run.error_at(frame, name) for frame in range(plate.first, plate.last + 1)}
        return {frame: error for frame, error in rows.items() if error is not None}

    def _paint_keys(self, painter: QPainter, plate: PlateFacts, y: float) -> None:
        """Keys of the selected shape, or of all: diamonds a person made, circles the model, squares propagated."""
        painter.fillRect(self._strip(y, KEYS), QColor("#0f1013"))
        document = self._session.document
        if document is None:
            return
        selected = self._session.shape
        found = key_sources((selected,) if selected is not None else document.shapes)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        cell = self._cell(plate)
        size = min(max(cell * 0.3, 1.4), 4.0)
        if cell < _CROWDED_PX:
            self._paint_crowded_keys(painter, found, y)
        else:
            for frame, source in found.items():
                centre = QPointF(self.x_of(frame) + cell / 2, y + KEYS / 2)
                _paint_key(painter, centre, source, size)
        for frame in self._session.state.crops:
            centre = QPointF(self.x_of(frame) + cell / 2, y + KEYS / 2)
            painter.setPen(QPen(QColor("#ffd75e"), 1.3))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(QRectF(centre.x() - 6, centre.y() - 6, 12, 12))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def _paint_crowded_keys(self, painter: QPainter, found: Mapping[int, str], y: float) -> None:
        """More keys than there is room for: one line for each column of pixels, a person's keys taller."""
        columns: dict[int, str] = {}
        for frame, source in found.items():
            column = int(self.x_of(frame))
            if source == "human" or column not in columns:
                columns[column] = source
        for column, source in columns.items():
            inset = 1 if source == "human" else 5
            painter.fillRect(QRectF(column, y + inset, 1.5, KEYS - 2 * inset), QColor(_KEY_COLOURS[source]))

    def _paint_playhead(self, painter: QPainter, plate: PlateFacts) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        cell, frame = self._cell(plate), self._session.frame
        left = self.x_of(frame)
        painter.fillRect(
            QRectF(left, RULER + GAP, max(cell, 1.0), self.height() - RULER - 2 * GAP), QColor(255, 255, 255, 26)
        )
        x = left + cell / 2
        painter.setPen(QPen(QColor("#ff7a45"), 1.4))
        painter.drawLine(QPointF(x, RULER), QPointF(x, self.height() - GAP))
        text = str(frame)
        width = painter.fontMetrics().horizontalAdvance(text) + 12
        flag = QRectF(x - width / 2, GAP - 1, width, RULER - 3)
        flag.moveLeft(min(max(flag.left(), 1.0), self.width() - width - 1))
        painter.setBrush(QColor("#ff7a45"))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.drawRoundedRect(flag, 4, 4)
        painter.setPen(QColor("#1a0f08"))
        painter.drawText(flag, Qt.AlignmentFlag.AlignCenter, text)

    def _strip(self, y: float, height: int) -> QRectF:
        return QRectF(LEFT, y, self.width() - LEFT - RIGHT, height)

    # --- the mouse

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Go to the frame under the mouse."""
        if event.button() == Qt.MouseButton.LeftButton and self._session.plate is not None:
            self.frame_wanted.emit(self.frame_at(event.position().x()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Scrub, or tell what is under the mouse."""
        if self._session.plate is None:
            return
        frame = self.frame_at(event.position().x())
        if event.buttons() & Qt.MouseButton.LeftButton:
            self.frame_wanted.emit(frame)
        else:
            QToolTip.showText(event.globalPosition().toPoint(), self.tip(frame), self)

    def tip(self, frame: int) -> str:
        """What is known of a frame, one line for each fact."""
        session, plate = self._session, self._session.plate
        lines = [f"Frame {frame}"]
        if plate is not None and frame not in plate.frames:
            lines.append("not on disk")
        if frame in session.run.failed:
            lines.append(session.run.failed[frame])
        elif frame in session.run.lost:
            lines.append("face not found")
        elif (error := session.run.error_at(frame)) is not None:
            lines.append(f"expected error {error:.2f} px")
        first, last = session.run.hold_of(frame)
        if last > first:
            lines.append(f"held {first}-{last}")
        return "\n".join(lines)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Other thumbnails fill another width."""
        self._reel.want_thumbs(self.thumb_frames())


def ramp(share: float) -> QColor:
    """Blue - white - orange, for 0 (sure) to 1 (doubtful)."""
    for (low, left), (high, right) in pairwise(_RAMP):
        if share <= high:
            weight = (share - low) / (high - low)
            a, b = QColor(left), QColor(right)
            mixed = [round(p + (q - p) * weight) for p, q in zip(a.getRgb()[:3], b.getRgb()[:3])]  # type: ignore[index]
            return QColor(*mixed)
    return QColor(_RAMP[-1][1])


def key_sources(shapes: Iterable[RotoShape]) -> dict[int, str]:
    """Who made the key at each frame; where shapes differ, the person before the propagation before the model."""
    rank = {"human": 2, "propagated": 1, "model": 0}
    found: dict[int, str] = {}
    for shape in shapes:
        for frame, key in shape.keys.items():
            if frame not in found or rank[key.source] > rank[found[frame]]:
                found[frame] = key.source
    return found


def _paint_key(painter: QPainter, centre: QPointF, source: str, size: float) -> None:
    painter.setPen(Qt.PenStyle.NoPen)
    if source == "human":
        reach = size + 1.6
        painter.setBrush(QColor(_KEY_COLOURS[source]))
        corners = (QPointF(0, -reach), QPointF(reach, 0), QPointF(0, reach), QPointF(-reach, 0))
        painter.drawPolygon(QPolygonF([centre + corner for corner in corners]))
    elif source == "propagated":
        painter.setBrush(QColor(_KEY_COLOURS[source]))
        painter.drawRect(QRectF(centre.x() - size, centre.y() - size, 2 * size, 2 * size))
    else:
        painter.setBrush(QColor(_KEY_COLOURS[source]))
        painter.drawEllipse(centre, size, size)
