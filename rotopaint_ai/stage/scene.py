"""One frame of the stage: plate with the seam, the identical frame without it, and exact truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.shapes.fit import fit_segments
from rotopaint_ai.stage import anatomy, props, raster
from rotopaint_ai.stage.face import Face
from rotopaint_ai.stage.looks import STEP_REACH, Look
from rotopaint_ai.stage.looks import carve as looks_carve
from rotopaint_ai.stage.mesh import Mesh
from rotopaint_ai.stage.paint import Paint, folded, mask, paint
from rotopaint_ai.stage.puppet import Build, Pose
from rotopaint_ai.stage.seam import beside_seams, carve, near_seams
from rotopaint_ai.stage.shading import Surfaces, contact, light
from rotopaint_ai.stage.studio import Studio, backdrop, develop

F32 = npt.NDArray[Any]  # float32
Array = npt.NDArray[Any]

SUPER = 2  # samples per pixel along each axis
NECK = np.array([0.0, -0.55, -0.1])  # the head turns about this point of head space


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole on the z axis: picture size, pixels per head unit, and where the head stands in the picture."""

    width: int
    height: int
    scale: float
    centre: tuple[float, float]
    distance: float

    def project(self, points: Array) -> Array:
        """World points (…, 3) to (…, 3): picture x, y (y down, corner origin) and depth."""
        depth = self.distance - points[..., 2]
        f = self.scale * self.distance / depth
        return np.stack([self.centre[0] + f * points[..., 0], self.centre[1] - f * points[..., 1], depth], -1)


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape's exact truth: control points (P, 6) in picture space, and per point whether it can be seen."""

    name: str
    closed: bool
    role: str
    points: Array
    visible: npt.NDArray[np.bool_]
    width_px: float | None


@dataclass(frozen=True, slots=True)
class Picture:
    """A rendered frame: linear plate and clean (H, W, 3), coverage of the seam (H, W), landmarks (L, 3)."""

    plate: F32
    clean: F32
    seam: F32
    landmarks: Array
    shapes: tuple[Shape, ...]


@lru_cache(maxsize=4)
def _painted(build: Build, width: int) -> Paint:
    return paint(build, Face(build, Pose()), width=width)


def turn(pose: Pose) -> Array:
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


def _place(face: Face) -> tuple[Array, Array]:
    rotation = turn(face.pose)
    return rotation, NECK - rotation @ NECK


@dataclass(slots=True)
class _View:
    """A z-buffered look at a list of meshes."""

    depth: F32
    ids: npt.NDArray[np.int32]
    bary: F32
    first: list[int]


def _look(meshes: list[Mesh], projected: list[Array], holes: F32, shape: tuple[int, int], *, cull: bool) -> _View:
    depth = np.full(shape, 1e9, np.float32)
    ids = np.full(shape, -1, np.int32)
    bary = np.zeros((*shape, 2), np.float32)
    first, count = [], 0
    none = np.zeros((1, 1), np.float32)
    for mesh, xyz in zip(meshes, projected):
        first.append(count)
        cut = holes if mesh.material == "skin" else none
        raster.draw(
            xyz.astype(np.float32), mesh.uv.astype(np.float32), mesh.triangles, cut, count, depth, ids, bary, cull
        )
        count += len(mesh.triangles)
    return _View(depth, ids, bary, first + [count])


