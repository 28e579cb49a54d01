"""`rotopaint train DATASET --recipe seam --out PACK`: trains the seam networks and puts them into a pack.

One finds the seam's offset in strips along predicted seams, beside features that the other gives for the whole crop.
N batch, T rows along the curve, S pairs of rows, D offsets across it, C channels of a strip.
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
from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.inference.pack import FEATURED_STRIP, SEAM, SEAM_FEATURES, SEAM_N_FEATURES
from rotopaint_ai.seams.path import N_OFFSETS, OFFSETS
from rotopaint_ai.seams.placement import GAP, MULTIPLE, ZOOMS, Evidence, Seam, SeamLook, look, place
from rotopaint_ai.shapes.bezier import curve_distance
from rotopaint_ai.training.data.dataset import Dataset, Picture, join, read_dataset
from rotopaint_ai.training.data.dataset_checks import split_off_validation
from rotopaint_ai.training.data.shards.stream import reading_and_decoding_s
from rotopaint_ai.training.models.backbone import ConvNorm
from rotopaint_ai.training.models.seam.examples import Example, Examples, StripBatch, pad_examples
from rotopaint_ai.training.models.seam.features import FeatureNet, export_features, features_along, load_feature_net
from rotopaint_ai.training.trainer.config import TrainConfig, check_ranges
from rotopaint_ai.training.trainer.onnx_export import export_checked, load_weights, read_graph
from rotopaint_ai.training.trainer.task import (
    NETWORKS,
    KeptWeights,
    Losses,
    Moment,
    Network,
    PartTask,
    TrainSources,
    to_tensor,
)
from rotopaint_ai.training.trainer.trainer import Trainer

_PARITY = 1e-3
WIDTHS = (16, 32, 64)
CONTEXT = 3  # blocks of growing dilation along the seam


class SeamNet(nn.Module):
    """A U-Net with three levels on strips. `n_features`: channels of a strip beside its colours."""

    def __init__(self, widths: tuple[int, int, int] = WIDTHS, context: int = CONTEXT, n_features: int = 0) -> None:
        super().__init__()
        a, b, c = widths
        self.fine = ConvNorm(2 * (3 + n_features), a)
        self.middle = nn.Sequential(ConvNorm(a, b, stride=2), ConvNorm(b, b))
        further = (ConvNorm(c, c, dilation=2 ** (2 + k)) for k in range(context))
        self.coarse = nn.Sequential(ConvNorm(b, c, stride=2), ConvNorm(c, c, dilation=2), *further)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.middle_up = nn.Sequential(ConvNorm(c + b, b, 1), ConvNorm(b, b))
        self.fine_up = nn.Sequential(ConvNorm(b + a, a, 1), ConvNorm(a, a))
        self.where = nn.Conv2d(a, 1, 1)
        self.nothing = nn.Conv1d(2 * a, 1, 3, padding=1)

    def forward(self, strip: Tensor) -> Tensor:
        """[N, T, D, C] -> logits [N, T / 2, D + 1]."""
        n, _, d, c = strip.shape
        x = strip.reshape(n, -1, 2, d, c).permute(0, 2, 4, 1, 3).reshape(n, 2 * c, -1, d)
        fine = self.fine(x)
        middle = self.middle(fine)
        middle = self.middle_up(torch.cat([self.up(self.coarse(middle)), middle], 1))
        fine = self.fine_up(torch.cat([self.up(middle), fine], 1))
        pooled = torch.cat([fine.amax(3), fine.mean(3)], 1)
        return torch.cat([self.where(fine)[:, 0], self.nothing(pooled)[:, 0, :, None]], 2)


class SeamNets(nn.Module):
    """The network of strips, and the one whose features its strips have; None for strips of colours alone.

    `folded`: the names of those whose batch norms were folded once, so that they have no statistics.
    """

    def __init__(self, find: SeamNet, describe: FeatureNet | None, folded: Sequence[str] = ()) -> None:
        super().__init__()
        self.find, self.describe, self.folded = find, describe, tuple(folded)

    def forward(self, picture: Tensor, strip: Tensor, places: Tensor, row: Tensor) -> tuple[Tensor, Tensor | None]:
        """Crops, strips, where they lie and on which crop, as in `StripBatch` -> logits [N, S, D + 1] and, with
        features, what the first of them alone says of each offset [N, S, D]."""
        if self.describe is None:
            return self.find(strip), None
        features = features_along(self.describe(picture)[row], places)
        first = (features[:, 0::2, :, 0] + features[:, 1::2, :, 0]) / 2
        return self.find(torch.cat((strip, features), 3)), first


def load_seam_nets(path: Path) -> SeamNets:
    """Load the network of a `seam.onnx` and, if its strips have features, that of the `seam_features.onnx` beside it.

    Raises TrainingError for any other file."""
    graph = read_graph(path)
    sizes = {item.name: item.dims for item in graph.initializer if item.name.endswith(".weight")}
    n_coarse = sum(bool(re.fullmatch(r"coarse\.\d+\.0\.weight", name)) for name in sizes)
    firsts = ("fine.0.weight", "middle.0.0.weight", "coarse.0.0.weight")
    a, b, c = (sizes[name][0] if name in sizes else width for name, width in zip(firsts, WIDTHS))
    n_features = sizes[firsts[0]][1] // 2 - 3 if firsts[0] in sizes else 0
    find = SeamNet((a, b, c), max(0, n_coarse - 2), n_features)
    load_weights(find, graph, path)
    describe = load_feature_net(path.with_name(SEAM_FEATURES)) if n_features else None
    nets = SeamNets(find, describe).eval()
    nets.folded = tuple(name for name, net in nets.named_children() if _is_folded(net))
    return nets


def _is_folded(net: nn.Module) -> bool:
    norms = [module.running_mean for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    return not any(bool(mean.any()) for mean in norms if mean is not None)


def with_features(nets: SeamNets) -> SeamNets:
    """Networks that say the same, and have features to learn."""
    if nets.describe is not None:
        return nets
    old = nets.find.fine[0]
    assert isinstance(old, nn.Conv2d)
    new = nn.Conv2d(old.in_channels + 2 * SEAM_N_FEATURES, old.out_channels, 3, padding=1, bias=False)
    with torch.no_grad():
        one, other = old.weight.chunk(2, 1)
        none = torch.zeros(old.out_channels, SEAM_N_FEATURES, 3, 3)
        new.weight.copy_(torch.cat((one, none, other, none), 1))
    nets.find.fine[0] = new
    return SeamNets(nets.find, FeatureNet(), nets.folded)


def export_seam(nets: SeamNets, path: Path) -> float:
    """Write the networks, the features' beside `path`. Returns the largest difference to torch.

    Raises: TrainingError if a file's outputs differ from the network's.
    """
    apart = 0.0 if nets.describe is None else export_features(nets.describe, path.with_name(SEAM_FEATURES))
    return max(apart, export_strips(nets.find, path))


def export_strips(net: SeamNet, path: Path) -> float:
    """Write the network of strips with a free number of rows, checked on strips of another length.

    Returns and raises as `export_seam`."""
    first = net.fine[0]
    assert isinstance(first, nn.Conv2d)
    n_channels = first.in_channels // 2
    draw = np.random.default_rng(0)
    example = draw.standard_normal((1, 20 * MULTIPLE, N_OFFSETS, n_channels)).astype(np.float32)
    length = 13 * MULTIPLE + 2 * GAP // MULTIPLE * MULTIPLE
    other = draw.standard_normal((1, length, N_OFFSETS, n_channels)).astype(np.float32)
    free = {1: MULTIPLE * torch.export.Dim("places", min=2, max=512)}
    names = ("zoomed_strip" if n_channels == 3 else FEATURED_STRIP, ("logits",))
    return export_checked(net, path, names, other, limits={"logits": _PARITY}, example=example, free=free)


FEATURE_WEIGHT = 0.3  # of the loss of the first feature alone, which starts the other network
_TRIES = 20  # tries to draw a sample whose seam is long enough
_LOOKED_AT = 300  # most validation samples for metrics


@dataclass(frozen=True, slots=True)
class SeamConfig(TrainConfig):
    """The training config of the seam networks.

    `batch`: pictures. `start`: a `seam.onnx` to start from. `kept`: share of its weights in the result. `features`:
    whether strips have features.
    """

    task: str = "seam"
    name: str = "seam"
    start: str | None = None
    kept: float = 0.0
    features: bool = True
    minutes: float | None = 9.0
    batch: int = 6
    learning_rate: float = 3e-3
    weight_decay: float = 1e-3
    clip: float = 1.0
    ema: float = 0.99
    bf16: bool = False
    eval_every: int = 100

    def check(self) -> None:
        """Raises UsageError naming the first invalid field."""
        TrainConfig.check(self)
        if self.kept and self.start is None:
            raise UsageError(f"kept {self.kept:g}: wanted start=SEAM.onnx beside it, whose weights are kept")
        check_ranges(self, {"kept": (0, 1)})


class SeamTask(PartTask[SeamNets, StripBatch]):
    """Training of the seam networks on a data set's `train` samples."""

    captures = True

    config: SeamConfig

    def __init__(self, config: SeamConfig, net: SeamNets, examples: Examples) -> None:
        self.config, self.net, self.examples = config, net, examples
        self._kept = KeptWeights(net, config.kept)
        self.samples, self.held_out = examples.rows_of("train"), examples.rows_of("val")
        if not len(self.samples):
            raise TrainingError(f"{examples.dataset.name}: no open shapes of role 'seam'; wanted a data set with seams")

    @classmethod
    def prepare(cls, config: SeamConfig, sources: TrainSources) -> SeamTask:
        """Read and split data sets, initialise the network."""
        data = split_off_validation(join([read_dataset(folder) for folder in sources.folders]))
        torch.manual_seed(config.seed)
        if config.start is not None:
            net = load_seam_nets(Path(config.start))
            if net.describe is not None and not config.features:
                raise TrainingError(f"features=false: {config.start} reads features; leave it out, or start elsewhere")
            if net.describe is None and config.features and config.kept:
                raise TrainingError(f"kept {config.kept:g}: {config.start} has no features to keep; leave it out once")
            return cls(config, with_features(net) if config.features else net, Examples.of(data))
        find = SeamNet(n_features=SEAM_N_FEATURES if config.features else 0)
        return cls(config, SeamNets(find, FeatureNet() if config.features else None), Examples.of(data))

    @property
    def data(self) -> Dataset:
        """The data set."""
        return self.examples.dataset

    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """The samples' sizes and curves."""
        yield np.array([(sample.width, sample.height) for sample in self.data.samples])
        yield from self._kept.arrays()
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

    def set_mode(self, net: SeamNets) -> None:
        """Batch norms that a file has folded stay as they are."""
        net.train()
        for name in net.folded:
            getattr(net, name).eval()

    def to_device(self, batch: StripBatch, moment: Moment) -> tuple[Tensor, ...]:
        """Crops 0..1, strips, where they lie, on which crop, and target probabilities."""
        picture, *others = (to_tensor(part, moment.device) for part in batch)
        return picture.float() / 255, *others

    def loss(self, net: SeamNets, inputs: tuple[Tensor, ...], moment: Moment) -> Losses:
        """Cross entropy with the target probabilities, averaged over known rows; the same for the first feature, where
        the seam is visible."""
        *given, target = inputs
        with moment.precision():
            logits, first = net(*given)
        loss = _cross_entropy(logits, target)
        return (loss if first is None else loss + FEATURE_WEIGHT * _cross_entropy(first, target[..., :-1])), {}

    @torch.no_grad()
    def metrics(self, net: SeamNets) -> Mapping[str, Any]:
        """Share of visible rows whose best offset is within 2 steps, and share of hidden rows that are recognised as
        hidden, for the network that `export` writes."""
        rng, net = np.random.default_rng(1), self._kept.mixed_into(net)
        right, blind = [], []
        for row in self.held_out[:_LOOKED_AT]:
            item = self.examples.make(int(row), rng, augment=False)
            if item is None:
                continue
            for part, logits in zip(item.strips, _logits_of(net, item)):
                known = part.weight > 0
                seen = np.isfinite(part.offset) & known
                right.append((np.abs(OFFSETS[logits[:, :-1].argmax(axis=1)] - part.offset) <= 2)[seen])
                blind.append((logits.argmax(axis=1) == N_OFFSETS)[~np.isfinite(part.offset) & known])
        joined = [np.concatenate(parts) if parts else np.zeros(0) for parts in (right, blind)]
        return {
            name: round(float(values.mean()), 4)
            for name, values in zip(("within_2_steps", "hidden_recall"), joined)
            if len(values)
        }

    def export(self, net: SeamNets, path: Path) -> float:
        """Write `seam.onnx` with a free number of places, and `seam_features.onnx` beside it."""
        return export_seam(self._kept.mixed_into(net), path)


