"""The project file behind a session: every step goes into it as it is made. No Qt.

A disk that refuses never costs work: the session goes on in memory, what is not on disk yet is written with the next
step that goes through, and the artist is told in one line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rotopaint_ai.errors import ProjectError
from rotopaint_ai.project import Loaded, Project, State, packing
from rotopaint_ui.history import Step


class ProjectStore:
    """Writes steps into an open project. `say` gets one line when that fails, and one when it works again."""

    def __init__(self, project: Project, say: Callable[[str], None]) -> None:
        self.project = project
        self.trouble: str | None = None
        self._say = say
        self._kept = State()  # what is on disk

    @property
    def path(self) -> Path:
        """The project file."""
        return self.project.path

    def load(self) -> tuple[State, list[Step], list[Step]]:
        """The state, the steps behind it and those ahead (the next one last)."""
        loaded: Loaded = self.project.load()
        self._kept = loaded.state
        behind = [Step(done.label, None, done.number) for done in loaded.behind]
        ahead = [Step(done.label, None, done.number) for done in reversed(loaded.ahead)]
        return loaded.state, behind, ahead

    def append(self, step: Step, state: State) -> Step:
        """Write a step, and whatever could not be written before it."""
        if self.project.is_read_only:
            return step
        try:
            number = self.project.append(step.label, self._kept, state)
        except ProjectError as error:
            self._fail(error)
            return step
        self._stand(state)
        return replace(step, number=number)

    def take_back(self, step: Step, state: State) -> State:
        """Undo a step on disk. Raises ProjectError where only the disk knows what stood before."""
        before = step.before if step.before is not None else packing.applied(state, self.project.before(step.number))
        self._move(step, before, self.project.take_back)
        return before

    def do_again(self, step: Step, state: State) -> State:
        """Redo a step on disk. Raises ProjectError where only the disk knows what stands after."""
        after = step.before if step.before is not None else packing.applied(state, self.project.after(step.number))
        self._move(step, after, self.project.do_again)
        return after

    def beat(self, state: State) -> None:
        """Give a sign of life, and try again what the disk refused."""
        if self.project.is_read_only:
            return
        try:
            self.project.beat()
            if state is not self._kept and state != self._kept:
                self.project.append("saved late", self._kept, state)
        except ProjectError as error:
            self._fail(error)
        else:
            self._stand(state)

    def is_kept(self, state: State) -> bool:
        """Whether a state is on disk."""
        return state is self._kept or state == self._kept

    def close(self, state: State) -> None:
        """Write what is left and let go of the file."""
        if not self.project.is_read_only and not self.is_kept(state):
            self.beat(state)
        self.project.close()

    def _move(self, step: Step, state: State, move: Callable[[int], None]) -> None:
        if self.project.is_read_only or not step.number:
            return
        try:
            move(step.number)
        except ProjectError as error:
            self._fail(error)
        else:
            self._stand(state)

    def _fail(self, error: ProjectError) -> None:
        if self.trouble is None:
            self._say(f"Not saved: {error}")
        self.trouble = str(error)

    def _stand(self, state: State) -> None:
        self._kept = state
        if self.trouble is not None:
            self.trouble = None
            self._say("Saved again: everything is in the project file")
