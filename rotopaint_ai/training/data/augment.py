"""Augmentation: a random crop of a picture with its landmarks, then photometric changes.

Geometry first: jitter of the crop box, rotation, flip, shear and slight perspective form one matrix, which maps the
picture and its ground truth. Then follow the recipe's photometric parts, each with its probability. They work on 8-bit
RGB and move no coordinate. Parts that occlude landmarks also return the occluded pixels.
Crop space: pixels 0..S, origin at the outer corner of the top-left pixel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, cast

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.stage.occluders import draw_occluders, random_blob
from rotopaint_ai.training.data.dataset import Array, Picture
from rotopaint_ai.training.data.memory import Memory, face_bounds
from rotopaint_ai.training.data.pose_augment import ElasticWarp, PoseAugment, cut_elastic, cut_posed_face
from rotopaint_ai.training.registry import Registry

Matrix = npt.NDArray[np.float64]
Random = np.random.Generator


@dataclass(frozen=True, slots=True)
class Geometry:
    """Random deviations of a crop from the nominal one (`margin` times the face, upright, centred).

    `scale`: smallest and largest crop side, as a factor of the nominal. `shift`: standard deviation of the centre, as a
    share of the nominal side. `rotation_deg`, `shear`: largest values. `flip`, `perspective`, `elastic`: probabilities.
    `elastic_shift`: standard deviation of an elastic warp's shifts, as a share of the crop's side.
    """

    scale: tuple[float, float] = (0.85, 1.35)
    shift: float = 0.07
    rotation_deg: float = 25.0
    flip: float = 0.5
    shear: float = 0.1
    perspective: float = 0.3
    elastic: float = 0.0
    elastic_shift: float = 0.012


STRAIGHT = Geometry(scale=(1.0, 1.0), shift=0.0, rotation_deg=0.0, flip=0.0, shear=0.0, perspective=0.0)


class Batch(NamedTuple):
    """A training batch: crops [N, S, S, 3] uint8, landmarks [N, L, 2] in crop pixels, visible [N, L]; NaN where
    unknown."""

    crops: Picture
    landmarks: Array
    visible: Array


_BORDERS = (cv2.BORDER_REPLICATE, cv2.BORDER_REFLECT_101, cv2.BORDER_CONSTANT)
PhotometricPart = Callable[[Picture, Random], tuple[Picture, npt.NDArray[np.bool_] | None]]
PARTS: Registry[PhotometricPart] = Registry("augmentation")


def nominal_crop(landmarks_LC: Array, margin: float) -> tuple[float, float, float]:
    """Centre x, y and side of the nominal crop around a face's landmarks, in picture pixels."""
    low, high = face_bounds(landmarks_LC[None])
    x, y = (low[0] + high[0]) / 2
    return float(x), float(y), float((high[0] - low[0]).max() * margin)


def crop_matrix(centre_x: float, centre_y: float, side: float, size_px: int) -> Matrix:
    """3 x 3 matrix from picture pixels to a crop of `size_px`; both origins are pixel corners."""
    scale = size_px / side
    return np.array(
        [[scale, 0, size_px / 2 - scale * centre_x], [0, scale, size_px / 2 - scale * centre_y], [0, 0, 1.0]]
    )


def random_matrix(
    crop: tuple[float, float, float], size_px: int, geometry: Geometry, rng: Random
) -> tuple[Matrix, bool]:
    """A random 3 x 3 matrix from picture to crop pixels, and whether it mirrors."""
    x, y, side = crop
    scale = math.exp(rng.uniform(math.log(geometry.scale[0]), math.log(geometry.scale[1])))
    shift = rng.normal(0.0, geometry.shift, 2).clip(-2 * geometry.shift, 2 * geometry.shift) * side
    upright = crop_matrix(x + shift[0], y + shift[1], side * scale, size_px)
    flips = bool(rng.random() < geometry.flip)
    return _warp(size_px, geometry, flips, rng) @ upright, flips


