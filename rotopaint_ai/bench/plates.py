"""Plates for measurements: a shot enlarged to 1920 x 1080, as half-float ZIP EXR, with new grain in each frame."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import OpenImageIO

from rotopaint_ai.crops import AUTO, Box, parse_crop
from rotopaint_ai.jobs import n_cores
from rotopaint_ai.plates import oiio
from rotopaint_ai.plates.plate import Plate, open_plate

WIDTH, HEIGHT = 1920, 1080
GRAIN = 0.01  # standard deviation of the grain relative to the light, as of a fine film stock


def enlarge(
    source: Path | str, crops: Sequence[str], folder: Path, *, n_frames: int = 48, scale: float | None = None
) -> tuple[str, tuple[str, ...]]:
    """Write the plates into `folder`; returns their pattern and the matching crops.

    `scale`: the enlargement of the shot (None: it fills the plate). Around the shot its border pixels are repeated.

    The shot runs forwards and backwards until there are `n_frames`, numbered from 1001. Grain is added because ZIP
    compresses an enlarged picture without grain far too well, so that reading and writing would look too fast.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open_plate(source) as plate:
        there = list(plate.frames)
        swing = there + there[-2:0:-1]
        scale = scale or max(WIDTH / plate.width, HEIGHT / plate.height)
        shift = ((WIDTH - plate.width * scale) / 2, (HEIGHT - plate.height * scale) / 2)
        with ThreadPoolExecutor(n_cores()) as pool:
            for _ in pool.map(
                lambda row: _write_half(plate, swing[row % len(swing)], folder, 1001 + row, scale, shift),
                range(n_frames),
            ):
                pass
    first = parse_crop(crops[0])
    if first == AUTO:
        return str(folder / "plate.####.exr"), (AUTO,)
    return str(folder / "plate.####.exr"), (_moved_box(first[1], scale, shift),)


def _moved_box(box: Box, scale: float, shift: tuple[float, float]) -> str:
    x, y = box.x * scale + shift[0], box.y * scale + shift[1]
    return f"{x:g},{y:g},{box.width * scale:g},{box.height * scale:g}"


def _write_half(plate: Plate, frame: int, folder: Path, number: int, scale: float, shift: tuple[float, float]) -> None:
    rgb = plate.read(frame, keep_native=False).rgb
    matrix = np.array([[scale, 0, shift[0] + (scale - 1) / 2], [0, scale, shift[1] + (scale - 1) / 2]])
    large = cv2.warpAffine(rgb, matrix, (WIDTH, HEIGHT), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    grain = np.random.default_rng(number).standard_normal((HEIGHT, WIDTH, 3), dtype=np.float32)
    half = (large + GRAIN * (np.abs(large) + 0.02) * grain).astype(np.float16)
    spec = OpenImageIO.ImageSpec(WIDTH, HEIGHT, 3, OpenImageIO.HALF)
    spec.attribute("compression", "zip")
    oiio.save(folder / f"plate.{number}.exr", spec, half)