def _shadow(meshes: list[Mesh], studio: Studio, points: Array, *, size: int) -> F32:
    """Share of the key light (N,) that reaches world points (N, 3)."""
    z = studio.key.direction
    x = np.cross([0.0, 1.0, 0.0], z)
    x /= np.linalg.norm(x)
    basis = np.stack([x, np.cross(z, x), z])
    reach = 2.6

    def to_map(p: Array) -> Array:
        q = p @ basis.T
        return np.stack([(q[..., 0] / reach + 1) * size / 2, (1 - q[..., 1] / reach) * size / 2, 20 - q[..., 2]], -1)

    view = _look(meshes, [to_map(m.vertices) for m in meshes], np.zeros((1, 1), np.float32), (size, size), cull=False)
    at = to_map(points)
    total = np.zeros(len(points), np.float32)
    soft = studio.shadow_soft * size / 512
    offsets = [
        (r * np.cos(t), r * np.sin(t))
        for r, n in ((0.0, 1), (0.5, 5), (1.0, 8))
        for t in np.arange(n) * 2 * np.pi / n + r
    ]
    near = np.where(view.depth > 1e8, 1e3, view.depth).astype(np.float32)
    for dx, dy in offsets:
        sx, sy = (at[:, 0] + dx * soft - 0.5).astype(np.float32), (at[:, 1] + dy * soft - 0.5).astype(np.float32)
        d = _sample(near, sx, sy, cv2.INTER_NEAREST)
        total += np.clip((d - (at[:, 2] - 0.03)) / 0.02 + 1, 0, 1)
    return total / len(offsets)


def _sample(texture: F32, x: F32, y: F32, how: int) -> F32:
    """Values (N,) or (N, C) of a texture at (N,) texel places; `cv2.remap` takes no side longer than 32766."""
    n = len(x)
    if not n:  # nothing of it is on the picture
        return np.zeros((0, *texture.shape[2:]), np.float32)
    rows = -(-n // 1024)
    xy = np.zeros((2, rows * 1024), np.float32)
    xy[0, :n], xy[1, :n] = x, y
    out = cv2.remap(texture, xy[0].reshape(rows, 1024), xy[1].reshape(rows, 1024), how, borderMode=cv2.BORDER_REPLICATE)
    return out.reshape(rows * 1024, *texture.shape[2:])[:n]


def _lookup(texture: F32, uv: F32) -> F32:
    h, w = texture.shape[:2]
    return _sample(texture, uv[:, 0] * w - 0.5, uv[:, 1] * h - 0.5, cv2.INTER_LINEAR)


def _features(face: Face, width: int) -> dict[str, F32]:
    t = np.linspace(0, 1, 160, endpoint=False)
    return {
        "holes": mask([face.eye(0, t), face.eye(1, t), face.mouth(t, inner=True)], width=width),
        "lips": mask([face.mouth(t, inner=False)], width=width, soft=0.8 * width / 1024),
        "brows": mask([face.brow(0, t), face.brow(1, t)], width=width, soft=0.5 * width / 1024),
    }


def _meshes(face: Face, studio: Studio, *, detail: int, hidden: bool) -> list[Mesh]:
    b = face.build
    rng = np.random.default_rng([b.seed, 5])
    moving = [
        props.head(face, n=detail),
        props.skull(face),
        props.mouth_inside(face),
        *props.eyeballs(face),
        *props.ears(face, rng),
        *props.hair(face, rng),
        *props.hat(face, rng),
    ]
    rotation, shift = _place(face)
    placed = [m.moved(rotation, shift) for m in moving] + props.torso(b, rng)
    if hidden:
        placed += [m.moved(rotation, shift) for m in props.occluder(face, np.random.default_rng([studio.seed, 21]))]
    return placed


@dataclass(slots=True)
class _Gathered:
    material: npt.NDArray[np.int32]
    position: F32
    normal: F32
    uv: F32
    colour: F32
    tangents: F32


def _gather(meshes: list[Mesh], view: _View, where: npt.NDArray[np.bool_]) -> _Gathered:
    """Attributes of the seen surface at the `where` pixels."""
    ids = view.ids[where]
    which = np.searchsorted(np.array(view.first), ids, side="right") - 1
    b01 = view.bary[where]
    b = np.stack([b01[:, 0], b01[:, 1], 1 - b01[:, 0] - b01[:, 1]], 1)
    n = len(ids)
    empty = [np.zeros((n, *shape), np.float32) for shape in ((3,), (3,), (2,), (3,), (2, 3))]
    out = _Gathered(which.astype(np.int32), empty[0], empty[1], empty[2], empty[3], empty[4])
    for k, mesh in enumerate(meshes):
        sel = np.flatnonzero(which == k)
        if not len(sel):
            continue
        tri = mesh.triangles[ids[sel] - view.first[k]]
        w = b[sel]
        out.position[sel] = np.einsum("nk,nkc->nc", w, mesh.vertices[tri])
        normal = np.einsum("nk,nkc->nc", w, mesh.normals[tri])
        out.normal[sel] = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-9)
        out.uv[sel] = np.einsum("nk,nkc->nc", w, mesh.uv[tri])
        if mesh.colour is not None:
            out.colour[sel] = np.einsum("nk,nkc->nc", w, mesh.colour[tri])
        if mesh.tangents is not None:
            out.tangents[sel] = np.einsum("nk,nkij->nij", w, mesh.tangents[tri])
    return out


