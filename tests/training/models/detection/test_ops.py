"""Boxes, suppression and ROIAlign: against hand calculation, plain loops, and onnxruntime's own operators."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper

from rotopaint_ai.training.models.detection import net

Array = npt.NDArray[Any]


def _box(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def test_iou_of_two_squares_that_share_a_quarter() -> None:
    # 10 x 10 squares moved by (5, 5): 25 shared, 175 in all
    assert float(net.iou(_box(0, 0, 10, 10), _box(5, 5, 15, 15))) == pytest.approx(25 / 175)


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ((0, 0, 10, 10), (0, 0, 10, 10), 1.0),
        ((0, 0, 10, 10), (5, 5, 15, 15), 25 / 175 - (225 - 175) / 225),
        ((0, 0, 1, 1), (2, 0, 3, 1), 0 - (3 - 2) / 3),  # disjoint: only the gap counts
        ((0, 0, 4, 4), (1, 1, 3, 3), 4 / 16),  # nested: the enclosing box is the larger one
    ],
)
def test_giou_by_hand(one: tuple[float, ...], other: tuple[float, ...], wanted: float) -> None:
    assert float(net.giou(_box(*one), _box(*other))) == pytest.approx(wanted)
    assert float(net.giou_loss(_box(*other), _box(*one))) == pytest.approx(1 - wanted)


def test_the_gradient_of_giou_is_that_of_finite_differences() -> None:
    torch.manual_seed(0)
    corner = torch.rand(6, 2, dtype=torch.float64) * 10
    one = torch.cat((corner, corner + 1 + torch.rand(6, 2, dtype=torch.float64) * 8), 1).requires_grad_()
    other = torch.cat((corner + 3.3, corner + 9.1), 1).detach()
    assert torch.autograd.gradcheck(lambda b: net.giou_loss(b, other), (one,))


def test_boxes_that_do_not_meet_are_drawn_together() -> None:
    box = _box(0, 0, 10, 10).requires_grad_()
    net.giou_loss(box, _box(30, 0, 40, 10)).backward()  # type: ignore[no-untyped-call]
    assert box.grad is not None
    assert float(box.grad[2]) < 0  # the right edge should move right


def test_offsets_move_and_grow() -> None:
    # half a MOVE unit of a box 20 wide is one pixel; one GROW unit is a factor of e^0.2
    got = net.apply_offsets(_box(0, 0, 20, 10), _box(0.5, 0, 1.0, 0))
    wide = 20 * math.exp(0.2)
    assert got.tolist() == pytest.approx([11 - wide / 2, 0, 11 + wide / 2, 10])


def _random_boxes(n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(4)
    corner = torch.rand(n, k, 2) * 60
    return torch.cat((corner, corner + 5 + torch.rand(n, k, 2) * 40), -1), torch.rand(n, k)


def _greedy(found: Array, scores: Array, threshold: float) -> Array:
    """Suppression by definition: take the best, drop what it overlaps, take the next."""
    keep = np.zeros(len(found))
    left = list(np.argsort(-scores, kind="stable"))
    while left:
        best = left.pop(0)
        keep[best] = 1
        left = [k for k in left if _iou(found[best], found[k]) <= threshold]
    return keep


def _iou(a: Array, b: Array) -> float:
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    shared = max(w, 0) * max(h, 0)
    return float(shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared))


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8])
def test_suppression_is_greedy_suppression(threshold: float) -> None:
    found, scores = _random_boxes(3, 40)
    got = net.nms_keep(found, scores, threshold).numpy()
    for row in range(3):
        np.testing.assert_array_equal(got[row], _greedy(found[row].numpy(), scores[row].numpy(), threshold))


def _sample(picture: Array, y: float, x: float) -> float:
    """Bilinear value at cells counted from the first one's centre; 0 beyond one cell from the edge."""
    height, width = picture.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    y0, x0 = min(int(y), height - 1), min(int(x), width - 1)
    y1, x1 = min(y0 + 1, height - 1), min(x0 + 1, width - 1)
    fy, fx = y - y0, x - x0
    top = picture[y0, x0] * (1 - fx) + picture[y0, x1] * fx
    low = picture[y1, x0] * (1 - fx) + picture[y1, x1] * fx
    return float(top * (1 - fy) + low * fy)


