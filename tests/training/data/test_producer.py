"""Items produced ahead by a separate thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pytest

from rotopaint_ai.producer import Producer


def test_items_come_in_order_and_end() -> None:
    producer = Producer(iter(range(5)), 2, "test")
    assert [producer.take() for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(StopIteration):
        producer.take()


def test_what_the_items_raise_is_raised_after_those_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    producer = Producer(items(), 2, "test")
    assert producer.take() == 1
    with pytest.raises(OSError, match="gone"):
        producer.take()


def test_an_item_that_is_late_can_be_requested_again() -> None:
    may_go = threading.Event()

    def items() -> Iterator[int]:
        may_go.wait()
        yield 7

    producer = Producer(items(), 1, "test")
    with pytest.raises(queue.Empty):
        producer.take(0.01)
    may_go.set()
    assert producer.take() == 7


def test_no_more_than_so_many_are_made_ahead_and_none_after_the_stop() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1_000_000):
            made.append(number)
            yield number

    producer = Producer(items(), 3, "test")
    for _ in range(10):
        producer.take()
    producer.stop()
    producer.join()
    assert len(made) <= 10 + 3 + 2  # taken, queued, one held and one started
