"""Trained networks to a model pack: ONNX graphs that were checked against their networks, weights, recipe, card."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from rotopaint_ai.files import write_text
from rotopaint_ai.inference.pack import INT8, LANDMARKS, SHAPES, SHEET, write_card
from rotopaint_ai.inference.session import open_session
from rotopaint_ai.sheet import Sheet, dump_sheet
from rotopaint_ai.training.data.dataset import Array
from rotopaint_ai.training.models.backbone import save_weights
from rotopaint_ai.training.models.landmarks.net import CropModel
from rotopaint_ai.training.trainer.onnx_export import Traces, export_checked, write_int8

PARITY_PX = 0.01
MOST_INT8_ERROR = 1.02  # of the float32 model's, for integers to go into the pack
_LANDMARK_OUTPUTS = ("landmarks", "expected_error", "visible")
_SHAPE_OUTPUTS = ("points", "width")


class Int8Samples(NamedTuple):
    """What integers are fitted to, training crops [n, S, S, 3], and judged by: held-out crops [m, S, S, 3] and their
    landmarks [m, L, 2] in crop pixels, NaN where unknown."""

    crops: npt.NDArray[np.float32]
    held_out: npt.NDArray[np.float32]
    landmarks: npt.NDArray[np.float32]


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
    int8: Int8Samples | None = None,
) -> dict[str, float]:
    """Write a pack's files into an empty folder, and check the graphs.

    `samples`: real crops [N, S, S, 3] and landmarks [N, L, 2] on which the exported graphs are compared with torch.
    `others`: more models to go along, under their own names.
    `traces`: as `export_checked` has them. `int8`: to add the landmark model in integers, where they are good enough.
    Returns the largest differences in pixels, and the integers' error over the float32 model's.
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
    if int8 is not None:
        parity["int8_error_ratio"] = add_int8(folder, int8)
    save_weights(folder, crop_model.net, sheet.landmark_names, places)
    write_card(folder, {**card, "parity": parity})
    return parity


def add_int8(folder: Path, samples: Int8Samples) -> float:
    """Put the landmark model in integers beside that of float32, unless its error is more than `MOST_INT8_ERROR` of
    that one's. Returns the ratio."""
    write_int8(folder / LANDMARKS, folder / INT8, "crop", samples.crops)
    mean, mean_int8 = (_mean_error(folder / name, samples) for name in (LANDMARKS, INT8))
    if not mean_int8 <= MOST_INT8_ERROR * mean:
        (folder / INT8).unlink()
    return round(mean_int8 / mean, 4)


def _mean_error(model: Path, samples: Int8Samples) -> float:
    """Mean distance in crop pixels of a landmark model's finds from the landmarks of held-out crops."""
    example = {"crop": samples.held_out[:1]}
    session = open_session(model, device="cpu", threads=1, example=example)
    found = np.concatenate([session.run(("landmarks",), {"crop": crop[None]})[0] for crop in samples.held_out])
    return float(np.nanmean(np.linalg.norm(found - samples.landmarks, axis=2)))


class EmptyShapes(nn.Module):
    """The shape model of a sheet without shapes: no points and no widths, for any number of landmarks."""

    def forward(self, landmarks: Tensor) -> tuple[Tensor, Tensor]:
        """[N, L, 2] -> [N, 0, 6], [N, 0]."""
        return landmarks[:, :0].repeat(1, 1, 3), landmarks[:, :0, 0]


def as_crops(crops: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """8-bit crops as the exported model takes them."""
    return cast(npt.NDArray[np.float32], crops.astype(np.float32) / 255)
