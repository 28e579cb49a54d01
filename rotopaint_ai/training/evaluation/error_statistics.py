"""Statistics of errors for reports: percentiles, jitter, and the reliability of expected errors (goal G7).

Expected errors are evaluated by size, by rank, and by the share of bad frames among the largest ones.
Letters: N frames, L landmarks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.inference.pack import BAD_PERCENT
from rotopaint_ai.landmarks import metrics
from rotopaint_ai.landmarks.dejitter import Dejitter
from rotopaint_ai.landmarks.holds import compare
from rotopaint_ai.landmarks.metrics import jitter_px
from rotopaint_ai.landmarks.track import FrameLandmarks
from rotopaint_ai.training.data.dataset import Dataset
from rotopaint_ai.training.evaluation.predictions import Predictions

Array = npt.NDArray[np.float64]
BAD_PX = 2.0  # a frame is bad if the mean error of its visible landmarks is larger
SHOWN = 0.1  # share of the frames that an artist reviews first
_BINS = 10
FEWEST_FRAMES, FEWEST_RANKED = 5, 10  # with fewer samples, metrics and frame ranks mean little
TRUSTED_RANK = 0.4  # half of goal G7 for frames
OVERCONFIDENT = 1.5  # ratio of true to expected error
_MEAN_OF_RAYLEIGH = float(np.sqrt(2 / np.pi))


def round_figure(value: float | None) -> float | None:
    """A number rounded to four decimals; None for NaN and infinity."""
    return None if value is None or not np.isfinite(value) else round(float(value), 4)


def summarise_values(values: npt.NDArray[np.floating[Any]]) -> dict[str, float | None]:
    """Mean, median, 95th percentile and maximum of the finite values."""
    known = values[np.isfinite(values)]
    figures = (known.mean(), *np.percentile(known, (50, 95)), known.max()) if len(known) else (None,) * 4
    return {name: round_figure(figure) for name, figure in zip(("mean", "median", "p95", "max"), figures)}


def reliability(true: Array, expected: Array) -> list[dict[str, Any]]:
    """Deciles of the landmarks by expected error: mean expected error, mean true error (pixels), and count.

    Pairs with NaN are left out. Both means are similar if expected errors are reliable.
    """
    known = np.isfinite(true) & np.isfinite(expected)
    t, e = true[known], expected[known]
    order = np.array_split(np.argsort(e, kind="stable"), min(_BINS, max(len(e), 1)))
    return [
        {
            "expected_px": round_figure(float(e[rows].mean())),
            "true_px": round_figure(float(t[rows].mean())),
            "count": len(rows),
        }
        for rows in order
        if len(rows)
    ]


def known_rank_correlation(a: Array, b: Array) -> float | None:
    """Spearman's rank correlation without NaN pairs; None if fewer than 3 are left or one is constant."""
    known = np.isfinite(a) & np.isfinite(b)
    rho = metrics.rank_correlation(a[known], b[known]) if known.sum() >= 3 else float("nan")
    return float(rho) if np.isfinite(rho) else None


def best_rank_correlation(expected: Array) -> float | None:
    """The rank correlation that perfect expected errors with this distribution would reach.

    A landmark's true error is one random draw, so even perfect expected errors rank at chance level if they are all
    equal. True errors are drawn from the Rayleigh distribution (isotropic normal error) with the expected error as
    mean.
    """
    known = expected[np.isfinite(expected)]
    drawn = np.random.default_rng(0).rayleigh(known * _MEAN_OF_RAYLEIGH)
    return known_rank_correlation(drawn, known)


def per_frame(values_NL: Array) -> Array:
    """The mean [N] over known landmarks; NaN if a frame has none."""
    known = np.isfinite(values_NL)
    counts = known.sum(axis=1)
    return np.where(counts > 0, np.where(known, values_NL, 0.0).sum(axis=1) / np.maximum(counts, 1), np.nan)


def review_figures(true_N: Array, expected_N: Array) -> dict[str, Any]:
    """How many bad frames are in the tenth of frames with the largest expected errors.

    `of_them_in_worst_tenth_shown` cannot reach 1 if more than a tenth of the frames is bad; `of_those_that_fit` divides
    by the number that could be in that tenth.
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
    """All statistics of expected errors as JSON values. `true_NL`: distances in pixels, NaN where a landmark does not
    count."""
    expected = np.where(np.isfinite(true_NL), expected_NL, np.nan)
    frame_true, frame_expected = per_frame(true_NL), per_frame(expected)
    return {
        "rank_correlation": round_figure(known_rank_correlation(true_NL.ravel(), expected.ravel())),
        "rank_correlation_at_best": round_figure(best_rank_correlation(expected.ravel())),
        "rank_correlation_of_frames": round_figure(known_rank_correlation(frame_true, frame_expected)),
        "mean_true_px": summarise_values(true_NL)["mean"],
        "mean_expected_px": summarise_values(expected)["mean"],
        **review_figures(frame_true, frame_expected),
        "reliability": reliability(true_NL.ravel(), expected.ravel()),
    }


def list_doubts(result: Mapping[str, Any]) -> list[str]:
    """Reasons, one per line, not to trust a pack's metrics (`evaluate.pack_metrics`) or the pack itself."""
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


_SAME_PX = 0.02  # ground truth that moved less did not move
_FEWEST = 3


