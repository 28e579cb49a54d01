"""Which frames on disk show what the project says: a print of all that decides a frame's mattes and clean plate.

Standard library only. A print changes with the shapes as they stand at the frame (keyed there or between keys), with
their widths, feathers, tapers and visibility, and with how their seams are to be painted; not with who made a key.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping

from rotopaint_ai.project.values import SeamSettings, State
from rotopaint_ai.seams.strokes import Strokes
from rotopaint_ai.shapes.roto import Points, RotoDocument, RotoShape

_POINT = struct.Struct("<6d")


class Prints:
    """Prints of frames; remembers the splines it has seen, so that asking again costs what has changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[Points, bytes]] = {}

    def of(self, state: State, frames: Iterable[int]) -> dict[int, str]:
        """The print of each frame; none without a document."""
        document = state.document
        if document is None:
            return {}
        heads = {shape.name: _head(shape, state.seam(shape.name)) for shape in document.shapes}
        return {frame: self._print(document, heads, state.strokes.get(frame, ()), frame) for frame in frames}

    def _print(self, document: RotoDocument, heads: Mapping[str, bytes], strokes: Strokes, frame: int) -> str:
        digest = hashlib.blake2b(repr(strokes).encode() if strokes else b"", digest_size=8)
        for shape in document.shapes:
            digest.update(heads[shape.name])
            digest.update(self._spline(shape, frame))
            digest.update(b"+" if shape.is_visible(frame) else b"-")
        return digest.hexdigest()

    def _spline(self, shape: RotoShape, frame: int) -> bytes:
        points = shape.at(frame)
        known = self._known.get((shape.name, frame))
        if known is None or known[0] is not points:
            body = b"".join(_POINT.pack(*point) for point in points)
            known = points, hashlib.blake2b(body, digest_size=8).digest()
            self._known[shape.name, frame] = known
        return known[1]


def _head(shape: RotoShape, settings: SeamSettings) -> bytes:
    facts = (shape.name, shape.closed, shape.role, shape.width_px, shape.feather_px, tuple(shape.taper))
    paint = (settings.method, settings.grain, settings.strength) if shape.role == "seam" else ()
    return repr((facts, paint)).encode()
