"""Fits the numbers of `seams/relight_table.py`, the function that separates seam from face inside a matte.

    python -m rotopaint_ai.stage seams SHOTS --characters 100 --seed 30000
    python -m scripts.fit_relight SHOTS/* --write rotopaint_ai/seams/relight_table.py

A SHOT is a folder of plate.####, clean.#### and seam.#### pictures with truth.roto.json; folders named test* are
refused. Every frame is augmented at random (larger matte, displaced curve, swapped colours, contrast, blur, sharpening,
compression), so that the function learns seams in general and not one face.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rotopaint_ai.files import write_text
from rotopaint_ai.seams import relight
from rotopaint_ai.seams.layer_text import pack_lines
from rotopaint_ai.seams.relight_table import TABLE
from rotopaint_ai.training.models.fill.strips import StraightenedFrame, straighten_frames
from rotopaint_ai.training.models.fill.task import FAINT, GAMMA
from scripts.fitted_layers import build_layers, numbers_of

Array = npt.NDArray[Any]

BATCH = 4096
SHARE = 0.25  # share of a frame's samples that are used


def rows_of(one: StraightenedFrame, rng: np.random.Generator, share: float = SHARE) -> tuple[Array, ...]:
    """Random samples of a frame: features, light of pixel, face, banks and truth, log exposure, weight; each (N, ...).

    The weight falls with the square root of the plate's error, or black grooves would outweigh visible hairlines.
    """
    scene = one.scene
    ribbon = scene.ribbon
    known = relight.describe(relight.sources(scene.light_TSC, scene.hole_TS), scene.hole_TS, ribbon.own_TS)
    wanted = (scene.hole_TS & ribbon.inside_TS)[ribbon.own_TS] & (rng.random(known.own.shape[1]) < share)
    parts = (known.features.T, known.own.T, known.face.T, known.banks.T, one.true_TSC[ribbon.own_TS])
    used = [np.ascontiguousarray(part[wanted], np.float32) for part in parts]
    exposure = np.full((int(wanted.sum()), 1), one.exposure, np.float32)
    apart = np.exp((used[1] - exposure) / GAMMA) - np.exp((used[4] - exposure) / GAMMA)
    weight = 1.0 / np.sqrt(np.mean(apart**2) + FAINT**2) if len(apart) else 1.0
    return *used, exposure, np.full_like(exposure, FAINT * weight)


def fit(
    parts: Sequence[Array],
    *,
    steps: int,
    seed: int,
    units: int,
    start: relight.RelightTable | None = None,
    rate: float = 6e-3,
) -> tuple[relight.RelightTable, float]:
    """Fit display-referred light by least squares with Adam; also returns the mean loss of the last thousand steps.

    Where `start` is given, the fit starts from its layers and uses the scale of its features.
    """
    features, own, face, banks, true, exposure, weight = (torch.from_numpy(part) for part in parts)
    mean, spread = features.mean(0), features.std(0) + 1e-3
    torch.manual_seed(seed)
    net = build_layers(relight.N_FEATURES, units if start is None else start.weights[0].shape[1], relight.N_ANSWERS)
    with torch.no_grad():
        net[-1].weight.mul_(0.1)  # type: ignore[operator,union-attr]
    if start is not None:
        mean, spread = torch.tensor(start.mean), 1.0 / torch.tensor(start.scale)
        _take_over(net, start)
    optimiser = torch.optim.AdamW(net.parameters(), rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, steps)
    losses = []
    for _ in range(steps):
        i = torch.randint(0, len(features), (BATCH,))
        answer = net((features[i] - mean) / spread)
        shares = torch.softmax(answer[:, :3], 1)
        got = shares[:, :1] * own[i] + shares[:, 1:2] * face[i] + shares[:, 2:] * banks[i] + answer[:, 3:]
        error = torch.exp((got - exposure[i]) / GAMMA) - torch.exp((true[i] - exposure[i]) / GAMMA)
        loss = (weight[i] * error**2).mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        losses.append(float(loss.detach()))
    return relight.RelightTable(mean.numpy(), (1.0 / spread).numpy(), *numbers_of(net)), float(np.mean(losses[-1000:]))


def _take_over(net: torch.nn.Sequential, start: relight.RelightTable) -> None:
    with torch.no_grad():
        for k, weight, bias in zip((0, 2, 4), start.weights, start.biases):
            net[k].weight.copy_(torch.tensor(weight.T))  # type: ignore[operator,union-attr]
            net[k].bias.copy_(torch.tensor(bias))  # type: ignore[operator,union-attr]


def text_of(table: relight.RelightTable) -> str:
    """The table as a Python module."""
    arrays = [table.mean, table.scale, *(x for pair in zip(table.weights, table.biases) for x in pair)]
    return (
        '"""Numbers of the fitted function in `relight.py`, written by `scripts/fit_relight.py`; not to be '
        'edited."""\n\n'
        "from __future__ import annotations\n\n"
        "from rotopaint_ai.seams.relight import RelightTable, unpack_table\n\n"
        f"UNITS = {table.weights[0].shape[1]}\n"
        f"NUMBERS = (\n{pack_lines(arrays, '<f4')}\n)\n"
        "TABLE: RelightTable = unpack_table(NUMBERS, UNITS)\n"
    )


def _laid(options: argparse.Namespace, shots: Sequence[Path], rng: np.random.Generator) -> Iterator[StraightenedFrame]:
    return straighten_frames(shots, rng, every=options.every, sizes=options.sizes, synthetic=options.made_up)


def main() -> int:
    """Fit the function and write its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shots", type=Path, nargs="+")
    parser.add_argument("--steps", type=int, default=14000)
    parser.add_argument("--every", type=int, default=1, help="use only every N-th frame")
    parser.add_argument("--units", type=int, default=32)
    parser.add_argument("--sizes", type=int, default=2, help="number of augmented versions of each frame")
    parser.add_argument("--made-up", type=int, default=2, help="number of synthetic seams for each frame")
    parser.add_argument("--go-on", action="store_true", help="start from the shipped table")
    parser.add_argument("--rate", type=float, default=6e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(options.seed)
    shots = [shot for shot in options.shots if (shot / "truth.roto.json").exists()]
    rows = [rows_of(one, rng) for one in _laid(options, shots, rng)]
    sys.stderr.write(f"{sum(len(row[0]) for row in rows)} samples of {len(options.shots)} shots\n")
    parts = [np.concatenate(part) for part in zip(*rows)]
    start = TABLE if options.go_on else None
    table, loss = fit(
        parts, steps=options.steps, seed=options.seed, units=options.units, start=start, rate=options.rate
    )
    sys.stderr.write(f"mean squared error of display light {loss:.6f}\n")
    if options.write:
        write_text(options.write, text_of(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
