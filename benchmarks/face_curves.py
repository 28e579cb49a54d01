"""The closed-form shape fit on real faces: named curves are predicted from a few landmarks and tested on other people.

    python benchmarks/face_curves.py SET_FOLDER... --curves curves.json [--landmarks 0,18,...] [--noise 0.005]

The sets (see `scripts/faces_to_coco.py`) and the list of curves, chains of point numbers, are turned into shapes with a
control point on every point of the chain (tangents of a Catmull-Rom spline). The landmarks are the two ends and the
middle of each open chain and four points of each closed one, or those given. People are split by group. `fit_shapes` is
fitted on one part and predicts the curves of the other part, from true landmarks and from landmarks with noise. Two
baselines are compared: the mean shapes fitted by a similarity, and the polygon through the landmarks on a curve.
Distances are symmetric mean distances between curves in percent of the distance of the outer eye corners (points 18 and
27).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
from faces_to_coco import Face, read_set, split_by_group

from rotopaint_ai.files import write_json
from rotopaint_ai.shapes import bezier
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet
from rotopaint_ai.similarity import fit_similarity
from rotopaint_ai.training.data.dataset import Truth
from rotopaint_ai.training.data.memory import face_side
from rotopaint_ai.training.models.shape_fit import ShapeGraph, fit_shapes

Array = npt.NDArray[np.float64]

OUTER_EYE_CORNERS = (18, 27)
TEST_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Chain:
    """A named curve, given by the numbers of its points."""

    name: str
    closed: bool
    points: tuple[int, ...]

    @property
    def landmark_points(self) -> tuple[int, ...]:
        """The points that serve as landmarks: ends and middle, or four around."""
        n = len(self.points)
        places = {0, n // 4, n // 2, (3 * n) // 4} if self.closed else {0, n // 2, n - 1}
        return tuple(self.points[at] for at in sorted(places))


def read_chains(path: Path) -> tuple[Chain, ...]:
    """Curves of two points or more; closed ones of three or more."""
    content = json.loads(path.read_text(encoding="utf-8"))["curves"]
    chains = [
        Chain(re.sub(r"[^a-z0-9]+", "_", curve["name"].split(":")[0].lower()).strip("_"), *_form(curve))
        for curve in content
    ]
    return tuple(chain for chain in chains if len(chain.points) >= 3)


def _form(curve: Mapping[str, Any]) -> tuple[bool, tuple[int, ...]]:
    return bool(curve["closed"]), tuple(int(k) for k in curve["points"])


def spline(points: Array, closed: bool) -> Array:
    """Control points (P, 6) of the Catmull-Rom spline through points (P, 2)."""
    before, after = np.roll(points, 1, axis=0), np.roll(points, -1, axis=0)
    if not closed:
        before[0], after[-1] = points[0], points[-1]
    reach = (after - before) / 6
    return np.concatenate((points, -reach, reach), axis=1)


def sheet_of(chains: Sequence[Chain], landmarks: Sequence[int]) -> Sheet:
    """A sheet with every curve as a shape that is predicted from all landmarks and lies on its own landmarks."""
    specs = [
        ShapeSpec(
            chain.name,
            chain.closed,
            len(chain.points),
            on_landmarks={at: f"point_{k:03d}" for at, k in enumerate(chain.points) if k in landmarks},
        )
        for chain in chains
    ]
    return Sheet("faces", tuple(LandmarkSpec(f"point_{k:03d}") for k in landmarks), tuple(specs))


def truth_of(faces: Sequence[Face], chains: Sequence[Chain], landmarks: Sequence[int]) -> Truth:
    """The true landmarks and control points of faces."""
    points = np.array([face.points for face in faces], dtype=np.float64)
    curves = [[spline(own[list(chain.points)], chain.closed) for chain in chains] for own in points]
    return Truth(
        points[:, list(landmarks)].astype(np.float32),
        np.ones((len(faces), len(landmarks)), np.float32),
        np.array([np.concatenate(own) for own in curves], dtype=np.float32),
        np.full((len(faces), len(chains)), np.nan, np.float32),
    )


def predict_shapes(model: ShapeGraph, landmarks: npt.NDArray[np.float32]) -> Array:
    """The predicted control points [N, P, 6] of all shapes."""
    with torch.no_grad():
        return np.asarray(model(torch.from_numpy(landmarks))[0].numpy(), dtype=np.float64)


def errors(sheet: Sheet, found: Array, truth: Truth, eyes_N: Array) -> Array:
    """Curve distances [N, K] in percent of the distance of the eyes."""
    rows = sheet.point_rows()
    out = np.empty((len(found), len(sheet.shapes)))
    for n in range(len(found)):
        for k, shape in enumerate(sheet.shapes):
            slot = rows[shape.name]
            out[n, k] = bezier.curve_distance(found[n, slot], truth.points[n, slot], shape.closed)[0]
    return out / eyes_N[:, None] * 100


def mean_laid_on(sheet: Sheet, learn: Truth, test: Truth) -> Array:
    """The mean shapes of the training faces, fitted to each face's landmarks by a similarity only."""
    as_z = lambda p: p[..., 0] + 1j * p[..., 1]  # noqa: E731 - a formula
    z, t = as_z(learn.landmarks.astype(np.float64)), as_z(test.landmarks.astype(np.float64))
    centre, size = z.mean(axis=1, keepdims=True), np.sqrt((abs(z - z.mean(axis=1, keepdims=True)) ** 2).mean(axis=1))
    mean = ((z - centre) / size[:, None]).mean(axis=0)
    p = learn.points.astype(np.float64)
    numbers = np.stack([as_z(p[..., at : at + 2]) for at in (0, 2, 4)], axis=-1)
    numbers[..., 0] -= centre
    shape = (numbers / size[:, None, None]).mean(axis=0)
    turn, shift = fit_similarity(np.broadcast_to(mean, t.shape), t)
    laid = shape[None] * turn[:, None, None]
    laid[..., 0] += shift[:, None]
    return np.stack((laid.real, laid.imag), axis=-1).reshape(*laid.shape[:2], 6)


