"""A tiny synthetic data set: discs for eyes on a tilted oval, so that every point is known by construction."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
import torch
from torch import nn

from rotopaint_ai.files import replacing
from rotopaint_ai.plates.coded_pictures import write_picture
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet
from rotopaint_ai.training.data.dataset import Sample, ShapeTruth, Split, write_dataset
from rotopaint_ai.training.trainer import onnx_export

SHEET = Sheet(
    name="made-up",
    landmarks=(
        LandmarkSpec("eye_right", "eye_left"),
        LandmarkSpec("eye_left", "eye_right"),
        LandmarkSpec("chin"),
        LandmarkSpec("brow"),
    ),
    shapes=(
        ShapeSpec("seam", False, 3, "seam", {0: "eye_right", 2: "eye_left"}, ("eye_right", "eye_left", "chin")),
        ShapeSpec("face", True, 4, "matte", {}, ()),
    ),
)
PLACES = np.array([[-14.0, -8.0], [14.0, -8.0], [0.0, 20.0], [0.0, -20.0]])
COLOURS = ((255, 60, 60), (60, 255, 60), (60, 60, 255), (255, 255, 60))


SHIPPED = Path(__file__).parents[2] / "models" / "rotopaint_models" / "puppet"


def copy_shipped(net: object, path: Path, *rest: object, name: str | None = None, **more: object) -> float:
    """A stand-in for `export_checked` that copies the shipped pack's file, for networks of its size whose weights do
    not matter."""
    return float(path.write_bytes((SHIPPED / (name or path.name)).read_bytes()) * 0)


def turn(degrees: float, scale: float) -> np.ndarray:
    angle = math.radians(degrees)
    return scale * np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def draw(size: int, points: np.ndarray) -> np.ndarray:
    picture = np.full((size, size, 3), 40, np.uint8)
    for point, colour in zip(points, COLOURS):
        fixed = tuple(int(v) for v in ((point - 0.5) * 16).round())
        cv2.circle(picture, fixed, 4 * 16, colour, -1, cv2.LINE_AA, 4)
    return picture


def splines(matrix: np.ndarray, centre: np.ndarray) -> dict[str, ShapeTruth]:
    def spline(rows: list[list[float]]) -> list[list[float]]:
        values = np.array(rows, np.float64)
        place = values[:, :2] @ matrix.T + centre
        return np.hstack([place, values[:, 2:4] @ matrix.T, values[:, 4:] @ matrix.T]).tolist()

    seam = spline([[-14, -8, 0, 0, 5, 4], [0, 0, -5, 0, 5, 0], [14, -8, -5, 4, 0, 0]])
    face = spline([[0, -24, -9, 0, 9, 0], [20, 0, 0, -9, 0, 9], [0, 24, 9, 0, -9, 0], [-20, 0, 0, 9, 0, -9]])
    return {"seam": ShapeTruth(seam, 3.0), "face": ShapeTruth(face)}


def write_faces(folder: Path, *, n: int = 24, n_test: int = 4, size: int = 96, seed: int = 0) -> Path:
    """A data set of `n` training samples in two shots and `n_test` test samples; no `val` split."""
    rng = np.random.default_rng(seed)
    samples = []
    for at in range(n + n_test):
        matrix, centre = turn(rng.uniform(-15, 15), rng.uniform(0.9, 1.2)), rng.uniform(44, 52, 2)
        points = PLACES @ matrix.T + centre
        name = f"images/{at:03d}.png"
        write_picture(folder / name, draw(size, points))
        split: Split = "train" if at < n else "test"
        samples.append(
            Sample(
                image=name,
                width=size,
                height=size,
                character="disc",
                shot=f"shot{at % 2 if at < n else 2}",
                frame=1001 + at,
                split=split,
                landmarks={
                    landmark.name: (float(x), float(y), 1.0) for landmark, (x, y) in zip(SHEET.landmarks, points)
                },
                shapes=splines(matrix, centre),
                pixel_scale=0.5,
            )
        )
    write_dataset(folder, name="discs", licence="CC0-1.0", sheet=SHEET, samples=samples)
    return folder


@pytest.fixture(scope="session")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small data set on disk."""
    return write_faces(tmp_path_factory.mktemp("faces"))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Training sets the process's number of threads; tests restore it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _build_of(model: nn.Module, *rest: object) -> str:
    """A hash of what two networks share if their graphs differ only in the values of their tensors."""
    plain = [
        sorted(
            (name, value) for name, value in vars(part).items() if isinstance(value, bool | int | float | str | tuple)
        )
        for part in model.modules()
    ]
    shapes = [(name, tuple(value.shape), value.dtype) for name, value in model.state_dict().items()]
    return hashlib.sha256(repr((type(model), model, plain, shapes, rest)).encode()).hexdigest()


@pytest.fixture(autouse=True, scope="session")
def traced_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Trace each architecture only once for all tests, because tracing takes most of a small training's time.

    `export_checked` still compares each file with its own network.
    """
    base, alone = tmp_path_factory.getbasetemp(), onnx_export.save_onnx
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "traces"

    def save(model: nn.Module, path: Path, names: Any, example: torch.Tensor, **more: Any) -> None:
        if more.get("rewrite") or not type(model).__module__.startswith("rotopaint_ai."):
            return alone(model, path, names, example, **more)
        kept = folder / f"{_build_of(model, names, example.shape, more.get('free'))}.onnx"
        traces = {type(model): onnx.load(kept)} if kept.exists() else {}
        alone(model, path, names, example, **{**more, "traces": traces})
        if not kept.exists():
            folder.mkdir(exist_ok=True)
            with replacing(kept) as beside:
                onnx.save(traces[type(model)], beside)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_export, "save_onnx", save)
        yield
