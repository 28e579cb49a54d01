"""Training strips of the learned fill: frames degraded like plates, straightened along the seam and cut to one size.

N batch, T rows across the seam, S columns along it, C colours, as in `seams/ribbon.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.exchange import document
from rotopaint_ai.files import replacing
from rotopaint_ai.jobs import n_cores
from rotopaint_ai.plates.colour import encode, linearise
from rotopaint_ai.seams import bank_fill, banks, cleanplate, learned_fill
from rotopaint_ai.seams.ribbon import WideCurve
from rotopaint_ai.stage.burnt_seams import add_contour, add_gleams, add_groove, add_occluders, add_rim, paint_texture
from rotopaint_ai.stage.shot_folder import TRUTH, SeamFrame, plates_of, read_seam_frame
from rotopaint_ai.stage.workers import map_in_order
from rotopaint_ai.training.data.dataset_checks import split_of_shot

Array = npt.NDArray[Any]
Rng = np.random.Generator

SIZES = (0.6, 1.0, 1.0, 1.0, 1.4, 2.0)  # scale factors for frames
_COVERED = 0.4  # share of frames with an occluder before the face
_DRAWN = 0.6  # share of mattes drawn from curves, as at run time
_NEAR_PX = 1.8  # furthest that a curve usually lies off its seam
_ASTRAY_PX = 2.0, 6.0  # and where it is far off, in pixels of a frame at its own size
_DOUBT = 0.8  # share of that by which strokes are wider then


@dataclass(frozen=True, slots=True)
class StraightenedFrame:
    """A frame straightened along its seam: the plate, the true log light (T, S, 3) and its log exposure."""

    scene: bank_fill.StraightenedSeams
    true_TSC: Array
    exposure: float


def seam_frames(folders: Sequence[Path]) -> Iterator[SeamFrame]:
    """The frames of shots. Raises: TrainingError for test shots, and for a shot without plates."""
    for folder in folders:
        if split_of_shot(folder) == "test":
            raise TrainingError(f"{folder}: is a test shot; name training shots")
        plates = plates_of(folder)
        if not plates:
            raise TrainingError(f"{folder}: no plate.#### with clean.#### and seam.####; film shots with the stage")
        truth = document.read(folder / TRUTH)
        yield from (read_seam_frame(path, truth) for path in plates)


@dataclass(frozen=True, slots=True)
class StripLooks:
    """What is made of each frame: the frame at `sizes` random scales, and `synthetic` drawn seams on clean frames and
    textures.

    A share `hard` of both has a fold beside the seam; the same share, drawn on its own, has spots of light in it. A
    share `contours` has an outline across the seam. In a share `astray` the curves lie far off their seams.
    """

    sizes: int
    synthetic: int
    hard: float = 0.0
    contours: float = 0.0
    astray: float = 0.0


def straighten_frames(folders: Sequence[Path], rng: Rng, looks: StripLooks) -> Iterator[StraightenedFrame]:
    """The frames of shots with other looks, degraded and straightened."""
    for view in seam_frames(folders):
        grounds = (view.clean if rng.random() < 0.6 else paint_texture(320, rng) for _ in range(looks.synthetic))
        for one in [view] * looks.sizes + [add_groove(ground, rng) for ground in grounds]:
            for add, share in ((add_rim, looks.hard), (add_contour, looks.contours), (add_gleams, looks.hard)):
                one = add(one, rng) if share and rng.random() < share else one
            one = add_occluders(one, rng) if rng.random() < _COVERED else one
            far = looks.astray and rng.random() < looks.astray
            size = float(rng.choice(SIZES))
            found = straighten_view(one, rng, size, size * rng.uniform(*_ASTRAY_PX) if far else 0.0)
            if found is not None:
                yield found


def straighten_view(view: SeamFrame, rng: Rng, size: float, astray_px: float = 0.0) -> StraightenedFrame | None:
    """A frame, degraded at random and straightened along its seam, whose curves lie off it by up to `astray_px`, or a
    little where that is 0; None if no matte is left."""
    reaches = (astray_px or rng.uniform(0, _NEAR_PX) for _ in view.curves)
    lines = [(misplace_curve(line * size, rng, px), half * size) for (line, half), px in zip(view.curves, reaches)]
    hole = draw_matte(resize_picture(view.seam.astype(np.float32), size) > 8, lines, rng, astray_px)
    window = cleanplate.window_of(hole.astype(np.float32), lines)
    if window is None:
        return None
    exposure = float(rng.uniform(-1.0, 1.0))
    plate, clean = (np.ascontiguousarray(resize_picture(each, size)[window]) for each in (view.plate, view.clean))
    plate, clean = degrade_pair(plate, clean, exposure, rng)
    corner = np.array([window[1].start, window[0].start])
    lines, hole = [(line - corner, half) for line, half in lines], np.ascontiguousarray(hole[window])
    scene = bank_fill.straighten(plate, hole, lines)
    if scene is None:
        return None
    ribbon = scene.ribbon
    true = np.log(np.maximum(ribbon.sample(ribbon.shrink(clean)), 0) + np.float32(scene.floor))
    return StraightenedFrame(scene, true, exposure)


def resize_picture(image: Array, size: float) -> Array:
    """A picture scaled by a factor."""
    how = cv2.INTER_AREA if size < 1 else cv2.INTER_CUBIC
    return image if size == 1 else np.asarray(cv2.resize(image, None, fx=size, fy=size, interpolation=how))


def degrade_pair(plate: Array, clean: Array, exposure: float, rng: Rng) -> tuple[Array, Array]:
    """Plate and clean frame with the same random colour, contrast, focus, sharpening and grain.

    Half of them are compressed as 8-bit JPEG, so that they also differ slightly outside the seam.
    """
    swap, power = rng.permutation(3), float(np.exp(rng.normal(0, 0.18)))
    both: list[Array] = [np.maximum(x, 0)[..., swap] ** power for x in (plate, clean)]
    kind = rng.random()
    if kind < 0.4:
        sigma = float(rng.uniform(0.4, 1.6))
        both = [cv2.GaussianBlur(x, (0, 0), sigma) for x in both]
    elif kind < 0.65:
        amount, sigma = float(rng.uniform(0.3, 1.5)), float(rng.uniform(0.6, 1.4))
        both = [np.maximum(x + amount * (x - cv2.GaussianBlur(x, (0, 0), sigma)), 0) for x in both]
    if rng.random() < 0.5:
        grain = 1 + float(rng.uniform(0, 0.05)) * rng.standard_normal(both[0].shape)
        both = [x * grain for x in both]
    if rng.random() < 0.5:
        quality = int(rng.integers(70, 98))
        both = [_jpeg(x, quality) for x in both]
    gain = np.exp(exposure)
    return np.asarray(gain * both[0], np.float32), np.asarray(gain * both[1], np.float32)


def _jpeg(linear: Array, quality: int) -> Array:
    codes = encode(np.clip(linear, 0, 1).astype(np.float32), "sRGB", dtype=np.uint8)
    _, data = cv2.imencode(".jpg", codes[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    decoded = np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR))[..., ::-1]
    return linearise(np.ascontiguousarray(decoded), "sRGB")


def misplace_curve(line: Array, rng: Rng, reach: float) -> Array:
    """The curve with a smooth random error of up to `reach` pixels, like a prediction's."""
    knots = rng.uniform(-reach, reach, (max(2, len(line) // 40), 2))
    at = np.linspace(0, len(knots) - 1, len(line))
    return np.asarray(line + np.stack([np.interp(at, np.arange(len(knots)), knots[:, k]) for k in (0, 1)], 1))


def draw_matte(seam: Array, lines: Sequence[WideCurve], rng: Rng, astray_px: float = 0.0) -> Array:
    """A matte (bool): the true coverage grown by up to 3 px, or strokes along the curves.

    Strokes have one width each, from just enough to far too wide, like predicted mattes; wider by about `astray_px`.
    """
    if rng.random() >= _DRAWN:
        grow = int(rng.integers(0, 4))
        disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * grow + 1, 2 * grow + 1))
        return np.asarray(cv2.dilate(seam.astype(np.uint8), disc) > 0)
    hole = np.zeros(seam.shape, bool)
    wider, more = rng.uniform(0.9, 1.5), rng.uniform(0.0, 4.0) + astray_px * _DOUBT
    for line, half in lines:
        seeds = np.full(seam.shape, 255, np.uint8)
        cv2.polylines(seeds, [np.rint(line * 8 - 4).astype(np.int32)], False, 0, shift=3)
        hole |= cv2.distanceTransform(seeds, cv2.DIST_L2, 5) <= half * wider + more
    return hole


ROWS, COLUMNS = learned_fill.ROWS, 96  # size of a training strip
_FEWEST = 40  # fewest matte pixels of a training strip
_SHOTS_EACH = 20  # shots for which another process is worth its start
STRIPS_VERSION = 1  # of what the records hold; another one is cut anew
# A strip: the network's input, log light of plate, face, banks and ground truth, and the pixels to fill.
STRIP = np.dtype(
    [
        ("strip", np.float16, (ROWS, COLUMNS, learned_fill.N_CHANNELS)),
        ("light", np.float16, (4, ROWS, COLUMNS, 3)),
        ("wanted", np.bool_, (ROWS, COLUMNS)),
    ]
)


def cut_strips(
    path: Path, shots: Sequence[Path], seed: int, looks: StripLooks, check: Callable[[], None] = lambda: None
) -> None:
    """Cut strips from shots into a file of STRIP records, shot by shot, in as many processes as pay.

    Each shot has its own random numbers, so that the number of processes makes no difference.

    check: called between shots or oftener; raises to stop. Raises: TrainingError if the shots contain no seam.
    """
    workers = max(1, min(n_cores(), len(shots) // _SHOTS_EACH))
    cut = partial(_cut_shot, seed=seed, looks=looks)
    with replacing(path) as beside, beside.open("wb") as stream:
        for records in map_in_order(cut, list(enumerate(shots)), workers, check):
            stream.write(records.tobytes())
        if not stream.tell():
            raise TrainingError("no seams in those shots; film some: python -m rotopaint_ai.stage seams FOLDER")


def load_strips(path: Path) -> Array:
    """The STRIP records of a file, mapped into memory, so that data may be larger than it."""
    return np.memmap(path, STRIP, "r")


def _cut_shot(shot: tuple[int, Path], seed: int, looks: StripLooks) -> Array:
    number, folder = shot
    return strips_of([folder], np.random.default_rng((seed, number)), looks)


def strips_of(folders: Sequence[Path], rng: Rng, looks: StripLooks) -> Array:
    """The STRIP records of some shots, N of them."""
    frames = straighten_frames(folders, rng, looks)
    return np.array([record for one in frames for record in cut_frame(one, rng)], STRIP)


def cut_frame(one: StraightenedFrame, rng: Rng) -> Iterator[tuple[Array, Array, Array]]:
    """A straightened frame in pieces of ROWS x COLUMNS, light relative to its exposure."""
    scene = one.scene
    known = banks.sources(scene.light_TSC, scene.hole_TS)
    strip = learned_fill.strip_of(known, scene.ribbon, scene.hole_TS, scene.floor)
    fields = [*(field.transpose(0, 2, 1) for field in (known.own, known.face, known.banks)), one.true_TSC]
    lit = np.stack(fields) - np.float32(one.exposure)
    wanted = scene.hole_TS & scene.ribbon.inside_TS & scene.ribbon.own_TS
    strip, lit, wanted = _as_rows(strip, 0), _as_rows(lit, 1), _as_rows(wanted, 0)
    if rng.random() < 0.5:
        strip, lit, wanted = strip[::-1], lit[:, ::-1], wanted[::-1]
    first = int(rng.integers(0, max(1, min(COLUMNS, wanted.shape[1] - COLUMNS + 1))))
    for start in range(first, wanted.shape[1] - COLUMNS + 1, COLUMNS):
        part = slice(start, start + COLUMNS)
        if wanted[:, part].sum() >= _FEWEST:
            yield strip[:, part], lit[:, :, part], wanted[:, part]


def _as_rows(field: Array, axis: int) -> Array:
    """A field with ROWS rows, centred: cropped, or padded with its edge."""
    missing = ROWS - field.shape[axis]
    before = abs(missing) // 2
    if missing < 0:
        return field[(slice(None),) * axis + (slice(before, before + ROWS),)]
    around = [(0, 0)] * field.ndim
    around[axis] = (before, missing - before)
    return np.pad(field, around, "edge") if field.dtype != bool else np.pad(field, around)
