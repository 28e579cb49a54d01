"""The time axis: which frames are shown, and where. Plain arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace

LEFT, RIGHT = 84.0, 12.0  # room for the names of shapes, and for half a frame number
_STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000, 10000)
_LEAST = 4.0  # frames that fill the axis when it is magnified most


@dataclass(frozen=True, slots=True)
class Axis:
    """Frames `first` to `last` of a shot on `width` pixels of a widget; `begin` and `end` bound what is shown of it.

    `begin` and `end` are positions in frames: frame f covers [f, f + 1).
    """

    first: int
    last: int
    width: float
    begin: float
    end: float

    @classmethod
    def whole(cls, first: int, last: int, width: float) -> Axis:
        """The whole shot."""
        return cls(first, last, width, float(first), float(last + 1))

    @property
    def cell(self) -> float:
        """Pixels for one frame."""
        return max(self.width - LEFT - RIGHT, 1.0) / (self.end - self.begin)

    @property
    def is_whole(self) -> bool:
        """Whether every frame is shown."""
        return self.begin <= self.first and self.end >= self.last + 1

    @property
    def right(self) -> float:
        """Where the strips end."""
        return self.width - RIGHT

    @property
    def frames(self) -> range:
        """The frames of which something is shown."""
        return range(max(int(self.begin), self.first), min(int(-(-self.end // 1)), self.last + 1))

    def x_of(self, frame: float) -> float:
        """The left edge of a frame's cell."""
        return LEFT + (frame - self.begin) * self.cell

    def middle_of(self, frame: int) -> float:
        """The middle of a frame's cell."""
        return self.x_of(frame + 0.5)

    def frame_at(self, x: float) -> int:
        """The frame whose cell holds a place; the nearest one of the shot outside the axis."""
        return min(max(int((self.begin + (x - LEFT) / self.cell) // 1), self.first), self.last)

    def tick_step(self, least_px: float) -> int:
        """The step in frames between number labels, so that they are at least `least_px` apart."""
        return next((step for step in _STEPS if step * self.cell >= least_px), _STEPS[-1])

    def zoomed(self, factor: float, x: float) -> Axis:
        """Magnified about a place; never beyond the shot, never below a few frames."""
        whole = float(self.last + 1 - self.first)
        span = min(max((self.end - self.begin) / factor, min(_LEAST, whole)), whole)
        share = min(max((x - LEFT) / max(self.width - LEFT - RIGHT, 1.0), 0.0), 1.0)
        at = self.begin + share * (self.end - self.begin)
        return self._axis_at(at - share * span, span)

    def moved(self, pixels: float) -> Axis:
        """Shifted by a drag of so many pixels."""
        return self._axis_at(self.begin - pixels / self.cell, self.end - self.begin)

    def showing(self, frame: int) -> Axis:
        """Shifted just so far that a frame is seen."""
        span = self.end - self.begin
        if self.begin <= frame and frame + 1 <= self.end:
            return self
        return self._axis_at(frame - span / 2, span)

    def _axis_at(self, begin: float, span: float) -> Axis:
        begin = min(max(begin, float(self.first)), self.last + 1 - span)
        return replace(self, begin=begin, end=begin + span)
