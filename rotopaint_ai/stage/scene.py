"""One frame of the stage: the plate with the seam, the identical frame without it, and exact ground truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.shapes.fit import fit_segments
from rotopaint_ai.stage import anatomy, props, rigs
from rotopaint_ai.stage.face import FaceSurface
from rotopaint_ai.stage.face_paint import FacePaint, add_folds, paint_face
from rotopaint_ai.stage.front_objects import IN_FRONT
from rotopaint_ai.stage.front_objects import MATERIAL as OBJECT
from rotopaint_ai.stage.looks import STEP_REACH, SeamStyle
from rotopaint_ai.stage.looks import carve_gap as looks_carve
from rotopaint_ai.stage.materials import features_of, surfaces_of
from rotopaint_ai.stage.mesh import Mesh
from rotopaint_ai.stage.puppet import Pose, PuppetBuild, place
from rotopaint_ai.stage.puppet_seam import beside_seams, carve_seam, near_seams
from rotopaint_ai.stage.shading import Surfaces, contact, shade
from rotopaint_ai.stage.studio import Studio, backdrop, blur_by_depth, develop
from rotopaint_ai.stage.view import Camera, CameraView, SurfacePixels, camera_at, gather_texels, key_light, lookup

F32 = npt.NDArray[Any]  # float32
Array = npt.NDArray[Any]

SUPER = 2  # samples per pixel along each axis


@dataclass(frozen=True, slots=True)
class TrueShape:
    """A shape's ground truth: control points (P, 6) in picture space, and for each whether it is visible."""

    name: str
    closed: bool
    role: str
    points: Array
    visible: npt.NDArray[np.bool_]
    width_px: float | None


@dataclass(frozen=True, slots=True)
class StageFrame:
    """A rendered frame: linear plate and clean (H, W, 3), coverage of the seam (H, W), landmarks (L, 3).

    rig: coverage of the rig (H, W), where there is one. front, skin: coverage (H, W) by what stands in front of the
    face or frames it, and by the face's skin, where they were asked for.
    """

    plate: F32
    clean: F32
    seam: F32
    landmarks: Array
    shapes: tuple[TrueShape, ...]
    rig: F32 | None = None
    front: F32 | None = None
    skin: F32 | None = None


@lru_cache(maxsize=4)
def _painted_face(build: PuppetBuild, width: int) -> FacePaint:
    return paint_face(build, FaceSurface(build, Pose()), width=width)


def _meshes(face: FaceSurface, studio: Studio, *, detail: int, hidden: bool) -> list[Mesh]:
    b = face.build
    rng = np.random.default_rng([b.seed, 5])
    moving = [
        props.head_mesh(face, n=detail),
        props.skull_mesh(face),
        props.mouth_inside(face),
        *props.eyeballs(face),
        *props.ears(face),
        *props.hair(face, rng),
        *props.hat(face, rng),
    ]
    rotation, shift = place(face.pose)
    placed = [m.moved(rotation, shift) for m in moving] + props.torso(b, rng)
    if hidden:
        placed += [m.moved(rotation, shift) for m in props.occluder(face, np.random.default_rng([studio.seed, 21]))]
    return placed


def _true_shapes(
    face: FaceSurface, camera: Camera, view: CameraView, seam_px: float
) -> tuple[Array, tuple[TrueShape, ...]]:
    rotation, shift = place(face.pose)

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
        shapes.append(TrueShape(curve.name, curve.closed, curve.role, fitted, ends, width))
    return np.concatenate([points, seen[:, None]], 1), tuple(shapes)


def render(
    build: PuppetBuild,
    pose: Pose,
    studio: Studio,
    camera: Camera,
    *,
    grain_seed: int = 0,
    hidden: bool = False,
    texture: int = 1024,
    clean: bool = True,
) -> StageFrame:
    """Render one frame. `hidden` puts an object in front of the face; `texture` is the chart's width in texels.

    Returns scene-linear pictures (Rec. 709 primaries) at the camera's size. With `clean` false the clean frame equals
    the plate, which saves the second lighting pass.
    """
    seen = _see(build, pose, studio, camera, hidden=hidden, texture=_painted_face(build, texture))
    near = seen.skin_near(near_seams(seen.face, reach=build.seam_gap + 2 * build.seam_bevel + 0.03))
    rotation, shift = place(seen.face.pose)
    carved, coverage = carve_seam(seen.surfaces, seen.gathered.position, near, seen.face, rotation, shift)
    plate = seen.develop(carved, grain_seed)
    width_px = (build.seam_gap + 2 * build.seam_bevel) * camera.scale
    landmarks, shapes = _true_shapes(seen.face, camera, seen.view, width_px)
    true = seen.develop(seen.surfaces, grain_seed) if clean else plate
    return StageFrame(plate, true, seen.through_lens(seen.coverage(coverage)), landmarks, shapes)


