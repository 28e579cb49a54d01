"""The keys that an edit has moved, and by how much. No Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from rotopaint_ai.shapes.roto import RotoDocument, largest_move


@dataclass(frozen=True, slots=True)
class KeyDiff:
    """The keys that an edit moved: per frame, the largest distance of a control point, in plate pixels."""

    by_frame: Mapping[int, float]
    n_keys: int
    shapes: frozenset[str]

    def text(self, what: str) -> str:
        """One line for the artist."""
        if not self.n_keys:
            return f"{what}: every key already fits, none was moved"
        frame, most = max(self.by_frame.items(), key=lambda item: item[1])
        shapes = f"{len(self.shapes)} shape" + ("s" if len(self.shapes) > 1 else "")
        return f"{what}: {self.n_keys} keys of {shapes} moved, most by {most:.1f} px at {frame}. Undo takes it back"


def keys_moved_between(before: RotoDocument, after: RotoDocument) -> KeyDiff:
    """The differences between two documents' keys; added and deleted keys count as moved by 0 px."""
    by_frame: dict[int, float] = {}
    names, n_keys = set(), 0
    earlier = {shape.name: shape for shape in before.shapes}
    for shape in after.shapes:
        old = earlier[shape.name].keys if shape.name in earlier else {}
        for frame, key in shape.keys.items():
            if frame not in old or (old[frame] is not key and old[frame].points != key.points):
                px = largest_move(old[frame].points, key.points) if frame in old else 0.0
                by_frame[frame] = max(by_frame.get(frame, 0.0), px if isfinite(px) else 0.0)
                names.add(shape.name)
                n_keys += 1
    return KeyDiff(by_frame, n_keys, frozenset(names))
