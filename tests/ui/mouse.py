"""A mouse for the viewer, a live engine that answers when told to, and helpers for the session's points.

The viewer is 640 x 480 on a plate of 64 x 48: one plate pixel is 10 screen pixels. The seam runs from (10, 20) over
(30, 20) to (50, 20), its inner tangents are 5 px long; the eye is a triangle (20, 8), (28, 8), (24, 14).
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from rotopaint_ai.project.state import Spread, State
from rotopaint_ai.shapes.roto import Points
from rotopaint_ui.session.correction_edits import KeysReply, LandmarkDrag, ShapesReply
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.viewer.canvas import Canvas

LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
SHIFT, CTRL, ALT = (
    Qt.KeyboardModifier.ShiftModifier,
    Qt.KeyboardModifier.ControlModifier,
    Qt.KeyboardModifier.AltModifier,
)
Place = tuple[float, float]


def spot(canvas: Canvas, place: Place) -> QPoint:
    return canvas.view.to_screen(*place).toPoint()


def move(qtbot: QtBot, canvas: Canvas, place: Place, held: Qt.KeyboardModifier = NONE) -> None:
    """Move the mouse with the left button, and keys, held; `QTest.mouseMove` cannot."""
    point = QPointF(spot(canvas, place))
    event = QMouseEvent(QEvent.Type.MouseMove, point, canvas.mapToGlobal(point), Qt.MouseButton.NoButton, LEFT, held)
    QApplication.sendEvent(canvas, event)


def drag(qtbot: QtBot, canvas: Canvas, start: Place, *ways: Place, held: Qt.KeyboardModifier = NONE) -> None:
    """Press at the start, move through the given places, release at the last one."""
    qtbot.mousePress(canvas, LEFT, held, spot(canvas, start))
    for way in ways:
        move(qtbot, canvas, way, held)
    qtbot.mouseRelease(canvas, LEFT, held, spot(canvas, ways[-1]))


class Near(list[Place]):
    """Compares places within a thousandth of a plate pixel, or a given tolerance."""

    def __init__(self, places: Iterable[Place], off_px: float = 1e-3) -> None:
        super().__init__(places)
        self._off_px = off_px

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, list)
        found, expected = ([value for place in each for value in place] for each in (other, self))
        return bool(found == pytest.approx(expected, abs=self._off_px))


def points(session: ShotSession, name: str = "seam", frame: int = 1001) -> Points:
    assert session.document is not None
    return session.document.shape(name).at(frame)


def places(session: ShotSession, name: str = "seam", frame: int = 1001) -> list[Place]:
    return [(p.x, p.y) for p in points(session, name, frame)]


class Engine:
    """A fake live engine that answers when told to: the seam moves down by as much as the nose."""

    def __init__(self) -> None:
        self.asked: list[tuple[LandmarkDrag, ShapesReply]] = []

    def drag(self, question: LandmarkDrag, reply: ShapesReply) -> None:
        self.asked.append((question, reply))

    def spread(self, way: str, state: State, spread: Spread | None, reply: KeysReply) -> None:
        raise AssertionError

    def answer(self) -> None:
        question, reply = self.asked[-1]
        before, after = question.before[0], question.after[0]
        assert before is not None
        assert after is not None
        seam = question.document.shape("seam").at(question.frame)
        reply({"seam": tuple(p._replace(y=p.y + after.y - before.y) for p in seam)})
