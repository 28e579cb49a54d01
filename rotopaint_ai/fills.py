"""The ways of painting a seam away, as one table: a new fill is a row here and the function it names.

Command line, settings, panel and benchmarks read it; nothing is loaded until a fill is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from rotopaint_ai.errors import UsageError

Need = Literal["nothing", "model if there", "model", "neighbours"]


@dataclass(frozen=True, slots=True)
class Fill:
    """One way of painting.

    function: `module:name` of what fills a frame's crop by itself, a `cleanplate.FillFunction`. needs: `model` is a
    pack's fill.onnx, `neighbours` the frames around: `seams.temporal` settles what `function` made of each. label: for
    people.
    """

    name: str
    label: str
    function: str
    needs: Need = "nothing"

    @property
    def uses_model(self) -> bool:
        """Whether a pack's fill.onnx makes a difference."""
        return self.needs != "nothing"

    def load(self) -> Callable[..., Any]:
        """The function itself."""
        module, name = self.function.split(":")
        loaded: Callable[..., Any] = getattr(import_module(module), name)
        return loaded


_BANKS = "rotopaint_ai.seams.bank_fill"
FILLS = (
    Fill("auto", "the pack's network, or both banks where it has none", f"{_BANKS}:paint_auto", "model if there"),
    Fill("two-bank", "both banks of skin joined across the seam", f"{_BANKS}:paint_two_bank"),
    Fill(
        "temporal",
        "borrowed from frames around this one; the preview asks them too, which takes a moment",
        f"{_BANKS}:paint_auto",
        "neighbours",
    ),
    Fill("learned", "the pack's network, which mends what the banks paint", f"{_BANKS}:paint_learned", "model"),
    Fill("telea", "plain smooth fill, for comparison", "rotopaint_ai.seams.telea:paint_telea"),
)
DEFAULT = FILLS[0].name


def names(*, neighbours: bool = True, model: bool = True) -> tuple[str, ...]:
    """The fills that can be had, with or without the frames around and a pack's fill.onnx."""
    lacking = {need for need, is_there in (("neighbours", neighbours), ("model", model)) if not is_there}
    return tuple(fill.name for fill in FILLS if fill.needs not in lacking)


def named(name: str) -> Fill:
    """A fill by its name. Raises UsageError in one line."""
    for fill in FILLS:
        if fill.name == name:
            return fill
    raise UsageError(f"clean plate method '{name}': not available; choose one of {', '.join(names())}")
