"""The time axis: which frames are shown, and where. Arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass, replace

LEFT, RIGHT = 84.0, 12.0  # room for the names of shapes, and for half a frame number
_STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000, 10000)
_LEAST = 4.0  # frames that fill the axis when it is magnified most


@dataclass(frozen=True, slots=True)
class Axis:
    """Frames `first` to `last` of a shot on `width` pixels of a widget, of which `begin` to `end` is shown.

    `begin` and `end` are positions in frames: frame f covers [f, f + 1).
    """

    first: int
    last: int
    width: float
    begin: float
    end: float

    @classmethod
    def whole(cls, first: int, last: int, width: float) -> Axis:
        """The axis that shows the whole shot."""
        return cls(first, last, width, float(first), float(last + 1))

    @property
    def cell(self) -> float:
        """The width of one frame in pixels."""
        return max(self.width - LEFT - RIGHT, 1.0) / (self.end - self.begin)

    @property
    def is_whole(self) -> bool:
        """Whether every frame is shown."""
        return self.begin <= self.first and self.end >= self.last + 1

    @property
    def right(self) -> float:
        """The right end of the strips, pixels."""
        return self.width - RIGHT

    @property
    def frames(self) -> range:
        """The frames that are at least partly shown."""
        return range(max(int(self.begin), self.first), min(int(-(-self.end // 1)), self.last + 1))

    def x_of(self, frame: float) -> float:
        """The left edge of a frame's cell."""
        return LEFT + (frame - self.begin) * self.cell

    def middle_of(self, frame: int) -> float:
        """The middle of a frame's cell."""
        return self.x_of(frame + 0.5)

    def frame_at(self, x: float) -> int:
        """The frame at an x position; outside the axis, the nearest frame of the shot."""
        return min(max(int((self.begin + (x - LEFT) / self.cell) // 1), self.first), self.last)

    def tick_step(self, least_px: float) -> int:
        """The step in frames between number labels, so that they are at least `least_px` apart."""
        return next((step for step in _STEPS if step * self.cell >= least_px), _STEPS[-1])

    def zoomed(self, factor: float, x: float) -> Axis:
        """The axis magnified about an x position, within the shot and down to a few frames."""
        whole = float(self.last + 1 - self.first)
        span = min(max((self.end - self.begin) / factor, min(_LEAST, whole)), whole)
        share = min(max((x - LEFT) / max(self.width - LEFT - RIGHT, 1.0), 0.0), 1.0)
        at = self.begin + share * (self.end - self.begin)
        return self._axis_at(at - share * span, span)

    def moved(self, pixels: float) -> Axis:
        """The axis shifted by a drag of some pixels."""
        return self._axis_at(self.begin - pixels / self.cell, self.end - self.begin)

    def showing(self, frame: int) -> Axis:
        """The axis shifted just far enough to show a frame."""
        span = self.end - self.begin
        if self.begin <= frame and frame + 1 <= self.end:
            return self
        return self._axis_at(frame - span / 2, span)

    def _axis_at(self, begin: float, span: float) -> Axis:
        begin = min(max(begin, float(self.first)), self.last + 1 - span)
        return replace(self, begin=begin, end=begin + span)
