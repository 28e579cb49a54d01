"""Trains the learned fill (`fill.onnx` of a pack).

    python -m rotopaint_ai.stage seams SHOTS --characters 100 --seed 30000
    python -m rotopaint_ai.stage seams VAL --characters 12 --seed 39000
    python -m rotopaint_ai.training.models.fill.train SHOTS --val VAL --out fill.onnx --minutes 16

Strips are cut once and kept beside the file that is written (`fill.strips.npz`, `fill.state.pt`): the same command goes
on where it stopped, and `--piece` ends after so many minutes of the whole. Trained on what the stage renders and on
made-up textures alone.

N batch, T rows across, S columns along, C colours.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rotopaint_ai.errors import RotopaintError, TrainingError
from rotopaint_ai.files import replacing, write_json
from rotopaint_ai.inference.session import open_session
from rotopaint_ai.seams import learned, relight
from rotopaint_ai.seams.method_selection import TABLES
from rotopaint_ai.training.models.fill.net import FillNet, mixed
from rotopaint_ai.training.models.fill.ribbons import Laid, laid
from rotopaint_ai.training.models.fill.table import FAINT, GAMMA
from rotopaint_ai.training.pack.export import save_onnx

Array = npt.NDArray[Any]

ROWS, COLUMNS = learned.ROWS, 96  # of a strip to learn from
BATCH = 16
RATE = 3e-3
SLOPES, LINES = 1.0, 8.0  # weights of errors of slope, and of errors that run on along the seam
ALONG = 15  # columns
_PARITY = 1e-3
_FEWEST = 40  # matte samples that make a strip worth learning from


@dataclass(frozen=True, slots=True)
class Strips:
    """What is learnt from: input (N, T, S, 11), light of table, own, face, banks and true (N, 5, T, S, 3), wanted."""

    strip: Array
    light: Array
    wanted: Array

    def save(self, path: Path) -> None:
        """Keep them in a file."""
        with replacing(path) as beside, beside.open("wb") as stream:
            np.savez(stream, strip=self.strip, light=self.light, wanted=self.wanted)

    @classmethod
    def load(cls, path: Path) -> Strips:
        """Strips from a file."""
        with np.load(path) as kept:
            return cls(kept["strip"], kept["light"], kept["wanted"])


def cut(folders: list[Path], seed: int, *, sizes: int, made_up: int) -> Strips:
    """Cut strips from shots. Raises: TrainingError where they hold none."""
    rng = np.random.default_rng(seed)
    found = [part for one in laid(folders, rng, every=1, sizes=sizes, made_up=made_up) for part in _parts(one, rng)]
    if not found:
        raise TrainingError("no seams in those shots; film some: python -m rotopaint_ai.stage seams FOLDER")
    return Strips(*(np.stack(part) for part in zip(*found)))


def _parts(one: Laid, rng: np.random.Generator) -> Iterator[tuple[Array, Array, Array]]:
    """A ribbon in pieces of ROWS x COLUMNS, all light relative to its exposure and as half floats."""
    scene = one.scene
    known = relight.sources(scene.light_TSC, scene.hole_TS)
    relit = relight.relight_in_turn(scene.light_TSC, scene.hole_TS, scene.ribbon.own_TS, TABLES)
    strip = learned.strip_of(known, relit, scene.hole_TS, scene.floor)
    table = relit[..., :3] + relit[..., 3:] * scene.light_TSC
    fields = [table, *(field.transpose(0, 2, 1) for field in (known.own, known.face, known.banks)), one.true_TSC]
    lit = np.stack(fields) - np.float32(one.exposure)
    wanted = scene.hole_TS & scene.ribbon.inside_TS & scene.ribbon.own_TS
    strip, lit, wanted = _rows(strip, 0), _rows(lit, 1), _rows(wanted, 0)
    if rng.random() < 0.5:
        strip, lit, wanted = strip[::-1], lit[:, ::-1], wanted[::-1]
    first = int(rng.integers(0, max(1, min(COLUMNS, wanted.shape[1] - COLUMNS + 1))))
    for start in range(first, wanted.shape[1] - COLUMNS + 1, COLUMNS):
        part = slice(start, start + COLUMNS)
        if wanted[:, part].sum() >= _FEWEST:
            yield strip[:, part].astype(np.float16), lit[:, :, part].astype(np.float16), wanted[:, part].copy()


def _rows(field: Array, axis: int) -> Array:
    """A field with ROWS rows round its middle: cut, or its edges repeated."""
    missing = ROWS - field.shape[axis]
    before = abs(missing) // 2
    if missing < 0:
        return field[(slice(None),) * axis + (slice(before, before + ROWS),)]
    around = [(0, 0)] * field.ndim
    around[axis] = (before, missing - before)
    return np.pad(field, around, "edge") if field.dtype != bool else np.pad(field, around)


def loss_of(net: nn.Module, strips: Strips, rows: Array, rng: np.random.Generator) -> Tensor:
    """Mean over strips of `error_of` what the network makes of them, turned at random."""
    strip, lit, wanted = turned(strips.strip[rows], strips.light[rows], strips.wanted[rows], rng)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=net.training):
        answer = net(strip)
    return error_of(mixed(answer, lit[:, :4]), lit, wanted).mean()


def turned(strip: Array, lit: Array, wanted: Array, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """A batch with its banks changed over, run from its other end, and its colours exchanged, at random.

    What is true of a seam stays true of these.
    """
    rows, columns = (int(step) for step in rng.choice([-1, 1], 2))
    colours = rng.permutation(3)
    channels = np.r_[colours, 3 + colours, 6 + colours, 9 : strip.shape[-1]]
    parts = (
        strip[:, ::rows, ::columns][..., channels].astype(np.float32),
        lit[:, :, ::rows, ::columns][..., colours].astype(np.float32),
        wanted[:, ::rows, ::columns],
    )
    one, two, three = (torch.from_numpy(np.ascontiguousarray(part)) for part in parts)
    return one, two, three


def error_of(got: Tensor, lit: Tensor, wanted: Tensor) -> Tensor:
    """Squared error (N,) of display light in the matte, a strip counting for less the more it shows.

    By the root of what the plate itself is off: else black grooves drown the hairlines that an eye still sees. Errors
    of slope, and what of an error runs on along the seam for ALONG columns, count besides: an eye finds a line, or an
    edge, where it overlooks the same error strewn about.
    """
    own, true = lit[:, 1], lit[:, 4]
    seen, shown, plate = (torch.exp(x.clamp(max=4.0) / GAMMA) for x in (got, true, own))
    inside = wanted[..., None].float()
    apart = (seen - shown) * inside
    error = (apart**2).mean(-1).sum((1, 2))
    slopes = (apart.diff(dim=1) ** 2).mean(-1).sum((1, 2)) + (apart.diff(dim=2) ** 2).mean(-1).sum((1, 2))
    runs = nn.functional.avg_pool2d(apart.movedim(-1, 1), (1, ALONG), 1, (0, ALONG // 2))
    lines = (runs**2).mean(1).sum((1, 2))
    count = wanted.sum((1, 2)).clamp(min=1)
    off = (((plate - shown) * inside) ** 2).mean(-1).sum((1, 2)) / count
    return FAINT * (error + SLOPES * slopes + LINES * lines) / count / torch.sqrt(off + FAINT**2)


@dataclass(slots=True)
class Training:
    """A training that can be put aside: network, its average, optimiser, seconds spent and steps done."""

    net: FillNet
    average: torch.optim.swa_utils.AveragedModel
    optimiser: torch.optim.Optimizer
    seconds: float = 0.0
    steps: int = 0

    @classmethod
    def start(cls, seed: int) -> Training:
        """A fresh one."""
        torch.manual_seed(seed)
        net = cast(FillNet, cast(Any, FillNet()).to(memory_format=torch.channels_last))
        average = torch.optim.swa_utils.AveragedModel(
            net,
            multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.998),  # type: ignore[no-untyped-call]
            use_buffers=True,
        )
        return cls(net, average, torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=1e-3))

    def save(self, path: Path) -> None:
        """Put it aside."""
        parts = {name: getattr(self, name).state_dict() for name in ("net", "average", "optimiser")}
        with replacing(path) as beside:
            torch.save({**parts, "seconds": self.seconds, "steps": self.steps}, beside)

    def load(self, path: Path) -> None:
        """Take up one that was put aside."""
        kept = torch.load(path, weights_only=True)
        for name in ("net", "average", "optimiser"):
            getattr(self, name).load_state_dict(kept[name])
        self.seconds, self.steps = kept["seconds"], kept["steps"]


def train(training: Training, strips: Strips, *, minutes: float, piece: float, seed: int) -> None:
    """Go on training until `minutes` of the whole are spent, or `piece` minutes of this call."""
    began, before = time.monotonic(), training.seconds
    training.net.train()
    while training.seconds < 60 * minutes and training.seconds - before < 60 * piece:
        share = min(1.0, training.seconds / (60 * minutes))
        for group in training.optimiser.param_groups:
            group["lr"] = RATE * min(1.0, (training.steps + 1) / 100) * (0.5 + 0.5 * float(np.cos(np.pi * share)))
        rng = np.random.default_rng([seed, training.steps])
        loss = loss_of(training.net, strips, rng.integers(0, len(strips.strip), BATCH), rng)
        training.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(training.net.parameters(), 0.2)
        training.optimiser.step()
        training.average.update_parameters(training.net)
        training.steps += 1
        training.seconds = before + time.monotonic() - began


@torch.no_grad()
def figures(net: nn.Module, strips: Strips) -> dict[str, float]:
    """The loss on strips that were not trained on, and the same of what the tables make of them.

    `lost`: the share of strips where the network is worse than the tables.
    """
    net.eval()
    learned_N, tables_N = [], []
    for k in range(len(strips.strip)):
        lit, wanted = (
            torch.from_numpy(strips.light[k : k + 1].astype(np.float32)),
            torch.from_numpy(strips.wanted[k : k + 1]),
        )
        answer = net(torch.from_numpy(strips.strip[k : k + 1].astype(np.float32)))
        learned_N.append(float(error_of(mixed(answer, lit[:, :4]), lit, wanted)))
        tables_N.append(float(error_of(lit[:, 0], lit, wanted)))
    lost = np.mean(np.array(learned_N) > np.array(tables_N))
    return {
        "learned": float(np.mean(learned_N)),
        "tables": float(np.mean(tables_N)),
        "lost": float(lost),
        "strips": float(len(learned_N)),
    }


def export(net: FillNet, path: Path) -> float:
    """Write the network with free sizes; returns the largest difference to torch on strips of another size.

    Raises: TrainingError when the file gives something else than the network.
    """
    net = cast(FillNet, cast(Any, net.eval()).to(memory_format=torch.contiguous_format))
    rows, columns = torch.export.Dim("rows", min=2, max=128), torch.export.Dim("columns", min=2, max=4096)
    example = torch.randn(1, 32, 64, learned.N_CHANNELS)
    with replacing(path) as beside:
        save_onnx(
            net, beside, "strip", ("answer",), example, free={1: learned.MULTIPLE * rows, 2: learned.MULTIPLE * columns}
        )
    with torch.no_grad():
        other = torch.randn(1, 28, 100, learned.N_CHANNELS)
        wanted = net(other).numpy()
    session = open_session(path, device="cpu", threads=1, example={"strip": example.numpy()})
    got = session.run(("answer",), {"strip": other.numpy()})[0]
    difference = float(np.abs(got - wanted).max())
    if difference > _PARITY:
        raise TrainingError(f"{path.name}: differs from the trained network by {difference:.4g}; wanted <= {_PARITY}")
    return difference


def _strips(path: Path, shots: Path, seed: int, *, sizes: int, made_up: int) -> Strips:
    if not path.exists():
        folders = sorted(each for each in shots.iterdir() if (each / "truth.roto.json").exists())
        cut(folders, seed, sizes=sizes, made_up=made_up).save(path)
    return Strips.load(path)


def _facts(options: argparse.Namespace, found: Mapping[str, float]) -> dict[str, Any]:
    """What a pack's card says of the model."""
    words = f"{options.shots.name} --val {options.val.name} --out {options.out.name} --minutes {options.minutes:g}"
    return {
        "command": f"python -m rotopaint_ai.training.models.fill.train {words}",
        "data": "puppet stage and made-up textures",
        "steps": int(found["steps"]),
        "minutes": round(found["seconds"] / 60, 1),
        "held_out_strips": int(found["strips"]),
        "held_out_loss": round(found["learned"], 6),
        "held_out_loss_of_tables": round(found["tables"], 6),
        "held_out_worse_than_tables": round(found["lost"], 3),
    }


def main() -> int:
    """Train, and write the model once the whole time is spent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shots", type=Path, help="a folder of shots of the stage")
    parser.add_argument("--val", type=Path, required=True, help="shots of other characters, to judge on")
    parser.add_argument("--out", type=Path, required=True, help="fill.onnx")
    parser.add_argument("--minutes", type=float, default=16.0)
    parser.add_argument("--piece", type=float, default=1e9, help="stop after so many minutes; the same command goes on")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    state = options.out.with_suffix(".state.pt")
    try:
        strips = _strips(options.out.with_suffix(".strips.npz"), options.shots, options.seed, sizes=4, made_up=2)
        held_back = _strips(options.out.with_suffix(".val.npz"), options.val, 1, sizes=2, made_up=1)
        training = Training.start(options.seed)
        if state.exists():
            training.load(state)
        train(training, strips, minutes=options.minutes, piece=options.piece, seed=options.seed)
        training.save(state)
        net = cast(FillNet, training.average.module)
        found = {"steps": float(training.steps), "seconds": training.seconds, **figures(net, held_back)}
        if training.seconds >= 60 * options.minutes:
            found["parity"] = export(net, options.out)
            write_json(options.out.with_suffix(".json"), _facts(options, found))
    except RotopaintError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
