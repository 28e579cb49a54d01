"""Crops bent smoothly: a face with other proportions, each place of it moved with what is around it.

Characters differ in the shapes of their faces, and a renderer of faces has only so many sliders. A coarse grid of
random shifts, joined smoothly, moves the picture and its landmarks alike, so that features are found where they are
seen and not where faces usually have them.

Source: Simard, Steinkraus & Platt, "Best practices for convolutional neural networks" (2003), elastic distortions.

Crop space: pixels 0..S, corner origin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import cv2
import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.float32]
Random = np.random.Generator

NODE_PX = 8  # between places of a crop whose source is computed
_SHIFTS = 6  # on each side of a crop
_FINE = 33  # nodes on each side that shifts are joined at
_ROUNDS = 4  # of looking up what is shifted to a place


@dataclass(frozen=True, slots=True)
class ElasticWarp:
    """`shifts` (_FINE, _FINE, 2): how far from a place of a crop of `size_px` lies what is shown there, in pixels."""

    shifts: Places
    size_px: int

    @classmethod
    def draw(cls, size_px: int, amount: float, rng: Random) -> ElasticWarp:
        """A random one; `amount`: standard deviation of the shifts over the crop's side."""
        coarse = rng.normal(0, amount * size_px, (_SHIFTS, _SHIFTS, 2)).astype(np.float32)
        return cls(cast(Places, cv2.resize(coarse, (_FINE, _FINE), interpolation=cv2.INTER_CUBIC)), size_px)

    def at(self, places: npt.NDArray[np.floating[Any]]) -> Places:
        """Shifts at places (..., 2) of the crop; beyond its rim everything moves with it."""
        cells = np.nan_to_num(places / self.size_px * (_FINE - 1)).astype(np.float32).reshape(1, -1, 2)
        x, y = (np.ascontiguousarray(cells[..., axis]) for axis in (0, 1))
        found = cv2.remap(self.shifts, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return cast(Places, found.reshape(places.shape))

    def moved(self, points_LC: Places) -> Places:
        """Where points [L, 2] of the straight crop are shown; NaN stays NaN."""
        there = points_LC
        for _ in range(_ROUNDS):
            there = points_LC - self.at(there)
        return there


def node_places(matrix: npt.NDArray[np.float64], size_px: int, bend: ElasticWarp | None) -> npt.NDArray[np.float64]:
    """Places (n, n, 2) of the picture shown at the nodes of a crop, one node beyond each rim; `matrix` (3, 3) leads
    from the picture to the straight crop, corner origin."""
    nodes = np.arange(-1, size_px // NODE_PX + 1) * NODE_PX + NODE_PX / 2
    grid = np.stack(np.meshgrid(nodes, nodes), axis=-1)
    places = grid if bend is None else grid + bend.at(grid)
    there = np.concatenate([places, np.ones((*places.shape[:2], 1))], axis=-1) @ np.linalg.inv(matrix).T
    return np.asarray(there[..., :2] / there[..., 2:])


def whole_map(nodes: npt.NDArray[np.floating[Any]]) -> Places:
    """A map (size_px, size_px, 2) of what is known (n, n, 2) at the nodes of a crop."""
    side = len(nodes) * NODE_PX
    whole = cv2.resize(nodes.astype(np.float32), (side, side), interpolation=cv2.INTER_LINEAR)
    return cast(Places, whole[NODE_PX:-NODE_PX, NODE_PX:-NODE_PX])


def cut_elastic(
    picture: npt.NDArray[np.uint8], bend: ElasticWarp, matrix: npt.NDArray[np.float64], size_px: int, border: int
) -> npt.NDArray[np.uint8]:
    """The bent crop of a picture; `matrix` as `node_places` has it."""
    maps = whole_map(node_places(matrix, size_px, bend)) - np.float32(0.5)
    return cast(
        npt.NDArray[np.uint8], cv2.remap(picture, maps[..., 0], maps[..., 1], cv2.INTER_LINEAR, borderMode=border)
    )
