"""Undo and redo: steps with a label, in memory and, where there is a store, on disk at once. No Qt, no numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rotopaint_ai.errors import ProjectError
from rotopaint_ai.project.state import State

MAX_UNDO = 500
_FAR_BACK = "This step lies in the project file, which is closed; open the project to reach it"
IN_MEMORY = 30  # steps on either side whose states are at hand; a run of a long shot is a hundred megabytes


@dataclass(frozen=True, slots=True)
class Step:
    """A step that can be undone: its label, and the state before it.

    A step of an earlier session, or an old step, has no state in memory; its store finds it by `number`.
    """

    label: str
    before: State | None = None
    number: int = 0


class StepStore(Protocol):
    """The store of all steps, which is the project file."""

    def append(self, step: Step, state: State) -> Step:
        """Store a step and the state that it led to; returns the step with its number."""

    def take_back(self, step: Step, state: State) -> State:
        """Undo a step on disk; `state` is the one shown. Returns the state before the step."""

    def holds(self, step: Step) -> bool:
        """Whether a step is on disk, so that its state can be loaded again."""

    def do_again(self, step: Step, state: State) -> State:
        """Redo a step on disk. `step.before` is the state to restore, where it is known."""


_StoreMove = Callable[[Step, State], State]  # `take_back` or `do_again` of a store


class History:
    """The steps to undo and to redo."""

    def __init__(self) -> None:
        self.store: StepStore | None = None
        self._undo: list[Step] = []
        self._redo: list[Step] = []

    @property
    def can_undo(self) -> bool:
        """Whether there is a step to undo."""
        return bool(self._undo)

    @property
    def can_redo(self) -> bool:
        """Whether there is a step to redo."""
        return bool(self._redo)

    @property
    def state_before(self) -> State | None:
        """The state before the last step; None where it is not in memory."""
        return self._undo[-1].before if self._undo else None

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the steps to undo, the latest last."""
        return tuple(step.label for step in self._undo)

    @property
    def labels_ahead(self) -> tuple[str, ...]:
        """The labels of the steps to redo, the next first."""
        return tuple(step.label for step in reversed(self._redo))

    def clear(self, store: StepStore | None = None, undo: Sequence[Step] = (), redo: Sequence[Step] = ()) -> None:
        """Start with no steps, or with the steps of a store (`redo`: the next step is the last item)."""
        self.store, self._undo, self._redo = store, list(undo), list(redo)

    def push(self, step: Step, state: State) -> None:
        """Add a step that led to `state`."""
        if self.store is not None:
            step = self.store.append(step, state)
        self._undo.append(step)
        del self._undo[:-MAX_UNDO]
        self._redo.clear()
        self._let_go(self._undo)

    def undo(self, state: State) -> tuple[str, State] | None:
        """Undo the last step; returns its label and the state before it, or None where there is none.

        Raises ProjectError where its state cannot be had.
        """
        take_back = None if self.store is None else self.store.take_back
        return self._move_step(self._undo, self._redo, state, take_back)

    def redo(self, state: State) -> tuple[str, State] | None:
        """Redo the last undone step; returns its label and the state after it, or None where there is none.

        Raises ProjectError where its state cannot be had.
        """
        do_again = None if self.store is None else self.store.do_again
        return self._move_step(self._redo, self._undo, state, do_again)

    def _move_step(
        self, source: list[Step], target: list[Step], state: State, store: _StoreMove | None
    ) -> tuple[str, State] | None:
        """Move the last step of `source` to `target`, where it holds `state`; its label and the state that it held.

        `store` finds that state on disk; without it, it is in memory. None where `source` is empty.
        """
        if not source:
            return None
        step = source[-1]
        found = step.before if store is None else store(step, state)
        if found is None:
            raise ProjectError(_FAR_BACK)
        source.pop()
        target.append(Step(step.label, state, step.number))
        self._let_go(target)
        return step.label, found

    def _let_go(self, steps: list[Step]) -> None:
        """Drop from memory the state of the step that has just become old, if the store holds it."""
        at = len(steps) - 1 - IN_MEMORY
        if at >= 0 and self.store is not None and self.store.holds(steps[at]):
            steps[at] = replace(steps[at], before=None)
