"""The number of corrections that an artist needs until every visible seam is right (goals G5, G13).

    python benchmarks/keys.py RUN_DIR=TRUTH.roto.json [...] [--threshold 1.0] [--hand 0.25] [--oracle] [--json FILE]

The simulation starts from a run's shapes. The artist works as in the panel: goes to the frame that N offers
(`RunRecord.worst`); corrects its seams where a visible one is more than `--threshold` pixels off (symmetric mean
distance of densely sampled curves); lets the tool propagate the correction; and goes to the next frame, until every
frame is right. With `--oracle` the next frame is the worst by the ground truth, which an artist cannot know. A hold is
one drawing: it costs one key and counts once. The visible part of a curve comes from the shot's seam coverage
(`seam.####.png` beside the truth); without coverage the whole curve counts as visible.

The ways to propagate are:

- `teach`: corrections and picture are solved together; needs the plates beside the truth.
- `train`: teach, and from TRAIN_AT keyed holds on also `rotopaint train PROJECT --recipe shot` with `--steps` steps;
  only with `--ways train`.
- `refit`, and `spread` over the range that the panel proposes.
- the models' splines with only the keyed frames corrected; linear interpolation between keys; optical flow from keys,
  as a planar tracker.

`harm` is the largest share of untouched frames whose worst seam was at any time more than 0.1 px worse than in the run.
`gestures` counts dragged control points (those more than the threshold away) and one per use of the tool. `seconds` is
SECONDS for each gesture and for each look at a frame, plus the time of the tool.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
from flow_tracker import track
from numpy.typing import NDArray

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.inference.models import Models, open_models
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.pipeline.corrected_project import CorrectedProject
from rotopaint_ai.pipeline.teach import ShotReading, read_shot, teach
from rotopaint_ai.plates import open_plate
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import Plate
from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.shapes.bezier import as_array, evaluate, sample, segments
from rotopaint_ai.shapes.fit import fit_segments
from rotopaint_ai.shapes.manual_keys import manual_keys, with_model_keys
from rotopaint_ai.shapes.pose_distance import PoseDistances
from rotopaint_ai.shapes.propagation_range import propose
from rotopaint_ai.shapes.refit import Errors, refit, spread
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoDocument, RotoShape, hold_starts

Array = NDArray[Any]
Method = Callable[["Shot", RotoDocument], tuple[RotoDocument, Errors]]  # a document with keys, and expected errors

N_SAMPLES = 200
COVERED = 32  # coverage (of 255) above which a seam is visible
SECONDS = {"drag": 2.0, "look": 2.0}  # assumed for a practised artist
HARM_PX = 0.1
TRAIN_AT = 4  # holds keyed
PACK: str | None = None  # set by the command line
STEPS = 150  # of `train`
_READINGS: dict[str, ShotReading] = {}  # of each shot, made once
_TRAINED: dict[str, tuple[ShotReading, RotoDocument, Errors]] = {}


@dataclass(frozen=True, slots=True)
class Shot:
    """A run and its ground truth: the seams that both have, by name."""

    name: str
    run: Path
    folder: Path
    predicted: RotoDocument
    errors: Errors
    frames: tuple[int, ...]
    holds: Mapping[int, tuple[int, ...]]  # for each frame, all frames of its hold
    truth: Mapping[str, Mapping[int, Array]]  # dense points of the true curve
    seen: Mapping[str, Mapping[int, Array]]  # which of them are visible
    hand: Mapping[str, Mapping[int, Points]]  # the curves that a person would draw
    poses: PoseDistances


def load(run: Path, truth: Path, hand_px: float) -> Shot:
    """A shot for the simulation."""
    predicted, true = documents.read(run / "shapes.roto.json"), documents.read(truth)
    seams = [
        s.name for s in true.shapes if s.role == "seam" and any(m.name == s.name and m.keys for m in predicted.shapes)
    ]
    frames = tuple(sorted(set(predicted.landmarks.keys) & set(true.shape(seams[0]).keys)))
    draw = np.random.default_rng(0)
    predicted = replace(predicted, shapes=tuple(predicted.shape(name) for name in seams))
    curves = {name: {f: _dense(true.shape(name).at(f)) for f in frames} for name in seams}
    hand: dict[str, dict[int, Points]] = {name: {} for name in seams}
    holds = _holds(predicted, frames)
    for name in seams:
        for frame in frames:
            first = holds[frame][0]
            shape = predicted.shape(name)
            own = (
                hand[name][first]
                if frame != first
                else _drawn(shape.at(frame), true.shape(name).at(frame), draw, hand_px)
            )
            hand[name][frame] = own
    seen = {name: {f: _seen(truth.parent, f, line) for f, line in lines.items()} for name, lines in curves.items()}
    name = f"{run.parent.name}/{run.name}"
    poses = PoseDistances(predicted.landmarks)
    return Shot(name, run, truth.parent, predicted, _errors(run), frames, holds, curves, seen, hand, poses)


def distance(points: Points, truth: Array, seen: Array) -> float:
    """Symmetric mean distance of a spline and a true curve in pixels, over its visible part; 0 without one."""
    if not seen.any():
        return 0.0
    mine = _dense(points)
    apart = np.abs(truth[:, None] - mine[None])
    back = seen[apart.argmin(axis=0)]
    there = apart.min(axis=1)[seen].mean()
    return float(there + apart.min(axis=0)[back].mean()) / 2 if back.any() else float(there)


def simulate(shot: Shot, method: Method, threshold: float, oracle: bool) -> dict[str, Any]:
    """Repeat: go to the worst frame, correct it, propagate the correction."""
    keyed: list[int] = []
    looked: set[int] = set()
    course: list[float] = []
    gestures, looks, tool_s, harm = 0, 0, 0.0, 0.0
    measured: dict[tuple[str, int, Points], float] = {}
    as_run = _worst(shot, shot.predicted, measured)
    document, errors = shot.predicted, shot.errors
    if method in (linear, flow):  # these ways use no models: the first key is in the middle of the shot
        keyed.append(shot.holds[shot.frames[len(shot.frames) // 2]][0])
        gestures += sum(shape.n_points for shape in shot.predicted.shapes)
        document, errors = method(shot, hand_keyed(shot, keyed))
    while True:
        found = _worst(shot, document, measured)
        course.append(max(found.values()))
        untouched = [frame for frame in shot.frames if shot.holds[frame][0] not in keyed]
        harm = max(harm, sum(found[f] > as_run[f] + HARM_PX for f in untouched) / len(shot.frames))
        wrong = [frame for frame in untouched if found[frame] > threshold]
        if not wrong:
            break
        if oracle:
            frame = max(wrong, key=lambda f: found[f])
        else:
            offered = _offered(shot, errors, keyed, looked)
            frame = offered[0] if offered else wrong[0]
        looked |= set(shot.holds[frame])
        looks += 1
        if found[frame] <= threshold:
            continue
        keyed.append(shot.holds[frame][0])
        looked = set()  # all other frames may have changed
        gestures += 1 + _drags(shot, document, keyed[-1], threshold)
        start = time.perf_counter()
        document, errors = method(shot, hand_keyed(shot, keyed))
        tool_s += time.perf_counter() - start
    return {
        "keys": len(keyed),
        "keys_per_100_frames": round(100 * len(keyed) / len(shot.frames), 2),
        "gestures": gestures,
        "seconds": round(SECONDS["drag"] * gestures + SECONDS["look"] * looks + tool_s, 1),
        "tool_seconds": round(tool_s, 1),
        "harm": round(harm, 3),
        "keyed": keyed,
        "worst_px": [round(far, 2) for far in course],
    }


def _offered(shot: Shot, errors: Errors, keyed: Sequence[int], looked: AbstractSet[int]) -> list[int]:
    """The frames that N offers, in order: holds that are not keyed and were not looked at since the last key."""
    held = tuple(sorted({(frames[0], frames[-1]) for frames in shot.holds.values()}))
    record = RunRecord(held=held).with_errors(
        {shape.name: errors.get(shape.name, {}) for shape in shot.predicted.shapes}
    )
    poses = shot.poses
    return record.worst(
        shot.frames, settled=frozenset(looked | set(keyed)), novelty=lambda frame: poses.novelty(frame, keyed)
    )


def _worst(shot: Shot, document: RotoDocument, measured: dict[tuple[str, int, Points], float]) -> dict[int, float]:
    """The distance of each frame's worst seam."""
    found = _distances(shot, document, measured)
    return {frame: max(far for (_, f), far in found.items() if f == frame) for frame in shot.frames}


