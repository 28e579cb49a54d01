"""What a pack's training starts from: samples read and held out, pictures decoded, the network with what it knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rotopaint_ai.sheet import Sheet, mirror_permutation
from rotopaint_ai.training.data import dataset_checks
from rotopaint_ai.training.data.dataset import Dataset, join, read_dataset
from rotopaint_ai.training.data.holdout import split_held_out
from rotopaint_ai.training.data.memory import face_side, load_pictures
from rotopaint_ai.training.data.rigid_structure import choose_structure
from rotopaint_ai.training.data.seam_widths import with_seam_widths
from rotopaint_ai.training.models.landmarks.config import PackConfig
from rotopaint_ai.training.models.landmarks.task import LandmarkData, LandmarkTask, build_net
from rotopaint_ai.training.models.landmarks.validation import Splines
from rotopaint_ai.training.models.pretrained import TransferReport, face_places, find_weights, load_pretrained

LOAD_MARGIN = 1.15  # pictures are kept this much larger than the crop, so that a closer crop still has its detail


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that a training starts from: the config as it fits the data, all samples and those to train on, the
    task for the Trainer, and what its network got from a pack."""

    config: PackConfig
    data: Dataset
    train_data: Dataset
    task: LandmarkTask
    transfer: TransferReport | None


def prepare(
    datasets: Sequence[str | Path],
    config: PackConfig,
    init: str | Path | None,
    check: Callable[[], None] = lambda: None,
) -> Prepared:
    """Read data sets, hold samples out, decode pictures once and start the network; arguments as `train` has them.

    Raises: TrainingError, PackError; whatever `check`, which is called once per picture, raises to stop.
    """
    whole = join([read_dataset(source) for source in datasets])
    dataset_checks.check_dataset(whole)
    split = split_held_out(whole)
    dataset_checks.check_shapes(split.subset(split.rows_of("train")), fewest=1 if config.shape_copies else 2)
    data = with_seam_widths(split)
    train_data, held_out = data.subset(data.rows_of("train")), data.subset(data.rows_of("val"))
    config = replace(config, crop_margin=fitting_margin(config, train_data))
    side = config.input_size * LOAD_MARGIN
    memory, held_memory = (
        load_pictures(part, side_px=side, margin=config.crop_margin, check=check) for part in (train_data, held_out)
    )
    net = build_net(config, len(data.sheet.landmarks))
    weights, places = find_weights(init), face_places(train_data.truth.landmarks)
    transfer = None if weights is None else load_pretrained(net, weights, data.sheet.landmark_names, places)
    mirror, splines = mirror_permutation(data.sheet), Splines.of(data.sheet, memory.truth)
    marks = (train_data.truth.landmarks, held_out.truth.landmarks)
    structure = choose_structure(*marks, mirror) if config.pose else None
    faces = LandmarkData(
        memory, held_memory, landmark_weights(data.sheet), mirror, splines, _faces_px(held_out), structure
    )
    return Prepared(config, data, train_data, LandmarkTask(config, net, faces), transfer)


def _faces_px(data: Dataset) -> npt.NDArray[np.float64]:
    """The longest side of each face in pixels of its plate."""
    scale = np.array([sample.pixel_scale for sample in data.samples], np.float64)
    return face_side(data.truth.landmarks) / np.maximum(scale, 1e-9)


def fitting_margin(config: PackConfig, data: Dataset) -> float:
    """The crop's side over the landmarks' longest side: less than usual where landmarks go round all that is keyed.

    Landmarks from brow to chin leave a forehead out, those on an outline round the face do not; the crop holds the same
    in both cases, and what is to be seen in it has the same size.
    """
    marks, points = data.truth.landmarks, data.truth.points[..., :2]
    if not points.shape[1]:
        return config.crop_margin
    whole = face_side(np.concatenate([marks, points], axis=1)) / face_side(marks)
    return float(np.clip(config.shape_margin * np.median(whole), 1.0, config.crop_margin).round(3))


def landmark_weights(sheet: Sheet) -> npt.NDArray[np.float32]:
    weights = np.array([landmark.weight for landmark in sheet.landmarks], np.float32)
    return weights / max(float(weights.mean()), 1e-6)
