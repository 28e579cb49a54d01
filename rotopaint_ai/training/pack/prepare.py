"""Prepares the training of a pack, and estimates how long the work after the last step will take.

Data sets are read and split, pictures decoded, and the network initialised. The durations of the final parts were
measured on one reference core. Predicting a few validation samples before the first step measures how much slower this
machine is; each finished part updates the estimate.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from rotopaint_ai.jobs import Event, Sink, n_cores
from rotopaint_ai.shapes.head_structure import choose_structure
from rotopaint_ai.sheet import Sheet, mirror_permutation
from rotopaint_ai.training.data import dataset_checks
from rotopaint_ai.training.data.dataset import Dataset, join, read_dataset
from rotopaint_ai.training.data.dataset_checks import split_off_validation
from rotopaint_ai.training.data.memory import face_side, load_pictures
from rotopaint_ai.training.data.seam_widths import add_seam_widths
from rotopaint_ai.training.models.backbone import TransferReport, face_places, find_weights, load_pretrained
from rotopaint_ai.training.models.landmarks.config import PackConfig
from rotopaint_ai.training.models.landmarks.task import LandmarkData, LandmarkTask, build_net, predict_held_out
from rotopaint_ai.training.models.whole_faces import with_whole_faces
from rotopaint_ai.training.trainer.log import Budget

LOAD_MARGIN = 1.15  # pictures are this much larger than the crop, so that a tighter crop keeps its detail


@dataclass(frozen=True, slots=True)
class TrainInputs:
    """The inputs of a training: the config adapted to the data, all samples, the training samples, the same with whole
    faces (for shapes), the task for the Trainer, and what the network got from a pack."""

    config: PackConfig
    data: Dataset
    train_data: Dataset
    whole_faces: Dataset
    task: LandmarkTask
    transfer: TransferReport | None


def prepare(
    datasets: Sequence[str | Path],
    config: PackConfig,
    init: str | Path | None,
    check: Callable[[], None] = lambda: None,
) -> TrainInputs:
    """Read and split data sets, decode pictures once and initialise the network; arguments as in `train`.

    `check` is called once per picture and may raise to stop. Raises: TrainingError, PackError.
    """
    whole = join([read_dataset(source) for source in datasets])
    dataset_checks.check_dataset(whole)
    split = split_off_validation(whole)
    data = add_seam_widths(split)
    train_data, held_out = data.subset(data.rows_of("train")), data.subset(data.rows_of("val"))
    whole_faces = with_whole_faces(train_data)
    dataset_checks.check_shapes(whole_faces, fewest=1 if config.shape_copies else 2)
    config = replace(config, crop_margin=choose_margin(config, train_data))
    side = config.input_size * LOAD_MARGIN
    memory, held_memory = (
        load_pictures(part, side_px=side, margin=config.crop_margin, check=check) for part in (train_data, held_out)
    )
    net = build_net(config, len(data.sheet.landmarks))
    weights, places = find_weights(init), face_places(train_data.truth.landmarks)
    transfer = None if weights is None else load_pretrained(net, weights, data.sheet.landmark_names, places)
    mirror = mirror_permutation(data.sheet)
    marks = (train_data.truth.landmarks, held_out.truth.landmarks)
    structure = choose_structure(*marks, mirror) if config.pose else None
    faces = LandmarkData(memory, held_memory, sheet_weights(data.sheet), mirror, _faces_px(held_out), structure)
    return TrainInputs(config, data, train_data, whole_faces, LandmarkTask(config, net, faces), transfer)


def _faces_px(data: Dataset) -> npt.NDArray[np.float64]:
    """The longest side of each face in plate pixels."""
    scale = np.array([sample.pixel_scale for sample in data.samples], np.float64)
    return face_side(data.truth.landmarks) / np.maximum(scale, 1e-9)


def choose_margin(config: PackConfig, data: Dataset) -> float:
    """The crop's side over the landmarks' longest side, reduced if landmarks surround all shapes.

    Landmarks from brow to chin exclude the forehead; those on a face outline do not. The margin makes the crop contain
    the same in both cases, so faces have the same size in it.
    """
    marks, points = data.truth.landmarks, data.truth.points[..., :2]
    if not points.shape[1]:
        return config.crop_margin
    whole = face_side(np.concatenate([marks, points], axis=1)) / face_side(marks)
    return float(np.clip(config.shape_margin * np.median(whole), 1.0, config.crop_margin).round(3))


def sheet_weights(sheet: Sheet) -> npt.NDArray[np.float32]:
    """The weight of each landmark of a sheet in the loss: (L,), 1 on average."""
    weights = np.array([landmark.weight for landmark in sheet.landmarks], np.float32)
    return weights / max(float(weights.mean()), 1e-6)


_READING_S = 0.045  # on the reference core: one 256 px crop in an exact pass of the default network
_READ = 8  # samples
_SEAM_SHARE = 0.2  # largest share of the command's time for seam tuning
_REPORT_EVERY_S = 2.0
_NEARLY = 0.95
_RESCALED = 0.5, 2.0  # range in which a finished part may rescale the estimates of the others


class Tail:
    """Reserves the time of the final parts in the budget, and reports progress during them."""

    def __init__(self, ready: TrainInputs, budget: Budget, sink: Sink, *, seams: bool) -> None:
        self._budget, self._sink = budget, sink
        self.seam_s = ready.config.seam_minutes * 60 * seams
        if budget.limit_s is not None:
            self.seam_s = min(self.seam_s, _SEAM_SHARE * budget.limit_s)
        slower = _reading_s(ready) / _READING_S
        self._remaining = {part: slower * seconds for part, seconds in _estimate_seconds(ready, seams).items()}
        budget.reserve(self._remaining_s())

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Context for one part; reports progress regularly."""
        start, expected = self._budget.spent_s(), self._remaining[name]
        over = threading.Event()
        reporter = threading.Thread(target=self._report_progress, args=(name, start, over), daemon=True)
        reporter.start()
        try:
            yield
        finally:
            over.set()
            reporter.join()
        del self._remaining[name]
        if name != "seams":  # their duration is chosen, not estimated
            slower = float(np.clip((self._budget.spent_s() - start) / expected, *_RESCALED))
            self._remaining = {part: slower * seconds for part, seconds in self._remaining.items()}
        else:
            self.seam_s = 0.0
        self._budget.reserve(self._remaining_s())

    def time_for_seams(self) -> float:
        """Seconds for tuning the seam network: the recipe's (at most a fifth of the limit), or what is left."""
        if self._budget.limit_s is not None and self.seam_s:
            left = self._budget.left_s() - sum(self._remaining.values())
            self.seam_s = max(1.0, min(self.seam_s, left))
        return self.seam_s

    def _remaining_s(self) -> float:
        return self.seam_s + sum(self._remaining.values())

    def _report_progress(self, name: str, start: float, over: threading.Event) -> None:
        """Report progress until the part ends; a part that takes longer than estimated stays nearly done."""
        while True:
            expected = self._remaining[name] + (self.seam_s if name == "seams" else 0.0)
            passed = min(self._budget.spent_s() - start, _NEARLY * expected)
            self._budget.reserve(self._remaining_s() - passed)
            self._sink(Event("progress", {**self._budget.facts(1.0), "doing": name}))
            if over.wait(_REPORT_EVERY_S):
                return


def _reading_s(ready: TrainInputs) -> float:
    """Seconds for one thread to predict a validation sample exactly, after one warm-up."""
    held, threads = ready.task.data.held_out, torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for rows in (np.arange(1), np.arange(min(_READ, len(held)))):
            start = time.perf_counter()
            predict_held_out(ready.task.net, held, rows, ready.config, exact=True)
        return (time.perf_counter() - start) / len(rows)
    finally:
        torch.set_num_threads(threads)


def _estimate_seconds(ready: TrainInputs, seams: bool) -> dict[str, float]:
    """Seconds of each part on the reference core, without the seam tuning itself."""
    n_held, n_packs = len(ready.task.data.held_out), 2 if ready.config.learn_all else 1
    measured = min(60, len(ready.data.rows_of("test")) or n_held)
    return {
        "fitting": 1.0 + 9.0 * ready.config.prior / min(3, n_cores()) + 0.27 * n_held,  # folds are fitted in parallel
        "seams": (1.0 + 0.08 * n_held) * seams,
        "export": 22.0 + 14.0 * ready.config.prior + 5.5 * n_packs,
        "evaluation": 2.0 + 0.15 * measured,
    }
