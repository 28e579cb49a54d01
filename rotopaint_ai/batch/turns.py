"""The order of the tasks of a show: which can start, and which starts first.

Shots are done one after the other, so that the first shots are finished early. The last shots are done stage by stage
instead: one after the other, their chains of track, paint and gather would leave most workers of a large cluster idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rotopaint_ai.batch.tasks import BatchTask

TAIL = 3  # number of last shots per worker
_STAGES = ("track", "paint", "gather")
_MOST_TASKS = 1e7  # most shots of a show, so that a priority outweighs the order of shots


@dataclass(frozen=True, slots=True)
class Turn:
    """A task that can start, and its priority: the higher starts first."""

    task: BatchTask
    priority: float


class Turns:
    """Releases each task when all tasks it needs are done; needed tasks outside the list count as done."""

    def __init__(self, tasks: Sequence[BatchTask], n_workers: int) -> None:
        keys = {task.key for task in tasks}
        self._waits = {task.key: keys.intersection(task.needs) for task in tasks}
        self._followers: dict[str, list[BatchTask]] = {}
        for task in tasks:
            for key in self._waits[task.key]:
                self._followers.setdefault(key, []).append(task)
        self._ordered = in_starting_order(tasks, n_workers)
        self._places = {task.key: place for place, task in enumerate(self._ordered)}

    def first(self) -> list[Turn]:
        """The tasks that wait for nothing, highest priority first."""
        return [self._turn(task) for task in self._ordered if not self._waits[task.key]]

    def after(self, done: BatchTask) -> list[Turn]:
        """The tasks that waited only for this one; call it once for each finished task."""
        found = []
        for task in self._followers.get(done.key, ()):
            self._waits[task.key].discard(done.key)
            if not self._waits[task.key]:
                found.append(self._turn(task))
        return found

    def _turn(self, task: BatchTask) -> Turn:
        return Turn(task, task.shot.priority - self._places[task.key] / _MOST_TASKS)


def in_starting_order(tasks: Sequence[BatchTask], n_workers: int) -> list[BatchTask]:
    """Tasks in the order in which `n_workers` workers should start them."""
    priorities = {task.shot.name: task.shot.priority for task in tasks}
    shots = sorted(priorities, key=lambda name: -priorities[name])
    places = {name: place for place, name in enumerate(shots)}
    n_first = len(shots) - TAIL * n_workers

    def rank(task: BatchTask) -> tuple[float, int, int, int]:
        place, stage = places[task.shot.name], _STAGES.index(task.kind)
        by_stage = (1, stage, place) if place >= n_first else (0, place, stage)
        return -task.shot.priority, *by_stage

    return sorted(tasks, key=rank)
