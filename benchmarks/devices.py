"""The training of every network on the processor and on a GPU: pictures per second, losses, the bottleneck.

    python benchmarks/devices.py OUT [--steps 200] [--only seam ...]

Data is rendered into OUT first, the same for both. Each training runs by `rotopaint train` with its recipe, from random
weights. Losses are the means of the first 20 steps and must agree to the precision of bfloat16. The speed is that of
these steps on every core, and of --steps on the GPU.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

STAGE = (sys.executable, "-m", "rotopaint_ai.stage")
TRAIN = (sys.executable, "-m", "rotopaint_ai", "train")
SETS: Mapping[str, tuple[str, ...]] = {
    "looks": ("seams", "--characters", "1", "--seed", "912000"),
    "faces": ("dataset", "--characters", "48", "--seed", "910000"),
    "fronts": ("dataset", "--characters", "12", "--seed", "914000", "--size", "512", "--looks", "1", "--fronts"),
    "strips": ("dataset", "--characters", "16", "--seed", "911000", "--size", "512", "--reach", "1.3", "--looks", "2"),
    "plates": ("plates", "--count", "16", "--seed", "913000"),
}
PARTS: Mapping[str, tuple[str, ...]] = {
    "shipped": ("faces",),
    "detector": ("plates", "faces"),
    "segmentation": ("fronts",),
    "seam": ("strips",),
    "fill": ("looks",),
}
DEVICES: Mapping[str, dict[str, str]] = {"processor": {"CUDA_VISIBLE_DEVICES": ""}, "GPU": {}}
FIRST = 20  # steps whose losses are compared


class Trial(NamedTuple):
    """A training's last line: loss, pictures per second, share of time waiting for batches, share of a busy device."""

    loss: float
    speed: float
    waiting: float
    busy: float


def make_data(out: Path, names: set[str]) -> None:
    """Render the missing data, all at once, on every core."""
    cores = ["--workers", str(os.cpu_count())]
    begun = []
    for name, (verb, *words) in SETS.items():
        if name in names and not (out / name).exists():
            command = [*STAGE, verb, str(out / name), *words, *([] if verb == "seams" else cores)]
            begun.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    if max([0, *(each.wait() for each in begun)]):
        raise SystemExit(f"{out}: the stage could not render all; run {' '.join(STAGE)} to see why")


def train(out: Path, recipe: str, device: str, settings: list[str]) -> Trial:
    """Train a network from random weights on a device. Raises RuntimeError with the last lines of a failed command."""
    to = out / (f"{recipe}.pack" if recipe == "shipped" else f"{recipe}.onnx")
    data = [str(out / part) for part in PARTS[recipe]]
    words = [word for setting in ("minutes=null", *settings) for word in ("--set", setting)]
    command = [*TRAIN, *data, "--recipe", recipe, "--init", "none", "--out", str(to), *words]
    ended = subprocess.run(command, env={**os.environ, **DEVICES[device]}, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{ended.stdout[-1500:]}\n{ended.stderr[-3000:]}")
    row = list(csv.DictReader((out / f"{to.name}.run" / "log.csv").open(encoding="utf-8")))[-1]
    return Trial(*(float(row[name]) for name in ("loss", "images_per_s", "waiting_share", "busy_share")))


def compare(out: Path, recipe: str, steps: int, own: list[str]) -> str:
    """The row of the table for one recipe."""
    first = [f"steps={FIRST}", f"eval_every={FIRST}", *own]
    processor, gpu = train(out, recipe, "processor", [*first, "threads=0"]), train(out, recipe, "GPU", first)
    timed = train(out, recipe, "GPU", [f"steps={steps}", f"eval_every={steps}", *own])
    off = abs(gpu.loss / processor.loss - 1)
    speeds = f"{processor.speed:.0f} | {timed.speed:.0f} | {timed.speed / processor.speed:.1f}"
    shares = f"{timed.waiting:.0%} | {timed.busy:.0%}"
    return f"| {recipe} | {speeds} | {shares} | {processor.loss:.4f} | {off:.1e} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=200, help="steps of the timed training on the GPU")
    parser.add_argument("--batch", type=int, help="pictures per step of the timed trainings (default: the recipe's)")
    parser.add_argument("--only", nargs="+", choices=sorted(PARTS), default=list(PARTS))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    make_data(options.out, {part for recipe in options.only for part in PARTS[recipe]})
    print("| network | processor, pictures/s | GPU | times | it waits | is busy | loss | GPU's differs by |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    failed = 0
    for recipe in options.only:
        try:
            print(
                compare(options.out, recipe, options.steps, [f"batch={options.batch}"] if options.batch else []),
                flush=True,
            )
        except RuntimeError as error:
            failed += 1
            print(f"{recipe}: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
