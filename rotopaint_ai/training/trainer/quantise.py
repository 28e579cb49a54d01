"""A model's convolutions in integers of 8 bits, which processors compute two to three times as fast.

Weights per channel have 7 bits, so that no x86 saturates and all get the same sums; ranges of what flows between
convolutions are those of a few samples. The first convolution and what follows the last ones stay in float32.
Roundings amplify: a picture off by its last bit gives landmarks off by about as much as integers cost.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from rotopaint_ai.files import replacing

_BETWEEN: Mapping[str, int] = {"Add": 2, "Resize": 1, "Relu": 1}  # operators there, and how many tensors they take


class _Samples(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
    def __init__(self, name: str, samples: npt.NDArray[np.float32]) -> None:
        self._left = iter([{name: sample[None]} for sample in samples])

    def get_next(self) -> dict[str, npt.NDArray[np.float32]] | None:
        return next(self._left, None)


def write_int8(source: Path, path: Path, name: str, samples: npt.NDArray[np.float32]) -> None:
    """Write an ONNX model once more, with integers.

    `name`: of its input; `samples`: [n, ...] of what it will see.
    """
    with tempfile.TemporaryDirectory() as scratch, replacing(path) as beside:
        plain = Path(scratch) / "plain.onnx"
        quant_pre_process(str(source), str(plain), skip_symbolic_shape=True)
        level = logging.root.level
        logging.root.setLevel(logging.ERROR)  # it recommends what has just been done
        try:
            quantize_static(
                str(plain),
                str(beside),
                _Samples(name, samples),
                per_channel=True,
                reduce_range=True,
                activation_type=QuantType.QUInt8,  # signed ones take twice the time on x86
                nodes_to_quantize=_between_convolutions(onnx.load(str(plain)).graph),
                op_types_to_quantize=["Conv", *_BETWEEN],
            )
        finally:
            logging.root.setLevel(level)


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
