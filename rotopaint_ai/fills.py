"""The table of fills, the methods to paint out a seam. A new fill needs a row here and the function that it names.

Command line, settings, panel and benchmarks read the table; a fill's module is loaded when the fill is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from rotopaint_ai.errors import UsageError

# Old names in commands and shows: `learned` is now `auto`; the others were never the best.
_FORMER = ("learned", "temporal", "telea")


@dataclass(frozen=True, slots=True)
class Fill:
    """One fill.

    function: `module:name` of the function that fills a frame's crop, a `cleanplate.FillFunction`. uses_model: whether
    it uses a pack's fill.onnx. label: the name shown to people.
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
    Fill("auto", "the learned fill, or both banks where none is installed", f"{_BANKS}:paint_auto", uses_model=True),
    Fill("two-bank", "both banks of skin joined across the seam", f"{_BANKS}:paint_two_bank"),
)
DEFAULT = FILLS[0].name


def names() -> tuple[str, ...]:
    """All fills, the default first."""
    return tuple(fill.name for fill in FILLS)


def current(name: str) -> str:
    """The current name of a fill: the default's for a fill that was removed, else the name itself."""
    return DEFAULT if name in _FORMER else name


def find_fill(name: str) -> Fill:
    """A fill by its current or old name. Raises UsageError."""
    for fill in FILLS:
        if fill.name == current(name):
            return fill
    raise UsageError(f"clean plate method '{name}': not available; choose one of {', '.join(names())}")
