"""The names of shapes on the screen and in exchange files. No Qt."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from rotopaint_ai.errors import UsageError
from rotopaint_ai.project.names import with_name
from rotopaint_ui.session.edit_stack import EditStack

_MENTIONED = re.compile(r"\bshape '([^']*)'")


class ShapeNames:
    """Names that people gave to shapes. `may_change` tells whether edits are allowed now, and shows the reason if
    not."""

    def __init__(self, edits: EditStack, may_change: Callable[[], bool], say: Callable[[str], None]) -> None:
        self._edits, self._may_change, self._say = edits, may_change, say

    def of(self, shape: str) -> str:
        """The shown name of a shape."""
        return self._edits.state.names.get(shape, shape)

    def in_message(self, text: str) -> str:
        """A message of the core, with the shown names of its shapes."""
        return _MENTIONED.sub(lambda found: f"shape '{self.of(found[1])}'", text)

    def rename(self, shape: str, given: str) -> bool:
        """Rename a shape in one step; returns False and shows the reason where that is impossible."""
        state = self._edits.state
        if state.document is None or not self._may_change():
            return False
        try:
            names = with_name(state.names, state.document, shape, given)
        except UsageError as error:
            self._say(str(error))
            return False
        self._edits.push("rename shape", replace(state, names=names))
        return True