def _warp(size_px: int, geometry: Geometry, flips: bool, rng: Random) -> Matrix:
    """Rotation, shear, stretch, flip and perspective about the crop's centre."""
    angle = math.radians(rng.uniform(-geometry.rotation_deg, geometry.rotation_deg))
    stretch = math.exp(rng.uniform(-geometry.shear, geometry.shear))
    turn = np.array([[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0], [0, 0, 1.0]])
    skew = np.array([[stretch, rng.uniform(-geometry.shear, geometry.shear), 0], [0, 1 / stretch, 0], [0, 0, 1.0]])
    flip = np.diag([-1.0 if flips else 1.0, 1.0, 1.0])
    bend = np.eye(3)
    if rng.random() < geometry.perspective:
        bend[2, :2] = rng.uniform(-0.15, 0.15, 2) / size_px
    there = crop_matrix(size_px / 2, size_px / 2, size_px, size_px)
    there[:2, 2] = size_px / 2
    back = there.copy()
    back[:2, 2] *= -1
    return cast(Matrix, there @ bend @ turn @ skew @ flip @ back)


def move_points(points: Array, matrix: Matrix) -> Array:
    """Map points (..., 2) by a 3 x 3 matrix; NaN stays NaN."""
    return cast(Array, transform_points(points.astype(np.float64), matrix).astype(np.float32))


def transform_points(points: Matrix, matrix: Matrix) -> Matrix:
    """As `move_points`, in double precision."""
    moved = points @ matrix[:, :2].T + matrix[:, 2]
    return np.asarray(moved[..., :2] / moved[..., 2:])


def move_spline(points_PK: Array, matrix: Matrix) -> Array:
    """Map control points (..., 6) by a 3 x 3 matrix, points and tangent ends alike.

    Exact for affine matrices; for perspective, exact at the control points and tangent ends.
    """
    place = points_PK[..., :2]
    moved = move_points(place, matrix)
    ends = [move_points(place + points_PK[..., at : at + 2], matrix) - moved for at in (2, 4)]
    return cast(Array, np.concatenate([moved, *ends], axis=-1))


def warp_picture(picture: Picture, matrix: Matrix, size_px: int, border: int = cv2.BORDER_REPLICATE) -> Picture:
    """Cut a crop by a matrix between corner-origin coordinates (OpenCV's origin is the centre of the first pixel)."""
    half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1.0]])
    back = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1.0]])
    by_centres = back @ matrix @ half
    if np.allclose(matrix[2], (0, 0, 1)):
        warped = cv2.warpAffine(picture, by_centres[:2], (size_px, size_px), flags=cv2.INTER_LINEAR, borderMode=border)
    else:
        warped = cv2.warpPerspective(picture, by_centres, (size_px, size_px), flags=cv2.INTER_LINEAR, borderMode=border)
    return cast(Picture, warped)


def rasterise_outline(outline: npt.NDArray[Any], shape: tuple[int, int]) -> Array:
    """Coverage (H, W), 0..1, of a polygon (P, 2); `shape`: H and W."""
    drawn = np.zeros(shape, np.uint8)
    cv2.fillPoly(drawn, [np.round((outline - 0.5) * 16).astype(np.int32)], 255, lineType=cv2.LINE_AA, shift=4)
    return cast(Array, drawn / np.float32(255))