def _skin(
    g: _Gathered, sel: npt.NDArray[np.intp], s: Surfaces, face: Face, texture: Paint, features: dict[str, F32]
) -> None:
    b = face.build
    uv = g.uv[sel]
    albedo = _lookup(texture.albedo, uv)
    lips, brows = _lookup(features["lips"], uv)[:, None], _lookup(features["brows"], uv)[:, None]
    albedo = albedo * (1 - lips) + np.array(b.lip, np.float32) * lips
    albedo = albedo * (1 - brows) + np.array(b.brow_colour, np.float32) * brows
    height = texture.relief + 0.02 * cv2.GaussianBlur(features["brows"], (0, 0), 2.2 * texture.relief.shape[1] / 1024)
    step = 2 * props.CHART_A / texture.relief.shape[1]
    by_a = _lookup(cv2.Sobel(height, cv2.CV_32F, 1, 0, scale=1 / (8 * step)), uv)[:, None]
    by_e = -_lookup(cv2.Sobel(height, cv2.CV_32F, 0, 1, scale=1 / (8 * step)), uv)[:, None]
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


def _eye(g: _Gathered, sel: npt.NDArray[np.intp], s: Surfaces, face: Face, side: int) -> None:
    b = face.build
    rotation, shift = _place(face)
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


def _mouth(g: _Gathered, sel: npt.NDArray[np.intp], s: Surfaces) -> None:
    v, u = g.uv[sel, 1], g.uv[sel, 0]
    upper = np.clip((0.5 - v) / 0.02, 0, 1) * (v > 0.18)
    gap = np.clip(np.abs(((u * 16) % 1) - 0.5) * 2 - 0.85, 0, 0.15) / 0.15
    teeth = (upper * (np.abs(u - 0.5) < 0.36) * (1 - 0.6 * gap))[:, None]
    s.albedo[sel] = teeth * np.array([0.7, 0.66, 0.55]) + (1 - teeth) * np.array([0.09, 0.015, 0.015])
    s.shadow_tint[sel] = s.albedo[sel]
    s.specular[sel], s.roughness[sel] = 0.05, 0.4
    s.open_sky[sel] *= 0.45
    s.lit[sel] *= 0.6


def _plain(g: _Gathered, sel: npt.NDArray[np.intp], s: Surfaces, material: str, b: Build) -> None:
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
    }
    if material == "hair":
        s.albedo[sel] = g.colour[sel] * (0.6 + 0.6 * g.uv[sel, :1])
    else:
        s.albedo[sel] = np.array(base[material], np.float32)
    s.shadow_tint[sel] = s.albedo[sel]
    s.specular[sel], s.roughness[sel], s.wrap[sel] = (
        (0.06, 0.45, 0.1) if material in ("hair", "hat") else (0.03, 0.6, 0.2)
    )


def _surfaces(
    g: _Gathered, meshes: list[Mesh], face: Face, texture: Paint, features: dict[str, F32], open_sky: F32, lit: F32
) -> Surfaces:
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
            _eye(g, sel, s, face, int(mesh.material[3]))
        elif mesh.material == "mouth":
            _mouth(g, sel, s)
        else:
            _plain(g, sel, s, mesh.material, face.build)
    return s


