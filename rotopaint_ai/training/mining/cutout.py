"""Faces rendered on nothing, laid over made-up backgrounds, so that no model learns that faces end in black."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, cut
from rotopaint_ai.errors import PlateError
from rotopaint_ai.training.mining.crop import Cut

Picture = npt.NDArray[np.uint8]


def over_background(picture: Picture, path: Path, where: Cut, seed: int) -> Picture:
    """A cut picture (S, S, 3) over soft shades of a few colours, by the alpha of its file; as it is without alpha.

    Beyond the file's edge the face is taken to go on. Raises: PlateError where the file cannot be read.
    """
    alpha = _alpha(path)
    if alpha is None:
        return picture
    middle = Crop(where.x + where.side / 2, where.y + where.side / 2, where.side)
    cover = cut(np.repeat(alpha[..., None], 3, axis=2), (0, 0), middle, where.size).clip(0, 1)
    mixed = picture * cover + background(where.size, seed) * (1 - cover)
    return np.asarray(np.round(mixed).clip(0, 255), np.uint8)


def _alpha(path: Path) -> npt.NDArray[np.float32] | None:
    """Coverage 0..1 (H, W), None where the file has none."""
    whole = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if whole is None:
        raise PlateError(f"{path}: cannot be read as a picture; copy it again")
    if whole.ndim < 3 or whole.shape[2] < 4:
        return None
    full = 65535.0 if whole.dtype == np.uint16 else 255.0
    return np.asarray(whole[..., 3] / full, np.float32)


def background(size: int, seed: int) -> npt.NDArray[np.float32]:
    """Soft shades (S, S, 3) of 0..255: a few colours that run into each other, and grain."""
    rng = np.random.default_rng((seed, 45))
    coarse = rng.uniform(0, 255, (int(rng.integers(2, 6)), int(rng.integers(2, 6)), 3)).astype(np.float32)
    soft = cv2.resize(coarse, (size, size), interpolation=cv2.INTER_CUBIC)
    grain = rng.normal(0, rng.uniform(0, 12), (size, size, 1))
    return np.asarray((soft + grain).clip(0, 255), np.float32)
