"""Work on pictures is the same by one process and by several."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from rotopaint_ai.errors import CancelledError, TrainingError
from rotopaint_ai.stage.workers import map_in_order


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_and_ctrl_c_is_left_to_who_waits(workers: int) -> None:
    assert list(map_in_order(abs, [-3, 1, -2], workers)) == [3, 1, 2]
    wanted = signal.SIG_IGN if workers > 1 else signal.getsignal(signal.SIGINT)
    assert list(map_in_order(signal.getsignal, [signal.SIGINT] * 2, workers)) == [wanted] * 2


def _touch_slowly(path: Path) -> None:
    time.sleep(0.6)
    path.touch()


def test_a_stop_is_heeded_while_workers_work(tmp_path: Path) -> None:
    """What is begun is finished, what waits is not begun."""
    looks = iter([None, None])

    def check() -> None:
        if next(looks, "over") == "over":
            raise CancelledError("stopped")

    with pytest.raises(CancelledError):
        list(map_in_order(_touch_slowly, [tmp_path / str(k) for k in range(40)], 2, check))
    assert len(list(tmp_path.iterdir())) < 12


def test_a_process_that_the_system_ends_is_an_error_and_no_wait() -> None:
    with pytest.raises(TrainingError, match="out of memory"):
        list(map_in_order(os._exit, [9, 9], 2))
