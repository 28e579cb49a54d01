"""Fits the numbers of `seams/width_table.py`, the function that measures a seam's reach on both sides of its curve.

    python -m rotopaint_ai.stage seams SHOTS --characters 100 --seed 30000
    python -m scripts.fit_widths SHOTS/* --write rotopaint_ai/seams/width_table.py

A SHOT is a folder of plate.#### and seam.#### pictures with truth.roto.json; folders named test* are refused. The curve
of each seam is displaced and the size of the face is changed at random, so that the function tolerates both errors.

S positions along a seam, F features.
"""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import torch

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.exchange import document
from rotopaint_ai.files import write_text
from rotopaint_ai.seams import groove_width
from rotopaint_ai.seams.ribbon import resample
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ai.stage.shot_folder import plates_of, read_seam_frame

Array = npt.NDArray[Any]

QUANTILES = (0.5, 0.9)  # quantiles of the reach: `groove_width.USUAL` and `groove_width.COVERING`
BATCH = 256
NOISE = 0.1  # standard deviation of the noise added to the features
APART = 0.9  # standard deviation of the displacement of curves, steps
MISJUDGED = 0.2  # standard deviation of the log of the face's size
TIMES = 3  # number of times that each seam is used
EVERY = 4  # places
LINE = 110  # characters
_LEAST_COVER = 0.05
_MOST_PLACES_PX = 40.0  # coverage further from the curve belongs to no seam


@dataclass(frozen=True, slots=True, eq=False)
class WidthSamples:
    """Features (S, F) of positions, the seam's true reach there (S,) in steps, and the index of the seam (S,)."""

    features: Array
    reach: Array
    seam: Array


def samples(
    shots: Sequence[Path], rng: np.random.Generator, *, times: int = TIMES, apart: float = APART
) -> WidthSamples:
    """Samples along the seams of shots. Raises: TrainingError for test shots, and where no samples are found."""
    rows: list[tuple[Array, Array]] = []
    for shot in shots:
        if shot.name.startswith("test"):
            raise TrainingError(f"{shot}: is a test shot; name training shots")
        truth = document.read(shot / "truth.roto.json")
        for path in plates_of(shot):
            rows += _of_frame(path, truth, rng, times, apart)
    if not rows:
        raise TrainingError("no plate.#### with clean.#### and seam.#### in the shots; render some with the stage")
    seam = np.repeat(np.arange(len(rows)), [len(reach) for _, reach in rows])
    return WidthSamples(np.concatenate([f for f, _ in rows]), np.concatenate([r for _, r in rows]), seam)


def _of_frame(
    path: Path, truth: RotoDocument, rng: np.random.Generator, times: int, apart: float
) -> Iterator[tuple[Array, Array]]:
    frame = int(path.name.split(".")[1])
    view = read_seam_frame(path, truth)
    grey, cover = groove_width.root_light(view.plate), view.seam.astype(np.float32) / 255
    lines = [np.asarray(line) for line, _ in view.curves]
    size = groove_width.face_px(truth.shapes, frame, truth.landmarks.keys.get(frame, ()))
    for line, own in zip(lines, _owned(cover, lines)):
        for _ in range(times):
            step = size / groove_width.STEPS_PER_FACE * float(np.exp(MISJUDGED * rng.standard_normal()))
            moved = _misplaced(resample(line), rng, apart * abs(rng.standard_normal()) * step)
            yield from _of_seam(grey, own, moved, step)


def _owned(cover: Array, lines: Sequence[Array]) -> list[Array]:
    """The coverage of each seam; a pixel belongs to the nearest curve."""
    away = []
    for line in lines:
        seeds = np.ones(cover.shape, np.uint8)
        x, y = np.floor(resample(line, 0.5)).astype(int).T
        here = (x >= 0) & (y >= 0) & (x < cover.shape[1]) & (y < cover.shape[0])
        seeds[y[here], x[here]] = 0
        away.append(cv2.distanceTransform(seeds, cv2.DIST_L2, 5) if here.any() else np.full(cover.shape, np.inf))
    nearest, least = np.argmin(away, 0), np.min(away, 0)
    return [cover * ((nearest == k) & (least < _MOST_PLACES_PX)) for k in range(len(lines))]


def _misplaced(line: Array, rng: np.random.Generator, by: float) -> Array:
    """A line (N, 2) moved along its normals by a slow wave."""
    t = np.linspace(0, np.pi, len(line))
    waves = rng.standard_normal(4) * (1.0, 0.6, 0.4, 0.3)
    offset = by * sum(wave * np.cos(k * t + rng.uniform(0, 0.5)) for k, wave in enumerate(waves))
    along = np.gradient(line, axis=0)
    along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-6)
    return np.asarray(line + np.stack([-along[:, 1], along[:, 0]], 1) * np.asarray(offset)[:, None])


