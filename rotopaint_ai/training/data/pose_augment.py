"""Pose augmentation: pictures and landmarks warped as if the head had turned.

A character is keyed in a few dozen poses, and test shots show others. Under a small rotation every point of the face
moves in proportion to its depth, which comes from the character's rigid structure (`shapes.head_structure`). Surfaces
that move behind nearer ones are occluded; newly visible surfaces are stretched from their neighbours. Shading does not
change.
Source: the idea of Zhu et al., "Face alignment across large poses: a 3D solution" (2016), section 5.
Picture space: pixels of the sample's picture, corner origin. G: rows and columns of the grid over the face.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.shapes.head_structure import RigidStructure

Places = npt.NDArray[np.float32]
Random = np.random.Generator

NODE_PX = 8  # crop pixels between the nodes of a sampling map
_SHIFTS = 6  # random control shifts along each side of a crop
_FINE = 33  # nodes along each side of the interpolated shifts
_ROUNDS = 4  # fixed-point iterations that invert the warp


@dataclass(frozen=True, slots=True)
class ElasticWarp:
    """A smooth random warp. `shifts` (_FINE, _FINE, 2): pixels from a point of a crop of `size_px` to its source."""

    shifts: Places
    size_px: int

    @classmethod
    def draw(cls, size_px: int, amount: float, rng: Random) -> ElasticWarp:
        """A random warp; `amount`: standard deviation of the shifts, as a share of the crop's side."""
        coarse = rng.normal(0, amount * size_px, (_SHIFTS, _SHIFTS, 2)).astype(np.float32)
        return cls(cast(Places, cv2.resize(coarse, (_FINE, _FINE), interpolation=cv2.INTER_CUBIC)), size_px)

    def at(self, places: npt.NDArray[np.floating[Any]]) -> Places:
        """Shifts at points (..., 2) of the crop; beyond its rim the rim's shift applies."""
        cells = np.nan_to_num(places / self.size_px * (_FINE - 1)).astype(np.float32).reshape(1, -1, 2)
        x, y = (np.ascontiguousarray(cells[..., axis]) for axis in (0, 1))
        found = cv2.remap(self.shifts, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return cast(Places, found.reshape(places.shape))

    def moved(self, points_LC: Places) -> Places:
        """Points [L, 2] of the unwarped crop in the warped crop; NaN stays NaN."""
        there = points_LC
        for _ in range(_ROUNDS):
            there = points_LC - self.at(there)
        return there


def node_places(matrix: npt.NDArray[np.float64], size_px: int, warp: ElasticWarp | None) -> npt.NDArray[np.float64]:
    """Picture coordinates (n, n, 2) shown at the nodes of a crop, with one extra node beyond each rim.

    `matrix` (3, 3) maps the picture to the unwarped crop, corner origin.
    """
    nodes = np.arange(-1, size_px // NODE_PX + 1) * NODE_PX + NODE_PX / 2
    grid = np.stack(np.meshgrid(nodes, nodes), axis=-1)
    places = grid if warp is None else grid + warp.at(grid)
    there = np.concatenate([places, np.ones((*places.shape[:2], 1))], axis=-1) @ np.linalg.inv(matrix).T
    return np.asarray(there[..., :2] / there[..., 2:])


def upsample_map(nodes: npt.NDArray[np.floating[Any]]) -> Places:
    """A map (size_px, size_px, 2) interpolated from values (n, n, 2) at the nodes of a crop."""
    side = len(nodes) * NODE_PX
    whole = cv2.resize(nodes.astype(np.float32), (side, side), interpolation=cv2.INTER_LINEAR)
    return cast(Places, whole[NODE_PX:-NODE_PX, NODE_PX:-NODE_PX])


def cut_elastic(
    picture: npt.NDArray[np.uint8], warp: ElasticWarp, matrix: npt.NDArray[np.float64], size_px: int, border: int
) -> npt.NDArray[np.uint8]:
    """The warped crop of a picture; `matrix` as in `node_places`."""
    return _remap(picture, upsample_map(node_places(matrix, size_px, warp)), border)


def _remap(picture: npt.NDArray[np.uint8], maps: Places, border: int) -> npt.NDArray[np.uint8]:
    """Sample a picture at the corner-origin coordinates of a map (H, W, 2)."""
    x, y = np.moveaxis(maps - np.float32(0.5), 2, 0)
    return cast(npt.NDArray[np.uint8], cv2.remap(picture, x, y, cv2.INTER_LINEAR, borderMode=border))


Array64 = npt.NDArray[np.float64]
Points = npt.NDArray[np.floating[Any]]

GRID = 33  # nodes along each side of the square grid over the face
_REACH = 1.0  # half the side of that square, in longest sides of the face
_NEAR = 0.12  # in longest sides of the face: radius in which a landmark shapes the surface
_BEHIND = 0.01  # in longest sides of the face: how far behind a nearer surface a point counts as occluded
# share of the face: a landmark counts as occluded if the picture at its new position comes from further away
_APART = 0.02
_FEWEST = 8  # fewest visible landmarks for a surface


@dataclass(frozen=True, slots=True)
class PosedFace:
    """A picture whose head is turned.

    `source` (G, G, 2): picture coordinates shown at each grid node; the first node lies at `corner`, nodes are `step`
    apart. `landmarks` [L, 2] and `visible` [L] after the turn.
    """

    source: npt.NDArray[np.float32]
    corner: Array64
    step: float
    landmarks: npt.NDArray[np.float32]
    visible: npt.NDArray[np.float32]

    def maps(self, matrix: Array64, size_px: int, warp: ElasticWarp | None = None) -> npt.NDArray[np.float32]:
        """Picture coordinates (size_px, size_px, 2) shown at the pixels of a crop.

        `matrix` (3, 3) maps the turned picture to the crop, both with corner origin. `size_px` is a multiple of
        NODE_PX.
        """
        cells = ((node_places(matrix, size_px, warp) - self.corner) / self.step).astype(np.float32)
        inside = np.clip(cells, 0, GRID - 1)
        found = cv2.remap(self.source, inside[..., 0], inside[..., 1], cv2.INTER_LINEAR)
        found = found + (cells - inside) * np.float32(self.step)  # beyond the square everything moves like its rim
        return upsample_map(cast(npt.NDArray[np.float32], found))


@dataclass(frozen=True, slots=True)
class PoseAugment:
    """Turns a share of the faces by random angles with these standard deviations, using a character's rigid
    structure."""

    structure: RigidStructure
    share: float
    yaw_deg: float = 12.0
    pitch_deg: float = 7.0

    def draw(self, landmarks_LC: Points, visible_L: Points, rng: Random) -> PosedFace | None:
        """A sample with its head turned at random; None if it is not chosen or has too few visible landmarks."""
        if rng.random() >= self.share:
            return None
        yaw, pitch = np.radians(np.clip(rng.normal(0, 1, 2), -2, 2) * (self.yaw_deg, self.pitch_deg))
        return turn_face(self.structure, landmarks_LC, visible_L, float(yaw), float(pitch))


def turn_face(
    structure: RigidStructure, landmarks_LC: Points, visible_L: Points, yaw: float, pitch: float
) -> PosedFace | None:
    """A sample's picture after its head turned by radians: near surfaces move right by `yaw`, down by `pitch`.

    None if too few landmarks are visible to fit the surface.
    """
    known = np.asarray(np.isfinite(landmarks_LC).all(axis=1))
    seen = np.asarray(known & ~(visible_L < 0.5))
    if seen.sum() < _FEWEST:
        return None
    marks = landmarks_LC.astype(np.float64)
    side = float(np.ptp(marks[known], axis=0).max())
    middle, depths = marks[seen].mean(axis=0), structure.depths(landmarks_LC)
    corner, step = middle - _REACH * side, 2 * _REACH * side / (GRID - 1)
    nodes: Array64 = np.arange(GRID, dtype=np.float64) * step - _REACH * side
    surface = _surface(marks[seen] - middle, depths[seen], nodes, side)
    first = _rotate_rows(nodes, surface, yaw, _BEHIND * side)
    second = _rotate_rows(nodes, first.depth.T, pitch, _BEHIND * side)
    source = np.empty((GRID, GRID, 2), np.float32)
    source[..., 1] = second.source.T + middle[1]
    columns = np.broadcast_to(nodes, (GRID, GRID))
    source[..., 0] = _at(first.source, columns, second.source.T, nodes) + middle[0]
    moved, gone = _turn_landmarks(
        marks - middle, np.where(seen, np.nan, depths), surface, first, second, nodes, (yaw, pitch)
    )
    shown = np.stack(
        [_at(source[..., axis].astype(np.float64), moved[:, 0], moved[:, 1], nodes) for axis in (0, 1)], axis=1
    )
    gone |= np.linalg.norm(shown - marks, axis=1) > _APART * side
    visible = np.where(np.logical_and(gone, seen), np.minimum(visible_L, 0.0), visible_L)
    landmarks = moved + middle
    landmarks[~known] = np.nan
    return PosedFace(source, corner, step, landmarks.astype(np.float32), visible.astype(np.float32))


@dataclass(frozen=True, slots=True)
class _RotatedRows:
    """Grid rows after a rotation within the row.

    `source`: the former position shown at each node. `depth`: the new depth at each node. `behind`: how far the former
    nodes now lie behind a nearer surface, above the threshold; positive means occluded.
    """

    source: Array64
    depth: Array64
    behind: Array64


def _surface(places: Array64, depths: Array64, nodes: Array64, side: float) -> Array64:
    """Depth (G, G) of the face: a quadratic surface fitted to the landmarks, plus each landmark's residual around
    it."""
    usual = np.median(depths)
    bowl, *_ = np.linalg.lstsq(_quadratic_terms(places / side), depths - usual, rcond=1e-3)
    left = depths - usual - _quadratic_terms(places / side) @ bowl
    reach = 2 * (_NEAR * side) ** 2
    near = np.exp(-((places[:, None] - places) ** 2).sum(axis=2) / reach) + 0.05 * np.eye(len(places))
    x, y = (np.exp(-((nodes[:, None] - places[:, axis]) ** 2) / reach) for axis in (0, 1))
    grid = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    whole = (_quadratic_terms(grid / side) @ bowl).reshape(GRID, GRID) + (y * np.linalg.solve(near, left)) @ x.T
    return np.asarray(np.clip(whole + usual, depths.min() - 0.2 * side, depths.max() + 0.05 * side))


def _quadratic_terms(places: Array64) -> Array64:
    x, y = places[:, 0], places[:, 1]
    return np.stack([np.ones(len(x)), x, y, x * x, x * y, y * y], axis=1)


def _rotate_rows(nodes: Array64, depth: Array64, angle: float, behind: float) -> _RotatedRows:
    """Rotate every row of a surface (G, G) about its middle; a positive angle moves near points right."""
    along = nodes[::-1] * -1 if angle < 0 else nodes  # a turn to the left is a mirrored turn to the right
    rows = depth[:, ::-1] if angle < 0 else depth
    sine, cosine = np.sin(abs(angle)), np.cos(angle)
    there = cosine * along + sine * rows
    front = np.maximum.accumulate(there, axis=1)
    rising = front + np.arange(len(along)) * 1e-6 * (along[1] - along[0])
    away = cosine * rows - sine * along
    source = np.stack([np.interp(along, row, along) for row in rising])
    now = np.stack([np.interp(along, row, values) for row, values in zip(rising, away)])
    lies = front - there
    if angle < 0:
        return _RotatedRows(-source[:, ::-1], now[:, ::-1], lies[:, ::-1] - behind)
    return _RotatedRows(source, now, lies - behind)


def _turn_landmarks(
    marks: Array64,
    own_depths: Array64,
    surface: Array64,
    first: _RotatedRows,
    second: _RotatedRows,
    nodes: Array64,
    angles: tuple[float, float],
) -> tuple[Array64, npt.NDArray[np.bool_]]:
    """Landmarks [L, 2] after both rotations and whether each is occluded; without `own_depths` they lie on the
    surface."""
    x, y = marks[:, 0], marks[:, 1]
    depth = np.where(np.isfinite(own_depths), own_depths, _at(surface, x, y, nodes))
    gone = _at(first.behind, x, y, nodes) > 0
    x, depth = np.cos(angles[0]) * x + np.sin(angles[0]) * depth, np.cos(angles[0]) * depth - np.sin(angles[0]) * x
    gone |= _at(second.behind.T, x, y, nodes) > 0
    return np.stack([x, np.cos(angles[1]) * y + np.sin(angles[1]) * depth], axis=1), gone


def _at(grid: Array64, x: Array64, y: Array64, nodes: Array64) -> Array64:
    """Bilinear samples of a grid; outside the grid its edge is repeated."""
    step = nodes[1] - nodes[0]
    columns, rows = (np.nan_to_num((v - nodes[0]) / step).astype(np.float32) for v in (x, y))
    shape = columns.shape
    found = cv2.remap(
        grid.astype(np.float32),
        columns.reshape(len(columns), -1),
        np.ascontiguousarray(rows).reshape(len(rows), -1),
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return cast(Array64, found.reshape(shape).astype(np.float64))


def cut_posed_face(
    picture: npt.NDArray[np.uint8],
    turn: PosedFace,
    matrix: Array64,
    size_px: int,
    border: int,
    warp: ElasticWarp | None = None,
) -> npt.NDArray[np.uint8]:
    """The crop of a turned picture, with an elastic warp if given."""
    return _remap(picture, turn.maps(matrix, size_px, warp), border)
