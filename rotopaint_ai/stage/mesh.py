"""Triangle meshes of the stage: grids, lathes, tubes and balls in head space, with smooth normals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Mesh:
    """Vertices (V, 3), normals (V, 3), texture coordinates (V, 2), triangles (T, 3) and the material's name.

    `tangents` (V, 2, 3), where given, are the derivatives of the surface by the two texture coordinates.
    """

    vertices: Array
    normals: Array
    uv: Array
    triangles: Ints
    material: str
    tangents: Array | None = None
    colour: Array | None = None  # (V, 3) linear, where the colour varies over the mesh

    def moved(self, rotation: Array, shift: Array) -> Mesh:
        """The mesh after `rotation @ v + shift`."""
        tangents = None if self.tangents is None else self.tangents @ rotation.T
        return replace(
            self, vertices=self.vertices @ rotation.T + shift, normals=self.normals @ rotation.T, tangents=tangents
        )


def grid_triangles(rows: int, cols: int, *, wrap: bool = False) -> Ints:
    """Two triangles for each cell of a grid of vertices stored by rows; `wrap` joins last and first column."""
    r, c = np.meshgrid(np.arange(rows - 1), np.arange(cols if wrap else cols - 1), indexing="ij")
    a, b = r * cols + c, r * cols + (c + 1) % cols
    d, e = a + cols, b + cols
    return np.stack([np.stack([a, d, b], -1), np.stack([b, d, e], -1)], 2).reshape(-1, 3).astype(np.int32)


def smooth_normals(vertices: Array, triangles: Ints) -> Array:
    """Area-weighted vertex normals (V, 3)."""
    p = vertices[triangles]
    face = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])
    normals = np.stack([np.bincount(triangles.ravel(), np.repeat(face[:, k], 3), len(vertices)) for k in range(3)], -1)
    return np.asarray(normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12))


def from_grid(
    points: Array, material: str, *, uv: Array | None = None, wrap: bool = False, colour: Array | None = None
) -> Mesh:
    """A mesh over a grid of points (R, C, 3)."""
    rows, cols = points.shape[:2]
    triangles = grid_triangles(rows, cols, wrap=wrap)
    vertices = points.reshape(-1, 3)
    if uv is None:
        v, u = np.meshgrid(np.linspace(0, 1, rows), np.linspace(0, 1, cols), indexing="ij")
        uv = np.stack([u, v], -1)
    flat = None if colour is None else colour.reshape(-1, 3)
    return Mesh(vertices, smooth_normals(vertices, triangles), uv.reshape(-1, 2), triangles, material, colour=flat)


def ball(centre: Array, radii: Array, material: str, *, n: int = 24) -> Mesh:
    """An ellipsoid."""
    e, a = np.meshgrid(
        np.linspace(np.pi / 2, -np.pi / 2, n), np.linspace(0, 2 * np.pi, 2 * n, endpoint=False), indexing="ij"
    )
    d = np.stack([np.sin(a) * np.cos(e), np.sin(e), np.cos(a) * np.cos(e)], -1)
    mesh = from_grid(centre + d * radii, material, wrap=True)
    normal = (d / radii).reshape(-1, 3)
    return replace(mesh, normals=normal / np.linalg.norm(normal, axis=1, keepdims=True))


def lathe(profile: Array, material: str, *, squash: tuple[float, float] = (1.0, 1.0), n: int = 48) -> Mesh:
    """A profile (K, 2) of radius and height, from the top down, rotated about the y axis; `squash` scales x and z."""
    a = np.linspace(0, 2 * np.pi, n, endpoint=False)
    r, y = profile[:, 0][:, None], profile[:, 1][:, None]
    points = np.stack([r * np.sin(a) * squash[0], np.broadcast_to(y, (len(profile), n)), r * np.cos(a) * squash[1]], -1)
    return from_grid(points, material, wrap=True)


def tubes(spines: Array, radii: Array, material: str, *, colours: Array | None = None, sides: int = 5) -> Mesh:
    """Round tubes along spines (N, K, 3) with radii (N, K); `colours` (N, 3) paints each one."""
    n, k = spines.shape[:2]
    along = np.gradient(spines, axis=1)
    along /= np.maximum(np.linalg.norm(along, axis=2, keepdims=True), 1e-9)
    helper = np.where(np.abs(along[..., 1:2]) < 0.9, np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0]))
    across = np.cross(along, helper)
    across /= np.maximum(np.linalg.norm(across, axis=2, keepdims=True), 1e-9)
    other = np.cross(along, across)
    angle = np.linspace(0, 2 * np.pi, sides, endpoint=False)
    ring = across[:, :, None] * np.cos(angle)[:, None] - other[:, :, None] * np.sin(angle)[:, None]
    vertices = (spines[:, :, None] + ring * radii[:, :, None, None]).reshape(-1, 3)
    base = grid_triangles(k, sides, wrap=True)
    triangles = (base[None] + (np.arange(n) * k * sides)[:, None, None]).reshape(-1, 3).astype(np.int32)
    uv = np.broadcast_to(np.linspace(0, 1, k)[None, :, None, None], (n, k, sides, 2)).reshape(-1, 2)
    colour = None if colours is None else np.repeat(colours, k * sides, axis=0)
    return Mesh(vertices, ring.reshape(-1, 3), uv.copy(), triangles, material, colour=colour)
