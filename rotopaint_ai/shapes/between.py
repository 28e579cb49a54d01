"""Rows of numbers between two keys: straight, eased, or along a cubic with slopes.

Standard library only. Convention: a row is what belongs to one control point, in pixels; slopes are in pixels a frame.
"""

from __future__ import annotations

from collections.abc import Sequence

Row = Sequence[float]
Rows = Sequence[Row]


def straight(a: Rows, b: Rows, u: float) -> list[list[float]]:
    """Rows a share `u` of the way from `a` to `b`."""
    return [[p + (q - p) * u for p, q in zip(left, right, strict=True)] for left, right in zip(a, b, strict=True)]


def ease(u: float) -> float:
    """The share of the way at the share `u` of the time, leaving and arriving at rest: 3 u^2 - 2 u^3."""
    return u * u * (3.0 - 2.0 * u)


def hermite(a: Rows, b: Rows, leaving: Rows, arriving: Rows, u: float, span: float) -> list[list[float]]:
    """Rows on the cubics that leave `a` and arrive at `b` with these slopes, `span` frames later."""
    h = ease(u)
    out, into = u * (1.0 - u) ** 2 * span, u * u * (u - 1.0) * span
    return [
        [p + (q - p) * h + m * out + n * into for p, q, m, n in zip(*rows, strict=True)]
        for rows in zip(a, b, leaving, arriving, strict=True)
    ]


def spline_slopes(
    before: Rows | None, here: Rows, after: Rows | None, gap_before: float, gap_after: float
) -> list[list[float]]:
    """Slopes of a smooth move through `here`, from its neighbours that many frames away; None without a neighbour.

    Central differences, 0 at turning points, at most three times the flatter side (Fritsch and Carlson 1980: nothing
    overshoots); at an end the slope of the one side.
    """
    if before is None or after is None:
        a, b, gap = (here, after, gap_after) if before is None else (before, here, gap_before)
        if b is None:
            return [[0.0] * len(row) for row in here]
        return [[(q - p) / gap for p, q in zip(left, right, strict=True)] for left, right in zip(a, b, strict=True)]
    return [
        [_slope((q - p) / gap_before, (r - q) / gap_after, (r - p) / (gap_before + gap_after))
         for p, q, r in zip(*rows, strict=True)]
        for rows in zip(before, here, after, strict=True)
    ]  # fmt: skip


def _slope(left: float, right: float, central: float) -> float:
    if left * right <= 0.0:
        return 0.0
    most = 3.0 * min(abs(left), abs(right))
    return max(-most, min(most, central))