@dataclass(frozen=True, slots=True)
class Augmenter:
    """Makes batches from samples in memory.

    `parts`: probability of each photometric part, in order of application. `mirror`: landmark order of a mirrored
    picture. `pose_augment`: turns the heads of some samples.
    """

    geometry: Geometry
    parts: Mapping[str, float]
    margin: float
    mirror: Sequence[int]
    pose_augment: PoseAugment | None = None

    def batch(self, memory: Memory, rows: Sequence[int], size_px: int, draw: Random | Sequence[Random]) -> Batch:
        """Random crops of the given rows, from one generator for all or one for each."""
        draws = [draw] * len(rows) if isinstance(draw, Random) else draw
        crops = np.empty((len(rows), size_px, size_px, 3), np.uint8)
        landmarks, visible = memory.truth.landmarks[list(rows)].copy(), memory.truth.visible[list(rows)].copy()
        for at, (row, rng) in enumerate(zip(rows, draws)):
            turn = self.pose_augment.draw(landmarks[at], visible[at], rng) if self.pose_augment else None
            if turn is not None:
                landmarks[at], visible[at] = turn.landmarks, turn.visible
            matrix, flips = random_matrix(nominal_crop(landmarks[at], self.margin), size_px, self.geometry, rng)
            border = int(rng.choice(_BORDERS)) if self.parts else cv2.BORDER_REPLICATE
            is_warped = self.geometry.elastic > 0 and rng.random() < self.geometry.elastic
            warp = ElasticWarp.draw(size_px, self.geometry.elastic_shift, rng) if is_warped else None
            picture, moved = memory.pictures[row], move_points(landmarks[at], matrix)
            if turn is not None:
                crop = cut_posed_face(picture, turn, matrix, size_px, border, warp)
            elif warp is not None:
                crop = cut_elastic(picture, warp, matrix, size_px, border)
            else:
                crop = warp_picture(picture, matrix, size_px, border)
            moved = moved if warp is None else warp.moved(moved)
            order = list(self.mirror) if flips else slice(None)
            landmarks[at], visible[at] = moved[order], visible[at][order]
            crops[at], hidden = apply_parts(crop, self.parts, rng)
            if hidden is not None:
                visible[at] = np.where(_is_under(hidden, landmarks[at]), np.minimum(visible[at], 0), visible[at])
        return Batch(crops, landmarks, visible)


def straight_batch(memory: Memory, rows: Sequence[int], size_px: int, margin: float) -> Batch:
    """The nominal crops of the given rows, as `run` cuts them once it tracks the face."""
    identity = range(memory.truth.landmarks.shape[1])
    return Augmenter(STRAIGHT, {}, margin, identity).batch(memory, rows, size_px, np.random.default_rng(0))


def _is_under(hidden: npt.NDArray[np.bool_], landmarks: Array) -> npt.NDArray[np.bool_]:
    size = hidden.shape[0]
    known = np.asarray(np.isfinite(landmarks).all(axis=1))
    cells = np.floor(np.where(known[:, None], landmarks, -1)).astype(np.int64)
    inside = np.asarray(((cells >= 0) & (cells < size)).all(axis=1))
    cells = cells.clip(0, size - 1)
    under: npt.NDArray[np.bool_] = np.logical_and(inside, hidden[cells[:, 1], cells[:, 0]])
    return under


def apply_parts(
    picture: Picture, parts: Mapping[str, float], rng: Random
) -> tuple[Picture, npt.NDArray[np.bool_] | None]:
    """Apply photometric parts, each with its probability. Returns the picture and the occluded pixels, if any."""
    covered = None
    for name, probability in parts.items():
        if rng.random() < probability:
            picture, hidden = PARTS[name](picture, rng)
            covered = hidden if covered is None else covered if hidden is None else covered | hidden
    return picture, covered


# Photometric parts. Each takes 8-bit RGB and a generator, and returns the picture and the occluded pixels or None.


def _as_lut(values: npt.NDArray[np.floating[Any]]) -> Picture:
    return cast(Picture, (values * 255 + 0.5).clip(0, 255).astype(np.uint8))


@PARTS.register("tone")
def vary_tone(crop: Picture, rng: Random) -> tuple[Picture, None]:
    """Random brightness, contrast, gamma and colour cast, as one lookup table per channel."""
    grey = np.linspace(0, 1, 256)[:, None]
    gamma = math.exp(rng.normal(0, 0.3))
    cast_ = np.exp(rng.normal(0, 0.08, 3))
    curve = (grey**gamma - 0.5) * math.exp(rng.normal(0, 0.25)) + 0.5 + rng.normal(0, 0.08)
    return cast(Picture, cv2.LUT(crop, _as_lut(curve * cast_)[None])), None


