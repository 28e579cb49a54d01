"""Trains the small network that tells a seam from everything else near a predicted curve (`seam.onnx` of a pack).

    python -m rotopaint_ai.training.models.seam.strip DATASET --out seam.onnx --minutes 9

True seams of a data set are bent as predictions err, straightened just as at run time (`rotopaint_ai.seams.placement`),
and the network learns at which offset the true curve runs, or that nothing of it is to be seen there. It knows no
landmarks and no sheet, so it serves every pack.

    seam.onnx   `strip` float32 [N, T, D, 3], T a multiple of 8, D = N_OFFSETS -> `logits` [N, T / 2, D + 1]

N batch, T places along, S pairs of places, D offsets.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rotopaint_ai.crops import CROP_MARGIN, Crop, around, cut
from rotopaint_ai.errors import RotopaintError, TrainingError
from rotopaint_ai.files import replacing
from rotopaint_ai.inference.session import open_session
from rotopaint_ai.seams.path import N_OFFSETS, OFFSETS
from rotopaint_ai.seams.placement import (
    ACROSS,
    ALONG,
    BEYOND,
    GAP,
    MULTIPLE,
    PICTURE_PX,
    CurvePlaces,
    places_along,
    strips,
)
from rotopaint_ai.shapes.bezier import evaluate, segments
from rotopaint_ai.sheet import ShapeSpec
from rotopaint_ai.training.data.dataset import Dataset, Picture, read_dataset
from rotopaint_ai.training.pack.export import save_onnx

Array = npt.NDArray[Any]

_SPREAD = 0.8  # deviation of the target round the true offset, in steps
_WANDER = 0.2  # how far along the curve, in shares of it, a place may find its truth
_PARITY = 1e-3


class SeamNet(nn.Module):
    """A three-level U-shaped network on strips; about 30,000 weights, half of a million multiplications a place."""

    def __init__(self) -> None:
        super().__init__()
        self.fine = _block(6, 12)
        self.middle = nn.Sequential(_block(12, 24, stride=2), _block(24, 24))
        self.coarse = nn.Sequential(_block(24, 32, stride=2), _block(32, 32, dilation=2))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.middle_up = nn.Sequential(_block(32 + 24, 24, size=1), _block(24, 24))
        self.fine_up = nn.Sequential(_block(24 + 12, 12, size=1), _block(12, 12))
        self.where = nn.Conv2d(12, 1, 1)
        self.nothing = nn.Conv1d(24, 1, 3, padding=1)

    def forward(self, strip: Tensor) -> Tensor:
        """[N, T, D, 3] -> logits [N, T / 2, D + 1]."""
        n, _, d, _ = strip.shape
        x = strip.reshape(n, -1, 2, d, 3).permute(0, 2, 4, 1, 3).reshape(n, 6, -1, d)
        fine = self.fine(x)
        middle = self.middle(fine)
        middle = self.middle_up(torch.cat([self.up(self.coarse(middle)), middle], 1))
        fine = self.fine_up(torch.cat([self.up(middle), fine], 1))
        pooled = torch.cat([fine.amax(3), fine.mean(3)], 1)
        return torch.cat([self.where(fine)[:, 0], self.nothing(pooled)[:, 0, :, None]], 2)


def _block(n_in: int, n_out: int, *, size: int = 3, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    padding = dilation * (size // 2)
    conv = nn.Conv2d(n_in, n_out, size, stride, padding, dilation, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(n_out), nn.ReLU(inplace=True))


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One frame's strips (T, D, 3), and at each pair of places (S,) the true offset in steps; NaN: nothing to be seen.

    `weight` (S,) is 0 where nobody knows.
    """

    strip: Array
    offset: Array
    weight: Array


