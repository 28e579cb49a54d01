"""How found landmarks jitter: on moving frames, and inside holds, as read and after de-jitter as a run does it.

A landmark's error is a vector; a bias that stays is no jitter, so jitter is measured on error vectors over time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.landmarks.dejitter import Dejitter
from rotopaint_ai.landmarks.holds import compare
from rotopaint_ai.landmarks.metrics import jitter_px
from rotopaint_ai.landmarks.track import FrameLandmarks
from rotopaint_ai.training.data.dataset import Dataset
from rotopaint_ai.training.evaluation.error_statistics import round_figure, spread
from rotopaint_ai.training.evaluation.predictions import Predictions

Array = npt.NDArray[np.float64]
_SAME_PX = 0.02  # truth that moved less did not move
_FEWEST = 3


def consecutive_runs(dataset: Dataset) -> Iterator[list[int]]:
    """Rows of consecutive frames of each shot, three or more, in order."""
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


def held_from(dataset: Dataset, run: Sequence[int]) -> list[int]:
    """For each row of a run the row of the exposure that it repeats: the truth stands still and so does the picture."""
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
    """Tremor of landmarks in plate pixels: root mean square per axis; None where the samples show no motion or hold.

    `steadied`: after de-jitter over the same frames, with its landmark error. Shots need consecutive frames.
    """
    scale = np.array([s.pixel_scale for s in dataset.samples])[:, None, None]
    true = dataset.truth.landmarks.astype(np.float64) / scale
    raw = predicted.landmarks / scale
    steady = np.full_like(raw, np.nan)
    moving: dict[str, list[Array]] = {"raw": [], "steadied": []}
    within: dict[str, list[Array]] = {"raw": [], "steadied": []}
    looked: list[int] = []
    for run in consecutive_runs(dataset):
        first = held_from(dataset, run)
        _dejitter(predicted, raw, run, first, steady)
        looked += run
        for name, found in (("raw", raw), ("steadied", steady)):
            moving[name] += _exposures(found - true, first)
            within[name] += _inside(found, run, first)
    seen = np.nan_to_num(dataset.truth.visible.astype(np.float64)) > 0.5
    distance = np.where(seen, np.linalg.norm(steady - true, axis=2), np.nan)[looked]
    return {
        "frames": len(looked),
        "moving_px": {name: _jitter(parts) for name, parts in moving.items()},
        "in_holds_px": {name: _still(parts) for name, parts in within.items()},
        "landmarks_steadied_px": spread(distance),
    }


def _exposures(errors: Array, first: Sequence[int]) -> list[Array]:
    """The errors of a run's exposures in order, landmarks known in all of them: one block, or none."""
    block = errors[list(dict.fromkeys(first))]
    known = np.isfinite(block).all(axis=(0, 2))
    return [block[:, known]] if len(block) >= _FEWEST and known.any() else []


def _inside(found: Array, run: Sequence[int], first: Sequence[int]) -> list[Array]:
    """Differences of held frames to the exposure that they repeat."""
    pairs = [(row, anchor) for row, anchor in zip(run, first) if row != anchor]
    return [found[row] - found[anchor] for row, anchor in pairs]


def _jitter(blocks: Sequence[Array]) -> float | None:
    squares = [(jitter_px(block) ** 2, (len(block) - 2) * block.shape[1]) for block in blocks]
    total = sum(count for _, count in squares)
    return round_figure(float(np.sqrt(sum(s * count for s, count in squares) / total))) if total else None


def _still(blocks: Sequence[Array]) -> float | None:
    values = np.concatenate(blocks) if blocks else np.zeros((0, 2))
    values = values[np.isfinite(values)]
    return round_figure(float(np.sqrt((values**2).mean() / 2))) if len(values) else None


def _dejitter(predicted: Predictions, raw: Array, run: Sequence[int], first: Sequence[int], out: Array) -> None:
    """De-jitter a run into `out`; landmarks that the pack does not have stay NaN."""
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
