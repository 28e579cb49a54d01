"""A puppet of four coloured dots, and a landmark model that reads dots: centre of mass of each colour."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rotopaint_ai.landmarks.track import FrameLandmarks

Picture = npt.NDArray[np.float32]
WIDTH, HEIGHT, SIZE = 320, 200, 64
FACE = np.array([[-20.0, -20.0], [20.0, -20.0], [0.0, 25.0]])


def plate(x: float, y: float, *, scale: float = 1.0, noise: float = 0.0, seed: int = 0) -> Picture:
    """Three soft dots in red, green and blue around (x, y) on black, with grain."""
    rows, columns = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    dots = [
        np.exp(-((columns - px) ** 2 + (rows - py) ** 2) / (2 * (4 * scale) ** 2)) for px, py in FACE * scale + (x, y)
    ]
    grain = np.random.default_rng(seed).normal(0, noise, (HEIGHT, WIDTH, 3))
    return (np.stack(dots, axis=2) + grain).astype(np.float32)


def detect(crops: Picture) -> tuple[Picture, Picture, Picture]:
    """Each colour's dot position; a dot outside the crop is placed at its centre, invisible, with a large error."""
    weight = np.clip(crops.astype(np.float64) - 0.2, 0, None)
    total = weight.sum(axis=(1, 2))
    at = np.arange(crops.shape[1]) + 0.5
    x = (weight.sum(axis=1) * at[None, :, None]).sum(axis=1)
    y = (weight.sum(axis=2) * at[None, :, None]).sum(axis=1)
    seen = total > 1.0
    mass = np.where(seen, total, 1.0)
    centre = crops.shape[1] / 2
    points = np.stack([np.where(seen, x / mass, centre), np.where(seen, y / mass, centre)], axis=2)
    error = np.where(seen, 0.5, 20.0)
    return points.astype(np.float32), error.astype(np.float32), seen.astype(np.float32)


def frame(number: int, points: npt.ArrayLike, *, held_from: int | None = None, error: float = 1.0) -> FrameLandmarks:
    """Landmarks of a frame with the same expected error everywhere."""
    at = np.asarray(points, dtype=np.float64)
    n = len(at)
    held = number if held_from is None else held_from
    return FrameLandmarks(number, at, np.full(n, error), np.ones(n), np.zeros(n, dtype=bool), held)
