"""Merge a result for some frames of a shot with an earlier document. Standard library only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from rotopaint_ai.shapes.roto import RotoDocument, RotoShape

V = TypeVar("V")


def merge(before: RotoDocument, new: RotoDocument, frames: Iterable[int]) -> RotoDocument:
    """A new document with an earlier document's keys at frames that the new one does not cover."""
    asked = set(frames)
    old = {shape.name: shape for shape in before.shapes}
    rows = {f: row for f, row in before.landmarks.keys.items() if f not in asked}
    is_same = before.landmarks.names == new.landmarks.names
    keys = {**rows, **new.landmarks.keys} if is_same else new.landmarks.keys
    return replace(
        new,
        first_frame=min(before.first_frame, new.first_frame),
        last_frame=max(before.last_frame, new.last_frame),
        landmarks=replace(new.landmarks, keys=dict(sorted(keys.items()))),
        shapes=tuple(_merge_shape(old.get(shape.name), shape, asked) for shape in new.shapes),
    )


def with_frames_of(before: RotoDocument, frames: Collection[int], new: RotoDocument) -> RotoDocument:
    """A new document with an earlier document's keys at some frames that the new one does not cover."""
    return merge(only_frames(before, frames), new, ()) if frames else new


def only_frames(document: RotoDocument, frames: Collection[int]) -> RotoDocument:
    """A document with only the keys of these frames."""

    def pick_rows(rows: Mapping[int, V]) -> dict[int, V]:
        return {frame: row for frame, row in rows.items() if frame in frames}

    shapes = tuple(
        replace(each, keys=pick_rows(each.keys), visible=pick_rows(each.visible)) for each in document.shapes
    )
    marks = replace(
        document.landmarks, keys=pick_rows(document.landmarks.keys), hand=pick_rows(document.landmarks.hand)
    )
    return replace(document, shapes=shapes, landmarks=marks)


def _merge_shape(before: RotoShape | None, new: RotoShape, asked: set[int]) -> RotoShape:
    if before is None or (before.n_points, before.closed) != (new.n_points, new.closed):
        return new
    keys = {**{f: key for f, key in before.keys.items() if f not in asked}, **new.keys}
    seen = {**{f: shown for f, shown in before.visible.items() if f not in asked}, **new.visible}
    return replace(new, keys=dict(sorted(keys.items())), visible=dict(sorted(seen.items())))
