"""Reads the folders that `puppet_shot` writes: plate.####, clean.#### and seam.#### pictures beside truth.roto.json.

H, W rows and columns. Coordinates are plate space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.exchange import document
from rotopaint_ai.plates import oiio
from rotopaint_ai.plates.colour import linearise, to_display
from rotopaint_ai.plates.plate import open_plate
from rotopaint_ai.seams.matte import seam_curves
from rotopaint_ai.seams.ribbon import WideCurve
from rotopaint_ai.shapes.bezier import flatten
from rotopaint_ai.shapes.roto import RotoDocument

Array = npt.NDArray[Any]
TRUTH: Final = "truth.roto.json"
OUTLINE: Final = "face_outline"
SUFFIXES: Final = (".exr", ".png", ".jpg")
TOLERANCE_PX: Final = 0.3  # points of an outline's polygon


@dataclass(frozen=True, slots=True)
class SeamFrame:
    """One frame: plate and clean (H, W, 3) scene-linear, coverage of the seam (H, W) 0..255, and the seams' curves."""

    plate: Array
    clean: Array
    seam: Array
    curves: tuple[WideCurve, ...]


@dataclass(frozen=True, slots=True)
class FilmedFace:
    """One frame: the picture (H, W, 3) as 8-bit display RGB, the face's outline (P, 2), and landmarks by name."""

    path: Path
    name: str  # shot and frame
    picture: npt.NDArray[np.uint8]
    outline: Array
    landmarks: Mapping[str, tuple[float, float]]


def shots_in(folder: Path) -> list[Path]:
    """The shots in a folder of shots, or the folder itself where it is a shot."""
    inner = sorted(path.parent for path in folder.glob(f"*/{TRUTH}"))
    return inner or ([folder] if (folder / TRUTH).is_file() else [])


def filmed_faces(folder: Path) -> Iterator[FilmedFace]:
    """The frames of a shot whose face has an outline. Raises: TrainingError where truth or plates are missing."""
    roto = document.read(folder / TRUTH)
    outline = next((shape for shape in roto.shapes if shape.name == OUTLINE), None)
    if outline is None:
        raise TrainingError(f"{folder / TRUTH}: no shape '{OUTLINE}'; wanted one round the face")
    with open_plate(str(_plate_pattern(folder))) as plate:
        for frame in sorted(set(plate.frames) & set(outline.keys)):
            marks = zip(roto.landmarks.names, roto.landmarks.keys.get(frame, ()))
            control = np.array([list(point) for point in outline.keys[frame].points], float)
            shown = np.clip(to_display(plate.read(frame, keep_native=False).rgb), 0, 1)
            yield FilmedFace(
                plate.path_of(frame),
                f"{folder.name}.{frame}",
                np.rint(shown * 255).astype(np.uint8),
                flatten(control, True, TOLERANCE_PX),
                {name: (mark.x, mark.y) for name, mark in marks if mark is not None},
            )


def _plate_pattern(folder: Path) -> Path:
    for suffix in SUFFIXES:
        if any(folder.glob(f"plate.*{suffix}")):
            return folder / f"plate.####{suffix}"
    raise TrainingError(f"{folder}: no plate.####.exr, .png or .jpg beside its truth")


def read_seam(path: Path) -> npt.NDArray[np.uint8]:
    """Coverage (H, W) 0..255 of the seam beside a plate's file. Raises TrainingError where it cannot be read."""
    seam = cv2.imread(str(_seam_of(path)), cv2.IMREAD_GRAYSCALE)
    if seam is None:
        raise TrainingError(f"{_seam_of(path)}: cannot be read; wanted the seam's coverage as PNG")
    return np.asarray(seam, np.uint8)


def plates_of(folder: Path) -> list[Path]:
    """The plates of a shot that have a clean frame and a seam file, in order of frame numbers."""
    found = [path for suffix in SUFFIXES for path in sorted(folder.glob(f"plate.*{suffix}"))]
    return [path for path in found if _clean_path(path).exists() and _seam_of(path).exists()]


def read_seam_frame(path: Path, truth: RotoDocument) -> SeamFrame:
    """The frame of a plate's file, with the truth of its shot. Raises: TrainingError; PlateError."""
    frame, seam = int(path.name.split(".")[1]), read_seam(path)
    curves = tuple(seam_curves(truth.shapes, frame))
    return SeamFrame(read_linear(path), read_linear(_clean_path(path)), seam, curves)


def read_linear(path: Path) -> Array:
    """A picture (H, W, 3), scene-linear. Raises: PlateError where it cannot be read."""
    is_light = path.suffix == ".exr"
    with oiio.opened_image(path) as source:
        codes = oiio.read_pixels(source, path, first=0, end=3, dtype=np.float32 if is_light else np.uint8)
    return np.asarray(codes if is_light else linearise(codes, "sRGB"), np.float32)


def _clean_path(path: Path) -> Path:
    return path.with_name(path.name.replace("plate", "clean", 1))


def _seam_of(path: Path) -> Path:
    return path.with_name(f"seam.{path.name.split('.')[1]}.png")
