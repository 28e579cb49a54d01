"""A worker: takes whatever task of a show can be done now, until nothing is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rotopaint_ai.batch.jobs_file import Show
from rotopaint_ai.batch.ledger import Claim, Ledger
from rotopaint_ai.batch.tasks import BatchTask, Kind, tasks_of
from rotopaint_ai.batch.written import written_by
from rotopaint_ai.errors import CancelledError, RotopaintError, UsageError
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.jobs import Cancel, Event, Sink, warning
from rotopaint_ai.pipeline import split

POLL_S = 0.5
LEDGER = ".rotopaint/tasks"
BEFORE: Mapping[Kind, tuple[Kind, ...]] = {"track": (), "paint": ("track",), "gather": ("track", "paint")}


Do = Callable[[BatchTask, Sink, Cancel], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Board:
    """The tasks of a show beside the ledger. What is done stays done, and is not looked up again."""

    tasks: tuple[BatchTask, ...]
    ledger: Ledger
    _by_key: dict[str, BatchTask] = field(init=False, default_factory=dict)
    _last: dict[str, BatchTask] = field(init=False, default_factory=dict)  # of each shot, the task that ends it
    _done: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._by_key.update({task.key: task for task in self.tasks})
        self._last.update({task.shot.name: task for task in self.tasks})

    def is_done(self, key: str) -> bool:
        """Whether a task is done. With its shot all of a shot's tasks are, however it was divided then."""
        if key not in self._done:
            task = self._by_key[key]
            if self.ledger.is_done(self._last[task.shot.name]) or self.ledger.is_done(task):
                self._done.add(key)
        return key in self._done

    def ready(self) -> Iterator[BatchTask]:
        """Tasks that nothing keeps from being done but, perhaps, another worker."""
        for task in self.tasks:
            if not self.is_done(task.key) and all(map(self.is_done, task.needs)) and not self.ledger.has_given_up(task):
                yield task

    def is_possible(self) -> bool:
        """Whether anything is left that can still be done: not given up, nor waiting for what was."""
        stuck: set[str] = set()
        for task in self.tasks:
            if self.is_done(task.key):
                continue
            if not stuck.isdisjoint(task.needs) or self.ledger.has_given_up(task):
                stuck.add(task.key)
            else:
                return True
        return False


@dataclass(frozen=True, slots=True)
class Planned:
    """What there is to do for a show, and shots that cannot be begun with the reason."""

    board: Board
    refused: Mapping[str, str]


def plan_show(show: Show, only: str | None = None) -> Planned:
    """Find the frames of every shot, or of one; one that cannot be begun does not keep the others from being done."""
    tasks: list[BatchTask] = []
    refused = dict(show.refused)
    open_pack = cache(load_pack)
    for shot in show.shots if only is None else [show.shot(only)]:
        try:
            tasks += tasks_of(shot, open_pack)
        except (RotopaintError, OSError) as error:
            refused[shot.name] = " ".join(str(error).split())
    return Planned(Board(tuple(tasks), Ledger(show.out / LEDGER)), refused)


def work(board: Board, sink: Sink, cancel: Cancel, do: Do | None = None) -> None:
    """Do tasks until none is left that could still be done, by us or by anybody. Raises CancelledError."""
    perform = do or perform_task
    while board.is_possible():
        cancel.check()
        if not any(_try_task(task, board.ledger, sink, cancel, perform) for task in board.ready()):
            time.sleep(POLL_S)  # others are at all that could be done now


def do_one(task: BatchTask, board: Board, sink: Sink, cancel: Cancel, do: Do | None = None) -> str | None:
    """Do one task that a farm chose, as often as its shot allows; returns why it could not be done.

    Where another worker is at it, waits until that one is done, or is silent: a farm that has lost a machine asks at
    once. Raises UsageError where the task waits for others, CancelledError.
    """
    ledger = board.ledger
    if board.is_done(task.key):
        return None
    waiting = [key for key in task.needs if not board.is_done(key)]
    if waiting:
        raise UsageError(f"{task.key}: waits for {waiting[0]}; do that first")
    ledger.forgive(task)
    last_holder: str | None = None
    while not board.is_done(task.key):
        if (reason := ledger.verdict(task)) is not None:
            return reason
        cancel.check()
        if not _try_task(task, ledger, sink, cancel, do or perform_task):
            last_holder = _tell_holder(task, ledger, sink, last_holder)
            time.sleep(POLL_S)
    return None


