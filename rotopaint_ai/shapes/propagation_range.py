"""How far a correction made at one frame is likely to hold good: as long as the face keeps its look.

Standard library only. Two frames are compared by their landmarks in face space: what is left between them after the
similarity (shift, turn, size) that fits best, as a share of the face's size.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import pairwise

from rotopaint_ai.shapes.roto import Landmark, RotoDocument
from rotopaint_ai.similarity import similarity_of

LIKE = 0.06  # of the face's size: beyond this the face is another one (a replacement face, a turn of the head)
FARTHEST = 48  # frames on either side; a longer reach is drawn by hand

Row = Sequence[Landmark | None]


def propose(document: RotoDocument, frame: int, *, corrected: Collection[int] = ()) -> tuple[int, int]:
    """First and last frame that a correction at `frame` is proposed for, both included.

    It ends where the face changes its look, is lost, or the next frame that a person has `corrected` begins.
    """
    rows = document.landmarks.keys
    frames = sorted(rows) if frame in rows else [frame]
    at = frames.index(frame)
    here, corrected = rows.get(frame, ()), _held_with(corrected, document, frames)
    first = _walk(frames[at::-1], document, here, corrected)
    last = _walk(frames[at:], document, here, corrected)
    return first, last


def unlikeness(a: Row, b: Row) -> float:
    """Root mean square distance of landmarks after the best similarity, as a share of the size of `a`."""
    pairs = [(p, q) for p, q in zip(a, b) if p is not None and q is not None]
    if len(pairs) < 3:
        return math.inf
    points = [(complex(q.x, q.y), complex(p.x, p.y)) for p, q in pairs]
    middle = sum(p for _, p in points) / len(points)
    size = sum(abs(p - middle) ** 2 for _, p in points)
    if not size or all(q == points[0][0] for q, _ in points):
        return math.inf
    factor, shift = similarity_of(points)
    return math.sqrt(sum(abs(factor * q + shift - p) ** 2 for q, p in points) / size)


def _walk(frames: Sequence[int], document: RotoDocument, here: Row, corrected: Collection[int]) -> int:
    end = frames[0]
    for frame in frames[1:]:
        row = document.landmarks.keys[frame]
        is_held = row == document.landmarks.keys[end]
        if not is_held and (frame in corrected or abs(frame - frames[0]) > FARTHEST or unlikeness(here, row) > LIKE):
            break
        end = frame
    return end


def _held_with(corrected: Collection[int], document: RotoDocument, frames: Sequence[int]) -> set[int]:
    """Corrected frames, and those that repeat them."""
    rows, found = document.landmarks.keys, set(corrected)
    for one, other in (*pairwise(frames), *pairwise(frames[::-1])):
        if one in found and rows.get(one) == rows.get(other):
            found.add(other)
    return found