def _drags(shot: Shot, document: RotoDocument, frame: int, threshold: float) -> int:
    """The number of control points of a frame that are more than the threshold off; at least one."""
    off = 0
    for shape in document.shapes:
        pairs = zip(shape.at(frame), shot.hand[shape.name][frame])
        off += sum(np.hypot(a.x - b.x, a.y - b.y) > threshold for a, b in pairs)
    return max(int(off), 1)


def _distances(
    shot: Shot, document: RotoDocument, measured: dict[tuple[str, int, Points], float]
) -> dict[tuple[str, int], float]:
    """Distance of every seam's curve at every frame; values in `measured` are not computed again."""
    found = {}
    for shape in document.shapes:
        for frame in shot.frames:
            points, name = shape.at(frame), shape.name
            key = name, frame, points
            if key not in measured:
                measured[key] = distance(points, shot.truth[name][frame], shot.seen[name][frame])
            found[name, frame] = measured[key]
    return found


def teach_result(shot: Shot, keyed: RotoDocument) -> tuple[RotoDocument, Errors]:
    """The result of the panel's Teach."""
    found = teach(_reading(shot), shot.predicted, keyed, shot.errors)
    return with_model_keys(keyed, found.keys), {**shot.errors, **found.errors}


def train_result(shot: Shot, keyed: RotoDocument) -> tuple[RotoDocument, Errors]:
    """The result of Teach; from TRAIN_AT keyed holds on with predictions of a pack trained on them."""
    n_keyed = len({shot.holds[frame][0] for frame in manual_keys(keyed.shapes[0])})
    if n_keyed < TRAIN_AT:
        return teach_result(shot, keyed)
    if shot.name not in _TRAINED:
        _TRAINED[shot.name] = _train(shot, keyed)
    reading, predicted, errors = _TRAINED[shot.name]
    whole = with_model_keys(keyed, _keys_of(predicted, keyed))
    found = teach(reading, predicted, whole, errors)
    return with_model_keys(whole, found.keys), {**errors, **found.errors}


