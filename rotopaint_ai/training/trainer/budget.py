"""The time that a training may take, by the clock of the whole command: loading and what follows the last step too."""

from __future__ import annotations

import time
from collections.abc import Callable

LEAST_SHARE = 0.1  # of the command, for steps


class Budget:
    """Seconds given and spent.

    `limit_s`: of the whole command; None: it ends by steps. `began`: when it did, by `now`; None: just now.
    """

    def __init__(
        self, limit_s: float | None, *, began: float | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self.limit_s, self._now = limit_s, now
        self._began = now() if began is None else began
        self._steps_began_s, self._tail_s = 0.0, 0.0
        self._validation_s: float | None = None  # that the tail was reserved at
        self._slowness = 1.0  # of the machine since
        self._share = 0.0  # of the command that was told to be over

    def spent_s(self) -> float:
        """Seconds since the command began; of a training that was resumed, those of its earlier lives too."""
        return self._now() - self._began

    @property
    def tail_s(self) -> float:
        """Seconds kept for what follows the last step, at the speed of the latest validation."""
        return self._tail_s * self._slowness

    def reserve(self, seconds: float) -> None:
        """Keep so many seconds, at the speed of the next validation, for what follows the last step."""
        self._tail_s, self._validation_s, self._slowness = seconds, None, 1.0

    def validated(self, seconds: float) -> None:
        """Take note of how long a validation took: a machine that has become busy needs a longer tail as well."""
        if self._validation_s is None:
            self._validation_s = seconds
        self._slowness = seconds / max(self._validation_s, 1e-9)

    def begin_steps(self) -> None:
        """Note that steps are about to begin; what was spent so far is no part of their schedule."""
        self._steps_began_s = self.spent_s()

    def state(self) -> tuple[float, float]:
        """What a checkpoint keeps: seconds spent, and spent before the first step."""
        return self.spent_s(), self._steps_began_s

    def resume(self, spent_s: float, steps_began_s: float) -> None:
        """Go on from the `state` of an earlier life."""
        self._began -= spent_s
        self._steps_began_s = steps_began_s

    def left_s(self) -> float:
        """Seconds until the command is to end; 0 where it should have, or ends by steps."""
        return 0.0 if self.limit_s is None else max(0.0, self.limit_s - self.spent_s())

    def progress(self) -> float:
        """Share of the time for steps that is over; 0 where steps alone count. Steps get some time in any case."""
        if self.limit_s is None:
            return 0.0
        steps_s = max(self.limit_s - self.tail_s - self._steps_began_s, LEAST_SHARE * self.limit_s)
        return (self.spent_s() - self._steps_began_s) / steps_s

    def share(self, progress: float) -> float:
        """Share of the whole command that is over when this share of its steps is; it never falls."""
        spent = self.spent_s()
        if progress > 0 and spent > 0:
            to_come = (spent - self._steps_began_s) * (1 / min(1.0, progress) - 1) + self.tail_s
            self._share = max(self._share, spent / (spent + to_come))
        return self._share
