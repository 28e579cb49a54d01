"""The training and validation splits, and the data sets that training refuses.

Refused: contradictory labels, and validation samples that are also trained on.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.frames import summarise
from rotopaint_ai.shapes import bezier
from rotopaint_ai.sheet import ShapeSpec, Sheet
from rotopaint_ai.training.data.dataset import Dataset, Picture, Sample, Split

_SAMPLES = 12  # samples of a curve between two control points
_MOST_SPANS = 40
# fewest landmarks to predict a shape from: a similarity fits fewer exactly, which leaves no residual
FEWEST_LANDMARKS = 3
AGREE = 0.02  # share of the face: if two labels of a frame differ by more, one of them is wrong

Array = npt.NDArray[np.float64]
ShotKey = tuple[str, str]


def check_dataset(data: Dataset) -> None:
    """Raise TrainingError, in one line, if labels contradict each other or the splits leak.

    A frame is identified by character, shot and number; samples without character and shot are not compared. A
    validation shot must not be trained on. Validation characters are either all trained on (in other shots) or all
    new. The same picture must not be in both splits, whatever its name (pictures in shards are not compared).
    """
    _check_labels(data)
    _check_shots(data)
    _check_characters(data)
    _check_pictures(data)


def landmark_rows(sheet: Sheet, shape: ShapeSpec) -> tuple[int, ...]:
    """Landmarks that a shape is predicted from: the sheet's and those on its control points; all if these are too
    few."""
    rows = {*sheet.rows_of(shape), *(sheet.landmark_row(name) for name in shape.on_landmarks.values())}
    return tuple(sorted(rows)) if len(rows) >= FEWEST_LANDMARKS else tuple(range(len(sheet.landmarks)))


def check_shapes(train: Dataset, *, fewest: int) -> None:
    """Raise TrainingError, in one line, if a shape and its landmarks are known in fewer than `fewest` samples."""
    counts = known_with_landmarks(train).sum(axis=0)
    n_few = int((counts < fewest).sum())
    if n_few:
        more, worst = f" (and {n_few - 1} more)" if n_few > 1 else "", train.sheet.shapes[int(counts.argmin())].name
        raise TrainingError(
            f"data set '{train.name}': shape '{worst}'{more} is known in {counts.min()} of {len(train.samples)} "
            f"training samples together with its landmarks; wanted {fewest} or more: key it, and the shapes that its "
            "landmarks lie on, on the same frames, or take it out of the sheet"
        )


def choose_val_row(data: Dataset, rows: Sequence[int]) -> int:
    """The sample to use for validation: the last of those whose removal leaves most samples for the rarest shape."""
    known = known_with_landmarks(data)[list(rows)]
    left = (known.sum(axis=0) - known).min(axis=1, initial=len(rows))
    return int(rows[len(rows) - 1 - int(np.argmax(left[::-1]))])


def known_with_landmarks(data: Dataset) -> npt.NDArray[np.bool_]:
    """[N, K] whether a shape is known together with all landmarks that it is predicted from."""
    truth, slots = data.truth, data.sheet.point_rows()
    known = np.zeros((len(data.samples), len(data.sheet.shapes)), np.bool_)
    for column, shape in enumerate(data.sheet.shapes):
        marks, points = truth.landmarks[:, landmark_rows(data.sheet, shape)], truth.points[:, slots[shape.name]]
        known[:, column] = np.isfinite(marks).all(axis=(1, 2)) & np.isfinite(points).all(axis=(1, 2))
    return known


def _check_labels(data: Dataset) -> None:
    frames: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for row, sample in enumerate(data.samples):
        if sample.character or sample.shot:
            frames[(sample.character, sample.shot, sample.frame)].append(row)
    pairs = [(rows[0], other) for rows in frames.values() for other in rows[1:]]
    apart = [(one, other, off) for one, other in pairs if (off := measure_disagreement(data, one, other)) > AGREE]
    if apart:
        _raise_contradiction(data, apart)


def measure_disagreement(data: Dataset, one: int, other: int) -> float:
    """The largest distance between two labels of one frame, as a share of the face.

    The two pictures may be cropped differently, so both labels are put into plate pixels and centred on the landmarks'
    median. Control points are compared with the other label's curve, because points may slide along it.
    """
    a, b = (data.truth.landmarks[row].astype(np.float64) for row in (one, other))
    known = np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1)
    if known.sum() < 2:
        return 0.0
    a, b = a[known] / data.samples[one].pixel_scale, b[known] / data.samples[other].pixel_scale
    middles = np.median(a, axis=0), np.median(b, axis=0)
    apart = np.linalg.norm((a - middles[0]) - (b - middles[1]), axis=1).max()
    apart = max(apart, _label_distance(data, (one, other), middles))
    return float(apart / max(float(np.ptp(a, axis=0).max()), 1e-9))


def _label_distance(data: Dataset, rows: tuple[int, int], middles: tuple[Array, Array]) -> float:
    """The largest distance, in plate pixels, from a control point to the other label's curve; both centred on
    `middles`."""
    found = 0.0
    scales = [data.samples[row].pixel_scale for row in rows]
    for spec in data.sheet.shapes:
        slot = data.sheet.point_rows()[spec.name]
        a, b = (data.truth.points[row, slot] / scale for row, scale in zip(rows, scales))
        if np.isfinite(a).all() and np.isfinite(b).all():
            curve = bezier.sample(b, spec.closed, per_segment=_SAMPLES) - middles[1]
            away = np.linalg.norm((a[:, None, :2] - middles[0]) - curve[None], axis=2)
            found = max(found, float(away.min(axis=1).max()))
    return found


def _raise_contradiction(data: Dataset, apart: Sequence[tuple[int, int, float]]) -> NoReturn:
    one, other, _ = apart[0]
    sample, where = data.samples[one], " and ".join(_picture_place(data, row) for row in (one, other))
    more = f" (and {len(apart) - 1} more)" if len(apart) > 1 else ""
    raise TrainingError(
        f"data set '{data.name}': {sample.character} {sample.shot} frame {sample.frame}{more} is labelled twice, "
        f"{max(off for *_, off in apart):.0%} of the face apart ({where}); mine one of them again with --exclude "
        f"{_exclusion([data.samples[row] for row, *_ in apart])}"
    )


def _picture_place(data: Dataset, row: int) -> str:
    """The path of a sample's picture, to tell two data sets apart."""
    folder, image = data.folders[row], data.samples[row].image
    return f"{folder.name}/{image}" if isinstance(folder, Path) else image


