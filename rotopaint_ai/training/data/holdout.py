"""Which samples are trained on and which are held out: of data sets, and of pictures that are marked one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.training.data import dataset_checks
from rotopaint_ai.training.data.dataset import Dataset


def data_print(parts: Iterable[npt.NDArray[Any]]) -> str:
    """What tells the data of one run from those of another: of its arrays' shapes, kinds and bytes, in their order."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{part.shape}{part.dtype.str}".encode())
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


HELD_BACK = 0.12  # share of each shot, at its end, that is held out where a data set has no `val` split
PICTURES_HELD_BACK = 0.1  # share of pictures, where none is marked


def split_held_out(data: Dataset) -> Dataset:
    """Make sure that there is something to train on and something held out.

    Where no sample is marked `val`, the last part of every shot is held out: neighbouring frames are so alike that
    frames drawn at random would flatter the pack. `test` samples are left alone.
    """
    if not len(data.rows_of("train")):
        raise TrainingError(f"data set '{data.name}': no sample has split 'train'; there is nothing to learn from")
    if len(data.rows_of("val")):
        return data
    shots: dict[tuple[str, str], list[int]] = {}
    for row in data.rows_of("train"):
        sample = data.samples[row]
        shots.setdefault((sample.character, sample.shot), []).append(int(row))
    late = {row for rows in shots.values() for row in _last_frames(data, rows)}
    if not late:
        late = {dataset_checks.spare_row(data, data.rows_of("train").tolist())}
    if len(late) == len(data.rows_of("train")):
        raise TrainingError(f"data set '{data.name}': one training sample; wanted at least 2, one to be held out")
    samples = tuple(replace(s, split="val") if row in late else s for row, s in enumerate(data.samples))
    return replace(data, samples=samples)


def _last_frames(data: Dataset, rows: list[int]) -> list[int]:
    ordered = sorted(rows, key=lambda row: data.samples[row].frame)
    count = int(len(rows) * HELD_BACK)
    return ordered[-count:] if count else []


class MarkedPicture(Protocol):
    """A picture with its truth, marked for training (`train`), for validation (`val`) or kept out of both (`test`)."""

    @property
    def split(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def picture(self) -> npt.NDArray[Any]: ...


S = TypeVar("S", bound=MarkedPicture)


def split_samples(samples: Sequence[S]) -> tuple[list[S], list[S]]:
    """Samples to train on and held-out ones: those marked `val`, else the last ones.

    Raises: TrainingError where there are too few, or where a picture that is held out is trained on as well. Where no
    sample is marked, frames of a hold may stand on both sides of the line; they are not trained on then.
    """
    held = [sample for sample in samples if sample.split == "val"]
    train = [sample for sample in samples if sample.split == "train"]
    is_marked = bool(held)
    if not held and len(train) > 1:
        count = max(1, round(len(train) * PICTURES_HELD_BACK))
        train, held = train[:-count], train[-count:]
    if not train or not held:
        raise TrainingError("nothing to train on and hold back; wanted at least 2 pictures of split 'train'")
    twins = _twins(train, held)
    if twins and is_marked:
        one, other = next(iter(twins.items()))
        raise TrainingError(
            f"{held[other].name} is held out and learnt from as {train[one].name}, the same picture; keep one of them"
        )
    train = [sample for row, sample in enumerate(train) if row not in twins]
    if not train:
        raise TrainingError("nothing to train on: all pictures are the same as those held back; wanted others")
    return train, held


def _twins(train: Sequence[MarkedPicture], held: Sequence[MarkedPicture]) -> dict[int, int]:
    """Rows of samples to train on whose very picture is held out, each with the held-out sample's row."""
    known = {data_print([sample.picture]): row for row, sample in enumerate(held)}
    found = {row: known.get(data_print([sample.picture])) for row, sample in enumerate(train)}
    return {row: other for row, other in found.items() if other is not None}
