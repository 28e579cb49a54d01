"""The course of the seam on a face, and carving a character's seam into the surfaces. N pixels, K segments."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.stage import props, raster
from rotopaint_ai.stage.face import FaceSurface
from rotopaint_ai.stage.looks import STEP_REACH, SeamOffset
from rotopaint_ai.stage.shading import Surfaces

F32 = npt.NDArray[Any]  # float32
Array = npt.NDArray[Any]

_N_BRIDGE = 140  # points of the bridge; sides have half as many


def seam_lines(face: FaceSurface, rotation: Array, shift: Array) -> tuple[Array, Array, Array, Array]:
    """World segments of all seams: starts and ends (K, 3), the share of the depth at each, and its position.

    The position (K,) runs from 0 to 1 along each seam.
    """
    t = np.linspace(0, 1, _N_BRIDGE)
    lines = [face.bridge_seam(t), face.side_seam(0, t[::2]), face.side_seam(1, t[::2])]
    starts, ends, fade, along = [], [], [], []
    strength = face.build.sculpture.side_strength
    for k, places in enumerate(lines):
        points = face.surface(places[:, 0], places[:, 1]) @ rotation.T + shift
        starts.append(points[:-1])
        ends.append(points[1:])
        s = np.linspace(0, 1, len(points) - 1)
        fade.append(np.ones_like(s) if k == 0 else strength * np.clip(np.minimum(s, 1 - s) / 0.08, 0.25, 1))
        along.append(s)
    return np.concatenate(starts), np.concatenate(ends), np.concatenate(fade), np.concatenate(along)


def near_seams(face: FaceSurface, *, reach: float, width: int = 512) -> F32:
    """Mask over the chart, above zero wherever a seam is within `reach` (head units) of a place."""
    made = np.zeros((int(width * props.CHART_E / props.CHART_A), width), np.uint8)
    thick = int(np.ceil(reach * width / (2 * props.CHART_A) / 0.6)) + 3
    t = np.linspace(0, 1, _N_BRIDGE)
    for places in (face.bridge_seam(t), face.side_seam(0, t), face.side_seam(1, t)):
        pixels = np.round(props.chart_uv(places) * np.array([width, made.shape[0]])).astype(np.int32)
        cv2.polylines(made, [pixels], False, 255, thick)
    return made.astype(np.float32)


def _nearest(position: F32, starts: Array, ends: Array) -> tuple[F32, F32, npt.NDArray[np.int32]]:
    offset, distance = np.zeros_like(position), np.zeros(len(position), np.float32)
    which = np.zeros(len(position), np.int32)
    raster.nearest_on_lines(position, starts.astype(np.float32), ends.astype(np.float32), offset, distance, which)
    return offset, distance, which


def beside_seams(position: F32, face: FaceSurface, rotation: Array, shift: Array) -> SeamOffset:
    """The position of points (N, 3) relative to the nearest seam; the lower bank is the one on the chin's side."""
    starts, ends, _, along = seam_lines(face, rotation, shift)
    offset, distance, which = _nearest(np.ascontiguousarray(position), starts, ends)
    away = offset / np.maximum(distance, 1e-6)[:, None]
    below = (offset @ rotation[:, 1] < 0).astype(np.intp)
    n_bridge = _N_BRIDGE - 1  # the bridge's segments come first
    strength = np.where(which < n_bridge, 1.0, face.build.sculpture.side_strength).astype(np.float32)
    return SeamOffset(away, distance, along[which].astype(np.float32), below, strength)


def carve_seam(
    s: Surfaces, position: F32, sel: npt.NDArray[np.intp], face: FaceSurface, rotation: Array, shift: Array
) -> tuple[Surfaces, F32]:
    """The surfaces with the seam carved in: a dark groove, bevelled edges, a step of shade between the pieces.

    Returns the carved surfaces and the seam's coverage (N,) of groove and bevels.
    """
    b = face.build
    starts, ends, fade, _ = seam_lines(face, rotation, shift)
    offset, distance, which = _nearest(np.ascontiguousarray(position[sel]), starts, ends)
    gap, bevel = b.seam_gap * 0.5, b.seam_bevel
    near = distance < gap + bevel
    sel, offset, distance = sel[near], offset[near], distance[near]
    keep = fade[which[near]].astype(np.float32)
    coverage = np.zeros(len(position), np.float32)
    coverage[sel] = 1
    carved = s.copy()
    inside = np.clip((gap - distance) / (0.35 * gap) + 0.5, 0, 1) * keep
    dark = 1 - b.seam_depth * inside
    on_bevel = np.clip(1 - (distance - gap) / bevel, 0, 1) * (distance > gap * 0.6)
    tilt = (on_bevel**2 * (0.9 * b.seam_depth) * keep)[:, None]
    away = offset / np.maximum(distance, 1e-6)[:, None]
    normal = s.normals[sel] - away * tilt
    carved.normals[sel] = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-6)
    below = np.sign(np.einsum("nc,c->n", offset, rotation[:, 1])) * -0.5 + 0.5
    step = (b.seam_step * below * np.clip(1 - distance / STEP_REACH, 0, 1) ** 2).astype(np.float32)
    shade = (dark * (1 - 0.25 * b.seam_depth * on_bevel * keep) * (1 + step)).astype(np.float32)
    carved.albedo[sel] *= shade[:, None]
    carved.shadow_tint[sel] *= shade[:, None]
    carved.open_sky[sel] *= dark
    carved.lit[sel] *= (1 - 0.75 * b.seam_depth * inside).astype(np.float32)
    return carved, coverage
