"""The landmark network's training task: small crops first, held-out samples included last; and its predictions on
held-out samples during and after training.

N samples or batch, L landmarks, S side of the crop in pixels.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.shapes.head_structure import RigidStructure
from rotopaint_ai.training.data.augment import Augmenter, Geometry, straight_batch
from rotopaint_ai.training.data.augment import Batch as CropBatch
from rotopaint_ai.training.data.memory import Memory, face_side, join_memories, shrink_memory
from rotopaint_ai.training.data.pose_augment import PoseAugment
from rotopaint_ai.training.data.shards.stream import Sampler, prefetch, reading_and_decoding_s, sizes_of
from rotopaint_ai.training.models.landmarks.config import LandmarkTarget, PackConfig, make_target, total_loss
from rotopaint_ai.training.models.landmarks.net import COARSE_STRIDE, HEADS, LandmarkNet, Reader
from rotopaint_ai.training.trainer.group import CPU
from rotopaint_ai.training.trainer.task import Losses, Moment, Task, precision, to_tensor


class HeldOutPredictions(NamedTuple):
    """Predictions for unaugmented crops: distance, expected error (uncalibrated), face size, positions; crop pixels."""

    distance: npt.NDArray[np.float64]  # [N, L]
    log_scale: npt.NDArray[np.float64]
    visible_logit: npt.NDArray[np.float64]
    visible: npt.NDArray[np.float64]
    face: npt.NDArray[np.float64]  # [N]
    points: npt.NDArray[np.float64]  # [N, L, 2]
    truth: npt.NDArray[np.float64]  # [N, L, 2]
    anisotropy: npt.NDArray[np.float64]  # [N, L, 2] of the error's distribution


class HeldOutError(NamedTuple):
    """Errors of the visible landmarks of held-out samples.

    The mean distance as a percentage of the face's longest side, and the mean and 95th percentile in plate pixels.
    """

    percent: float
    px: float
    p95_px: float


CENTRE_JITTER = 0.5  # standard deviation of the fine windows' centres in training, in coarse cells


def to_input(crops: npt.NDArray[np.uint8], device: torch.device = CPU) -> Tensor:
    """8-bit NHWC crops as the network's float NCHW input (channels-last in memory)."""
    return to_tensor(crops, device).permute(0, 3, 1, 2).float().div_(255)


@torch.no_grad()
def predict_held_out(
    net: LandmarkNet,
    memory: Memory,
    rows: npt.NDArray[np.intp],
    recipe: PackConfig,
    *,
    exact: bool,
    mirror: Sequence[int] | None = None,
) -> HeldOutPredictions:
    """Predictions for unaugmented crops at the recipe's input size. `exact`: compute in float32. `mirror`: average with
    the mirrored crops, as `net.Reader`."""
    device = next(net.parameters()).device
    read = Reader(net, mirror).to(device).eval()
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(rows), 32):
        chosen = rows[start : start + 32]
        batch = straight_batch(memory, chosen.tolist(), recipe.input_size, recipe.crop_margin)
        with contextlib.nullcontext() if exact else precision(recipe, device):
            output = read(to_input(batch.crops, device))
        points, log_scale, visible, anisotropy = (value.cpu() for value in output)
        distance = (points - torch.from_numpy(batch.landmarks)).norm(dim=2)
        seen, sides = torch.from_numpy(batch.visible), face_side(batch.landmarks)
        found.append((distance, log_scale, visible, seen, sides, points, batch.landmarks, anisotropy))
    return HeldOutPredictions(
        *(np.concatenate([np.asarray(part, np.float64) for part in parts]) for parts in zip(*found))
    )


def visible_error(held: HeldOutPredictions, faces_px: npt.NDArray[np.float64]) -> HeldOutError:
    """Errors of the visible landmarks, or of all where none is visible. `faces_px` [N]: sides of the faces in plate
    pixels.

    Raises: TrainingError where no distance is finite.
    """
    share = held.distance / held.face[:, None]
    seen = np.isfinite(share) & (held.visible > 0.5)
    chosen = seen if seen.any() else np.isfinite(share)
    if not chosen.any():
        raise TrainingError(
            "held-out samples: no landmark has both a known position and a finite prediction; hold out others (mine "
            "--val SHOT), or lower learning_rate"
        )
    px = (share * faces_px[:, None])[chosen]
    return HeldOutError(float(share[chosen].mean() * 100), float(px.mean()), float(np.percentile(px, 95)))


@dataclass(frozen=True, slots=True)
class LandmarkData:
    """Training data: samples in memory, held-out samples, landmark weights and mirror order.

    `faces_px`: the longest side of each held-out sample's face in plate pixels, for errors in pixels.
    """

    train: Memory
    held_out: Memory
    weights_L: npt.NDArray[np.float32]
    mirror: tuple[int, ...]
    faces_px: npt.NDArray[np.float64] | None = None
    structure: RigidStructure | None = None  # depth of the character's head, to rotate it to other sides


class Inputs(NamedTuple):
    """A batch on its device. `norm`: the mean weight of the ranks' parts."""

    crops: Tensor
    jitter: Tensor
    target: LandmarkTarget
    norm: Tensor


def build_net(config: PackConfig, n_landmarks: int) -> LandmarkNet:
    """The recipe's network with newly initialised weights."""
    torch.manual_seed(config.seed)
    return HEADS[config.head](n_landmarks, config)


