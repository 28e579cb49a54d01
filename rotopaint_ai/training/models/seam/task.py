"""`rotopaint train DATASET --recipe seam --out PACK`: trains the seam network and puts it into a pack.

The network finds the seam's offset in strips along predicted seams.
N batch, T rows along the curve, S pairs of rows, D offsets across it.
"""

from __future__ import annotations

import copy
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rotopaint_ai.crops import CROP_MARGIN, crop_around
from rotopaint_ai.errors import TrainingError
from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.seams.path import N_OFFSETS, OFFSETS
from rotopaint_ai.seams.placement import GAP, MULTIPLE, ZOOMS, Seam, SeamLook, look, place
from rotopaint_ai.shapes.bezier import curve_distance
from rotopaint_ai.training.data.dataset import Dataset, Picture, join, read_dataset
from rotopaint_ai.training.data.dataset_checks import split_off_validation
from rotopaint_ai.training.data.shards.stream import reading_and_decoding_s
from rotopaint_ai.training.models.backbone import ConvNorm
from rotopaint_ai.training.models.seam.examples import Example, Examples, StripBatch, pad_examples
from rotopaint_ai.training.trainer.config import TrainConfig
from rotopaint_ai.training.trainer.onnx_export import export_checked, load_weights, read_graph
from rotopaint_ai.training.trainer.task import NETWORKS, Losses, Moment, Network, PartTask, TrainSources, to_tensor
from rotopaint_ai.training.trainer.trainer import Trainer

_PARITY = 1e-3
WIDTHS = (16, 32, 64)
CONTEXT = 3  # blocks of growing dilation along the seam


class SeamNet(nn.Module):
    """A U-Net with three levels on strips."""

    def __init__(self, widths: tuple[int, int, int] = WIDTHS, context: int = CONTEXT) -> None:
        super().__init__()
        a, b, c = widths
        self.fine = ConvNorm(6, a)
        self.middle = nn.Sequential(ConvNorm(a, b, stride=2), ConvNorm(b, b))
        further = (ConvNorm(c, c, dilation=2 ** (2 + k)) for k in range(context))
        self.coarse = nn.Sequential(ConvNorm(b, c, stride=2), ConvNorm(c, c, dilation=2), *further)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.middle_up = nn.Sequential(ConvNorm(c + b, b, 1), ConvNorm(b, b))
        self.fine_up = nn.Sequential(ConvNorm(b + a, a, 1), ConvNorm(a, a))
        self.where = nn.Conv2d(a, 1, 1)
        self.nothing = nn.Conv1d(2 * a, 1, 3, padding=1)

    def forward(self, strip: Tensor) -> Tensor:
        """[N, T, D, 3] -> logits [N, T / 2, D + 1]."""
        n, _, d, _ = strip.shape
        x = strip.reshape(n, -1, 2, d, 3).permute(0, 2, 4, 1, 3).reshape(n, 6, -1, d)
        fine = self.fine(x)
        middle = self.middle(fine)
        middle = self.middle_up(torch.cat([self.up(self.coarse(middle)), middle], 1))
        fine = self.fine_up(torch.cat([self.up(middle), fine], 1))
        pooled = torch.cat([fine.amax(3), fine.mean(3)], 1)
        return torch.cat([self.where(fine)[:, 0], self.nothing(pooled)[:, 0, :, None]], 2)


def load_seam_net(path: Path) -> SeamNet:
    """Load the network of a `seam.onnx`, with its batch norms folded. Raises TrainingError for any other file."""
    graph = read_graph(path)
    firsts = ("fine.0.weight", "middle.0.0.weight", "coarse.0.0.weight")
    sizes = {item.name: item.dims[0] for item in graph.initializer if item.name.endswith(".weight")}
    n_coarse = sum(bool(re.fullmatch(r"coarse\.\d+\.0\.weight", name)) for name in sizes)
    a, b, c = (sizes.get(name, 0) or width for name, width in zip(firsts, WIDTHS))
    net = SeamNet((a, b, c), max(0, n_coarse - 2))
    load_weights(net, graph, path)
    return net.eval()