def through_landmarks(sheet: Sheet, test: Truth) -> Array:
    """Polygons through the landmarks on each curve, with the points between them spread evenly."""
    out = np.zeros_like(test.points, dtype=np.float64)
    names = sheet.landmark_names
    for shape in sheet.shapes:
        slot, held = sheet.point_rows()[shape.name], sorted(shape.on_landmarks)
        at = np.arange(shape.n_points)
        marks = test.landmarks[:, [names.index(shape.on_landmarks[k]) for k in held]].astype(np.float64)
        period = shape.n_points if shape.closed else None
        for n, own in enumerate(marks):
            for axis in range(2):
                out[n, slot.start + at, axis] = np.interp(at, held, own[:, axis], period=period)
    return out


def main() -> int:
    """Fit on some people, test on others, and print the errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--curves", type=Path, required=True)
    parser.add_argument("--landmarks", help="numbers of the points that serve as landmarks")
    parser.add_argument(
        "--noise", type=float, default=0.005, help="noise of landmarks, as a share of the face's longest side"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chains = read_chains(options.curves)
    given = [int(k) for k in options.landmarks.split(",")] if options.landmarks else None
    landmarks = sorted(set(given or [k for chain in chains for k in chain.landmark_points]))
    faces = [face for folder in options.sets for face in read_set(folder)]
    learn, test = split_by_group(faces, TEST_SHARE, options.seed)
    sheet = sheet_of(chains, landmarks)
    a, b = (truth_of(side, chains, landmarks) for side in (learn, test))
    eyes = np.array([np.linalg.norm(np.subtract(*(face.points[k] for k in OUTER_EYE_CORNERS))) for face in test])
    rng = np.random.default_rng(options.seed)
    noise = rng.normal(0, 1, b.landmarks.shape) * options.noise * face_side(b.landmarks)[:, None, None]
    noisy = (b.landmarks + noise).astype(np.float32)
    model = ShapeGraph(sheet, fit_shapes(sheet, a, noise_L=np.full(len(landmarks), max(options.noise, 1e-4)))).eval()
    columns = {
        "fit, true landmarks": errors(sheet, predict_shapes(model, b.landmarks), b, eyes),
        "fit, noisy landmarks": errors(sheet, predict_shapes(model, noisy), b, eyes),
        "mean by similarity": errors(sheet, mean_laid_on(sheet, a, b), b, eyes),
    }
    if given is None:
        columns["polygon of landmarks"] = errors(sheet, through_landmarks(sheet, b), b, eyes)
    result = {
        "people": {"learnt": len(learn), "tested": len(test)},
        "landmarks": len(landmarks),
        "curves": len(chains),
        "control_points": sheet.n_points,
        "percent_of_eye_distance": {
            name: {"mean": round(float(e.mean()), 3), "p95": round(float(np.percentile(e, 95)), 3)}
            for name, e in columns.items()
        },
        "mean_px": {name: round(float((e * eyes[:, None] / 100).mean()), 3) for name, e in columns.items()},
        "per_curve": {
            chain.name: {name: round(float(e[:, k].mean()), 3) for name, e in columns.items()}
            for k, chain in enumerate(chains)
        },
    }
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    if options.json:
        write_json(options.json, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
