"""Frames to learn from: a plate with its seam, the same frame without it, and where the seam runs.

H, W rows and columns of a frame; pictures are scene-linear RGB float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.exchange import document
from rotopaint_ai.plates import oiio
from rotopaint_ai.plates.colour import linearise
from rotopaint_ai.seams.matte import seam_curves
from rotopaint_ai.seams.ribbon import Curve

Array = npt.NDArray[Any]
SUFFIXES = (".exr", ".png", ".jpg")


@dataclass(frozen=True, slots=True)
class FillFrame:
    """One frame: plate and clean (H, W, 3), coverage of the seam (H, W) 0..255, and the seams' curves."""

    plate: Array
    clean: Array
    seam: Array
    curves: tuple[Curve, ...]


def read_linear(path: Path) -> Array:
    """A picture (H, W, 3), scene-linear. Raises: PlateError where it cannot be read."""
    is_light = path.suffix == ".exr"
    with oiio.opened_image(path) as source:
        codes = oiio.read_pixels(source, path, first=0, end=3, dtype=np.float32 if is_light else np.uint8)
    return np.asarray(codes if is_light else linearise(codes, "sRGB"), np.float32)


def plates_of(folder: Path) -> list[Path]:
    """The plates of a shot that have a clean frame and a seam beside them, in the order of their numbers."""
    found = [path for suffix in SUFFIXES for path in sorted(folder.glob(f"plate.*{suffix}"))]
    return [path for path in found if _beside(path, "clean").exists() and _seam_of(path).exists()]


def read_view(path: Path, document_of_shot: Any) -> FillFrame:
    """The frame of a plate's file; `document_of_shot` is the truth of its shot."""
    frame = int(path.name.split(".")[1])
    seam = cv2.imread(str(_seam_of(path)), cv2.IMREAD_GRAYSCALE)
    if seam is None:
        raise TrainingError(f"{_seam_of(path)}: cannot be read; wanted the seam's coverage as PNG")
    curves = tuple(seam_curves(document_of_shot.shapes, frame))
    return FillFrame(read_linear(path), read_linear(_beside(path, "clean")), np.asarray(seam), curves)


def views(folders: Sequence[Path], *, every: int = 1) -> Iterator[FillFrame]:
    """Every so many frames of some shots. Raises: TrainingError for test shots, and where a shot holds none."""
    for folder in folders:
        if folder.name.startswith("test"):
            raise TrainingError(f"{folder}: test shots are for tests; name training shots")
        plates = plates_of(folder)[::every]
        if not plates:
            raise TrainingError(f"{folder}: no plate.#### with clean.#### and seam.####; film shots with the stage")
        truth = document.read(folder / "truth.roto.json")
        for path in plates:
            yield read_view(path, truth)


def _beside(path: Path, name: str) -> Path:
    return path.with_name(path.name.replace("plate", name, 1))


def _seam_of(path: Path) -> Path:
    return path.with_name(f"seam.{path.name.split('.')[1]}.png")
