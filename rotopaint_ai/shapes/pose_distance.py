"""The distance between poses of a face, from a shot's landmarks.

Without numpy, because the user interface calls it whenever the user jumps to the next frame to review.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt

from rotopaint_ai.shapes.roto import Landmark, LandmarkKeys

TOO_FEW = 3  # fewest landmarks for a similarity
UNLIKE = 0.1  # distance to every corrected pose above which an expected error counts fully
SAME_POSE = 0.05  # smallest factor on an expected error: a clearly larger one still comes first


def pose_distance(a: Sequence[Landmark | None], b: Sequence[Landmark | None]) -> float:
    """Residual between two rows of landmarks after the best similarity, as a share of their spread: 0 to 1.

    Landmarks hidden in either row are left out; 1 if too few are left, or if all coincide.
    Source: full Procrustes distance, Dryden and Mardia, "Statistical Shape Analysis", eq. 4.12.
    """
    seen = [(complex(p.x, p.y), complex(q.x, q.y)) for p, q in zip(a, b) if p is not None and q is not None]
    if len(seen) < TOO_FEW:
        return 1.0
    mid_a, mid_b = sum(p for p, _ in seen) / len(seen), sum(q for _, q in seen) / len(seen)
    pairs = [(p - mid_a, q - mid_b) for p, q in seen]
    sizes = sum(abs(p) ** 2 for p, _ in pairs) * sum(abs(q) ** 2 for _, q in pairs)
    alike = abs(sum(p.conjugate() * q for p, q in pairs)) ** 2 / sizes if sizes else 0.0
    return sqrt(max(0.0, 1.0 - alike))


class PoseDistances:
    """Distances between frames of a shot; each pair is computed once."""

    def __init__(self, landmarks: LandmarkKeys) -> None:
        self.landmarks = landmarks
        self._known: dict[tuple[int, int], float] = {}

    def novelty(self, frame: int, corrected: Iterable[int]) -> float:
        """Factor 0 to 1 on a frame's expected error in the review order: smaller when a similar pose is corrected."""
        nearest = min((self._pair_distance(frame, other) for other in corrected), default=UNLIKE)
        return min(1.0, SAME_POSE + nearest / UNLIKE)

    def _pair_distance(self, frame: int, other: int) -> float:
        pair = frame, other
        if pair not in self._known:
            rows = self.landmarks.keys
            self._known[pair] = pose_distance(rows.get(frame, ()), rows.get(other, ()))
        return self._known[pair]