def render_rigged(
    build: PuppetBuild,
    pose: Pose,
    studio: Studio,
    camera: Camera,
    kind: str,
    *,
    grain_seed: int = 0,
    texture: int = 1024,
) -> StageFrame:
    """Render one frame of a puppet held by a rig, and the same frame without the rig; the puppet has no seam.

    `kind` is one of `rigs.KINDS`. The rig casts a shadow on the puppet.
    """
    studio = replace(studio, depth_blur=0.0)  # plate and clean frame have different depths
    skin = _painted_face(build, texture)
    free = _see(build, pose, studio, camera, hidden=False, texture=skin)
    held = _see(build, pose, studio, camera, hidden=False, texture=skin, rig=rigs.rig_meshes(kind, build, pose))
    of_rig = [mesh.material == rigs.MATERIAL for mesh in held.meshes]
    coverage = held.coverage(np.array(of_rig, np.float32)[held.gathered.material])
    landmarks, shapes = _true_shapes(
        free.face, camera, held.view, (build.seam_gap + 2 * build.seam_bevel) * camera.scale
    )
    plate, clean = (seen.develop(seen.surfaces, grain_seed) for seen in (held, free))
    return StageFrame(plate, clean, np.zeros_like(coverage), landmarks, shapes, coverage)


@dataclass(frozen=True, slots=True)
class CutOut:
    """A puppet without a background: premultiplied linear light (H, W, 3), coverage (H, W), landmarks, shapes."""

    light: F32
    alpha: F32
    landmarks: Array
    shapes: tuple[TrueShape, ...]


def cut_out(
    build: PuppetBuild, pose: Pose, studio: Studio, camera: Camera, *, hidden: bool = False, texture: int = 1024
) -> CutOut:
    """Render one puppet with its seam, to composite over other pictures; arguments as in `render`."""
    seen = _see(build, pose, studio, camera, hidden=hidden, texture=_painted_face(build, texture))
    near = seen.skin_near(near_seams(seen.face, reach=build.seam_gap + 2 * build.seam_bevel + 0.03))
    carved, _ = carve_seam(seen.surfaces, seen.gathered.position, near, seen.face, *place(seen.face.pose))
    width_px = (build.seam_gap + 2 * build.seam_bevel) * camera.scale
    return CutOut(*seen.cut_out(carved), *_true_shapes(seen.face, camera, seen.view, width_px))


def render_looks(
    build: PuppetBuild,
    pose: Pose,
    studio: Studio,
    camera: Camera,
    looks: Sequence[SeamStyle],
    *,
    folds: int = 0,
    grain_seed: int = 0,
    hidden: bool = False,
    texture: int = 1024,
) -> Iterator[StageFrame]:
    """Render the same frame once for each look of its seam.

    `folds` above 0 is the seed of folds sculpted into the face. `hidden` puts an object in front of the face. Only
    carving and lighting are repeated, so many looks take little more time than one.
    """
    face = FaceSurface(build, pose)
    skin = add_folds(_painted_face(build, texture), folds) if folds else _painted_face(build, texture)
    seen = _see(build, pose, studio, camera, hidden=hidden, texture=skin)
    clean = seen.develop(seen.surfaces, grain_seed)
    for look in looks:
        carved, coverage = _carve_look(seen, look)
        landmarks, shapes = _true_shapes(face, camera, seen.view, 2 * look.reach * camera.scale)
        cover = seen.through_lens(seen.coverage(coverage))
        yield StageFrame(seen.develop(carved, grain_seed), clean, cover, landmarks, shapes)


