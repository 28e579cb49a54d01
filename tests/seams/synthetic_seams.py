"""Made-up faces with a seam whose every number is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SIZE = (96, 160)


def curve(*, bend: float = 10.0) -> np.ndarray:
    """A gently bent line through the middle of the picture."""
    x = np.linspace(20.0, 140.0, 61)
    return np.stack([x, 48.0 + bend * np.sin((x - 20.0) / 120.0 * np.pi)], 1)


def matte(line: np.ndarray, half: float) -> np.ndarray:
    """Pixels within `half` of the line, as a matte of 0 and 1."""
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]] + 0.5
    apart = np.hypot(columns[..., None] - line[:, 0], rows[..., None] - line[:, 1]).min(-1)
    return (apart <= half).astype(np.float32)


def face(*, seed: int = 0, grain: float = 0.01) -> np.ndarray:
    """Smooth shading, some freckles, and grain; scene-linear, about 0.4."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]]
    tone = 0.4 + 0.15 * np.sin(columns / 40.0) + 0.1 * np.cos(rows / 30.0)
    freckles = np.zeros(SIZE, np.float32)
    freckles[rng.integers(0, SIZE[0], 40), rng.integers(0, SIZE[1], 40)] = 1.0
    tone = tone * (1.0 - 1.5 * cv2.GaussianBlur(freckles, (0, 0), 1.2))
    rgb = tone[..., None] * np.array([1.0, 0.75, 0.6])
    return (rgb * (1.0 + grain * rng.standard_normal(rgb.shape))).astype(np.float32)


def groove(line: np.ndarray, *, depth: float, gap: float = 1.2) -> np.ndarray:
    """Share of the light that a groove along the line transmits: a valley of Gaussian profile."""
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]] + 0.5
    apart = np.hypot(columns[..., None] - line[:, 0], rows[..., None] - line[:, 1]).min(-1)
    return (1.0 - depth * np.exp(-0.5 * (apart / gap) ** 2)).astype(np.float32)[..., None]


def rms(a: np.ndarray, b: np.ndarray, where: np.ndarray) -> float:
    """Root mean square difference where a matte is above 0."""
    return float(np.sqrt(np.mean((a[where > 0] - b[where > 0]) ** 2)))


@dataclass(frozen=True, slots=True)
class Sees:
    """A function in place of a seam network."""

    says: Callable[[Array], Array]
    zooms: tuple[int, ...] = (1,)
    describes: Callable[[Array], Array] = lambda picture: None

    def features(self, picture: Array, /) -> Array | None:
        return self.describes(picture)

    def __call__(self, strips: Array, /) -> Array:
        return self.says(strips)
