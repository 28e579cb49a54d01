"""Seam settings made by hand, which override the model's. No Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rotopaint_ai.project.merge_run import seam_with_settings
from rotopaint_ai.project.state import SeamSettings, State, WidthProfile
from rotopaint_ai.shapes.roto import DEFAULT_WIDTH_PX, RotoShape
from rotopaint_ui.session.edit_stack import EditStack


def with_settings(state: State, shape: str, settings: SeamSettings) -> State:
    """The state with a seam's settings; values that are left to the model return to the model's."""
    seams = {**state.seams, shape: settings}
    if settings == SeamSettings():
        del seams[shape]
    document = state.document
    if settings.profile is None and state.seam(shape).profile is not None:
        settings = replace(settings, profile=())  # taken back: even again
    if document is not None:
        model = {each.name: each for each in (state.predicted or document).shapes}
        shapes = tuple(
            seam_with_settings(each, model.get(each.name, each), settings) if each.name == shape else each
            for each in document.shapes
        )
        document = replace(document, shapes=shapes)
    return replace(state, document=document, seams=seams)


def with_fitting_profiles(state: State) -> State:
    """The state with width profiles taken from the shapes again, where a seam's number of points has changed."""
    shapes = {} if state.document is None else {shape.name: shape for shape in state.document.shapes}
    new = {
        name: replace(each, profile=_profile_of(shapes[name]))
        for name, each in state.seams.items()
        if each.profile and name in shapes and len(each.profile) != shapes[name].n_points
    }
    return replace(state, seams={**state.seams, **new}) if new else state


def _profile_of(shape: RotoShape) -> WidthProfile:
    half = (DEFAULT_WIDTH_PX if shape.width_px is None else shape.width_px) / 2
    rows = shape.widths_at(shape.frames[0]) if shape.keys and half > 0 else ()
    return tuple((row.left_px / half, row.right_px / half) for row in rows)


class SeamEdits:
    """Edits of people's seam settings, in steps that can be undone."""

    def __init__(self, edits: EditStack) -> None:
        self._edits = edits

    def of(self, shape: str) -> SeamSettings:
        """The settings of a seam."""
        return self._edits.state.seam(shape)

    def set(self, settings: Mapping[str, SeamSettings]) -> None:
        """Set seams by hand; their shapes take width, feather and taper.

        During a gesture this is a preview, otherwise one step.
        """
        new = self._edits.before_gesture
        for shape, each in settings.items():
            new = with_settings(new, shape, each)
        if self._edits.has_gesture:
            self._edits.preview(new)
        else:
            self._edits.push("seam settings", new)
