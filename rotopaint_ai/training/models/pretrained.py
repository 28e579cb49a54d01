"""Weights that travel with a pack, so that the next training starts from them.

`weights.npz` beside the models holds the landmark network's tensors and, as JSON in `meta`, its landmark names and
where they lie on the mean face. A new character's landmarks take over the weights of the old ones of the same name;
one whose name is new takes those of the old landmark nearest to it on the face. What does not fit stays as it was made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from rotopaint_ai.errors import PackError, TrainingError
from rotopaint_ai.files import replacing
from rotopaint_ai.inference.pack import DETECTOR, FILL, MATTE, SEAM, find_pack
from rotopaint_ai.training.data.dataset import Array
from rotopaint_ai.training.data.memory import face_bounds
from rotopaint_ai.training.models.landmarks.net import LandmarkNet

WEIGHTS = "weights.npz"
OF_LANDMARK = "_of_landmark"
_PYRAMID = "backbone."


@dataclass(frozen=True, slots=True)
class Weights:
    """A trained network's tensors, and which landmark each row of its per-landmark ones belongs to."""

    tensors: dict[str, npt.NDArray[Any]]
    names: tuple[str, ...]
    places: Array  # [L, 2] on the mean face, 0..1 of its box
    where: str


@dataclass(frozen=True, slots=True)
class TransferReport:
    """What a network got from a pack: tensors that fitted and those that did not, landmarks by name and by place."""

    n_fitted: int
    left_out: tuple[str, ...]
    by_name: int
    by_place: int

    def __str__(self) -> str:
        text = f"{self.n_fitted} tensors, {self.by_name} landmarks by name, {self.by_place} by place"
        return text + (f", {len(self.left_out)} tensors start anew" if self.left_out else "")


def face_places(landmarks_NLC: Array) -> Array:
    """Where each landmark lies on average, as shares of the landmarks' box; the middle where it is never known."""
    low, high = face_bounds(landmarks_NLC)
    shares = (landmarks_NLC - low[:, None]) / np.maximum(high - low, 1e-6)[:, None]
    known = np.isfinite(shares)
    sums, counts = np.where(known, shares, 0).sum(axis=0), known.sum(axis=0)
    return cast(Array, np.where(counts > 0, sums / np.maximum(counts, 1), 0.5).astype(np.float32))


def save_weights(folder: Path, net: LandmarkNet, names: tuple[str, ...], places: Array) -> None:
    """Write `weights.npz` into a pack's folder."""
    tensors = {
        name: value.detach().float().numpy() for name, value in net.state_dict().items() if value.is_floating_point()
    }
    meta = json.dumps({"format": "rotopaint-weights", "version": 1, "landmarks": names, "places": places.tolist()})
    with replacing(folder / WEIGHTS) as beside:
        np.savez_compressed(beside, meta=np.frombuffer(meta.encode(), np.uint8), **cast(Any, tensors))


def find_weights(init: str | Path | None) -> Weights | None:
    """The weights to start from: of a pack by folder or name; `none` is nothing.

    None asks for the shipped pack, and is nothing where there is none. Raises: PackError; TrainingError when a pack
    that was asked for carries no weights.
    """
    if init is not None and str(init) == "none":
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


def find_seam_model(init: str | Path | None) -> Path | None:
    """The seam model of the pack to start from, which knows no landmarks and so serves any other; None without one."""
    return _part_of(init, SEAM)


def find_fill_model(init: str | Path | None) -> Path | None:
    """The learned fill of the pack to start from: it sees straightened seams alone, whoever they belong to."""
    return _part_of(init, FILL)


def find_others(init: str | Path | None) -> tuple[Path, ...]:
    """What else the pack to start from has that serves any character: face detector and segmentation."""
    return tuple(path for name in (DETECTOR, MATTE) if (path := _part_of(init, name)) is not None)


def _part_of(init: str | Path | None, name: str) -> Path | None:
    if init is not None and str(init) == "none":
        return None
    try:
        path = find_pack(init) / name
    except PackError:
        return None
    return path if path.is_file() else None


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
            raise ValueError(f"{odd[0]} holds numbers that are none")
        return Weights(tensors, tuple(meta["landmarks"]), places, str(folder))
    except FileNotFoundError as error:
        raise TrainingError(f"{folder}: has no {WEIGHTS} to start from; train with --init none") from error
    except Exception as error:  # a damaged archive raises many kinds: zip, value, key, end of file
        raise TrainingError(
            f"{path}: cannot be read ({error}); copy the pack again or train with --init none"
        ) from error


def load_pretrained(net: LandmarkNet, weights: Weights, names: tuple[str, ...], places: Array) -> TransferReport:
    """Copy into a network whatever of the weights fits it."""
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


def load_pyramid(net: nn.Module, init: str | None) -> str:
    """Start a network from what fits it of a pack's landmark network: its backbone and pyramid. Says what was loaded.

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
