"""Parts that a recipe names: backbones, losses, optimisers, augmentations.

A decorator registers a part in a `Registry`; a recipe names it:

    @BACKBONES.register("pyramid")
    def build_pyramid(...): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from rotopaint_ai.errors import UsageError

Part = TypeVar("Part")


class Registry(Generic[Part]):
    """Named parts of one kind, in order of registration."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._parts: dict[str, Part] = {}

    def register(self, name: str) -> Callable[[Part], Part]:
        """A decorator that registers a part under `name`. Raises UsageError if the name is taken."""

        def enter(part: Part) -> Part:
            if name in self._parts:
                raise UsageError(f"{self.kind} '{name}': registered twice; choose another name")
            self._parts[name] = part
            return part

        return enter

    def __getitem__(self, name: str) -> Part:
        if name not in self._parts:
            raise UsageError(f"{self.kind} '{name}': unknown; wanted one of {', '.join(self._parts)}")
        return self._parts[name]

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)