def given_up(task: BatchTask, board: Board) -> str | None:
    """Why a task that a farm asks for cannot be done: something of its shot that it waits for has failed for good."""
    for other in board.tasks:
        if other.shot.name != task.shot.name or other.kind not in BEFORE[task.kind]:
            continue
        reason = None if board.is_done(other.key) else board.ledger.verdict(other)
        if reason is not None:
            return f"{other.key} failed: {reason}"
    return None


def _tell_holder(task: BatchTask, ledger: Ledger, sink: Sink, last_holder: str | None) -> str | None:
    holder = ledger.holder(task)
    if holder is not None and holder != last_holder:
        sink(warning(f"{task.key}: {holder} is at it; waiting until that is done, or silent for {ledger.lease_s:g} s"))
    return holder or last_holder


def perform_task(task: BatchTask, sink: Sink, cancel: Cancel) -> Mapping[str, Any]:
    """Do a task; returns what the ledger should know of it."""
    began = time.monotonic()
    failed: Mapping[int, str] = {}
    n_done = 0
    if task.kind == "track":
        split.track(task.shot.job, sink, cancel)
    elif task.kind == "paint":
        assert task.frames is not None
        painted = split.paint(task.shot.job, task.frames, sink, cancel)
        n_done, failed = len(painted.done), painted.failed
    else:
        outcome = split.gather(task.shot.job, sink)
        n_done, failed = len(outcome.done), outcome.failed
    return {
        "frames": n_done,
        "failed": {str(frame): text for frame, text in failed.items()},
        "seconds": round(time.monotonic() - began, 2),
        **written_by(task),
    }


def _try_task(task: BatchTask, ledger: Ledger, sink: Sink, cancel: Cancel, do: Do) -> bool:
    """Do a task if it can be had; returns whether."""
    claim = ledger.claim(task)
    if claim is None:
        return False
    _under_claim(task, claim, ledger, sink, cancel, do)
    return True


def _under_claim(task: BatchTask, claim: Claim, ledger: Ledger, sink: Sink, cancel: Cancel, do: Do) -> None:
    mine = Cancel()
    claim.beat(mine.request)
    try:
        facts = do(task, _marked(sink, task), _Either(cancel, mine))
        if claim.is_ours():
            _note_result(task, facts, ledger)
    except CancelledError:
        cancel.check()
        sink(warning(f"{task.key}: taken over by another worker, because this one was silent for too long"))
    except (RotopaintError, OSError) as error:
        message = _one_line_of(error)
        n = ledger.fail(task, message)
        sink(Event("error", {"task": task.key, "message": f"{task.key}: {message} (attempt {n})"}))
    finally:
        claim.release()


def _one_line_of(error: Exception) -> str:
    """One line; the system's own words with the file that they are about."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}; check the disk, its space and its permissions"
    return " ".join(str(error).split())


def _note_result(task: BatchTask, facts: Mapping[str, Any], ledger: Ledger) -> None:
    """Done - or, where frames failed, another attempt, until the shot's patience is at its end."""
    if facts["failed"] and task.kind == "paint":
        n = ledger.fail(task, next(iter(facts["failed"].values())))
        if n <= task.shot.retries:
            return
    ledger.finish(task, facts)


def _marked(sink: Sink, task: BatchTask) -> Sink:
    """A sink that says which shot and task an event belongs to."""

    def tell(event: Event) -> None:
        sink(Event(event.kind, {"shot": task.shot.name, "task": task.key, **event.facts}))

    return tell


class _Either(Cancel):
    """Asked to stop when either of two is."""

    def __init__(self, first: Cancel, second: Cancel) -> None:
        super().__init__()
        self._parts = (first, second)

    @property
    def requested(self) -> bool:
        return any(part.requested for part in self._parts)
