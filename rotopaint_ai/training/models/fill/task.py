"""`rotopaint train SHOTS... --recipe fill --out PACK`: trains the learned fill and puts it into a pack.

    python -m rotopaint_ai.stage seams SHOTS --characters 100 --seed 30000
    python -m rotopaint_ai.stage seams VAL --characters 12 --seed 39000
    rotopaint train SHOTS VAL --recipe fill --out PACK

Shots in a folder named `val...` (or whose parent is) are for validation; else the last ones are. Strips are cut once
and cached in the run's folder. Training uses only stage renders and synthetic textures. The network has three levels
of convolutions on straightened seams, about 0.1 M weights.
N batch, T rows across the seam, S columns along it, C colours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from filelock import FileLock
from torch import Tensor, nn

from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.files import write_text
from rotopaint_ai.seams import learned_fill
from rotopaint_ai.seams.learned_fill import AGAINST_BANKS, N_ANSWERS, N_CHANNELS, TRACE
from rotopaint_ai.stage.shot_folder import shots_in
from rotopaint_ai.training.models.backbone import ConvNorm
from rotopaint_ai.training.models.fill.strips import STRIP, STRIPS_VERSION, StripLooks, cut_strips, load_strips
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

WIDTHS = (16, 32, 56)
_JOINED = 3.0  # initial logit of the joined face
_AT_ONCE = 256  # strips whose bytes are hashed at once


class FillNet(nn.Module):
    """[N, T, S, 11] -> [N, T, S, 6]; about 20,000 multiplications a pixel. Untrained, it returns the joined face."""

    def __init__(self) -> None:
        super().__init__()
        self.is_frozen = False  # whether batch norms keep their statistics
        fine, middle, coarse = WIDTHS
        self.fine = nn.Sequential(ConvNorm(N_CHANNELS, fine), ConvNorm(fine, fine))
        self.middle = nn.Sequential(ConvNorm(fine, middle, stride=2), ConvNorm(middle, middle))
        self.coarse = nn.Sequential(
            ConvNorm(middle, coarse, stride=2), ConvNorm(coarse, coarse, dilation=2), ConvNorm(coarse, coarse)
        )
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.to_middle, self.to_fine = nn.Conv2d(coarse, middle, 1), nn.Conv2d(middle, fine, 1)
        self.join_middle, self.join_fine = ConvNorm(middle, middle), ConvNorm(fine, fine)
        self.answer = nn.Conv2d(fine, N_ANSWERS, 1)
        assert self.answer.bias is not None
        with torch.no_grad():
            self.answer.weight.mul_(0.1)
            self.answer.bias.copy_(torch.tensor([0.0, _JOINED, 0.0, 0.0, 0.0, 0.0]))

    def train(self, mode: bool = True) -> FillNet:
        """As for any module, except that frozen batch norms stay in evaluation mode."""
        super().train(mode)
        if self.is_frozen:
            for part in self.modules():
                if isinstance(part, nn.BatchNorm2d):
                    part.eval()
        return self

    def forward(self, strip: Tensor) -> Tensor:
        """Logits of the shares of plate, face and banks, and an offset for each colour."""
        fine = self.fine(strip.permute(0, 3, 1, 2))
        middle = self.middle(fine)
        middle = self.join_middle(middle + self.up(self.to_middle(self.coarse(middle))))
        fine = self.join_fine(fine + self.up(self.to_fine(middle)))
        answer: Tensor = self.answer(fine).permute(0, 2, 3, 1)
        return answer


def mix_light(answer: Tensor, light: Tensor) -> Tensor:
    """Filled log light [N, T, S, 3] from an answer and its sources [N, 3, T, S, 3], as in `seams.learned_fill`,
    but with whole offsets."""
    plate, face, banks = torch.softmax(answer[..., :3].float(), -1).unbind(-1)
    traces = torch.minimum(plate, TRACE * (1.0 - plate))
    shares = torch.stack((plate - traces, face + traces, banks), 1)
    filled: Tensor = (shares[..., None] * light).sum(1) + answer[..., 3:].float()
    return filled


Array = npt.NDArray[Any]

GAMMA = 2.4  # errors are measured in display light, approximated by this power
FAINT = 0.02  # display light: fainter seams count no more than one of this contrast
SLOPES, LINES = 1.0, 8.0  # weights of gradient errors and of errors that continue along the seam
ALONG = 15  # columns over which an error is averaged along the seam
SPOT = 5  # rows and columns over which an error is averaged as a spot
CONTRAST = 0.25  # standard deviation of the log of the random contrast factor
LEFT = 0.03  # weight of the loss on the remaining seam
WINDOW = 24  # columns over which the remaining share is measured
_SHOWS = 8.0 / 255.0  # root mean square of display light from which a window's seam is visible
_LITTLE = 0.125  # remaining share that is invisible
_PARITY = 1e-3
_HELD_BACK = 0.1  # share of the shots, at their end, for validation if none is marked


@dataclass(frozen=True, slots=True)
class FillConfig(TrainConfig):
    """The training config of a learned fill.

    `sizes`, `synthetic`: uses of each frame at random scales, and synthetic seams per frame. `hard`: share of them with
    a fold beside the seam, and share with spots of light in it. `contours`: share with an outline across it. `astray`:
    share whose curves lie far off.
    `left`: weight of the loss on the remaining seam. `spots`: weight of the loss on light and dark spots.
    `start`: a `fill.onnx` to initialise from; then use a third of the learning rate. `kept`: share of its weights in
    the result.
    """

    task: str = "fill"
    name: str = "fill"
    minutes: float | None = 16.0
    batch: int = 16
    learning_rate: float = 3e-3
    weight_decay: float = 1e-3
    clip: float = 0.2
    ema: float = 0.998
    eval_every: int = 100
    sizes: int = 4
    synthetic: int = 2
    hard: float = 0.0
    contours: float = 0.0
    astray: float = 0.0
    left: float = LEFT
    spots: float = 0.0
    start: str | None = None
    kept: float = 0.0

    def check(self) -> None:
        """Raises UsageError naming the first invalid field."""
        TrainConfig.check(self)
        if self.kept and self.start is None:
            raise UsageError(f"kept {self.kept:g}: wanted start=FILL.onnx beside it, whose weights are kept")
        check_ranges(
            self,
            {"hard": (0, 1), "contours": (0, 1), "astray": (0, 1), "left": (0, 10), "spots": (0, 100), "kept": (0, 1)},
        )


class FillInputs(NamedTuple):
    """Strips (N, T, S, 11), their light (N, 4, T, S, 3), and the pixels to fill (N, T, S)."""

    strip: Tensor
    light: Tensor
    wanted: Tensor


class FillTask(PartTask[FillNet, FillInputs]):
    """Training of a learned fill on STRIP records."""

    captures = True

    def __init__(self, config: FillConfig, net: FillNet, train: Array, held_out: Array) -> None:
        self.config, self.net, self.samples, self.held_out = config, net, train, held_out
        self._kept = KeptWeights(net, config.kept)

    @classmethod
    def prepare(cls, config: FillConfig, sources: TrainSources) -> FillTask:
        """Cut strips or load cached ones; initialise the network."""
        shots, val = split_shots([Path(folder) for folder in sources.folders])
        sources.check()
        folder, seed = sources.folder, config.seed
        looks = StripLooks(config.sizes, config.synthetic, config.hard, config.contours, config.astray)
        train = _cached_strips(folder / "strips.bin", shots, seed, looks, sources.check)
        looks = replace(looks, sizes=2, synthetic=1)
        held_out = _cached_strips(folder / "val.bin", val, 1, looks, sources.check)
        torch.manual_seed(seed)
        net = FillNet()
        if config.start is not None:
            load_fill(net, Path(config.start))
        return cls(config, net, train, held_out)

    def arrays(self) -> Iterator[Array]:
        """The strips, some at a time."""
        yield from self._kept.arrays()
        yield from (self.samples[k : k + _AT_ONCE] for k in range(0, len(self.samples), _AT_ONCE))

    def make_batch(self, moment: Moment) -> FillInputs:
        """This rank's strips, each flipped and its contrast changed at random."""
        made = []
        for row, rng in zip(moment.rows(len(self.samples)), moment.generators()):
            strip, light, wanted = flip_strips(self.samples[row : row + 1], rng)
            made.append((*vary_contrast(strip, light, rng), wanted))
        return FillInputs(*(torch.cat(parts) for parts in zip(*made)))

    def to_device(self, batch: FillInputs, moment: Moment) -> FillInputs:
        """The batch on the device."""
        return FillInputs(*(to_tensor(part, moment.device) for part in batch))

    def loss(self, net: FillNet, inputs: FillInputs, moment: Moment) -> Losses:
        """Mean of `fill_loss` over strips, for the network's output."""
        with moment.precision():
            answer = net(inputs.strip)
        filled = mix_light(answer, inputs.light[:, :3])
        left, spots = self.config.left, self.config.spots
        return fill_loss(filled, inputs.light, inputs.wanted, left, spots).mean(), {}

    def metrics(self, net: FillNet) -> Mapping[str, Any]:
        """The loss on validation strips, for the network that `export` writes and for the joined face."""
        return fill_figures(self._kept.mixed_into(net), self.held_out)

    def export(self, net: FillNet, path: Path) -> float:
        """Write `fill.onnx` with free sizes. Returns the largest difference to torch on strips of another size.

        Raises: TrainingError if the file's outputs differ from the network's.
        """
        free = {
            1: learned_fill.MULTIPLE * torch.export.Dim("rows", min=2, max=128),
            2: learned_fill.MULTIPLE * torch.export.Dim("columns", min=2, max=4096),
        }
        draw = np.random.default_rng(0)
        example, other = (
            draw.standard_normal((1, rows, columns, N_CHANNELS)).astype(np.float32)
            for rows, columns in ((32, 64), (28, 100))
        )
        limits, names = {"answer": _PARITY}, ("strip", ("answer",))
        # `load_fill` reads folded batch norms
        made = self._kept.mixed_into(net)
        return export_checked(made, path, names, other, limits=limits, example=example, free=free, rewrite=True)


