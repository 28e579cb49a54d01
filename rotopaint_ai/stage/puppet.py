"""Characters of the stage: a character's build as one frozen value made from a seed, and its poses.

Lengths are in head units (the head's half height is about 1). Chart coordinates `a` (azimuth, radians, positive towards
the character's own left, which is the right of the picture) and `e` (elevation, radians) name a place on the head.
"""

from __future__ import annotations

import colorsys
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Colour = tuple[float, float, float]
Hair = Literal["tufts", "strands", "cap", "none"]
Hat = Literal["none", "witch", "bowler", "beanie"]

NECK = np.array([0.0, -0.55, -0.1])  # the head rotates about this point of head space


@dataclass(frozen=True, slots=True)
class Sculpture:
    """How deeply a face is carved, beyond what every puppet has; the default adds nothing.

    lid_rings: rings round each eye, as radius and width in radii of the eyeball, and height in head units (below 0: a
    groove). pouch: height of the bags below the eyes, head units. nose_wall, nose_swell: exponents of the nose's
    profile across and along. crest: half width of the seam's level part over the nose, as a share of the distance of
    its dip (0: a peak). crest_sag: how far that part sags in the middle, radians. shoulder: the foot of the steep part,
    as a share of the way from crest to dip, and its height above the dip, as a share of the crest's. waves: shifts of
    the seam's four knots from that foot on, radians: four on the right side; on the left the mean of these and of
    four more. side_strength: of the damage by side seams, but for the shade between the two pieces.
    """

    lid_rings: tuple[tuple[float, float, float], ...] = ()
    pouch: float = 0.0
    nose_wall: float = 2.3
    nose_swell: float = 1.35
    crest: float = 0.0
    crest_sag: float = 0.0
    shoulder: tuple[float, float] = (0.5, 0.2)
    waves: tuple[float, ...] = (0.0,) * 8
    side_strength: float = 1.0


@dataclass(frozen=True, slots=True)
class PuppetBuild:
    """The fixed properties of a character: shape of the head, features, paint, and the split of its face."""

    seed: int
    width: float
    height: float
    depth: float
    squareness: float
    jaw_width: float
    jaw_start: float
    chin_length: float
    cheek: float
    forehead: float
    brow_ridge: float
    eye_a: float
    eye_e: float
    eye_radius: float
    eye_depth: float
    eye_width: float
    eye_round: float
    eye_slant: float
    eye_upper: float
    eye_lower: float
    nose_e: float
    nose_length: float
    nose_width: float
    nose_droop: float
    nose_bridge: float
    nose_ball: float
    mouth_e: float
    mouth_width: float
    lip_upper: float
    lip_lower: float
    brow_e: float
    brow_span: float
    brow_arch: float
    brow_thick: float
    brow_gap: float
    outline: tuple[float, float, float]
    seam_side_a: float
    seam_side_e: float
    seam_side_top: float
    seam_side_bottom: float
    seam_side_bow: float
    seam_dip: float
    seam_dip_a: float
    seam_rise: float
    seam_wiggle: tuple[float, ...]
    seam_gap: float
    seam_bevel: float
    seam_depth: float
    seam_step: float
    skin: Colour
    skin_shadow: Colour
    lip: Colour
    brow_colour: Colour
    iris: Colour
    hair_colour: Colour
    hat_colour: Colour
    cloth: Colour
    blush: float
    freckles: int
    wrinkles: int
    roughness: float
    specular: float
    print_lines: float
    iris_size: float
    pupil_size: float
    hair: Hair
    hat: Hat
    ear: float
    ear_point: float
    asymmetry: tuple[float, ...] = field(default=())
    sculpture: Sculpture = field(default=Sculpture())


@dataclass(frozen=True, slots=True)
class Pose:
    """The variable properties of a character at one exposure."""

    yaw: float = 0.0
    pitch: float = 0.0
    roll: float = 0.0
    mouth_open: float = 0.0
    mouth_wide: float = 1.0
    smile: float = 0.0
    brow_raise: float = 0.0
    brow_tilt: float = 0.0
    eye_open: tuple[float, float] = (1.0, 1.0)
    gaze: tuple[float, float] = (0.0, 0.0)
    squint: float = 0.0


def head_rotation(pose: Pose) -> Array:
    """Rotation (3, 3) of the head: roll, then pitch, then yaw; positive yaw looks to the right of the picture."""
    cy, sy, cp, sp, cr, sr = (
        np.cos(pose.yaw),
        np.sin(pose.yaw),
        np.cos(pose.pitch),
        np.sin(pose.pitch),
        np.cos(pose.roll),
        np.sin(pose.roll),
    )
    yaw = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    pitch = np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
    roll = np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
    return np.asarray(roll @ yaw @ pitch)


def place(pose: Pose) -> tuple[Array, Array]:
    """The position of the head: rotation (3, 3) and shift (3,) from head space to stage space."""
    rotation = head_rotation(pose)
    return rotation, NECK - rotation @ NECK