@dataclass(frozen=True, slots=True)
class Examples:
    """Makes examples of a data set's samples."""

    dataset: Dataset
    pictures: Sequence[Picture] | None = None  # of every sample, where they were decoded already

    def make(self, row: int, rng: np.random.Generator, *, augment: bool = True) -> Example | None:
        """An example of one sample; None where it has no seam of some length."""
        truth = self.dataset.truth
        known = truth.landmarks[row][np.isfinite(truth.landmarks[row]).all(axis=1)]
        crop = around(known.astype(np.float64), margin=CROP_MARGIN)
        face = crop.side / CROP_MARGIN * (float(np.exp(rng.normal(0, 0.06))) if augment else 1.0)
        picture = _cut(self._picture(row), crop, rng if augment else None)
        found = [item for spec in self._seams() if (item := self._seam(row, spec, face, rng)) is not None]
        if not found:
            return None
        corner = np.array([crop.x, crop.y]) - crop.side / 2
        strip, pairs = strips([item[0] for item in found], picture, PICTURE_PX / crop.side, corner, face / ACROSS)
        offset, weight = np.full(strip.shape[1] // 2, np.nan), np.zeros(strip.shape[1] // 2)
        for part, (_, at, known_at) in zip(pairs, found):
            offset[part], weight[part] = at, known_at
        flip = rng.random() < 0.5
        return Example(strip[0, :, ::-1] if flip else strip[0], -offset if flip else offset, weight)

    def _picture(self, row: int) -> Picture:
        return self.dataset.picture(row) if self.pictures is None else self.pictures[row]

    def _seams(self) -> list[ShapeSpec]:
        return [shape for shape in self.dataset.sheet.shapes if shape.role == "seam" and not shape.closed]

    def _seam(
        self, row: int, spec: ShapeSpec, face: float, rng: np.random.Generator
    ) -> tuple[CurvePlaces, Array, Array] | None:
        sheet, truth = self.dataset.sheet, self.dataset.truth
        points = truth.points[row, sheet.point_rows()[spec.name]].astype(np.float64)
        if not np.isfinite(points).all():
            return None
        places = places_along(bent(points, face, rng), face / ALONG, BEYOND)
        if places is None:
            return None
        offset, at = true_offsets(places.pairs, points, face / ACROSS)
        marks = sorted(spec.on_landmarks)
        rows = [sheet.landmark_row(spec.on_landmarks[mark]) for mark in marks]
        visible = np.nan_to_num(truth.visible[row, rows], nan=0.5) if marks else np.ones(1)
        seen = np.interp(at, marks, visible) if marks else np.ones(len(at))
        hidden, unsure = seen < 0.01, (seen >= 0.01) & (seen <= 0.99)
        out = np.isnan(offset) | (np.abs(offset) > N_OFFSETS / 2)
        return places, np.where(hidden | out, np.nan, offset), np.where(unsure & ~out, 0.0, 1.0)


def bent(points: Array, face: float, rng: np.random.Generator) -> Array:
    """Control points (P, 6) off as predictions are: moved, turned, scaled, bent smoothly, by 0.3 to 5 % of a face."""
    size = face * float(np.exp(rng.uniform(np.log(0.003), np.log(0.05))))
    n = len(points) - 1
    own = np.arange(n + 1) / n
    stretch = float(np.exp(rng.normal(0, 0.15))) if rng.random() < 0.5 else 1.0
    turn = np.exp(1j * rng.normal(0, 0.8 * size / face)) * np.exp(rng.normal(0, 0.6 * size / face)) * stretch
    length = float(np.linalg.norm(np.diff(points[:, :2], axis=0), axis=1).sum())
    amplitudes = rng.normal(0, 1, (2, 6)) * size / (1 + (0.5 * np.arange(6) * face / length) ** 2)
    phases = rng.uniform(0, 2 * np.pi, (2, 6))
    phases[:, 0] = 0.0

    def moved(at: Array, tau: Array) -> Array:
        waves = np.cos(np.pi * np.arange(6) * tau[:, None, None] + phases)
        z = (at - points[:, :2].mean(axis=0)) @ np.array([1, 1j]) * turn
        centre = points[:, :2].mean(axis=0)
        return np.asarray(np.stack([z.real, z.imag], 1) + centre + (amplitudes * waves).sum(axis=2))

    middle = moved(points[:, :2], own)
    before = moved(points[:, :2] + points[:, 2:4], own - 1 / (3 * n)) - middle
    after = moved(points[:, :2] + points[:, 4:6], own + 1 / (3 * n)) - middle
    return np.concatenate([middle, before, after], axis=1)


def true_offsets(places: CurvePlaces, points: Array, step: float) -> tuple[Array, Array]:
    """Where the true curve (P, 6) crosses each place's normal: offset in steps (S,), NaN where it does not, and the
    curve's parameter there, counted in segments."""
    n = len(points) - 1
    line = evaluate(segments(points, False), np.linspace(0, 1, 16, endpoint=False)).reshape(-1, 2)
    line = np.concatenate([line, points[-1:, :2]])
    u = np.linspace(0, n, len(line))
    away = line[None] - places.centre[:, None]
    across = (away * places.normal[:, None]).sum(axis=2)
    along = away[..., 0] * places.normal[:, None, 1] - away[..., 1] * places.normal[:, None, 0]
    share = along[:, :-1] / np.where(along[:, :-1] == along[:, 1:], 1.0, along[:, :-1] - along[:, 1:])
    crosses = (along[:, :-1] * along[:, 1:] <= 0) & (along[:, :-1] != along[:, 1:])
    value = across[:, :-1] + share * (across[:, 1:] - across[:, :-1])
    past = max(0.0, -float(places.at.min()) / n, float(places.at.max()) / n - 1)
    near = np.abs(u[:-1] / n - (places.at / n)[:, None]) < _WANDER + past
    distance = np.where(crosses & near, np.abs(value), np.inf)
    best = distance.argmin(axis=1)
    rows = np.arange(len(best))
    offset = np.where(np.isfinite(distance[rows, best]), value[rows, best] / step, np.nan)
    return offset, np.where(np.isnan(offset), np.clip(places.at, 0, n), u[best])


def _cut(picture: Array, crop: Crop, rng: np.random.Generator | None) -> Array:
    cropped = cut(picture.astype(np.float32) / np.float32(255), (0, 0), crop, PICTURE_PX)
    if rng is not None:
        cropped = _worn(cropped, rng)
    return np.rint(np.clip(cropped, 0, 1) * 255).astype(np.uint8)


def _worn(picture: Array, rng: np.random.Generator) -> Array:
    """Other light, other colours, another lens, grain and compression."""
    blur = rng.uniform(-0.8, 1.3)
    if blur > 0.3:
        picture = cv2.GaussianBlur(picture, (0, 0), blur)
    elif blur < 0:
        picture = picture + (picture - cv2.GaussianBlur(picture, (0, 0), 1.0)) * -2 * blur
    picture = np.clip(picture, 1e-4, 1) ** np.float32(np.exp(rng.normal(0, 0.25)))
    picture = picture * np.exp(rng.normal(0, 0.25) + rng.normal(0, 0.08, 3)).astype(np.float32)
    if rng.random() < 0.2:
        picture = np.repeat(picture.mean(axis=2, keepdims=True), 3, axis=2)
    if rng.random() < 0.6:
        grain = rng.standard_normal((PICTURE_PX, PICTURE_PX, 1), np.float32) * np.float32(rng.uniform(0, 0.02))
        picture = picture + grain
    if rng.random() < 0.3:
        coded = np.rint(np.clip(picture, 0, 1) * 255).astype(np.uint8)
        _, data = cv2.imencode(".jpg", coded, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(50, 95))])
        picture = cast(Array, cv2.imdecode(data, cv2.IMREAD_COLOR)).astype(np.float32) / 255
    return picture


