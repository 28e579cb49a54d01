"""Everything on a puppet besides its face: eyes, mouth, ears, hair, hat, clothes; and objects in front of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.stage.face import FaceSurface, chart_directions
from rotopaint_ai.stage.mesh import Mesh, ball, from_grid, lathe, tubes
from rotopaint_ai.stage.puppet import PuppetBuild

Array = npt.NDArray[Any]
Rng = np.random.Generator

CHART_A = 2.4  # half range of azimuth that the face's chart covers
CHART_E = 1.5


def chart_uv(places: Array) -> Array:
    """Texture coordinates (…, 2) in 0..1 of chart positions (…, 2)."""
    return np.stack([(places[..., 0] + CHART_A) / (2 * CHART_A), (CHART_E - places[..., 1]) / (2 * CHART_E)], -1)


def head_mesh(face: FaceSurface, *, n: int) -> Mesh:
    """The face's surface over its whole chart, `n` vertices high, denser in front."""
    s = np.linspace(-1, 1, int(n * 1.35))
    a = CHART_A * (0.62 * s + 0.38 * s**3)
    e_grid, a_grid = np.meshgrid(np.linspace(CHART_E, -CHART_E, n), a, indexing="ij")
    points = face.surface(a_grid, e_grid)
    mesh = from_grid(points, "skin", uv=chart_uv(np.stack([a_grid, e_grid], -1)))
    by_a = np.gradient(points, axis=1) / np.gradient(a)[:, None]
    by_e = np.gradient(points, axis=0) * (-(n - 1) / (2 * CHART_E))
    tangents = np.stack([by_a, by_e], 2).reshape(-1, 2, 3)
    return Mesh(mesh.vertices, mesh.normals, mesh.uv, mesh.triangles, "skin", tangents)


def skull_mesh(face: FaceSurface) -> Mesh:
    """The back of the head, a little inside the face's surface."""
    e, a = np.meshgrid(np.linspace(1.57, -1.57, 40), np.linspace(0, 2 * np.pi, 80, endpoint=False), indexing="ij")
    wrapped = (a + np.pi) % (2 * np.pi) - np.pi
    d = chart_directions(a, e)
    inward = np.where(np.abs(wrapped) < 2.2, 0.86, 0.985)
    return from_grid(face.narrow_to_jaw(d * (face.skull(d) * inward)[..., None], e), "skull", wrap=True)


def mouth_inside(face: FaceSurface) -> Mesh:
    """A dark bowl behind the lips with rows of teeth; texture v runs from the palate (0) to the tongue (1)."""
    b = face.build
    w = b.mouth_width * 1.5
    e, a = np.meshgrid(np.linspace(b.mouth_e + 0.16, b.mouth_e - 0.22, 26), np.linspace(-w, w, 30), indexing="ij")
    depth = 0.06 + 0.14 * np.clip(1 - (a / w) ** 2, 0, 1)
    points = face.surface(a, e)
    points = points - np.array([0, 0, 1.0]) * depth[..., None] - chart_directions(a, e) * 0.03
    return from_grid(points, "mouth")


def ears(face: FaceSurface) -> list[Mesh]:
    """Ears on both sides, round or pointed; none where the build has none."""
    b = face.build
    if b.ear < 0.08:
        return []
    made = []
    for sign in (-1.0, 1.0):
        at = face.surface(np.array(sign * 1.62), np.array(-0.05))
        mesh = ball(
            at + np.array([sign * b.ear * 0.3, 0, 0]), np.array([b.ear * 0.42, b.ear, b.ear * 0.62]), "ear", n=16
        )
        v = mesh.vertices.copy()
        up = np.clip((v[:, 1] - at[1]) / b.ear, 0, 1)
        v[:, 0] += sign * b.ear * 1.6 * b.ear_point * up**1.5
        v[:, 1] += b.ear * 1.4 * b.ear_point * up**2
        v[:, 2] *= 1 - 0.5 * b.ear_point * up
        made.append(Mesh(v, mesh.normals, mesh.uv, mesh.triangles, "ear"))
    return made


