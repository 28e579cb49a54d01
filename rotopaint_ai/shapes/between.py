"""Interpolation of rows between two keys: linear, eased, or cubic with slopes.

Standard library only. Convention: a row is the numbers of one control point, in pixels; slopes are in pixels per frame.
"""

from __future__ import annotations

from collections.abc import Sequence

Row = Sequence[float]
Rows = Sequence[Row]


def interpolate_linear(a: Rows, b: Rows, u: float) -> list[list[float]]:
    """Rows interpolated linearly at share `u` from `a` to `b`."""
    return [[p + (q - p) * u for p, q in zip(left, right, strict=True)] for left, right in zip(a, b, strict=True)]


def ease(u: float) -> float:
    """Eased share at time share `u`, starting and ending at rest: 3 u^2 - 2 u^3."""
    return u * u * (3.0 - 2.0 * u)


def hermite(a: Rows, b: Rows, leaving: Rows, arriving: Rows, u: float, span: float) -> list[list[float]]:
    """Rows on the cubics from `a` to `b`, `span` frames later, with these slopes."""
    h = ease(u)
    out, into = u * (1.0 - u) ** 2 * span, u * u * (u - 1.0) * span
    return [
        [p + (q - p) * h + m * out + n * into for p, q, m, n in zip(*rows, strict=True)]
        for rows in zip(a, b, leaving, arriving, strict=True)
    ]


def hermite_slopes(a: Rows, b: Rows, leaving: Rows, arriving: Rows, u: float, span: float) -> list[list[float]]:
    """Slopes of the cubics of `hermite` at share `u`: its derivative by frames."""
    way = 6.0 * u * (1.0 - u) / span
    out, into = (1.0 - u) * (1.0 - 3.0 * u), u * (3.0 * u - 2.0)
    return [
        [(q - p) * way + m * out + n * into for p, q, m, n in zip(*rows, strict=True)]
        for rows in zip(a, b, leaving, arriving, strict=True)
    ]


def spline_slopes(
    before: Rows | None, here: Rows, after: Rows | None, gap_before: float, gap_after: float
) -> list[list[float]]:
    """Slopes of a smooth motion through `here`, from its neighbours at the given frame distances; None without a
    neighbour.

    Central differences, 0 at turning points, at most three times the flatter side to prevent overshoot (Fritsch and
    Carlson 1980); at an end the slope of the one side.
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