def _train(shot: Shot, keyed: RotoDocument) -> tuple[ShotReading, RotoDocument, Errors]:
    """Train on a shot; returns the new pack's readings, its predictions and their expected errors."""
    from rotopaint_ai.training.models.landmarks.config import load_pack_config
    from rotopaint_ai.training.pack import shot as shots
    from rotopaint_ai.training.trainer.log import Budget

    whole = documents.read(shot.run / "shapes.roto.json")
    ours = {shape.name: shape for shape in keyed.shapes}
    document = replace(whole, shapes=tuple(ours.get(shape.name, shape) for shape in whole.shapes))
    frames = frozenset(manual_keys(keyed.shapes[0]))
    corrected = CorrectedProject(whole, document, shot.errors, frames, plates_of(shot.folder))
    config = load_pack_config("shot", ["minutes=null", f"steps={STEPS}"])
    lesson = shots.read_lesson(corrected, _models(), config)
    with tempfile.TemporaryDirectory() as folder:
        learnt = shots.fine_tune(
            lesson, _models().pack, config, Path(folder), Budget(None), PACK, lambda event: None, lambda: None
        )
    parts = {"detect": _called(learnt.crop_model), "predict_shapes": _called(learnt.shape_model)}
    reading = read_shot(whole, corrected.plate, replace(_models(), **cast(Any, parts)))
    found = teach(reading, corrected.predicted, corrected.document, corrected.errors)
    predicted = with_model_keys(shot.predicted, found.keys)
    return reading, predicted, {**shot.errors, **found.errors}


def _called(net: Any) -> Callable[[Array], tuple[Array, ...]]:
    """A network with the interface of a pack's model."""
    from rotopaint_ai.training.trainer.onnx_export import as_arrays

    run = as_arrays(net.eval())
    return lambda given: tuple(run(np.asarray(given, np.float32)))


def _keys_of(predicted: RotoDocument, keyed: RotoDocument) -> Mapping[str, Mapping[int, Key]]:
    """Keys of a prediction at frames without human keys."""
    hand = {shape.name: manual_keys(shape) for shape in keyed.shapes}
    return {s.name: {f: key for f, key in s.keys.items() if f not in hand[s.name]} for s in predicted.shapes}


