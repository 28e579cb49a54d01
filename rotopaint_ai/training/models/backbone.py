"""Shared parts of networks: blocks, registered backbones, the pyramid's top-down path, its config, and initial weights.

`weights.npz` next to a pack's models contains the landmark network's tensors and, as JSON in `meta`, its landmark names
and their positions on the mean face. A new character's landmarks get the weights of the old landmark of the same name,
or else of the nearest one on the face. Tensors that do not fit keep their initial values.

N batch, C channels, H rows, W columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rotopaint_ai.errors import PackError, TrainingError
from rotopaint_ai.files import replacing
from rotopaint_ai.inference.pack import DETECTOR, FILL, SEGMENTATION, find_pack, is_earlier_fill
from rotopaint_ai.inference.process import read_signature
from rotopaint_ai.training.data.dataset import Array
from rotopaint_ai.training.data.memory import face_bounds
from rotopaint_ai.training.registry import Registry
from rotopaint_ai.training.trainer.config import TrainConfig, check_all
from rotopaint_ai.training.trainer.task import Batch, Losses, Moment, Net, PartTask

SHARED = (FILL, DETECTOR, SEGMENTATION)  # files of a pack that no training of a character changes
MEAN, SPREAD = 0.45, 0.25  # mean and deviation of display-referred pixels; they normalise the input only roughly

Backbone = Callable[[Sequence[int], Sequence[int]], nn.Module]
BACKBONES: Registry[Backbone] = Registry("backbone")


@dataclass(frozen=True, slots=True)
class PyramidConfig(TrainConfig):
    """The training config of a network on a pyramid. `neck`: channels of its top-down path."""

    backbone: str = "dense"
    # those of the landmark network, whose weights initialise the others
    widths: tuple[int, ...] = (16, 32, 64, 96, 128)
    depths: tuple[int, ...] = (1, 1, 1, 1)
    neck: int = 48

    def check(self) -> None:
        """Raises UsageError for the first invalid field."""
        TrainConfig.check(self)
        _ = BACKBONES[self.backbone]
        check_all(
            (
                (len(self.widths) == 5, f"widths {self.widths}: wanted 5, for the strides 2, 4, 8, 16 and 32"),
                (len(self.widths) == len(self.depths) + 1, "depths: wanted one for each width after the first"),
                # oneDNN's bf16 kernels crash the process for some other channel counts
                (all(w > 0 and w % 8 == 0 for w in (*self.widths, self.neck)), "widths, neck: wanted multiples of 8"),
                (all(depth >= 1 for depth in self.depths), f"depths {self.depths}: wanted 1 or more"),
            )
        )

    def pyramid(self) -> dict[str, Any]:
        """Keyword arguments of a network's constructor."""
        return {name: getattr(self, name) for name in ("backbone", "widths", "depths", "neck")}


class PictureTask(PartTask[Net, Batch]):
    """The training task of a network on labelled pictures; `maker.batch` makes batches of them."""

    def __init__(self, config: Any, net: Net, samples: Sequence[Any], held_out: Sequence[Any], maker: Any) -> None:
        self.config, self.net, self.samples, self.held_out, self._maker = config, net, samples, held_out, maker

    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """All arrays of the samples."""
        for sample in self.samples:
            yield from sample.arrays()

    def blocks(self) -> tuple[nn.Module, ...]:
        """The network's stages."""
        return cast(Any, self.net).blocks()  # type: ignore[no-any-return]

    def make_batch(self, moment: Moment) -> Batch:
        """This rank's samples, drawn at random and augmented."""
        made: Batch = self._maker.batch(moment.rows(len(self.samples)), moment.generators())
        return made


def sum_losses(
    losses: Registry[Callable[[Any, Any], Tensor]], output: Any, target: Any, weights: Mapping[str, float]
) -> Losses:
    """The weighted sum of registered losses, and each of them for the log."""
    return weighted_sum({name: losses[name](output, target) for name, share in weights.items() if share}, weights)


def weighted_sum(parts: Mapping[str, Tensor], weights: Mapping[str, float]) -> Losses:
    """The sum of a loss's parts by a recipe's weights, and each part for the log."""
    loss = torch.stack([weights[name] * part for name, part in parts.items()]).sum()
    return loss, {name: part.detach() for name, part in parts.items()}


