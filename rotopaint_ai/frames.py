"""Frame numbers as on disk, and inclusive ranges of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rotopaint_ai.errors import UsageError

T = TypeVar("T")

_RANGE = re.compile(r"^\s*(-?[0-9]{1,18})\s*(?:-\s*(-?[0-9]{1,18}))?\s*$")
MOST_FRAMES = 100_000  # 69 minutes at 24 fps; a longer range is surely a typing error and would fill memory and disk


@dataclass(frozen=True, slots=True)
class FrameRange:
    """Frames `first` to `last`, both included."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if self.last < self.first:
            raise UsageError(f"frames {self.first}-{self.last}: the last frame comes before the first; swap them")

    @classmethod
    def parse(cls, text: str) -> FrameRange:
        """Read `1001-1040`, or `1001` for one frame. Raises UsageError on anything else and on absurd lengths."""
        match = _RANGE.match(text)
        if match is None:
            raise UsageError(f"frames '{text}': wanted FIRST-LAST such as 1001-1040, or one frame number")
        first = int(match[1])
        return cls(first, first if match[2] is None else int(match[2])).checked()

    def checked(self) -> FrameRange:
        """The range itself. Raises UsageError where it is longer than any shot."""
        if len(self) > MOST_FRAMES:
            raise UsageError(f"frames {self}: {len(self):,} frames; wanted at most {MOST_FRAMES:,}: check the numbers")
        return self

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __contains__(self, frame: object) -> bool:
        return isinstance(frame, int) and self.first <= frame <= self.last

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def parse_frames(text: str) -> tuple[int, ...]:
    """Frames of `1001-1010,1015`, ascending, each once. Raises UsageError as `FrameRange.parse`."""
    return tuple(sorted({frame for part in text.split(",") for frame in FrameRange.parse(part)}))


def evenly_spread(items: Sequence[T], most: int) -> list[T]:
    """At most `most` items, evenly spread, with the first and the last; only the first where `most` is 1.

    `items` must not be empty."""
    if len(items) <= most:
        return list(items)
    if most == 1:
        return [items[0]]
    return [items[round(k * (len(items) - 1) / (most - 1))] for k in range(most)]


def n_frames(count: int) -> str:
    """A number of frames as a person writes it: `1 frame`, `24 frames`."""
    return f"{count} frame" if count == 1 else f"{count} frames"


def summarise(frames: Iterable[int]) -> str:
    """Frames as a person writes them: `1001-1003, 1007`. The empty set is `none`."""
    ordered = sorted(set(frames))
    if not ordered:
        return "none"
    runs: list[list[int]] = []
    for frame in ordered:
        if runs and frame == runs[-1][1] + 1:
            runs[-1][1] = frame
        else:
            runs.append([frame, frame])
    return ", ".join(str(FrameRange(first, last)) for first, last in runs)
