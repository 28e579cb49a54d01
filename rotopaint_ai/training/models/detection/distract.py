"""What is no face, put beside faces: shaded balls and lumps, boxes, faces taken apart.

A detector that has seen little but faces takes every ball on a shelf for one. These are drawn where no face is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Random = np.random.Generator

MOST = 4  # things on a canvas
_TRIES = 8
_GAP = 3.0  # pixels to the next face


def distracted(picture: Array, boxes: Sequence[Array], other: Array, rng: Random) -> Array:
    """A picture (H, W, 3) of 8 bit with some things more, none of them over `boxes` (x0, y0, x1, y1).

    `other` is another picture, of which some are made.
    """
    picture = picture.copy()
    for _ in range(int(rng.integers(1, MOST + 1))):
        place = _free(picture.shape[1], picture.shape[0], boxes, rng)
        if place is not None:
            x, y, w, h = place
            part = picture[y : y + h, x : x + w]
            part[:] = THINGS[int(rng.integers(len(THINGS)))](part, other, rng)
    return picture


def _free(width: int, height: int, boxes: Sequence[Array], rng: Random) -> tuple[int, int, int, int] | None:
    """A rectangle x, y, w, h that no box meets; None where chance finds none."""
    for _ in range(_TRIES):
        w = int(np.exp(rng.uniform(np.log(10), np.log(0.5 * width))))
        h = int(np.clip(w * np.exp(rng.normal(0, 0.3)), 8, height - 1))
        x, y = int(rng.integers(0, width - w)), int(rng.integers(0, height - h))
        if all(x > b[2] + _GAP or y > b[3] + _GAP or x + w < b[0] - _GAP or y + h < b[1] - _GAP for b in boxes):
            return x, y, w, h
    return None


def ball(part: Array, other: Array, rng: Random) -> Array:
    """A shaded ellipsoid with a highlight."""
    h, w = part.shape[:2]
    ys, xs = (np.mgrid[:h, :w].astype(np.float32) + 0.5) / np.array([h, w], np.float32)[:, None, None] * 2 - 1
    inside = 1 - xs**2 - ys**2
    normal = np.stack((xs, ys, np.sqrt(np.maximum(inside, 0))), 2)
    towards = rng.normal(0, 1, 3) * (1, 1, 0.3) + (0, -0.5, 0.8)
    lit = np.clip(normal @ (towards / np.linalg.norm(towards)), 0, 1).astype(np.float32)
    colour = rng.uniform(10, 250, 3)
    shade = colour * (rng.uniform(0.1, 0.5) + rng.uniform(0.4, 1.0) * lit)[..., None]
    shade = shade + 255 * rng.uniform(0, 0.8) * (lit ** rng.uniform(8, 60))[..., None]
    cover = np.clip(inside * min(h, w) / 4, 0, 1)[..., None]
    return np.asarray(np.clip(part * (1 - cover) + shade * cover, 0, 255), np.uint8)


def lump(part: Array, other: Array, rng: Random) -> Array:
    """A many-cornered piece of another picture or of one shade."""
    h, w = part.shape[:2]
    turn = np.sort(rng.uniform(0, 2 * np.pi, int(rng.integers(4, 12))))
    radius = rng.uniform(0.4, 1.0, len(turn))
    corners = np.stack((w / 2 * (1 + radius * np.cos(turn)), h / 2 * (1 + radius * np.sin(turn))), 1)
    cover = np.zeros((h, w), np.uint8)
    cv2.fillPoly(cover, [corners.round().astype(np.int32)], 255, cv2.LINE_AA)
    left, right = rng.uniform(0.4, 1.2, 2)
    ramp = np.linspace(left, right, w)[None, :, None]
    filling = rng.uniform(0, 255, 3) * ramp if rng.random() < 0.6 else _turned(_cut(other, w, h, rng), rng)
    share = cover[..., None] / 255
    return np.asarray(np.clip(part * (1 - share) + filling * share, 0, 255), np.uint8)


def scattered(part: Array, other: Array, rng: Random) -> Array:
    """Another picture's pieces in the wrong places: eyes and mouths that make no face."""
    h, w = part.shape[:2]
    piece = _cut(other, w, h, rng)
    rows, columns = np.array_split(np.arange(h), 3), np.array_split(np.arange(w), 3)
    order = rng.permutation(9)
    out = part.copy()
    for k, source in enumerate(order):
        to = np.ix_(rows[k // 3], columns[k % 3])
        out[to] = cv2.resize(
            piece[np.ix_(rows[source // 3], columns[source % 3])], (len(columns[k % 3]), len(rows[k // 3]))
        )
    return out


def upside_down(part: Array, other: Array, rng: Random) -> Array:
    """A box of another picture's texture, seen from the side or very close."""
    h, w = part.shape[:2]
    return np.ascontiguousarray(_turned(_cut(other, w, h, rng, share=(0.05, 0.2)), rng))


def _turned(piece: Array, rng: Random) -> Array:
    return piece[::-1] if rng.random() < 0.5 else piece[:, ::-1]


def _cut(other: Array, width: int, height: int, rng: Random, share: tuple[float, float] = (0.3, 0.7)) -> Array:
    """Some part of a picture at a size."""
    side = max(4, int(rng.uniform(*share) * min(other.shape[:2])))
    x, y = (int(rng.integers(0, n - side + 1)) for n in other.shape[1::-1])
    return np.asarray(cv2.resize(other[y : y + side, x : x + side], (width, height), interpolation=cv2.INTER_AREA))


THINGS: tuple[Callable[[Array, Array, Random], Array], ...] = (ball, ball, lump, scattered, upside_down)
