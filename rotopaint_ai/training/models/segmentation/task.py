"""`rotopaint train SHOTS... --recipe segmentation --out PACK`: trains the second opinion and puts it into a pack.

python -m rotopaint_ai.stage seams SHOTS --characters 44 --seed 30000
rotopaint train SHOTS --recipe segmentation --out PACK
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
from rotopaint_ai.training.data.augment import PARTS, Geometry
from rotopaint_ai.training.models.segmentation import losses
from rotopaint_ai.training.models.segmentation.batches import Crops, Cutter
from rotopaint_ai.training.models.segmentation.figures import figures
from rotopaint_ai.training.models.segmentation.net import GatedNet, OpinionModel
from rotopaint_ai.training.models.segmentation.views import View, read_views
from rotopaint_ai.training.pack.export import save_onnx
from rotopaint_ai.training.pack.network import TASKS, Order, conduct
from rotopaint_ai.training.trainer.checkpoint import data_print
from rotopaint_ai.training.trainer.fitting import Fit, Schedule, check_parts
from rotopaint_ai.training.trainer.recipe import filled_from

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
class SegmentationRecipe(Schedule):
    """A second opinion's recipe: the crop, the streams, what a batch looks like and is to give."""

    task: str = "segmentation"
    name: str = "segmentation"
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

    def __post_init__(self) -> None:
        self.check()
        _ = [PARTS[name] for name in self.augment], [losses.LOSSES[name] for name in self.losses]
        for ok, message in (
            (self.input_size % 32 == 0 and 64 <= self.input_size <= 1024, "input_size: wanted a multiple of 32"),
            (self.window % 32 == 0 and 64 <= self.window <= self.input_size, "window: wanted 64 to input_size, by 32"),
            (1.0 <= self.crop_margin <= 3.0, f"crop_margin {self.crop_margin}: wanted 1 to 3"),
            (self.shape > 0 and self.shape % 8 == 0, f"shape {self.shape}: wanted a multiple of 8"),
            (0.1 <= self.scale_low <= self.scale_high <= 4, "scale_low, scale_high: wanted 0.1 <= low <= high <= 4"),
            (0 <= self.shift <= 1, f"shift {self.shift}: wanted 0 to 1"),
            (0 <= self.rotation_deg <= 180, f"rotation_deg {self.rotation_deg}: wanted 0 to 180"),
        ):
            if not ok:
                raise UsageError(message)
        check_parts(self.augment, self.losses)


@TASKS.register("segmentation")
def train_segmentation(order: Order) -> Mapping[str, Any]:
    """Train, judge on held-out views, export, deliver."""
    plan = filled_from(SegmentationRecipe(), order.recipe, order.overrides)
    return conduct(
        order,
        plan,
        build(plan),
        read_views(order.sources, check=order.cancel.check),
        fit=lambda net, learn: make_fit(plan, net, learn, order.folder),
        judge=lambda net, held: figures(as_arrays(OpinionModel(net)), held, plan.input_size, plan.crop_margin),
        write=lambda net, path, held: export(net, path, _sample(plan, held)),
        name="matte",
    )


def _sample(plan: SegmentationRecipe, views: Sequence[View]) -> npt.NDArray[np.float32]:
    """Some crops as a run cuts them."""
    straight = Cutter(views, plan.input_size, plan.crop_margin, Geometry((1, 1), 0, 0, 0, 0, 0), {})
    crops = straight.batch(range(min(4, len(views))), np.random.default_rng(0)).pictures
    return crops.astype(np.float32) / np.float32(255)


def build(plan: SegmentationRecipe) -> GatedNet:
    """The recipe's network with freshly drawn weights."""
    torch.manual_seed(plan.seed)
    return GatedNet(backbone=plan.backbone, widths=plan.widths, depths=plan.depths, neck=plan.neck, shape=plan.shape)


def make_fit(plan: SegmentationRecipe, net: GatedNet, views: Sequence[View], folder: Path) -> Fit[GatedNet, Crops]:
    """A second opinion in training on some views."""
    geometry = Geometry((plan.scale_low, plan.scale_high), plan.shift, plan.rotation_deg, 0.5, 0.1, 0.3)
    margin = plan.crop_margin * plan.window / plan.input_size
    cutter = Cutter(views, plan.window, margin, geometry, plan.augment)

    def make_batch(step: int) -> Crops:
        rng = np.random.default_rng([plan.seed, step])
        return cutter.batch(rng.integers(0, len(views), plan.batch).tolist(), rng)

    def loss_of(net: GatedNet, batch: Crops, noise: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        pictures = torch.from_numpy(batch.pictures).permute(0, 3, 1, 2).float() / 255
        target = losses.make_target(torch.from_numpy(batch.seam), torch.from_numpy(batch.face))
        return losses.total(net(pictures), target, plan.losses)

    data = data_print(part for view in views for part in view.arrays())
    return Fit(plan, net, folder, make_batch=make_batch, loss_of=loss_of, blocks=net.blocks(), data=data)


def as_arrays(model: OpinionModel) -> Any:
    """A model that takes and gives arrays."""

    def opine(crops: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        with torch.no_grad():
            return [value.numpy() for value in model(torch.from_numpy(crops))]

    return opine


def export(net: GatedNet, path: Path, sample: npt.NDArray[Any]) -> float:
    """Write `matte.onnx` with a free batch size; the largest difference of the seam's probability on `sample`.

    Raises: TrainingError when the file sees something else than the network.
    """
    model = OpinionModel(net).eval()
    traced = torch.from_numpy(np.repeat(sample[:1], 2, 0))
    with replacing(path) as beside:
        save_onnx(model, beside, "crop", OUTPUTS, traced, free={0: torch.export.Dim("N")})
    wanted = as_arrays(model)(sample)[0]
    session = open_session(path, device="cpu", threads=1, example={"crop": sample[:1]})
    apart = float(np.abs(session.run(OUTPUTS, {"crop": sample})[0] - wanted).max())
    if not apart <= PARITY:
        raise TrainingError(f"{path.name}: differs from the trained network by {apart:.3g}; wanted at most {PARITY}")
    return apart
