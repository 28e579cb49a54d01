"""The colours of expected errors, relative to the shot and not only to a fixed limit. No Qt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

BAD_SHARE = 0.0025  # share of the plate's width: an expected error this large is bad in any shot
_LOW, _HIGH = 0.1, 0.95  # shares of a shot's errors between which its colours run


@dataclass(frozen=True, slots=True)
class ErrorScale:
    """Errors in pixels from `low` (sure) to `high` (doubtful)."""

    low: float
    high: float

    def share(self, error: float) -> float:
        """The position of an error on the scale, 0 to 1; an infinite error (lost) is 1."""
        return 1.0 if error == float("inf") else min(max((error - self.low) / self.span, 0.0), 1.0)

    @property
    def span(self) -> float:
        """The width of the scale in pixels."""
        return self.high - self.low


def scale_of(errors: Iterable[float], bad_px: float) -> ErrorScale:
    """The scale of a shot.

    Where nearly all errors are below `bad_px` it runs from 0 to that, so that a good shot looks good. Else it runs
    over the shot's own errors, so that its worst frames stand out; differences below half of `bad_px` stay small.
    """
    known = sorted(error for error in errors if error != float("inf"))
    if not known or _quantile(known, _HIGH) <= bad_px:
        return ErrorScale(0.0, bad_px)
    low = _quantile(known, _LOW)
    return ErrorScale(low, max(_quantile(known, _HIGH), low + bad_px / 2))


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[round(share * (len(ordered) - 1))]
