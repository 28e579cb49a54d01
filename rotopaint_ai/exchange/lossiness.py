"""The losses of a document in a format, one line for each feature that the document uses.

Standard library only. A format states which features it keeps, and may supply its own text for a loss. A loss is
reported only where it occurs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from rotopaint_ai.errors import list_names
from rotopaint_ai.exchange.features import EVERY, Feature
from rotopaint_ai.exchange.parsing import role_of
from rotopaint_ai.shapes.roto import RotoDocument, RotoShape

_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
DEFAULT_FPS: Final = 24.0
HOLDS_OUT: Final = "{names}: the hold-out is not written; set the shape to subtract there"
HOLDS: Final = "{names}: holds became pairs of equal keys, with the same pose at every whole frame"


class Loss(NamedTuple):
    """A feature that is lost, and the line that reports it."""

    feature: Feature
    text: str


def list_losses(
    document: RotoDocument,
    *,
    keeps: Collection[Feature],
    words: Mapping[Feature, str] | None = None,
    shapes: Mapping[Feature, Callable[[RotoShape], bool]] | None = None,
    always: frozenset[Feature] = frozenset(),
) -> list[Loss]:
    """The losses of this document in a format that keeps the features `keeps`.

    `shapes`: by feature, a test for the shapes that lose it; it also applies to features that the format keeps.
    `always` names features that every document loses. `words` replaces the usual text by feature; `{names}` in it
    stands for the shapes.
    """
    texts_of, asked = {**WORDS, **(words or {})}, shapes or {}
    found = []
    for feature in sorted((EVERY - set(keeps)) | set(asked) | set(always)):
        named = _shapes_with(document, asked[feature]) if feature in asked else users(document, feature)
        if feature in always:
            named = named or []
        if named is not None:
            found.append(Loss(feature, texts_of[feature].format(names=_first_names(named), document=document)))
    empty = [shape.name for shape in document.shapes if not shape.keys]
    return found + ([Loss("names", f"{_first_names(empty)}: has no key and is not written")] if empty else [])


def features(losses: Iterable[Loss]) -> frozenset[Feature]:
    """The features of some losses."""
    return frozenset(loss.feature for loss in losses)


def texts(losses: Iterable[Loss]) -> tuple[str, ...]:
    """The lines of some losses, each once."""
    return tuple(dict.fromkeys(loss.text for loss in losses))


def group_lines(lines: Iterable[str]) -> list[str]:
    """Similar lines joined to one line with a count: `eye, mouth and 3 more: has motion blur; ...`.

    Lines `name: text` are similar if their texts differ only in numbers; the first line's numbers are shown.
    """
    kinds: dict[str, list[tuple[str, str]]] = {}
    for line in dict.fromkeys(lines):
        name, found, text = line.partition(": ")
        kinds.setdefault(_NUMBER.sub("#", text) if found else line, []).append((name, text))
    shown = []
    for rows in kinds.values():
        name, text = rows[0]
        if len(rows) > 1:
            same = len({text for _, text in rows}) == 1
            names = list_names([name for name, _ in rows])
            text = f"{text}{'' if same else ' (and similar)'}"
            name = f"{len(rows)} times, {names}"
        shown.append(f"{name}: {text}" if text else name)
    return shown


def users(document: RotoDocument, feature: Feature) -> list[str] | None:
    """Names of the shapes that use a feature; empty where the document as a whole uses it; None if it is unused."""
    if feature in _OF_DOCUMENT:
        return [] if _OF_DOCUMENT[feature](document) else None
    return _shapes_with(document, _OF_SHAPE[feature])


def _shapes_with(document: RotoDocument, concerns: Callable[[RotoShape], bool]) -> list[str] | None:
    return [shape.name for shape in document.shapes if shape.keys and concerns(shape)] or None


def _first_names(names: list[str]) -> str:
    return list_names([f"'{name}'" for name in names])


def _is_bent(shape: RotoShape) -> bool:
    return any(any(point[2:]) for key in shape.keys.values() for point in key.points)


def holds(shape: RotoShape) -> bool:
    """Whether a hold of the shape is visible: it lasts over a frame without a key, and another pose follows."""
    keys = shape.keys
    return any(
        keys[a].interpolation == "hold" and b > a + 1 and keys[a].points != keys[b].points
        for a, b in pairwise(shape.frames)
    )


def _range_is_not_of_keys(document: RotoDocument) -> bool:
    frames = [frame for shape in document.shapes for frame in shape.frames]
    return not frames or (min(frames), max(frames)) != (document.first_frame, document.last_frame)


_OF_SHAPE: Final[Mapping[Feature, Callable[[RotoShape], bool]]] = {
    "tangents": _is_bent,
    "points": lambda shape: True,
    "open": lambda shape: not shape.closed,
    "keys": lambda shape: True,
    "holds": holds,
    "feather": lambda shape: shape.feather_px > 0,
    "width": lambda shape: not shape.closed,
    "taper": lambda shape: not shape.closed and tuple(shape.taper) != (0.0, 0.0),
    "subtract": lambda shape: shape.subtract,
    "visibility": lambda shape: not all(shape.visible.values()),
    "layers": lambda shape: "/" in shape.name,
    "names": lambda shape: True,
    "roles": lambda shape: shape.role != role_of(shape.name, shape.closed),
    "sources": lambda shape: any(key.source != "human" for key in shape.keys.values()),
}
_OF_DOCUMENT: Final[Mapping[Feature, Callable[[RotoDocument], bool]]] = {
    "order": lambda document: len(document.shapes) > 1,
    "landmarks": lambda document: bool(document.landmarks.names),
    "aspect": lambda document: document.pixel_aspect != 1.0,
    "fps": lambda document: document.fps != DEFAULT_FPS,
    "range": _range_is_not_of_keys,
    "size": lambda document: True,
}
WORDS: Final[Mapping[Feature, str]] = {
    "tangents": "{names}: curves became lines",
    "points": "{names}: control points changed",
    "open": "{names}: open curves were closed",
    "keys": "{names}: keys changed",
    "holds": HOLDS,
    "feather": "{names}: feather is not written",
    "width": "{names}: the width of the stroke is not written; --bands writes strokes as closed outlines",
    "taper": "{names}: taper is not written; the stroke keeps its width to the ends",
    "subtract": HOLDS_OUT,
    "visibility": "{names}: hidden frames are not written; the shape is always shown",
    "layers": "{names}: layers are not written; they stay a part of the name",
    "names": "{names}: names changed",
    "roles": "{names}: roles are not written: on reading, open shapes and those called seam are seams, others mattes",
    "sources": "who set a key is not written: on reading, all count as set by hand",
    "order": "the order of shapes is not written",
    "landmarks": "landmarks are not written",
    "aspect": "pixel aspect {document.pixel_aspect:g} is not written",
    "fps": "frame rate {document.fps:g} is not written",
    "range": "the shot's range {document.first_frame}-{document.last_frame} is not written, only the range of the keys",
    "size": "the plate's size is not written: give --width {document.width} --height {document.height} to read it",
}