def render_fronts(
    build: PuppetBuild,
    pose: Pose,
    studio: Studio,
    camera: Camera,
    looks: Sequence[SeamStyle],
    objects: Sequence[Mesh],
    *,
    defocus_px: float = 0.0,
    grain_seed: int = 0,
    texture: int = 1024,
) -> Iterator[StageFrame]:
    """Render the same frame once for each look of its seam, with `objects` (head space) in front of the face.

    The frames have the coverage of what stands in front, and of skin. `defocus_px`: standard deviation of the blur of
    the objects, which are nearer to the camera than its focus. Clean frames equal the plates.
    """
    studio = replace(studio, depth_blur=0.0)  # `defocus_px` is the lens here
    skin, placed = _painted_face(build, texture), [mesh.moved(*place(pose)) for mesh in objects]
    held = _see(build, pose, studio, camera, hidden=False, texture=skin, rig=placed)
    free = _see(build, pose, studio, camera, hidden=False, texture=skin) if defocus_px and objects else None
    of_objects = _objects_of(held) if free is not None else None  # no look of the seam changes them
    for look in looks:
        layers = _layers_of(held, look)
        if free is not None and of_objects is not None:
            layers = _defocused(layers, _layers_of(free, look), of_objects, defocus_px)
        landmarks, shapes = _true_shapes(held.face, camera, held.view, 2 * look.reach * camera.scale)
        plate = held.expose(layers.light, layers.alpha, grain_seed)
        yield StageFrame(plate, plate, layers.seam, landmarks, shapes, front=layers.front, skin=layers.skin)


def _carve_look(seen: _VisibleCharacter, look: SeamStyle) -> tuple[Surfaces, F32]:
    """The surfaces of a character with its seam carved in a look, and the seam's coverage (N,)."""
    near = seen.skin_near(near_seams(seen.face, reach=max(2 * look.reach, STEP_REACH)))
    carved = seen.surfaces.copy()
    at = beside_seams(seen.gathered.position[near], seen.face, *place(seen.face.pose))
    coverage = np.zeros(len(seen.gathered.material), np.float32)
    coverage[near] = looks_carve(carved, near, at, look, seen.studio.key.direction)
    return carved, coverage


@dataclass(frozen=True, slots=True)
class _Layers:
    """A puppet's premultiplied light (H, W, 3), and coverage (H, W): its own, and of seam, front and skin."""

    light: F32
    alpha: F32
    seam: F32
    front: F32
    skin: F32


def _layers_of(seen: _VisibleCharacter, look: SeamStyle) -> _Layers:
    carved, seam = _carve_look(seen, look)
    front, skin = (np.isin(seen.names, list(names)).astype(np.float32) for names in (IN_FRONT, {"skin"}))
    return _Layers(*seen.cut_out(carved), *map(seen.coverage, (seam, front, skin)))


def _objects_of(seen: _VisibleCharacter) -> tuple[F32, F32]:
    """The objects in front alone: premultiplied light (H, W, 3) and coverage (H, W)."""
    of_objects = (seen.names == OBJECT).astype(np.float32)
    light = shade(seen.surfaces, seen.towards, seen.studio) * of_objects[:, None]
    return seen.coverage(light), seen.coverage(of_objects)


def _defocused(held: _Layers, free: _Layers, objects: tuple[F32, F32], sigma: float) -> _Layers:
    """The scene with its objects blurred by a Gaussian of `sigma` pixels: over the scene without them, in the shadow
    that they cast on what can be seen around them."""
    light, cover = (cv2.GaussianBlur(layer, (0, 0), sigma) for layer in objects)
    left, is_free = 1 - cover, objects[1] < 1e-3
    shadow = np.clip((held.light + 1e-3) / (free.light + 1e-3), 0, 2) * is_free[..., None]
    wide = [cv2.GaussianBlur(layer, (0, 0), 3 * sigma) for layer in (shadow, is_free.astype(np.float32))]
    behind = free.light * np.clip(wide[0] / np.maximum(wide[1], 1e-3)[..., None], 0, 2)
    behind = np.where(is_free[..., None], held.light, behind)
    return _Layers(
        light + behind * left[..., None],
        cover + free.alpha * left,
        free.seam * left,
        cover + free.front * left,
        free.skin * left,
    )


