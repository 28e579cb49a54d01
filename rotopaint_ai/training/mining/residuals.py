"""How far the new splines lie from what the artists drew: per shape and shot, in pixels of the plate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rotopaint_ai.shapes import bezier
from rotopaint_ai.training.mining.outline import Array


@dataclass(frozen=True, slots=True)
class Residual:
    """One shape in one shot: mean over frames of the mean distance, its 95th percentile, and the largest distance."""

    shape: str
    shot: str
    n_frames: int
    n_artist: int
    n_points: int
    mean_px: float
    p95_px: float
    max_px: float

    def content(self) -> dict[str, object]:
        """The line of the table for machines."""
        rounded = {name: round(float(getattr(self, name)), 4) for name in ("mean_px", "p95_px", "max_px")}
        return {
            **{name: getattr(self, name) for name in ("shape", "shot", "n_frames", "n_artist", "n_points")},
            **rounded,
        }


def distances(raw: Sequence[Array], points_FP6: Array, closed: bool) -> Array:
    """[F, 2] symmetric mean and largest distance in pixels of raw curves to their new splines."""
    found = [bezier.curve_distance(own, new, closed) for own, new in zip(raw, points_FP6)]
    return np.array(found, dtype=np.float64).reshape(-1, 2)


def tabulate(
    shape: str, distance_F2: Array, shots: Sequence[str], raw: Sequence[Array], n_points: int
) -> list[Residual]:
    """The lines of one shape, shot by shot and, of several shots, for all of them."""
    lines = []
    names = list(dict.fromkeys(shots))
    for shot in [*names, *(["all"] if len(names) > 1 else [])]:
        rows = [row for row, own in enumerate(shots) if shot in (own, "all")]
        mean = distance_F2[rows, 0]
        lines.append(
            Residual(
                shape,
                shot,
                len(rows),
                int(np.median([len(raw[row]) for row in rows])),
                n_points,
                float(mean.mean()),
                float(np.quantile(mean, 0.95)),
                float(distance_F2[rows, 1].max()),
            )
        )
    return lines


def text(lines: Sequence[Residual]) -> str:
    """The table for people."""
    width = max([len(line.shape) for line in lines] + [5])
    shot = max([len(line.shot) for line in lines] + [4])
    head = f"{'shape':{width}}  {'shot':{shot}}  frames  points (artist)   mean px    95 %     max"
    rows = [
        f"{line.shape:{width}}  {line.shot:{shot}}  {line.n_frames:6d}  {line.n_points:6d} ({line.n_artist:d})".ljust(
            width + shot + 28
        )
        + f"{line.mean_px:9.3f} {line.p95_px:7.3f} {line.max_px:7.2f}"
        for line in lines
    ]
    return "\n".join([head, *rows]) + "\n"
