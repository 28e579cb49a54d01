"""The seam network of a pack, tuned to what the seams of one character look like.

The shipped `seam.onnx` has seen a thousand rendered characters and none of the studio's. A minute or two on the mined
seams of one character, starting from it, teaches it that character's crease, and what beside it is none. What it
learned is kept only where it helps on held-out samples.

S pairs of places, D offsets.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from rotopaint_ai.crops import CROP_MARGIN, around
from rotopaint_ai.seams.path import OFFSETS
from rotopaint_ai.seams.placement import Evidence, Seam, SeamLook, look, place
from rotopaint_ai.shapes.bezier import curve_distance
from rotopaint_ai.training.data.dataset import Dataset, Picture
from rotopaint_ai.training.models.seam.examples import Example, Examples, batch_of
from rotopaint_ai.training.models.seam.net import SeamNet
from rotopaint_ai.training.models.seam.task import SeamConfig, SeamTask
from rotopaint_ai.training.trainer.trainer import Trainer

Array = npt.NDArray[Any]

_GAMMA = 2.2  # near enough: what is read is turned back by the same one
_LOOKED_AT = 40  # held-out samples, each seen off in _VIEWS ways
_VIEWS = 2
_RATE, _DECAY = 1e-3, 0.98
_NEVER = 1_000_000  # steps: nothing is kept of a minute's work but its end


@dataclass(frozen=True, slots=True)
class Tuned:
    """A network and what it does on held-out samples: mean distance, in steps, of the best offset from the true one
    where the seam shows, for the network started from and for this one."""

    net: SeamNet
    before: float
    after: float
    steps: int

    @property
    def is_better(self) -> bool:
        """Whether teaching it was worth while."""
        return self.after < self.before


class TuningTask(SeamTask):
    """Tuning leaves norms as they are: a dozen strips of one character are no measure of anything."""

    def set_mode(self, net: SeamNet) -> None:
        """As at run time."""
        net.eval()


def tune(
    dataset: Dataset,
    start: SeamNet,
    *,
    minutes: float,
    seed: int = 0,
    check: Callable[[], None] = lambda: None,
) -> Tuned | None:
    """Teach a network the seams of a data set's `train` samples for so many minutes; None where it has no seams."""
    examples = Examples.of(dataset)
    held = _held_out(examples)
    if not held or not len(examples.rows_of("train")):
        return None
    config = SeamConfig(minutes=minutes, learning_rate=_RATE, ema=_DECAY, seed=seed, eval_every=_NEVER)
    task = TuningTask(config, copy.deepcopy(start).eval(), examples)
    with tempfile.TemporaryDirectory(prefix="rotopaint-seam-") as folder:
        trained = Trainer(config, task, Path(folder)).fit(check=check)
    return Tuned(trained.net, _miss(start, held), _miss(trained.net, held), trained.steps)


def _held_out(examples: Examples) -> list[Example]:
    rng = np.random.default_rng(1)
    rows = examples.dataset.rows_of("val")
    chosen = rows[np.unique(np.linspace(0, len(rows) - 1, min(_LOOKED_AT, len(rows))).round().astype(np.intp))]
    made = [examples.make(int(row), rng, augment=False) for row in np.repeat(chosen, _VIEWS)]
    return [item for item in made if item is not None]


@torch.no_grad()
def _miss(net: nn.Module, held: Sequence[Example]) -> float:
    """Mean distance in steps between the best offset and the true one, where the seam is to be seen; wild ones, which
    a smooth path would not follow, count as five steps."""
    net.eval()
    distances = []
    for item in held:
        logits = net(torch.from_numpy(batch_of([item]).strip))[0, : len(item.offset), :-1]
        weight = torch.softmax(logits, 1).numpy()
        found = OFFSETS[weight.argmax(axis=1)]
        seen = np.isfinite(item.offset) & (item.weight > 0)
        distances.append(np.minimum(np.abs(found - item.offset)[seen], 5.0))
    return float(np.concatenate(distances).mean())


def left_as_predicted(
    held: Dataset,
    pictures: Sequence[Picture],
    places_NLC: Array,
    points_NPK: Array,
    noise_L: Array,
    net: SeamNet,
) -> tuple[str, ...]:
    """Seams that come no closer to the truth of held-out samples by being placed with a network.

    `places_NLC`: landmarks found in the samples' `pictures`, in whose pixels the truth is too; `points_NPK` the shapes
    predicted from them; `noise_L` how far off each landmark is, as a share of the face.
    """
    sheet, rows = held.sheet, held.sheet.point_rows()
    specs = [spec for spec in sheet.shapes if spec.role == "seam" and not spec.closed]
    gains: dict[str, list[float]] = {spec.name: [] for spec in specs}
    for at in range(len(held)):
        face = around(places_NLC[at], margin=1.0).side
        true = {spec.name: held.truth.points[at, rows[spec.name]].astype(np.float64) for spec in specs}
        known = [spec for spec in specs if np.isfinite(true[spec.name]).all()]
        seams = [
            Seam(points_NPK[at, rows[spec.name]], 0.02 * face, face * float(noise_L[list(sheet.rows_of(spec))].mean()))
            for spec in known
        ]
        placed = place(seams, _look(pictures[at], places_NLC[at]), face, net_says(net))
        for spec, seam, item in zip(known, seams, placed):
            before, after = (curve_distance(points, true[spec.name], False)[0] for points in (seam.points, item.points))
            gains[spec.name].append((before - after) / face)
    return tuple(name for name, gain in gains.items() if not gain or float(np.mean(gain)) <= 0)


def net_says(net: SeamNet) -> Evidence:
    """A network as what `placement.place` asks."""

    def says(strip: Array) -> Array:
        with torch.no_grad():
            return np.asarray(net(torch.from_numpy(np.ascontiguousarray(strip, np.float32))).numpy())

    return says


def _look(picture: Picture, landmarks: Array) -> SeamLook:
    crop = around(landmarks, margin=CROP_MARGIN)
    light = (picture.astype(np.float32) / 255) ** _GAMMA
    return look(light, 0, 0, crop, lambda rgb: np.maximum(rgb, 0) ** (1 / _GAMMA))
