"""The ways for a correction to reach other frames, as one table: a new way is a row here and the function it names.

Panel, live engine, project file and `rotopaint run --project` read it; nothing is loaded until a way is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from rotopaint_ai.errors import UsageError


@dataclass(frozen=True, slots=True)
class SpreadWay:
    """One way for a correction to reach other frames.

    function: `module:name` of what computes the new keys. It gets the document of the models and the corrected one.
    needs: with `range` it gets the corrected frame and the first and last frame to reach, too; with `shot` the run's
    expected errors, for the whole shot. label: of its button, its command and its step of undo.
    """

    name: str
    label: str
    function: str
    needs: Literal["range", "shot"]

    @property
    def step(self) -> str:
        """What its step of undo is called."""
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
    """A way by its name. Raises UsageError in one line."""
    for way in SPREADS:
        if way.name == name:
            return way
    raise UsageError(f"spread '{name}': not available; choose one of {', '.join(way.name for way in SPREADS)}")
