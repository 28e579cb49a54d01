"""The ways of painting a seam away, as one table: a new fill is a row here and the function it names.

Command line, settings, panel and benchmarks read it; nothing is loaded until a fill is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from rotopaint_ai.errors import UsageError

_FORMER = (
    "learned",
    "temporal",
    "telea",
)  # that commands and shows still name: the first is what auto is, the others won nowhere


@dataclass(frozen=True, slots=True)
class Fill:
    """One way of painting.

    function: `module:name` of what fills a frame's crop, a `cleanplate.FillFunction`. uses_model: whether a pack's
    fill.onnx makes a difference. label: for people.
    """

    name: str
    label: str
    function: str
    uses_model: bool = False

    def load(self) -> Callable[..., Any]:
        """The function itself."""
        module, name = self.function.split(":")
        loaded: Callable[..., Any] = getattr(import_module(module), name)
        return loaded


_BANKS = "rotopaint_ai.seams.bank_fill"
FILLS = (
    Fill("auto", "the pack's network, or both banks where it has none", f"{_BANKS}:paint_auto", uses_model=True),
    Fill("two-bank", "both banks of skin joined across the seam", f"{_BANKS}:paint_two_bank"),
)
DEFAULT = FILLS[0].name


def names() -> tuple[str, ...]:
    """All fills, the default first."""
    return tuple(fill.name for fill in FILLS)


def current(name: str) -> str:
    """A fill's name as it is now: that of one that is no longer there is the default's, any other stays."""
    return DEFAULT if name in _FORMER else name


def named(name: str) -> Fill:
    """A fill by its name, of now or before. Raises UsageError in one line."""
    for fill in FILLS:
        if fill.name == current(name):
            return fill
    raise UsageError(f"clean plate method '{name}': not available; choose one of {', '.join(names())}")
