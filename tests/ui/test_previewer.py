"""The previewed seam is laid over the plate in the look that both are in, never in another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QObject

from rotopaint_ui.engine.frame_cache import CLEAN, PLATE, DisplayLook, FrameCache
from rotopaint_ui.engine.live_client import LiveClient, SeamPreview, SeamQuestion
from rotopaint_ui.services.previewer import Previewer
from rotopaint_ui.session.session import ShotSession

from .conftest import picture


class Engine(LiveClient):
    """A fake engine that replies when `answer` is called, with a white 4 x 4 patch in the plate's corner."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[SeamQuestion, Callable[[SeamPreview | None], None]]] = []

    def seam(self, question: SeamQuestion, reply: Callable[[SeamPreview | None], None]) -> None:
        self.asked.append((question, reply))

    def answer(self) -> None:
        question, reply = self.asked[-1]
        reply(SeamPreview(question.frame, 0, 0, 4, 4, b"\xff" * 48, b"\xff" * 16, 3.0, 1.0, 5.0))


@pytest.fixture
def engine() -> Engine:
    return Engine()


def test_a_new_view_never_leaves_a_rectangle_in_another_tone(
    session: ShotSession, frame_cache: FrameCache, engine: Engine
) -> None:
    owner = QObject()
    previewer = Previewer(session, frame_cache, engine, owner)
    previewer.switch(True)
    previewer._ask_for_preview()
    engine.answer()
    assert frame_cache.is_replaced(CLEAN, 1001)
    shown = frame_cache.image(CLEAN, 1001)
    assert shown is not None
    assert (shown.pixelColor(2, 2).red(), shown.pixelColor(40, 40).red()) == (255, 0x40)

    frame_cache.look = DisplayLook(exposure=1.0)  # the plate's picture in it has not come yet
    previewer._ask_for_preview()
    engine.answer()
    assert frame_cache.image(CLEAN, 1001) is shown
    frame_cache._images[PLATE, 1001] = (DisplayLook(exposure=1.0), picture("#808080"))
    frame_cache.image_ready.emit(PLATE, 1001)
    now = frame_cache.image(CLEAN, 1001)
    assert now is not None
    assert (now.pixelColor(2, 2).red(), now.pixelColor(40, 40).red()) == (255, 0x80)