def _hsv(
    rng: np.random.Generator, hue: tuple[float, float], sat: tuple[float, float], val: tuple[float, float]
) -> Colour:
    r, g, b = colorsys.hsv_to_rgb(rng.uniform(*hue) % 1.0, rng.uniform(*sat), rng.uniform(*val))
    return r**2.2, g**2.2, b**2.2


def _random_skin(rng: np.random.Generator) -> tuple[Colour, Colour]:
    kind = rng.random()
    if kind < 0.62:  # human tones, pale to dark
        skin = _hsv(rng, (0.015, 0.095), (0.2, 0.62), (0.3, 0.98))
    elif kind < 0.92:  # creatures of any colour
        skin = _hsv(rng, (0.0, 1.0), (0.15, 0.8), (0.3, 0.9))
    else:  # unpainted print
        skin = _hsv(rng, (0.0, 1.0), (0.0, 0.08), (0.45, 0.95))
    tint = np.array([1.0, 0.62, 0.5]) if kind < 0.62 else rng.uniform(0.55, 1.0, 3)
    shadow = np.array(skin) * tint
    return skin, (float(shadow[0]), float(shadow[1]), float(shadow[2]))


def _random_seams(rng: np.random.Generator, eye_a: float, eye_e: float, eye_reach: float) -> dict[str, Any]:
    return {
        "seam_side_a": float(np.clip(eye_a + eye_reach + rng.uniform(0.08, 0.5), 0.78, 1.38)),
        "seam_side_e": eye_e + rng.uniform(-0.2, 0.12),
        "seam_side_top": rng.uniform(0.1, 0.75),
        "seam_side_bottom": rng.uniform(0.12, 0.6),
        "seam_side_bow": rng.uniform(-0.12, 0.12),
        "seam_dip": eye_reach * rng.uniform(0.85, 1.25) + rng.uniform(0.0, 0.06),
        "seam_dip_a": eye_a * rng.uniform(0.7, 1.15),
        "seam_rise": rng.uniform(-0.28, 0.22),
        "seam_wiggle": tuple(rng.normal(0.0, 0.016, 7).tolist()),
        "seam_gap": float(np.exp(rng.uniform(np.log(0.003), np.log(0.016)))),
        "seam_bevel": float(np.exp(rng.uniform(np.log(0.006), np.log(0.03)))),
        "seam_depth": rng.uniform(0.25, 1.0),
        "seam_step": rng.normal(0.0, 0.035),
    }


def draw_build(seed: int, *, sculpted: bool = False) -> PuppetBuild:
    """A character from a seed; every proportion, colour and seam is random.

    `sculpted`: a face that is carved more deeply: a nose that begins between the eyes, lids with rims, bags below the
    eyes, and mostly a seam that goes level over the nose and steeply down its sides.
    """
    rng = np.random.default_rng([seed, 0x9E3779B9])
    u = rng.uniform
    width, height, depth = u(0.72, 1.02), u(0.92, 1.15), u(0.8, 1.0)
    radius = u(0.17, 0.34)
    eye_a = float(np.clip(u(0.3, 0.52) + 0.35 * (radius - 0.22), radius * 1.02, 0.62))
    eye_e = u(-0.02, 0.26)
    reach = float(np.arcsin(min(radius / (0.85 * width), 0.9)))
    skin, shadow = _random_skin(rng)
    nose_droop = u(-0.25, 0.25) if rng.random() < 0.75 else u(0.2, 0.75)
    lip_tint = np.array(skin) * u(0.45, 1.0) * np.array([1.0, u(0.35, 0.9), u(0.35, 0.9)])
    brow_kind = rng.random()
    brow = (
        _hsv(rng, (0.0, 0.12), (0.2, 0.7), (0.04, 0.35)) if brow_kind < 0.8 else _hsv(rng, (0, 1), (0, 0.8), (0.1, 0.9))
    )
    hair_colour = brow if rng.random() < 0.6 else _hsv(rng, (0, 1), (0, 0.85), (0.05, 0.9))
    build = PuppetBuild(
        seed=seed,
        width=width,
        height=height,
        depth=depth,
        squareness=u(1.9, 2.7),
        jaw_width=u(0.5, 1.05),
        jaw_start=u(-0.25, 0.15),
        chin_length=u(-0.08, 0.32),
        cheek=u(-0.04, 0.12),
        forehead=u(-0.03, 0.08),
        brow_ridge=u(0.0, 0.06),
        eye_a=eye_a,
        eye_e=eye_e,
        eye_radius=radius,
        eye_depth=u(0.55, 0.9),
        eye_width=min(u(0.62, 0.92), 0.86 * eye_a / reach),
        eye_round=u(0.7, 1.25),
        eye_slant=u(-0.22, 0.25),
        eye_upper=u(0.55, 0.95),
        eye_lower=u(0.4, 0.85),
        nose_e=u(-0.32, -0.08),
        nose_length=u(0.1, 0.45) if nose_droop < 0.3 else u(0.35, 0.85),
        nose_width=u(0.1, 0.2),
        nose_droop=nose_droop,
        nose_bridge=u(0.12, 0.5),
        nose_ball=u(0.0, 0.12),
        mouth_e=u(-0.68, -0.45),
        mouth_width=u(0.16, 0.4),
        lip_upper=u(0.018, 0.07),
        lip_lower=u(0.02, 0.085),
        brow_e=u(0.2, 0.42),
        brow_span=u(0.26, 0.5),
        brow_arch=u(0.0, 0.14),
        brow_thick=u(0.02, 0.07),
        brow_gap=u(0.1, 0.24),
        outline=(u(1.1, 1.36), u(0.95, 1.25), u(1.02, 1.3)),
        **_random_seams(rng, eye_a, eye_e, reach * 0.9),
        skin=skin,
        skin_shadow=shadow,
        lip=(float(lip_tint[0]), float(lip_tint[1]), float(lip_tint[2])),
        brow_colour=brow,
        iris=_hsv(rng, (0, 1), (0.3, 0.95), (0.15, 0.9)),
        hair_colour=hair_colour,
        hat_colour=_hsv(rng, (0, 1), (0.1, 0.9), (0.05, 0.6)),
        cloth=_hsv(rng, (0, 1), (0.1, 0.9), (0.08, 0.8)),
        blush=u(0.0, 0.5),
        freckles=int(rng.integers(0, 60)) if rng.random() < 0.5 else 0,
        wrinkles=int(rng.integers(1, 7)) if rng.random() < 0.5 else 0,
        roughness=u(0.25, 0.7),
        specular=u(0.02, 0.22),
        print_lines=u(0.0, 0.03) if rng.random() < 0.4 else 0.0,
        iris_size=u(0.4, 0.68),
        pupil_size=u(0.3, 0.62),
        hair=str(rng.choice(["tufts", "strands", "cap", "none"], p=[0.36, 0.24, 0.28, 0.12])),  # type: ignore[arg-type]
        hat=str(rng.choice(["none", "witch", "bowler", "beanie"], p=[0.66, 0.12, 0.12, 0.1])),  # type: ignore[arg-type]
        ear=u(0.0, 0.32),
        ear_point=u(0.0, 1.0) if rng.random() < 0.35 else 0.0,
        asymmetry=tuple(rng.normal(0.0, 1.0, 12).tolist()),
    )
    return _sculpt(build) if sculpted else build


