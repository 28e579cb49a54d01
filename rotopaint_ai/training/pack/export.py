"""Trained networks to a model pack: ONNX graphs that were checked against their networks, weights, recipe, card."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from rotopaint_ai.files import write_text
from rotopaint_ai.inference.pack import LANDMARKS, SHAPES, SHEET, write_card
from rotopaint_ai.sheet import Sheet, dump_sheet
from rotopaint_ai.training.data.dataset import Array
from rotopaint_ai.training.models.backbone import save_weights
from rotopaint_ai.training.models.landmarks.net import CropModel
from rotopaint_ai.training.trainer.onnx_export import Traces, export_checked

PARITY_PX = 0.01
_LANDMARK_OUTPUTS = ("landmarks", "expected_error", "visible")
_SHAPE_OUTPUTS = ("points", "width")


def write_pack(
    folder: Path,
    *,
    sheet: Sheet,
    crop_model: CropModel,
    shape_model: nn.Module | None,
    places: Array,
    recipe_yaml: str,
    samples: tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]],
    card: Mapping[str, Any],
    others: Sequence[Path] = (),
    traces: Traces | None = None,
) -> dict[str, float]:
    """Write a pack's files into an empty folder, and check the graphs.

    `samples`: real crops [N, S, S, 3] and landmarks [N, L, 2] on which the exported graphs are compared with torch.
    `others`: more models to go along, under their own names.
    `traces`: as `export_checked` has them.
    Returns the largest differences in pixels.
    Raises: TrainingError when they exceed `PARITY_PX`.
    """
    write_text(folder / SHEET, dump_sheet(sheet))
    write_text(folder / "recipe.yaml", recipe_yaml)
    names = ("crop", _LANDMARK_OUTPUTS)
    limits = {"landmarks": PARITY_PX}
    parity = {
        "landmarks_px": export_checked(
            crop_model, folder / LANDMARKS, names, samples[0], limits=limits, unit=" px", traces=traces
        )
    }
    shapes = shape_model if shape_model is not None else EmptyShapes()
    parity["shapes_px"] = export_checked(
        shapes,
        folder / SHAPES,
        ("landmarks", _SHAPE_OUTPUTS),
        samples[1],
        limits={"points": PARITY_PX},
        unit=" px",
        traces=traces,
    )
    for path in others:
        shutil.copyfile(path, folder / path.name)
    save_weights(folder, crop_model.net, sheet.landmark_names, places)
    write_card(folder, {**card, "parity": parity})
    return parity


class EmptyShapes(nn.Module):
    """The shape model of a sheet without shapes: no points and no widths, for any number of landmarks."""

    def forward(self, landmarks: Tensor) -> tuple[Tensor, Tensor]:
        """[N, L, 2] -> [N, 0, 6], [N, 0]."""
        return landmarks[:, :0].repeat(1, 1, 3), landmarks[:, :0, 0]


def as_crops(crops: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """8-bit crops as the exported model takes them."""
    return cast(npt.NDArray[np.float32], crops.astype(np.float32) / 255)
