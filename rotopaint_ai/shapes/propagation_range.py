"""The range of frames to which a correction at one frame probably applies: as long as the face looks the same.

Standard library only. Frames are compared by their landmarks, see `pose_distance`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from rotopaint_ai.shapes.pose_distance import pose_distance
from rotopaint_ai.shapes.roto import RotoDocument, hold_starts

LIKE = 0.06  # share of the face's size: beyond it the face differs (a replacement face, a turned head)
FARTHEST = 48  # frames on either side; an artist sets a longer range by hand


def propose(document: RotoDocument, frame: int, *, corrected: Collection[int] = ()) -> tuple[int, int]:
    """First and last frame of the proposed range of a correction at `frame`, both included.

    It ends where the face changes its look, is lost, or at the next frame that a person `corrected`.
    """
    rows = document.landmarks.keys
    starts = hold_starts(rows)
    if frame not in starts:
        return frame, frame
    over = {starts[each] for each in corrected if each in starts}

    def continues(here: int, to: int) -> bool:
        if starts[here] == starts[to]:
            return True
        return starts[to] not in over and abs(to - frame) <= FARTHEST and pose_distance(rows[frame], rows[to]) <= LIKE

    frames = list(starts)
    at = frames.index(frame)
    return _walk_range(frames[at::-1], continues), _walk_range(frames[at:], continues)


def _walk_range(frames: Sequence[int], continues: Callable[[int, int], bool]) -> int:
    """The last frame that can be reached from the first."""
    for here, to in pairwise(frames):
        if not continues(here, to):
            return here
    return frames[-1]
