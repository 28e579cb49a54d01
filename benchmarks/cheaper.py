"""A trained pack made cheaper, to weigh its time against its error: one reading in place of two, integers of 8 bits.

    python benchmarks/cheaper.py PACK DATASET OUT [--one-reading] [--int8]

PACK is what `rotopaint train DATASET --out PACK` wrote, with its checkpoint in PACK.run. OUT is the same pack with
another landmark model: `rotopaint bench infer --model OUT` times it, `rotopaint run --model OUT` and
`benchmarks/truth.py` tell its error. One reading: prior and calibration are chosen anew on the held-out samples.
Integers: weights per channel in 7 bits, which no x86 saturates, ranges of the activations by training crops; the first
convolution and all that follows the heat-maps stay in float32.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.inference.pack import LANDMARKS, load_card, write_card
from rotopaint_ai.training.data.augment import straight_batch
from rotopaint_ai.training.models.landmarks.config import load_pack_config
from rotopaint_ai.training.models.landmarks.net import CropModel
from rotopaint_ai.training.models.landmarks.validation import predict_held_out
from rotopaint_ai.training.pack.export import PARITY_PX, as_crops
from rotopaint_ai.training.pack.prepare import Prepared, prepare
from rotopaint_ai.training.pack.select import crop_model, select_models
from rotopaint_ai.training.trainer.onnx_export import export_checked

_CALIBRATION_CROPS = 30
_BETWEEN = {"Add": 2, "Resize": 1, "Relu": 1}  # operators between convolutions, and how many tensors they take


def run_folder(pack: Path) -> Path:
    """Where a pack's training left its checkpoint and recipe."""
    return pack.with_name(pack.name + ".run")


def read_once(pack: Path, ready: Prepared) -> CropModel:
    """The landmark model of a pack's checkpoint that reads crops as they are, not mirrored as well."""
    state = torch.load(run_folder(pack) / "checkpoint.pt", weights_only=True)
    net, held = ready.task.net, ready.task.data.held_out
    net.load_state_dict(state["best_state"])
    found = predict_held_out(net.eval(), held, np.arange(len(held)), ready.config, exact=True)
    chosen = select_models(ready.config, ready.train_data, found, held, None)
    net.load_state_dict(state["ema"])
    return crop_model(net, chosen, ready.data.subset(ready.data.rows_of("train", "val")))


def calibration_crops(ready: Prepared) -> npt.NDArray[np.float32]:
    """Straight crops [n, S, S, 3] of some training samples, 0..1."""
    memory = ready.task.data.train
    rows = evenly_spread(range(len(memory)), _CALIBRATION_CROPS)
    return as_crops(straight_batch(memory, rows, ready.config.input_size, ready.config.crop_margin).crops)


class _Crops(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, crops: npt.NDArray[np.float32]) -> None:
        self._left = iter(crops)

    def get_next(self) -> dict[str, npt.NDArray[np.float32]] | None:
        crop = next(self._left, None)
        return None if crop is None else {"crop": crop[None]}


def to_integers(path: Path, crops: npt.NDArray[np.float32]) -> None:
    """Put the convolutions of a model, and what lies between them, into integers of 8 bits."""
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "plain.onnx"
        quant_pre_process(str(path), str(plain), skip_symbolic_shape=True)
        quantize_static(
            str(plain),
            str(path),
            _Crops(crops),
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QUInt8,  # signed ones take twice the time on x86
            nodes_to_quantize=_between_convolutions(onnx.load(str(plain)).graph),
            op_types_to_quantize=["Conv", *_BETWEEN],
        )


def _between_convolutions(graph: Any) -> list[str]:
    """Names of all convolutions but the first, and of what leads from one to another."""
    makers = {output: node for node in graph.node for output in node.output}
    first, *others = [node for node in graph.node if node.op_type == "Conv"]
    names, left = [node.name for node in others], [node.input[0] for node in (first, *others)]
    while left:
        node = makers.get(left.pop())
        if node is not None and node.op_type in _BETWEEN and node.name not in names:
            names.append(node.name)
            left += node.input[: _BETWEEN[node.op_type]]
    return names


def main() -> int:
    """Write the cheaper pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=Path)
    parser.add_argument("dataset")
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument("--one-reading", action="store_true")
    parser.add_argument("--int8", action="store_true")
    options = parser.parse_args()
    ready = prepare([options.dataset], load_pack_config(run_folder(options.pack) / "recipe.yaml"), None)
    crops, card = calibration_crops(ready), load_card(options.pack)
    shutil.copytree(options.pack, options.out)
    path, names = options.out / LANDMARKS, ("crop", ("landmarks", "expected_error", "visible"))
    if options.one_reading:
        model = read_once(options.pack, ready)
        export_checked(model, path, names, crops[:8], limits={"landmarks": PARITY_PX}, unit=" px")
        card["reads_mirrored"] = False
    if options.int8:
        to_integers(path, crops)
    write_card(options.out, card)
    return 0


if __name__ == "__main__":
    sys.exit(main())
