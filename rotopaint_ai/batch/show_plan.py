"""The tasks of a show, and which of them are not done yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from rotopaint_ai.batch.jobs_file import Show
from rotopaint_ai.batch.notes import TaskNotes
from rotopaint_ai.batch.tasks import BatchTask, TaskKind, tasks_of
from rotopaint_ai.errors import RotopaintError, UsageError
from rotopaint_ai.inference.pack import load_pack

NOTES = ".rotopaint/tasks"
BEFORE: Mapping[TaskKind, tuple[TaskKind, ...]] = {"track": (), "paint": ("track",), "gather": ("track", "paint")}


@dataclass(frozen=True, slots=True)
class ShowPlan:
    """The tasks of a show in a valid order, and the shots that cannot be started, with the reason."""

    tasks: tuple[BatchTask, ...]
    refused: Mapping[str, str]
    notes: TaskNotes

    def of_shot(self, name: str) -> tuple[BatchTask, ...]:
        """The tasks of one shot."""
        return tuple(task for task in self.tasks if task.shot.name == name)

    def unfinished(self, only: str | None = None) -> tuple[BatchTask, ...]:
        """The unfinished tasks of the show or of one shot. A finished shot has none, however it is divided."""
        last = {task.shot.name: task for task in self.tasks}
        begun = {name for name, task in last.items() if only in (None, name) and not self.notes.is_done(task)}
        return tuple(task for task in self.tasks if task.shot.name in begun and not self.notes.is_done(task))

    def check_ready(self, task: BatchTask) -> None:
        """Raise UsageError where a task waits for others."""
        left = {other.key for other in self.unfinished(task.shot.name)}
        if waiting := [key for key in task.needs if key in left]:
            raise UsageError(f"{task.key}: waits for {waiting[0]}; do that first")

    def blocking_failure(self, task: BatchTask) -> str | None:
        """Why a task that a farm asks for cannot be done: a task of its shot that it depends on has failed."""
        for other in self.unfinished(task.shot.name):
            if other.kind in BEFORE[task.kind] and (reasons := self.notes.failures(other)):
                return f"{other.key} failed: {reasons[-1]}"
        return None


def plan_show(show: Show, only: str | None = None) -> ShowPlan:
    """Plan the tasks of every shot, or of one; a shot that cannot be started does not stop the others."""
    tasks: list[BatchTask] = []
    refused = dict(show.refused)
    open_pack = cache(load_pack)
    for shot in show.shots if only is None else [show.shot(only)]:
        try:
            tasks += tasks_of(shot, open_pack)
        except (RotopaintError, OSError) as error:
            refused[shot.name] = " ".join(str(error).split())
    return ShowPlan(tuple(tasks), refused, TaskNotes(show.out / NOTES))
