"""The pictures and lines of a data set: square crops of plates around the face, and their labels.

Faces rendered with alpha get synthetic backgrounds, so that no model learns that faces end in black. Foreign files in
the folder are kept, and only one process writes at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, cut
from rotopaint_ai.errors import PlateError, TrainingError, UsageError
from rotopaint_ai.files import file_bytes, write_json, write_text
from rotopaint_ai.locks import hold_lock
from rotopaint_ai.pipeline.out_folder import Files, refuse_sources
from rotopaint_ai.pipeline.render_frame import LEAST_FINITE, NOT_FINITE
from rotopaint_ai.plates import Frame, Plate
from rotopaint_ai.plates.coded_pictures import write_picture
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.shapes.revectorise.raw_curves import Array, Rows
from rotopaint_ai.training.data.dataset import Sample, ShapeTruth, Split, has_dataset_json
from rotopaint_ai.training.mining.options import FACE_SHARE
from rotopaint_ai.training.mining.vectorise import MinedTruth
from rotopaint_ai.watch import StageProgress, work_in_order

_FOLDERS = ("images", "mining", "shards")
_FILES = ("dataset.json", "sheet.yaml", "samples.jsonl")
_STATE = ".rotopaint"
_LOCK, _MARK = "lock", "dataset"  # the mark identifies a mined folder, also after an interrupted run


@contextmanager
def locked_dataset(folder: Path, sources: Sequence[Path] | None = None, *, overwrite: bool = False) -> Iterator[None]:
    """Lock the folder of a data set while the block runs. `sources`: what it is mined from; None keeps the record.

    Raises: UsageError if foreign files would be overwritten, if one of its folders is a link, if another process mines
    into it, or, without `overwrite`, if it was mined from sources that are not given.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder}: is a file; wanted a folder for the data set")
    for name in (_STATE, *_FOLDERS):
        if (folder / name).is_symlink():
            raise UsageError(f"{folder / name}: is a symbolic link, which is never written through; remove it")
    is_ours = (folder / _STATE / _MARK).is_file() or has_dataset_json(folder)  # older versions left no mark
    if not is_ours and (foreign := _foreign_file(folder)):
        raise UsageError(
            f"{folder / foreign}: not written by RotoPaint, and a data set would overwrite it; choose another --out"
        )
    is_new = not folder.exists()
    busy = f"{folder}: another process mines into it; wait, or choose another --out"
    with hold_lock(folder / _STATE / _LOCK, refusal=busy):
        mark = folder / _STATE / _MARK
        known = _json_values(mark)
        if sources is not None and not overwrite:
            _refuse_lost_sources(folder, known, sources)
        if not known:
            write_text(mark, "[]\n")
        try:
            yield
            if sources is not None:
                write_json(mark, [os.path.abspath(source) for source in sources])
        except BaseException:
            if _foreign_file(folder) is None:
                _restore_folder(folder, is_new=is_new)
            raise


def _refuse_lost_sources(folder: Path, known: Sequence[Any], sources: Sequence[Path]) -> None:
    """Raise UsageError where a data set was mined from sources that are not given now: it would lose their frames."""
    before = [source for line in known if isinstance(line, list) for source in line]
    if lost := [source for source in before if source not in {*map(os.path.abspath, sources)}]:
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise UsageError(
            f"--out {folder}: holds what was mined from {lost[0]}{more}, not given now; give all sources, choose "
            f"another --out, or add --overwrite"
        )


def refuse_plates_in(folder: Path, plates: Iterable[Plate]) -> None:
    """Raise UsageError where plates lie in the folder of the data set, or in one of its own folders."""
    refuse_sources(folder, [Files(name, "", "") for name in _FOLDERS], plates)


def _restore_folder(folder: Path, *, is_new: bool) -> None:
    """Restore a folder after a run that mined nothing."""
    state = folder / _STATE
    for name in (_MARK, _LOCK):
        (state / name).unlink(missing_ok=True)
    with suppress(OSError):  # foreign files stay
        state.rmdir()
        if is_new:
            folder.rmdir()


def _foreign_file(folder: Path) -> str | None:
    """The first foreign file or non-empty folder with a name that a data set uses."""
    files = [name for name in _FILES if (folder / name).exists()]
    filled = [name for name in _FOLDERS if (folder / name).is_dir() and any((folder / name).iterdir())]
    return next(iter([*files, *filled]), None)


_LEAST_PX = 16
_PIXEL_FOR_PIXEL = 1.12
Pixels = npt.NDArray[np.uint8]
IMAGES = "images"  # the folder of pictures in a data set
_THUMB = 48  # side of the thumbnails that compare frames
_JPEG_QUALITY = 96
_PICTURES_AT_ONCE = 16
Thumb = npt.NDArray[np.float32]