class ConvNorm(nn.Sequential):
    """Convolution, batch normalisation and, unless `act` is False, a ReLU."""

    def __init__(
        self, n_in: int, n_out: int, kernel: int = 3, stride: int = 1, dilation: int = 1, act: bool = True
    ) -> None:
        layers: list[nn.Module] = [
            nn.Conv2d(n_in, n_out, kernel, stride, dilation * (kernel // 2), dilation, bias=False),
            nn.BatchNorm2d(n_out),
        ]
        super().__init__(*layers, *([nn.ReLU(inplace=True)] if act else []))


class Residual(nn.Module):
    """Two dense 3 x 3 convolutions with a skip connection (He et al. 2016, the basic block).

    A block that keeps the shape starts as the identity (Goyal et al. 2017, section 5.1), so that a deeper network
    starts equal to a shallower one.
    """

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        last = ConvNorm(n_out, n_out, 3, act=False)
        self.body = nn.Sequential(ConvNorm(n_in, n_out, 3, stride), last)
        same = n_in == n_out and stride == 1
        self.skip = nn.Identity() if same else ConvNorm(n_in, n_out, 1, stride, act=False)
        if same:
            nn.init.zeros_(cast(Tensor, last[1].weight))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.skip(x))


class Pyramid(nn.Module):
    """Features at strides 2, 4, 8, 16, 32: a stem and four stages of dense residual blocks."""

    def __init__(self, widths: Sequence[int], depths: Sequence[int]) -> None:
        super().__init__()
        self.stem = ConvNorm(3, widths[0], 3, 2)
        self.stages = nn.ModuleList(
            nn.Sequential(Residual(n_in, n_out, 2), *(Residual(n_out, n_out, 1) for _ in range(depth - 1)))
            for n_in, n_out, depth in zip(widths[:-1], widths[1:], depths, strict=True)
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        features = [self.stem(x)]
        for stage in self.stages:
            features.append(stage(features[-1]))
        return features


@BACKBONES.register("dense")
def build_dense(widths: Sequence[int], depths: Sequence[int]) -> nn.Module:
    """Dense convolutions, which a CPU runs fast in bf16: 72 images/s, where depthwise blocks gave 41."""
    return Pyramid(widths, depths)


def conv_blocks(module: nn.Module) -> Iterator[nn.Module]:
    """The convolutional blocks of a network, each of which can be recomputed from its input."""
    for child in module.children():
        if isinstance(child, (ConvNorm, Residual)):
            yield child
        else:
            yield from conv_blocks(child)


class PyramidNet(nn.Module):
    """A backbone and its pyramid's top-down path; a subclass adds the head."""

    def __init__(
        self,
        *,
        backbone: str = "dense",
        widths: Sequence[int] = (16, 32, 64, 96, 128),
        depths: Sequence[int] = (1, 1, 1, 1),
        neck: int = 48,
    ) -> None:
        """`neck`: channels of the pyramid's top-down path."""
        super().__init__()
        self.widths = tuple(widths)
        self.backbone = BACKBONES[backbone](widths, depths)
        self.laterals = nn.ModuleList(nn.Conv2d(width, neck, 1) for width in widths[1:])
        self.smooth = nn.ModuleList(ConvNorm(neck, neck) for _ in widths[1:])

    def read_pyramid(self, crop_NCHW: Tensor) -> tuple[Sequence[Tensor], Tensor]:
        """The backbone's features at strides 2 to 32 and the pyramid's [N, neck, S / 4, S / 4] of crops,
        display-referred 0..1."""
        features = self.backbone((crop_NCHW - MEAN) / SPREAD)
        return features, top_down(self.laterals, self.smooth, features[1:])


def top_down(laterals: nn.ModuleList, smooth: nn.ModuleList, features: Sequence[Tensor]) -> Tensor:
    """The top-down path of the pyramid, at the size of its finest level: [N, neck, H, W]."""
    path: Tensor | None = None
    for feature, lateral, even in zip(reversed(features), reversed(laterals), reversed(smooth)):
        here = lateral(feature)
        path = even(here if path is None else here + F.interpolate(path, scale_factor=2.0, mode="nearest"))
    assert path is not None
    return path


WEIGHTS = "weights.npz"
OF_LANDMARK = "_of_landmark"
_PYRAMID = "backbone."


@dataclass(frozen=True, slots=True)
class Weights:
    """A trained network's tensors, and the landmark of each row of its per-landmark tensors."""

    tensors: dict[str, npt.NDArray[Any]]
    names: tuple[str, ...]
    places: Array  # [L, 2] on the mean face, 0..1 of its bounding box
    where: str


@dataclass(frozen=True, slots=True)
class TransferReport:
    """The transfer from a pack: tensors that fit and those that do not, landmarks matched by name and by position."""

    n_fitted: int
    left_out: tuple[str, ...]
    by_name: int
    by_place: int

    def __str__(self) -> str:
        text = f"{self.n_fitted} tensors, {self.by_name} landmarks by name, {self.by_place} by place"
        return text + (f", {len(self.left_out)} tensors start anew" if self.left_out else "")


def face_places(landmarks_NLC: Array) -> Array:
    """Each landmark's mean position, as shares of the landmarks' bounding box; the box's centre where it is never
    known."""
    low, high = face_bounds(landmarks_NLC)
    shares = (landmarks_NLC - low[:, None]) / np.maximum(high - low, 1e-6)[:, None]
    known = np.isfinite(shares)
    sums, counts = np.where(known, shares, 0).sum(axis=0), known.sum(axis=0)
    return cast(Array, np.where(counts > 0, sums / np.maximum(counts, 1), 0.5).astype(np.float32))


def save_weights(folder: Path, net: nn.Module, names: tuple[str, ...], places: Array) -> None:
    """Write `weights.npz` into a pack's folder."""
    tensors = {
        name: value.detach().float().numpy() for name, value in net.state_dict().items() if value.is_floating_point()
    }
    meta = json.dumps({"format": "rotopaint-weights", "version": 1, "landmarks": names, "places": places.tolist()})
    with replacing(folder / WEIGHTS) as beside:
        np.savez_compressed(beside, meta=np.frombuffer(meta.encode(), np.uint8), **cast(Any, tensors))


def find_weights(init: str | Path | None) -> Weights | None:
    """The initial weights: of a pack by folder or name; `none` gives None.

    None means the shipped pack, and gives None where there is none. Raises: PackError; TrainingError when the named
    pack has no weights.
    """
    if str(init) == "none":
        return None
    try:
        folder = find_pack(init)
    except PackError:
        if init is None:
            return None
        raise
    if init is None and not (folder / WEIGHTS).is_file():
        return None
    return read_weights(folder)


def find_part(init: str | Path | None, name: str) -> Path | None:
    """A file of the initial pack that works for any character; None without one.

    A seam model uses no landmarks, and a learned fill sees only straightened seams.
    """
    if str(init) == "none":
        return None
    try:
        path = find_pack(init) / name
    except PackError:
        return None
    return path if path.is_file() else None


def find_shared_models(init: str | Path | None) -> tuple[Path, ...]:
    """The initial pack's files that work for any character, except its seam networks and an earlier version's fill."""
    parts = (path for name in SHARED if (path := find_part(init, name)) is not None)
    return tuple(path for path in parts if path.name != FILL or not is_earlier_fill(read_signature(path)))


def read_weights(folder: Path) -> Weights:
    """Read a pack's `weights.npz`. Raises TrainingError when it is missing or damaged."""
    path = folder / WEIGHTS
    try:
        with np.load(path, allow_pickle=False) as stored:
            meta = json.loads(stored["meta"].tobytes())
            tensors = {name: stored[name] for name in stored.files if name != "meta"}
        places = np.asarray(meta["places"], np.float32)
        odd = [name for name, value in {**tensors, "places": places}.items() if not np.isfinite(value).all()]
        if odd:
            raise ValueError(f"{odd[0]} contains numbers that are not finite")
        return Weights(tensors, tuple(meta["landmarks"]), places, str(folder))
    except FileNotFoundError as error:
        raise TrainingError(f"{folder}: has no {WEIGHTS} to start from; train with --init none") from error
    except Exception as error:  # a damaged archive raises many kinds: zip, value, key, end of file
        raise TrainingError(
            f"{path}: cannot be read ({error}); copy the pack again or train with --init none"
        ) from error


def load_pretrained(net: nn.Module, weights: Weights, names: tuple[str, ...], places: Array) -> TransferReport:
    """Copy all weights that fit into a network."""
    row_of = {name: row for row, name in enumerate(weights.names)}
    distance = ((places[:, None] - weights.places[None]) ** 2).sum(axis=2)
    rows = [row_of.get(name, int(distance[at].argmin())) for at, name in enumerate(names)]
    state, fitted, left = net.state_dict(), 0, []
    for name, value in state.items():
        if not value.is_floating_point():
            continue
        old = weights.tensors.get(name)
        if old is not None and name.endswith(OF_LANDMARK):
            old = old[rows]
        if old is None or old.shape != tuple(value.shape):
            left.append(name)
            continue
        state[name] = torch.tensor(old)
        fitted += 1
    net.load_state_dict(state)
    by_name = sum(name in row_of for name in names)
    return TransferReport(fitted, tuple(left), by_name, len(names) - by_name)


def load_pyramid(net: nn.Module, init: str | Path | None) -> str:
    """Initialise a network's backbone and pyramid from a pack's landmark network; returns a description for the log.

    `init` as in `rotopaint train`: a pack, `none`, or None for the shipped one. Raises: PackError, TrainingError.
    """
    state = net.state_dict()
    if not any(name.startswith(_PYRAMID) for name in state):
        return "nothing"
    weights = find_weights(init)
    if weights is None:
        return "nothing"
    fits = {
        name: torch.tensor(t) for name, t in weights.tensors.items() if name in state and state[name].shape == t.shape
    }
    net.load_state_dict({**state, **fits})
    return f"{len(fits)} of {len(state)} tensors of the landmark network in {Path(weights.where).name}"
