"""What a pack's training starts from, and how long what follows its last step will take.

Samples are read and held out, pictures decoded, the network started with what it knows. The seconds of the parts after
the last step were measured on one core. A few held-out samples, read before the first step, tell how much slower this
machine is than that one; each part that is over tells it anew for those to come.
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
from rotopaint_ai.training.data.dataset_checks import split_held_out
from rotopaint_ai.training.data.memory import face_side, load_pictures
from rotopaint_ai.training.data.seam_widths import with_seam_widths
from rotopaint_ai.training.models.backbone import TransferReport, face_places, find_weights, load_pretrained
from rotopaint_ai.training.models.landmarks.config import PackConfig
from rotopaint_ai.training.models.landmarks.task import LandmarkData, LandmarkTask, build_net, predict_held_out
from rotopaint_ai.training.trainer.log import Budget

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
    mirror = mirror_permutation(data.sheet)
    marks = (train_data.truth.landmarks, held_out.truth.landmarks)
    structure = choose_structure(*marks, mirror) if config.pose else None
    faces = LandmarkData(memory, held_memory, sheet_weights(data.sheet), mirror, _faces_px(held_out), structure)
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


def sheet_weights(sheet: Sheet) -> npt.NDArray[np.float32]:
    weights = np.array([landmark.weight for landmark in sheet.landmarks], np.float32)
    return weights / max(float(weights.mean()), 1e-6)


_READING_S = 0.045  # of that core: one crop of 256 px by the usual network, exactly
_READ = 8  # samples
_SEAM_SHARE = 0.2  # of a command's time, at most
_TELLS_EVERY_S = 2.0
_NEARLY = 0.95
_RESCALED = 0.5, 2.0  # by what a part may change the estimates of others


class Tail:
    """Keeps the time of the parts that are to come in a budget, and tells how much of the command is over."""

    def __init__(self, ready: Prepared, budget: Budget, sink: Sink, *, seams: bool) -> None:
        self._budget, self._sink = budget, sink
        self.seam_s = ready.config.seam_minutes * 60 * seams
        if budget.limit_s is not None:
            self.seam_s = min(self.seam_s, _SEAM_SHARE * budget.limit_s)
        slower = _reading_s(ready) / _READING_S
        self._to_come = {part: slower * seconds for part, seconds in _estimate_seconds(ready, seams).items()}
        budget.reserve(self._left_s())

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Stands round a part, and tells now and then how far it has got."""
        start, expected = self._budget.spent_s(), self._to_come[name]
        over = threading.Event()
        teller = threading.Thread(target=self._keep_telling, args=(name, start, over), daemon=True)
        teller.start()
        try:
            yield
        finally:
            over.set()
            teller.join()
        del self._to_come[name]
        if name != "seams":  # their length is chosen
            slower = float(np.clip((self._budget.spent_s() - start) / expected, *_RESCALED))
            self._to_come = {part: slower * seconds for part, seconds in self._to_come.items()}
        else:
            self.seam_s = 0.0
        self._budget.reserve(self._left_s())

    def time_for_seams(self) -> float:
        """Seconds for tuning the seam network: all that other parts leave over, or what the recipe says."""
        if self._budget.limit_s is not None and self.seam_s:
            self.seam_s = max(1.0, self._budget.left_s() - sum(self._to_come.values()))
        return self.seam_s

    def _left_s(self) -> float:
        return self.seam_s + sum(self._to_come.values())

    def _keep_telling(self, name: str, start: float, over: threading.Event) -> None:
        """Tell how far the command has got until a part is over; one that takes longer than expected is nearly done."""
        while True:
            expected = self._to_come[name] + (self.seam_s if name == "seams" else 0.0)
            passed = min(self._budget.spent_s() - start, _NEARLY * expected)
            self._budget.reserve(self._left_s() - passed)
            share = round(min(1.0, self._budget.share(1.0)), 4)
            self._sink(Event("progress", {"stage": "train", "share": share, "doing": name}))
            if over.wait(_TELLS_EVERY_S):
                return


def _reading_s(ready: Prepared) -> float:
    """Seconds in which one thread reads a held-out sample exactly, after one to warm up."""
    held, threads = ready.task.data.held_out, torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for rows in (np.arange(1), np.arange(min(_READ, len(held)))):
            start = time.perf_counter()
            predict_held_out(ready.task.net, held, rows, ready.config, exact=True)
        return (time.perf_counter() - start) / len(rows)
    finally:
        torch.set_num_threads(threads)


def _estimate_seconds(ready: Prepared, seams: bool) -> dict[str, float]:
    """Seconds of each part on the core that they were measured on, but for the tuning itself."""
    n_held, n_packs = len(ready.task.data.held_out), 2 if ready.config.learn_all else 1
    measured = min(60, len(ready.data.rows_of("test")) or n_held)
    return {
        "fitting": 1.0 + 9.0 * ready.config.prior / min(3, n_cores()) + 0.27 * n_held,  # heads are fitted side by side
        "seams": (1.0 + 0.08 * n_held) * seams,
        "export": 22.0 + 14.0 * ready.config.prior + 5.5 * n_packs,
        "evaluation": 2.0 + 0.15 * measured,
    }
