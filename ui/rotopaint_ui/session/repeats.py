"""Detects repeated corrections of the same error; Teach can then correct the whole shot. No Qt, no numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import hypot

from rotopaint_ai.shapes.manual_keys import manual_keys
from rotopaint_ai.shapes.roto import RotoDocument, RotoShape

LEAST_PX = 1.0  # smallest mean offset of a shape's control points that counts as a correction
ENOUGH_POSES = 3  # corrected poses that training on a shot needs (`training/pack/shot.py`)
LIKENESS = 0.7  # two corrections whose offsets have at least this cosine count as the same
Offset = tuple[float, float]


def repeated_correction(
    predicted: RotoDocument, document: RotoDocument, hold_of: Callable[[int], range]
) -> tuple[str, int] | None:
    """The first shape that was corrected alike on two or more holds, and their number; None without one."""
    models = {shape.name: shape for shape in predicted.shapes}
    for shape in document.shapes:
        base = models.get(shape.name)
        if base is not None and base.n_points == shape.n_points:
            offsets = [o for o in _offsets_by_hold(base, shape, hold_of) if hypot(*o) >= LEAST_PX]
            n = max((sum(_are_alike(a, b) for b in offsets) for a in offsets), default=0)  # each is like itself
            if n > 1:
                return shape.name, n
    return None


def _offsets_by_hold(base: RotoShape, shape: RotoShape, hold_of: Callable[[int], range]) -> Sequence[Offset]:
    """The offsets of human keys from the models' prediction, one for each hold, plate pixels."""
    found: dict[int, Offset] = {}
    for frame in manual_keys(shape):
        if frame in base.keys:
            pairs = list(zip(base.keys[frame].points, shape.keys[frame].points))
            n = len(pairs) or 1
            found[hold_of(frame)[0]] = (sum(b.x - a.x for a, b in pairs) / n, sum(b.y - a.y for a, b in pairs) / n)
    return list(found.values())


def _are_alike(a: Offset, b: Offset) -> bool:
    return a[0] * b[0] + a[1] * b[1] >= LIKENESS * hypot(*a) * hypot(*b)
