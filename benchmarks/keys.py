"""How many frames a person has to key until every seam is right (goal G5).

    python benchmarks/keys.py RUN_DIR=TRUTH.roto.json [...] [--threshold 1.0] [--hand 0.25] [--visible] [--json FILE]

A run's shapes are taken as they are; the worst frame (by the truth, over all seams) is corrected by hand, which places
every seam's control points on the true curve give or take `--hand` pixels; the shot is refitted as the panel does it;
and so on until every seam of every frame lies within `--threshold` pixels of the truth (symmetric mean distance of
densely sampled curves). A hold is one drawing: it costs one key and counts once. The same simulation goes by each key
spread as far as the panel proposes, by the models' splines with only the keyed frames put right, and by linear
interpolation between the keys alone. `--visible`
leaves out what the head hides of a curve, where a `truth.json` with visibility lies beside the truth.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.shapes.bezier import as_array, evaluate, sample, segments
from rotopaint_ai.shapes.fit import fit_segments
from rotopaint_ai.shapes.manual_keys import with_keys
from rotopaint_ai.shapes.propagation_range import propose
from rotopaint_ai.shapes.refit import Errors, refit, spread
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoDocument, RotoShape

Array = NDArray[Any]
Method = Callable[[RotoDocument, RotoDocument, Errors], RotoDocument]

N_SAMPLES = 200


@dataclass(frozen=True, slots=True)
class Shot:
    """A run and its truth: seams that both know, by name."""

    name: str
    said: RotoDocument
    errors: Errors
    frames: tuple[int, ...]
    holds: Mapping[int, tuple[int, ...]]  # of each frame all frames of its hold
    truth: Mapping[str, Mapping[int, Array]]  # dense points of the true curve
    seen: Mapping[str, Mapping[int, Array]]  # which of them can be seen
    hand: Mapping[str, Mapping[int, Points]]  # what a person would draw


def load(run: Path, truth: Path, hand_px: float, visible: bool) -> Shot:
    """A shot for the simulation."""
    said, true = documents.read(run / "shapes.roto.json"), documents.read(truth)
    seams = [s.name for s in true.shapes if s.role == "seam" and any(m.name == s.name and m.keys for m in said.shapes)]
    frames = tuple(sorted(set(said.landmarks.keys) & set(true.shape(seams[0]).keys)))
    draw = np.random.default_rng(0)
    said = replace(said, shapes=tuple(said.shape(name) for name in seams))
    curves = {name: {f: _dense(true.shape(name).at(f)) for f in frames} for name in seams}
    hand: dict[str, dict[int, Points]] = {name: {} for name in seams}
    holds = _holds(said, frames)
    for name in seams:
        for frame in frames:
            first = holds[frame][0]
            shape = said.shape(name)
            own = (
                hand[name][first]
                if frame != first
                else _drawn(shape.at(frame), true.shape(name).at(frame), draw, hand_px)
            )
            hand[name][frame] = own
    seen = {name: {f: np.ones(N_SAMPLES, bool) for f in frames} for name in seams}
    if visible and truth.with_name("truth.json").exists():
        seen = _seen(json.loads(truth.with_name("truth.json").read_text(encoding="utf-8")), curves)
    return Shot(f"{run.parent.name}/{run.name}", said, _errors(run), frames, holds, curves, seen, hand)


def distance(points: Points, truth: Array, seen: Array) -> float:
    """Symmetric mean distance of a spline and a true curve in pixels, over what is seen; 0 where nothing is."""
    if not seen.any():
        return 0.0
    mine = _dense(points)
    apart = np.abs(truth[:, None] - mine[None])
    back = seen[apart.argmin(axis=0)]
    there = apart.min(axis=1)[seen].mean()
    return float(there + apart.min(axis=0)[back].mean()) / 2 if back.any() else float(there)


def simulate(shot: Shot, method: Method, threshold: float) -> dict[str, Any]:
    """Correct the worst frame, carry on, look again. Keyed holds, and the course of the largest and mean distance.

    `made_worse`: curves of frames nobody touched that were within the threshold as run and are not any more, at the
    most at any one time.
    """
    keyed: list[int] = []
    course: list[tuple[float, float]] = []
    measured: dict[tuple[str, int, Points], float] = {}
    as_run = _distances(shot, shot.said, measured)
    made_worse = 0
    while True:
        document = method(shot.said, _keyed(shot, keyed), shot.errors)
        found = _distances(shot, document, measured)
        course.append((max(found.values()), float(np.mean(list(found.values())))))
        made_worse = max(made_worse, sum(far > threshold >= as_run[at] for at, far in found.items()))
        worst = {frame: max(far for (_, f), far in found.items() if f == frame) for frame in shot.frames}
        open_frames = {f: far for f, far in worst.items() if far > threshold and shot.holds[f][0] not in keyed}
        if not open_frames:
            break
        keyed.append(shot.holds[max(open_frames, key=lambda f: open_frames[f])][0])
    return {
        "keys": len(keyed),
        "keys_per_100_frames": round(100 * len(keyed) / len(shot.frames), 2),
        "made_worse": made_worse,
        "keyed": keyed,
        "worst_px": [round(far, 2) for far, _ in course],
        "mean_px": [round(mean, 3) for _, mean in course],
    }


def _distances(
    shot: Shot, document: RotoDocument, measured: dict[tuple[str, int, Points], float]
) -> dict[tuple[str, int], float]:
    """Distance of every seam's curve at every frame; what was `measured` before is not measured again."""
    found = {}
    for shape in document.shapes:
        for frame in shot.frames:
            points, name = shape.at(frame), shape.name
            key = name, frame, points
            if key not in measured:
                measured[key] = distance(points, shot.truth[name][frame], shot.seen[name][frame])
            found[name, frame] = measured[key]
    return found


