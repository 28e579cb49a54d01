"""`rotopaint train SHOTS... --recipe segmentation --out PACK`: trains the second opinion and puts it into a pack.

python -m rotopaint_ai.stage seams SHOTS --characters 44 --seed 30000
rotopaint train SHOTS --recipe segmentation --out PACK
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rotopaint_ai.training.data.augment import PARTS, STRAIGHT, Geometry
from rotopaint_ai.training.data.holdout import split_samples
from rotopaint_ai.training.models.backbone import PyramidConfig
from rotopaint_ai.training.models.segmentation import losses
from rotopaint_ai.training.models.segmentation.batches import Crops, Cutter
from rotopaint_ai.training.models.segmentation.figures import figures
from rotopaint_ai.training.models.segmentation.net import GatedNet, SegmentationGraph
from rotopaint_ai.training.models.segmentation.views import SegmentationView, read_views
from rotopaint_ai.training.trainer.config import check_all, check_weights
from rotopaint_ai.training.trainer.onnx_export import as_arrays, export_checked
from rotopaint_ai.training.trainer.task import NETWORKS, Moment, Network, PartTask, TrainSources

OUTPUTS = ("seam", "face", "edges")
PARITY = 0.001


def _augment() -> dict[str, float]:
    return {
        "occluders": 0.3,
        "shadow": 0.3,
        "tone": 0.8,
        "colour": 0.5,
        "channels": 0.1,
        "blur": 0.2,
        "noise": 0.4,
        "jpeg": 0.3,
    }


def _losses() -> dict[str, float]:
    return {"classes": 1.0, "overlap": 0.5, "edges": 1.0, "own_edges": 0.5, "at_edges": 0.2}


@dataclass(frozen=True, slots=True)
class SegmentationConfig(PyramidConfig):
    """A second opinion's training: the crop, the streams, what a batch looks like and is to give."""

    task: str = "segmentation"
    name: str = "segmentation"
    eval_every: int = 50
    input_size: int = 256
    window: int = 192  # what a step sees of the crop, at the crop's scale: edges are local, and this is twice as fast
    crop_margin: float = 1.3
    shape: int = 16  # channels of the shape stream
    batch: int = 8
    augment: dict[str, float] = field(default_factory=_augment)
    losses: dict[str, float] = field(default_factory=_losses)
    scale_low: float = 0.75
    scale_high: float = 1.2
    shift: float = 0.12
    rotation_deg: float = 25.0

    def check(self) -> None:
        """Raises UsageError with the first field that cannot be."""
        PyramidConfig.check(self)
        _ = [PARTS[name] for name in self.augment], [losses.LOSSES[name] for name in self.losses]
        check_weights(self.augment, self.losses)
        is_window = self.window % 32 == 0 and 64 <= self.window <= self.input_size
        check_all(
            (
                (self.input_size % 32 == 0 and 64 <= self.input_size <= 1024, "input_size: wanted a multiple of 32"),
                (is_window, "window: wanted 64 to input_size, by 32"),
                (1.0 <= self.crop_margin <= 3.0, f"crop_margin {self.crop_margin}: wanted 1 to 3"),
                (self.shape > 0 and self.shape % 8 == 0, f"shape {self.shape}: wanted a multiple of 8"),
                (
                    0.1 <= self.scale_low <= self.scale_high <= 4,
                    "scale_low, scale_high: wanted 0.1 <= low <= high <= 4",
                ),
                (0 <= self.shift <= 1, f"shift {self.shift}: wanted 0 to 1"),
                (0 <= self.rotation_deg <= 180, f"rotation_deg {self.rotation_deg}: wanted 0 to 180"),
            )
        )


class SegmentationTask(PartTask[GatedNet, Crops]):
    """A second opinion in training on some views."""

    def __init__(
        self,
        config: SegmentationConfig,
        net: GatedNet,
        samples: Sequence[SegmentationView],
        held_out: Sequence[SegmentationView] = (),
    ) -> None:
        self.config, self.net, self.samples, self.held_out = config, net, samples, held_out
        geometry = Geometry((config.scale_low, config.scale_high), config.shift, config.rotation_deg, 0.5, 0.1, 0.3)
        margin = config.crop_margin * config.window / config.input_size
        self._cutter = Cutter(samples, config.window, margin, geometry, config.augment)

    @classmethod
    def prepare(cls, config: SegmentationConfig, sources: TrainSources) -> SegmentationTask:
        """Read views, hold some back, draw the network's weights."""
        return cls(config, build_net(config), *split_samples(read_views(sources.folders, check=sources.check)))

    @property
    def counts(self) -> tuple[int, int]:
        """Views, and held-out ones."""
        return len(self.samples), len(self.held_out)

    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """All that the views hold."""
        for view in self.samples:
            yield from view.arrays()

    def blocks(self) -> tuple[nn.Module, ...]:
        """Stages of both streams."""
        return self.net.blocks()

    def make_batch(self, moment: Moment) -> Crops:
        """This rank's views, drawn, moved and made harder."""
        return self._cutter.batch(moment.rows(len(self.samples)), moment.generators())

    def to_device(self, batch: Crops, moment: Moment) -> tuple[Tensor, losses.SegmentationTarget]:
        """Crops [N, 3, S, S] 0..1 and the target."""
        pictures, seam, face = (torch.from_numpy(part).to(moment.device) for part in batch)
        return pictures.permute(0, 3, 1, 2).float() / 255, losses.make_target(seam, face)

    def loss(
        self, net: GatedNet, inputs: tuple[Tensor, losses.SegmentationTarget], moment: Moment
    ) -> tuple[Tensor, dict[str, float]]:
        """The recipe's losses of classes and edges."""
        with moment.precision():
            return losses.total(net(inputs[0]), inputs[1], self.config.losses)

    def metrics(self, net: GatedNet) -> Mapping[str, Any]:
        """Boundary F, overlap and agreement on held-out views."""
        return figures(
            as_arrays(SegmentationGraph(net)), self.held_out, self.config.input_size, self.config.crop_margin
        )

    def export(self, net: GatedNet, path: Path) -> float:
        """Write `matte.onnx` with a free batch size; the largest difference of the seam's probability on real crops.

        Raises: TrainingError when the file sees something else than the network.
        """
        straight = Cutter(self.held_out, self.config.input_size, self.config.crop_margin, STRAIGHT, {})
        rows = range(min(4, len(self.held_out)))
        crops = straight.batch(rows, np.random.default_rng(0)).pictures
        sample = crops.astype(np.float32) / np.float32(255)
        model = SegmentationGraph(net)
        return export_checked(model, path, ("crop", OUTPUTS), sample, limits={"seam": PARITY})


NETWORKS.register("segmentation")(
    Network(SegmentationConfig(), SegmentationTask.prepare, file="matte.onnx", card=("matte",))
)


def build_net(config: SegmentationConfig) -> GatedNet:
    """The recipe's network with freshly drawn weights."""
    torch.manual_seed(config.seed)
    return GatedNet(**config.pyramid(), shape=config.shape)
