"""Smaller landmark networks, cut from the shipped one and trained further, as start packs for characters.

    python -m rotopaint_ai.stage dataset FACES --characters 500 --seed 920000
    python -m benchmarks.smaller FACES OUT [--only shallow ...]
    rotopaint train CHARACTER --init OUT/shallow --set mirrored=false --set input_size=192 --set depths=[1,1,2,2] ...

Shipped weights that fit are reused; residual blocks can be left out, because a block only adds to its input. OUT/NAME
is the shipped pack with these weights. `taught` is trained on the shipped network's heat-maps and points in addition to
the ground truth. `rotopaint bench infer --model PACK` measures the time of a pack, `rotopaint evaluate` its error.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn import functional as F

from benchmarks.crop_pool import Pool, PooledTask, take_core
from rotopaint_ai.inference.pack import find_pack
from rotopaint_ai.training.models.backbone import face_places, load_pretrained, read_weights, save_weights
from rotopaint_ai.training.models.landmarks.config import PackConfig, load_pack_config, total_loss
from rotopaint_ai.training.models.landmarks.net import COARSE_STRIDE, LandmarkNet
from rotopaint_ai.training.models.landmarks.task import Inputs, build_net
from rotopaint_ai.training.pack.prepare import prepare
from rotopaint_ai.training.trainer.group import Group
from rotopaint_ai.training.trainer.task import Losses, Moment
from rotopaint_ai.training.trainer.trainer import Trainer


class SmallerNet(NamedTuple):
    """A smaller network: side of its crops in pixels, blocks per stage, and whether the shipped network teaches it."""

    side: int
    depths: tuple[int, ...]
    is_taught: bool = False


CUTS: Mapping[str, SmallerNet] = {
    "whole": SmallerNet(192, (1, 1, 3, 4)),
    "shallow": SmallerNet(192, (1, 1, 2, 2)),
    "taught": SmallerNet(192, (1, 1, 2, 2), is_taught=True),
    "least": SmallerNet(192, (1, 1, 1, 1)),
    "small": SmallerNet(160, (1, 1, 2, 2)),
}
_pools: dict[int, Pool] = {}  # by side of the crops; forked processes inherit it without a copy


class TaughtTask(PooledTask):
    """A network that is also trained on the predictions of a larger one."""

    def __init__(self, config: PackConfig, net: LandmarkNet, pool: Pool, teacher: LandmarkNet) -> None:
        super().__init__(config, net, pool)
        self.teacher = teacher

    def loss(self, net: LandmarkNet, inputs: Inputs, moment: Moment) -> Losses:
        """The recipe's losses, plus cross entropy of the two coarse heat-maps, plus distance of their points."""
        with moment.precision():
            with torch.no_grad():
                reported = self.teacher(inputs.crops)
            output = net(inputs.crops, inputs.jitter)
        total, parts = total_loss(output, inputs.target, self.config.losses, norm=inputs.norm)
        assert output.coarse_log is not None
        assert reported.coarse_log is not None
        heat = -(reported.coarse_log.exp() * output.coarse_log).sum((2, 3)).mean()
        place = F.smooth_l1_loss(output.points / COARSE_STRIDE, reported.points / COARSE_STRIDE, beta=0.1)
        return total + heat + place, {**parts, "taught": (heat + place).detach()}


def shipped_net(config: PackConfig, pool: Pool) -> LandmarkNet:
    """A network of a recipe, with the shipped weights that fit."""
    data = pool.ready.train_data
    net = build_net(config, len(data.sheet.landmarks))
    load_pretrained(net, read_weights(find_pack(None)), data.sheet.landmark_names, face_places(data.truth.landmarks))
    return net


def train(name: str, at: int, out: Path, samples: int) -> str:
    """Train one network and write its start pack; returns a line with the result."""
    take_core(at)
    cut = CUTS[name]
    pool = _pools[cut.side]
    steps = max(4, samples // pool.ready.config.batch)
    config = replace(pool.ready.config, depths=cut.depths, steps=steps, eval_every=steps // 4)
    net, group = shipped_net(config, pool), Group.join()
    task = PooledTask(config, net, pool)
    if cut.is_taught:
        teacher = shipped_net(replace(config, depths=CUTS["whole"].depths), pool)
        task = TaughtTask(config, net, pool, teacher.to(group.device).eval().requires_grad_(False))
    with tempfile.TemporaryDirectory() as folder:
        trained = Trainer(config, task, Path(folder), group).fit()
    shutil.copytree(find_pack(None), out / name)
    data = pool.ready.train_data
    save_weights(out / name, trained.net, data.sheet.landmark_names, face_places(data.truth.landmarks))
    reported = ", ".join(f"{row.scores['held_out_percent']:.3f}" for row in trained.rows)
    return f"{name}: {steps} steps, {trained.images_per_s:.0f}/s, held out: {reported} % of the face"


def main() -> int:
    """Write the start packs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faces")
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument("--samples", type=int, default=192_000, help="number of samples of each training")
    parser.add_argument("--pool", type=int, default=24_000, help="number of crops in the pool")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--only", nargs="+", choices=sorted(CUTS), default=list(CUTS))
    options = parser.parse_args()
    words = ["small_share=0", "minutes=null", "steps=1", f"batch={options.batch}", "learning_rate=0.002", "threads=1"]
    for side in {CUTS[name].side for name in options.only}:
        sizes = [f"input_size={side}", f"small_size={side}"]
        ready = prepare([options.faces], load_pack_config("shipped", [*words, *sizes]), "none")
        _pools[side] = Pool.make(ready, options.pool)
    options.out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(len(options.only), get_context("fork")) as workers:
        asked = [workers.submit(train, name, at, options.out, options.samples) for at, name in enumerate(options.only)]
        for each in asked:
            print(each.result(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
