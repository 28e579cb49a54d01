"""Tiny ONNX packs, built by hand: a landmark model that scales the crop's mean brightness, and a shape model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.inference.pack import write_card
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet, dump_sheet

onnx = pytest.importorskip("onnx")

SIZE = 32
SHEET = Sheet(
    "tiny",
    (LandmarkSpec("a", mirror="b"), LandmarkSpec("b", mirror="a"), LandmarkSpec("c")),
    (ShapeSpec("seam", closed=False, role="seam", n_points=3), ShapeSpec("eye", closed=True, n_points=3)),
)

PackMaker = Callable[..., Path]


def landmark_model(batch: str | int = "N", *, n_landmarks: int = 3, size: int = SIZE) -> Any:
    """Landmark i at (i + 1) * mean brightness * (4, 8) crop pixels, expected error 1.5 * brightness, visible 1."""
    helper, tensor = onnx.helper, onnx.TensorProto
    steps = np.arange(1, n_landmarks + 1, dtype=np.float32)
    constants = {
        "axes": np.array([1, 2, 3], np.int64),
        "scale": np.stack([steps * 4, steps * 8], axis=1)[None],
        "error": np.full((1, n_landmarks), 1.5, np.float32),
        "one": np.zeros((1, n_landmarks), np.float32),
        "shape3": np.array([-1, 1, 1], np.int64),
        "shape2": np.array([-1, 1], np.int64),
    }
    nodes = [
        helper.make_node("ReduceMean", ["crop", "axes"], ["mean"], keepdims=0),
        helper.make_node("Reshape", ["mean", "shape3"], ["mean3"]),
        helper.make_node("Reshape", ["mean", "shape2"], ["mean2"]),
        helper.make_node("Mul", ["mean3", "scale"], ["landmarks"]),
        helper.make_node("Mul", ["mean2", "error"], ["expected_error"]),
        helper.make_node("Mul", ["mean2", "one"], ["nothing"]),
        helper.make_node("Exp", ["nothing"], ["visible"]),
    ]
    graph = helper.make_graph(
        nodes,
        "landmarks",
        [helper.make_tensor_value_info("crop", tensor.FLOAT, [batch, size, size, 3])],
        [
            helper.make_tensor_value_info("landmarks", tensor.FLOAT, [batch, n_landmarks, 2]),
            helper.make_tensor_value_info("expected_error", tensor.FLOAT, [batch, n_landmarks]),
            helper.make_tensor_value_info("visible", tensor.FLOAT, [batch, n_landmarks]),
        ],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def shape_model(*, n_landmarks: int = 3, n_points: int = 6) -> Any:
    """Every control point at the sum of the landmarks, tangents 0; width 2 for both shapes."""
    helper, tensor = onnx.helper, onnx.TensorProto
    weight = np.zeros((n_landmarks * 2, n_points * 6), np.float32)
    for point in range(n_points):
        weight[0::2, point * 6] = 1
        weight[1::2, point * 6 + 1] = 1
    constants = {
        "weight": weight,
        "flat": np.array([-1, n_landmarks * 2], np.int64),
        "points_shape": np.array([-1, n_points, 6], np.int64),
        "zero": np.zeros((n_landmarks * 2, 2), np.float32),
        "two": np.full((1, 2), 2, np.float32),
    }
    nodes = [
        helper.make_node("Reshape", ["landmarks", "flat"], ["row"]),
        helper.make_node("MatMul", ["row", "weight"], ["product"]),
        helper.make_node("Reshape", ["product", "points_shape"], ["points"]),
        helper.make_node("MatMul", ["row", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "two"], ["width"]),
    ]
    graph = helper.make_graph(
        nodes,
        "shapes",
        [helper.make_tensor_value_info("landmarks", tensor.FLOAT, ["N", n_landmarks, 2])],
        [
            helper.make_tensor_value_info("points", tensor.FLOAT, ["N", n_points, 6]),
            helper.make_tensor_value_info("width", tensor.FLOAT, ["N", 2]),
        ],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.fixture
def make_pack(tmp_path: Path) -> PackMaker:
    """Write a tiny pack; keyword arguments go to the landmark model."""

    def make(name: str = "tiny", **changes: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "sheet.yaml").write_text(dump_sheet(SHEET), encoding="utf-8")
        onnx.save(landmark_model(**changes), folder / "landmarks.onnx")
        onnx.save(shape_model(), folder / "shapes.onnx")
        write_card(folder, {"name": name, "input_size": SIZE, "crop_margin": 1.3, "licence": "Apache-2.0"})
        return folder

    return make