def consecutive_runs(dataset: Dataset) -> Iterator[list[int]]:
    """Rows of consecutive frames of a shot, three or more, in order."""
    key = {row: (s.character, s.shot, s.frame) for row, s in enumerate(dataset.samples)}
    rows = sorted(key, key=lambda row: key[row])
    run: list[int] = []
    for row in rows:
        follows = bool(run) and key[row][:2] == key[run[-1]][:2] and key[row][2] == key[run[-1]][2] + 1
        if run and not follows:
            if len(run) >= _FEWEST:
                yield run
            run = []
        run.append(row)
    if len(run) >= _FEWEST:
        yield run


def exposure_rows(dataset: Dataset, run: Sequence[int]) -> list[int]:
    """For each row of a run, the row of the exposure that it repeats: same ground truth and same picture."""
    first = [run[0]]
    for row in run[1:]:
        anchor = first[-1]
        first.append(anchor if _is_repeat(dataset, anchor, row) else row)
    return first


def _is_repeat(dataset: Dataset, one: int, other: int) -> bool:
    a, b = dataset.samples[one], dataset.samples[other]
    if (a.width, a.height) != (b.width, b.height) or abs(a.pixel_scale - b.pixel_scale) > 1e-5:
        return False
    moved = np.abs(dataset.truth.landmarks[one] - dataset.truth.landmarks[other])
    known = np.isfinite(moved)
    if not known.any() or float(moved[known].max()) > _SAME_PX * a.pixel_scale:
        return False
    grey = [cv2.cvtColor(dataset.picture(row), cv2.COLOR_RGB2GRAY).astype(np.float32) for row in (one, other)]
    return compare(grey[0], grey[1]).is_held


def jitter_figures(dataset: Dataset, predicted: Predictions) -> dict[str, Any]:
    """Jitter of landmarks in plate pixels: root mean square per axis; None without motion or holds.

    `steadied`: after de-jitter over the same frames, with its landmark error. Only consecutive frames count.
    """
    scale = np.array([s.pixel_scale for s in dataset.samples])[:, None, None]
    true = dataset.truth.landmarks.astype(np.float64) / scale
    raw = predicted.landmarks / scale
    steady = np.full_like(raw, np.nan)
    moving: dict[str, list[Array]] = {"raw": [], "steadied": []}
    within: dict[str, list[Array]] = {"raw": [], "steadied": []}
    looked: list[int] = []
    for run in consecutive_runs(dataset):
        first = exposure_rows(dataset, run)
        _dejitter(predicted, raw, run, first, steady)
        looked += run
        for name, found in (("raw", raw), ("steadied", steady)):
            moving[name] += _exposure_errors(found - true, first)
            within[name] += _hold_differences(found, run, first)
    seen = np.nan_to_num(dataset.truth.visible.astype(np.float64)) > 0.5
    distance = np.where(seen, np.linalg.norm(steady - true, axis=2), np.nan)[looked]
    return {
        "frames": len(looked),
        "moving_px": {name: _rms_jitter(parts) for name, parts in moving.items()},
        "in_holds_px": {name: _rms_in_holds(parts) for name, parts in within.items()},
        "landmarks_steadied_px": summarise_values(distance),
    }


def _exposure_errors(errors: Array, first: Sequence[int]) -> list[Array]:
    """The errors of a run's exposures in order, restricted to landmarks known in all of them: one block, or none."""
    block = errors[list(dict.fromkeys(first))]
    known = np.isfinite(block).all(axis=(0, 2))
    return [block[:, known]] if len(block) >= _FEWEST and known.any() else []


def _hold_differences(found: Array, run: Sequence[int], first: Sequence[int]) -> list[Array]:
    """Differences between held frames and the exposure that they repeat."""
    pairs = [(row, anchor) for row, anchor in zip(run, first) if row != anchor]
    return [found[row] - found[anchor] for row, anchor in pairs]


def _rms_jitter(blocks: Sequence[Array]) -> float | None:
    squares = [(jitter_px(block) ** 2, (len(block) - 2) * block.shape[1]) for block in blocks]
    total = sum(count for _, count in squares)
    return round_figure(float(np.sqrt(sum(s * count for s, count in squares) / total))) if total else None


def _rms_in_holds(blocks: Sequence[Array]) -> float | None:
    values = np.concatenate(blocks) if blocks else np.zeros((0, 2))
    values = values[np.isfinite(values)]
    return round_figure(float(np.sqrt((values**2).mean() / 2))) if len(values) else None


def _dejitter(predicted: Predictions, raw: Array, run: Sequence[int], first: Sequence[int], out: Array) -> None:
    """De-jitter a run into `out`; landmarks that the pack lacks stay NaN."""
    columns = np.flatnonzero(np.isfinite(raw[run]).all(axis=(0, 2)))
    if len(columns) < _FEWEST:
        return
    fuse = Dejitter()
    ready: list[FrameLandmarks] = []
    for at, row in enumerate(run):
        ready += fuse.push(
            FrameLandmarks(
                frame=at,
                points_LC=raw[row][columns],
                expected_error_px_L=predicted.expected_px[row][columns],
                visible_L=predicted.seen[row][columns],
                hand_L=np.zeros(len(columns), dtype=bool),
                held_from=run.index(first[at]),
            )
        )
    for landmarks in [*ready, *fuse.flush()]:
        out[run[landmarks.frame], columns] = landmarks.points_LC
