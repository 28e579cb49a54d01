"""What a run's shapes become in a shot that somebody works on: their keys put back, frames that were not run kept.

Pure functions from states and documents to new ones. No Qt.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from rotopaint_ai.project.values import State
from rotopaint_ai.shapes.manual_keys import corrected_in, model_keys, with_human_keys
from rotopaint_ai.shapes.merge import merge
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui import seam_settings
from rotopaint_ui.stream import Stream

V = TypeVar("V")
Frames = Collection[int] | None  # those that a run was asked for; None: all


def after_run(before: State, found: RotoDocument, asked: Frames) -> State:
    """The state after a run of some frames: its shapes, human keys and seam settings of the state before put back."""
    said = without_followers(model_keys(found), before)
    new = found if asked is None else _among(before.document, found, asked)
    if before.document is not None:
        new = with_human_keys(new, before.document)
    predicted = said if asked is None else _among(before.predicted, said, asked)
    return replace(before, document=seam_settings.put_back(new, before.seams), predicted=predicted)


def frames_of(found: RotoDocument, own: RotoDocument | None) -> Frames:
    """The frames that a run was asked for, by what it wrote, where they are not all of the shot's; else None."""
    if own is None or (found.first_frame <= own.first_frame and own.last_frame <= found.last_frame):
        return None
    return range(found.first_frame, found.last_frame + 1)


def as_drawn(told: State, found: RotoDocument, asked: Frames) -> State:
    """What a run has drawn: its shapes, painted as it was told. One of some frames leaves the shot its widths."""
    return replace(told, document=found if asked is None else _among(told.document, found, asked))


def under_way(own: RotoDocument | None, stream: Stream) -> RotoDocument:
    """What to look at while a run goes on: what has come, and at the other frames what was there."""
    live = stream.document()
    if own is None:
        return live
    came = frozenset(live.landmarks.keys).union(*(shape.keys for shape in live.shapes))
    return with_human_keys(merge(own, live, came), own)


def without_followers(said: RotoDocument, before: State) -> RotoDocument:
    """What the models said, less the keys that only repeat what had followed a person's landmark before the run."""
    if before.document is None or before.predicted is None:
        return said
    followed = corrected_in(before.predicted, before.document)
    shapes = (
        shape.with_keys({f: key for f, key in shape.keys.items() if f not in followed.get(shape.name, frozenset())})
        for shape in said.shapes
    )
    return replace(said, shapes=tuple(shapes))


def _among(before: RotoDocument | None, found: RotoDocument, asked: Collection[int]) -> RotoDocument:
    """Some frames found anew among those that stay; what is said of the whole shot (widths, softness) stays too."""
    if before is None:
        return found
    new = merge(before, _only(found, asked), asked)
    old = {shape.name: shape for shape in before.shapes}
    kept = tuple(
        replace(shape, width_px=was.width_px, feather_px=was.feather_px, taper=was.taper)
        if (was := old.pop(shape.name, None)) is not None
        else shape
        for shape in new.shapes
    )
    return replace(new, shapes=(*kept, *old.values()))


def _only(found: RotoDocument, frames: Collection[int]) -> RotoDocument:
    """Some frames of a document."""

    def kept(rows: Mapping[int, V]) -> dict[int, V]:
        return {frame: row for frame, row in rows.items() if frame in frames}

    shapes = tuple(replace(each, keys=kept(each.keys), visible=kept(each.visible)) for each in found.shapes)
    marks = replace(found.landmarks, keys=kept(found.landmarks.keys), hand=kept(found.landmarks.hand))
    return replace(found, shapes=shapes, landmarks=marks)