def _of_seam(grey: Array, own: Array, line: Array, step: float) -> Iterator[tuple[Array, Array]]:
    found, covered = groove_width.strip(grey, line, step), groove_width.strip(own, line, step)
    if found is None or covered is None:
        return
    away = np.abs(np.arange(-groove_width.ROWS, groove_width.ROWS + 1))[:, None]
    reach = np.where(covered[0] > _LEAST_COVER, away - 0.5 + covered[0], -1.0)
    sides = reach[groove_width.ROWS :].max(0), reach[: groove_width.ROWS + 1].max(0)
    shown = np.flatnonzero(found[1] & (np.maximum(*sides) >= 0))[::EVERY]
    if len(shown) < groove_width.LEAST_PLACES // EVERY:
        return
    for rows, side in zip(groove_width.features(*found), sides):
        yield rows[shown], np.clip(side[shown], 0.0, groove_width.REACH).astype(np.float32)


def fit(known: WidthSamples, *, steps: int, seed: int) -> groove_width.WidthTable:
    """Fit a table that predicts the QUANTILES of the seams' reach, by pinball loss (Koenker, Bassett 1978)."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.Linear(groove_width.N_FEATURES, groove_width.UNITS),
        torch.nn.ReLU(),
        torch.nn.Linear(groove_width.UNITS, groove_width.UNITS),
        torch.nn.ReLU(),
        torch.nn.Linear(groove_width.UNITS, len(QUANTILES)),
    )
    features, reach = torch.from_numpy(known.features), torch.from_numpy(known.reach)[:, None]
    optimiser = torch.optim.AdamW(net.parameters(), weight_decay=0.03)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, steps)
    for _ in range(steps):
        i = torch.randint(0, len(features), (BATCH,))
        loss = pinball(net(features[i] + NOISE * torch.randn(BATCH, groove_width.N_FEATURES)), reach[i])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
    layers: list[Any] = [net[k] for k in (0, 2, 4)]
    a, b, c, d, e, f = (x.detach().numpy().T.copy() for layer in layers for x in (layer.weight, layer.bias))
    return groove_width.WidthTable((a, c, e), (b, d, f))


def pinball(answer: torch.Tensor, true: torch.Tensor) -> torch.Tensor:
    """Mean pinball loss of predictions (N, 2), which is smallest at the QUANTILES."""
    share, over = torch.tensor(QUANTILES), true - answer
    return torch.maximum(share * over, (share - 1) * over).mean()


def figures(table: groove_width.WidthTable, known: WidthSamples) -> str:
    """A line with the errors of a table, per position and per seam."""
    usual, covering = table(known.features).T
    seams = np.unique(known.seam)
    pairs = np.array([[np.median(v[known.seam == k]) for v in (usual, known.reach)] for k in seams])
    apart = np.abs(pairs[:, 0] - pairs[:, 1]).mean()
    blind = np.abs(pairs[:, 1] - np.median(pairs[:, 1])).mean()
    loss = float(pinball(torch.from_numpy(np.stack([usual, covering], 1)), torch.from_numpy(known.reach)[:, None]))
    return (
        f"loss {loss:.3f} steps; covered {(known.reach <= covering).mean():.3f}; seam by seam {apart:.2f} steps off, "
        f"{blind:.2f} without looking, correlation {np.corrcoef(pairs.T)[0, 1]:.2f}"
    )


def text_of(table: groove_width.WidthTable) -> str:
    """The table as a Python module."""
    arrays = [x for pair in zip(table.weights, table.biases) for x in pair]
    packed = base64.b85encode(b"".join(each.astype("<f2").tobytes() for each in arrays)).decode()
    lines = "\n".join(f'    "{packed[k : k + LINE]}"' for k in range(0, len(packed), LINE))
    return (
        '"""Weights of the network in `groove_width.py`, written by `scripts/fit_widths.py`; do not edit."""\n\n'
        f"NUMBERS = (\n{lines}\n)\n"
    )


def main() -> int:
    """Fit the function and write its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shots", type=Path, nargs="+")
    parser.add_argument("--held-out", type=Path, nargs="*", default=[], help="shots for validation")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    given, held = ([s for s in row if (s / "truth.roto.json").exists()] for row in (options.shots, options.held_out))
    known = samples(given, np.random.default_rng(options.seed))
    table = fit(known, steps=options.steps, seed=options.seed)
    sys.stderr.write(f"{len(known.reach)} places of {len(given)} shots: {figures(table, known)}\n")
    if held:
        sys.stderr.write(f"held out: {figures(table, samples(held, np.random.default_rng(1)))}\n")
    if options.write:
        write_text(options.write, text_of(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