def frame_cut(points: Array, *, size: int, face_share: float = FACE_SHARE) -> tuple[Crop, int]:
    """The square in whole pixels around points (N, 2), and its picture's side in pixels.

    The points' box fills `face_share` of the square. A face smaller than the picture keeps its own pixels: the picture
    becomes smaller instead of being enlarged.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    longest = float((high - low).max())
    side = float(np.ceil(max(longest / face_share, _LEAST_PX)))
    if size < side <= size * _PIXEL_FOR_PIXEL:  # a slightly tighter crop keeps the plate's own pixels
        side = float(size)
    x, y = np.floor((low + high) / 2 - side / 2) + side / 2
    return Crop(float(x), float(y), side), min(size, int(side))


def cut_picture(frame: Frame, where: Crop, size: int) -> Pixels:
    """The picture (size, size, 3) RGB, display-referred 8 bit; outside the plate its edge is repeated.

    Raises: PlateError where too few of the plate's pixels are finite.
    """
    around = int(np.ceil(where.side * 0.05)) + 4
    x, y = (int(middle - where.side / 2) - around for middle in (where.x, where.y))
    wide = int(where.side) + 2 * around
    rgb, origin = frame.region(x, y, wide, wide)
    if not rgb.size:  # the face lies outside the data window: use its nearest edge
        rgb, origin = frame.rgb, frame.origin
    if np.isfinite(rgb).mean() < LEAST_FINITE:
        raise PlateError(NOT_FINITE)
    display = to_display(np.asarray(cut(np.asarray(rgb, np.float32), origin, where, size), np.float32))
    return np.round(np.clip(display, 0.0, 1.0) * 255).astype(np.uint8)


def composite(picture: Pixels, path: Path, where: Crop, seed: int) -> Pixels:
    """Composite a crop (S, S, 3) over a random background by the file's alpha; unchanged without alpha.

    Beyond the file's edge the face is assumed to continue. Raises: PlateError if the file is unreadable.
    """
    alpha = _alpha(path)
    if alpha is None:
        return picture
    cover = cut(np.repeat(alpha[..., None], 3, axis=2), (0, 0), where, len(picture)).clip(0, 1)
    mixed = picture * cover + draw_background(len(picture), seed) * (1 - cover)
    return np.asarray(np.round(mixed).clip(0, 255), np.uint8)


def _alpha(path: Path) -> npt.NDArray[np.float32] | None:
    """Coverage 0..1 (H, W); None where the file has no alpha."""
    whole = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if whole is None:
        raise PlateError(f"{path}: cannot be read as a picture; copy it again")
    if whole.ndim < 3 or whole.shape[2] < 4:
        return None
    full = 65535.0 if whole.dtype == np.uint16 else 255.0
    return np.asarray(whole[..., 3] / full, np.float32)


def draw_background(size: int, seed: int) -> npt.NDArray[np.float32]:
    """A random background (S, S, 3), 0..255: smooth gradients of a few colours with grain."""
    rng = np.random.default_rng((seed, 45))
    coarse = rng.uniform(0, 255, (int(rng.integers(2, 6)), int(rng.integers(2, 6)), 3)).astype(np.float32)
    soft = cv2.resize(coarse, (size, size), interpolation=cv2.INTER_CUBIC)
    grain = rng.normal(0, rng.uniform(0, 12), (size, size, 1))
    return np.asarray((soft + grain).clip(0, 255), np.float32)


@dataclass(frozen=True, slots=True)
class WrittenPicture:
    """A written picture: its path in the data set, the square of the plate that it shows, and its side in pixels."""

    image: str
    where: Crop
    size: int


@dataclass(frozen=True, slots=True)
class _PictureToCut:
    """A picture to cut: the plate's frame, its square and side, the fixed square of its shot, and the file name."""

    row: int
    shot: str
    plate: Plate
    frame: int
    where: Crop
    size: int
    still: tuple[Crop, int]
    image: str
    cut_out: Path | None  # the file whose alpha marks the face


def cut_all(
    truth: MinedTruth,
    out: Path,
    *,
    size: int,
    face_share: float,
    progress: StageProgress,
    workers: Executor | None = None,
) -> tuple[dict[int, WrittenPicture], dict[int, Thumb], list[str]]:
    """Cut and write the picture of every row; also a thumbnail of a fixed square of the plate per shot."""
    wanted = _pictures_to_cut(truth, size, face_share)
    parts = [wanted[at : at + _PICTURES_AT_ONCE] for at in range(0, len(wanted), _PICTURES_AT_ONCE)]
    cut_part = partial(_cut_pictures, out=out)
    thumbs: dict[int, Thumb] = {}
    failed: list[str] = []
    for some_thumbs, some_failed in work_in_order(cut_part, parts, "cutting pictures", progress, workers):
        thumbs |= some_thumbs
        failed += some_failed
    if not thumbs:
        raise TrainingError(f"{out}: no frame of the plates could be read ({failed[0] if failed else 'none named'})")
    written = [each for each in wanted if each.row in thumbs]
    return {each.row: WrittenPicture(each.image, each.where, each.size) for each in written}, thumbs, failed


