"""The strip of expected errors: a bar per frame, and below it a row per shape, so that a bad eye shows at a glance."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen

from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ui.drawing.ramp import LOST, doubt_colour
from rotopaint_ui.session.error_scale import ErrorScale
from rotopaint_ui.timeline.axis import LEFT, Axis

BARS, ROW = 24, 5
_LOW = 4.0  # height of a bar that is done with
_LEAST = 0.25  # height of the bar with the smallest error, as a share of the strip
SETTLED = QColor("#3d4656")
Settled = Mapping[str, frozenset[int]]  # frames that a person has keyed or accepted, by shape
_EMPTY = QColor("#0f1013")


@dataclass(frozen=True, slots=True)
class ErrorRows:
    """The values that determine the picture of the rows."""

    run: RunRecord
    names: tuple[str, ...]
    axis: Axis
    scale: ErrorScale
    settled: Settled


class HeatRows:
    """The rows of shapes as one picture, drawn again only when its values change."""

    def __init__(self) -> None:
        self._key: ErrorRows | None = None
        self._image = QImage()

    def image(self, rows: ErrorRows) -> QImage:
        """The picture: a pixel column per screen pixel, `ROW` pixel rows per shape."""
        key = self._key
        if key is None or key.run is not rows.run or key.settled is not rows.settled or key != rows:
            self._key, self._image = rows, _drawn_strip(rows)
        return self._image


def paint_bars(
    painter: QPainter, axis: Axis, y: float, errors: Mapping[int, float], scale: ErrorScale, settled: Collection[int]
) -> None:
    """Draw a bar per frame: colour by expected error, height by rank among the other frames; a cross where the face was
    lost.

    Heights span at least the colour scale, so that small differences stay small. Frames that a person has `settled` are
    grey and low; the coloured frames remain to be done.
    """
    known = [error for frame, error in errors.items() if error != float("inf") and frame not in settled]
    least, most = min(known, default=0.0), max(known, default=0.0)
    room = max(most - least, scale.span)
    gap = 1.0 if axis.cell > 4 else 0.0
    for frame, error in errors.items():
        left, width = axis.x_of(frame), max(axis.cell - gap, 1.0)
        if frame in settled:
            painter.fillRect(QRectF(left, y + BARS - _LOW, width, _LOW), SETTLED)
        elif error == float("inf"):
            painter.fillRect(QRectF(left, y, width, BARS), LOST)
            _paint_cross(painter, QPointF(left + width / 2, y + BARS / 2))
        else:
            height = BARS * (_LEAST + (1 - _LEAST) * (error - least) / room)
            painter.fillRect(QRectF(left, y + BARS - height, width, height), doubt_colour(scale.share(error)))


def columns(axis: Axis) -> Sequence[tuple[float, range]]:
    """Cells at least a pixel wide: left edge, and the frames in each."""
    if axis.cell >= 1.0:
        return [(axis.x_of(frame), range(frame, frame + 1)) for frame in axis.frames]
    step = int(1.0 / axis.cell) + 1
    return [(axis.x_of(first), range(first, min(first + step, axis.last + 1))) for first in axis.frames[::step]]


def _drawn_strip(rows: ErrorRows) -> QImage:
    image = QImage(max(int(rows.axis.right - LEFT), 1), max(ROW * len(rows.names), 1), QImage.Format.Format_RGB32)
    image.fill(_EMPTY)
    painter = QPainter(image)
    for left, frames in columns(rows.axis):
        width = max(rows.axis.cell * len(frames) - (1.0 if rows.axis.cell > 4 else 0.0), 1.0)
        for index, name in enumerate(rows.names):
            done = rows.settled.get(name, frozenset())
            left_over = [frame for frame in frames if frame not in done]
            found = [error for frame in left_over if (error := rows.run.error_at(frame, name)) is not None]
            if not left_over:
                painter.fillRect(QRectF(left - LEFT, ROW * index, width, ROW - 1), SETTLED)
            elif found:
                worst = max(found)
                colour = LOST if worst == float("inf") else doubt_colour(rows.scale.share(worst))
                painter.fillRect(QRectF(left - LEFT, ROW * index, width, ROW - 1), colour)
    painter.end()
    return image


def _paint_cross(painter: QPainter, middle: QPointF) -> None:
    painter.setPen(QPen(QColor("#ffffff"), 1.2, Qt.PenStyle.SolidLine))
    painter.drawLine(middle + QPointF(-3, -3), middle + QPointF(3, 3))
    painter.drawLine(middle + QPointF(-3, 3), middle + QPointF(3, -3))
