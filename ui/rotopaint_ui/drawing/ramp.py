"""The colours of expected errors: blue - white - orange, which colour-blind people can tell apart."""

from __future__ import annotations

from itertools import pairwise

from PySide6.QtGui import QColor

LOST = QColor("#d83a5e")
_RAMP = ((0.0, "#2f6fd0"), (0.35, "#8fb8ee"), (0.6, "#f2efe9"), (0.8, "#ffb46b"), (1.0, "#f06a1d"))


def doubt_colour(share: float) -> QColor:
    """The colour for 0 (sure) to 1 (doubtful)."""
    for (low, left), (high, right) in pairwise(_RAMP):
        if share <= high:
            return _mix_colours(QColor(left), QColor(right), max(share - low, 0.0) / (high - low))
    return QColor(_RAMP[-1][1])


def _mix_colours(a: QColor, b: QColor, weight: float) -> QColor:
    pairs = ((a.red(), b.red()), (a.green(), b.green()), (a.blue(), b.blue()))
    return QColor(*(round(p + (q - p) * weight) for p, q in pairs))