def batch_of(examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
    """Strips [N, T, D, 3] and target probabilities [N, S, D + 1], zero where nobody knows."""
    longest = max(len(item.strip) for item in examples)
    strip = np.zeros((len(examples), longest, N_OFFSETS, 3), np.float32)
    target = np.zeros((len(examples), longest // 2, N_OFFSETS + 1), np.float32)
    for row, item in enumerate(examples):
        strip[row, : len(item.strip)] = item.strip
        seen = np.isfinite(item.offset)
        peak = np.exp(-0.5 * ((OFFSETS - np.nan_to_num(item.offset)[:, None]) / _SPREAD) ** 2)
        peak /= peak.sum(axis=1, keepdims=True) + 1e-9
        own = target[row, : len(item.offset)]
        own[:, :-1] = peak * (seen * item.weight)[:, None]
        own[:, -1] = ~seen * item.weight * 0.7
    return torch.from_numpy(strip), torch.from_numpy(target)


def train_seam_model(
    dataset_folder: Path, out_path: Path, minutes: float, *, batch: int = 12, rate: float = 3e-3, seed: int = 0
) -> dict[str, float]:
    """Train on a data set's `train` samples for so many minutes on one thread and write `seam.onnx`.

    Returns figures on its `val` samples. Raises: TrainingError where the data set has no seams or the export differs.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    dataset = read_dataset(dataset_folder)
    examples, rows = Examples(dataset), dataset.rows_of("train")
    net = cast(SeamNet, cast(Any, SeamNet()).to(memory_format=torch.channels_last))
    optimiser = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=1e-3)
    start, steps, share = time.monotonic(), 0, 0.0
    average = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))  # type: ignore[no-untyped-call]
    while share < 1:
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (steps + 1) / 30) * (0.5 + 0.5 * float(np.cos(np.pi * share)))
        made = [item for row in rng.choice(rows, batch) if (item := examples.make(int(row), rng)) is not None]
        if not made:
            raise TrainingError(f"{dataset_folder}: no open shapes of role 'seam'; wanted a data set with seams")
        learn(net, made, optimiser, average)
        steps += 1
        share = (time.monotonic() - start) / (60 * minutes)
    trained = cast(SeamNet, average.module)
    _settle_norms(trained, examples, rows, rng)
    figures = {"steps": float(steps), "minutes": minutes, **_figures(trained, examples, dataset.rows_of("val"))}
    figures["parity"] = export(trained, out_path)
    return figures


def loss_of(net: nn.Module, strip: Tensor, target: Tensor) -> Tensor:
    """Cross entropy of a batch's logits against target probabilities, per place that is known."""
    return -(target * F.log_softmax(net(strip), dim=2)).sum() / target.sum().clamp_min(1.0)


def learn(
    net: nn.Module,
    made: Sequence[Example],
    optimiser: torch.optim.Optimizer,
    average: torch.optim.swa_utils.AveragedModel,
) -> None:
    """One step of `optimiser` on some examples; `average` follows the weights."""
    loss = loss_of(net, *batch_of(made))
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimiser.step()
    average.update_parameters(net)


@torch.no_grad()
def _settle_norms(net: nn.Module, examples: Examples, rows: Array, rng: np.random.Generator) -> None:
    """Running means and deviations of the averaged weights."""
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    for module in norms:
        module.reset_running_stats()
        module.momentum = None
    net.train()
    for _ in range(8):
        made = [item for row in rng.choice(rows, 24) if (item := examples.make(int(row), rng)) is not None]
        if made:
            net(batch_of(made)[0])
    net.eval()


@torch.no_grad()
def _figures(net: nn.Module, examples: Examples, rows: Array) -> dict[str, float]:
    """On held-out samples: share of seen places whose best offset is within 2 steps, and of hidden ones called so."""
    rng = np.random.default_rng(1)
    right, blind = [], []
    for row in rows[:300]:
        item = examples.make(int(row), rng, augment=False)
        if item is None:
            continue
        logits = net(batch_of([item])[0])[0].numpy()
        seen = np.isfinite(item.offset) & (item.weight > 0)
        right.append((np.abs(OFFSETS[logits[:, :-1].argmax(axis=1)] - item.offset) <= 2)[seen])
        blind.append((logits.argmax(axis=1) == N_OFFSETS)[~np.isfinite(item.offset) & (item.weight > 0)])
    joined = [np.concatenate(parts) if parts else np.zeros(0) for parts in (right, blind)]
    return {
        name: round(float(values.mean()), 4)
        for name, values in zip(("within_2_steps", "hidden_told"), joined)
        if len(values)
    }


def export(net: SeamNet, path: Path) -> float:
    """Write the network with a free number of places; the largest difference to torch on a strip of another length.

    Raises: TrainingError when the file gives something else than the network.
    """
    net = cast(SeamNet, cast(Any, net.eval()).to(memory_format=torch.contiguous_format))
    example = torch.randn(1, 20 * MULTIPLE, N_OFFSETS, 3)
    places = torch.export.Dim("places", min=2, max=512)
    with replacing(path) as beside:
        save_onnx(net, beside, "strip", ("logits",), example, free={1: MULTIPLE * places})
    with torch.no_grad():
        other = torch.randn(1, 13 * MULTIPLE + 2 * GAP // MULTIPLE * MULTIPLE, N_OFFSETS, 3)
        wanted = net(other).numpy()
    session = open_session(path, device="cpu", threads=1, example={"strip": example.numpy()})
    difference = float(np.abs(session.run(("logits",), {"strip": other.numpy()})[0] - wanted).max())
    if not difference <= _PARITY:
        raise TrainingError(f"{path}: differs from the trained network by {difference:.3g}; wanted {_PARITY} at most")
    return difference


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: train and say how well."""
    parser = argparse.ArgumentParser(prog="python -m rotopaint_ai.training.models.seam.strip", description=__doc__)
    parser.add_argument("dataset", type=Path, help="folder of the data set")
    parser.add_argument("--out", type=Path, required=True, help="file to write: seam.onnx")
    parser.add_argument("--minutes", type=float, default=9.0, help="training time (default 9)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        figures = train_seam_model(options.dataset, options.out, options.minutes, seed=options.seed)
    except RotopaintError as error:
        parser.exit(1, f"{error}\n")
    print(" ".join(f"{name} {value:g}" for name, value in figures.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
