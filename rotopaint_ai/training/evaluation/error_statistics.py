"""Statistics of errors as they stand in reports: spreads, and whether expected errors can be believed (goal G7).

Expected errors are judged by their size, their order, and by what the frames shown first hold.

Letters: N frames, L landmarks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.landmarks import metrics

Array = npt.NDArray[np.float64]
BAD_PX = 2.0  # a frame is bad when its visible landmarks are worse than this on average
SHOWN = 0.1  # share of the frames that an artist is shown first
_BINS = 10
FEWEST_FRAMES, FEWEST_RANKED = 5, 10  # samples below which figures, and ranks of frames, say little
BAD_PERCENT = 5.0  # of the face's width: twice what the shipped pack is off on faces that it has not seen
TRUSTED_RANK = 0.4  # half of what goal G7 wants of frames
OVERCONFIDENT = 1.5  # times the expected error
_MEAN_OF_RAYLEIGH = float(np.sqrt(2 / np.pi))


def round_figure(value: float | None) -> float | None:
    """Four digits; None for what is no number."""
    return None if value is None or not np.isfinite(value) else round(float(value), 4)


def spread(values: npt.NDArray[np.floating[Any]]) -> dict[str, float | None]:
    """Mean, median, 95th percentile and maximum of the finite values."""
    known = values[np.isfinite(values)]
    if not len(known):
        return {"mean": None, "median": None, "p95": None, "max": None}
    median, p95 = np.percentile(known, (50, 95))
    return {
        "mean": round_figure(float(known.mean())),
        "median": round_figure(float(median)),
        "p95": round_figure(float(p95)),
        "max": round_figure(float(known.max())),
    }


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """A tenth of the landmarks by expected error: what was expected and what came, means in pixels."""

    expected_px: float
    true_px: float
    count: int


def reliability(true: Array, expected: Array, n_bins: int = _BINS) -> tuple[CalibrationBin, ...]:
    """Equally filled bins by expected error; pairs with NaN are left out. A believable pack has both means alike."""
    known = np.isfinite(true) & np.isfinite(expected)
    t, e = true[known], expected[known]
    order = np.array_split(np.argsort(e, kind="stable"), min(n_bins, max(len(e), 1)))
    return tuple(CalibrationBin(float(e[rows].mean()), float(t[rows].mean()), len(rows)) for rows in order if len(rows))


def rank_correlation(a: Array, b: Array) -> float | None:
    """Spearman's, pairs with NaN left out; None where fewer than 3 are left or one does not vary."""
    known = np.isfinite(a) & np.isfinite(b)
    rho = metrics.rank_correlation(a[known], b[known]) if known.sum() >= 3 else float("nan")
    return float(rho) if np.isfinite(rho) else None


def ceiling(expected: Array, seed: int = 0) -> float | None:
    """The rank correlation that flawless expected errors of this spread would reach.

    A landmark's true error is one draw: with an even spread of expected errors even perfect ones rank no better than
    chance. Drawn from the Rayleigh law (an isotropic normal miss) whose mean is the expected error.
    """
    known = expected[np.isfinite(expected)]
    drawn = np.random.default_rng(seed).rayleigh(known * _MEAN_OF_RAYLEIGH)
    return rank_correlation(drawn, known)


def per_frame(values_NL: Array) -> Array:
    """[N] mean over the landmarks that count; NaN where a frame has none."""
    known = np.isfinite(values_NL)
    counts = known.sum(axis=1)
    return np.where(counts > 0, np.where(known, values_NL, 0.0).sum(axis=1) / np.maximum(counts, 1), np.nan)


def shown_first(true_N: Array, expected_N: Array) -> dict[str, Any]:
    """How many of the bad frames stand in the tenth that the expected error shows first.

    `of_them_in_worst_tenth_shown` cannot reach 1 when more than a tenth of the frames is bad:
    `of_those_that_fit` divides by what the tenth can hold.
    """
    known = np.isfinite(true_N) & np.isfinite(expected_N)
    true, expected = true_N[known], expected_N[known]
    n_shown = max(1, round(SHOWN * len(true)))
    bad, shown = true > BAD_PX, np.zeros(len(true), bool)
    shown[np.argsort(-expected, kind="stable")[:n_shown]] = True
    caught, n_bad = int((bad & shown).sum()), int(bad.sum())
    return {
        "frames_worse_than_2_px": n_bad,
        "frames_shown": n_shown,
        "of_them_in_worst_tenth_shown": round_figure(caught / n_bad) if n_bad else None,
        "of_those_that_fit": round_figure(caught / min(n_bad, n_shown)) if n_bad else None,
    }


def calibration_figures(true_NL: Array, expected_NL: Array) -> dict[str, Any]:
    """All of it as JSON values. `true_NL`: distances in pixels, NaN where a landmark does not count."""
    expected = np.where(np.isfinite(true_NL), expected_NL, np.nan)
    frame_true, frame_expected = per_frame(true_NL), per_frame(expected)
    return {
        "rank_correlation": round_figure(rank_correlation(true_NL.ravel(), expected.ravel())),
        "rank_correlation_at_best": round_figure(ceiling(expected.ravel())),
        "rank_correlation_of_frames": round_figure(rank_correlation(frame_true, frame_expected)),
        "mean_true_px": round_figure(_mean(true_NL)),
        "mean_expected_px": round_figure(_mean(expected)),
        **shown_first(frame_true, frame_expected),
        "reliability": [
            {"expected_px": round_figure(b.expected_px), "true_px": round_figure(b.true_px), "count": b.count}
            for b in reliability(true_NL.ravel(), expected.ravel())
        ],
    }


def doubts(result: Mapping[str, Any]) -> list[str]:
    """Why figures of a pack (`evaluate.pack_metrics`) are not to be trusted, or the pack itself: a line each."""
    n, expected, share = result["n_samples"], result["expected_error"], result["landmarks_percent"]["mean"]
    rank, true_px, expected_px = (
        expected[name] for name in ("rank_correlation_of_frames", "mean_true_px", "mean_expected_px")
    )
    found = []
    if n < FEWEST_FRAMES:
        found.append(f"measured on {n} sample{'' if n == 1 else 's'}: these figures say little")
    if share is not None and share > BAD_PERCENT:
        found.append(f"landmarks are {share:.1f} % of the face off: badly trained, or it knows no such face")
    if rank is not None and rank < TRUSTED_RANK and expected["frames_worse_than_2_px"] > 1 and n >= FEWEST_RANKED:
        found.append(f"expected errors do not find the bad frames (rank correlation {rank:.2f}): look at every frame")
    if true_px is not None and expected_px is not None and true_px > OVERCONFIDENT * expected_px:
        found.append(f"landmarks are {true_px:.1f} px off where {expected_px:.1f} px are expected")
    return found


def _mean(values: Array) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None