def refit_result(shot: Shot, keyed: RotoDocument) -> tuple[RotoDocument, Errors]:
    """The result of the panel's Refit shot."""
    return with_model_keys(keyed, refit(shot.predicted, keyed, shot.errors)), shot.errors


def as_run(shot: Shot, keyed: RotoDocument) -> tuple[RotoDocument, Errors]:
    """The run's shapes with only the keyed frames corrected."""
    return keyed, shot.errors


def linear(shot: Shot, keyed: RotoDocument) -> tuple[RotoDocument, Errors]:
    """Human keys with linear interpolation; the expected error grows with the distance to a key."""
    return _of_keys_alone(shot, keyed, lambda shape: shape)


def flow(shot: Shot, keyed: RotoDocument) -> tuple[RotoDocument, Errors]:
    """Human keys propagated by optical flow."""

    def carry(shape: RotoShape) -> RotoShape:
        hand = {f: key.points for f, key in shape.keys.items()}
        found = track(hand, shot.frames, lambda f: _grey(shot.folder, f))
        return shape.with_keys({f: Key(points) for f, points in found.items()})

    return _of_keys_alone(shot, keyed, carry)


def _of_keys_alone(
    shot: Shot, keyed: RotoDocument, way: Callable[[RotoShape], RotoShape]
) -> tuple[RotoDocument, Errors]:
    shapes = tuple(way(shape.with_keys(manual_keys(shape))) for shape in keyed.shapes)
    hand = sorted(manual_keys(keyed.shapes[0]))
    far = {f: float(min(abs(f - key) for key in hand)) for f in shot.frames}
    return replace(keyed, shapes=shapes), {shape.name: far for shape in shapes}


def spreads(shot: Shot, keyed: RotoDocument) -> tuple[RotoDocument, Errors]:
    """Every correction spread over the range that the panel proposes."""
    hand = {f for shape in keyed.shapes for f in manual_keys(shape)}
    document = keyed
    for frame in sorted(hand):
        keys = spread(shot.predicted, document, frame, *propose(document, frame, corrected=hand))
        document = with_model_keys(document, keys)
    return document, shot.errors


METHODS: Mapping[str, Method] = {
    "teach": teach_result,
    "train": train_result,
    "refit": refit_result,
    "spread": spreads,
    "models alone": as_run,
    "linear": linear,
    "flow": flow,
}


@cache
def plates_of(folder: Path) -> Plate:
    """The plates beside a truth."""
    first = next(folder.glob("plate.*"))
    return open_plate(str(folder / f"plate.####{first.suffix}"))


def _reading(shot: Shot) -> ShotReading:
    if shot.name not in _READINGS:
        _READINGS[shot.name] = read_shot(shot.predicted, plates_of(shot.folder), _models())
    return _READINGS[shot.name]


@cache
def _models() -> Models:
    return open_models(load_pack(PACK), device="cpu", threads=1)


@lru_cache(maxsize=256)
def _grey(folder: Path, frame: int) -> Array:
    rgb = to_display(plates_of(folder).read(frame, keep_native=False).rgb)
    return cv2.cvtColor(np.rint(np.clip(rgb, 0, 1) * 255).astype(np.uint8), cv2.COLOR_RGB2GRAY)


def hand_keyed(shot: Shot, keyed: Sequence[int]) -> RotoDocument:
    """The run's seams with hand-drawn keys at some holds, which are named by their first frames."""
    frames = [frame for first in keyed for frame in shot.holds[first]]

    def with_hand(shape: RotoShape) -> RotoShape:
        human = {frame: Key(shot.hand[shape.name][frame], "human") for frame in frames}
        return shape.with_keys(dict(sorted({**shape.keys, **human}.items())))

    return replace(shot.predicted, shapes=tuple(with_hand(shape) for shape in shot.predicted.shapes))


def _dense(points: Points) -> Array:
    line = sample(as_array(points), False, spacing=0.5)
    length = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    at = np.linspace(0, length[-1], N_SAMPLES)
    return np.asarray(np.interp(at, length, line[:, 0]) + 1j * np.interp(at, length, line[:, 1]))


