"""Paint fingerprints: they tell which clean-plate frames on disk are up to date with the project.

Standard library only. A frame's fingerprint covers all that decides how the frame is painted: the seams at the frame
(keyed or interpolated), their widths, feathers, tapers and visibility, the fill settings, and the touch-up strokes. It
does not cover the provenance of keys, nor shapes that are not seams.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from rotopaint_ai.project.state import SeamSettings, State
from rotopaint_ai.seams.strokes import Strokes
from rotopaint_ai.shapes.roto import Points, RotoDocument, RotoShape

_DECIMALS = 3  # decimals of a pixel, as in saved documents
NOTE = "painted"  # the project's note that stores the fingerprints
NOTHING = ""  # the fingerprint of a frame where nothing is painted


class PaintFingerprints:
    """Computes the paint fingerprints of frames; caches splines, so that a second call only computes what changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[Points, bytes]] = {}

    def of(self, state: State, frames: Iterable[int]) -> dict[int, str]:
        """The fingerprint of each of these frames that the document has; empty where it has no seam."""
        document = state.document
        seams = seams_of(document)
        if document is None or not seams:
            return {}
        heads = {shape.name: _seam_head(shape, state.seam(shape.name)) for shape in seams}
        away = tuple(shape for shape in document.shapes if shape.subtract)
        there = (frame for frame in frames if document.first_frame <= frame <= document.last_frame)
        return {
            frame: self._frame_fingerprint(seams, heads, away, state.strokes.get(frame, ()), frame) for frame in there
        }

    def stale(self, state: State, frames: Iterable[int], painted: Mapping[int, str]) -> list[int]:
        """Frames whose fingerprint in `painted` differs from that of the state, or is missing."""
        return [frame for frame, each in self.of(state, frames).items() if painted.get(frame) != each]

    def _frame_fingerprint(
        self,
        seams: Iterable[RotoShape],
        heads: Mapping[str, bytes],
        away: Iterable[RotoShape],
        strokes: Strokes,
        frame: int,
    ) -> str:
        digest, is_drawn = hashlib.blake2b(digest_size=8), False
        for shape in seams:
            points = shape.at(frame)
            if points and shape.is_visible(frame):
                is_drawn = True
                digest.update(heads[shape.name] + self._spline_bytes(shape.name, frame, points))
                softness = (*shape.feather_at(frame), *shape.widths_at(frame))
                if softness:
                    digest.update(_round_rows(softness))
        for shape in away:
            points = shape.at(frame)
            if points and shape.is_visible(frame):
                digest.update(b"away" + repr(round(shape.feather_px, 4)).encode())
                digest.update(self._spline_bytes(shape.name, frame, points) + _round_rows(shape.feather_at(frame)))
        if strokes:
            is_drawn = True
            digest.update(repr(strokes).encode())
        return digest.hexdigest() if is_drawn else NOTHING

    def _spline_bytes(self, name: str, frame: int, points: Points) -> bytes:
        known = self._known.get((name, frame))
        if known is None or known[0] is not points:
            known = points, hashlib.blake2b(_round_rows(points), digest_size=8).digest()
            self._known[name, frame] = known
        return known[1]


def seams_of(document: RotoDocument | None) -> tuple[RotoShape, ...]:
    """The shapes that are painted out."""
    shapes = () if document is None else document.shapes
    return tuple(shape for shape in shapes if shape.role == "seam" and not shape.subtract)


def _round_rows(rows: Iterable[Iterable[float]]) -> bytes:
    return repr([round(value, _DECIMALS) + 0.0 for row in rows for value in row]).encode()


def _seam_head(shape: RotoShape, settings: SeamSettings) -> bytes:
    taper = tuple(round(share, 4) for share in shape.taper)
    facts = (shape.name, shape.closed, shape.width_px, shape.feather_px, taper)
    paint = (facts, settings.method, settings.grain, settings.strength)
    return repr(paint if settings.hold_out else (*paint, "not held out")).encode()
