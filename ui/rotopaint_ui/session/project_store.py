"""The project file behind a session: every step is written into it when it is made. No Qt.

One thread writes all steps in order. The screen waits for a gesture, which takes a millisecond: a kill loses at most
the gesture that is under way. It does not wait for a step that changes thousands of keys (a run, a refit of a long
shot), because that step can be made again. An error of the disk never costs work: the session goes on in memory and
reports it in one line, and the next step that can be written takes the missing ones with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import islice
from pathlib import Path

from rotopaint_ai.errors import ProjectError
from rotopaint_ai.project import LoadedProject, Project, State, codecs
from rotopaint_ui.session.history import Step

MANY = 2000  # changed values beyond which a step is written beside the screen
PATIENCE_S = 2.0  # how long the screen waits for a disk that hangs


SideWrite = Callable[[Project, int, State], State]


class ProjectStore:
    """Writes steps into an open project. `say` gets one line when that fails, and one when it works again."""

    def __init__(self, project: Project, say: Callable[[str], None]) -> None:
        self.project = project
        self.trouble: str | None = None
        self._say = say
        self._disk = State()  # the state on disk; only the writing thread uses it while it works
        self._numbers: dict[int, int] = {}  # steps of this session by our number, to theirs on disk
        self._n = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="project")
        self._jobs: deque[Future[None]] = deque()

    @property
    def path(self) -> Path:
        """The project file."""
        return self.project.path

    def load(self) -> tuple[State, list[Step], list[Step]]:
        """The state, the steps behind it, and the steps ahead (the next one last)."""
        loaded: LoadedProject = self.project.load()
        self._disk = loaded.state
        behind = [Step(done.label, None, done.number) for done in loaded.behind]
        ahead = [Step(done.label, None, done.number) for done in reversed(loaded.ahead)]
        return loaded.state, behind, ahead

    def append(self, step: Step, state: State) -> Step:
        """Write a step, and earlier steps that could not be written."""
        if self.project.is_read_only:
            return step
        self._n -= 1
        number = self._n

        def write() -> None:
            if step.before is not None and not self._is_on_disk(step.before):
                self._catch_up(step.before)  # steps that the disk refused are one of their own
            self._numbers[number] = self.project.append(step.label, self._disk, state)
            self._disk = state

        self._queue_write(write, is_waited_for=_is_small(step.before, state))
        return replace(step, number=number)

    def take_back(self, step: Step, state: State) -> State:
        """Undo a step on disk. Raises: ProjectError where the state before it can be read only from disk, and that
        fails."""
        before = step.before if step.before is not None else self._from_disk(step, state, Project.before)
        self._move_cursor(step, state, before, self.project.take_back)
        return before

    def do_again(self, step: Step, state: State) -> State:
        """Redo a step on disk. Raises: ProjectError where the state after it can be read only from disk, and that
        fails."""
        after = step.before if step.before is not None else self._from_disk(step, state, Project.after)
        self._move_cursor(step, state, after, self.project.do_again)
        return after

    def heartbeat(self, state: State) -> None:
        """Renew the lock, and repeat failed writes."""
        if self.project.is_read_only:
            return

        def write() -> None:
            self.project.heartbeat()
            if not self._is_on_disk(state):
                self._catch_up(state)

        self._queue_write(write, is_waited_for=False)

    def holds(self, step: Step) -> bool:
        """Whether a step is on disk, so that its state can be made again."""
        return not self.project.is_read_only and bool(self._step_number(step))

    def flush(self) -> None:
        """Wait until everything is on disk, or has failed to be written."""
        wait(self._jobs)
        self._reap()

    def is_kept(self, state: State) -> bool:
        """Whether a state is on disk."""
        self._reap()
        return not self._jobs and self._is_on_disk(state)

    def _is_on_disk(self, state: State) -> bool:
        return state is self._disk or state == self._disk

    def _catch_up(self, state: State) -> None:
        """Write everything that could not be written before, as one step."""
        self.project.append("saved late", self._disk, state)
        self._disk = state

    def close(self, state: State) -> None:
        """Write unsaved steps and close the file."""
        self.flush()
        if not self.project.is_read_only and not self.is_kept(state):
            self.heartbeat(state)  # the last chance
        self._thread.shutdown(wait=True)
        self._reap()
        self.project.close()

    def _move_cursor(self, step: Step, shown: State, state: State, move: Callable[[int], None]) -> None:
        if self.project.is_read_only:
            return

        def write() -> None:
            number = self._step_number(step)
            if number is None:  # it never reached the disk
                return
            if self._is_on_disk(shown):
                move(number)
                self._disk = state
            else:  # others never did, and the step's own values would be put among theirs
                self._catch_up(state)

        self._queue_write(write, is_waited_for=_is_small(shown, state))

    def _from_disk(self, step: Step, state: State, side: SideWrite) -> State:
        """The state on the other side of a step, read by the writing thread. Raises ProjectError."""
        number = self._step_number(step)
        assert number is not None
        return self._thread.submit(side, self.project, number, state).result()

    def _step_number(self, step: Step) -> int | None:
        return step.number if step.number > 0 else self._numbers.get(step.number)

    def _queue_write(self, write: Callable[[], None], *, is_waited_for: bool) -> None:
        job = self._thread.submit(write)
        self._jobs.append(job)
        if is_waited_for:
            wait([job], PATIENCE_S)
        self._reap()

    def _reap(self) -> None:
        while self._jobs and self._jobs[0].done():
            try:
                self._jobs.popleft().result()
            except ProjectError as error:
                self._note_trouble(error)
            else:
                self._stand()

    def _note_trouble(self, error: ProjectError) -> None:
        if self.trouble is None:
            self._say(f"Not saved: {error}")
        self.trouble = str(error)

    def _stand(self) -> None:
        if self.trouble is not None:
            self.trouble = None
            self._say("Saved again: everything is in the project file")


def _is_small(before: State | None, after: State) -> bool:
    """Whether two states differ in few values."""
    return before is not None and sum(1 for _ in islice(codecs.changes(before, after), MANY)) < MANY