def _drawn(predicted: Points, true: Points, draw: np.random.Generator, hand_px: float) -> Points:
    """The true curve with the number of control points of the product's spline, at the same positions along it, and in
    its direction."""
    cubics = evaluate(segments(as_array(predicted), False), np.linspace(0, 1, 33))
    lengths = np.linalg.norm(np.diff(cubics, axis=1), axis=2).sum(axis=1)
    share = np.concatenate([[0.0], np.cumsum(lengths)]) / lengths.sum()
    line, ends = _dense(true), [complex(predicted[k].x, predicted[k].y) for k in (0, -1)]
    if abs(line[[0, -1]] - ends).sum() > abs(line[[-1, 0]] - ends).sum():
        line = line[::-1]
    way = np.linspace(0, 1, len(line))
    pieces = []
    for a, b in pairwise(share):
        z = np.interp(np.linspace(a, b, 17), way, line.real) + 1j * np.interp(np.linspace(a, b, 17), way, line.imag)
        pieces.append(np.stack([z.real, z.imag], axis=1))
    points = fit_segments(np.array(pieces), closed=False)
    points[:, :2] += draw.normal(0, hand_px / np.sqrt(2), (len(points), 2))
    return tuple(ControlPoint(*row) for row in points.tolist())


def _holds(predicted: RotoDocument, frames: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    starts = hold_starts({frame: predicted.landmarks.keys[frame] for frame in frames})
    return {frame: tuple(each for each in frames if starts[each] == starts[frame]) for frame in frames}


def _seen(folder: Path, frame: int, line: Array) -> Array:
    """The points of a true curve that are visible by the frame's seam coverage."""
    path = folder / f"seam.{frame:04d}.png"
    coverage = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE) if path.is_file() else None
    if coverage is None:
        return np.ones(len(line), bool)
    height, width = coverage.shape
    x, y = np.floor(line.real).astype(int), np.floor(line.imag).astype(int)
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    near = cv2.dilate(coverage, np.ones((3, 3), np.uint8))
    return np.asarray(inside & (near[np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)] >= COVERED))


def _errors(run: Path) -> dict[str, dict[int, float]]:
    content = json.loads((run / "run.json").read_text(encoding="utf-8"))["errors"]
    table: dict[str, dict[int, float]] = {name: {} for name in content["shapes"]}
    for frame, row in content["by_frame"].items():
        for name, value in zip(content["shapes"], row or []):
            if value is not None:
                table[name][int(frame)] = float(value)
    return table


COLUMNS = ("keys", "keys_per_100_frames", "harm", "gestures", "seconds", "tool_seconds")


def _table(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A row of figures for each way, for one shot."""
    rows = [["", *(name.replace("_", " ") for name in COLUMNS)]]
    rows += [[name, *(f"{each[column]:g}" for column in COLUMNS)] for name, each in found.items()]
    wide = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(text.ljust(n) if k == 0 else text.rjust(n) for k, (text, n) in enumerate(zip(row, wide)))
        for row in rows
    ]


def main() -> int:
    """Simulate, print the figures, and write them where --json is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shots", nargs="+", metavar="RUN=TRUTH")
    parser.add_argument("--threshold", type=float, default=1.0)
    parser.add_argument("--hand", type=float, default=0.25, help="noise of a person's points, pixels")
    parser.add_argument("--oracle", action="store_true", help="choose the worst frame by the ground truth")
    parser.add_argument(
        "--ways", default=",".join(name for name in METHODS if name != "train"), help="of " + ", ".join(METHODS)
    )
    parser.add_argument("--steps", type=int, default=STEPS, help="of `train`")
    parser.add_argument("--model", help="the pack of the runs")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    globals().update(PACK=options.model, STEPS=options.steps)
    ways = [name for name in METHODS if name in options.ways.split(",")]
    content: dict[str, Any] = {}
    for each in options.shots:
        run, _, truth = each.partition("=")
        shot = load(Path(run), Path(truth), options.hand)
        content[shot.name] = {name: simulate(shot, METHODS[name], options.threshold, options.oracle) for name in ways}
        print(shot.name, *_table(content[shot.name]), sep="\n", flush=True)
    for name in ways:
        keys = [found[name]["keys_per_100_frames"] for found in content.values()]
        print(f"{name}: {np.mean(keys):.1f} keys per 100 frames in the mean, {max(keys):.1f} on the worst shot")
    if options.json is not None:
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
