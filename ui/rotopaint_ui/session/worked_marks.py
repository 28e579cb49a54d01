"""Frames that needed work and have been worked on. No Qt, no numpy."""

from __future__ import annotations

from dataclasses import replace

from rotopaint_ai.project.state import State
from rotopaint_ai.shapes.roto import RotoDocument, RotoShape


def without_worked(before: State, after: State) -> State:
    """The state after an edit, without the marks "needs work" of frames that a person corrected in it.

    Training leaves marked frames out. Edits of shapes that no model makes do not count, and a mark set by the edit
    itself stays.
    """
    waiting = {frame for frame, mark in after.marks.items() if mark == "needs work" == before.marks.get(frame)}
    if not waiting or before.document is None or after.document is None or before.document is after.document:
        return after
    models = {shape.name for shape in (after.predicted or after.document).shapes}
    worked = waiting & _corrected_between(before.document, after.document, models)
    marks = {frame: mark for frame, mark in after.marks.items() if frame not in worked}
    return replace(after, marks=marks) if worked else after


def _corrected_between(before: RotoDocument, after: RotoDocument, names: set[str]) -> set[int]:
    """Frames where a person has newly keyed one of the shapes, or placed a landmark."""
    was, old, new = {shape.name: shape for shape in before.shapes}, before.landmarks, after.landmarks
    found = {frame for frame in new.hand if new.keys.get(frame) != old.keys.get(frame)}
    for shape in after.shapes:
        if shape.name in names and shape is not was.get(shape.name):
            found |= _new_human_frames(was.get(shape.name), shape)
    return found


def _new_human_frames(before: RotoShape | None, after: RotoShape) -> set[int]:
    known = {} if before is None else before.keys
    human = (frame for frame, key in after.keys.items() if key.source == "human" and key is not known.get(frame))
    return {frame for frame in human if after.keys[frame] != known.get(frame)}
