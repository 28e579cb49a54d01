"""Meshes seen by a camera: the surface at each pixel, its attributes, and whether light reaches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.stage import raster
from rotopaint_ai.stage.mesh import Mesh
from rotopaint_ai.stage.studio import Studio

F32 = npt.NDArray[Any]  # float32
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole camera on the z axis: picture size, pixels per head unit, and position of the head in the picture.

    pan: shift of everything to the right, in pixels, relative to the middle of the shot; at most `pan_reach`.
    """

    width: int
    height: int
    scale: float
    centre: tuple[float, float]
    distance: float
    pan: float = 0.0
    pan_reach: int = 0

    def project(self, points: Array) -> Array:
        """World points (…, 3) to (…, 3): picture x, y (y down, corner origin) and depth."""
        depth = self.distance - points[..., 2]
        f = self.scale * self.distance / depth
        return np.stack(
            [self.centre[0] + self.pan + f * points[..., 0], self.centre[1] - f * points[..., 1], depth], -1
        )


@dataclass(slots=True)
class CameraView:
    """The z-buffered view of a list of meshes: pictures (H, W)."""

    depth: F32
    ids: npt.NDArray[np.int32]  # index of the visible triangle over all meshes; -1 where there is none
    bary: F32  # (H, W, 2) position in the triangle
    first: list[int]  # index of each mesh's first triangle, and the total


def camera_at(
    meshes: list[Mesh], projected: list[Array], holes: F32, shape: tuple[int, int], *, cull: bool
) -> CameraView:
    """Draw meshes whose vertices are `projected` to (V, 3) picture x, y and depth.

    Values of `holes` (h, w) above one half cut holes into the skin's chart. `cull` leaves out back-facing triangles."""
    depth = np.full(shape, 1e9, np.float32)
    ids = np.full(shape, -1, np.int32)
    bary = np.zeros((*shape, 2), np.float32)
    first, count = [], 0
    none = np.zeros((1, 1), np.float32)
    for mesh, xyz in zip(meshes, projected):
        first.append(count)
        cut = holes if mesh.material == "skin" else none
        raster.draw(
            xyz.astype(np.float32), mesh.uv.astype(np.float32), mesh.triangles, cut, count, depth, ids, bary, cull
        )
        count += len(mesh.triangles)
    return CameraView(depth, ids, bary, first + [count])


def _texels(texture: F32, x: F32, y: F32, how: int) -> F32:
    """Values (N,) or (N, C) of a texture at (N,) texel positions; `cv2.remap` accepts sides up to 32766."""
    n = len(x)
    if not n:  # no pixel shows it
        return np.zeros((0, *texture.shape[2:]), np.float32)
    rows = -(-n // 1024)
    xy = np.zeros((2, rows * 1024), np.float32)
    xy[0, :n], xy[1, :n] = x, y
    out = cv2.remap(texture, xy[0].reshape(rows, 1024), xy[1].reshape(rows, 1024), how, borderMode=cv2.BORDER_REPLICATE)
    return out.reshape(rows * 1024, *texture.shape[2:])[:n]


def lookup(texture: F32, uv: F32) -> F32:
    """Values (N,) or (N, C) of a texture at chart positions (N, 2), 0..1."""
    h, w = texture.shape[:2]
    return _texels(texture, uv[:, 0] * w - 0.5, uv[:, 1] * h - 0.5, cv2.INTER_LINEAR)


@dataclass(slots=True)
class SurfacePixels:
    """Attributes of the visible surface at N pixels, in stage space."""

    material: npt.NDArray[np.int32]  # row of its mesh
    position: F32  # (N, 3)
    normal: F32  # (N, 3), of length 1
    uv: F32  # (N, 2)
    colour: F32  # (N, 3), black where a mesh has none
    tangents: F32  # (N, 2, 3), none where a mesh has none


def gather_texels(meshes: list[Mesh], view: CameraView, where: npt.NDArray[np.bool_]) -> SurfacePixels:
    """Attributes of the visible surface at the pixels `where`."""
    ids = view.ids[where]
    which = np.searchsorted(np.array(view.first), ids, side="right") - 1
    b01 = view.bary[where]
    b = np.stack([b01[:, 0], b01[:, 1], 1 - b01[:, 0] - b01[:, 1]], 1)
    n = len(ids)
    empty = [np.zeros((n, *shape), np.float32) for shape in ((3,), (3,), (2,), (3,), (2, 3))]
    out = SurfacePixels(which.astype(np.int32), empty[0], empty[1], empty[2], empty[3], empty[4])
    for k, mesh in enumerate(meshes):
        sel = np.flatnonzero(which == k)
        if not len(sel):
            continue
        tri = mesh.triangles[ids[sel] - view.first[k]]
        w = b[sel]
        out.position[sel] = np.einsum("nk,nkc->nc", w, mesh.vertices[tri])
        normal = np.einsum("nk,nkc->nc", w, mesh.normals[tri])
        out.normal[sel] = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-9)
        out.uv[sel] = np.einsum("nk,nkc->nc", w, mesh.uv[tri])
        if mesh.colour is not None:
            out.colour[sel] = np.einsum("nk,nkc->nc", w, mesh.colour[tri])
        if mesh.tangents is not None:
            out.tangents[sel] = np.einsum("nk,nkij->nij", w, mesh.tangents[tri])
    return out


def key_light(meshes: list[Mesh], studio: Studio, points: Array, *, size: int) -> F32:
    """Share of the key light (N,) that reaches world points (N, 3)."""
    z = studio.key.direction
    x = np.cross([0.0, 1.0, 0.0], z)
    x /= np.linalg.norm(x)
    basis = np.stack([x, np.cross(z, x), z])
    reach = 2.6

    def to_map(p: Array) -> Array:
        q = p @ basis.T
        return np.stack([(q[..., 0] / reach + 1) * size / 2, (1 - q[..., 1] / reach) * size / 2, 20 - q[..., 2]], -1)

    view = camera_at(
        meshes, [to_map(m.vertices) for m in meshes], np.zeros((1, 1), np.float32), (size, size), cull=False
    )
    at = to_map(points)
    total = np.zeros(len(points), np.float32)
    soft = studio.shadow_soft * size / 512
    offsets = [
        (r * np.cos(t), r * np.sin(t))
        for r, n in ((0.0, 1), (0.5, 5), (1.0, 8))
        for t in np.arange(n) * 2 * np.pi / n + r
    ]
    near = np.where(view.depth > 1e8, 1e3, view.depth).astype(np.float32)
    for dx, dy in offsets:
        sx, sy = (at[:, 0] + dx * soft - 0.5).astype(np.float32), (at[:, 1] + dy * soft - 0.5).astype(np.float32)
        d = _texels(near, sx, sy, cv2.INTER_NEAREST)
        total += np.clip((d - (at[:, 2] - 0.03)) / 0.02 + 1, 0, 1)
    return total / len(offsets)