NETWORKS.register("seam")(
    Network(SeamConfig(), SeamTask.prepare, file=SEAM, card=("training", "seam"), others=(SEAM_FEATURES,))
)


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return -(target * F.log_softmax(logits.float(), dim=2)).sum() / target.sum().clamp_min(1.0)


def _logits_of(net: SeamNets, item: Example) -> list[Array]:
    """Logits (S, D + 1) of an example's strips."""
    picture, *others, _ = map(torch.from_numpy, pad_examples([item]))
    logits, _ = net(picture.float() / 255, *others)
    return [each[: len(part.offset)].numpy() for each, part in zip(logits, item.strips)]


Array = npt.NDArray[Any]

_GAMMA = 2.2  # approximate is enough: the same gamma is inverted afterwards
_TUNED_ON = 40  # validation samples for tuning
_RATE, _DECAY = 1e-3, 0.98
_TUNED_AT_ONCE = 3  # pictures; more steps of fewer learn more in a minute
_NEVER = 1_000_000  # steps: a minute's training needs no checkpoint before its end


@dataclass(frozen=True, slots=True)
class TuneResult:
    """A tuned network and its error on validation samples before and after.

    The error is the mean distance, in steps, from the best offset to the true one, where the seam is visible.
    """

    net: SeamNets
    before: float
    after: float
    steps: int

    @property
    def is_better(self) -> bool:
        """Whether tuning reduced the error."""
        return self.after < self.before