@dataclass(frozen=True, slots=True)
class _VisibleCharacter:
    """A character as seen by the camera, before its seam is carved: N pixels at `where` of the supersampled picture."""

    face: FaceSurface
    studio: Studio
    camera: Camera
    meshes: list[Mesh]
    view: CameraView
    where: npt.NDArray[np.bool_]
    gathered: SurfacePixels
    surfaces: Surfaces
    towards: F32
    blur_px: F32 | None

    def skin_near(self, near: F32) -> npt.NDArray[np.intp]:
        """The pixels of skin where a mask over the chart is above zero."""
        skin = np.flatnonzero(self.gathered.material == 0)
        return skin[lookup(near, self.gathered.uv[skin]) > 0.01]

    @property
    def names(self) -> npt.NDArray[Any]:
        """The material's name at each pixel (N,)."""
        return np.array([mesh.material for mesh in self.meshes])[self.gathered.material]

    def develop(self, surfaces: Surfaces, grain_seed: int) -> F32:
        """The picture (H, W, 3) of the surfaces."""
        return self.expose(*self.cut_out(surfaces), grain_seed)

    def expose(self, fore: F32, alpha: F32, grain_seed: int) -> F32:
        """The picture (H, W, 3) of premultiplied light over the backdrop."""
        camera, studio = self.camera, self.studio
        fore, alpha = self.through_lens(fore), self.through_lens(alpha)
        reach = camera.pan_reach
        behind = backdrop(studio, camera.height, camera.width + 2 * reach, pixels_per_unit=camera.scale)
        if reach:
            shift = np.array([[1.0, 0.0, camera.pan - reach], [0.0, 1.0, 0.0]])
            behind = cv2.warpAffine(behind, shift, (camera.width, camera.height), flags=cv2.INTER_LINEAR)
        rng = np.random.default_rng([studio.seed, grain_seed, 9])
        return develop(fore + behind * (1 - alpha)[..., None], studio, rng, pixel_scale=max(1.0, camera.scale / 100))

    def through_lens(self, layer: F32) -> F32:
        """A layer (H, W) or (H, W, C), blurred by the studio's lens."""
        return layer if self.blur_px is None else blur_by_depth(layer, self.blur_px)

    def cut_out(self, surfaces: Surfaces) -> tuple[F32, F32]:
        """The lit puppet alone, premultiplied linear light (H, W, 3), and its coverage (H, W)."""
        light = self.coverage(shade(surfaces, self.towards, self.studio))
        return light, self._small(self.where.astype(np.float32))

    def coverage(self, values: F32) -> F32:
        """Values (N,) or (N, C) as a picture (H, W) or (H, W, C)."""
        image = np.zeros((*self.where.shape, *values.shape[1:]), np.float32)
        image[self.where] = values
        return self._small(image)

    def _small(self, image: F32) -> F32:
        return _to_picture(image, self.camera)


def _to_picture(image: F32, camera: Camera) -> F32:
    """A supersampled picture at the camera's size."""
    return np.asarray(cv2.resize(image, (camera.width, camera.height), interpolation=cv2.INTER_AREA))


def _depth_blur(build: PuppetBuild, studio: Studio, camera: Camera, depth: Array, where: Array) -> F32 | None:
    """Standard deviation of the lens's blur in pixels (H, W); None where all is sharp.

    The lens is focused on the front of the head without its nose. Beside the puppet its nearest pixel's blur counts, so
    that outlines blur to both sides. depth, where: of the supersampled picture.
    """
    cover = _to_picture(where.astype(np.float32), camera)
    if not studio.depth_blur or not cover.any():
        return None
    seen = _to_picture(np.where(where, depth, 0.0).astype(np.float32), camera) / np.maximum(cover, 1e-3)
    away = np.abs(camera.distance - build.depth - seen)
    inside = cover > 0
    _, nearest = cv2.distanceTransformWithLabels(
        (~inside).astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
    )
    of_label = np.zeros(int(nearest.max()) + 1, np.float32)
    of_label[nearest[inside]] = away[inside]
    return np.asarray(studio.depth_blur * camera.scale * of_label[nearest], np.float32)


def _see(
    build: PuppetBuild,
    pose: Pose,
    studio: Studio,
    camera: Camera,
    *,
    hidden: bool,
    texture: FacePaint,
    rig: Sequence[Mesh] = (),
) -> _VisibleCharacter:
    face = FaceSurface(build, pose)
    detail = int(np.clip(camera.scale * SUPER * 1.1, 160, 620))
    meshes = [*_meshes(face, studio, detail=detail, hidden=hidden), *rig]
    features = features_of(face, texture.relief.shape[1])
    big = (camera.height * SUPER, camera.width * SUPER)
    projected = [camera.project(m.vertices) * np.array([SUPER, SUPER, 1.0]) for m in meshes]
    view = camera_at(meshes, projected, features["holes"], big, cull=False)
    where = view.ids >= 0
    g = gather_texels(meshes, view, where)
    eye = np.array([0, 0, camera.distance], np.float32)
    towards = eye - g.position
    towards /= np.linalg.norm(towards, axis=1, keepdims=True)
    back = np.sum(g.normal * towards, 1) < 0
    g.normal[back] *= -1
    open_sky = contact(view.depth, where, unit_px=camera.scale * SUPER)[where]
    lit = key_light(meshes, studio, g.position + 0.01 * g.normal, size=512)
    s = surfaces_of(g, meshes, face, texture, features, open_sky, lit)
    blur_px = _depth_blur(build, studio, camera, view.depth, where)
    return _VisibleCharacter(face, studio, camera, meshes, view, where, g, s, towards, blur_px)
