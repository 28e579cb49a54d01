"""The studio of a shot: light, background, lens and film, made from a seed."""

from __future__ import annotations

import colorsys
import itertools
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.stage.face_paint import noise

F32 = npt.NDArray[Any]  # float32
Array = npt.NDArray[Any]
Rng = np.random.Generator

_BLURS = (0.7, 1.5, 3.0, 6.0)  # pixels


@dataclass(frozen=True, slots=True)
class Light:
    """A distant light: unit direction towards it (3,), and its linear colour (3,)."""

    direction: Array
    colour: Array


@dataclass(frozen=True, slots=True)
class Studio:
    """Light, lens and film of a shot.

    depth_blur: standard deviation of the blur of what lies a head unit before or behind the face's front, in head
    units; a blur has at most the last of _BLURS pixels.
    """

    seed: int
    key: Light
    rim: Light
    sky: Array
    ground: Array
    shadow_soft: float
    exposure: float
    contrast: float
    grain: float
    focus_blur: float
    backdrop_blur: float
    glow: float
    distance: float
    depth_blur: float = 0.0


def _tint(rng: Rng, strength: float) -> Array:
    r, g, b = colorsys.hsv_to_rgb(rng.random(), rng.uniform(0, strength), 1.0)
    return np.array([r, g, b]) ** 1.5


def _towards(azimuth: float, elevation: float) -> Array:
    return np.array([np.sin(azimuth) * np.cos(elevation), np.sin(elevation), np.cos(azimuth) * np.cos(elevation)])


def draw_studio(seed: int, *, sculpted: bool = False) -> Studio:
    """Light, lens and film from a seed. `sculpted`: for a face of that kind, with a lens that has a focus."""
    rng = np.random.default_rng([seed, 3])
    side = rng.choice([-1, 1])
    key = Light(
        _towards(side * rng.uniform(0.1, 1.25), rng.uniform(0.1, 1.05)), _tint(rng, 0.35) * rng.uniform(0.9, 2.6)
    )
    rim = Light(_towards(-side * rng.uniform(1.9, 2.7), rng.uniform(0.1, 0.9)), _tint(rng, 0.6) * rng.uniform(0, 2.2))
    ambient = rng.uniform(0.15, 0.75)
    return Studio(
        seed=seed,
        key=key,
        rim=rim,
        sky=_tint(rng, 0.4) * ambient,
        ground=_tint(rng, 0.5) * ambient * rng.uniform(0.2, 0.8),
        shadow_soft=rng.uniform(1.0, 5.0),
        exposure=float(np.exp(rng.normal(-0.05, 0.3))),
        contrast=rng.uniform(0.85, 1.2),
        grain=rng.uniform(0.0, 0.02),
        focus_blur=max(0.0, rng.normal(0.1, 0.35)),
        backdrop_blur=rng.uniform(0.5, 7.0),
        glow=rng.uniform(0, 0.12),
        distance=rng.uniform(6.5, 13.0),
        depth_blur=max(0.0, rng.normal(0.005, 0.015)) if sculpted else 0.0,
    )


def backdrop(studio: Studio, height: int, width: int, *, pixels_per_unit: float) -> F32:
    """A blurred set behind the puppet, linear (H, W, 3): walls, stripes, shelves, trunks, lamps."""
    rng = np.random.default_rng([studio.seed, 11])
    palette = np.stack([_tint(rng, 0.9) * rng.uniform(0.03, 0.5) for _ in range(5)])
    ramp = np.linspace(0, 1, height)[:, None, None] ** rng.uniform(0.5, 2)
    image = np.broadcast_to(palette[0] * (1 - ramp) + palette[1] * ramp, (height, width, 3)).astype(np.float32).copy()
    unit = pixels_per_unit
    kind = rng.random()
    if kind < 0.35:
        _stripes(image, rng, palette, unit)
    if kind > 0.25:
        for _ in range(int(rng.integers(2, 14))):
            _draw_block(image, rng, palette, unit)
    if rng.random() < 0.4:
        for _ in range(int(rng.integers(1, 7))):
            _trunk(image, rng, palette, unit)
    image *= (1 + 0.12 * noise(rng, height, width, coarse=5))[..., None].clip(0.3, 2)
    for _ in range(int(rng.integers(0, 7))):
        at = (int(rng.uniform(0, width)), int(rng.uniform(0, height)))
        lamp = (_tint(rng, 0.5) * np.exp(rng.uniform(-1.0, 2.0))).tolist()
        cv2.circle(image, at, int(max(1, rng.uniform(0.02, 0.25) * unit)), lamp, -1, cv2.LINE_AA)
    return cv2.GaussianBlur(image, (0, 0), max(0.3, studio.backdrop_blur * unit / 90))


