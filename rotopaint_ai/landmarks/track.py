"""The landmark track: the position of every landmark in every frame, its expected error, and its provenance.

F frames, L landmarks, C components x then y. Plate space, pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop
from rotopaint_ai.errors import UsageError

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Picture = npt.NDArray[np.float32]

# A landmark model: display-referred crops (N,S,S,3) to landmarks (N,L,2), expected error (N,L), both in crop pixels,
# and the probability of being seen (N,L).
Detect = Callable[[Picture], tuple[Picture, Picture, Picture]]

VISIBLE = 0.5  # a landmark counts as seen from this probability on


@dataclass(frozen=True, slots=True, eq=False)
class FrameLandmarks:
    """Landmarks of one frame.

    `points_LC` always holds a position, also for landmarks that are hidden (`visible_L` below VISIBLE): shapes are
    predicted from all of them. `hand_L` marks those that a person placed. `held_from` is the first frame of the
    exposure that this frame repeats (its own number when it repeats none). `lost` says why the face was not found.
    """

    frame: int
    points_LC: Array
    expected_error_px_L: Array
    visible_L: Array
    hand_L: Flags
    held_from: int
    crop: Crop | None = None
    lost: str | None = None

    @property
    def is_visible_L(self) -> Flags:
        """Which landmarks count as seen."""
        return np.asarray(self.visible_L >= VISIBLE)

    def with_hand(self, points: Mapping[int, tuple[float, float]]) -> FrameLandmarks:
        """The same frame with landmarks (by row) placed by a person: seen, without error."""
        if not points:
            return self
        rows = list(points)
        at, errors, visible = (a.copy() for a in (self.points_LC, self.expected_error_px_L, self.visible_L))
        hand = self.hand_L.copy()
        at[rows], errors[rows], visible[rows], hand[rows] = [points[row] for row in rows], 0.0, 1.0, True
        return replace(self, points_LC=at, expected_error_px_L=errors, visible_L=visible, hand_L=hand)


@dataclass(frozen=True, slots=True, eq=False)
class LandmarkTrack:
    """Landmarks of a shot by frame number, in the order of `names`."""

    names: tuple[str, ...]
    frames: Mapping[int, FrameLandmarks] = field(default_factory=dict)

    def row(self, name: str) -> int:
        """Place of a landmark in arrays. Raises UsageError on a name that the track does not have."""
        if name not in self.names:
            raise UsageError(f"landmark '{name}': not in this track; wanted one of {', '.join(self.names)}")
        return self.names.index(name)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Frame numbers in ascending order: row f of every array below."""
        return tuple(sorted(self.frames))

    @property
    def points_FLC(self) -> Array:
        """Positions of all frames."""
        rows = [self.frames[frame].points_LC for frame in self.numbers]
        return np.stack(rows) if rows else np.zeros((0, len(self.names), 2))

    @property
    def lost(self) -> dict[int, str]:
        """Frames where the face was lost, with the reason."""
        return {frame: reason for frame in self.numbers if (reason := self.frames[frame].lost) is not None}

    def with_frame(self, landmarks: FrameLandmarks) -> LandmarkTrack:
        """The same track with one frame set or replaced."""
        return replace(self, frames={**self.frames, landmarks.frame: landmarks})

    def with_hand(self, frame: int, points: Mapping[str, tuple[float, float]]) -> LandmarkTrack:
        """The same track with landmarks of a frame placed by a person. Raises UsageError on unknown names or frames."""
        if frame not in self.frames:
            raise UsageError(f"frame {frame}: not in this track; run it first")
        return self.with_frame(self.frames[frame].with_hand({self.row(name): at for name, at in points.items()}))
