"""The look of a seam as one frozen value made from a seed, and the function that carves it into the surfaces.

A character's own seam (`puppet.PuppetBuild`) has little variety. Training a fill needs more: wide soft grooves,
hairlines, bevels that face the light or turn from it, burrs, soft occlusion beside the gap, one piece that stands out
and shades the other, pieces of different shade, gaps that wander and close along the seam.

Lengths are in head units. Pairs of numbers are for the bank above and the bank below the seam. N pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.stage.shading import Surfaces

F32 = npt.NDArray[Any]  # float32
Array = npt.NDArray[Any]
Pair = tuple[float, float]
STEP_REACH = 0.35


@dataclass(frozen=True, slots=True)
class SeamStyle:
    """The look of a seam."""

    seed: int
    gap: float
    edge: float  # softness of the gap's edge, in widths of the gap
    depth: float  # share of light that the gap absorbs
    tint: tuple[float, float, float]  # exponents of the absorption per colour, from light reflected inside the gap
    bevel: Pair
    tilt: Pair  # how far the bevels tilt into the gap; below 0 it is a burr
    roundness: float
    shade: Pair  # darkening of the bevels
    halo: Pair  # occlusion beside the gap
    halo_reach: float
    shadow: float  # shadow of the bank nearer to the key light, on the other bank
    shadow_reach: float
    step: float  # shade of the lower piece relative to the upper
    wander: float  # variation of width and depth along the seam
    gloss: float  # worn, shinier bevels

    @property
    def reach(self) -> float:
        """Farthest distance from the seam's middle at which it damages the picture and its matte covers it."""
        return 0.5 * self.gap + max(self.bevel)


def draw_style(seed: int) -> SeamStyle:
    """A random look from a seed."""
    rng = np.random.default_rng([seed, 0x5EA3])
    u = rng.uniform
    gap = float(np.exp(u(np.log(0.004), np.log(0.042))))
    bevel = np.exp(u(np.log(0.006), np.log(0.05))) * np.exp(rng.normal(0, 0.25, 2))
    tint = rng.normal(0.0, 0.12, 3)
    return SeamStyle(
        seed=seed,
        gap=gap,
        edge=u(0.15, 1.1),
        depth=1.0 - u(0.02, 0.95) ** 1.6,
        tint=(1.0 - float(abs(tint[0])), 1.0, 1.0 + float(abs(tint[2]))),
        bevel=(float(bevel[0]), float(bevel[1])),
        tilt=(u(-0.35, 1.2), u(-0.35, 1.2)),
        roundness=u(0.7, 3.0),
        shade=(u(0.0, 0.35) * (rng.random() < 0.6), u(0.0, 0.35) * (rng.random() < 0.6)),
        halo=(u(0.0, 0.5) * (rng.random() < 0.6), u(0.0, 0.5) * (rng.random() < 0.6)),
        halo_reach=float(np.exp(u(np.log(0.01), np.log(0.09)))),
        shadow=u(0.2, 1.0) * (rng.random() < 0.5),
        shadow_reach=float(np.exp(u(np.log(0.008), np.log(0.05)))),
        step=rng.normal(0.0, 0.06) * (rng.random() < 0.6),
        wander=u(0.0, 0.5),
        gloss=u(0.0, 0.8) * (rng.random() < 0.3),
    )


@dataclass(frozen=True, slots=True)
class SeamOffset:
    """The position of N pixels relative to the nearest seam.

    Unit vector from the seam (N, 3), distance, position along the seam 0..1, bank, and how strong that seam is, 0..1.
    """

    away: F32
    distance: F32
    along: F32
    bank: npt.NDArray[np.intp]
    strength: F32


def carve_gap(s: Surfaces, sel: npt.NDArray[np.intp], at: SeamOffset, look: SeamStyle, key: Array) -> F32:
    """Carve a seam into the surfaces `sel`, in place; `key` (3,) points to the key light.

    Returns: coverage (N,) of gap and bevels; halo, shadow and step extend beyond them.
    """
    width, strong = _width_and_strength(look, at.along)
    strong *= at.strength
    gap = 0.5 * look.gap * width
    bevel = np.array(look.bevel, np.float32)[at.bank] * np.sqrt(width)
    inside = strong * np.clip((gap - at.distance) / (look.edge * gap) + 0.5, 0, 1)
    slope = np.clip(1 - (at.distance - gap) / bevel, 0, 1) * (at.distance > 0.5 * gap)
    bend = np.array(look.tilt, np.float32)[at.bank] * strong * slope**look.roundness
    normal = s.normals[sel] - at.away * bend[:, None]
    s.normals[sel] = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-6)
    out = at.distance - gap
    fading = np.exp(-np.maximum(out, 0) / look.halo_reach) * np.clip(1.5 - at.distance / look.reach, 0, 1)
    halo = 1 - np.array(look.halo, np.float32)[at.bank] * strong * fading
    away_from_key = np.clip(-(at.away @ key.astype(np.float32)) * 1.5, 0, 1)
    cast = look.shadow * strong * away_from_key * np.exp(-((np.maximum(out, 0) / look.shadow_reach) ** 2))
    dark = 1 - look.depth * inside
    shade = dark * (1 - np.array(look.shade, np.float32)[at.bank] * strong * slope)
    step = 1 + look.step * at.bank * np.clip(1 - at.distance / STEP_REACH, 0, 1) ** 2
    colour = shade[:, None] ** np.array(look.tint, np.float32) * step[:, None]
    s.albedo[sel] *= colour
    s.shadow_tint[sel] *= colour
    s.open_sky[sel] *= dark * halo
    s.lit[sel] *= (1 - 0.85 * look.depth * inside) * (1 - cast)
    s.specular[sel] *= dark * (1 + 2 * look.gloss * slope * strong)
    s.roughness[sel] *= 1 - 0.4 * look.gloss * slope * strong
    return (at.distance < gap + bevel).astype(np.float32)


def _width_and_strength(look: SeamStyle, along: F32) -> tuple[F32, F32]:
    """Width of the gap and strength of all effects, as shares, at positions along the seam; both taper at its ends."""
    rng = np.random.default_rng([look.seed, 7])
    knots = np.linspace(0, 1, 24)
    width = np.exp(look.wander * rng.normal(0, 1, 24)).clip(0.35, 2.2)
    strong = np.clip(1 - look.wander * rng.exponential(0.45, 24), 0.1, 1)
    tapered = np.clip(np.minimum(along, 1 - along) / 0.04, 0.2, 1)
    return (
        np.interp(along, knots, width).astype(np.float32),
        (np.interp(along, knots, strong) * tapered).astype(np.float32),
    )
