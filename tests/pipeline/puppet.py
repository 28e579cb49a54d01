"""A synthetic puppet: four coloured discs for landmarks and a dark seam between two of them, and a pack that detects
them.

The pack's landmark model finds each disc as the centroid of its colour in the crop; the expected error grows when the
colour is absent. The shape model is linear. Nothing here was trained.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import OpenImageIO
from onnx import TensorProto, helper, numpy_helper

from rotopaint_ai.inference.pack import load_card, write_card
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet, dump_sheet

Array = npt.NDArray[Any]

SIZE = 64
NAMES = ("left", "right", "top", "bottom")
COLOURS = np.array([[1.0, 0.01, 0.01], [0.01, 1.0, 0.01], [0.01, 0.01, 1.0], [1.0, 1.0, 0.01]])  # scene-linear
OFFSETS = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])

SHEET = Sheet(
    "puppet",
    tuple(LandmarkSpec(name) for name in NAMES),
    (
        ShapeSpec("seam_middle", closed=False, n_points=3, role="seam", width_share=0.06, feather_px=1.0),
        ShapeSpec("outline", closed=True, n_points=4),
    ),
)


def make_pack(folder: Path) -> Path:
    """Write the pack; returns its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sheet.yaml").write_text(dump_sheet(SHEET), encoding="utf-8")
    onnx.save(_landmark_model(), folder / "landmarks.onnx")
    onnx.save(_shape_model(), folder / "shapes.onnx")
    write_card(folder, {"name": "puppet", "input_size": SIZE, "crop_margin": 1.8})
    return folder


def _constant(name: str, value: Array) -> Any:
    return numpy_helper.from_array(np.asarray(value, dtype=np.float32), name)


def _model(nodes: list[Any], constants: list[Any], inputs: list[Any], outputs: list[Any]) -> Any:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model


