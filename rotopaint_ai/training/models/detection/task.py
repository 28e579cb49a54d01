"""`rotopaint train PLATES... --recipe detector --out PACK`: trains the face detector and puts it into a pack.

    python -m rotopaint_ai.stage plates PLATES --count 1300 --seed 50000
    rotopaint train PLATES DATASET --recipe detector --out PACK

Data: plates of the stage, face-crop data sets, shots with their roto, in any mixture; see `scenes`.
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

from rotopaint_ai.landmarks.faces import letterboxed
from rotopaint_ai.training.data.augment import PARTS
from rotopaint_ai.training.data.holdout import split_samples
from rotopaint_ai.training.models.backbone import PyramidConfig
from rotopaint_ai.training.models.detection import losses
from rotopaint_ai.training.models.detection.batches import Batches, DetectorBatch
from rotopaint_ai.training.models.detection.boxes import translations
from rotopaint_ai.training.models.detection.net import DetectorModel, DetectorNet
from rotopaint_ai.training.models.detection.scenes import DetectionScene, figures, read_scenes
from rotopaint_ai.training.trainer.config import check_all, check_ranges, check_weights
from rotopaint_ai.training.trainer.onnx_export import export_checked
from rotopaint_ai.training.trainer.task import NETWORKS, Moment, Network, PartTask, TrainSources

OUTPUTS = ("boxes", "scores", "masks", "keypoints")
PARITY_PX, PARITY_SHARE = 0.02, 0.001
_IS_FACE = 0.3  # score from which file and network are compared
CPU = torch.device("cpu")


def _detection_parts() -> dict[str, float]:
    return {
        "occluders": 0.2,
        "shadow": 0.3,
        "tone": 0.8,
        "colour": 0.5,
        "channels": 0.15,
        "blur": 0.2,
        "noise": 0.4,
        "jpeg": 0.2,
    }


def _detection_losses() -> dict[str, float]:
    return {"propose": 1.0, "propose_box": 1.0, "judge": 1.0, "judge_box": 1.0, "mask": 1.0, "keypoints": 0.25}


@dataclass(frozen=True, slots=True)
class DetectorConfig(PyramidConfig):
    """A detector's training: `width` x `height` of the network's picture, what a batch looks like and is to give."""

    task: str = "detector"
    name: str = "detector"
    eval_every: int = 50
    width: int = 320
    height: int = 192
    augment: dict[str, float] = field(default_factory=_detection_parts)
    losses: dict[str, float] = field(default_factory=_detection_losses)
    together: float = 0.4
    zoom_low: float = 0.45
    zoom_high: float = 1.6
    rotation_deg: float = 15.0
    things: float = 0.7

    def check(self) -> None:
        """Raises UsageError with the first field that cannot be."""
        PyramidConfig.check(self)
        _ = [PARTS[name] for name in self.augment], [losses.LOSSES[name] for name in self.losses]
        check_weights(self.augment, self.losses)
        check_ranges(self, {"rotation_deg": (0, 180), "together": (0, 1), "things": (0, 1)})
        check_all(
            (
                (self.width % 32 == 0 and self.height % 32 == 0, "width, height: wanted multiples of 32"),
                (
                    64 <= self.height <= self.width <= 1024,
                    "width, height: wanted 64 to 1024, and no more height than width",
                ),
                (0.05 <= self.zoom_low <= self.zoom_high <= 8, "zoom_low, zoom_high: wanted 0.05 <= low <= high <= 8"),
            )
        )


class DetectorTask(PartTask[DetectorNet, DetectorBatch]):
    """A detector in training on some scenes."""

    def __init__(
        self,
        config: DetectorConfig,
        net: DetectorNet,
        samples: Sequence[DetectionScene],
        held_out: Sequence[DetectionScene] = (),
    ) -> None:
        self.config, self.net, self.samples, self.held_out = config, net, samples, held_out
        zoom = (config.zoom_low, config.zoom_high)
        size, more = (config.width, config.height), (config.rotation_deg, config.things)
        self._batches = Batches(samples, *size, config.augment, config.together, zoom, *more)

    @classmethod
    def prepare(cls, config: DetectorConfig, sources: TrainSources) -> DetectorTask:
        """Read scenes, hold some back, draw the network's weights."""
        return cls(config, build_net(config), *split_samples(read_scenes(sources.folders, check=sources.check)))

    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """All that the scenes hold."""
        for scene in self.samples:
            yield from scene.arrays()

    def blocks(self) -> tuple[nn.Module, ...]:
        """The backbone's stages."""
        return self.net.blocks()

    def make_batch(self, moment: Moment) -> DetectorBatch:
        """This rank's scenes, drawn, moved and made harder."""
        return self._batches.batch(moment.rows(len(self.samples)), moment.generators())

    def to_device(self, batch: DetectorBatch, moment: Moment) -> tuple[Tensor, losses.DetectionTarget]:
        """Pictures [N, 3, H, W] 0..1 and the target."""
        return as_tensors(batch, moment.device)

    def loss(
        self, net: DetectorNet, inputs: tuple[Tensor, losses.DetectionTarget], moment: Moment
    ) -> tuple[Tensor, dict[str, float]]:
        """The recipe's losses of all heads."""
        with moment.precision():
            output = losses.forward_heads(net, *inputs, moment.noise())
            return losses.total(output, inputs[1], self.config.losses)

    def metrics(self, net: DetectorNet) -> Mapping[str, Any]:
        """Recall, precision and the rest on held-out scenes."""
        return figures(DetectorModel(net), self.held_out, self.config.width, self.config.height)

    def export(self, net: DetectorNet, path: Path) -> float:
        """Write `detector.onnx` with a free batch size; the largest difference in pixels of the boxes of faces."""
        shown = [fitted(scene, self.config.width, self.config.height)[0] for scene in self.held_out[:4]]
        return export(net, path, np.stack(shown).astype(np.float32) / np.float32(255))


NETWORKS.register("detector")(Network(DetectorConfig(), DetectorTask.prepare, file="detector.onnx", card=("detector",)))


def build_net(config: DetectorConfig) -> DetectorNet:
    """The recipe's network with freshly drawn weights."""
    torch.manual_seed(config.seed)
    return DetectorNet(**config.pyramid())


def as_tensors(batch: DetectorBatch, device: torch.device = CPU) -> tuple[Tensor, losses.DetectionTarget]:
    """Pictures [N, 3, H, W] 0..1 and the target, on a device."""
    pictures = torch.from_numpy(batch.pictures).to(device).permute(0, 3, 1, 2).float() / 255
    return pictures, losses.DetectionTarget(*(torch.from_numpy(part).to(device) for part in batch[1:]))


def fitted(scene: DetectionScene, width: int, height: int) -> tuple[npt.NDArray[np.uint8], float]:
    """A scene as the detector sees it at run time, and its size there over its own."""
    picture, scale = letterboxed(scene.picture.astype(np.float32) / 255, width, height)
    return np.rint(picture * 255).astype(np.uint8), scale


def export(net: DetectorNet, path: Path, sample: npt.NDArray[Any]) -> float:
    """Write a detector with a free batch size; the largest difference in pixels of the boxes on `sample`.

    Raises: TrainingError when the file finds other faces than the network.
    """
    return export_checked(
        DetectorModel(net),
        path,
        ("picture", OUTPUTS),
        sample,
        limits={"boxes": PARITY_PX, "scores": PARITY_SHARE},
        example=np.repeat(sample[:1], 2, 0),
        translations=translations(),
        counts=lambda wanted, got: np.maximum(wanted[1], got[1]) > _IS_FACE,
    )
