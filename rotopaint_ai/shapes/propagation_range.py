"""How far a correction made at one frame is likely to hold good: as long as the face keeps its look.

Standard library only. Two frames are compared by their landmarks in face space: what is left between them after the
similarity (shift, turn, size) that fits best, as a share of the face's size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from rotopaint_ai.shapes.roto import Landmark, RotoDocument, hold_starts
from rotopaint_ai.similarity import similarity_of

LIKE = 0.06  # share of the face's size: beyond it the face differs (a replacement face, a turned head)
FARTHEST = 48  # frames on either side; a longer reach is drawn by hand

Row = Sequence[Landmark | None]


def propose(document: RotoDocument, frame: int, *, corrected: Collection[int] = ()) -> tuple[int, int]:
    """First and last frame that a correction at `frame` is proposed for, both included.

    It ends where the face changes its look, is lost, or the next frame that a person has `corrected` begins.
    """
    rows = document.landmarks.keys
    starts = hold_starts(rows)
    if frame not in starts:
        return frame, frame
    over = {starts[each] for each in corrected if each in starts}

    def goes_on(here: int, to: int) -> bool:
        if starts[here] == starts[to]:
            return True
        return starts[to] not in over and abs(to - frame) <= FARTHEST and unlikeness(rows[frame], rows[to]) <= LIKE

    frames = list(starts)
    at = frames.index(frame)
    return _walk_range(frames[at::-1], goes_on), _walk_range(frames[at:], goes_on)


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


def _walk_range(frames: Sequence[int], goes_on: Callable[[int, int], bool]) -> int:
    """The last of the frames that is reached from the first."""
    for here, to in pairwise(frames):
        if not goes_on(here, to):
            return here
    return frames[-1]