def _exclusion(samples: Sequence[Sample]) -> str:
    """Frames in the syntax of `mine --exclude`, the first few shots."""
    shots: dict[str, list[int]] = defaultdict(list)
    for sample in samples:
        shots[sample.shot].append(sample.frame)
    spans = [f"{shot}:{span.strip()}" for shot, own in shots.items() for span in summarise(own).split(",")]
    return ",".join(spans[:_MOST_SPANS]) + (",..." if len(spans) > _MOST_SPANS else "")


def _shots(samples: Iterable[Sample], *splits: Split) -> set[ShotKey]:
    return {(s.character, s.shot) for s in samples if s.split in splits and s.shot}


def _check_shots(data: Dataset) -> None:
    both = _shots(data.samples, "train") & _shots(data.samples, "val", "test")
    if both:
        character, shot = min(both)
        more = f" (and {len(both) - 1} more)" if len(both) > 1 else ""
        raise TrainingError(
            f"data set '{data.name}': shot {shot} of {character or 'the character'}{more} is in the training and in "
            "the validation split; neighbouring frames are alike, so the errors would look too small: hold out whole "
            f"shots with mine --val SHOT{_splits_of_shot(data, character, shot)}"
        )


def _splits_of_shot(data: Dataset, character: str, shot: str) -> str:
    """The data sets that have a shot in the training split, and those that have it in another; empty if one set has
    both."""
    own = [
        (folder, sample.split)
        for folder, sample in zip(data.folders, data.samples)
        if sample.shot == shot and sample.character == character and isinstance(folder, Path)
    ]
    learnt = {folder.name: None for folder, split in own if split == "train"}
    held = {folder.name: None for folder, split in own if split != "train"}
    if not learnt or not held or learnt.keys() == held.keys():
        return ""
    return f"; {', '.join(learnt)} trains on {shot}, {', '.join(held)} holds it out"


def _check_characters(data: Dataset) -> None:
    learnt = {s.character for s in data.samples if s.split == "train" and s.character}
    held = {s.character for s in data.samples if s.split == "val" and s.character}
    seen, new = held & learnt, held - learnt
    if seen and new:
        raise TrainingError(
            f"data set '{data.name}': validation character {min(seen)} is trained on in other shots and {min(new)} is "
            "not; errors of the two cannot be averaged: hold out shots of every character, or whole characters only"
        )