def _landmark_model() -> Any:
    """weight_l(pixel) = relu(mean of own channels - sum of the others - floor); a landmark is the weighted mean
    position."""
    display = np.where(COLOURS > 0.5, 1.0, -1.0)  # one row per landmark
    scale = 1.0 / (COLOURS > 0.5).sum(axis=1)
    mix = (np.where(display > 0, scale[:, None], display)).T  # (3, 4)
    places = (np.arange(SIZE) + 0.5).astype(np.float32)
    x = np.tile(places, SIZE)
    y = np.repeat(places, SIZE)
    constants = [
        _constant("mix", mix),
        _constant("floor", np.array([0.1, 0.1, 0.1, 0.62])),
        _constant("places", np.stack([x, y], axis=1)),
        _constant("tiny", np.array([1e-4])),
        _constant("one", np.array([1.0])),
        _constant("few", np.array([1.5])),
        _constant("size", np.array([float(SIZE)])),
        _constant("share", np.array([0.01])),
        numpy_helper.from_array(np.array([0, SIZE * SIZE, 3], dtype=np.int64), "flat"),
        numpy_helper.from_array(np.array([1], dtype=np.int64), "axis"),
        numpy_helper.from_array(np.array([2], dtype=np.int64), "last"),
    ]
    nodes = [
        helper.make_node("Reshape", ["crop", "flat"], ["pixels"]),
        helper.make_node("MatMul", ["pixels", "mix"], ["mixed"]),
        helper.make_node("Sub", ["mixed", "floor"], ["above"]),
        helper.make_node("Relu", ["above"], ["weights"]),  # (N, pixels, 4)
        helper.make_node("ReduceSum", ["weights", "axis"], ["totals"], keepdims=0),  # (N, 4)
        helper.make_node("Add", ["totals", "tiny"], ["safe"]),
        helper.make_node("Transpose", ["weights"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["turned", "places"], ["sums"]),  # (N, 4, 2)
        helper.make_node("Unsqueeze", ["safe", "last"], ["wide"]),
        helper.make_node("Div", ["sums", "wide"], ["landmarks"]),
        helper.make_node("Div", ["totals", "few"], ["much"]),
        helper.make_node("Min", ["much", "one"], ["visible"]),
        helper.make_node("Sub", ["one", "visible"], ["doubt"]),
        helper.make_node("Add", ["doubt", "share"], ["doubtful"]),
        helper.make_node("Mul", ["doubtful", "size"], ["expected_error"]),
    ]
    return _model(
        nodes,
        constants,
        [helper.make_tensor_value_info("crop", TensorProto.FLOAT, ["N", SIZE, SIZE, 3])],
        [
            helper.make_tensor_value_info("landmarks", TensorProto.FLOAT, ["N", 4, 2]),
            helper.make_tensor_value_info("expected_error", TensorProto.FLOAT, ["N", 4]),
            helper.make_tensor_value_info("visible", TensorProto.FLOAT, ["N", 4]),
        ],
    )


def add_front(folder: Path, size: int = 48) -> Path:
    """Put a segmentation network into a pack that sees what is cyan: 8 (min(green, blue) - red) - 2, from 0 to 1."""
    constants = [
        _constant("apart", np.array([[-1.0, -1.0], [1.0, 0.0], [0.0, 1.0]])),
        _constant("gain", np.array([8.0])),
        _constant("offset", np.array([2.0])),
        _constant("low", np.array(0.0)),
        _constant("high", np.array(1.0)),
    ]
    nodes = [
        helper.make_node("MatMul", ["crop", "apart"], ["pairs"]),
        helper.make_node("ReduceMin", ["pairs"], ["least"], axes=[3], keepdims=0),
        helper.make_node("Mul", ["least", "gain"], ["much"]),
        helper.make_node("Sub", ["much", "offset"], ["above"]),
        helper.make_node("Clip", ["above", "low", "high"], ["front"]),
    ]
    crop = helper.make_tensor_value_info("crop", TensorProto.FLOAT, ["N", size, size, 3])
    front = helper.make_tensor_value_info("front", TensorProto.FLOAT, ["N", size, size])
    onnx.save(_model(nodes, constants, [crop], [front]), folder / "matte.onnx")
    write_card(folder, load_card(folder))
    return folder


def _shape_model() -> Any:
    """seam_middle runs from left to right through their mean; outline joins the four with round tangents."""
    left, right, top, bottom = np.eye(4)
    third = (right - left) / 6
    middle = (left + right) / 2
    round_ = 0.55
    ring = ((left, top, right), (top, right, bottom), (right, bottom, left), (bottom, left, top))
    points = [
        (left, -third, third),
        (middle, -third, third),
        (right, -third, third),
        *((at, -round_ * (after - before) / 2, round_ * (after - before) / 2) for before, at, after in ring),
    ]
    rows = np.stack([part for point in points for part in point])  # (P * 3, 4)
    constants = [
        _constant("rows", rows),
        numpy_helper.from_array(np.array([0, len(points), 6], dtype=np.int64), "rows6"),
    ]
    nodes = [
        helper.make_node("MatMul", ["rows", "landmarks"], ["parts"]),  # (N, P * 3, 2)
        helper.make_node("Reshape", ["parts", "rows6"], ["points"]),
    ]
    return _model(
        nodes,
        constants,
        [helper.make_tensor_value_info("landmarks", TensorProto.FLOAT, ["N", 4, 2])],
        [helper.make_tensor_value_info("points", TensorProto.FLOAT, ["N", len(points), 6])],
    )


def face_at(frame: int, width: int, height: int) -> tuple[float, float, float]:
    """Centre and radius of the puppet's face at a frame: it moves every second frame."""
    pose = (frame - 1001) // 2
    return width * (0.45 + 0.01 * (pose % 8)), height * (0.5 + 0.012 * (pose % 5)), height * 0.22


def hand_at(frame: int, width: int, height: int) -> tuple[float, float, float]:
    """Centre and radius of a hand on the right half of the seam."""
    cx, cy, radius = face_at(frame, width, height)
    return cx + 0.35 * radius, cy + 0.15 * radius, 0.3 * radius


def draw(
    frame: int, width: int = 192, height: int = 120, *, with_puppet: bool = True, with_hand: bool = False
) -> Array:
    """A plate, scene-linear float32 (height, width, 3): the puppet before a wall, with new grain in every frame."""
    grain = np.random.default_rng(frame).normal(0, 0.004, (height, width, 3))
    ys, xs = np.mgrid[0:height, 0:width] + 0.5
    cx, cy, radius = face_at(frame, width, height)
    picture = np.repeat((0.18 + 0.04 * np.sin(xs / 5) * np.sin(ys / 7))[..., None], 3, axis=2)
    if not with_puppet:  # somebody's sleeve instead
        picture[:, : width // 2] += 0.8 * (np.sin(xs / 3 + frame) > 0)[:, : width // 2, None]
        return (picture + grain).astype(np.float32)
    seam = np.exp(-(((ys - cy) / 1.2) ** 2)) * (np.abs(xs - cx) < radius)
    picture *= (1 - 0.5 * seam)[..., None]
    for colour, offset in zip(COLOURS, OFFSETS):
        distance = np.hypot(xs - cx - offset[0] * radius, ys - cy - offset[1] * radius)
        cover = np.clip(radius * 0.16 + 0.5 - distance, 0, 1)[..., None]
        picture = picture * (1 - cover) + colour * 0.8 * cover
    if with_hand:
        x, y, size = hand_at(frame, width, height)
        cover = np.clip(size + 0.5 - np.hypot(xs - x, ys - y), 0, 1)[..., None]
        picture = picture * (1 - cover) + np.array([0.01, 0.8, 0.8]) * cover
    return (picture + grain).astype(np.float32)


def write_exr(path: Path, picture: Array) -> None:
    """A half-float ZIP EXR."""
    spec = OpenImageIO.ImageSpec(picture.shape[1], picture.shape[0], 3, OpenImageIO.HALF)
    spec.attribute("compression", "zip")
    out = OpenImageIO.ImageOutput.create(str(path))
    assert out.open(str(path), spec)
    assert out.write_image(picture)
    out.close()


def make_plates(
    folder: Path,
    frames: range = range(1001, 1013),
    width: int = 192,
    height: int = 120,
    *,
    with_hand: bool = False,
) -> str:
    """Write a plate sequence; returns its pattern."""
    folder.mkdir(parents=True, exist_ok=True)
    for frame in frames:
        write_exr(folder / f"plate.{frame}.exr", draw(frame, width, height, with_hand=with_hand))
    return str(folder / "plate.####.exr")


def crop_text(width: int = 192, height: int = 120) -> str:
    """The box around the face in the first frame."""
    cx, cy, radius = face_at(1001, width, height)
    return f"{cx - 1.8 * radius:g},{cy - 1.8 * radius:g},{3.6 * radius:g},{3.6 * radius:g}"
