"""The paint alone, as a premultiplied layer over the plate."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rotopaint_ai.files import replacing
from rotopaint_ai.pipeline.finish import Filled, Format
from rotopaint_ai.plates import exr_writer

FOLDER = "patch"
_NOTHING = 1 / 1024  # a matte fainter than this changes nothing (`seams/cleanplate.py`)


def patch_name(frame: int, format: Format) -> str:
    """Path of a frame's patch inside the run's folder."""
    return f"{FOLDER}/{format.name}.{format.number(frame)}.exr"


def write_patch(path: Path, filled: Filled | None, format: Format) -> None:
    """Write scene-linear RGBA, float32 ZIP EXR, so that `plate * (1 - a) + rgb` is the clean plate.

    The layer is premultiplied: where its alpha is nought it is nought, and a merge `over` the plate in linear light
    gives the clean plate up to the rounding of floats. The data window holds the seams alone.
    """
    if filled is None:
        alpha, rgb, at = np.zeros((1, 1), np.float32), np.zeros((1, 1, 3), np.float32), (0, 0)
    else:
        seams = filled.seams
        alpha = np.where(seams.matte > _NOTHING, seams.cover, np.float32(0.0))
        rgb = np.where(alpha[..., None] > 0, filled.after - seams.rgb * (1 - alpha[..., None]), np.float32(0.0))
        at = (seams.x, seams.y)
    planes = [(name, np.ascontiguousarray(rgb[..., k], np.float32)) for k, name in enumerate("RGB")]
    with replacing(path) as beside:
        exr_writer.write(
            beside,
            [*planes, ("A", np.ascontiguousarray(alpha, np.float32))],
            data_at=at,
            display=(0, 0, format.width, format.height),
            pixel_aspect=format.pixel_aspect,
        )
