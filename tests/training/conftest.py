"""A tiny made-up data set: discs for eyes on a tilted oval, so that every point is known by construction."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet
from rotopaint_ai.training.data.dataset import Sample, ShapeTruth, Split, write_dataset, write_picture

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
    """As `export_checked`, by the shipped pack's file: for networks of its size whose weights nobody looks at."""
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
    """Training sets the number of threads for the process; tests give it back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
