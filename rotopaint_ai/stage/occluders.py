"""Occluders drawn into square pictures: what may stand between a camera and a face.

Pictures are (S, S, 3) uint8.
"""

from __future__ import annotations

import math
from typing import cast

import cv2
import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]
Rng = np.random.Generator


def draw_occluders(crop: Picture, rng: Rng) -> tuple[Picture, npt.NDArray[np.bool_]]:
    """One to three occluders: blobs (hands, props) and strands (hair, grass, rigs)."""
    size = crop.shape[0]
    crop, hidden = crop.copy(), np.zeros(crop.shape[:2], np.uint8)
    for _ in range(rng.integers(1, 4)):
        matte = np.zeros_like(hidden)
        if rng.random() < 0.4:
            cv2.fillPoly(matte, [random_blob(size, size * rng.uniform(0.04, 0.2), rng)], 255, cv2.LINE_AA)
        else:
            _draw_strands(matte, rng)
        cover = cv2.merge([matte] * 3)
        cv2.copyTo(_occluder_texture(size, rng), cover, crop)
        hidden |= matte
    return crop, hidden > 127


def random_blob(size: int, radius: float, rng: Rng) -> npt.NDArray[np.int32]:
    """A random closed, wobbly outline in the picture."""
    angles = np.linspace(0, 2 * math.pi, 24, endpoint=False)
    waves = sum(rng.normal(0, 0.25 / k) * np.cos(k * angles + rng.uniform(0, 6.3)) for k in range(1, 5))
    radii = radius * np.maximum(0.2, 1 + waves) * (1 + rng.uniform(0, 1) * np.abs(np.cos(angles + rng.uniform(0, 6.3))))
    centre = rng.uniform(0, size, 2)
    return (centre + np.stack((np.cos(angles), np.sin(angles)), 1) * radii[:, None]).round().astype(np.int32)


def _draw_strands(matte: Picture, rng: Rng) -> None:
    size = matte.shape[0]
    start, end = rng.uniform(-0.1, 1.1, (2, 2)) * size
    t = np.linspace(0, 1, 12)[:, None]
    for _ in range(rng.integers(1, 7)):
        a, b = start + rng.normal(0, 0.06, 2) * size, end + rng.normal(0, 0.12, 2) * size
        middle = (a + b) / 2 + rng.normal(0, 0.1, 2) * size
        line = (1 - t) ** 2 * a + 2 * t * (1 - t) * middle + t**2 * b
        cv2.polylines(
            matte, [line.round().astype(np.int32)], False, 255, int(rng.integers(1, max(2, size // 50))), cv2.LINE_AA
        )


def _occluder_texture(size: int, rng: Rng) -> Picture:
    """The texture of an occluder: a colour with shading and grain."""
    base = rng.integers(0, 256, 3)
    shade = cv2.resize(rng.uniform(0.5, 1.3, (3, 3, 1)).astype(np.float32), (size, size))[..., None]
    return cast(Picture, (base * shade).clip(0, 255).astype(np.uint8))