def _pictures_to_cut(truth: MinedTruth, size: int, face_share: float) -> list[_PictureToCut]:
    still = {shot: _shot_cut(truth, np.flatnonzero(truth.shots == shot)) for shot in np.unique(truth.shots)}
    wanted = []
    for row, source in enumerate(truth.rows):
        points = truth.extent(row)
        if len(points) >= 2:
            square = frame_cut(points, size=size, face_share=face_share)
            image = f"{IMAGES}/{file_name_of(source.character)}_{file_name_of(source.shot)}_{source.frame:04d}.jpg"
            cut_out = source.truth.picture if source.truth.is_cut_out else None
            place = still[truth.shots[row]]
            wanted.append(_PictureToCut(row, source.shot, source.plate, source.frame, *square, place, image, cut_out))
    return wanted


def _cut_pictures(wanted: Sequence[_PictureToCut], out: Path) -> tuple[dict[int, Thumb], list[str]]:
    """Cut and write some pictures; returns their thumbnails by row, and what could not be read or measured."""
    thumbs, failed = {}, []
    for each in wanted:
        try:
            frame = each.plate.read(each.frame, keep_native=False)
            picture = cut_picture(frame, each.where, each.size)
            thumb = cut_picture(frame, *each.still)
        except PlateError as error:
            failed.append(f"{each.shot} {each.frame}: {error}")
            continue
        if each.cut_out is not None:
            picture = composite(picture, each.cut_out, each.where, each.frame)
        write_picture(out / each.image, picture, quality=_JPEG_QUALITY)
        thumbs[each.row] = np.asarray(thumb.mean(axis=2), dtype=np.float32)
    return thumbs, failed


def _shot_cut(truth: MinedTruth, rows: Rows) -> tuple[Crop, int]:
    clouds = [points for points in (truth.extent(int(row)) for row in rows) if len(points)]
    points = np.concatenate(clouds) if clouds else np.array([[0.0, 0.0], [64.0, 64.0]])
    return frame_cut(points, size=_THUMB, face_share=1.0)


def file_name_of(name: str) -> str:
    """The name with only characters that are valid in file names."""
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in name)


def clear_dataset(folder: Path) -> None:
    """Remove the pictures of an earlier data set in this folder; other folders are not changed.

    `dataset.json` goes first: if the run is interrupted, old lines must not refer to new pictures.
    """
    if (folder / "dataset.json").is_file():
        (folder / "dataset.json").unlink()
        remove_pictures(folder)
        for line in _json_values(folder / "mining" / "suspicious.json"):
            for issue in line if isinstance(line, list) else ():
                _remove_own(folder / "mining", str(issue.get("picture")))


def remove_pictures(folder: Path) -> None:
    """Delete the pictures that a data set lists, and their folder if it is then empty."""
    for line in _json_values(folder / "samples.jsonl"):
        name = PurePosixPath(str(line.get("image")))
        if name.parent == PurePosixPath(IMAGES):
            _remove_own(folder / IMAGES, name.name)
    with contextlib.suppress(OSError):
        (folder / IMAGES).rmdir()


def _json_values(path: Path) -> list[Any]:
    """The values of a JSON file, or of each line of a .jsonl; empty if unreadable."""
    try:
        text = file_bytes(path).decode()
        texts = text.splitlines() if path.suffix == ".jsonl" else [text]
        return [json.loads(each) for each in texts if each.strip()]
    except (OSError, ValueError):
        return []


def _remove_own(folder: Path, name: str) -> None:
    """Remove a picture that we wrote; the target of a link is foreign and stays."""
    if not folder.is_symlink() and PurePosixPath(name).name == name and name.endswith(".jpg"):
        (folder / name).unlink(missing_ok=True)


def remove_unused(folder: Path, kept: set[str], pictures: Iterable[WrittenPicture]) -> None:
    """Remove pictures that belong to no sample."""
    for picture in pictures:
        if picture.image not in kept:
            (folder / picture.image).unlink(missing_ok=True)


def make_sample(truth: MinedTruth, row: int, picture: WrittenPicture, val: set[tuple[str, str]]) -> Sample:
    """One line of the data set; `val`: the validation shots as (character, shot)."""
    source, where, scale = truth.rows[row], picture.where, picture.size / picture.where.side
    places = where.to_crop(truth.marks[row, :, :2], picture.size)
    landmarks = {
        name: (float(x), float(y), float(truth.marks[row, at, 2]))
        for at, (name, (x, y)) in enumerate(zip(truth.names, places))
        if np.isfinite(x)
    }
    shapes = {}
    for plan, at in truth.plans_at(row):
        width = plan.shape.width_px[at]
        scaled = None if not np.isfinite(width) or width <= 0 else float(width * scale)
        shapes[plan.shape.name] = ShapeTruth(where.spline_to_crop(plan.points_FP6[at], picture.size).tolist(), scaled)
    split: Split = "val" if (source.character, source.shot) in val else "train"
    extent = where.to_crop(truth.extent(row), picture.size)
    low, high = extent.min(axis=0), extent.max(axis=0)
    return Sample(
        image=picture.image,
        width=picture.size,
        height=picture.size,
        character=source.character,
        shot=source.shot,
        frame=source.frame,
        split="test" if source.split == "test" else split,
        landmarks=landmarks,
        shapes=shapes,
        face_box=(float(low[0]), float(low[1]), float(high[0] - low[0]), float(high[1] - low[1])),
        pixel_scale=round(scale, 6),
    )
