"""A small network per shape as the shape model, compared with the shipped ridge regression.

    python benchmarks/shape_network.py DATASET... [--found PACK]

Use in a recipe: `plugins: [.../benchmarks/shape_network.py]` and `shape_model: network`. Network, loss and augmentation
are those of "A Learning-Based Approach to Parametric Rotoscoping of Multi-Shape Systems" (WACV 2021): two layers with a
skip connection; errors of tangents relative to their length, and the L1 norm of the shape; shapes warped, and
re-vectorised after their points slid along the outline. Widths and rates are not published; those here were chosen on
one character. `slid ridge` is the ridge on the same slid shapes.
All are compared on each data set's validation samples, with true landmarks and with landmarks found by PACK. PACK must
have the landmarks of the data set and must not be trained on these samples (such as PACK.run/judged). The measure is
that of `choose_guards`: mean distance of curves, px.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rotopaint_ai.inference.models import open_models
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.shapes.bezier import evaluate, segments
from rotopaint_ai.shapes.fit import fit_segments
from rotopaint_ai.sheet import Sheet
from rotopaint_ai.training.data.augment import nominal_crop, straight_batch
from rotopaint_ai.training.data.dataset import Truth, read_dataset
from rotopaint_ai.training.data.dataset_checks import split_off_validation
from rotopaint_ai.training.data.memory import face_side, load_pictures
from rotopaint_ai.training.models.shape_fit import (
    SHAPE_MODELS,
    ShapeGraph,
    ShapeTraining,
    add_warped_copies,
    build_ridge,
    curve_distances,
    fit_shapes,
)

HIDDEN = 32
STEPS, BATCH, RATE = 2000, 64, 1e-2
WHOLE = 100.0  # weight of the L1 norm of the shape, whose errors are shares of the face
SHORTEST = 0.005  # share of the face below which tangents count as that long
WARP = 0.12
COPIES, SLIDE = 6, 0.2  # slid copies; standard deviation of a slide as a share of a segment
_FARTHEST = 0.4  # slides of neighbours must not cross
_SMOOTH = 0.87  # cosine between tangents above which a point may slide: about 30 degrees
_UNIT = 10.0  # scales the offsets of aligned landmarks to a standard deviation of about one


class ShapeNetworks(ShapeGraph):
    """As `ShapeGraph`, with two layers between landmarks and control points, and a skip connection over both.

    Widths stay linear.
    """

    own: Tensor  # [K, 1, 2 L] the landmarks that a shape uses

    def __init__(self, known: ShapeTraining) -> None:
        fits = fit_shapes(known.sheet, known.truth, noise_L=known.noise_L, guards_K=known.guards_K)
        super().__init__(known.sheet, fits)
        draw = torch.Generator().manual_seed(known.seed)
        n_shapes, n_in, n_out = self.slope.shape
        self.register_buffer("own", (self.share > 0).float().repeat_interleave(2, 1)[:, None])
        fan_in = self.own.sum(2, keepdim=True)
        self.first = nn.Parameter(torch.randn(n_shapes, n_in, HIDDEN, generator=draw) * (2 / fan_in) ** 0.5)
        self.second = nn.Parameter(torch.randn(n_shapes, HIDDEN, HIDDEN, generator=draw) * (2 / HIDDEN) ** 0.5)
        self.biases = nn.Parameter(torch.zeros(2, n_shapes, 1, HIDDEN))
        self.last = nn.Parameter(torch.zeros(n_shapes, HIDDEN + n_in, n_out - 1))
        self.middle = nn.Parameter(self.offset[:, :-1].clone())

    def regress(self, flat: Tensor) -> Tensor:
        """Control points and width [N, K, 6 most + 1] from offsets of aligned landmarks [K, N, 2 L]."""
        near = flat * self.own * _UNIT
        hidden = torch.relu(torch.matmul(near, self.first) + self.biases[0])
        hidden = torch.relu(torch.matmul(hidden, self.second) + self.biases[1])
        points = torch.matmul(torch.cat((hidden, near), 2), self.last).transpose(0, 1) + self.middle
        return torch.cat((points, super().regress(flat)[..., -1:]), 2)


@SHAPE_MODELS.register("network")
def build_network(known: ShapeTraining) -> ShapeNetworks:
    """The networks of all shapes, trained for half a minute."""
    truth = add_slid_copies(known).truth
    marks, points = (torch.tensor(np.asarray(v, np.float32)) for v in (truth.landmarks, truth.points))
    whole = torch.isfinite(marks).all(2).all(1)
    marks, points = marks[whole], points[whole]
    sides = torch.tensor(face_side(marks.numpy()), dtype=torch.float32)[:, None, None]
    model, draw = ShapeNetworks(known), torch.Generator().manual_seed(known.seed)
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, STEPS)
    for _ in range(STEPS):
        rows = torch.randint(len(marks), (BATCH,), generator=draw)
        warp = torch.eye(2) + (torch.rand(BATCH, 2, 2, generator=draw) * 2 - 1) * WARP
        wanted = torch.matmul(points[rows].unflatten(2, (3, 2)), warp[:, None])
        found = model(torch.matmul(marks[rows], warp))[0].unflatten(2, (3, 2))
        optimiser.zero_grad()
        measure_loss(found / sides[rows, ..., None], wanted / sides[rows, ..., None]).backward()
        optimiser.step()
        schedule.step()
    return model


def measure_loss(found: Tensor, wanted: Tensor) -> Tensor:
    """The published loss of shapes [N, P, 3, 2] in shares of the face: relative errors of tangents, and the L1 norm.

    Unknown points are NaN. Tangents of no length, at the ends of open shapes, count in the L1 norm alone.
    """
    known = torch.isfinite(wanted)
    off = torch.where(known, found - wanted, 0.0)
    size = torch.linalg.vector_norm(torch.where(known, wanted, 0.0)[:, :, 1:], dim=3)
    relative = torch.linalg.vector_norm(off[:, :, 1:] + 1e-12, dim=3) / size.clamp_min(SHORTEST)
    return relative[size > 0].mean() + WHOLE * off.abs().sum() / known.sum()


@SHAPE_MODELS.register("slid ridge")
def build_slid_ridge(known: ShapeTraining) -> ShapeGraph:
    """The ridge that ships, on the network's slid shapes."""
    return build_ridge(add_slid_copies(known))


