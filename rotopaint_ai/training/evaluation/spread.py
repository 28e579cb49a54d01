"""Numbers as they stand in reports: a mean, a median, a 95th percentile and the worst, rounded; None where unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def rounded(value: float | None) -> float | None:
    """Four digits; None for what is no number."""
    return None if value is None or not np.isfinite(value) else round(float(value), 4)


def spread(values: npt.NDArray[np.floating[Any]]) -> dict[str, float | None]:
    """Mean, median, 95th percentile and maximum of the finite values."""
    known = values[np.isfinite(values)]
    if not len(known):
        return {"mean": None, "median": None, "p95": None, "max": None}
    median, p95 = np.percentile(known, (50, 95))
    return {
        "mean": rounded(float(known.mean())),
        "median": rounded(float(median)),
        "p95": rounded(float(p95)),
        "max": rounded(float(known.max())),
    }
