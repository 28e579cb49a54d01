"""A small network per shape as the shape model, compared with the shipped ridge regression.

    python benchmarks/shape_network.py DATASET... [--found PACK]

Use in a recipe: `plugins: [.../benchmarks/shape_network.py]` and `shape_model: network`. The network follows "A
Learning-Based Approach to Parametric Rotoscoping of Multi-Shape Systems" (WACV 2021): a hidden layer for each shape;
losses for control points, tangents and the ends of open shapes; augmentation by sliding landmarks along their outline.
Both are compared on each data set's validation samples, with true landmarks and with landmarks found by PACK. PACK must
have the landmarks of the data set and must not be trained on these samples (such as PACK.run/judged). The measure is
that of `choose_guards`: mean distance of curves, px.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rotopaint_ai.inference.models import open_models
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.sheet import Sheet
from rotopaint_ai.training.data.augment import nominal_crop, straight_batch
from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.data.dataset_checks import split_off_validation
from rotopaint_ai.training.data.memory import face_side, load_pictures
from rotopaint_ai.training.models.shape_fit import (
    SHAPE_MODELS,
    ShapeGraph,
    ShapeTraining,
    add_warped_copies,
    curve_distances,
    fit_shapes,
)

HIDDEN = 64
STEPS, RATE = 1000, 3e-3
TANGENTS, ENDS = 0.5, 1.0  # weights relative to that of control points
SLIDE = 0.3  # standard deviation of the slide, as a share of a tangent's length
_UNIT = 10.0  # scales the offsets of aligned landmarks to a standard deviation of about one


class ShapeNetworks(ShapeGraph):
    """As `ShapeGraph`, with a hidden layer between landmarks and control points; widths stay linear."""

    own: Tensor  # [K, 1, 2 L] the landmarks that a shape uses

    def __init__(self, known: ShapeTraining) -> None:
        fits = fit_shapes(known.sheet, known.truth, noise_L=known.noise_L, guards_K=known.guards_K)
        super().__init__(known.sheet, fits)
        draw = torch.Generator().manual_seed(known.seed)
        n_shapes, n_in, n_out = self.slope.shape
        self.register_buffer("own", (self.share > 0).float().repeat_interleave(2, 1)[:, None])
        self.first = nn.Parameter(torch.randn(n_shapes, n_in, HIDDEN, generator=draw) * n_in**-0.5)
        self.bias = nn.Parameter(torch.randn(n_shapes, 1, HIDDEN, generator=draw) * 0.5)
        self.second = nn.Parameter(torch.zeros(n_shapes, HIDDEN, n_out - 1))
        self.middle = nn.Parameter(self.offset[:, :-1].clone())

    def regress(self, flat: Tensor) -> Tensor:
        """Control points and width [N, K, 6 most + 1] from offsets of aligned landmarks [K, N, 2 L]."""
        hidden = torch.tanh(torch.matmul(flat * self.own * _UNIT, self.first) + self.bias)
        points = torch.matmul(hidden, self.second).transpose(0, 1) + self.middle
        return torch.cat((points, super().regress(flat)[..., -1:]), 2)


@SHAPE_MODELS.register("network")
def build_network(known: ShapeTraining) -> ShapeNetworks:
    """The networks of all shapes, trained for a few seconds."""
    model = ShapeNetworks(known)
    sides = torch.tensor(face_side(known.truth.landmarks), dtype=torch.float32)[:, None, None]
    marks, points = (torch.tensor(np.asarray(v, np.float32)) for v in (known.truth.landmarks, known.truth.points))
    whole = torch.isfinite(marks).all(2).all(1)
    marks, points, sides = marks[whole], points[whole], sides[whole]
    weight = _weights(known.sheet) * torch.isfinite(points)
    points = torch.nan_to_num(points)
    noise = torch.tensor(known.noise_L, dtype=torch.float32)[:, None] * sides
    draw, tangents = torch.Generator().manual_seed(known.seed), _tangents(known.sheet, marks.shape[1], points)
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, STEPS)
    for _ in range(STEPS):
        slid = tangents * torch.randn(*marks.shape[:2], 1, generator=draw) * SLIDE
        off = torch.randn(marks.shape, generator=draw) * noise
        loss = ((model(marks + off + slid)[0] - points).abs() / sides * weight).sum() / weight.sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return model


def _weights(sheet: Sheet) -> Tensor:
    """Weights [P, 6] of control points' positions and tangents; the ends of open shapes weigh more."""
    weights = torch.ones(sheet.n_points, 6)
    weights[:, 2:] = TANGENTS
    for shape in sheet.shapes:
        if not shape.closed:
            rows = sheet.point_rows()[shape.name]
            weights[[rows.start, rows.stop - 1], :2] += ENDS
    return weights


def _tangents(sheet: Sheet, n_landmarks: int, points: Tensor) -> Tensor:
    """Tangents [n, L, 2] at landmarks that lie on a control point; zero for other landmarks."""
    found = torch.zeros(len(points), n_landmarks, 2)
    for shape in sheet.shapes:
        first = sheet.point_rows()[shape.name].start
        for at, name in shape.on_landmarks.items():
            inward, outward = points[:, first + at, 2:4], points[:, first + at, 4:6]
            found[:, sheet.landmark_names.index(name)] = (outward - inward) / 2
    return found


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
