"""Landmarks of real faces: our training against a peer that is trained on the same faces (goal G10).

    python benchmarks/real_faces.py SET_FOLDER... --out DIR [--minutes 25] [--init puppet] [--peer-python PYTHON]

The sets (see `scripts/faces_to_coco.py`) are split by group, and both parts are mined. A pack is trained with the
recipe `faces` below. dlib's shape predictor (Kazemi and Sullivan 2014, an ensemble of regression trees) is trained on
the same faces and their mirror images, with the better of two settings *on the test faces*, which favours it. NME is
the mean distance of the 68 points over the distance of the outer corners of the eyes, averaged over faces. Both get the
same boxes: the tight box of the landmarks, from which a network trained on such boxes can infer the jaw, and the same
box displaced at random, as a detector or a person would draw it. `--peer-python` is an interpreter with dlib (`pip
install dlib-bin`); without one only our figure is printed. `--resume` continues a stopped training; finished steps are
not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
from faces_to_coco import Face, read_set, split_by_group, write_coco

from rotopaint_ai.crops import Box, crop_around, cut
from rotopaint_ai.files import write_json
from rotopaint_ai.inference.models import Models, open_models
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.training.mining.mine import mine
from rotopaint_ai.training.mining.options import MineOptions
from rotopaint_ai.training.pack.network import TrainOptions
from rotopaint_ai.training.pack.train import train_pack
from rotopaint_ai.training.trainer.launch import restart_environment

Array = npt.NDArray[np.float64]

OUTER_EYE_CORNERS = (36, 45)
TEST_SHARE, VAL_SHARE = 0.3, 0.1
SHAKEN = 0.06  # share of the box's longest side: standard deviation of the displacement and of the change in size
PARTS = {
    "jaw": range(17),
    "brows": range(17, 27),
    "nose": range(27, 36),
    "eyes": range(36, 48),
    "mouth": range(48, 68),
}
RECIPE = (
    *("rotation_deg=30", "scale_low=0.8", "scale_high=1.3", "shift=0.08", "learning_rate=0.002"),
    "augment={occluders: 0.35, shadow: 0.3, tone: 0.7, colour: 0.4, channels: 0.1, coarse: 0.1}",
)


@dataclass(frozen=True, slots=True)
class Sides:
    """Training faces and test faces, and the COCO file of the former."""

    train: tuple[Face, ...]
    test: tuple[Face, ...]
    train_coco: Path


def prepare(sets: Sequence[Path], out: Path, seed: int) -> Sides:
    """Split by group and write both parts as COCO keypoints with their pictures."""
    out.mkdir(parents=True, exist_ok=True)
    faces = [face for folder in sets for face in read_set(folder)]
    learn, test = split_by_group(faces, TEST_SHARE, seed)
    paths = out / "train.coco.json", out / "test.coco.json"
    named = [write_coco(side, path) for side, path in zip((learn, test), paths)]
    return Sides(tuple(named[0].values()), tuple(named[1].values()), paths[0])


def mine_faces(sides: Sides, out: Path, seed: int) -> Path:
    """The data set of the training faces, with a tenth of their groups for validation; made only once."""
    folder = out / "dataset"
    if not (folder / "dataset.json").is_file():
        _, held = split_by_group(sides.train, VAL_SHARE, seed + 1)
        shots = tuple(sorted({face.group for face in held}))
        mine(MineOptions((sides.train_coco,), folder, name="faces", val=shots, licence="of the pictures"))
    return folder


def make_pack(dataset: Path, out: Path, options: argparse.Namespace) -> Path:
    """The pack, trained unless it exists."""
    pack = out / "pack"
    if not (pack / "card.json").is_file():
        settings = (*RECIPE, f"minutes={options.minutes}", f"threads={options.threads}", *options.set)
        init = None if options.init == "puppet" else options.init
        train_pack(
            TrainOptions([dataset], pack, overrides=settings, init=init, resume=options.resume, name="faces", sink=_say)
        )
    return pack


def _say(event: Any) -> None:
    facts = {name: value for name, value in event.facts.items() if name != "metrics"}
    sys.stderr.write(json.dumps(facts) + "\n")
    sys.stderr.flush()


def boxes_of(faces: Sequence[Face], seed: int, shaken: float) -> list[tuple[float, float, float, float]]:
    """The tight boxes, moved and scaled at random by `shaken` of their longest side."""
    rng = np.random.default_rng(seed)
    boxes = []
    for face in faces:
        x, y, w, h = face.box
        dx, dy, grow = rng.normal(0, shaken, 3)
        side, scale = max(w, h), float(np.exp(grow))
        centre = x + w / 2 + dx * side, y + h / 2 + dy * side
        boxes.append((centre[0] - w * scale / 2, centre[1] - h * scale / 2, w * scale, h * scale))
    return boxes


def ours(pack: Path, faces: Sequence[Face], boxes: Sequence[tuple[float, float, float, float]]) -> Array:
    """Landmarks [N, 68, 2] in picture pixels, found as in `rotopaint run`: two passes, each crop plain and mirrored."""
    models = open_models(load_pack(pack), device="cpu", threads=1)
    return np.stack([_found(models, face, box) for face, box in zip(faces, boxes)])


def _found(models: Models, face: Face, box: tuple[float, float, float, float]) -> Array:
    decoded = cv2.imread(str(face.picture), cv2.IMREAD_COLOR)
    picture = cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB).astype(np.float32) / np.float32(255)
    size, margin = models.pack.input_size, models.pack.crop_margin
    crop = Box(*box).crop()
    crop = type(crop)(crop.x, crop.y, crop.side * margin)
    for _ in range(2):
        seen = cut(picture, (0, 0), crop, size)
        points = crop.to_plate(models.detect(seen[None]).landmarks_NLC[0], size)
        crop = crop_around(points, margin=margin)
    return np.asarray(points)


def peer(sides: Sides, tests: Sequence[Sequence[tuple[float, float, float, float]]], options: Any, out: Path) -> Any:
    """dlib's predictions for each list of boxes, as {setting: [lists of points]}; computed only once."""
    order, answer_file = out / "peer.json", out / "peer_answer.json"
    if answer_file.is_file():
        return json.loads(answer_file.read_text(encoding="utf-8"))
    learn = [{"picture": str(f.picture), "points": f.points, "box": f.box} for f in sides.train]
    test = [[{"picture": str(f.picture), "box": b} for f, b in zip(sides.test, boxes)] for boxes in tests]
    mirror = _mirror_68()
    order.write_text(json.dumps({"train": learn, "test": test, "mirror": mirror}), encoding="utf-8")
    script = Path(__file__).with_name("peer_dlib.py")
    answer = subprocess.run(
        [options.peer_python, str(script), str(order), str(options.threads)], check=True, stdout=subprocess.PIPE
    )
    answer_file.write_bytes(answer.stdout)
    return json.loads(answer.stdout)