def _sculpt(build: PuppetBuild) -> PuppetBuild:
    """The character with a face that is carved more deeply."""
    rng = np.random.default_rng([build.seed, 0x5C01])
    u = rng.uniform
    rings = [
        (u(0.95, 1.6), u(0.03, 0.14), u(-0.025, 0.03)) for _ in range(int(rng.integers(1, 5)) * (rng.random() < 0.85))
    ]
    top = build.eye_e + u(-0.1, 0.32)
    return replace(
        build,
        nose_bridge=max(top - build.nose_e, 0.15),
        nose_length=float(np.exp(u(np.log(0.12), np.log(0.85)))),
        nose_width=u(0.09, 0.24),
        seam_rise=u(-0.3, 0.12),
        seam_dip=build.seam_dip + u(-0.02, 0.1),
        sculpture=Sculpture(
            lid_rings=tuple(rings),
            pouch=u(-0.015, 0.06) * (rng.random() < 0.6),
            nose_wall=u(1.8, 5.0),
            nose_swell=u(0.5, 1.4),
            crest=u(0.06, 0.55) * (rng.random() < 0.85),
            crest_sag=rng.normal(0.0, 0.02),
            shoulder=(u(0.2, 0.9), u(0.0, 0.35)),
            waves=tuple(rng.normal(0.0, 0.02, 8).tolist()),
            side_strength=u(0.15, 1.0) if rng.random() < 0.6 else 1.0,
        ),
    )


def draw_pose(rng: np.random.Generator, *, reach: float = 1.0) -> Pose:
    """A random pose: talking or silent mouth, brows, blink, gaze, rotation of the head (radians, scaled by `reach`)."""
    talking = rng.random() < 0.6
    blink = rng.random()
    eye = rng.uniform(0.75, 1.15) if blink > 0.25 else rng.uniform(0.0, 0.7)
    wink = eye * (rng.uniform(0.0, 0.5) if rng.random() < 0.04 else 1.0)
    return Pose(
        yaw=float(np.clip(rng.normal(0.0, 0.3), -0.75, 0.75)) * reach,
        pitch=float(np.clip(rng.normal(0.0, 0.16), -0.45, 0.45)) * reach,
        roll=float(rng.normal(0.0, 0.12)) * reach,
        mouth_open=float(rng.beta(1.2, 2.2)) if talking else 0.0,
        mouth_wide=rng.uniform(0.55, 1.3),
        smile=rng.uniform(-0.6, 1.0),
        brow_raise=rng.normal(0.0, 0.05),
        brow_tilt=rng.normal(0.0, 0.28),
        eye_open=(float(eye), float(wink)) if rng.random() < 0.5 else (float(wink), float(eye)),
        gaze=(float(rng.normal(0.0, 0.3)), float(rng.normal(0.0, 0.18))),
        squint=rng.uniform(0.0, 0.3),
    )
