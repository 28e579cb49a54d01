"""Shading of the visible surfaces: diffuse with a soft terminator, gloss, rim, cast shadow, contact darkening."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.stage.studio import Studio

F32 = npt.NDArray[Any]  # float32
Array = npt.NDArray[Any]


@dataclass(slots=True)
class Surfaces:
    """The surfaces at N pixels in world space: normals (N, 3), albedo (N, 3), and gloss, wrap and openness (N,)."""

    normals: F32
    albedo: F32
    shadow_tint: F32
    specular: F32
    roughness: F32
    wrap: F32
    open_sky: F32  # 1 in the open, 0 in a crevice
    lit: F32  # 1 where the key light reaches the surface

    def copy(self) -> Surfaces:
        """A copy with its own arrays."""
        return Surfaces(*(np.array(getattr(self, field.name)) for field in fields(self)))


def shade(s: Surfaces, view: F32, studio: Studio) -> F32:
    """Outgoing linear colour (N, 3). `view` (N, 3) points to the camera."""
    n = s.normals
    key = studio.key
    facing = n @ key.direction.astype(np.float32)
    soft = np.clip((facing + s.wrap) / (1 + s.wrap), 0, 1)
    hard = np.clip(facing, 0, 1)
    lit = s.lit[:, None]
    through = s.shadow_tint * (soft - hard)[:, None] + s.albedo * hard[:, None]
    colour = through * key.colour.astype(np.float32) * lit
    up = (n[:, 1:2] * 0.5 + 0.5).astype(np.float32)
    ambient = studio.ground.astype(np.float32) * (1 - up) + studio.sky.astype(np.float32) * up
    colour += s.albedo * ambient * s.open_sky[:, None]
    colour += _gloss(n, view, key.direction, s) * key.colour.astype(np.float32) * lit
    rim = np.clip(n @ studio.rim.direction.astype(np.float32), 0, 1)
    edge = np.clip(1 - np.sum(n * view, 1), 0, 1) ** 2
    colour += (
        (s.albedo * rim[:, None] * 0.6 + (edge * rim)[:, None] * 0.25)
        * studio.rim.colour.astype(np.float32)
        * s.open_sky[:, None]
    )
    return np.asarray(colour, np.float32)


def _gloss(n: F32, view: F32, towards: Array, s: Surfaces) -> F32:
    """Normalised Blinn-Phong lobe with Schlick's Fresnel term."""
    half = view + towards.astype(np.float32)
    half /= np.maximum(np.linalg.norm(half, axis=1, keepdims=True), 1e-6)
    power = 2 / np.maximum(s.roughness, 0.05) ** 4
    lobe = np.clip(np.sum(n * half, 1), 0, 1) ** power * (power + 8) / 25
    fresnel = s.specular + (1 - s.specular) * np.clip(1 - np.sum(view * half, 1), 0, 1) ** 5 * 0.3
    return np.asarray((lobe * fresnel * np.clip(n @ towards, 0, 1) * 0.5)[:, None].clip(0, 12), np.float32)


def contact(depth: F32, covered: npt.NDArray[np.bool_], *, unit_px: float) -> F32:
    """Openness (H, W) computed only from depth, 1 in the open: a pixel behind its neighbourhood is darker.

    Source: Luft, Colditz, Deussen, "Image enhancement by unsharp masking the depth buffer" (2006), used for contact
    shadows at two radii; the background counts as far away and darkens nothing.
    """
    weight = covered.astype(np.float32)
    filled = np.where(covered, depth, 0).astype(np.float32)
    out = np.ones_like(filled)
    for radius, strength, reach in ((0.05, 3.0, 0.12), (0.2, 0.9, 0.4)):
        sigma = max(radius * unit_px, 0.6)
        step = max(1, int(sigma / 3))
        size = (max(1, filled.shape[1] // step), max(1, filled.shape[0] // step))
        num = cv2.GaussianBlur(cv2.resize(filled, size, interpolation=cv2.INTER_AREA), (0, 0), sigma / step)
        den = cv2.GaussianBlur(cv2.resize(weight, size, interpolation=cv2.INTER_AREA), (0, 0), sigma / step)
        mean = cv2.resize(num / np.maximum(den, 1e-4), (filled.shape[1], filled.shape[0]))
        behind = np.clip(filled - mean, 0, reach)
        out *= np.exp(-strength * behind / 0.1 * 0.35)
    return np.where(covered, out, 1).astype(np.float32)
