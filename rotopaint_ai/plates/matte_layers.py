"""Seam mattes as multi-layer EXR files that Nuke can show."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai import files
from rotopaint_ai.errors import UsageError
from rotopaint_ai.plates import exr_writer

Array = NDArray[Any]


def write_layers(
    path: Path,
    layers: Mapping[str, Array],
    *,
    width: int,
    height: int,
    pixel_aspect: float = 1.0,
    origin: tuple[int, int] = (0, 0),
) -> None:
    """Write mattes as one float32 ZIP EXR; the display window is the plate's format.

    A single layer is written to R, G, B and A: Nuke shows it in the viewer and finds it as `rgba.alpha`. Several layers
    are called `<layer>.A`, which Nuke lists by name, and `rgba` is their maximum. All layers have one shape (H, W),
    float 0..1, with the top-left pixel at `origin` in plate space. The data window is cropped to the pixels above zero.
    The write is atomic. Raises: UsageError for layers of different sizes or names that EXR cannot hold.
    """
    names, shape = _readable(path, layers)
    x0, y0, x1, y1 = _covered_bounds(list(layers.values()), shape)
    planes = {name: layers[name][y0:y1, x0:x1].astype(np.float32, copy=False) for name in names}
    combined = np.maximum.reduce(list(planes.values()))
    channels = [("R", combined), ("G", combined), ("B", combined), ("A", combined)]
    if len(names) > 1:
        channels += [(f"{name}.A", planes[name]) for name in names]
    with files.replacing(path) as beside:
        exr_writer.write(
            beside,
            channels,
            data_at=(origin[0] + x0, origin[1] + y0),
            display=(0, 0, width, height),
            pixel_aspect=pixel_aspect,
        )


def _readable(path: Path, layers: Mapping[str, Array]) -> tuple[list[str], tuple[int, int]]:
    shapes = {array.shape for array in layers.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2:
        raise UsageError(f"{path.name}: layers of shapes {sorted(shapes)}; wanted one (rows, columns) for all of them")
    names = sorted(layers)
    bad = [name for name in names if not name or len(name) > 250 or any(c in name for c in "\0. /\\")]
    if bad:
        raise UsageError(
            f"{path.name}: layer name {bad[0]!a} is not usable in EXR; rename the shape without dots or spaces"
        )
    rows, columns = next(iter(shapes))
    return names, (int(rows), int(columns))


def _covered_bounds(planes: list[Array], shape: tuple[int, int]) -> tuple[int, int, int, int]:
    """The smallest rectangle that holds every pixel above zero; one pixel where there is none."""
    rows, columns = np.zeros(shape[0], bool), np.zeros(shape[1], bool)
    for plane in planes:
        rows |= plane.any(axis=1)
    inside = np.flatnonzero(rows)
    if not inside.size:
        return 0, 0, 1, 1
    y0, y1 = int(inside[0]), int(inside[-1]) + 1
    for plane in planes:
        columns |= plane[y0:y1].any(axis=0)
    across = np.flatnonzero(columns)
    return int(across[0]), y0, int(across[-1]) + 1, y1