def _stripes(image: F32, rng: Rng, palette: Array, unit: float) -> None:
    step = max(4, int(rng.uniform(0.15, 0.8) * unit))
    for x in range(-step, image.shape[1], step):
        cv2.rectangle(image, (x, 0), (x + step // 2, image.shape[0]), palette[2].tolist(), -1)


def _draw_block(image: F32, rng: Rng, palette: Array, unit: float) -> None:
    h, w = image.shape[:2]
    x, y = rng.uniform(-0.2, 1.0) * w, rng.uniform(-0.2, 1.0) * h
    size = rng.uniform(0.1, 2.2, 2) * unit
    colour = (palette[rng.integers(5)] * rng.uniform(0.5, 2.0)).tolist()
    cv2.rectangle(image, (int(x), int(y)), (int(x + size[0]), int(y + size[1])), colour, -1)


def _trunk(image: F32, rng: Rng, palette: Array, unit: float) -> None:
    h, w = image.shape[:2]
    s = np.linspace(0, 1, 12)
    x = rng.uniform(0, w) + np.cumsum(rng.normal(0, 0.08 * unit, 12))
    thick = max(1, int(rng.uniform(0.05, 0.5) * unit))
    points = np.stack([x, s * h * 1.1], -1).astype(np.int32)
    cv2.polylines(
        image, [points], False, (palette[rng.integers(5)] * rng.uniform(0.2, 0.9)).tolist(), thick, cv2.LINE_AA
    )


def blur_by_depth(image: F32, sigma: F32) -> F32:
    """A picture (H, W) or (H, W, C), blurred at each pixel by a Gaussian of about `sigma` (H, W) pixels.

    Mixes pictures that are blurred as a whole; the blur is at most that of the last of _BLURS."""
    out, sharp = image.copy(), image
    for low, high in itertools.pairwise((0.0, *_BLURS)):
        soft = cv2.GaussianBlur(image, (0, 0), high)
        share = np.clip((sigma - low) / (high - low), 0.0, 1.0).reshape(*sigma.shape, *[1] * (image.ndim - 2))
        out, sharp = np.where(sigma.reshape(share.shape) > low, sharp + share * (soft - sharp), out), soft
    return np.asarray(out, np.float32)


def develop(linear: F32, studio: Studio, rng: Rng, *, pixel_scale: float = 1.0) -> F32:
    """Lens and film: softness, glow, exposure, grain. Linear in, linear out; highlights above 1 stay."""
    image: F32 = linear * studio.exposure
    sigma = studio.focus_blur * pixel_scale
    if sigma > 0.15:
        image = cv2.GaussianBlur(image, (0, 0), sigma)
    if studio.glow > 0.01:
        small = cv2.resize(image, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA)
        wide = cv2.resize(cv2.GaussianBlur(small, (0, 0), 4 * pixel_scale), (image.shape[1], image.shape[0]))
        image = image + studio.glow * np.maximum(wide - 0.25, 0)
    return add_grain(image, studio, rng)


def add_grain(image: F32, studio: Studio, rng: Rng) -> F32:
    """Film grain that grows with the square root of light; the same `rng` state gives the same grain."""
    grain: F32 = rng.normal(size=image.shape).astype(np.float32)
    grain = cv2.GaussianBlur(grain, (0, 0), 0.6) * 1.8
    return np.asarray(image + studio.grain * np.sqrt(np.maximum(image, 0) + 0.02) * grain * 0.6, np.float32)