def _truth(face: Face, camera: Camera, view: _View, seam_px: float) -> tuple[Array, tuple[Shape, ...]]:
    rotation, shift = _place(face)

    def see(points: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
        p = camera.project(points @ rotation.T + shift)
        row = np.clip((p[..., 1] * SUPER).astype(int), 0, view.depth.shape[0] - 1)
        col = np.clip((p[..., 0] * SUPER).astype(int), 0, view.depth.shape[1] - 1)
        inside = (p[..., 0] >= 0) & (p[..., 1] >= 0) & (p[..., 0] < camera.width) & (p[..., 1] < camera.height)
        return p[..., :2], inside & (p[..., 2] < view.depth[row, col] + 0.06)

    named = anatomy.landmarks(face)
    points, seen = see(np.stack(list(named.values())))
    shapes = []
    for curve in anatomy.CURVES:
        flat, visible = see(anatomy.dense(curve, face))
        width = seam_px if curve.role == "seam" else None
        fitted = fit_segments(flat, closed=curve.closed)
        ends = visible[:, 0] if curve.closed else np.append(visible[:, 0], visible[-1, -1])
        shapes.append(Shape(curve.name, curve.closed, curve.role, fitted, ends, width))
    return np.concatenate([points, seen[:, None]], 1), tuple(shapes)


def render(
    build: Build,
    pose: Pose,
    studio: Studio,
    camera: Camera,
    *,
    grain_seed: int = 0,
    hidden: bool = False,
    texture: int = 1024,
    clean: bool = True,
) -> Picture:
    """Render one frame. `hidden` puts something in front of the face; `texture` is the chart's width in texels.

    Returns pictures in scene-linear light (Rec. 709 primaries) at the camera's size. `clean` false leaves `clean`
    equal to `plate` and saves the second pass of light.
    """
    seen = _see(build, pose, studio, camera, hidden=hidden, texture=_painted(build, texture))
    near = seen.skin_near(near_seams(seen.face, reach=build.seam_gap + 2 * build.seam_bevel + 0.03))
    rotation, shift = _place(seen.face)
    carved, coverage = carve(seen.surfaces, seen.gathered.position, near, seen.face, rotation, shift)
    plate = seen.develop(carved, grain_seed)
    width_px = (build.seam_gap + 2 * build.seam_bevel) * camera.scale
    landmarks, shapes = _truth(seen.face, camera, seen.view, width_px)
    true = seen.develop(seen.surfaces, grain_seed) if clean else plate
    return Picture(plate, true, seen.coverage(coverage), landmarks, shapes)


@dataclass(frozen=True, slots=True)
class CutOut:
    """A puppet before any background: premultiplied linear light (H, W, 3), coverage (H, W), landmarks, shapes."""

    light: F32
    alpha: F32
    landmarks: Array
    shapes: tuple[Shape, ...]


def cut_out(
    build: Build, pose: Pose, studio: Studio, camera: Camera, *, hidden: bool = False, texture: int = 1024
) -> CutOut:
    """One puppet with its seam, to be laid over other pictures; arguments as in `render`."""
    seen = _see(build, pose, studio, camera, hidden=hidden, texture=_painted(build, texture))
    near = seen.skin_near(near_seams(seen.face, reach=build.seam_gap + 2 * build.seam_bevel + 0.03))
    carved, _ = carve(seen.surfaces, seen.gathered.position, near, seen.face, *_place(seen.face))
    width_px = (build.seam_gap + 2 * build.seam_bevel) * camera.scale
    return CutOut(*seen.cut_out(carved), *_truth(seen.face, camera, seen.view, width_px))


def render_looks(
    build: Build,
    pose: Pose,
    studio: Studio,
    camera: Camera,
    looks: Sequence[Look],
    *,
    folds: int = 0,
    grain_seed: int = 0,
    texture: int = 1024,
) -> Iterator[Picture]:
    """The same frame once for each look of its seam; `folds` above 0 is the seed of folds sculpted into the face.

    Only carving and light are done again, so that many looks cost little more than one.
    """
    face = Face(build, pose)
    skin = folded(_painted(build, texture), folds) if folds else _painted(build, texture)
    seen = _see(build, pose, studio, camera, hidden=False, texture=skin)
    clean = seen.develop(seen.surfaces, grain_seed)
    rotation, shift = _place(face)
    for look in looks:
        near = seen.skin_near(near_seams(face, reach=max(2 * look.reach, STEP_REACH)))
        carved = seen.surfaces.copy()
        at = beside_seams(seen.gathered.position[near], face, rotation, shift)
        coverage = np.zeros(len(seen.gathered.material), np.float32)
        coverage[near] = looks_carve(carved, near, at, look, studio.key.direction)
        landmarks, shapes = _truth(face, camera, seen.view, 2 * look.reach * camera.scale)
        yield Picture(seen.develop(carved, grain_seed), clean, seen.coverage(coverage), landmarks, shapes)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a camera sees of a character before its seam is carved: N pixels at `where` of the supersampled picture."""

    face: Face
    studio: Studio
    camera: Camera
    view: _View
    where: npt.NDArray[np.bool_]
    gathered: _Gathered
    surfaces: Surfaces
    towards: F32

    def skin_near(self, near: F32) -> npt.NDArray[np.intp]:
        """The pixels of skin where a mask over the chart is above zero."""
        skin = np.flatnonzero(self.gathered.material == 0)
        return skin[_lookup(near, self.gathered.uv[skin]) > 0.01]

    def develop(self, surfaces: Surfaces, grain_seed: int) -> F32:
        """The picture (H, W, 3) of the surfaces."""
        camera, studio = self.camera, self.studio
        behind = backdrop(studio, camera.height, camera.width, pixels_per_unit=camera.scale)
        fore, alpha = self.cut_out(surfaces)
        rng = np.random.default_rng([studio.seed, grain_seed, 9])
        return develop(fore + behind * (1 - alpha)[..., None], studio, rng, pixel_scale=max(1.0, camera.scale / 100))

    def cut_out(self, surfaces: Surfaces) -> tuple[F32, F32]:
        """The lit puppet alone, premultiplied linear light (H, W, 3), and its coverage (H, W)."""
        image = np.zeros((*self.where.shape, 3), np.float32)
        image[self.where] = light(surfaces, self.towards, self.studio)
        return self._small(image), self._small(self.where.astype(np.float32))

    def coverage(self, values: F32) -> F32:
        """Values (N,) as a picture (H, W)."""
        image = np.zeros(self.where.shape, np.float32)
        image[self.where] = values
        return self._small(image)

    def _small(self, image: F32) -> F32:
        size = (self.camera.width, self.camera.height)
        return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA))


def _see(build: Build, pose: Pose, studio: Studio, camera: Camera, *, hidden: bool, texture: Paint) -> _Seen:
    face = Face(build, pose)
    detail = int(np.clip(camera.scale * SUPER * 1.1, 160, 620))
    meshes = _meshes(face, studio, detail=detail, hidden=hidden)
    features = _features(face, texture.relief.shape[1])
    big = (camera.height * SUPER, camera.width * SUPER)
    projected = [camera.project(m.vertices) * np.array([SUPER, SUPER, 1.0]) for m in meshes]
    view = _look(meshes, projected, features["holes"], big, cull=False)
    where = view.ids >= 0
    g = _gather(meshes, view, where)
    eye = np.array([0, 0, camera.distance], np.float32)
    towards = eye - g.position
    towards /= np.linalg.norm(towards, axis=1, keepdims=True)
    back = np.sum(g.normal * towards, 1) < 0
    g.normal[back] *= -1
    open_sky = contact(view.depth, where, unit_px=camera.scale * SUPER)[where]
    lit = _shadow(meshes, studio, g.position + 0.01 * g.normal, size=512)
    s = _surfaces(g, meshes, face, texture, features, open_sky, lit)
    return _Seen(face, studio, camera, view, where, g, s, towards)
