"""The paint of a face: textures over the chart that are made from a seed, and masks that move with a pose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.stage.face import FaceSurface
from rotopaint_ai.stage.props import CHART_A, CHART_E, chart_uv
from rotopaint_ai.stage.puppet import PuppetBuild

F32 = npt.NDArray[Any]  # float32
Array = npt.NDArray[Any]
Rng = np.random.Generator


def noise(rng: Rng, height: int, width: int, *, coarse: int, octaves: int = 4, fall: float = 0.55) -> F32:
    """Smooth noise (H, W) of about unit range, `coarse` cells across at its lowest octave."""
    out = np.zeros((height, width), np.float32)
    gain = 1.0
    for k in range(octaves):
        cells = coarse * 2**k
        grid = rng.normal(size=(max(2, cells * height // width), max(2, cells))).astype(np.float32)
        out += gain * cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC)
        gain *= fall
    return out


def _angle_grid(width: int) -> tuple[Array, Array]:
    height = int(width * CHART_E / CHART_A)
    a = (np.arange(width) + 0.5) / width * 2 * CHART_A - CHART_A
    e = CHART_E - (np.arange(height) + 0.5) / height * 2 * CHART_E
    return np.meshgrid(a, e)


@dataclass(frozen=True, slots=True)
class FacePaint:
    """Textures over the chart: albedo (H, W, 3) linear and relief (H, W) in head units."""

    albedo: F32
    relief: F32


def paint_face(build: PuppetBuild, face: FaceSurface, *, width: int) -> FacePaint:
    """The paint of a character, the same in all its frames."""
    rng = np.random.default_rng([build.seed, 77])
    a, e = _angle_grid(width)
    h, w = a.shape
    tone = 1 + 0.05 * noise(rng, h, w, coarse=6) + 0.025 * noise(rng, h, w, coarse=60, octaves=3)
    albedo = np.array(build.skin, np.float32)[None, None] * tone[..., None]
    warm = np.zeros((h, w), np.float32)
    for s in (-1, 1):
        warm += np.exp(-0.5 * (((a - s * 0.6) / 0.28) ** 2 + ((e + 0.3) / 0.2) ** 2)).astype(np.float32)
    warm += np.exp(-0.5 * ((a / 0.16) ** 2 + ((e - build.nose_e) / 0.1) ** 2)).astype(np.float32)
    tint = np.array(build.skin, np.float32) * np.array(
        [1.0, rng.uniform(0.45, 0.8), rng.uniform(0.45, 0.8)], np.float32
    )
    albedo += (tint - np.array(build.skin, np.float32)) * (build.blush * warm.clip(0, 1))[..., None]
    shade = np.zeros((h, w), np.float32)
    for side in (0, 1):
        ea, ee = face.eye_place(side)
        reach = build.eye_radius * 1.3
        shade += np.exp(-((((((a - ea) / reach) ** 2 + ((e - ee) / reach) ** 2) ** 0.5 - 0.95) / 0.16) ** 2)).astype(
            np.float32
        )
    albedo *= (1 - rng.uniform(0, 0.4) * shade.clip(0, 1))[..., None]
    relief = (0.0016 * rng.uniform(0, 1) * noise(rng, h, w, coarse=50, octaves=3)).astype(np.float32)
    if build.print_lines:
        relief += (
            build.print_lines * 0.02 * np.sin(e * rng.uniform(180, 320) + 2 * noise(rng, h, w, coarse=3))
        ).astype(np.float32)
    _freckles(albedo, build, rng)
    _wrinkles(albedo, relief, build, rng)
    return FacePaint(albedo.clip(0.003, 1).astype(np.float32), relief)


def _pixel_at(a: float, e: float, shape: tuple[int, ...]) -> tuple[int, int]:
    u, v = chart_uv(np.array([a, e]))
    return int(u * shape[1] * 16), int(v * shape[0] * 16)


def _freckles(albedo: F32, build: PuppetBuild, rng: Rng) -> None:
    dark = (np.array(build.skin) * rng.uniform(0.3, 0.65)).tolist()
    for _ in range(build.freckles):
        a, e = rng.normal(0, 0.5), rng.normal(-0.15, 0.22)
        radius = rng.uniform(0.006, 0.022) * albedo.shape[1] / (2 * CHART_A)
        cv2.circle(albedo, _pixel_at(a, e, albedo.shape), int(radius * 16), dark, -1, cv2.LINE_AA, 4)


def _wrinkles(albedo: F32, relief: F32, build: PuppetBuild, rng: Rng) -> None:
    """Painted or carved lines that are not seams; models must learn to ignore them."""
    h, w = relief.shape
    for _ in range(build.wrinkles):
        side = rng.choice([-1, 1])
        a, e = side * rng.uniform(0.1, 1.0), rng.uniform(-0.6, 0.75)
        turn, bend = rng.uniform(0, np.pi), rng.normal(0, 2.0)
        s = np.linspace(0, rng.uniform(0.15, 0.5), 20)
        heading = turn + bend * s
        line = np.stack(
            [a + np.cumsum(np.cos(heading)) * (s[1] - s[0]), e + np.cumsum(np.sin(heading)) * (s[1] - s[0])], -1
        )
        pixels = (chart_uv(line) * np.array([w, h]) * 16).astype(np.int32)
        mark: F32 = np.zeros((h, w), np.float32)
        cv2.polylines(mark, [pixels], False, 1.0, int(rng.integers(1, 4)) * max(1, w // 900), cv2.LINE_AA, 4)
        mark = cv2.GaussianBlur(mark, (0, 0), rng.uniform(0.8, 3.0) * w / 1024)
        mark = mark / max(float(mark.max()), 1e-6)
        albedo *= (1 - rng.uniform(0.1, 0.6) * mark)[..., None]
        relief -= 0.004 * rng.uniform(0, 1) * mark


def add_folds(skin: FacePaint, seed: int) -> FacePaint:
    """The paint with folds sculpted into the face and marks with hard edges painted on it, from a seed.

    These are eye bags, smile lines, welts and patches of make-up. A seam may cross them, and they must not be mistaken
    for a seam.
    """
    rng = np.random.default_rng([seed, 0xF01D])
    albedo, relief = skin.albedo.copy(), skin.relief.copy()
    h, w = relief.shape
    for _ in range(int(rng.integers(4, 16))):
        line = chart_uv(_wandering(rng)) * np.array([w, h])
        drawn: Array = np.zeros((h, w), np.float32)
        cv2.polylines(drawn, [(line * 16).astype(np.int32)], False, 1.0, max(1, w // 500), cv2.LINE_AA, 4)
        soft = float(np.exp(rng.uniform(np.log(0.004), np.log(0.05)))) * w / (2 * CHART_A)
        mark: Array = cv2.GaussianBlur(drawn, (0, 0), soft)
        mark = mark / max(float(mark.max()), 1e-6)
        relief += rng.choice([-1, -1, 1]) * rng.uniform(0.05, 0.6) * soft * (2 * CHART_A / w) * mark
        albedo *= (1 - rng.uniform(0, 0.35) * (rng.random() < 0.4) * mark)[..., None]
    for _ in range(int(rng.integers(0, 7))):
        patch = np.zeros((h, w), np.uint8)
        outline = chart_uv(_wandering(rng)) * np.array([w, h])
        cv2.fillPoly(patch, [(outline * 16).astype(np.int32)], 255, cv2.LINE_AA, 4)
        cover = cv2.GaussianBlur(patch.astype(np.float32) / 255, (0, 0), rng.uniform(0.5, 8.0) * w / 1024)
        albedo *= 1 + (np.exp(rng.normal(0, 0.18, 3)) - 1).astype(np.float32) * cover[..., None]
    return FacePaint(albedo.clip(0.003, 1).astype(np.float32), relief.astype(np.float32))


def _wandering(rng: Rng) -> Array:
    """A curve (40, 2) over the middle of the face, in chart places."""
    heading = rng.uniform(0, 2 * np.pi) + rng.normal(0, 2.5) * np.linspace(0, 1, 40)
    step = rng.uniform(0.15, 0.9) / 40
    start = np.array([rng.normal(0, 0.55), rng.normal(0.0, 0.3)])
    return np.asarray(start + np.cumsum(np.stack([np.cos(heading), np.sin(heading)], 1) * step, 0))


def mask(places: list[Array], *, width: int, soft: float = 0.0) -> F32:
    """Float mask (H, W) over the chart of the union of closed outlines (N, 2) in chart places."""
    height = int(width * CHART_E / CHART_A)
    out = np.zeros((height, width), np.uint8)
    for outline in places:
        pixels = np.round((chart_uv(outline) * np.array([width, height]) - 0.5) * 256).astype(np.int32)
        cv2.fillPoly(out, [pixels], 255, cv2.LINE_AA, 8)
    made = out.astype(np.float32) / 255
    return cv2.GaussianBlur(made, (0, 0), soft) if soft else made
