"""The seam network of a pack, taught what the seams of one character look like.

The shipped `seam.onnx` has seen a thousand rendered characters and none of the studio's. A minute or two on the mined
seams of one character, starting from it, teaches it that character's crease, and what beside it is none. What it
learned is kept only where it helps on samples that it was not taught on.

The file holds no batch norms any more, they are part of its convolutions; a network that starts from it has them as
plain scales and offsets.

S pairs of places, D offsets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import numpy_helper
from torch import nn

from rotopaint_ai.crops import CROP_MARGIN, around
from rotopaint_ai.errors import TrainingError
from rotopaint_ai.seams.path import OFFSETS
from rotopaint_ai.seams.placement import Evidence, Seam, SeamLook, look, place
from rotopaint_ai.shapes.bezier import curve_distance
from rotopaint_ai.training.data.dataset import Dataset, Picture
from rotopaint_ai.training.models.seam.strip import Example, Examples, SeamNet, batch_of, learn

Array = npt.NDArray[Any]

_GAMMA = 2.2  # near enough: what is read is turned back by the same one
_LOOKED_AT = 40  # held-out samples, each seen off in _VIEWS ways
_VIEWS = 2
_BATCH = 12


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


def seam_net(path: Path) -> SeamNet:
    """The network that a `seam.onnx` was made from, up to its batch norms. Raises TrainingError on any other file."""
    try:
        stored = {item.name: numpy_helper.to_array(item) for item in onnx.load(str(path)).graph.initializer}
    except Exception as error:  # protobuf raises many kinds
        raise TrainingError(f"{path}: cannot be read ({error}); copy the pack again") from error
    net = SeamNet()
    state = net.state_dict()
    for name in [name for name in state if name.endswith((".running_mean", ".running_var"))]:
        state[name] = torch.zeros_like(state[name]) if name.endswith("mean") else torch.ones_like(state[name])
    for name in _own_names(net):
        wanted = _stored_name(name)
        if wanted not in stored or stored[wanted].shape != tuple(state[name].shape):
            raise TrainingError(f"{path}: has no weights '{wanted}' to start from; train with seam_minutes=0")
        state[name] = torch.tensor(stored[wanted])
    for module_name, module in net.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            state[f"{module_name}.weight"] = torch.full_like(module.weight, (1 + module.eps) ** 0.5)
    net.load_state_dict(state)
    return net.eval()


def _own_names(net: SeamNet) -> list[str]:
    """Tensors that the file holds: weights of convolutions, their biases, and the offsets of batch norms."""
    norms = {name for name, module in net.named_modules() if isinstance(module, nn.BatchNorm2d)}
    own = [name for name, _ in net.named_parameters()]
    return [name for name in own if name.rpartition(".")[0] not in norms or name.endswith(".bias")]


def _stored_name(name: str) -> str:
    """The exporter names the offset of a block's norm (`fine.1.bias`) after its convolution (`fine.0.weight_bias`)."""
    module, _, part = name.rpartition(".")
    block, _, index = module.rpartition(".")
    return f"{block}.0.weight_bias" if block and index == "1" and part == "bias" else name


def tune(
    dataset: Dataset,
    start: SeamNet,
    *,
    minutes: float,
    rate: float = 1e-3,
    seed: int = 0,
    check: Callable[[], None] = lambda: None,
) -> Tuned | None:
    """Teach a network the seams of a data set's `train` samples for so many minutes; None where it has no seams.

    Norms stay as they are: a dozen strips of one character are no measure of anything.
    """
    clock = time.monotonic() + 60 * minutes
    examples = Examples(dataset, [dataset.picture(row) for row in range(len(dataset))])
    held = _held_out(examples)
    if not held:
        return None
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    before, net, steps = _miss(start, held), _copy(start), 0
    rows = dataset.rows_of("train")
    optimiser = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=1e-3)
    average = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.98))  # type: ignore[no-untyped-call]
    begin = time.monotonic()
    while (share := (time.monotonic() - begin) / max(clock - begin, 1e-3)) < 1:
        check()
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (steps + 1) / 20) * (0.5 + 0.5 * float(np.cos(np.pi * share)))
        made = [item for row in rng.choice(rows, _BATCH) if (item := examples.make(int(row), rng)) is not None]
        if made:
            learn(net, made, optimiser, average)
        steps += 1
    trained = cast(SeamNet, average.module).eval()
    return Tuned(trained, before, _miss(trained, held), steps)


def _copy(net: SeamNet) -> SeamNet:
    twin = SeamNet()
    twin.load_state_dict(net.state_dict())
    return twin.eval()


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
        logits = net(batch_of([item])[0])[0, : len(item.offset), :-1]
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