class TuningTask(SeamTask):
    """Tuning with frozen batch norms: a dozen strips of one character are too few for statistics."""

    def set_mode(self, net: SeamNets) -> None:
        """Evaluation mode, as at run time."""
        net.eval()


def tune_seam_net(
    dataset: Dataset,
    start: SeamNets,
    *,
    minutes: float,
    seed: int = 0,
    check: Callable[[], None] = lambda: None,
) -> TuneResult | None:
    """Tune networks on the seams of a data set's `train` samples for `minutes`; None if it has no seams."""
    examples = Examples.of(dataset)
    held = _validation_examples(examples)
    if not held or not len(examples.rows_of("train")):
        return None
    config = SeamConfig(
        batch=_TUNED_AT_ONCE, minutes=minutes, learning_rate=_RATE, ema=_DECAY, seed=seed, eval_every=_NEVER
    )
    task = TuningTask(config, copy.deepcopy(start).eval(), examples)
    with tempfile.TemporaryDirectory(prefix="rotopaint-seam-") as folder:
        trained = Trainer(config, task, Path(folder)).fit(check=check)
    return TuneResult(trained.net, _mean_miss(start, held), _mean_miss(trained.net, held), trained.steps)


def _validation_examples(examples: Examples) -> list[Example]:
    rng = np.random.default_rng(1)
    chosen = evenly_spread(examples.dataset.rows_of("val").tolist(), _TUNED_ON)
    made = [examples.make(row, rng, augment=False) for row in chosen]
    return [item for item in made if item is not None]