class LandmarkTask(Task[LandmarkNet, CropBatch]):
    """The training task of a landmark network."""

    captures = True
    scores: tuple[str, ...] = ("held_out_percent", "held_out_px", "held_out_p95_px")

    def __init__(self, config: PackConfig, net: LandmarkNet, data: LandmarkData) -> None:
        self.config, self.net, self.data = config, net, data
        self.everything = join_memories(data.train, data.held_out) if config.learn_all else data.train
        self._starts_small = config.small_share > 0 and config.small_size < config.input_size
        factor = config.small_size / config.input_size
        self._small = shrink_memory(self.everything, factor) if self._starts_small else self.everything
        self._augmenter = make_augmenter(config, data.mirror, data.structure)

    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """The samples' number, order, sizes and labels."""
        for memory in (self.data.train, self.data.held_out):
            yield np.array(sizes_of(memory.pictures))
            yield from (memory.truth.landmarks, memory.truth.visible, memory.truth.points)

    def blocks(self) -> tuple[torch.nn.Module, ...]:
        """The convolutional blocks."""
        return self.net.blocks()

    def trains_on_all(self, moment: Moment) -> bool:
        """Whether held-out samples are trained on: in the last part of the run, by the recipe's `learn_all`."""
        return self.config.learn_all > 0 and moment.progress >= 1 - self.config.learn_all

    def size_at(self, moment: Moment) -> int:
        """Crop size of a step."""
        small = self._starts_small and moment.progress < self.config.small_share
        return self.config.small_size if small else self.config.input_size

    def facts(self, moment: Moment) -> dict[str, float]:
        """The crop size."""
        return {"size_px": self.size_at(moment)}

    def order_at(self, moment: Moment) -> Sampler:
        """The order of samples at a step."""
        n = len(self.everything if self.trains_on_all(moment) else self.data.train)  # held-out samples come last
        groups = self.everything.groups
        return Sampler(n, self.config.seed, None if groups is None else groups[:n])

    def make_batch(self, moment: Moment) -> CropBatch:
        """This rank's augmented crops."""
        size = self.size_at(moment)
        memory = self._small if size < self.config.input_size else self.everything
        rows = moment.group.share(self.order_at(moment).batch(moment.step, self.config.batch))
        return self._augmenter.batch(memory, rows, size, moment.generators())

    def to_device(self, batch: CropBatch, moment: Moment) -> Inputs:
        """Crops, offsets of the fine windows, and labels."""
        device = moment.device
        points, visible, weights = map(torch.from_numpy, (batch.landmarks, batch.visible, self.data.weights_L))
        target = make_target(points, visible, weights, batch.crops.shape[1], self.config.hidden_weight)
        everywhere = (self.config.batch, *target.points.shape[1:])
        jitter = torch.randn(everywhere, generator=moment.noise()) * CENTRE_JITTER * COARSE_STRIDE
        weight = moment.group.sums([float(target.weight.sum())])[0] / moment.group.ranks
        mine, norm = moment.group.share(jitter), torch.tensor(weight, dtype=torch.float32)
        target_on_device = LandmarkTarget(*(to_tensor(part, device) for part in target))
        return Inputs(to_input(batch.crops, device), to_tensor(mine, device), target_on_device, to_tensor(norm, device))

    def loss(self, net: LandmarkNet, inputs: Inputs, moment: Moment) -> Losses:
        """The recipe's losses over the known landmarks inside the crop."""
        with moment.precision():
            output = net(inputs.crops, inputs.jitter)
        return total_loss(output, inputs.target, self.config.losses, norm=inputs.norm)

    def validate(self, net: LandmarkNet) -> tuple[float, ...]:
        """Errors on some held-out samples."""
        rows = self._evaluated_rows()
        held = predict_held_out(net, self.data.held_out, rows, self.config, exact=False)
        return tuple(visible_error(held, held.face if self.data.faces_px is None else self.data.faces_px[rows]))

    def _evaluated_rows(self) -> npt.NDArray[np.intp]:
        n = len(self.data.held_out)
        return np.unique(np.linspace(0, n - 1, min(n, self.config.eval_limit)).round().astype(np.intp))

    def reading_and_decoding_s(self) -> tuple[float, float]:
        """Seconds spent on either."""
        return reading_and_decoding_s(self.everything.pictures)

    @contextlib.contextmanager
    def prefetching(self, first: Moment) -> Iterator[Callable[[Moment], None]]:
        """Prefetch the shards of the next steps."""
        latest = first

        def shards_ahead(step: int) -> list[int]:
            return self.order_at(latest).prefetch_rows(step, self.config.batch)

        with prefetch(self.everything.pictures, shards_ahead) as tell:

            def prefetch_next(moment: Moment) -> None:
                nonlocal latest
                latest = moment
                tell(moment.step)

            yield prefetch_next


def make_augmenter(config: PackConfig, mirror: tuple[int, ...], structure: RigidStructure | None = None) -> Augmenter:
    """The recipe's augmentation; without `structure` no sample is rotated to another side."""
    geometry = Geometry(
        scale=(config.scale_low, config.scale_high),
        shift=config.shift,
        rotation_deg=config.rotation_deg,
        flip=config.flip,
        shear=config.shear,
        perspective=config.perspective,
        elastic=config.elastic,
    )
    pose_augment = PoseAugment(structure, config.pose) if structure else None
    return Augmenter(geometry, config.augment, config.crop_margin, mirror, pose_augment)
