"""The distance between poses of a face, from a shot's landmarks. No numpy, because the panel calls it at each N."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt

from rotopaint_ai.shapes.roto import Landmark, LandmarkKeys

TOO_FEW = 3  # landmarks that a similarity needs
UNLIKE = 0.1  # distance of a pose from every corrected one above which its expected error counts fully
SAME_POSE = 0.05  # by what it counts at the least: one that is clearly the largest comes first anyway


def pose_distance(a: Sequence[Landmark | None], b: Sequence[Landmark | None]) -> float:
    """What the best shift, turn and size leave between two rows of landmarks, as a share of their spread: 0 to 1.

    Landmarks hidden in either are left out; 1 where too few are left, or where all lie in one place.
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
    """Distances between frames of a shot; each pair is measured once."""

    def __init__(self, landmarks: LandmarkKeys) -> None:
        self.landmarks = landmarks
        self._known: dict[tuple[int, int], float] = {}

    def novelty(self, frame: int, corrected: Iterable[int]) -> float:
        """By what an expected error counts in a review's order, 0 to 1: the less, the nearer a corrected pose is."""
        nearest = min((self._pair_distance(frame, other) for other in corrected), default=UNLIKE)
        return min(1.0, SAME_POSE + nearest / UNLIKE)

    def _pair_distance(self, frame: int, other: int) -> float:
        pair = frame, other
        if pair not in self._known:
            rows = self.landmarks.keys
            self._known[pair] = pose_distance(rows.get(frame, ()), rows.get(other, ()))
        return self._known[pair]
