"""Work on pictures is the same by one process and by several."""

from __future__ import annotations

import signal

import pytest

from rotopaint_ai.stage.workers import map_in_order


@pytest.mark.parametrize(("workers", "is_ignored"), [(1, False), (2, True)])
def test_results_come_in_order_and_ctrl_c_is_left_to_who_waits(workers: int, is_ignored: bool) -> None:
    assert list(map_in_order(abs, [-3, 1, -2], workers)) == [3, 1, 2]
    found = list(map_in_order(signal.getsignal, [signal.SIGINT] * 2, workers))
    assert [handler == signal.SIG_IGN for handler in found] == [is_ignored] * 2