@torch.no_grad()
def _mean_miss(net: SeamNets, held: Sequence[Example]) -> float:
    """Mean distance in steps from the best offset to the true one, where the seam is visible.

    Outliers, which a smooth path would not follow, count as five steps.
    """
    net.eval()
    distances = []
    for item in held:
        for part, logits in zip(item.strips, _logits_of(net, item)):
            found = OFFSETS[logits[:, :-1].argmax(axis=1)]
            seen = np.isfinite(part.offset) & (part.weight > 0)
            distances.append(np.minimum(np.abs(found - part.offset)[seen], 5.0))
    return float(np.concatenate(distances).mean())


def find_seams_to_leave(
    held: Dataset,
    pictures: Sequence[Picture],
    places_NLC: Array,
    points_NPK: Array,
    noise_L: Array,
    net: SeamNets,
) -> tuple[str, ...]:
    """Seams that the network does not bring closer to the truth on validation samples.

    `places_NLC`: landmarks detected in the samples' `pictures`, in their pixels like the ground truth. `points_NPK`:
    the shapes predicted from them. `noise_L`: each landmark's error, as a share of the face.
    """
    sheet, rows = held.sheet, held.sheet.point_rows()
    specs = [spec for spec in sheet.shapes if spec.role == "seam" and not spec.closed]
    evidence = NetEvidence(net)
    gains: dict[str, list[float]] = {spec.name: [] for spec in specs}
    for at in range(len(held)):
        face = crop_around(places_NLC[at], margin=1.0).side
        true = {spec.name: held.truth.points[at, rows[spec.name]].astype(np.float64) for spec in specs}
        known = [spec for spec in specs if np.isfinite(true[spec.name]).all()]
        seams = [
            Seam(points_NPK[at, rows[spec.name]], 0.02 * face, face * float(noise_L[list(sheet.rows_of(spec))].mean()))
            for spec in known
        ]
        placed = place(seams, _seam_look(pictures[at], places_NLC[at], evidence), face, evidence)
        for spec, seam, item in zip(known, seams, placed):
            before, after = (curve_distance(points, true[spec.name], False)[0] for points in (seam.points, item.points))
            gains[spec.name].append((before - after) / face)
    return tuple(name for name, gain in gains.items() if not gain or float(np.mean(gain)) <= 0)


@dataclass(frozen=True, slots=True)
class NetEvidence:
    """Networks as the `Evidence` that `placement.place` expects."""

    net: SeamNets
    zooms: tuple[int, ...] = ZOOMS

    @torch.no_grad()
    def features(self, picture: Array, /) -> Array | None:
        describe = self.net.describe
        return None if describe is None else describe(torch.from_numpy(picture[None]).float() / 255)[0].numpy()

    @torch.no_grad()
    def __call__(self, strips: Array, /) -> Array:
        return np.asarray(self.net.find(torch.from_numpy(np.ascontiguousarray(strips, np.float32))).numpy())


def _seam_look(picture: Picture, landmarks: Array, evidence: Evidence) -> SeamLook:
    crop = crop_around(landmarks, margin=CROP_MARGIN)
    light = (picture.astype(np.float32) / 255) ** _GAMMA
    return look(light, 0, 0, crop, lambda rgb: np.maximum(rgb, 0) ** (1 / _GAMMA), evidence)
