"""The table of ways to propagate a correction to other frames. A new way needs a row here and the function it names.

Panel, live engine, project file and `rotopaint run --project` read the table; a way's module is loaded on use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from rotopaint_ai.errors import UsageError


@dataclass(frozen=True, slots=True)
class SpreadWay:
    """One way to propagate a correction.

    function: `module:name` of the function that computes the new keys from the models' document and the corrected one.
    needs: its further arguments. With `range` these are the corrected frame and the first and last frame to reach; with
    `shot` they are the run's expected errors for the whole shot. label: the text of its button, command and undo step.
    """

    name: str
    label: str
    function: str
    needs: Literal["range", "shot"]

    @property
    def step(self) -> str:
        """The name of its undo step."""
        return self.label.lower()

    def load(self) -> Callable[..., Any]:
        """The function itself."""
        module, name = self.function.split(":")
        loaded: Callable[..., Any] = getattr(import_module(module), name)
        return loaded


SPREADS = (
    SpreadWay("spread", "Spread", "rotopaint_ai.shapes.refit:spread", "range"),
    SpreadWay("refit", "Refit shot", "rotopaint_ai.shapes.refit:refit", "shot"),
)
RANGE, SHOT = (next(way.name for way in SPREADS if way.needs == need) for need in ("range", "shot"))


def spread_way(name: str) -> SpreadWay:
    """A way by its name. Raises UsageError."""
    for way in SPREADS:
        if way.name == name:
            return way
    raise UsageError(f"spread '{name}': not available; choose one of {', '.join(way.name for way in SPREADS)}")
