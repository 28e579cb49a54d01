"""Trained networks to a model pack: ONNX graphs that were checked against their networks, weights, recipe, card."""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx
import torch
from torch import Tensor, nn

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import write_text
from rotopaint_ai.inference.pack import FILL, LANDMARKS, SEAM, SHAPES, SHEET, write_card
from rotopaint_ai.inference.session import open_session
from rotopaint_ai.sheet import Sheet, dump_sheet
from rotopaint_ai.training.data.dataset import Array
from rotopaint_ai.training.models.landmarks.net import CropModel
from rotopaint_ai.training.models.pretrained import save_weights
from rotopaint_ai.training.models.shape_fit import ShapeModel

PARITY_PX = 0.01
_LANDMARK_OUTPUTS = ("landmarks", "expected_error", "visible")
_SHAPE_OUTPUTS = ("points", "width")


def write_pack(
    folder: Path,
    *,
    sheet: Sheet,
    crop_model: CropModel,
    shape_model: ShapeModel | None,
    places: Array,
    recipe_yaml: str,
    samples: tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]],
    card: Mapping[str, Any],
    seam: Path | None = None,
    fill: Path | None = None,
    others: Sequence[Path] = (),
) -> dict[str, float]:
    """Write a pack, whole or not at all; an old one in its place goes only once the new one has been checked.

    `samples`: real crops [N, S, S, 3] and landmarks [N, L, 2] on which the exported graphs are compared with torch.
    `seam`, `fill`: a seam model and a learned fill to go along, `others`: more models, under their own names.
    Returns the largest differences in pixels.
    Raises: TrainingError when they exceed `PARITY_PX`.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as made:
        beside = Path(made) / "pack"
        beside.mkdir()
        write_text(beside / SHEET, dump_sheet(sheet))
        write_text(beside / "recipe.yaml", recipe_yaml)
        parity = {"landmarks_px": export_checked(crop_model, beside / LANDMARKS, "crop", _LANDMARK_OUTPUTS, samples[0])}
        shapes = shape_model if shape_model is not None else EmptyShapes()
        parity["shapes_px"] = export_checked(shapes, beside / SHAPES, "landmarks", _SHAPE_OUTPUTS, samples[1])
        for model, name in ((seam, SEAM), (fill, FILL)):
            if model is not None:
                shutil.copyfile(model, beside / name)
        for path in others:
            shutil.copyfile(path, beside / path.name)
        save_weights(beside, crop_model.net, sheet.landmark_names, places)
        write_card(beside, {**card, "parity": parity})
        _take_place(beside, folder)
    return parity


class EmptyShapes(nn.Module):
    """The shape model of a sheet without shapes: no points and no widths, for any number of landmarks."""

    def forward(self, landmarks: Tensor) -> tuple[Tensor, Tensor]:
        """[N, L, 2] -> [N, 0, 6], [N, 0]."""
        return landmarks[:, :0].repeat(1, 1, 3), landmarks[:, :0, 0]


def export_checked(
    model: nn.Module, path: Path, input_name: str, output_names: Sequence[str], example: npt.NDArray[np.float32]
) -> float:
    """Export with a free batch size, run the file on `example` and compare; the largest difference of the first output.

    Raises: TrainingError when it exceeds `PARITY_PX`.
    """
    model = model.eval()
    inputs = torch.from_numpy(example)
    traced = inputs[:2] if len(inputs) > 1 else inputs.repeat(2, *([1] * (inputs.ndim - 1)))
    save_onnx(model, path, input_name, output_names, traced, free={0: torch.export.Dim("N")})
    with torch.no_grad():
        wanted = [value.numpy() for value in model(inputs)]
    session = open_session(path, device="cpu", threads=1, example={input_name: example[:1]})
    got = session.run(tuple(output_names), {input_name: example})
    differences = [float(np.abs(a - b).max()) if a.size else 0.0 for a, b in zip(got, wanted)]
    if not differences[0] <= PARITY_PX:
        raise TrainingError(
            f"{path.name}: the exported model differs from the trained one by {differences[0]:.3g} px, wanted at most "
            f"{PARITY_PX}; report this with the recipe, and train with another backbone meanwhile"
        )
    return differences[0]


def save_onnx(
    model: nn.Module,
    path: Path,
    input_name: str,
    output_names: Sequence[str],
    example: torch.Tensor,
    *,
    free: Any,
    translations: Mapping[Any, Any] | None = None,
) -> None:
    """Write a model of one input as ONNX; `free` maps the input's axes of any length to `torch.export.Dim`s.

    `translations`: what operators of our own become, as ONNX script.
    """
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            model,
            (example,),
            dynamo=True,
            input_names=[input_name],
            output_names=list(output_names),
            dynamic_shapes=(free,),
            custom_translation_table=None if translations is None else dict(translations),
            verbose=False,
        )
    assert program is not None
    onnx.save(_named(program.model_proto), str(path))


def _named(proto: Any) -> Any:
    """The graph without the machine's file names and stack traces that the exporter leaves in it."""
    for node in proto.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in (*proto.graph.value_info, *proto.graph.input, *proto.graph.output):
        del value.metadata_props[:]
    del proto.graph.metadata_props[:]
    del proto.metadata_props[:]
    proto.producer_name = "rotopaint-ai"
    return proto


def _take_place(beside: Path, folder: Path) -> None:
    """Put the new pack where the old one was; the old one comes back when that fails."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    try:
        beside.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter talks on every channel that there is; a real failure raises."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


def as_crops(crops: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """8-bit crops as the exported model takes them."""
    return cast(npt.NDArray[np.float32], crops.astype(np.float32) / 255)