def _scalp(face: FaceSurface, rng: Rng, n: int) -> tuple[Array, Array]:
    """`n` places on the scalp: points and outward directions (n, 3)."""
    hairline = 0.72 + 0.2 * face.build.forehead
    picked: list[Array] = []
    while sum(len(p) for p in picked) < n:
        d = rng.normal(size=(4 * n, 3))
        d /= np.linalg.norm(d, axis=1, keepdims=True)
        a, e = np.arctan2(d[:, 0], d[:, 2]), np.arcsin(d[:, 1])
        front = (np.abs(a) < 1.75) & (e < hairline - 0.22 * np.clip(np.abs(a) - 0.7, 0, 1) ** 1.0)
        low = e < -0.75
        picked.append(d[~(front | low)])
    d = np.concatenate(picked)[:n]
    return d * face.skull(d)[:, None] * 0.99, d


def _tints(rng: Rng, colour: tuple[float, float, float], n: int) -> Array:
    return np.array(colour)[None] * np.exp(rng.normal(0, 0.22, (n, 1))) * np.exp(rng.normal(0, 0.04, (n, 3)))


def hair(face: FaceSurface, rng: Rng) -> list[Mesh]:
    """Hair of the build's kind: felt tufts, long strands or a moulded cap."""
    b = face.build
    if b.hair == "none":
        return []
    if b.hair == "cap":
        return [_cap(face, rng)]
    tufts = b.hair == "tufts"
    n = int(rng.integers(120, 280)) if tufts else int(rng.integers(110, 260))
    root, d = _scalp(face, rng, n)
    k = 6 if tufts else 12
    s = np.linspace(0, 1, k)[None, :, None]
    length = (rng.uniform(0.16, 0.5, (n, 1, 1)) if tufts else rng.uniform(0.7, 1.7, (n, 1, 1))) * rng.uniform(0.7, 1.2)
    sweep = rng.normal(0, 0.35, (n, 1, 3)) + rng.normal(0, 0.3, (1, 1, 3))
    fall = np.array([0, -1.0, 0]) * (0.35 if tufts else 1.25)
    away = d[:, None] * (1.0 if tufts else 0.55)
    spine = root[:, None] + length * (away * s + (sweep * 0.5 + fall) * s**2 * (0.6 if tufts else 1.0))
    back = np.maximum(0.0, spine[..., 2] - (b.depth * 0.55 + 0.3 * (np.abs(spine[..., 0]) > b.width * 0.75)))
    spine[..., 2] -= back * (0.85 if spine.shape[1] else 0)
    thick = rng.uniform(0.05, 0.1, (n, 1)) if tufts else rng.uniform(0.012, 0.03, (n, 1))
    radii = thick * (1 - np.linspace(0, 1, k)[None] ** 1.5) ** 0.8 + 0.002
    return [
        tubes(spine, radii, "hair", colours=_tints(rng, b.hair_colour, n), sides=6 if tufts else 4),
        _cap(face, rng, thin=True),
    ]


def _cap(face: FaceSurface, rng: Rng, *, thin: bool = False) -> Mesh:
    e, a = np.meshgrid(np.linspace(1.55, -0.8, 46), np.linspace(0, 2 * np.pi, 120, endpoint=False), indexing="ij")
    wrapped = (a + np.pi) % (2 * np.pi) - np.pi
    line = np.where(np.abs(wrapped) < 1.9, 0.82 - 0.3 * np.clip(np.abs(wrapped) - 0.5, 0, 1.4) ** 1.2, -0.75)
    over = np.clip((e - line) / 0.14, 0, 1)
    d = chart_directions(a, e)
    wave = 0.03 * np.sin(wrapped * rng.integers(5, 14) + 5 * e + rng.uniform(0, 6)) + 0.02 * np.sin(
        wrapped * rng.integers(14, 30)
    )
    lift = (0.012 if thin else 0.075 + wave) * np.sqrt(over) + np.where(over > 0, 0.0, -0.25)
    r = face.skull(d) + lift
    colour = _tints(rng, face.build.hair_colour, 1)[0] * (1 + 6 * wave[..., None])
    return from_grid(
        face.narrow_to_jaw(d * r[..., None], e), "hair", wrap=True, colour=np.broadcast_to(colour, (*a.shape, 3)).copy()
    )


