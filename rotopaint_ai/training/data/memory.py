"""Samples decoded for training: pictures no larger than a crop needs, and ground truth in their pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from rotopaint_ai.numa import memory_bytes
from rotopaint_ai.training.data.dataset import Array, Dataset, Picture, Truth
from rotopaint_ai.training.data.shards.stream import (
    MEMORY_SHARE,
    PictureChain,
    PictureStream,
    shrink_picture,
    shrink_pictures,
    sizes_of,
)


@dataclass(frozen=True, slots=True)
class Memory:
    """Samples decoded once: pictures no larger than a crop needs, and ground truth in their pixels.

    `shrink[n]`: factors (x, y) from the picture on disk to the one here. `groups[n]`: number of the shard that
    contains the picture; None without shards.
    """

    pictures: Sequence[Picture]
    truth: Truth
    shrink: npt.NDArray[np.float64]
    groups: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return len(self.pictures)


def face_side(landmarks_NLC: Array) -> npt.NDArray[np.float64]:
    """Longest side of each sample's landmark bounding box, in picture pixels; NaN without landmarks."""
    low, high = face_bounds(landmarks_NLC)
    return cast(npt.NDArray[np.float64], (high - low).max(axis=1))


def face_bounds(landmarks_NLC: Array) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Top-left and bottom-right corners [N, 2] of the known landmarks."""
    known = np.isfinite(landmarks_NLC)
    low = np.where(known, landmarks_NLC, np.inf).min(axis=1).astype(np.float64)
    high = np.where(known, landmarks_NLC, -np.inf).max(axis=1).astype(np.float64)
    return low, high


def load_pictures(
    dataset: Dataset, *, side_px: float, margin: float, check: Callable[[], None] = lambda: None
) -> Memory:
    """Decode every picture, shrunk by area averaging so that a crop (`margin` times the face) is at most `side_px`.

    Pictures in shards are decoded on first use, so that training starts before all shards are downloaded.
    `check` is called once per picture and may raise to stop.
    """
    factors = np.minimum(1.0, side_px / (face_side(dataset.truth.landmarks) * margin))
    sizes = [(sample.width, sample.height) for sample in dataset.samples]
    if (groups := dataset.groups()) is not None:
        streamed = PictureStream(
            dataset.picture, sizes, [float(factor) for factor in factors], dataset.fetch, load_bytes=dataset.load_bytes
        )
        return replace(_resize_truth(streamed, sizes, dataset.truth, np.ones((len(dataset), 2))), groups=groups)
    pictures = []
    for row, factor in enumerate(factors):
        check()
        pictures.append(shrink_picture(dataset.picture(row), float(factor)))
    return _resize_truth(tuple(pictures), sizes, dataset.truth, np.ones((len(dataset), 2)))


def stream_pictures(dataset: Dataset) -> PictureStream:
    """Every picture at its full size, decoded on first use and cached while memory lasts."""
    sizes = [(sample.width, sample.height) for sample in dataset.samples]
    return PictureStream(dataset.picture, sizes, [1.0] * len(dataset), dataset.fetch, MEMORY_SHARE * memory_bytes() / 4)


def join_memories(first: Memory, second: Memory) -> Memory:
    """The samples of both, in order."""
    truth = Truth.concatenate((first.truth, second.truth))
    shrink = np.concatenate([first.shrink, second.shrink])
    if first.groups is None and second.groups is None:
        return Memory((*first.pictures, *second.pictures), truth, shrink)
    groups = tuple(group for memory in (first, second) for group in memory.groups or (-1,) * len(memory))
    return Memory(PictureChain(first.pictures, second.pictures), truth, shrink, groups)


def shrink_memory(memory: Memory, factor: float) -> Memory:
    """The same samples with every picture shrunk by `factor`."""
    made = _resize_truth(
        shrink_pictures(memory.pictures, factor), sizes_of(memory.pictures), memory.truth, memory.shrink
    )
    return replace(made, groups=memory.groups)


def _resize_truth(
    pictures: Sequence[Picture], sizes: Sequence[tuple[int, int]], truth: Truth, before: npt.NDArray[np.float64]
) -> Memory:
    """Samples whose `pictures` were resized from `sizes`, with the ground truth scaled to match."""
    factors = np.array(sizes_of(pictures), np.float64) / np.array(sizes, np.float64)
    return Memory(pictures, truth.scaled(factors), before * factors)