def refitted(said: RotoDocument, keyed: RotoDocument, errors: Errors) -> RotoDocument:
    """The panel's Refit shot."""
    return with_keys(keyed, refit(said, keyed, errors))


def as_run(said: RotoDocument, keyed: RotoDocument, errors: Errors) -> RotoDocument:
    """Only what was keyed is put right."""
    return keyed


def linear(said: RotoDocument, keyed: RotoDocument, errors: Errors) -> RotoDocument:
    """Human keys and straight lines between them; the first is in the middle of the shot."""
    shapes = []
    for shape in keyed.shapes:
        human = {f: key for f, key in shape.keys.items() if key.source == "human"}
        middle = shape.frames[len(shape.frames) // 2]
        shapes.append(shape.with_keys(human or {middle: shape.keys[middle]}))
    return replace(keyed, shapes=tuple(shapes))


def spreads(said: RotoDocument, keyed: RotoDocument, errors: Errors) -> RotoDocument:
    """Every correction spread as far as the panel proposes it."""
    hand = {f for shape in keyed.shapes for f, key in shape.keys.items() if key.source == "human"}
    document = keyed
    for frame in sorted(hand):
        document = with_keys(document, spread(said, document, frame, *propose(document, frame, corrected=hand)))
    return document


METHODS: Mapping[str, Method] = {"refit": refitted, "spread": spreads, "models alone": as_run, "linear": linear}


def _keyed(shot: Shot, keyed: list[int]) -> RotoDocument:
    frames = [frame for first in keyed for frame in shot.holds[first]]

    def with_hand(shape: RotoShape) -> RotoShape:
        human = {frame: Key(shot.hand[shape.name][frame], "human") for frame in frames}
        return shape.with_keys(dict(sorted({**shape.keys, **human}.items())))

    return replace(shot.said, shapes=tuple(with_hand(shape) for shape in shot.said.shapes))


def _dense(points: Points) -> Array:
    line = sample(as_array(points), False, spacing=0.5)
    length = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    at = np.linspace(0, length[-1], N_SAMPLES)
    return np.asarray(np.interp(at, length, line[:, 0]) + 1j * np.interp(at, length, line[:, 1]))


def _drawn(said: Points, true: Points, draw: np.random.Generator, hand_px: float) -> Points:
    """The true curve through as many control points as the product's spline has, where that has them along its way."""
    cubics = evaluate(segments(as_array(said), False), np.linspace(0, 1, 33))
    lengths = np.linalg.norm(np.diff(cubics, axis=1), axis=2).sum(axis=1)
    share = np.concatenate([[0.0], np.cumsum(lengths)]) / lengths.sum()
    line = _dense(true)
    way = np.linspace(0, 1, len(line))
    pieces = []
    for a, b in pairwise(share):
        z = np.interp(np.linspace(a, b, 17), way, line.real) + 1j * np.interp(np.linspace(a, b, 17), way, line.imag)
        pieces.append(np.stack([z.real, z.imag], axis=1))
    points = fit_segments(np.array(pieces), closed=False)
    points[:, :2] += draw.normal(0, hand_px / np.sqrt(2), (len(points), 2))
    return tuple(ControlPoint(*row) for row in points.tolist())


def _holds(said: RotoDocument, frames: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    rows, groups = said.landmarks.keys, list[list[int]]()
    for frame in frames:
        if groups and rows[groups[-1][-1]] == rows[frame]:
            groups[-1].append(frame)
        else:
            groups.append([frame])
    return {frame: tuple(group) for group in groups for frame in group}


def _seen(truth: Mapping[str, Any], curves: Mapping[str, Mapping[int, Array]]) -> dict[str, dict[int, Array]]:
    by_frame = {entry["frame"]: entry["shapes"] for entry in truth["frames"]}
    found: dict[str, dict[int, Array]] = {}
    for name, lines in curves.items():
        found[name] = {}
        for frame, line in lines.items():
            points = np.array(by_frame[frame][name]["points"])[:, :2] @ [1, 1j]
            flags = np.array(by_frame[frame][name]["visible"], bool)
            found[name][frame] = flags[np.abs(line[:, None] - points[None]).argmin(axis=1)]
    return found


def _errors(run: Path) -> dict[str, dict[int, float]]:
    content = json.loads((run / "run.json").read_text(encoding="utf-8"))["errors"]
    table: dict[str, dict[int, float]] = {name: {} for name in content["shapes"]}
    for frame, row in content["by_frame"].items():
        for name, value in zip(content["shapes"], row or []):
            if value is not None:
                table[name][int(frame)] = float(value)
    return table


def main() -> int:
    """Simulate, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shots", nargs="+", metavar="RUN=TRUTH")
    parser.add_argument("--threshold", type=float, default=1.0)
    parser.add_argument("--hand", type=float, default=0.25, help="noise of a person's points, pixels")
    parser.add_argument("--visible", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    content: dict[str, Any] = {}
    for each in options.shots:
        run, _, truth = each.partition("=")
        shot = load(Path(run), Path(truth), options.hand, options.visible)
        content[shot.name] = {name: simulate(shot, method, options.threshold) for name, method in METHODS.items()}
        figures = {name: found["keys_per_100_frames"] for name, found in content[shot.name].items()}
        print(shot.name, json.dumps(figures), flush=True)
    content["mean keys per 100 frames"] = {
        name: round(float(np.mean([found[name]["keys_per_100_frames"] for found in content.values()])), 2)
        for name in METHODS
    }
    print(json.dumps(content["mean keys per 100 frames"]))
    if options.json is not None:
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
