"""Messages of a running job."""

from __future__ import annotations

import sys
import threading
from types import FrameType

import pytest

from rotopaint_ai.errors import CancelledError
from rotopaint_ai.jobs import Cancel


def test_a_signal_in_the_middle_of_a_stop_stops_as_well() -> None:
    """A handler can run between any two steps of the thread that it interrupts, even while that requests a stop."""
    cancel, asked = Cancel(), []

    def interrupt(frame: FrameType, event: str, argument: object) -> None:
        if len(asked) < 20:
            asked.append(event)
            cancel.request()

    def ask() -> None:
        sys.setprofile(interrupt)
        try:
            cancel.request()
        finally:
            sys.setprofile(None)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert asked
    with pytest.raises(CancelledError, match="--resume goes on"):
        cancel.check()
