"""Rasterisation: a z-buffer over triangles, with holes cut by a mask over the chart.

Convention: picture pixels, x right, y down, pixel centres at +0.5; depth is the distance in front of the camera.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[Any]  # float32
I32 = npt.NDArray[np.int32]


@numba.njit(cache=True, fastmath=True, nogil=True)
def _mask_at(mask: F32, u: float, v: float) -> Any:
    h, w = mask.shape
    x = u * w - 0.5
    y = v * h - 0.5
    if x < 0 or y < 0 or x >= w - 1 or y >= h - 1:
        return False
    i, j = int(y), int(x)
    fy, fx = y - i, x - j
    value = (mask[i, j] * (1 - fx) + mask[i, j + 1] * fx) * (1 - fy) + (
        mask[i + 1, j] * (1 - fx) + mask[i + 1, j + 1] * fx
    ) * fy
    return value > 0.5


@numba.njit(cache=True, fastmath=True, nogil=True)
def draw(
    xyz: F32, uv: F32, triangles: I32, mask: F32, first_id: int, depth: F32, ids: I32, bary: F32, cull: bool
) -> None:
    """Draw triangles into `depth` (H, W), `ids` (H, W) and `bary` (H, W, 2); nearer triangles win.

    `xyz` (V, 3) holds picture x, y and depth. `mask` is sampled at `uv` (V, 2); a value above one half makes a hole in
    the pixel (an empty mask has no holes). Barycentric weights are perspective-correct.
    """
    height, width = depth.shape
    holes = mask.shape[0] > 1
    for k in range(triangles.shape[0]):
        i0, i1, i2 = triangles[k, 0], triangles[k, 1], triangles[k, 2]
        x0, y0, z0 = xyz[i0, 0], xyz[i0, 1], xyz[i0, 2]
        x1, y1, z1 = xyz[i1, 0], xyz[i1, 1], xyz[i1, 2]
        x2, y2, z2 = xyz[i2, 0], xyz[i2, 1], xyz[i2, 2]
        if z0 <= 0.05 or z1 <= 0.05 or z2 <= 0.05:
            continue
        area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
        if area == 0.0 or (cull and area > 0.0):
            continue
        left = max(int(np.floor(min(x0, x1, x2) - 0.5)), 0)
        right = min(int(np.ceil(max(x0, x1, x2) - 0.5)), width - 1)
        top = max(int(np.floor(min(y0, y1, y2) - 0.5)), 0)
        bottom = min(int(np.ceil(max(y0, y1, y2) - 0.5)), height - 1)
        inv = 1.0 / area
        for row in range(top, bottom + 1):
            py = row + 0.5
            for col in range(left, right + 1):
                px = col + 0.5
                w0 = ((x1 - px) * (y2 - py) - (x2 - px) * (y1 - py)) * inv
                w1 = ((x2 - px) * (y0 - py) - (x0 - px) * (y2 - py)) * inv
                w2 = 1.0 - w0 - w1
                if w0 < -1e-6 or w1 < -1e-6 or w2 < -1e-6:
                    continue
                q0, q1, q2 = w0 / z0, w1 / z1, w2 / z2
                z = 1.0 / (q0 + q1 + q2)
                if z >= depth[row, col]:
                    continue
                q0 *= z
                q1 *= z
                q2 *= z
                if holes:
                    u = q0 * uv[i0, 0] + q1 * uv[i1, 0] + q2 * uv[i2, 0]
                    v = q0 * uv[i0, 1] + q1 * uv[i1, 1] + q2 * uv[i2, 1]
                    if _mask_at(mask, u, v):
                        continue
                depth[row, col] = z
                ids[row, col] = first_id + k
                bary[row, col, 0] = q0
                bary[row, col, 1] = q1


@numba.njit(cache=True, fastmath=True, nogil=True)
def nearest_on_lines(points: F32, starts: F32, ends: F32, offset: F32, distance: F32, which: I32) -> None:
    """For each of `points` (N, 3): the vector `offset` (N, 3) from the nearest segment, its length, and the index."""
    for n in range(points.shape[0]):
        best = 1e30
        for k in range(starts.shape[0]):
            ax, ay, az = starts[k, 0], starts[k, 1], starts[k, 2]
            dx, dy, dz = ends[k, 0] - ax, ends[k, 1] - ay, ends[k, 2] - az
            px, py, pz = points[n, 0] - ax, points[n, 1] - ay, points[n, 2] - az
            t = (px * dx + py * dy + pz * dz) / max(dx * dx + dy * dy + dz * dz, 1e-12)
            t = min(max(t, 0.0), 1.0)
            ox, oy, oz = px - t * dx, py - t * dy, pz - t * dz
            d = ox * ox + oy * oy + oz * oz
            if d < best:
                best = d
                offset[n, 0], offset[n, 1], offset[n, 2] = ox, oy, oz
                which[n] = k
        distance[n] = np.sqrt(best)
