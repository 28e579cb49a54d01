"""An attempt at a task, wherever it is made: in this process, for a farm, or by a worker of a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rotopaint_ai.batch.notes import TaskNotes
from rotopaint_ai.batch.task_files import written_by
from rotopaint_ai.batch.tasks import BatchTask, build_digest
from rotopaint_ai.errors import BusyError, CancelledError, RotopaintError, UsageError
from rotopaint_ai.jobs import Cancel, Event, Sink, warning
from rotopaint_ai.pipeline.run import gather, paint, track

POLL_S = 0.5

Do = Callable[[BatchTask, Sink, Cancel], Mapping[str, Any]]


class TaskFailedError(RotopaintError):
    """An attempt failed; the failure is also recorded in the notes."""


def perform_task(task: BatchTask, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
    """Execute a task; returns the facts for its notes."""
    began = time.monotonic()
    failed: Mapping[int, str] = {}
    n_done = 0
    if task.kind == "track":
        failed = dict.fromkeys(track(task.shot.job, sink, cancel), "could not be read; check the plate")
    elif task.kind == "paint":
        assert task.frames is not None
        painted = paint(task.shot.job, task.frames, sink, cancel)
        n_done, failed = len(painted.done), painted.failed
    else:
        outcome = gather(task.shot.job, sink)
        n_done, failed = len(outcome.done), outcome.failed
    return {
        "frames": n_done,
        "failed": {str(frame): text for frame, text in failed.items()},
        "seconds": round(time.monotonic() - began, 2),
        **written_by(task),
    }


def attempt(task: BatchTask, notes: TaskNotes, do: Do, sink: Sink, cancel: Cancel) -> None:
    """Execute a task and note its result. Raises TaskFailedError where another attempt may help, CancelledError.

    A task that is done already, for example by a worker that seemed lost, is not repeated. A range with failed frames
    is repeated as often as its shot allows, and then accepted as it is.
    """
    tell = _mark_events(sink, task)
    try:
        _refuse_other_build(task)
        facts = _when_free(task, notes, do, tell, cancel)
    except CancelledError:
        raise
    except (RotopaintError, OSError) as error:
        raise _noted_failure(task, notes, _one_line_of(error), sink) from error
    if facts is None:
        return
    if facts["failed"] and task.kind != "gather" and len(notes.failures(task)) < task.shot.retries:
        raise _noted_failure(task, notes, next(iter(facts["failed"].values())), sink)
    notes.finish(task, facts)


def work_here(tasks: Iterable[BatchTask], notes: TaskNotes, do: Do, sink: Sink, cancel: Cancel) -> None:
    """Do tasks one after the other in this process, each as often as its shot allows. Raises CancelledError."""
    stuck: set[str] = set()
    for task in tasks:
        if not stuck.isdisjoint(task.needs) or do_one(task, notes, do, sink, cancel) is not None:
            stuck.add(task.key)


def do_one(task: BatchTask, notes: TaskNotes, do: Do, sink: Sink, cancel: Cancel) -> str | None:
    """Do a task as often as its shot allows; returns why it could not be done. Raises CancelledError."""
    notes.forgive(task)
    reason = None
    for _ in range(task.shot.retries + 1):
        cancel.check()
        try:
            attempt(task, notes, do, sink, cancel)
            return None
        except TaskFailedError as error:
            reason = str(error)
    return reason


def _refuse_other_build(task: BatchTask) -> None:
    if task.build and task.build != build_digest():
        raise UsageError(
            "this worker has another version of RotoPaint AI than the program that started the show; install that one"
        )


def _when_free(task: BatchTask, notes: TaskNotes, do: Do, sink: Sink, cancel: Cancel) -> Mapping[str, Any] | None:
    """Execute a task once no process that seemed lost still works on it; None where it was done meanwhile."""
    is_reported = False
    while not notes.is_done(task):
        try:
            return do(task, sink, cancel)
        except BusyError:
            if not is_reported:
                sink(warning(f"{task.key}: another process works on it; waiting until it has ended"))
            is_reported = True
            time.sleep(POLL_S)
            cancel.check()
    return None


def _noted_failure(task: BatchTask, notes: TaskNotes, message: str, sink: Sink) -> TaskFailedError:
    n = notes.fail(task, message)
    sink(Event("error", {"task": task.key, "message": f"{task.key}: {message} (attempt {n})"}))
    return TaskFailedError(message)


def _one_line_of(error: Exception) -> str:
    """An error as one line; a system error with the name of its file."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}; check the disk, its space and its permissions"
    return " ".join(str(error).split())


def _mark_events(sink: Sink, task: BatchTask) -> Sink:
    """A sink that adds the shot and the task to each event."""

    def tell(event: Event) -> None:
        sink(Event(event.kind, {"shot": task.shot.name, "task": task.key, **event.facts}))

    return tell
