"""`rotopaint train PLATES... --recipe detector --out PACK`: trains the face detector and puts it into a pack.

    python -m rotopaint_ai.stage plates PLATES --count 1300 --seed 50000
    rotopaint train PLATES DATASET --recipe detector --out PACK

Data: plates of the stage, face-crop data sets, shots with their roto, in any mixture; see `scenes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.files import replacing
from rotopaint_ai.inference.session import open_session
from rotopaint_ai.training.data.augment import PARTS
from rotopaint_ai.training.models.detection import losses
from rotopaint_ai.training.models.detection.batches import Batches, DetectorBatch
from rotopaint_ai.training.models.detection.figures import figures
from rotopaint_ai.training.models.detection.net import DetectorModel, DetectorNet
from rotopaint_ai.training.models.detection.ops import translations
from rotopaint_ai.training.models.detection.scenes import Scene, read_scenes
from rotopaint_ai.training.pack.export import save_onnx
from rotopaint_ai.training.pack.network import TASKS, Order, conduct
from rotopaint_ai.training.trainer.checkpoint import data_print
from rotopaint_ai.training.trainer.fitting import Fit, Schedule, check_parts
from rotopaint_ai.training.trainer.recipe import filled_from

OUTPUTS = ("boxes", "scores", "masks", "keypoints")
PARITY_PX, PARITY_SHARE = 0.02, 0.001


def _augment() -> dict[str, float]:
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


def _losses() -> dict[str, float]:
    return {"propose": 1.0, "propose_box": 1.0, "judge": 1.0, "judge_box": 1.0, "mask": 1.0, "keypoints": 0.25}


@dataclass(frozen=True, slots=True)
class DetectorRecipe(Schedule):
    """A detector's recipe: `width` x `height` of the network's picture, what a batch looks like and is to give."""

    task: str = "detector"
    name: str = "detector"
    width: int = 320
    height: int = 192
    augment: dict[str, float] = field(default_factory=_augment)
    losses: dict[str, float] = field(default_factory=_losses)
    together: float = 0.4
    zoom_low: float = 0.45
    zoom_high: float = 1.6
    rotation_deg: float = 15.0
    things: float = 0.7

    def __post_init__(self) -> None:
        self.check()
        _ = [PARTS[name] for name in self.augment], [losses.LOSSES[name] for name in self.losses]
        for ok, message in (
            (self.width % 32 == 0 and self.height % 32 == 0, "width, height: wanted multiples of 32"),
            (
                64 <= self.height <= self.width <= 1024,
                "width, height: wanted 64 to 1024, and no more height than width",
            ),
            (0.05 <= self.zoom_low <= self.zoom_high <= 8, "zoom_low, zoom_high: wanted 0.05 <= low <= high <= 8"),
            (0 <= self.rotation_deg <= 180, f"rotation_deg {self.rotation_deg}: wanted 0 to 180"),
            (0 <= self.together <= 1, f"together {self.together}: wanted 0 to 1"),
            (0 <= self.things <= 1, f"things {self.things}: wanted 0 to 1"),
        ):
            if not ok:
                raise UsageError(message)
        check_parts(self.augment, self.losses)


@TASKS.register("detector")
def train_detector(order: Order) -> Mapping[str, Any]:
    """Train, judge on held-out scenes, export, deliver."""
    plan = filled_from(DetectorRecipe(), order.recipe, order.overrides)
    return conduct(
        order,
        plan,
        build(plan),
        read_scenes(order.sources, check=order.cancel.check),
        fit=lambda net, learn: make_fit(plan, net, learn, order.folder),
        judge=lambda net, held: figures(DetectorModel(net), held, plan.width, plan.height),
        write=lambda net, path, held: export(net, path, _sample(plan, held)),
        name="detector",
    )


def _sample(plan: DetectorRecipe, scenes: Sequence[Scene]) -> npt.NDArray[np.float32]:
    """Some pictures as the detector sees them at run time."""
    pictures = np.stack([fitted(scene, plan.width, plan.height)[0] for scene in scenes[:4]])
    return pictures.astype(np.float32) / np.float32(255)


def build(plan: DetectorRecipe) -> DetectorNet:
    """The recipe's network with freshly drawn weights."""
    torch.manual_seed(plan.seed)
    return DetectorNet(backbone=plan.backbone, widths=plan.widths, depths=plan.depths, neck=plan.neck)


def make_fit(
    plan: DetectorRecipe, net: DetectorNet, scenes: Sequence[Scene], folder: Path
) -> Fit[DetectorNet, DetectorBatch]:
    """A detector in training on some scenes."""
    zoom = (plan.zoom_low, plan.zoom_high)
    source = Batches(scenes, plan.width, plan.height, plan.augment, plan.together, zoom, plan.rotation_deg, plan.things)

    def make_batch(step: int) -> DetectorBatch:
        rng = np.random.default_rng([plan.seed, step])
        return source.batch(rng.integers(0, len(scenes), plan.batch).tolist(), rng)

    def loss_of(net: DetectorNet, batch: DetectorBatch, noise: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        pictures, target = as_tensors(batch)
        return losses.total(losses.say(net, pictures, target, noise), target, plan.losses)

    data = data_print(part for scene in scenes for part in scene.arrays())
    return Fit(plan, net, folder, make_batch=make_batch, loss_of=loss_of, blocks=net.blocks(), data=data)


def as_tensors(batch: DetectorBatch) -> tuple[Tensor, losses.Target]:
    """Pictures [N, 3, H, W] 0..1 and the target."""
    pictures = torch.from_numpy(batch.pictures).permute(0, 3, 1, 2).float() / 255
    return pictures, losses.Target(*(torch.from_numpy(part) for part in batch[1:]))


def fitted(scene: Scene, width: int, height: int) -> tuple[npt.NDArray[np.uint8], float]:
    """A scene as the detector sees it at run time, and its size there over its own."""
    from rotopaint_ai.landmarks.faces import letterboxed

    picture, scale = letterboxed(scene.picture.astype(np.float32) / 255, width, height)
    return np.rint(picture * 255).astype(np.uint8), scale


def export(net: DetectorNet, path: Path, sample: npt.NDArray[Any]) -> float:
    """Write `detector.onnx` with a free batch size; the largest difference in pixels of the boxes on `sample`.

    Raises: TrainingError when the file finds other faces than the network.
    """
    model = DetectorModel(net).eval()
    traced = torch.from_numpy(np.repeat(sample[:1], 2, 0))
    with replacing(path) as beside:
        save_onnx(
            model, beside, "picture", OUTPUTS, traced, free={0: torch.export.Dim("N")}, translations=translations()
        )
    with torch.no_grad():
        wanted = [value.numpy() for value in model(torch.from_numpy(sample))]
    session = open_session(path, device="cpu", threads=1, example={"picture": sample[:1]})
    got = session.run(OUTPUTS, {"picture": sample})
    is_face = np.maximum(wanted[1], got[1]) > 0.3
    apart = [float(np.abs(a - b)[is_face].max()) if is_face.any() else 0.0 for a, b in zip(got, wanted)]
    if not (apart[0] <= PARITY_PX and apart[1] <= PARITY_SHARE):
        raise TrainingError(
            f"{path.name}: boxes differ from the trained network by {apart[0]:.3g} px, scores by {apart[1]:.3g}; "
            f"wanted at most {PARITY_PX} and {PARITY_SHARE}; report this with the recipe"
        )
    return apart[0]
