"""Seams burnt into pictures that have none: the true light under them is known to the last bit.

H, W rows and columns; pictures are scene-linear RGB float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.seams.ribbon import Curve
from rotopaint_ai.stage.face_paint import noise
from rotopaint_ai.training.models.fill.shots import View

Array = npt.NDArray[Any]
Rng = np.random.Generator

_BRIGHT = 0.35  # share of made-up seams whose gap is bright in places


def grooved(clean: Array, rng: Rng) -> View:
    """A made-up seam across a picture: groove, bevels lit and dark, wandering along a random curve.

    Both pictures get the same new grain. The matte covers gap and bevels.
    """
    view = burnt(clean, rng, may_step=True)
    grain = 1.0 + float(rng.choice([0.0, 0.01, 0.03])) * rng.standard_normal(clean.shape)
    plate, true = (np.asarray(x * grain, np.float32) for x in (view.plate, view.clean))
    return View(plate, true, view.seam, view.curves)


def burnt(clean: Array, rng: Rng, *, may_step: bool = False) -> View:
    """A picture with a made-up seam; with `may_step` its two sides may differ in shade, and so does the clean frame."""
    line = wandering(clean.shape[:2], rng)
    beside = _Beside(*nearest(line, clean.shape[:2]), len(line), rng)
    wander = float(rng.choice([0.0, 0.5, 1.5]))
    middle = beside.across + beside.along(-wander, wander)
    gap, bevel = beside.along(0.2, rng.uniform(0.4, 4.5)), float(rng.uniform(0.5, 7.0))
    depth = _depth(beside, middle, gap, bevel, rng)
    reach = float(gap.max()) / 2 + bevel + 1.0
    step = rng.uniform(-0.15, 0.15) if may_step and rng.random() < 0.25 else 0.0
    tint = np.exp(rng.normal(0.0, 0.15, 3)) ** np.sign(depth)[..., None]
    seam = np.exp(depth[..., None] * tint + step * np.sign(middle)[..., None] / 2)
    covered = np.abs(beside.across) < reach
    seam = np.where(covered[..., None], seam, np.exp(step * np.sign(middle)[..., None] / 2))
    true = clean * np.exp(step * np.clip(beside.across / reach, -1, 1) / 2)[..., None]
    plate = np.asarray(clean * seam, np.float32)
    curves: tuple[Curve, ...] = ((line, reach),)
    return View(plate, np.asarray(true, np.float32), (255 * covered).astype(np.uint8), curves)


def textured(size: int, rng: Rng) -> Array:
    """A clean picture (size, size, 3) of made-up skin, cloth or paint: shading, mottling, marks, edges, stripes."""
    tone = np.exp(0.4 * noise(rng, size, size, coarse=3, octaves=2))
    tone *= np.exp(rng.uniform(0, 0.12) * noise(rng, size, size, coarse=int(rng.integers(20, 120)), octaves=3))
    rgb = tone[..., None] * (rng.uniform(0.05, 0.7) * np.exp(rng.normal(0, 0.5, 3)))
    if rng.random() < 0.3:
        turn, period = rng.uniform(0, np.pi), rng.uniform(3, 40)
        rows, columns = np.mgrid[:size, :size]
        wave = np.sin((columns * np.cos(turn) + rows * np.sin(turn)) * 2 * np.pi / period + 2 * np.log(tone))
        rgb *= 1 + rng.uniform(0, 0.4) * wave[..., None]
    for _ in range(int(rng.integers(0, 40))):
        _mark(rgb, rng)
    return np.asarray(cv2.GaussianBlur(rgb, (0, 0), float(rng.uniform(0.4, 1.2))), np.float32)


def _mark(rgb: Array, rng: Rng) -> None:
    """A freckle, a stroke or a patch with an edge, painted over a picture."""
    size = rgb.shape[0]
    at = rng.uniform(0, size, 2)
    colour = (rgb[int(at[1]), int(at[0])] * np.exp(rng.normal(0, 0.5) + rng.normal(0, 0.15, 3))).tolist()
    kind = rng.random()
    if kind < 0.6:
        axes = tuple(int(v * 16) for v in rng.uniform(0.7, 7.0, 2))
        centre = tuple(int(v * 16) for v in at)
        cv2.ellipse(rgb, centre, axes, float(rng.uniform(0, 180)), 0, 360, colour, -1, cv2.LINE_AA, 4)
        return
    heading = rng.uniform(0, 2 * np.pi) + rng.normal(0, 2) * np.linspace(0, 1, 30)
    line = at + np.cumsum(np.stack([np.cos(heading), np.sin(heading)], 1) * rng.uniform(1, 8), 0)
    points = [(line * 16).astype(np.int32)]
    if kind < 0.85:
        cv2.polylines(rgb, points, False, colour, int(rng.integers(1, 6)), cv2.LINE_AA, 4)
    else:
        cv2.fillPoly(rgb, points, colour, cv2.LINE_AA, 4)


def wandering(shape: tuple[int, ...], rng: Rng) -> Array:
    """A smooth curve (500, 2) across a picture, from side to side or from top to bottom."""
    height, width = shape[:2]
    n_knots = int(rng.integers(3, 8))
    knots = np.stack([np.linspace(0.08, 0.92, n_knots) * width, rng.uniform(0.25, 0.75, n_knots) * height], 1)
    fine = np.linspace(0, n_knots - 1, 500)
    line = np.stack([np.interp(fine, np.arange(n_knots), knots[:, k]) for k in (0, 1)], 1)
    smooth: Array = cv2.GaussianBlur(line, (1, 151), float(rng.uniform(3.0, 25.0)), borderType=cv2.BORDER_REPLICATE)
    if rng.random() < 0.5:
        smooth = smooth[:, ::-1] * (width / height, height / width)
    return np.ascontiguousarray(smooth)


@dataclass(frozen=True, slots=True)
class _Beside:
    column: Array  # the nearest vertex of the curve, for every pixel
    across: Array  # signed distance from it
    n_vertices: int
    rng: Rng

    def along(self, low: float, high: float) -> Array:
        """Random values that change smoothly along the curve."""
        values = self.rng.uniform(low, high, int(self.rng.integers(2, 14)))
        return np.interp(self.column, np.linspace(0, self.n_vertices, len(values)), values)


def _depth(beside: _Beside, middle: Array, gap: Array, bevel: float, rng: Rng) -> Array:
    """What the seam adds to the log light (H, W): a soft-edged gap and a ramp of either sign on each bank.

    Gaps are dark from faint to black; some are bright in places, where light falls through or bare print shows.
    """
    soft = float(rng.uniform(0.3, 2.0))
    inside = 0.5 * (_erf((middle + gap / 2) / soft) - _erf((middle - gap / 2) / soft))
    depth = np.log(1.0 - beside.along(0.0, rng.uniform(0.05, 0.98)) * inside)
    if rng.random() < _BRIGHT:
        depth = depth + np.clip(beside.along(-0.8, 0.8), 0.0, None) * inside
    for sign in (-1.0, 1.0):
        ramp = np.clip(1.0 - (sign * middle - gap / 2) / bevel, 0.0, 1.0) * (sign * middle > 0)
        depth = depth + beside.along(-0.35, 0.25) * ramp * (1.0 - inside)
    return np.asarray(depth)


def nearest(line: Array, size: tuple[int, ...]) -> tuple[Array, Array]:
    """For every pixel, the nearest vertex of a line and the signed distance across it."""
    rows, columns = np.mgrid[: size[0], : size[1]] + 0.5
    seeds = np.full(size[:2], 255, np.uint8)
    owner = np.zeros(size[:2], np.intp)
    at = np.clip(np.floor(line[:, ::-1]).astype(int), 0, np.array(size[:2]) - 1)
    seeds[at[:, 0], at[:, 1]] = 0
    owner[at[:, 0], at[:, 1]] = np.arange(len(line))
    _, labels = cv2.distanceTransformWithLabels(seeds, cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL)
    table = np.zeros(labels.max() + 1, np.intp)
    table[labels[seeds == 0]] = owner[seeds == 0]
    vertex = table[labels]
    tangent = np.gradient(line, axis=0)
    tangent /= np.hypot(*tangent.T)[:, None] + 1e-9
    dx, dy = columns - line[vertex, 0], rows - line[vertex, 1]
    return vertex.astype(float), dy * tangent[vertex, 0] - dx * tangent[vertex, 1]


def _erf(x: Array) -> Array:
    """About the error function (a logistic within 0.02)."""
    return np.asarray(np.tanh(1.2025 * x))