NETWORKS.register("fill")(Network(FillConfig(), FillTask.prepare, file="fill.onnx", card=("training", "fill")))


def split_shots(folders: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Training and validation shots, from folders of shots or shots themselves. Raises TrainingError."""
    shots = [shot for folder in folders for shot in shots_in(folder)]
    val = [shot for shot in shots if any(part.name.lower().startswith("val") for part in (shot, shot.parent))]
    train = [shot for shot in shots if shot not in val]
    if not val and len(train) > 1:
        count = max(1, round(len(train) * _HELD_BACK))
        train, val = train[:-count], train[-count:]
    if not train or not val:
        raise TrainingError("no shots to train and validate on; film some: python -m rotopaint_ai.stage seams FOLDER")
    return train, val


def _cached_strips(path: Path, shots: Sequence[Path], seed: int, looks: StripLooks, check: Callable[[], None]) -> Array:
    """Strips of shots, from the file at `path`, cut anew if its JSON file names other shots, looks or records.

    Of several ranks, the first one cuts.
    """
    made_from = path.with_suffix(".json")
    facts = {"shots": [str(shot) for shot in shots], "seed": seed, **asdict(looks), "record": str(STRIP.descr)}
    wanted = json.dumps({"version": STRIPS_VERSION, **facts})
    with FileLock(path.with_suffix(".lock")):
        if not path.exists() or not made_from.exists() or made_from.read_text(encoding="utf-8") != wanted:
            made_from.unlink(missing_ok=True)
            cut_strips(path, shots, seed, looks, check)
            write_text(made_from, wanted)
    return load_strips(path)


def flip_strips(records: Array, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """STRIP records flipped across and along the seam, their colour channels permuted, all at random.

    A seam stays a valid seam under each of these.
    """
    rows, columns = (int(step) for step in rng.choice([-1, 1], 2))
    colours = rng.permutation(3)
    channels = np.r_[colours, 3 + colours, 6:N_CHANNELS]
    parts = (
        records["strip"][:, ::rows, ::columns][..., channels].astype(np.float32),
        records["light"][:, :, ::rows, ::columns][..., colours].astype(np.float32),
        records["wanted"][:, ::rows, ::columns],
    )
    one, two, three = (torch.from_numpy(np.array(part, order="C")) for part in parts)
    return one, two, three


def vary_contrast(strip: Tensor, lit: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """A batch with the contrast of each strip, relative to its banks, scaled at random."""
    times = torch.from_numpy(np.exp(rng.normal(0.0, CONTRAST, len(strip))).astype(np.float32))
    banks = lit[:, 2:3]
    apart = times.reshape(-1, 1, 1, 1, 1) * (lit - banks)
    factors = torch.ones(len(strip), 1, 1, N_CHANNELS)
    factors[..., AGAINST_BANKS] = times.reshape(-1, 1, 1, 1)
    return factors * strip, banks + apart


def fill_loss(got: Tensor, lit: Tensor, wanted: Tensor, left: float = LEFT, spots: float = 0.0) -> Tensor:
    """Weighted squared error (N,) of display light in the matte; strips with a stronger seam get a smaller weight.

    The weight is the inverse root mean square of the plate's own error: otherwise black grooves would dominate the
    faint lines that an eye still sees. Gradient errors, and errors averaged along ALONG columns of the seam, are added:
    an eye sees a line or an edge where it overlooks the same error as scattered noise. `left`: weight of `seam_left`.
    `spots`: weight of the error averaged over SPOT x SPOT samples, whatever the strength of the seam: an eye sees a
    spot that was not there beside a black groove as well as beside a hairline.
    """
    own, true = lit[:, 0], lit[:, 3]
    seen, shown, plate = (torch.exp(x.clamp(max=4.0) / GAMMA) for x in (got, true, own))
    inside = wanted[..., None].float()
    apart = (seen - shown) * inside
    error = (apart**2).mean(-1).sum((1, 2))
    slopes = (apart.diff(dim=1) ** 2).mean(-1).sum((1, 2)) + (apart.diff(dim=2) ** 2).mean(-1).sum((1, 2))
    runs = nn.functional.avg_pool2d(apart.movedim(-1, 1), (1, ALONG), 1, (0, ALONG // 2))
    lines = (runs**2).mean(1).sum((1, 2))
    count = wanted.sum((1, 2)).clamp(min=1)
    damage = (plate - shown) * inside
    off = (damage**2).mean(-1).sum((1, 2)) / count
    much = FAINT * (error + SLOPES * slopes + LINES * lines) / count / torch.sqrt(off + FAINT**2)
    spotted = nn.functional.avg_pool2d(apart.movedim(-1, 1), SPOT, 1, SPOT // 2)
    spoilt = (spotted**2).mean(1).sum((1, 2)) / count
    return much + left * seam_left(apart, damage, wanted) + spots * spoilt


def seam_left(apart: Tensor, damage: Tensor, wanted: Tensor) -> Tensor:
    """Mean (N,) of the seam's remaining share beyond _LITTLE, over windows of WINDOW columns with a visible seam.

    `apart`, `damage`: error of the fill and of the plate (N, T, S, 3), zero outside the matte. The share is
    <apart, damage> / <damage, damage>, as in `bench.clean_left`. It penalises a fill that keeps what may be face or
    seam;
    least squares alone would keep half of it.
    """

    def over(field: Tensor) -> Tensor:
        return nn.functional.avg_pool1d(field.sum(1)[:, None], WINDOW, WINDOW // 3, ceil_mode=True)[:, 0]

    shared, energy = over((apart * damage).sum(-1)), over((damage**2).sum(-1))
    shows = energy > 3 * _SHOWS**2 * over(wanted.float())
    left = torch.relu(shared / energy.clamp(min=1e-6) - _LITTLE) * shows
    return left.sum(1) / shows.sum(1).clamp(min=1)


@torch.no_grad()
def fill_figures(net: nn.Module, strips: Array) -> dict[str, float]:
    """The loss on validation strips (STRIP records), of the network and of the joined face.

    `lost`: the share of strips where the network is worse than the joined face.
    """
    net.eval()
    learned_N, joined_N = [], []
    for one in strips:
        strip, lit = (torch.from_numpy(one[name].astype(np.float32))[None] for name in ("strip", "light"))
        wanted = torch.from_numpy(one["wanted"].copy())[None]
        learned_N.append(float(fill_loss(mix_light(net(strip), lit[:, :3]), lit, wanted)))
        joined_N.append(float(fill_loss(lit[:, 1], lit, wanted)))
    lost = np.mean(np.array(learned_N) > np.array(joined_N))
    return {
        "learned": float(np.mean(learned_N)),
        "joined": float(np.mean(joined_N)),
        "lost": float(lost),
        "strips": float(len(learned_N)),
    }


def load_fill(net: FillNet, path: Path) -> None:
    """Load the weights of a `fill.onnx`, whose batch norms are folded into convolutions and stay frozen.

    Raises: TrainingError for any other network.
    """
    load_weights(net, read_graph(path), path)
    net.is_frozen = True