def add_slid_copies(known: ShapeTraining) -> ShapeTraining:
    """The samples, and copies whose control points, and landmarks on them, slid along the same curves."""
    rng = np.random.default_rng(known.seed)
    copies = [_slide_points(known.sheet, known.truth, rng) for _ in range(COPIES)]
    return replace(known, truth=Truth.concatenate((known.truth, *copies)))


def _slide_points(sheet: Sheet, truth: Truth, rng: np.random.Generator) -> Truth:
    landmarks, points = truth.landmarks.copy(), truth.points.copy()
    for shape in sheet.shapes:
        rows = sheet.point_rows()[shape.name]
        known = np.flatnonzero(np.isfinite(points[:, rows]).all(axis=(1, 2)))
        for at in known:
            points[at, rows] = slide_along(points[at, rows].astype(np.float64), shape.closed, rng)
        for point, name in shape.on_landmarks.items():
            landmarks[known, sheet.landmark_names.index(name)] = points[known, rows.start + point, :2]
    return replace(truth, landmarks=landmarks, points=points)


def slide_along(points: npt.NDArray[np.float64], closed: bool, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """A curve [P, 6], re-vectorised after its control points slid along it; corners and ends stay."""
    inward, outward = -points[:, 2:4], points[:, 4:6]
    lengths = np.linalg.norm(inward, axis=1) * np.linalg.norm(outward, axis=1)
    slides = rng.normal(0, SLIDE, len(points)).clip(-_FARTHEST, _FARTHEST)
    at = np.arange(len(points)) + slides * ((inward * outward).sum(axis=1) > _SMOOTH * lengths)
    cubics = segments(points, closed)
    ends = np.append(at[1:], at[0] + len(points))[: len(cubics)]
    times = np.linspace(at[: len(cubics)], ends, 17, axis=1)
    segment = np.floor(times).astype(int)
    if not closed:
        segment = np.minimum(segment, len(cubics) - 1)
    places = evaluate(cubics[segment.ravel() % len(cubics)], (times - segment).reshape(-1, 1))
    return fit_segments(places.reshape(*times.shape, 2), closed=closed)


def compare(dataset: str, pack: Path | None) -> dict[str, dict[str, npt.NDArray[np.float64]]]:
    """Mean distance [K] of validation curves, by source of the landmarks and by shape model."""
    data = split_off_validation(read_dataset(dataset))
    train, held = (data.subset(data.rows_of(split)) for split in ("train", "val"))
    memory = load_pictures(held, side_px=1e4, margin=1.3, check=lambda: None)
    marks = {"true": memory.truth.landmarks}
    noise = np.full(len(data.sheet.landmarks), 0.004)
    if pack is not None:
        marks["found"], noise = _find(pack, memory, noise)
    more = add_warped_copies(train.truth, copies=2, amount=0.06, rng=np.random.default_rng(1))
    result: dict[str, dict[str, npt.NDArray[np.float64]]] = {source: {} for source in marks}
    for name in SHAPE_MODELS:
        model = SHAPE_MODELS[name](ShapeTraining(data.sheet, more, noise)).eval()
        for source, places in marks.items():
            with torch.no_grad():
                points = model(torch.tensor(places, dtype=torch.float32))[0].double().numpy()
            result[source][name] = curve_distances(data.sheet, points, memory.truth)
    return result


def _find(pack: Path, memory: Any, noise: npt.NDArray[np.float64]) -> tuple[Any, npt.NDArray[np.float64]]:
    """Landmarks [N, L, 2] that a pack finds in pictures, and their deviations per axis as shares of the face."""
    loaded = load_pack(pack)
    batch = straight_batch(memory, range(len(memory)), loaded.input_size, loaded.crop_margin)
    found = open_models(loaded, device="cpu").detect(batch.crops.astype(np.float32) / 255).landmarks_NLC
    crops = [nominal_crop(each, loaded.crop_margin) for each in memory.truth.landmarks]
    scale = np.array([side / loaded.input_size for _, _, side in crops])[:, None, None]
    corner = np.array([(x - side / 2, y - side / 2) for x, y, side in crops])[:, None]
    places = found * scale + corner
    off = np.linalg.norm(places - memory.truth.landmarks, axis=2) / face_side(memory.truth.landmarks)[:, None]
    return places, np.nan_to_num(np.sqrt(np.nanmean(np.minimum(off, 0.04) ** 2, axis=0) / 2), nan=float(noise[0]))


def main() -> int:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--found", type=Path, metavar="PACK")
    options = parser.parse_args()
    for dataset in options.datasets:
        names = read_dataset(dataset).sheet.shape_names
        for source, distances in compare(dataset, options.found).items():
            for model, distance_K in distances.items():
                shapes = ", ".join(f"{name} {value:.2f}" for name, value in zip(names, distance_K))
                print(f"{dataset}, {source} landmarks, {model}: mean {np.mean(distance_K):.3f} px; {shapes}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
