"""The face as a surface over the chart (azimuth, elevation), and its curves and landmarks.

Head space: x towards the character's own left (right of the picture), y up, z out of the face. Right and left in names
are the character's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.stage.puppet import Pose, PuppetBuild

Array = npt.NDArray[Any]

OUTLINE_START = 0.35  # the outline begins on the character's right, so many radians below the horizontal
OUTLINE_JAW = (np.pi - 2 * OUTLINE_START) / (2 * np.pi)  # share of the outline that runs along the jaw

SIDES = (("right", -1.0), ("left", 1.0))


def chart_directions(a: Array, e: Array) -> Array:
    """Unit directions (…, 3) of chart positions."""
    return np.stack([np.sin(a) * np.cos(e), np.sin(e), np.cos(a) * np.cos(e)], axis=-1)


def _smoothstep(lo: float, hi: float, x: Array) -> Array:
    t = np.clip((x - lo) / (hi - lo), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def _bump(a: Array, e: Array, at: tuple[float, float], size: tuple[float, float]) -> Array:
    return np.exp(-0.5 * (((a - at[0]) / size[0]) ** 2 + ((e - at[1]) / size[1]) ** 2))


@dataclass(frozen=True, slots=True)
class Eyeball:
    """A ball behind the face: centre (3,) and radius, head space."""

    centre: Array
    radius: float


class FaceSurface:
    """The surface of one character in one pose; it depends on nothing else."""

    def __init__(self, build: PuppetBuild, pose: Pose) -> None:
        self.build = build
        self.pose = pose
        asym = np.asarray(build.asymmetry)
        self._eye_shift = asym[:4] * 0.008
        self.eyeballs = tuple(self._eyeball(side) for side in (0, 1))

    # -- surface -----------------------------------------------------------------------------------------------------

    def skull(self, d: Array) -> Array:
        """Radius (…) of the bare head along unit directions (…, 3)."""
        b = self.build
        p = b.squareness
        return 1.0 / (
            np.abs(d[..., 0] / b.width) ** p + np.abs(d[..., 1] / b.height) ** p + np.abs(d[..., 2] / b.depth) ** p
        ) ** (1 / p)

    def eye_place(self, side: int) -> tuple[float, float]:
        """Chart place of an eye's middle; side 0 is the character's right."""
        sign = SIDES[side][1]
        return sign * self.build.eye_a + self._eye_shift[2 * side], self.build.eye_e + self._eye_shift[2 * side + 1]

    def _eyeball(self, side: int) -> Eyeball:
        a, e = (np.asarray(v) for v in self.eye_place(side))
        d = chart_directions(a, e)
        reach = float(self.skull(d)) - self.build.eye_radius * self.build.eye_depth
        return Eyeball(d * reach, self.build.eye_radius)

    def surface(self, a: Array, e: Array) -> Array:
        """Head-space points (…, 3) of chart places."""
        b, pose = self.build, self.pose
        d = chart_directions(a, e)
        r = self.skull(d)
        front = np.clip(np.cos(a), 0.0, 1.0)
        r = (
            r
            + b.forehead * _bump(a, e, (0, 0.65), (0.6, 0.3))
            + b.brow_ridge * front * _bump(a, e, (0, b.eye_e + 0.22), (0.55, 0.09))
        )
        for s in (-1.0, 1.0):
            r = r + b.cheek * _bump(a, e, (s * 0.62, -0.38 + 0.06 * pose.smile), (0.3, 0.24))
            r = r + 0.03 * max(pose.smile, 0) * _bump(a, e, (s * 0.55, -0.3), (0.16, 0.14))
        r = r + 0.05 * _bump(a, e, (0, b.mouth_e), (b.mouth_width * 1.5, 0.16))
        r = self._lips(a, e, r)
        for ball in self.eyeballs:
            along = d @ ball.centre
            inside = along**2 - float(ball.centre @ ball.centre) + (ball.radius * 1.07) ** 2
            hit = np.where(inside > 0, along + np.sqrt(np.maximum(inside, 1e-9)), 0.0)
            gap = (hit - r) / 0.03
            r = np.where(gap > 12, hit, r + 0.03 * np.log1p(np.exp(np.clip(gap, -40, 12))))
        r = self._lids(d, r)
        p = d * r[..., None]
        return self._pull(p, a, e)

    def _lids(self, d: Array, r: Array) -> Array:
        """Radii (…) along directions (…, 3) with the rings round both eyes and the bags below them."""
        carved = self.build.sculpture
        if not (carved.lid_rings or carved.pouch):
            return r
        for side, ball in enumerate(self.eyeballs):
            middle, reach = ball.centre / np.linalg.norm(ball.centre), self._eye_reach(side)
            away = np.arccos(np.clip(d @ middle, -1.0, 1.0)) / reach
            for radius, width, height in carved.lid_rings:
                r = r + height * np.exp(-0.5 * ((away - radius) / width) ** 2)
            below = np.clip((middle[1] - d[..., 1]) / (1.3 * reach), 0.0, 1.0)
            r = r + carved.pouch * below**2 * np.exp(-0.5 * ((away - 1.3) / 0.25) ** 2)
        return r

    def _lips(self, a: Array, e: Array, r: Array) -> Array:
        b = self.build
        w = self._mouth_half_width()
        x = np.clip(a / w, -1, 1)
        upper, lower = self._lip_edges(x)
        middle_u, middle_l = (upper[0] + upper[1]) / 2, (lower[0] + lower[1]) / 2
        side = np.exp(-0.5 * (np.maximum(np.abs(a) - w * 0.85, 0) / (0.1 * w)) ** 2)
        swell = b.lip_upper * 0.55 * np.exp(-0.5 * ((e - middle_u) / (0.55 * b.lip_upper)) ** 2)
        swell = swell + b.lip_lower * 0.6 * np.exp(-0.5 * ((e - middle_l) / (0.55 * b.lip_lower)) ** 2)
        return r + swell * side

    def narrow_to_jaw(self, p: Array, e: Array) -> Array:
        """Points (…, 3) drawn in towards the jaw."""
        below = _smoothstep(self.build.jaw_start, -0.95, np.sin(e))[..., None]
        slim = 1 - self.build.jaw_width
        return np.asarray(p * (1 - below * np.array([slim, 0.0, 0.35 * slim])))

    def _pull(self, p: Array, a: Array, e: Array) -> Array:
        """Displacements of jaw, chin and nose that are not along the radius."""
        b = self.build
        below = _smoothstep(b.jaw_start, -0.95, np.sin(e))
        p = self.narrow_to_jaw(p, e)
        front = np.clip(np.cos(a), 0, 1) ** 2
        p[..., 1] -= b.chin_length * below * front * _smoothstep(-0.45, -1.1, e)
        drop = self._jaw_drop() * _smoothstep(b.mouth_e + 0.02, b.mouth_e - 0.12, e) * _smoothstep(1.4, 0.5, np.abs(a))
        p[..., 1] -= drop * 0.75
        p[..., 2] -= drop * 0.15
        top, tip = b.nose_e + b.nose_bridge, b.nose_e
        rise = _smoothstep(top, tip, e) ** b.sculpture.nose_swell
        under = _smoothstep(tip - 0.13, tip - 0.01, e)
        profile = np.where(e > tip, rise, under)
        wide = (
            b.nose_width
            * (0.55 + 0.45 * _smoothstep(top, tip, e))
            * (1.0 + 0.35 * np.where(e < tip, 1, 0) * (1 - under))
        )
        nose = profile * np.exp(-0.5 * np.abs(a / wide) ** b.sculpture.nose_wall)
        ball = b.nose_ball * _bump(a, e, (0, tip + 0.01), (b.nose_width * 0.9, 0.075))
        wing = 0.035 * (
            _bump(a, e, (-b.nose_width * 1.25, tip - 0.02), (0.06, 0.05))
            + _bump(a, e, (b.nose_width * 1.25, tip - 0.02), (0.06, 0.05))
        )
        p[..., 2] += b.nose_length * nose + ball + wing
        p[..., 1] -= b.nose_length * b.nose_droop * nose * rise
        return p

    def _jaw_drop(self) -> float:
        return 0.3 * self.pose.mouth_open

    # -- features in the chart ---------------------------------------------------------------------------------------

    def _mouth_half_width(self) -> float:
        return (
            self.build.mouth_width
            * self.pose.mouth_wide
            * (1 + 0.12 * max(self.pose.smile, 0))
            * (1 - 0.25 * self.pose.mouth_open)
        )

    def _lip_edges(self, x: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Elevation of (outer, inner) edge of the upper and of the lower lip at x in -1..1 across the mouth."""
        b, pose = self.build, self.pose
        w = self._mouth_half_width()
        base = b.mouth_e + pose.smile * w * 0.38 * (x**2 - 0.4)
        arch = np.sqrt(np.clip(1 - x**2, 0, 1))
        gape_u = 0.05 * pose.mouth_open * arch**0.9
        gape_l = 0.02 * pose.mouth_open * arch**0.9
        bow = 1 - 0.22 * np.exp(-0.5 * (x / 0.16) ** 2)
        inner_x = np.clip(1 - (x / 0.94) ** 2, 0, 1)
        slit = 0.0025 * np.sqrt(inner_x)
        upper = (base + gape_u + b.lip_upper * arch**1.1 * bow, base + gape_u * inner_x**0.3 + slit)
        lower = (base - gape_l - b.lip_lower * arch**0.9, base - gape_l * inner_x**0.3 - slit)
        return upper, lower

    def mouth(self, t: Array, *, inner: bool) -> Array:
        """Chart places (N, 2) round the mouth; t in 0..1, from the right corner over the upper lip."""
        half = np.where(t < 0.5, t * 2, (1 - t) * 2)
        x = -np.cos(np.pi * half)
        upper, lower = self._lip_edges(x * (0.94 if inner else 1.0))
        edge = 1 if inner else 0
        e = np.where(t < 0.5, upper[edge], lower[edge])
        return np.stack([x * self._mouth_half_width() * (0.94 if inner else 1.0), e], axis=-1)

    def _eye_reach(self, side: int) -> float:
        """Angle of an eyeball's radius as seen from the centre of the head."""
        distance = float(np.linalg.norm(self.eyeballs[side].centre))
        return float(np.arcsin(min(self.build.eye_radius * 1.02 / distance, 0.95)))

    def eye(self, side: int, t: Array) -> Array:
        """Chart places (N, 2) round an eye opening; t in 0..1 from the inner corner over the upper lid."""
        b, pose = self.build, self.pose
        sign = SIDES[side][1]
        a0, e0 = self.eye_place(side)
        w = b.eye_width * self._eye_reach(side)
        half = np.where(t < 0.5, t * 2, (1 - t) * 2)
        x = -np.cos(np.pi * half)
        bulge = np.clip(1 - np.abs(x) ** (2.0 * b.eye_round), 0, 1) ** 0.62
        opened = float(np.clip(pose.eye_open[side], 0.0, 1.2))
        top = w * b.eye_upper * bulge * (-0.72 + 1.72 * opened) * (1 - 0.25 * pose.squint)
        low = -w * b.eye_lower * bulge * (1 - 0.45 * pose.squint)
        top = np.maximum(top, low + 0.0035)
        y = np.where(t < 0.5, top, low) + b.eye_slant * w * x * 0.5
        return np.stack([a0 + sign * x * w / max(np.cos(e0), 0.5), e0 + y], axis=-1)

    def brow(self, side: int, t: Array) -> Array:
        """Chart places (N, 2) round a brow; t in 0..1 from the inner end along the upper edge."""
        b, pose = self.build, self.pose
        sign = SIDES[side][1]
        half = np.where(t < 0.5, t * 2, (1 - t) * 2)
        s = 0.5 - 0.5 * np.cos(np.pi * half)
        a = sign * (b.brow_gap + s * b.brow_span)
        lid = b.eye_upper * b.eye_width * self._eye_reach(side)
        lift = b.eye_e + lid + 0.04 + 0.55 * b.brow_e + pose.brow_raise + self._eye_shift[side]
        mid = lift + b.brow_arch * np.sin(np.pi * s * 0.9) + pose.brow_tilt * (s - 0.5) * b.brow_span * 0.8
        thick = (
            b.brow_thick
            * (0.25 + 0.75 * np.sin(np.pi * (0.12 + 0.8 * s)))
            * np.sqrt(np.clip(4 * s * (1 - s), 0, 1)) ** 0.5
        )
        return np.stack([a, mid + np.where(t < 0.5, 1, -1) * thick / 2], axis=-1)

    def outline(self, t: Array) -> Array:
        """Chart places (N, 2) round the face; t in 0..1, from below the right ear, under the chin."""
        wide, down, up = self.build.outline
        angle = -(np.pi / 2 + OUTLINE_START) - 2 * np.pi * t  # clockwise from straight up, so that it goes down first
        sx, sy = np.sin(angle), np.cos(angle)
        cone = 1 / np.sqrt((sx / wide) ** 2 + (sy / np.where(sy < 0, down, up)) ** 2)
        d = np.stack([sx * np.sin(cone), sy * np.sin(cone), np.cos(cone)], axis=-1)
        return np.stack([np.arctan2(d[..., 0], d[..., 2]), np.arcsin(np.clip(d[..., 1], -1, 1))], axis=-1)

    def side_seam(self, side: int, t: Array) -> Array:
        """Chart places (N, 2) down a side seam, t in 0..1."""
        b = self.build
        sign = SIDES[side][1]
        e = b.seam_side_e + b.seam_side_top - t * (b.seam_side_top + b.seam_side_bottom)
        where = (e - b.seam_side_e) / 0.5
        a = b.seam_side_a + b.seam_side_bow * where - 0.06 * where**2 + 0.012 * self.build.asymmetry[4 + side]
        return np.stack([sign * a, e], axis=-1)

    def bridge_seam(self, t: Array) -> Array:
        """Chart places (N, 2) of the seam from the right side under the eyes and over the nose."""
        b = self.build
        w = b.seam_wiggle
        dip = b.eye_e - b.seam_dip
        nose = b.eye_e + b.seam_rise
        if b.sculpture.crest:
            return _through(self._level_bridge(dip, nose), t)
        knots = np.array(
            [
                [-self._side_a(0), b.seam_side_e + w[0]],
                [-(0.45 * b.seam_dip_a + 0.55 * b.seam_side_a), 0.35 * b.seam_side_e + 0.65 * dip + w[1]],
                [-b.seam_dip_a, dip + w[2]],
                [-0.55 * b.seam_dip_a, 0.8 * dip + 0.2 * nose + w[3]],
                [-0.22 * b.seam_dip_a, 0.25 * dip + 0.75 * nose],
                [0.0, nose],
                [0.22 * b.seam_dip_a, 0.25 * dip + 0.75 * nose],
                [0.55 * b.seam_dip_a, 0.8 * dip + 0.2 * nose + w[4]],
                [b.seam_dip_a, dip + w[5]],
                [0.45 * b.seam_dip_a + 0.55 * b.seam_side_a, 0.35 * b.seam_side_e + 0.65 * dip + w[6]],
                [self._side_a(1), b.seam_side_e + w[0]],
            ]
        )
        return _through(knots, t)

    def _level_bridge(self, dip: float, nose: float) -> Array:
        """Knots (K, 2) of a bridge seam that goes level over the nose, from the right side to the left."""
        b, carved = self.build, self.build.sculpture
        crest = carved.crest * b.seam_dip_a
        foot = crest + carved.shoulder[0] * (b.seam_dip_a - crest)
        out = np.array([0.3, 0.65])[:, None] * (b.seam_side_a - b.seam_dip_a, b.seam_side_e - dip)
        beyond = (b.seam_dip_a, dip) + out
        inner = [
            (0.55 * crest, nose - 0.6 * carved.crest_sag),
            (crest, nose),
            (foot, dip + carved.shoulder[1] * (nose - dip)),
            (b.seam_dip_a, dip),
            *beyond,
        ]
        sides = []
        for side, sign in enumerate((-1.0, 1.0)):
            half = np.array([*inner, (self._side_a(side), b.seam_side_e + b.seam_wiggle[0])])
            half[2:6, 1] += 0.5 * (np.array(carved.waves[:4]) + carved.waves[4 * side : 4 * side + 4])
            sides.append(half * (sign, 1.0))
        return np.concatenate([sides[0][::-1], [(0.0, nose - carved.crest_sag)], sides[1]])

    def _side_a(self, side: int) -> float:
        b = self.build
        top = b.seam_side_top
        t0 = (top - self.build.seam_wiggle[0]) / (top + b.seam_side_bottom)
        return float(abs(self.side_seam(side, np.array([t0]))[0, 0]))


def _through(knots: Array, t: Array) -> Array:
    """Centripetal-like Catmull-Rom through `knots` (K, 2) at t in 0..1, uniform in chord length."""
    chord = np.concatenate([[0], np.cumsum(np.maximum(np.linalg.norm(np.diff(knots, axis=0), axis=1), 1e-9))])
    chord /= chord[-1]
    slope = np.gradient(knots, chord, axis=0)
    i = np.clip(np.searchsorted(chord, t, side="right") - 1, 0, len(knots) - 2)
    h = (chord[i + 1] - chord[i])[:, None]
    s = (t - chord[i])[:, None] / h
    h00, h10 = 2 * s**3 - 3 * s**2 + 1, s**3 - 2 * s**2 + s
    h01, h11 = -2 * s**3 + 3 * s**2, s**3 - s**2
    return np.asarray(h00 * knots[i] + h10 * h * slope[i] + h01 * knots[i + 1] + h11 * h * slope[i + 1])
