"""Seam settings made by hand, laid over what the model proposes. No Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rotopaint_ai.project.merge_run import set_seam
from rotopaint_ai.project.state import SeamSettings, State
from rotopaint_ui.session.edit_stack import EditStack


def with_settings(state: State, shape: str, settings: SeamSettings) -> State:
    """The state with a seam set by hand; what is left to the model goes back to what the model said."""
    seams = {**state.seams, shape: settings}
    if settings == SeamSettings():
        del seams[shape]
    document = state.document
    if document is not None:
        model = {each.name: each for each in (state.predicted or document).shapes}
        shapes = tuple(
            set_seam(each, model.get(each.name, each), settings) if each.name == shape else each
            for each in document.shapes
        )
        document = replace(document, shapes=shapes)
    return replace(state, document=document, seams=seams)


class SeamEdits:
    """What people have set for seams, changed in steps that can be undone."""

    def __init__(self, edits: EditStack) -> None:
        self._edits = edits

    def of(self, shape: str) -> SeamSettings:
        """What is set for a seam."""
        return self._edits.state.seam(shape)

    def set(self, settings: Mapping[str, SeamSettings]) -> None:
        """Set seams by hand, as one; their shapes take width, feather and taper.

        In a gesture all are previewed, else they are one step.
        """
        new = self._edits.before_gesture
        for shape, each in settings.items():
            new = with_settings(new, shape, each)
        if self._edits.has_gesture:
            self._edits.preview(new)
        else:
            self._edits.act("seam settings", new)
