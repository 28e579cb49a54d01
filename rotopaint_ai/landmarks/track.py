"""The landmarks of a frame: position, expected error and provenance of each.

L landmarks, C components x then y. Plate space, pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Picture = npt.NDArray[np.float32]

# A landmark model: display-referred crops (N,S,S,3) to landmarks (N,L,2) and expected errors (N,L), both in crop
# pixels, and the probability of being visible (N,L).
Detect = Callable[[Picture], tuple[Picture, Picture, Picture]]

VISIBLE = 0.5  # probability from which a landmark counts as visible


@dataclass(frozen=True, slots=True, eq=False)
class FrameLandmarks:
    """Landmarks of one frame.

    `points_LC` has a position for every landmark, also for hidden ones (`visible_L` below VISIBLE), because shapes are
    predicted from all. `hand_L`: placed by a person. `held_from`: first frame of the exposure that this frame repeats
    (its own number if none). `lost`: why the face was not found.
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
        """Which landmarks count as visible."""
        return np.asarray(self.visible_L >= VISIBLE)

    def with_hand(self, points: Mapping[int, tuple[float, float]]) -> FrameLandmarks:
        """The same frame with landmarks (by row) placed by a person: visible, without error."""
        if not points:
            return self
        rows = list(points)
        at, errors, visible = (a.copy() for a in (self.points_LC, self.expected_error_px_L, self.visible_L))
        hand = self.hand_L.copy()
        at[rows], errors[rows], visible[rows], hand[rows] = [points[row] for row in rows], 0.0, 1.0, True
        return replace(self, points_LC=at, expected_error_px_L=errors, visible_L=visible, hand_L=hand)
