"""The pictures and the lines of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import PlateError, TrainingError
from rotopaint_ai.training.data.dataset import Sample, ShapeTruth, Split, write_picture
from rotopaint_ai.training.mining import crop
from rotopaint_ai.training.mining.cutout import over_background
from rotopaint_ai.training.mining.register import Rows
from rotopaint_ai.training.mining.truth import Truth

_THUMB = 48  # pixels of the side of what frames are compared by
_JPEG_QUALITY = 96

Thumb = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture written, by its path in the data set, and the square of the plate that it shows."""

    image: str
    where: crop.Cut


def cut_all(
    truth: Truth, out: Path, *, size: int, face_share: float, progress: Callable[[int, int], None]
) -> tuple[dict[int, Picture], dict[int, Thumb], list[str]]:
    """Cut and write the picture of every row; also a thumbnail of a place in the plate that stays through a shot."""
    pictures, thumbs, failed = {}, {}, []
    still = {shot: _shot_cut(truth, np.flatnonzero(truth.shots == shot)) for shot in np.unique(truth.shots)}
    for row, source in enumerate(truth.rows):
        points = truth.extent(row)
        if len(points) < 2:
            continue
        where = crop.frame_cut(points, size=size, face_share=face_share)
        try:
            frame = source.plate.read(source.frame, keep_native=False)
        except PlateError as error:
            failed.append(f"{source.shot} {source.frame}: {error}")
            continue
        image = f"images/{safe(source.character)}_{safe(source.shot)}_{source.frame:04d}.jpg"
        picture = crop.picture(frame, where)
        if source.truth.is_cut_out and source.truth.picture is not None:
            picture = over_background(picture, source.truth.picture, where, source.frame)
        write_picture(out / image, picture, quality=_JPEG_QUALITY)
        pictures[row] = Picture(image, where)
        small = crop.picture(frame, still[truth.shots[row]])
        thumbs[row] = np.asarray(small.mean(axis=2), dtype=np.float32)
        progress(row + 1, len(truth.rows))
    if not pictures:
        raise TrainingError(f"{out}: no frame of the plates could be read ({failed[0] if failed else 'none named'})")
    return pictures, thumbs, failed


def _shot_cut(truth: Truth, rows: Rows) -> crop.Cut:
    clouds = [points for points in (truth.extent(int(row)) for row in rows) if len(points)]
    points = np.concatenate(clouds) if clouds else np.array([[0.0, 0.0], [64.0, 64.0]])
    return crop.frame_cut(points, size=_THUMB, face_share=1.0)


def safe(name: str) -> str:
    """A name that can be a file's."""
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in name)


def clear(folder: Path) -> None:
    """Remove the pictures of a data set that was mined here before; a folder that is none is left as it is.

    It is no data set from here on: stopped before the new one is whole, its old lines would tell of new pictures.
    """
    if (folder / "dataset.json").is_file():
        (folder / "dataset.json").unlink()
        for old in [*(folder / "images").glob("*.jpg"), *(folder / "mining").glob("*.jpg")]:
            old.unlink()


def tidy(folder: Path, kept: set[str], pictures: Iterable[Picture]) -> None:
    """Remove pictures that no sample shows."""
    for picture in pictures:
        if picture.image not in kept:
            (folder / picture.image).unlink(missing_ok=True)


def sample(truth: Truth, row: int, picture: Picture, val: set[tuple[str, str]]) -> Sample:
    """One line of the data set; `val` holds the (character, shot) that are held out."""
    source, where = truth.rows[row], picture.where
    places = where.points(truth.marks[row, :, :2])
    landmarks = {
        name: (float(x), float(y), float(truth.marks[row, at, 2]))
        for at, (name, (x, y)) in enumerate(zip(truth.names, places))
        if np.isfinite(x)
    }
    shapes = {}
    for plan, at in truth.plans_at(row):
        width = plan.shape.width_px[at]
        scaled = None if not np.isfinite(width) or width <= 0 else float(width * where.scale)
        shapes[plan.shape.name] = ShapeTruth(where.spline(plan.points_FP6[at]).tolist(), scaled)
    split: Split = "val" if (source.character, source.shot) in val else "train"
    extent = where.points(truth.extent(row))
    low, high = extent.min(axis=0), extent.max(axis=0)
    return Sample(
        image=picture.image,
        width=where.size,
        height=where.size,
        character=source.character,
        shot=source.shot,
        frame=source.frame,
        split="test" if source.split == "test" else split,
        landmarks=landmarks,
        shapes=shapes,
        face_box=(float(low[0]), float(low[1]), float(high[0] - low[0]), float(high[1] - low[1])),
        pixel_scale=round(where.scale, 6),
    )
