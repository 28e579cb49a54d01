"""Keys after reduction, relative to one key per frame (goal G9), against thinning by points and a lower bound.

The moves are synthetic, from closed forms and a seed; documents on the command line are measured too. The deviation is
measured between the curves at every frame, with sixteen samples per segment.

python benchmarks/keys_reduction.py [SHAPES...] [--tolerance 0.5] [--frames 120] [--json FILE]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rotopaint_ai.cli.bench import run_alone
from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import formats
from rotopaint_ai.shapes import bezier, reduce, samples
from rotopaint_ai.shapes.bezier import Array
from rotopaint_ai.shapes.roto import Key, RotoShape


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser."""
    parser.add_argument(
        "files", nargs="*", metavar="SHAPES", help="additional documents to measure, in any shape format"
    )
    parser.add_argument("--tolerance", type=float, default=0.5, metavar="PX", help="largest deviation (0.5)")
    parser.add_argument(
        "--frames", type=int, default=120, metavar="N", help="length of the synthetic moves, frames (120)"
    )


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure, and return the result as JSON values. Raises UsageError, DocumentError for files."""
    if not 0 < arguments.tolerance <= 100 or not 2 <= arguments.frames <= 100_000:
        raise UsageError("keys_reduction: wanted a tolerance above 0 px, and 2 frames or more")
    return compare(arguments.files, tolerance_px=arguments.tolerance, n_frames=arguments.frames)


def compare(files: Sequence[str], *, tolerance_px: float, n_frames: int) -> dict[str, Any]:
    """Keys and deviations of every case, as JSON values. Raises UsageError, DocumentError for files."""
    cases = {name: [shape] for name, shape in _moves(n_frames)}
    for file in files:
        cases[file] = [_every_frame(shape) for shape in formats.read(file)[0].shapes if len(shape.keys) > 1]
    return {
        "tolerance_px": tolerance_px,
        "cases": {name: _case(shapes, tolerance_px) for name, shapes in cases.items()},
    }


def _every_frame(shape: RotoShape) -> RotoShape:
    return shape.with_keys({f: Key(shape.at(f)) for f in range(shape.frames[0], shape.frames[-1] + 1)})


def _case(shapes: list[RotoShape], tolerance_px: float) -> dict[str, Any]:
    whole = sum(len(shape.keys) for shape in shapes)
    still = any(_stands_still(shape) for shape in shapes)
    return {
        "shapes": len(shapes),
        "keys_per_frame": whole,
        "ours": _by(shapes, lambda shape: reduce.reduce_keys(shape, tolerance_px), whole),
        "points_thinned": _by(shapes, lambda shape: thin_keys(shape, tolerance_px), whole),
        "least_possible": None if still else round(sum(least(s, tolerance_px) for s in shapes) / max(whole, 1), 4),
    }


def _by(shapes: list[RotoShape], way: Callable[[RotoShape], RotoShape], whole: int) -> dict[str, Any]:
    begin = time.process_time()
    found = [way(shape) for shape in shapes]
    seconds = time.process_time() - begin
    return {
        "keys": sum(len(shape.keys) for shape in found),
        "share": round(sum(len(shape.keys) for shape in found) / max(whole, 1), 4),
        "deviation_px": round(max((reduce.deviation(a, b) for a, b in zip(shapes, found)), default=0.0), 4),
        "ms_per_shape": round(1000 * seconds / max(len(shapes), 1), 1),
    }


def _stands_still(shape: RotoShape) -> bool:
    return any(shape.keys[f].points == shape.keys[f + 1].points for f in shape.frames[:-1])


# --- synthetic moves---------------------------------------------------------------------------------------------------


def _moves(n_frames: int) -> Iterator[tuple[str, RotoShape]]:
    """Moves of a head of 200 px over a plate: radians per second, noise in px, frames per pose."""
    kinds = {
        "slow": (0.3, 0.05, 1, 0.0),
        "ordinary": (0.6, 0.05, 1, 0.0),
        "brisk": (1.2, 0.05, 1, 0.0),
        "fast": (2.5, 0.05, 1, 0.0),
        "ordinary, rough": (0.6, 0.15, 1, 0.0),
        "ordinary, on twos": (0.6, 0.05, 2, 0.0),
        "faces replaced, on twos": (0.6, 0.05, 2, 6.0),
        "faces replaced, on ones": (0.6, 0.05, 1, 6.0),
    }
    for name, (speed, noise, hold, replaced) in kinds.items():
        yield name, _move(n_frames, speed=speed, noise_px=noise, hold=hold, replaced_px=replaced)


def _move(n_frames: int, *, speed: float, noise_px: float, hold: int, replaced_px: float, n: int = 12) -> RotoShape:
    chance = np.random.default_rng(3)
    keys, pose = {}, np.zeros((n, 6))
    for i in range(n_frames):
        if i % hold == 0:
            u = i / 24 * speed
            pose = _ring(900 + 90 * math.sin(u), 500 + 40 * math.sin(0.7 * u), 100 + 5 * math.sin(u), n)
            pose[:, :2] += chance.normal(0, noise_px, (n, 2)) + chance.normal(0, replaced_px, 2)
        keys[1001 + i] = Key(bezier.as_points(pose))
    return RotoShape("head", True, "matte", keys)


def _ring(x: float, y: float, radius: float, n: int) -> Array:
    a = np.arange(n) * 2 * np.pi / n
    k = 4 / 3 * math.tan(math.pi / 2 / n) * radius
    c, s = np.cos(a), np.sin(a)
    return np.stack((x + radius * c, y + radius * s, k * s, -k * c, -k * s, k * c), axis=1)


# --- other methods ---------------------------------------------------------------------------------------------------


def thin_keys(shape: RotoShape, tolerance_px: float) -> RotoShape:
    """Ramer-Douglas-Peucker over the positions of all control points together: some frames are kept, unchanged."""
    frames = list(shape.frames)
    table = samples.rows(shape, np.array(frames)).reshape(len(frames), -1, 6)[..., :2]
    kept, todo = {0, len(frames) - 1}, [(0, len(frames) - 1)]
    while todo:
        a, b = todo.pop()
        if b - a < 2:
            continue
        share = (np.arange(a + 1, b) - a)[:, None, None] / (b - a)
        off = samples.pick_farthest(table[a + 1 : b] - table[a] - share * (table[b] - table[a]))
        worst = int(off.argmax())
        if off[worst] > tolerance_px:
            kept.add(a + 1 + worst)
            todo += [(a, a + 1 + worst), (a + 1 + worst, b)]
    return shape.with_keys({frames[row]: Key(shape.keys[frames[row]].points) for row in sorted(kept)})


def least(shape: RotoShape, tolerance_px: float) -> int:
    """A lower bound of the number of keys with which linear moves can stay within the tolerance.

    Each coordinate of each sample may follow its own best line, which is less strict than any real shape.
    """
    frames = np.arange(shape.frames[0], shape.frames[-1] + 1)
    table = samples.curve_samples(samples.rows(shape, frames), shape.closed, 4).reshape(len(frames), -1)
    count, at, last = 1, 0, len(frames) - 1
    while at < last:
        end = at + 1
        while end < last and _best_line(table[at : end + 2]) <= tolerance_px:
            end += 1
        count, at = count + 1, end
    return count


def _best_line(table: Array) -> float:
    """The largest error over all columns, each with its best line; the slope is found by a convex search."""
    rise = np.diff(table, axis=0)
    low, high = rise.min(axis=0), rise.max(axis=0)
    time_T = np.arange(len(table))[:, None]
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        left = np.ptp(table - a * time_T, axis=0) < np.ptp(table - b * time_T, axis=0)
        high, low = np.where(left, b, high), np.where(left, low, a)
    return float(np.ptp(table - (low + high) / 2 * time_T, axis=0).max() / 2)


if __name__ == "__main__":
    sys.exit(run_alone(sys.modules[__name__], "python benchmarks/keys_reduction.py", sys.argv[1:]))
