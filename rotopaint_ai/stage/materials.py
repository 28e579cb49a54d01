"""Materials of the visible surfaces: skin with its paint and features, eyes, mouth, hair, cloth."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.stage import anatomy, front_objects, props, rigs
from rotopaint_ai.stage.face import FaceSurface
from rotopaint_ai.stage.face_paint import FacePaint, mask
from rotopaint_ai.stage.mesh import Mesh
from rotopaint_ai.stage.puppet import PuppetBuild, place
from rotopaint_ai.stage.shading import Surfaces
from rotopaint_ai.stage.view import SurfacePixels, lookup

F32 = npt.NDArray[Any]  # float32

_METAL = (0.35, 0.3, 0.0)  # specular, roughness, wrap


def features_of(face: FaceSurface, width: int) -> dict[str, F32]:
    """Masks over a chart of `width` texels that depend on the pose: holes for eyes and mouth, lips, brows."""
    t = np.linspace(0, 1, 160, endpoint=False)
    return {
        "holes": mask([face.eye(0, t), face.eye(1, t), face.mouth(t, inner=True)], width=width),
        "lips": mask([face.mouth(t, inner=False)], width=width, soft=0.8 * width / 1024),
        "brows": mask([face.brow(0, t), face.brow(1, t)], width=width, soft=0.5 * width / 1024),
    }


def _skin(
    g: SurfacePixels,
    sel: npt.NDArray[np.intp],
    s: Surfaces,
    face: FaceSurface,
    texture: FacePaint,
    features: dict[str, F32],
) -> None:
    b = face.build
    uv = g.uv[sel]
    albedo = lookup(texture.albedo, uv)
    lips, brows = lookup(features["lips"], uv)[:, None], lookup(features["brows"], uv)[:, None]
    albedo = albedo * (1 - lips) + np.array(b.lip, np.float32) * lips
    albedo = albedo * (1 - brows) + np.array(b.brow_colour, np.float32) * brows
    height = texture.relief + 0.02 * cv2.GaussianBlur(features["brows"], (0, 0), 2.2 * texture.relief.shape[1] / 1024)
    step = 2 * props.CHART_A / texture.relief.shape[1]
    by_a = lookup(cv2.Sobel(height, cv2.CV_32F, 1, 0, scale=1 / (8 * step)), uv)[:, None]
    by_e = -lookup(cv2.Sobel(height, cv2.CV_32F, 0, 1, scale=1 / (8 * step)), uv)[:, None]
    ta, te = g.tangents[sel, 0], g.tangents[sel, 1]
    slope = ta * by_a / np.maximum((ta**2).sum(1, keepdims=True), 1e-4) + te * by_e / np.maximum(
        (te**2).sum(1, keepdims=True), 1e-4
    )
    normal = g.normal[sel] - slope
    s.normals[sel] = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-6)
    s.albedo[sel] = albedo
    s.shadow_tint[sel] = albedo * (np.array(b.skin_shadow, np.float32) / np.maximum(np.array(b.skin, np.float32), 1e-3))
    s.specular[sel], s.roughness[sel], s.wrap[sel] = b.specular, b.roughness, 0.35
    glossy = lips[:, 0] > 0.5
    s.roughness[sel[glossy]] *= 0.75


def _shade_eye(g: SurfacePixels, sel: npt.NDArray[np.intp], s: Surfaces, face: FaceSurface, side: int) -> None:
    b = face.build
    rotation, shift = place(face.pose)
    ball = face.eyeballs[side]
    centre = rotation @ ball.centre + shift
    out = (g.position[sel] - centre) / ball.radius
    look = (rotation @ anatomy.pupil(face, side) + shift - centre) / ball.radius
    angle = np.arccos(np.clip(out @ look, -1, 1))
    iris, hole = b.iris_size * 0.95, b.iris_size * b.pupil_size * 0.95
    t = np.clip((angle - hole) / (iris - hole), 0, 1)[:, None]
    spokes = 1 + 0.18 * np.sin(23 * np.arctan2(out[:, 0] - look[0], out[:, 1] - look[1]) + 9 * t[:, 0])[:, None]
    coloured = np.array(b.iris, np.float32) * spokes * (0.55 + 0.9 * t) * np.where(t > 0.86, 0.45, 1.0)
    white = np.array([0.82, 0.8, 0.76], np.float32) * (1 - 0.12 * np.clip(angle - iris, 0, 1))[:, None]
    outside_hole, outside_iris = (np.clip((angle - at) / 0.02 + 0.5, 0, 1)[:, None] for at in (hole, iris))
    albedo = coloured * outside_hole + 0.004 * (1 - outside_hole)
    s.albedo[sel] = albedo * (1 - outside_iris) + white * outside_iris
    s.shadow_tint[sel] = s.albedo[sel]
    s.specular[sel], s.roughness[sel], s.wrap[sel] = 0.25, 0.22, 0.15


def _mouth(g: SurfacePixels, sel: npt.NDArray[np.intp], s: Surfaces) -> None:
    v, u = g.uv[sel, 1], g.uv[sel, 0]
    upper = np.clip((0.5 - v) / 0.02, 0, 1) * (v > 0.18)
    gap = np.clip(np.abs(((u * 16) % 1) - 0.5) * 2 - 0.85, 0, 0.15) / 0.15
    teeth = (upper * (np.abs(u - 0.5) < 0.36) * (1 - 0.6 * gap))[:, None]
    s.albedo[sel] = teeth * np.array([0.7, 0.66, 0.55]) + (1 - teeth) * np.array([0.09, 0.015, 0.015])
    s.shadow_tint[sel] = s.albedo[sel]
    s.specular[sel], s.roughness[sel] = 0.05, 0.4
    s.open_sky[sel] *= 0.45
    s.lit[sel] *= 0.6


def _shade_plain(g: SurfacePixels, sel: npt.NDArray[np.intp], s: Surfaces, material: str, b: PuppetBuild) -> None:
    rng = np.random.default_rng([b.seed, len(material)])
    base = {
        "skull": b.hair_colour if b.hair != "none" else b.skin,
        "ear": b.skin,
        "hand": tuple(rng.uniform(0.1, 0.8, 3)),
        "hat": b.hat_colour,
        "band": tuple(rng.uniform(0.02, 0.6, 3)),
        "cloth": b.cloth,
        "collar": tuple(np.clip(np.array(b.cloth) * rng.uniform(0.4, 2.5), 0, 0.9)),
        "prop": tuple(rng.uniform(0.02, 0.8, 3)),
        rigs.MATERIAL: (0.22, 0.22, 0.24),
    }
    if material == "hair":
        s.albedo[sel] = g.colour[sel] * (0.6 + 0.6 * g.uv[sel, :1])
    elif material == front_objects.MATERIAL:
        s.albedo[sel] = g.colour[sel]
    else:
        s.albedo[sel] = np.array(base[material], np.float32)
    s.shadow_tint[sel] = s.albedo[sel]
    s.specular[sel], s.roughness[sel], s.wrap[sel] = (
        (0.06, 0.45, 0.1) if material in ("hair", "hat") else _METAL if material == rigs.MATERIAL else (0.03, 0.6, 0.2)
    )


def surfaces_of(
    g: SurfacePixels,
    meshes: list[Mesh],
    face: FaceSurface,
    texture: FacePaint,
    features: dict[str, F32],
    open_sky: F32,
    lit: F32,
) -> Surfaces:
    """The surfaces at N pixels.

    `texture`: the paint of the skin. `features`: masks from `features_of`. `open_sky` and `lit` (N,): shares of the sky
    and of the key light that reach the surfaces."""
    n = len(g.material)
    one = np.ones(n, np.float32)
    s = Surfaces(
        g.normal.copy(),
        np.zeros((n, 3), np.float32),
        np.zeros((n, 3), np.float32),
        one * 0.03,
        one * 0.5,
        one * 0.1,
        open_sky,
        lit,
    )
    for k, mesh in enumerate(meshes):
        sel = np.flatnonzero(g.material == k)
        if not len(sel):
            continue
        if mesh.material == "skin":
            _skin(g, sel, s, face, texture, features)
        elif mesh.material.startswith("eye"):
            _shade_eye(g, sel, s, face, int(mesh.material[3]))
        elif mesh.material == "mouth":
            _mouth(g, sel, s)
        else:
            _shade_plain(g, sel, s, mesh.material, face.build)
    return s