def _align(picture: Array, box: Array, size: int, scale: float) -> Array:
    x0, y0, x1, y1 = box * scale - 0.5
    out = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            places = [((i + (a + 0.5) / 2) / size, (j + (b + 0.5) / 2) / size) for a in (0, 1) for b in (0, 1)]
            out[i, j] = np.mean([_sample(picture, y0 + v * (y1 - y0), x0 + u * (x1 - x0)) for v, u in places])
    return out


def test_roi_align_is_the_mean_of_bilinear_samples() -> None:
    torch.manual_seed(1)
    maps = torch.randn(2, 3, 9, 12)
    found = torch.tensor([[[4.0, 6.0, 30.0, 29.0], [-6.0, -3.0, 9.0, 60.0]], [[20.0, 2.0, 47.0, 35.0], [8, 8, 9, 9]]])
    got = net.roi_align(maps, found, 5, 0.25).numpy()
    for k in range(4):
        for channel in range(3):
            wanted = _align(maps[k // 2, channel].numpy(), found.view(-1, 4)[k].numpy(), 5, 0.25)
            np.testing.assert_allclose(got[k, channel], wanted, atol=1e-5)


def test_a_ramp_is_read_where_the_box_lies() -> None:
    # a map whose cells contain their own centre in pixels: four cells of a box 16 px wide from 8 on
    ramp = ((torch.arange(20.0) + 0.5) * 4)[None, None, None].expand(1, 1, 20, 20)
    got = net.roi_align(ramp, torch.tensor([[[8.0, 8.0, 24.0, 24.0]]]), 4, 0.25)
    assert got[0, 0, 0].tolist() == pytest.approx([10, 14, 18, 22])


def _run(node: Any, inputs: dict[str, Array], output: str, *, kind: int = TensorProto.FLOAT) -> Array:
    """One operator of onnxruntime."""
    kinds = {np.dtype("float32"): TensorProto.FLOAT, np.dtype("int64"): TensorProto.INT64}
    given = [helper.make_tensor_value_info(name, kinds[value.dtype], value.shape) for name, value in inputs.items()]
    graph = helper.make_graph([node], "one", given, [helper.make_tensor_value_info(output, kind, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    stream = io.BytesIO()
    onnx.save(model, stream)
    session = onnxruntime.InferenceSession(stream.getvalue(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run([output], inputs)[0])


def test_suppression_is_that_of_onnxruntime() -> None:
    found, scores = _random_boxes(2, 50)
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "limit"], ["kept"])
    inputs = {
        "boxes": found.numpy(),
        "scores": scores[:, None].numpy(),
        "most": np.array([50]),
        "limit": np.array([0.45], np.float32),
    }
    kept = _run(node, inputs, "kept", kind=TensorProto.INT64)
    wanted = np.zeros((2, 50))
    wanted[kept[:, 0], kept[:, 2]] = 1
    np.testing.assert_array_equal(net.nms_keep(found, scores, 0.45).numpy(), wanted)


def test_roi_align_is_that_of_onnxruntime() -> None:
    torch.manual_seed(2)
    maps = torch.randn(2, 4, 12, 20)
    found, _ = _random_boxes(2, 12)
    found = found - 6  # some extend over the edge
    node = helper.make_node(
        "RoiAlign",
        ["maps", "boxes", "picture"],
        ["cut"],
        coordinate_transformation_mode="half_pixel",
        output_height=7,
        output_width=7,
        sampling_ratio=2,
        spatial_scale=0.25,
    )
    picture = np.repeat(np.arange(2), 12)
    inputs = {"maps": maps.numpy(), "boxes": found.view(-1, 4).numpy(), "picture": picture}
    np.testing.assert_allclose(net.roi_align(maps, found, 7, 0.25), _run(node, inputs, "cut"), atol=1e-5)


def test_gradients_flow_through_roi_align() -> None:
    torch.manual_seed(3)
    maps = torch.randn(1, 2, 6, 7, requires_grad=True)
    cut: Callable[[torch.Tensor], torch.Tensor] = lambda m: net.roi_align(  # noqa: E731
        m, torch.tensor([[[3.0, 2.0, 22.0, 19.0]]]), 3, 0.25
    )
    cut(maps).sum().backward()  # type: ignore[no-untyped-call]
    assert maps.grad is not None
    # every output cell is a mean: the gradients of its nine cells add up to nine for each channel
    assert float(maps.grad.sum()) == pytest.approx(18, abs=1e-4)
