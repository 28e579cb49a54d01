"""Seam settings made by hand, laid over what the model proposes. Each function returns new values. No Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rotopaint_ai.project.values import SeamSettings, State
from rotopaint_ai.shapes.roto import RotoDocument, RotoShape


def applied(state: State, shape: str, settings: SeamSettings) -> State:
    """The state with a seam set by hand; what is left to the model goes back to what the model said."""
    seams = {**state.seams, shape: settings}
    if settings == SeamSettings():
        del seams[shape]
    document = state.document
    if document is not None:
        model = {each.name: each for each in (state.predicted or document).shapes}
        shapes = tuple(
            _set(each, model.get(each.name, each), settings) if each.name == shape else each for each in document.shapes
        )
        document = replace(document, shapes=shapes)
    return replace(state, document=document, seams=seams)


def put_back(document: RotoDocument, seams: Mapping[str, SeamSettings]) -> RotoDocument:
    """A new result of the model with everything that a person has set for its seams."""
    shapes = tuple(_set(each, each, seams[each.name]) if each.name in seams else each for each in document.shapes)
    return replace(document, shapes=shapes)


def _set(shape: RotoShape, model: RotoShape, settings: SeamSettings) -> RotoShape:
    return replace(
        shape,
        width_px=model.width_px if settings.width_px is None else settings.width_px,
        feather_px=model.feather_px if settings.feather_px is None else settings.feather_px,
        taper=model.taper if settings.taper is None else settings.taper,
    )
