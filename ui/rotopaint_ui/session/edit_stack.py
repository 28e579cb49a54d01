"""The state of the open shot and the steps that led to it: edits, gestures, undo. No Qt, no numpy.

Undo keeps whole states; states are frozen values, so that a step costs what changed and nothing else. Everything that
changes goes through `push` or a gesture, one step each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rotopaint_ai.errors import ProjectError
from rotopaint_ai.project.state import State
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.session.history import History, Step, StepStore
from rotopaint_ui.session.worked_marks import without_worked

LET_GO = "Let go of the drag first, or leave it with Esc"


class PendingAnswer(Protocol):
    """The engine's last answer, for which the end of a gesture may have to wait."""

    def finish(self) -> None:
        """End the gesture once the answer has arrived."""

    def settle(self) -> None:
        """If only the answer is missing, end the gesture now with what is shown."""

    def forget(self) -> None:
        """Drop the answer, because the gesture was cancelled."""


class EditStack:
    """`changed` is called after every change, `say` with lines for the status.

    `pending` is the answer that gestures wait for; the functions in `moved` are called with the states before and after
    undo or redo.
    """

    def __init__(self, changed: Callable[[], None], say: Callable[[str], None]) -> None:
        self.pending: PendingAnswer | None = None
        self.moved: list[Callable[[State, State], None]] = []
        self.made: list[Callable[[str], None]] = []  # called with the label of each new step
        self._changed, self._say = changed, say
        self._state = State()
        self._gesture: Step | None = None
        self._burst: object = None  # the object that repeated key presses move
        self._history = History()

    @property
    def state(self) -> State:
        """The state that is shown."""
        return self._state

    def show(
        self, state: State, store: StepStore | None = None, undo: Sequence[Step] = (), redo: Sequence[Step] = ()
    ) -> None:
        """Show another shot: its state, and the steps of its store (`redo`: the next step is the last item)."""
        self._state, self._gesture, self._burst = state, None, None
        if self.pending is not None:
            self.pending.forget()
        self._history.clear(store, undo, redo)

    def leave_store(self) -> None:
        """From now on keep steps only in memory."""
        self._history.store = None

    # --- edits and gestures

    def push(self, label: str, new: State) -> None:
        """Change to a new state in one undo step. During a drag, only a message is shown."""
        if self.is_gesture_open():
            self._changed()  # the pressed button shows the real state again
        elif new != self._state:
            new = without_worked(self._state, new)
            self._push(Step(label, self._state), new)
            self._state = new
            self._changed()

    def begin(self, label: str) -> None:
        """Begin a gesture: the states shown until `commit` become one step."""
        self.settle()
        self._gesture = Step(label, self._state)

    def begin_burst(self, label: str, what: object) -> bool:
        """Start or continue a gesture of repeated key presses; returns whether it continues.

        It lasts until `end_burst`, until another edit, or until a call with another `what`.
        """
        if self._burst is not None and self._burst == what:
            return True
        self.begin(label)
        self._burst = what
        return False

    def end_burst(self) -> None:
        """End a gesture of key presses: its changes become one step, once the shapes have followed."""
        if self._burst is not None:
            self._burst = None
            if self.pending is not None:
                self.pending.finish()
            else:
                self.commit()

    def settle(self) -> None:
        """Before another edit: end key presses and drags at once, with the shown state, if only an answer is
        missing."""
        self.end_burst()
        if self.pending is not None:
            self.pending.settle()

    def is_gesture_open(self) -> bool:
        """Whether a drag is in progress, which must end before any other edit; shows a message."""
        self.settle()
        if self._gesture is not None:
            self._say(LET_GO)
        return self._gesture is not None

    @property
    def has_gesture(self) -> bool:
        """Whether a gesture is in progress, even without changes; the call does not end it."""
        return self._gesture is not None

    @property
    def before_gesture(self) -> State:
        """The state when the gesture began; the current one without a gesture."""
        before = self._gesture.before if self._gesture is not None else None
        return self._state if before is None else before

    @property
    def document_before(self) -> RotoDocument | None:
        """The shapes before the step that undo would revert; None unless that step was made in this session."""
        before = self._history.state_before
        return None if before is None else before.document

    @property
    def is_dragging(self) -> bool:
        """Whether a gesture is in progress and has changed something."""
        return self._gesture is not None and self._gesture.before is not self._state

    def preview(self, new: State) -> None:
        """Show a state during a gesture; does nothing after the gesture was ended by something else."""
        if self._gesture is not None:
            self._state = new
            self._changed()

    def commit(self) -> None:
        """End the gesture as one step; without a change there is no step."""
        step, self._gesture = self._gesture, None
        if step is not None and step.before is not None and step.before != self._state:
            self._state = without_worked(step.before, self._state)
            self._push(step, self._state)
            self._changed()
        elif step is not None and step.before is not None:
            self._state = step.before

    def abort(self) -> None:
        """Cancel the gesture and restore the state before it."""
        self._burst = None
        step, self._gesture = self._gesture, None
        if self.pending is not None:
            self.pending.forget()
        if step is not None and step.before is not None:
            self._state = step.before
            self._changed()

    def _push(self, step: Step, state: State) -> None:
        self._history.push(step, state)
        for listener in self.made:
            listener(step.label)

    # --- undo

    def undo(self) -> str | None:
        """Undo the last step; returns its label, or None where there is none."""
        return self._swap_steps(self._history.undo)

    def redo(self) -> str | None:
        """Redo the last undone step; returns its label, or None where there is none."""
        return self._swap_steps(self._history.redo)

    def go_to_step(self, n: int) -> str | None:
        """Undo or redo until `n` steps are done; returns the label of the last one, or None."""
        behind = len(self._history.labels)
        move = self._history.undo if n < behind else self._history.redo
        return self._swap_steps(move, abs(n - behind))

    @property
    def can_undo(self) -> bool:
        """Whether there is a step to undo, or a gesture that would become one."""
        return self._history.can_undo or self.is_dragging

    @property
    def can_redo(self) -> bool:
        """Whether there is a step to redo."""
        return self._history.can_redo

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the steps to undo, the latest last."""
        return self._history.labels

    @property
    def labels_ahead(self) -> tuple[str, ...]:
        """The labels of the steps to redo, the next first."""
        return self._history.labels_ahead

    @property
    def last_step(self) -> str | None:
        """The label of the step that undo would revert."""
        return self._history.labels[-1] if self._history.can_undo else None

    def _swap_steps(self, move: Callable[[State], tuple[str, State] | None], n: int = 1) -> str | None:
        self.settle()
        before, label = self._state, None
        for _ in range(n if self._gesture is None else 0):
            try:
                step = move(self._state)
            except ProjectError as error:
                self._say(str(error))
                break
            if step is None:
                break
            label, self._state = step
        if label is None:
            return None
        for follow in self.moved:
            follow(before, self._state)
        self._changed()
        return label