def _check_pictures(data: Dataset) -> None:
    sides: Mapping[bool, dict[int, list[Path]]] = {True: defaultdict(list), False: defaultdict(list)}
    for folder, sample in zip(data.folders, data.samples):
        path = folder / sample.image if isinstance(folder, Path) else None
        if path is not None and path.is_file():
            sides[sample.split == "train"][path.stat().st_size].append(path)
    for size in sides[True].keys() & sides[False].keys():
        known = {_hash(path): path for path in sides[True][size]}
        for path in sides[False][size]:
            twin = known.get(_hash(path))
            if twin is not None:
                raise TrainingError(
                    f"data set '{data.name}': {path.name} is in the validation and, as {twin.name}, in the training "
                    "split: the same picture; keep one of them"
                )


def _hash(path: Path) -> bytes:
    return hashlib.sha1(path.read_bytes(), usedforsecurity=False).digest()


def fingerprint_arrays(parts: Iterable[npt.NDArray[Any]]) -> str:
    """A fingerprint of data: a hash of the arrays' shapes, types and bytes, in order."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{part.shape}{part.dtype.str}".encode())
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


HELD_BACK = 0.12  # share of each shot, at its end, that becomes validation where a data set has no `val` split
PICTURES_HELD_BACK = 0.1  # share of pictures that becomes validation where none is marked


def split_off_validation(data: Dataset) -> Dataset:
    """The data set with samples in both splits, training and validation.

    Where no sample is marked `val`, the last part of every shot becomes the validation split: neighbouring frames are
    so similar that random frames would give too small errors. `test` samples are not changed.
    """
    if not len(data.rows_of("train")):
        raise TrainingError(f"data set '{data.name}': no sample has split 'train'; there is nothing to train on")
    if len(data.rows_of("val")):
        return data
    shots: dict[tuple[str, str], list[int]] = {}
    for row in data.rows_of("train"):
        sample = data.samples[row]
        shots.setdefault((sample.character, sample.shot), []).append(int(row))
    late = {row for rows in shots.values() for row in _last_frames(data, rows)}
    if not late:
        late = {choose_val_row(data, data.rows_of("train").tolist())}
    if len(late) == len(data.rows_of("train")):
        raise TrainingError(
            f"data set '{data.name}': one training sample; wanted at least 2, one of them for validation"
        )
    samples = tuple(replace(s, split="val") if row in late else s for row, s in enumerate(data.samples))
    return replace(data, samples=samples)


def _last_frames(data: Dataset, rows: list[int]) -> list[int]:
    ordered = sorted(rows, key=lambda row: data.samples[row].frame)
    count = int(len(rows) * HELD_BACK)
    return ordered[-count:] if count else []


def split_of_shot(folder: Path) -> Split:
    """The split of a shot by its folder: names that begin with `test` are test shots."""
    return "test" if folder.name.startswith("test") else "train"


@dataclass(frozen=True, slots=True)
class MarkedPicture:
    """A picture (H, W, 3), 8-bit RGB for display, for training (`train`), validation (`val`) or neither (`test`)."""

    picture: Picture
    split: str
    name: str


S = TypeVar("S", bound=MarkedPicture)


def split_samples(samples: Sequence[S]) -> tuple[list[S], list[S]]:
    """Training and validation samples: those marked `val` are for validation, else the last ones.

    Where no sample is marked, frames of one hold may end up in both splits; these leave the training split.
    Raises: TrainingError if there are too few, or if a picture marked `val` is also marked `train`.
    """
    held = [sample for sample in samples if sample.split == "val"]
    train = [sample for sample in samples if sample.split == "train"]
    is_marked = bool(held)
    if not held and len(train) > 1:
        count = max(1, round(len(train) * PICTURES_HELD_BACK))
        train, held = train[:-count], train[-count:]
    if not train or not held:
        raise TrainingError("nothing to train and validate on; wanted at least 2 pictures of split 'train'")
    twins = _twins(train, held)
    if twins and is_marked:
        one, other = next(iter(twins.items()))
        raise TrainingError(
            f"{held[other].name} is in the validation and, as {train[one].name}, in the training split: the same "
            "picture; keep one of them"
        )
    train = [sample for row, sample in enumerate(train) if row not in twins]
    if not train:
        raise TrainingError("nothing to train on: all pictures are also in the validation split; wanted others")
    return train, held


def _twins(train: Sequence[MarkedPicture], held: Sequence[MarkedPicture]) -> dict[int, int]:
    """Rows of training samples whose picture is also in the validation split, each with the validation sample's row."""
    known = {fingerprint_arrays([sample.picture]): row for row, sample in enumerate(held)}
    found = {row: known.get(fingerprint_arrays([sample.picture])) for row, sample in enumerate(train)}
    return {row: other for row, other in found.items() if other is not None}
