"""Which task starts first: shots alternate, the show ends stage by stage, and people's priorities come before all."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

from rotopaint_ai.batch import turns
from rotopaint_ai.batch.jobs_file import JobShot
from rotopaint_ai.batch.tasks import BatchTask
from rotopaint_ai.batch.turns import Turns, in_starting_order
from rotopaint_ai.frames import FrameRange
from rotopaint_ai.jobs import RunJob

SECONDS = {"track": 1.0, "paint": 2.0, "gather": 1.0}


def chain(name: str, n_ranges: int = 2, priority: int = 0) -> list[BatchTask]:
    """The tasks of a shot."""
    shot = JobShot(name, RunJob("a.####.exr", name, ("auto",)), chunk=1, retries=0, priority=priority)
    track = BatchTask(shot, "track")
    paint = [BatchTask(shot, "paint", FrameRange(n, n), (track.key,)) for n in range(1, n_ranges + 1)]
    return [track, *paint, BatchTask(shot, "gather", None, tuple(task.key for task in paint))]


def makespan(tasks: Sequence[BatchTask], n_workers: int) -> float:
    """Seconds until all tasks are done by workers that always take the ready task with the highest priority."""
    order, ready, busy, now = Turns(tasks, n_workers), list[tuple[float, int, BatchTask]](), [], 0.0
    number = itertools.count()

    def add(found: Sequence[turns.Turn]) -> None:
        for turn in found:
            heapq.heappush(ready, (-turn.priority, next(number), turn.task))

    add(order.first())
    while ready or busy:
        while ready and len(busy) < n_workers:
            task = heapq.heappop(ready)[2]
            heapq.heappush(busy, (now + SECONDS[task.kind], next(number), task))
        now, _, task = heapq.heappop(busy)
        add(order.after(task))
    return now


def test_a_task_begins_once_all_that_it_waits_for_is_done() -> None:
    track, one, two, gather = chain("a")
    order = Turns([track, one, two, gather], 1)
    assert [turn.task for turn in order.first()] == [track]
    assert [turn.task for turn in order.after(track)] == [one, two]
    assert order.after(two) == []
    assert [turn.task for turn in order.after(one)] == [gather]
    assert order.after(gather) == []


def test_unlisted_tasks_count_as_done() -> None:
    _, _, two, gather = chain("a")
    order = Turns([two, gather], 1)
    assert [turn.task for turn in order.first()] == [two]
    assert [turn.task for turn in order.after(two)] == [gather]


def test_shots_go_in_turn_and_the_last_ones_stage_by_stage() -> None:
    shots = [chain(name, 1) for name in "abcde"]
    found = [task.key for task in in_starting_order([task for shot in shots for task in shot], 1)]
    assert found[:6] == [f"{name}/{kind}" for name in "ab" for kind in ("track", "paint.1", "gather")]
    assert found[6:] == [f"{name}/{kind}" for kind in ("track", "paint.1", "gather") for name in "cde"]


def test_preferred_shots_go_first_and_whole() -> None:
    tasks = [*chain("a"), *chain("b", priority=1)]
    assert [task.shot.name for task in in_starting_order(tasks, 1)] == ["b"] * 4 + ["a"] * 4
    order = Turns(tasks, 1)
    (first, second) = order.first()
    assert (first.task.shot.name, second.task.shot.name) == ("b", "a")
    last_of_b = [*order.after(chain("b", priority=1)[0])][-1]
    assert 0.5 < last_of_b.priority < first.priority < 1.0 + 1e-9
    assert second.priority < 1e-9


def test_the_end_of_a_show_leaves_few_workers_idle() -> None:
    """By hand: both tracks, the ranges of one shot, those of the other, both gathers: 1 + 2 + 2 + 1 s on two workers.

    Shot after shot it takes 7 s: one worker gathers the first shot from 3 to 4, its partner ends the second's ranges at
    6, and the last gather ends at 7.
    """
    tasks = [task for name in "ab" for task in chain(name)]
    assert makespan(tasks, 2) == 6.0


def test_a_show_on_a_large_cluster_takes_hardly_longer_than_its_work() -> None:
    tasks = [task for number in range(200) for task in chain(f"{number:03}")]
    ideal = sum(SECONDS[task.kind] for task in tasks) / 64
    assert makespan(tasks, 64) <= 1.1 * ideal