def hat(face: FaceSurface, rng: Rng) -> list[Mesh]:
    """A hat of the build's kind."""
    b = face.build
    if b.hat == "none":
        return []
    y = b.height * rng.uniform(0.5, 0.68)
    w = b.width * 1.03
    top = {"witch": 2.1, "bowler": 0.75, "beanie": 0.62}[b.hat]
    rim = {"witch": rng.uniform(0.35, 0.7), "bowler": rng.uniform(0.12, 0.3), "beanie": 0.07}[b.hat]
    s = np.linspace(0, 1, 20)
    if b.hat == "witch":
        body = np.stack([0.02 + (w - 0.02) * s**0.9, y + top * (1 - s)], -1)
    else:
        body = np.stack([w * np.sin(s * np.pi / 2) ** 0.7, y + top * np.cos(s * np.pi / 2)], -1)
    brim = np.array(
        [
            [w, y],
            [w + rim * 0.5, y - 0.03],
            [w + rim, y + rng.uniform(-0.08, 0.1)],
            [w + rim * 0.98, y - 0.06],
            [w * 0.9, y - 0.05],
        ]
    )
    made = [lathe(np.concatenate([body, brim]), "hat", squash=(1.0, b.depth / b.width))]
    if rng.random() < 0.6:
        band = np.stack([np.full(4, w * 1.015), y + np.array([0.16, 0.12, 0.05, 0.01])], -1)
        made.append(lathe(band * np.array([[1.0, 1.0]]), "band", squash=(1.0, b.depth / b.width)))
    tilt = rng.normal(0, 0.08)
    turn = np.array([[np.cos(tilt), -np.sin(tilt), 0], [np.sin(tilt), np.cos(tilt), 0], [0, 0, 1.0]])
    lean = rng.uniform(-0.28, -0.05)
    back = np.array([[1.0, 0, 0], [0, np.cos(lean), -np.sin(lean)], [0, np.sin(lean), np.cos(lean)]])
    return [m.moved(back @ turn, np.zeros(3)) for m in made]


def eyeballs(face: FaceSurface) -> list[Mesh]:
    """Both eyes; their gaze is drawn by the material."""
    return [ball(e.centre, np.full(3, e.radius), f"eye{side}", n=40) for side, e in enumerate(face.eyeballs)]


def torso(build: PuppetBuild, rng: Rng) -> list[Mesh]:
    """Neck, collar and shoulders, which do not turn with the head."""
    low = -build.height * 0.82 - build.chin_length
    r = build.width * rng.uniform(0.26, 0.5)
    neck = lathe(np.array([[r, low + 0.5], [r * 0.95, low - 0.2], [r * 1.1, low - 0.7]]), "ear")
    y = low - rng.uniform(0.2, 0.4)
    wide = rng.uniform(0.7, 1.3)
    s = np.linspace(0, 1, 16)
    body = lathe(
        np.stack([r * 1.2 + wide * np.sin(s * np.pi / 2) ** 1.3, y - 1.6 * (1 - np.cos(s * np.pi / 2)) - 0.6 * s], -1),
        "cloth",
        squash=(1.15, 0.7),
    )
    made = [neck, body]
    if rng.random() < 0.7:
        t = np.linspace(0, 2 * np.pi, 14)
        tube, around = rng.uniform(0.08, 0.2), r * 1.25
        made.append(lathe(np.stack([around + tube * np.cos(t), y + 0.05 - tube * np.sin(t) * 1.3], -1), "collar"))
    return made


def occluder(face: FaceSurface, rng: Rng) -> list[Mesh]:
    """An object in front of the face: fingers of a hand, a stick with a ball, or a strand of ribbon."""
    at = face.surface(np.array(rng.uniform(-0.7, 0.7)), np.array(rng.uniform(-0.9, 0.3))) + np.array(
        [0, 0, rng.uniform(0.15, 0.5)]
    )
    away = rng.normal(size=3) * np.array([1, 1, 0.15])
    away /= np.linalg.norm(away)
    kind = rng.random()
    if kind < 0.5:
        n = int(rng.integers(1, 5))
        side = np.cross(away, [0, 0, 1.0])
        s = np.linspace(0, 1, 8)[None, :, None]
        start = at + side * (np.arange(n)[:, None] - n / 2) * 0.16
        spine = start[:, None] + away * s * 1.6 + np.array([0, 0, 0.25]) * s**2
        radii = np.broadcast_to(
            0.075 * np.sqrt(np.clip(1 - (1 - np.linspace(0, 1, 8) * 6).clip(0, 1) ** 2, 0.02, 1))[None], (n, 8)
        )
        return [tubes(spine, radii.copy(), "hand", sides=10)]
    s = np.linspace(0, 1, 6)[None, :, None]
    stick = tubes((at + away * s * 3.0), np.full((1, 6), rng.uniform(0.015, 0.05)), "prop", sides=8)
    return [stick, ball(at, np.full(3, rng.uniform(0.06, 0.2)), "prop", n=18)] if kind < 0.85 else [stick]
