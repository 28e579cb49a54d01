"""Seam settings made by hand, laid over what the model proposes. No Qt."""

from __future__ import annotations

from dataclasses import replace

from rotopaint_ai.project.merge_run import set_seam
from rotopaint_ai.project.state import SeamSettings, State


def applied(state: State, shape: str, settings: SeamSettings) -> State:
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
