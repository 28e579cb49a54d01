"""Contact sheets: crops with the points found (green) and the truth (red), for people who watch a training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
import numpy.typing as npt
import torch

from rotopaint_ai.training.augment import straight_batch
from rotopaint_ai.training.dataset import Array, Memory, Picture, write_picture
from rotopaint_ai.training.nets import LandmarkNet
from rotopaint_ai.training.recipe import Recipe

FOUND, TRUE, TEXT = (60, 255, 60), (255, 60, 60), (255, 255, 255)
_SUB = 4  # bits of sub-pixel precision that cv2 draws with


@torch.no_grad()
def write_preview(path: Path, net: LandmarkNet, memory: Memory, rows: npt.NDArray[np.intp], recipe: Recipe) -> None:
    """Draw some held-out samples, what the network finds on them and the truth."""
    net.eval()
    batch = straight_batch(memory, rows.tolist(), recipe.input_size, recipe.crop_margin)
    found = net(torch.from_numpy(batch.crops).permute(0, 3, 1, 2).float() / 255).points.numpy()
    tiles = [draw_points(crop, point, true) for crop, point, true in zip(batch.crops, found, batch.landmarks)]
    write_picture(path, contact_sheet(tiles))


def draw_points(crop: Picture, found: Array, true: Array | None, text: str = "") -> Picture:
    """The crop with lines from the true points to the found ones."""
    drawn = crop.copy()
    for at, point in enumerate(found):
        if true is not None and np.isfinite(true[at]).all():
            cv2.line(drawn, _fixed(true[at]), _fixed(point), TRUE, 1, cv2.LINE_AA, _SUB)
        cv2.circle(drawn, _fixed(point), 1 << _SUB, FOUND, -1, cv2.LINE_AA, _SUB)
    if text:
        cv2.putText(drawn, text, (4, 12), cv2.FONT_HERSHEY_SIMPLEX, 0.38, TEXT, 1, cv2.LINE_AA)
    return drawn


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