@PARTS.register("colour")
def vary_colour(crop: Picture, rng: Random) -> tuple[Picture, None]:
    """Shift the hue, half the time by any angle, and scale the saturation: puppets come in green too."""
    hsv = cv2.cvtColor(crop, cv2.COLOR_RGB2HSV)
    turn = rng.integers(180) if rng.random() < 0.5 else int(rng.normal(0, 6))
    steps = np.arange(256)
    tables = np.stack(((steps + turn) % 180, (steps * math.exp(rng.normal(-0.1, 0.35))).clip(0, 255), steps), 1)
    return cast(Picture, cv2.cvtColor(cv2.LUT(hsv, tables.astype(np.uint8)[None]), cv2.COLOR_HSV2RGB)), None


@PARTS.register("channels")
def mix_channels(crop: Picture, rng: Random) -> tuple[Picture, None]:
    """Permute the colour channels, or convert to grey."""
    if rng.random() < 0.4:
        return cast(Picture, cv2.cvtColor(cv2.cvtColor(crop, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)), None
    return np.ascontiguousarray(crop[..., rng.permutation(3)]), None


@PARTS.register("blur")
def defocus(crop: Picture, rng: Random) -> tuple[Picture, None]:
    """Slight defocus blur."""
    return cast(Picture, cv2.GaussianBlur(crop, (0, 0), rng.uniform(0.4, 1.0 + crop.shape[0] / 320))), None


@PARTS.register("coarse")
def lower_resolution(crop: Picture, rng: Random) -> tuple[Picture, None]:
    """Lower the resolution: shrink and enlarge again, as for a small face."""
    size = crop.shape[0]
    small = cv2.resize(crop, (round(size * rng.uniform(0.35, 0.9)),) * 2, interpolation=cv2.INTER_AREA)
    return cast(Picture, cv2.resize(small, (size, size), interpolation=cv2.INTER_LINEAR)), None


@cache
def _grain() -> npt.NDArray[np.int16]:
    """A picture of unit noise times 64; grain is cut from it because new noise for every crop is slow."""
    return (np.random.default_rng(7).standard_normal((640, 640, 3)) * 64).astype(np.int16)


@PARTS.register("noise")
def vary_grain(crop: Picture, rng: Random) -> tuple[Picture, None]:
    """Film grain, grey or coloured."""
    size, sheet = crop.shape[0], _grain()
    y, x = rng.integers(0, max(1, sheet.shape[0] - size), 2)
    grain = np.resize(sheet, (size, size, 3)) if size > sheet.shape[0] else sheet[y : y + size, x : x + size]
    if rng.random() < 0.5:
        grain = np.repeat(grain[..., :1], 3, axis=2)
    strength = math.exp(rng.uniform(0.0, 2.4)) / 64
    return cast(Picture, cv2.addWeighted(crop, 1.0, grain, strength, 0.0, dtype=cv2.CV_8U)), None


@PARTS.register("jpeg")
def compress_jpeg(crop: Picture, rng: Random) -> tuple[Picture, None]:
    """JPEG artefacts."""
    _, code = cv2.imencode(".jpg", crop, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(30, 92))])
    return cast(Picture, cv2.imdecode(code, cv2.IMREAD_COLOR)), None


@PARTS.register("shadow")
def add_shadow(crop: Picture, rng: Random) -> tuple[Picture, None]:
    """A soft-edged shadow or light in the shape of a blob."""
    size = crop.shape[0]
    small = np.zeros((32, 32), np.float32)
    cv2.fillPoly(small, [random_blob(32, rng.uniform(6, 22), rng)], 1.0)
    soft = cv2.resize(
        cv2.GaussianBlur(small, (0, 0), rng.uniform(0.4, 4)), (size, size), interpolation=cv2.INTER_LINEAR
    )
    gain = 1 + soft * (rng.uniform(-0.75, -0.15) if rng.random() < 0.75 else rng.uniform(0.1, 0.8))
    return cast(Picture, cv2.multiply(crop, cv2.merge([gain] * 3), dtype=cv2.CV_8U)), None


PARTS.register("occluders")(draw_occluders)
