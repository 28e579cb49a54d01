"""Test cases for clean plates: frames with a seam, the same frames without it, and the matte of the true seam.

Rendered shots come from the stage or from folders of its layout. Real pictures and sequences get a synthetic seam.
H, W rows and columns of a crop; light is scene-linear RGB float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document
from rotopaint_ai.jobs import Cancel, RunJob
from rotopaint_ai.plates.colour import encode, linearise
from rotopaint_ai.plates.plate import open_plate
from rotopaint_ai.seams.matte import seam_curves, seam_matte
from rotopaint_ai.seams.ribbon import WideCurve
from rotopaint_ai.shapes.rasterise import Region
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ai.stage.burnt_seams import burn_seam

Array = NDArray[Any]

GROW_PX = 2
MARGIN_PX = 32
GRAIN = 0.02  # share of the light that `with added grain` adds


@dataclass(frozen=True, slots=True)
class Sight:
    """One frame's crop: plate and clean light, the true seam's region (grown 2 px), its curves, and its position.

    `own_matte` and `own_curves` are the predictions of our models, None where they did not run.
    """

    frame: int
    plate: Array
    clean: Array
    hole: Array
    curves: tuple[WideCurve, ...]
    origin: tuple[int, int] = (0, 0)
    own_matte: Array | None = None
    own_curves: tuple[WideCurve, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """Frames to measure on; `is_8_bit` plates are filled and scored as 8-bit sRGB codes."""

    name: str
    sights: tuple[Sight, ...]
    is_8_bit: bool
    is_sequence: bool = True


def codes(light: Array) -> Array:
    """Scene-linear light as 8-bit sRGB codes; values outside 0..1 are clipped."""
    return encode(np.clip(light, 0.0, 1.0).astype(np.float32), "sRGB", dtype=np.uint8)


def read_rendered_case(
    folder: Path, *, every: int, last: int | None = None, predicted: RotoDocument | None = None
) -> Case:
    """A shot of plate.####, clean.#### and seam.#### pictures with truth.roto.json. Raises: UsageError without any."""
    from rotopaint_ai.stage.shot_folder import plates_of, read_seam_frame

    truth = document.read(folder / "truth.roto.json")
    paths = plates_of(folder)
    suffix = ".jpg" if any(path.suffix == ".jpg" for path in paths) else paths[0].suffix if paths else ""
    found = []
    for path in [path for path in paths if path.suffix == suffix][:last:every]:
        view, frame = read_seam_frame(path, truth), int(path.name.split(".")[1])
        if view.seam.any():
            found.append(_sight(frame, view.plate, view.clean, view.seam > 0, view.curves))
    if not found:
        raise UsageError(f"{folder}: no plate.#### with clean.#### and seam.#### beside it and a seam to see")
    if predicted is not None:
        found = [_with_own(sight, predicted) for sight in found]
    return Case("/".join(folder.parts[-2:]), tuple(found), suffix != ".exr")


def _sight(frame: int, plate: Array, clean: Array, seam: Array, curves: Sequence[WideCurve]) -> Sight:
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * GROW_PX + 1, 2 * GROW_PX + 1))
    hole = cv2.dilate(seam.astype(np.uint8), disc)
    x, y, w, h = cv2.boundingRect(hole)
    left, top = max(0, x - MARGIN_PX), max(0, y - MARGIN_PX)
    window = slice(top, y + h + MARGIN_PX), slice(left, x + w + MARGIN_PX)
    parts = [np.ascontiguousarray(image[window]) for image in (plate, clean, hole)]
    moved = tuple((np.asarray(line) - (left, top), half) for line, half in curves)
    return Sight(frame, parts[0], parts[1], parts[2], moved, (left, top))


def _with_own(sight: Sight, predicted: RotoDocument) -> Sight:
    (left, top), (height, width) = sight.origin, sight.hole.shape
    region = seam_matte(predicted.shapes, sight.frame, predicted.width, predicted.height)
    matte = Region(region.x - left, region.y - top, region.coverage).paste(width, height)
    curves = tuple(seam_curves(predicted.shapes, sight.frame, origin=(left, top)))
    return replace(sight, own_matte=matte, own_curves=curves)


def predict_landmarks(folder: Path, suffix: str, scratch: Path, *, n_frames: int, model: str | None) -> RotoDocument:
    """The document that `rotopaint run` predicts for a shot's first frames."""
    from rotopaint_ai.pipeline.run import run

    out = scratch / f"predicted-{folder.parent.name}-{folder.name}"
    numbers = sorted(int(path.name.split(".")[1]) for path in folder.glob(f"plate.*{suffix}"))[:n_frames]
    job = RunJob(
        str(folder / f"plate.####{suffix}"),
        str(out),
        (crop_of(folder),),
        model=model,
        frames=f"{numbers[0]}-{numbers[-1]}",
        exports=(),
        clean=False,
    )
    run(job, lambda event: None, Cancel())
    return document.read(out / "shapes.roto.json")


def crop_of(folder: Path) -> str:
    """The rough box of a shot's first frame as an argument for `--crop`; `auto` where the shot has none."""
    import json

    if (folder / "crop.json").exists():
        return ",".join(str(v) for v in json.loads((folder / "crop.json").read_text())["crop"])
    if (folder / "truth.json").exists():
        frames = json.loads((folder / "truth.json").read_text())["frames"]
        first = frames[min(frames)] if isinstance(frames, Mapping) else frames[0]
        x0, y0, x1, y1 = first["face_crop"]
        return f"{x0:g},{y0:g},{x1 - x0:g},{y1 - y0:g}"
    return "auto"


def burn_case(source: str, *, n_frames: int, seed: int, grain: float, is_float: bool) -> Case:
    """A picture, folder or movie with a synthetic seam; `grain` is added to the plate and to the clean frame alike.

    A file counts as one picture even if it has numbered neighbours: portrait_1 and portrait_2 are not a sequence. Float
    plates are scaled until their brightest value is 4.
    """
    with open_plate(source) as plate:
        name = f"{Path(source).stem or plate.name}, burnt in{', grain' if grain else ''}{', float' if is_float else ''}"
        one = [frame for frame in plate.frames if plate.path_of(frame).resolve() == Path(source).resolve()]
        frames = one if one and not plate.is_movie else list(plate.frames)[:n_frames]
        pictures = (plate.read(frame, keep_native=False).rgb for frame in frames)
        made = list(_burn(zip(frames, pictures), seed, grain, is_float))
    return Case(name, tuple(made), not is_float, len(frames) > 1)


def _burn(pictures: Iterable[tuple[int, Array]], seed: int, grain: float, is_float: bool) -> Iterator[Sight]:
    for frame, picture in pictures:
        clean = np.ascontiguousarray(picture[..., :3], np.float32)
        if is_float:
            clean = clean * np.float32(4.0 / max(float(np.percentile(clean, 99.9)), 1e-3))
        noise = np.random.default_rng([seed, frame]).standard_normal(clean.shape, dtype=np.float32)
        clean = clean * (1 + np.float32(grain) * cv2.GaussianBlur(noise, (0, 0), 0.6) * 1.8) if grain else clean
        view = burn_seam(clean, np.random.default_rng(seed))
        parts = (view.plate, view.clean) if is_float else tuple(_rounded_light(x) for x in (view.plate, view.clean))
        yield _sight(frame, parts[0], parts[1], view.seam > 0, view.curves)


def _rounded_light(light: Array) -> Array:
    """Light rounded as an 8-bit file would store it."""
    return linearise(codes(light), "sRGB")