def export_seam(net: SeamNet, path: Path) -> float:
    """Write the network with a free number of rows. Returns the largest difference to torch on a strip of another
    length.

    Raises: TrainingError if the file's outputs differ from the network's.
    """
    draw = np.random.default_rng(0)
    example = draw.standard_normal((1, 20 * MULTIPLE, N_OFFSETS, 3)).astype(np.float32)
    other = draw.standard_normal((1, 13 * MULTIPLE + 2 * GAP // MULTIPLE * MULTIPLE, N_OFFSETS, 3)).astype(np.float32)
    free = {1: MULTIPLE * torch.export.Dim("places", min=2, max=512)}
    names = ("zoomed_strip", ("logits",))
    return export_checked(net, path, names, other, limits={"logits": _PARITY}, example=example, free=free)


_TRIES = 20  # tries to draw a sample whose seam is long enough
_LOOKED_AT = 300  # most validation samples for metrics


@dataclass(frozen=True, slots=True)
class SeamConfig(TrainConfig):
    """The training config of a seam network."""

    task: str = "seam"
    name: str = "seam"
    minutes: float | None = 9.0
    batch: int = 12
    learning_rate: float = 3e-3
    weight_decay: float = 1e-3
    clip: float = 1.0
    ema: float = 0.99
    bf16: bool = False
    eval_every: int = 100


class SeamTask(PartTask[SeamNet, StripBatch]):
    """Training of a seam network on a data set's `train` samples."""

    captures = True

    def __init__(self, config: TrainConfig, net: SeamNet, examples: Examples) -> None:
        self.config, self.net, self.examples = config, net, examples
        self.samples, self.held_out = examples.rows_of("train"), examples.rows_of("val")
        if not len(self.samples):
            raise TrainingError(f"{examples.dataset.name}: no open shapes of role 'seam'; wanted a data set with seams")

    @classmethod
    def prepare(cls, config: SeamConfig, sources: TrainSources) -> SeamTask:
        """Read and split data sets, initialise the network."""
        data = split_off_validation(join([read_dataset(folder) for folder in sources.folders]))
        torch.manual_seed(config.seed)
        return cls(config, SeamNet(), Examples.of(data))

    @property
    def data(self) -> Dataset:
        """The data set."""
        return self.examples.dataset

    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """The samples' sizes and curves."""
        yield np.array([(sample.width, sample.height) for sample in self.data.samples])
        yield from (np.asarray(self.samples), self.data.truth.landmarks, self.data.truth.points)

    def make_batch(self, moment: Moment) -> StripBatch:
        """This rank's strips."""
        return pad_examples([self._example(rng) for rng in moment.generators()])

    def reading_and_decoding_s(self) -> tuple[float, float]:
        """Seconds spent reading and decoding pictures."""
        return reading_and_decoding_s(self.examples.pictures)

    def _example(self, rng: np.random.Generator) -> Example:
        for _ in range(_TRIES):
            made = self.examples.make(int(rng.choice(self.samples)), rng)
            if made is not None:
                return made
        raise TrainingError(
            f"{self.data.name}: {_TRIES} samples in a row have no seam long enough; check the seams of this data set"
        )

    def to_device(self, batch: StripBatch, moment: Moment) -> tuple[Tensor, Tensor]:
        """Strips and target probabilities."""
        return to_tensor(batch.strip, moment.device), to_tensor(batch.target, moment.device)

    def loss(self, net: SeamNet, inputs: tuple[Tensor, Tensor], moment: Moment) -> Losses:
        """Cross entropy with the target probabilities, averaged over known rows."""
        strip, target = inputs
        with moment.precision():
            logits = net(strip).float()
        return -(target * F.log_softmax(logits, dim=2)).sum() / target.sum().clamp_min(1.0), {}

    @torch.no_grad()
    def metrics(self, net: SeamNet) -> Mapping[str, Any]:
        """Share of visible rows whose best offset is within 2 steps, and share of hidden rows that are recognised as
        hidden."""
        rng = np.random.default_rng(1)
        right, blind = [], []
        for row in self.held_out[:_LOOKED_AT]:
            item = self.examples.make(int(row), rng, augment=False)
            if item is None:
                continue
            logits = net(torch.from_numpy(pad_examples([item]).strip))[0].numpy()
            known = item.weight > 0
            seen = np.isfinite(item.offset) & known
            right.append((np.abs(OFFSETS[logits[:, :-1].argmax(axis=1)] - item.offset) <= 2)[seen])
            blind.append((logits.argmax(axis=1) == N_OFFSETS)[~np.isfinite(item.offset) & known])
        joined = [np.concatenate(parts) if parts else np.zeros(0) for parts in (right, blind)]
        return {
            name: round(float(values.mean()), 4)
            for name, values in zip(("within_2_steps", "hidden_recall"), joined)
            if len(values)
        }

    def export(self, net: SeamNet, path: Path) -> float:
        """Write `seam.onnx` with a free number of places."""
        return export_seam(net, path)


NETWORKS.register("seam")(Network(SeamConfig(), SeamTask.prepare, file="seam.onnx", card=("training", "seam")))


Array = npt.NDArray[Any]

_GAMMA = 2.2  # approximate is enough: the same gamma is inverted afterwards
_TUNED_ON = 40  # validation samples for tuning, each with _VIEWS random errors
_VIEWS = 2
_RATE, _DECAY = 1e-3, 0.98
_NEVER = 1_000_000  # steps: a minute's training needs no checkpoint before its end


@dataclass(frozen=True, slots=True)
class TuneResult:
    """A tuned network and its error on validation samples before and after.

    The error is the mean distance, in steps, from the best offset to the true one, where the seam is visible.
    """

    net: SeamNet
    before: float
    after: float
    steps: int

    @property
    def is_better(self) -> bool:
        """Whether tuning reduced the error."""
        return self.after < self.before


class TuningTask(SeamTask):
    """Tuning with frozen batch norms: a dozen strips of one character are too few for statistics."""

    def set_mode(self, net: SeamNet) -> None:
        """Evaluation mode, as at run time."""
        net.eval()


def tune_seam_net(
    dataset: Dataset,
    start: SeamNet,
    *,
    minutes: float,
    seed: int = 0,
    check: Callable[[], None] = lambda: None,
) -> TuneResult | None:
    """Tune a network on the seams of a data set's `train` samples for `minutes`; None if it has no seams."""
    examples = Examples.of(dataset)
    held = _validation_examples(examples)
    if not held or not len(examples.rows_of("train")):
        return None
    config = SeamConfig(minutes=minutes, learning_rate=_RATE, ema=_DECAY, seed=seed, eval_every=_NEVER)
    task = TuningTask(config, copy.deepcopy(start).eval(), examples)
    with tempfile.TemporaryDirectory(prefix="rotopaint-seam-") as folder:
        trained = Trainer(config, task, Path(folder)).fit(check=check)
    return TuneResult(trained.net, _mean_miss(start, held), _mean_miss(trained.net, held), trained.steps)


def _validation_examples(examples: Examples) -> list[Example]:
    rng = np.random.default_rng(1)
    chosen = evenly_spread(examples.dataset.rows_of("val").tolist(), _TUNED_ON)
    made = [examples.make(row, rng, augment=False) for row in chosen for _ in range(_VIEWS)]
    return [item for item in made if item is not None]


@torch.no_grad()
def _mean_miss(net: nn.Module, held: Sequence[Example]) -> float:
    """Mean distance in steps from the best offset to the true one, where the seam is visible.

    Outliers, which a smooth path would not follow, count as five steps.
    """
    net.eval()
    distances = []
    for item in held:
        logits = net(torch.from_numpy(pad_examples([item]).strip))[0, : len(item.offset), :-1]
        weight = torch.softmax(logits, 1).numpy()
        found = OFFSETS[weight.argmax(axis=1)]
        seen = np.isfinite(item.offset) & (item.weight > 0)
        distances.append(np.minimum(np.abs(found - item.offset)[seen], 5.0))
    return float(np.concatenate(distances).mean())


def find_seams_to_leave(
    held: Dataset,
    pictures: Sequence[Picture],
    places_NLC: Array,
    points_NPK: Array,
    noise_L: Array,
    net: SeamNet,
) -> tuple[str, ...]:
    """Seams that the network does not bring closer to the truth on validation samples.

    `places_NLC`: landmarks detected in the samples' `pictures`, in their pixels like the ground truth. `points_NPK`:
    the shapes predicted from them. `noise_L`: each landmark's error, as a share of the face.
    """
    sheet, rows = held.sheet, held.sheet.point_rows()
    specs = [spec for spec in sheet.shapes if spec.role == "seam" and not spec.closed]
    gains: dict[str, list[float]] = {spec.name: [] for spec in specs}
    for at in range(len(held)):
        face = crop_around(places_NLC[at], margin=1.0).side
        true = {spec.name: held.truth.points[at, rows[spec.name]].astype(np.float64) for spec in specs}
        known = [spec for spec in specs if np.isfinite(true[spec.name]).all()]
        seams = [
            Seam(points_NPK[at, rows[spec.name]], 0.02 * face, face * float(noise_L[list(sheet.rows_of(spec))].mean()))
            for spec in known
        ]
        placed = place(seams, _seam_look(pictures[at], places_NLC[at]), face, NetEvidence(net))
        for spec, seam, item in zip(known, seams, placed):
            before, after = (curve_distance(points, true[spec.name], False)[0] for points in (seam.points, item.points))
            gains[spec.name].append((before - after) / face)
    return tuple(name for name, gain in gains.items() if not gain or float(np.mean(gain)) <= 0)


@dataclass(frozen=True, slots=True)
class NetEvidence:
    """A network with the call signature that `placement.place` expects."""

    net: SeamNet
    zooms: tuple[int, ...] = ZOOMS

    def __call__(self, strips: Array, /) -> Array:
        with torch.no_grad():
            return np.asarray(self.net(torch.from_numpy(np.ascontiguousarray(strips, np.float32))).numpy())


def _seam_look(picture: Picture, landmarks: Array) -> SeamLook:
    crop = crop_around(landmarks, margin=CROP_MARGIN)
    light = (picture.astype(np.float32) / 255) ** _GAMMA
    return look(light, 0, 0, crop, lambda rgb: np.maximum(rgb, 0) ** (1 / _GAMMA))
