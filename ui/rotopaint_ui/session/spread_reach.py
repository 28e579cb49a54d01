"""The frames over which a correction is spread. No Qt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from rotopaint_ai.spreads import RANGE

End = Literal["first", "last"]


@dataclass(frozen=True, slots=True)
class SpreadReach:
    """Frames `first` to `last` around the corrected frame; `is_spread`: the correction was spread over them."""

    frame: int
    first: int
    last: int
    is_spread: bool = False
    way: str = RANGE  # the way by which a drag of an end spreads it again

    def with_end(self, end: End, to: int) -> SpreadReach:
        """The range with one end moved, but not past the corrected frame."""
        if end == "first":
            return replace(self, first=min(to, self.frame))
        return replace(self, last=max(to, self.frame))

    def longer(self, by: int, axis_first: int, axis_last: int) -> SpreadReach:
        """The range with both ends moved outwards by `by` frames (inwards if negative), within the shot."""
        first = min(max(self.first - by, axis_first), self.frame)
        return replace(self, first=first, last=max(min(self.last + by, axis_last), self.frame))
