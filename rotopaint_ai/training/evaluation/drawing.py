"""Drawing points and splines into crops, and contact sheets of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.training.data.dataset import Array, Picture

FOUND, TRUE, TEXT = (60, 255, 60), (255, 60, 60), (255, 255, 255)
_SUB = 4  # bits of sub-pixel precision that cv2 draws with


def draw_points(crop: Picture, found: Array, true: Array | None, text: str = "") -> Picture:
    """The crop with lines from the true points to the found ones; points that are not known are left out."""
    drawn = crop.copy()
    for at, point in enumerate(found):
        if not np.isfinite(point).all():
            continue
        if true is not None and np.isfinite(true[at]).all():
            cv2.line(drawn, _fixed(true[at]), _fixed(point), TRUE, 1, cv2.LINE_AA, _SUB)
        cv2.circle(drawn, _fixed(point), 1 << _SUB, FOUND, -1, cv2.LINE_AA, _SUB)
    for line, words in enumerate(text.splitlines()):
        _write(drawn, words, (4, 14 + 14 * line))
    return drawn


def _write(picture: Picture, words: str, at: tuple[int, int]) -> None:
    for colour, off in (((0, 0, 0), 1), (TEXT, 0)):  # thicker letters would be wider as well: a shadow, no outline
        place = (at[0] + off, at[1] + off)
        cv2.putText(picture, words, place, cv2.FONT_HERSHEY_SIMPLEX, 0.4, colour, 1, cv2.LINE_AA)


def draw_curve(crop: Picture, line: npt.NDArray[np.floating[Any]], closed: bool, colour: tuple[int, int, int]) -> None:
    """Draw a polyline (N, 2) of crop pixels into a crop."""
    fixed = ((line - 0.5) * (1 << _SUB)).round().astype(np.int32)
    cv2.polylines(crop, [fixed], closed, colour, 1, cv2.LINE_AA, _SUB)


def contact_sheet(tiles: Sequence[Picture], columns: int = 4) -> Picture:
    """Pictures of one size side by side, row by row; the last row is filled with black."""
    columns = min(columns, len(tiles))
    blank = np.zeros_like(tiles[0])
    filled = [*tiles, *([blank] * (-len(tiles) % columns))]
    rows = [np.concatenate(filled[at : at + columns], axis=1) for at in range(0, len(filled), columns)]
    return cast(Picture, np.concatenate(rows))


def _fixed(point: npt.NDArray[np.floating[Any]]) -> tuple[int, int]:
    x, y = ((point.clip(-1000, 4000) - 0.5) * (1 << _SUB)).round().astype(int)
    return int(x), int(y)