def _mirror_68() -> list[int]:
    from faces_to_coco import ibug_names

    from rotopaint_ai.shapes.revectorise.mirror_partners import other_side

    names = ibug_names()
    return [names.index(other_side(name, names) or name) for name in names]


def nme(found: Array, faces: Sequence[Face]) -> dict[str, float]:
    """`nme_interocular` in percent: mean, median, 95th percentile, share above 8 %, the 51 inner points, each part."""
    true = np.array([face.points for face in faces])
    left, right = OUTER_EYE_CORNERS
    eyes = np.linalg.norm(true[:, left] - true[:, right], axis=1)
    share = np.linalg.norm(found - true, axis=2) / eyes[:, None] * 100
    per_face = share.mean(axis=1)
    figures = {
        "mean": per_face.mean(),
        "median": np.median(per_face),
        "p95": np.percentile(per_face, 95),
        "failures_above_8": (per_face > 8).mean() * 100,
        "without_jaw": share[:, 17:].mean(),
        **{name: share[:, list(rows)].mean() for name, rows in PARTS.items()},
    }
    return {name: round(float(value), 3) for name, value in figures.items()}


def main() -> int:
    """Do all unfinished steps and print the comparison."""
    environment = restart_environment(os.environ, sys.platform)
    if environment is not None:  # as in `rotopaint train`: allocator settings that make training faster
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=25.0, help="minutes of training; 0 runs only the peer")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--init", default="puppet", help="start pack, or 'none'")
    parser.add_argument("--set", action="append", default=[], metavar="key=value", help="change a value of the recipe")
    parser.add_argument("--peer-python", help="interpreter with dlib")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sides = prepare(options.sets, options.out, options.seed)
    tests = [boxes_of(sides.test, options.seed, shaken) for shaken in (0.0, SHAKEN)]
    answers = peer(sides, tests, options, options.out) if options.peer_python else {}
    if options.minutes <= 0:
        return 0
    pack = make_pack(mine_faces(sides, options.out, options.seed), options.out, options)
    result: dict[str, Any] = {
        "faces": {"train": len(sides.train), "test": len(sides.test)},
        "normaliser": "interocular",
    }
    result["ours"] = [nme(ours(pack, sides.test, boxes), sides.test) for boxes in tests]
    if answers:
        scored = {name: [nme(np.array(p), sides.test) for p in found] for name, found in answers.items()}
        best = min(scored, key=lambda name: scored[name][0]["mean"])
        result["peer"] = {"name": f"dlib shape predictor, {best}", "settings_tried": list(scored), "nme": scored[best]}
        result["ratio"] = [round(a["mean"] / b["mean"], 3) for a, b in zip(result["ours"], scored[best])]
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    if options.json:
        write_json(options.json, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
