"""Distractors: balls, lumps and scrambled pictures drawn into a picture, which no detector may take for a face.

Pictures are (H, W, 3) uint8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Rng = np.random.Generator

_MOST = 4  # most distractors on a canvas
_TRIES = 8
_GAP = 3.0  # pixels between a distractor and a face


def add_distractors(picture: Array, boxes: Sequence[Array], other: Array, rng: Rng) -> Array:
    """A picture (H, W, 3) uint8 with some distractors, none of them over `boxes` (x0, y0, x1, y1).

    `other`: another picture, which some distractors are cut from.
    """
    picture = picture.copy()
    for _ in range(int(rng.integers(1, _MOST + 1))):
        place = _free_rectangle(picture.shape[1], picture.shape[0], boxes, rng)
        if place is not None:
            x, y, w, h = place
            part = picture[y : y + h, x : x + w]
            part[:] = DISTRACTORS[int(rng.integers(len(DISTRACTORS)))](part, other, rng)
    return picture


def _free_rectangle(width: int, height: int, boxes: Sequence[Array], rng: Rng) -> tuple[int, int, int, int] | None:
    """A rectangle x, y, w, h that overlaps no box; None if random tries find none."""
    for _ in range(_TRIES):
        w = int(np.exp(rng.uniform(np.log(10), np.log(0.5 * width))))
        h = int(np.clip(w * np.exp(rng.normal(0, 0.3)), 8, height - 1))
        x, y = int(rng.integers(0, width - w)), int(rng.integers(0, height - h))
        if all(x > b[2] + _GAP or y > b[3] + _GAP or x + w < b[0] - _GAP or y + h < b[1] - _GAP for b in boxes):
            return x, y, w, h
    return None


def draw_ball(part: Array, other: Array, rng: Rng) -> Array:
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


def draw_lump(part: Array, other: Array, rng: Rng) -> Array:
    """A random polygon, filled from another picture or with one shade."""
    h, w = part.shape[:2]
    turn = np.sort(rng.uniform(0, 2 * np.pi, int(rng.integers(4, 12))))
    radius = rng.uniform(0.4, 1.0, len(turn))
    corners = np.stack((w / 2 * (1 + radius * np.cos(turn)), h / 2 * (1 + radius * np.sin(turn))), 1)
    cover = np.zeros((h, w), np.uint8)
    cv2.fillPoly(cover, [corners.round().astype(np.int32)], 255, cv2.LINE_AA)
    left, right = rng.uniform(0.4, 1.2, 2)
    ramp = np.linspace(left, right, w)[None, :, None]
    filling = rng.uniform(0, 255, 3) * ramp if rng.random() < 0.6 else _mirror_piece(_cut_piece(other, w, h, rng), rng)
    share = cover[..., None] / 255
    return np.asarray(np.clip(part * (1 - share) + filling * share, 0, 255), np.uint8)


def scramble_pieces(part: Array, other: Array, rng: Rng) -> Array:
    """Pieces of another picture in shuffled positions: eyes and mouths that form no face."""
    h, w = part.shape[:2]
    piece = _cut_piece(other, w, h, rng)
    rows, columns = np.array_split(np.arange(h), 3), np.array_split(np.arange(w), 3)
    order = rng.permutation(9)
    out = part.copy()
    for k, source in enumerate(order):
        to = np.ix_(rows[k // 3], columns[k % 3])
        out[to] = cv2.resize(
            piece[np.ix_(rows[source // 3], columns[source % 3])], (len(columns[k % 3]), len(rows[k // 3]))
        )
    return out


def mirror_texture(part: Array, other: Array, rng: Rng) -> Array:
    """A patch of another picture's texture, mirrored."""
    h, w = part.shape[:2]
    return np.ascontiguousarray(_mirror_piece(_cut_piece(other, w, h, rng, share=(0.05, 0.2)), rng))


def _mirror_piece(piece: Array, rng: Rng) -> Array:
    return piece[::-1] if rng.random() < 0.5 else piece[:, ::-1]


def _cut_piece(other: Array, width: int, height: int, rng: Rng, share: tuple[float, float] = (0.3, 0.7)) -> Array:
    """A random square of a picture, resized."""
    side = max(4, int(rng.uniform(*share) * min(other.shape[:2])))
    x, y = (int(rng.integers(0, n - side + 1)) for n in other.shape[1::-1])
    return np.asarray(cv2.resize(other[y : y + side, x : x + side], (width, height), interpolation=cv2.INTER_AREA))


DISTRACTORS: tuple[Callable[[Array, Array, Rng], Array], ...] = (
    draw_ball,
    draw_ball,
    draw_lump,
    scramble_pieces,
    mirror_texture,
)
