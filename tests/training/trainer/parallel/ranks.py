"""The work of each rank in the tests of ranks, by a name and a folder."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.data.memory import load_pictures
from rotopaint_ai.training.models.landmarks import config as losses
from rotopaint_ai.training.models.landmarks.config import PackConfig
from rotopaint_ai.training.models.landmarks.task import LandmarkData, LandmarkTask, build_net, to_input
from rotopaint_ai.training.trainer.config import override
from rotopaint_ai.training.trainer.group import Group
from rotopaint_ai.training.trainer.launch import NEW_STORE, RESTARTS, has_restarted
from rotopaint_ai.training.trainer.trainer import Trainer

TINY = [
    "widths=[8,8,8,8,8]",
    "depths=[1,1,1,1]",
    "neck=8",
    "fine=8",
    "batch=8",
    "bf16=false",
    "input_size=64",
    "small_size=64",
]
LONG = [*TINY, "minutes=null", "steps=6", "eval_every=2", "learn_all=0"]


def gradients(folder: Path, group: Group, compression: str) -> None:
    """The gradient of one batch, computed by any number of ranks."""
    recipe = override(PackConfig(), TINY)
    net = build_net(recipe, 5)
    model = group.wrap(net, equal=True, compression=compression).train()
    rng = np.random.default_rng(3)
    crops = rng.integers(0, 255, (8, 64, 64, 3), dtype=np.uint8)
    landmarks = torch.tensor(rng.uniform(4, 60, (8, 5, 2)), dtype=torch.float32)
    landmarks[3, 2] = float("nan")  # ranks have different numbers of landmarks
    whole = losses.make_target(landmarks, torch.ones(8, 5), torch.ones(5), 64, 0.5)
    mine = losses.LandmarkTarget(*(group.share(part) for part in whole))
    jitter = torch.tensor(rng.normal(0, 2, (8, 5, 2)), dtype=torch.float32)
    said = model(group.share(to_input(crops)), group.share(jitter))
    norm = group.sums([float(mine.weight.sum())])[0] / group.ranks
    loss, _ = losses.total_loss(said, mine, recipe.losses, norm=torch.tensor(norm))
    loss.backward()
    if group.is_first:
        found = {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}
        torch.save(found, folder / f"gradients.{group.ranks}.{compression}.pt")


def low_rank(group: Group) -> None:
    """Gradients of more than one of PyTorch's buckets (1 MB and the rest) go as low-rank products from step 20 on."""
    net = build_net(PackConfig(), 5)
    model = group.wrap(net, compression="powersgd").train()
    crops = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(group.rank))
    for _ in range(24):
        net.zero_grad(set_to_none=True)
        said = model(crops)
        (
            (said.points**2).mean()
            + (said.log_scale**2).mean()
            + (said.visible**2).mean()
            + (said.anisotropy**2).mean()
            + said.coarse_log.mean()
        ).backward()
    total = float(sum(p.grad.abs().sum() for p in net.parameters() if p.grad is not None))
    assert abs(group.from_first(total) - total) <= 1e-6 * total  # all ranks have the same
    assert total > 0


def training(folder: Path, group: Group, faces: str, out: str, kill_at: int) -> None:
    """Train the landmark network; before any restart, the last rank kills itself at a step."""
    first_life = not group.is_true_anywhere(has_restarted())
    n_checked = 0

    def check() -> None:
        nonlocal n_checked
        n_checked += 1
        if first_life and n_checked == kill_at and group.rank == group.ranks - 1:
            os.kill(os.getpid(), signal.SIGKILL)

    recipe, data = override(PackConfig(), LONG), read_dataset(faces)
    memory = load_pictures(data.subset(data.rows_of("train")), side_px=80, margin=1.3)
    held = load_pictures(data.subset(data.rows_of("test")), side_px=80, margin=1.3)
    task = LandmarkTask(recipe, build_net(recipe, 4), LandmarkData(memory, held, np.ones(4, np.float32), (1, 0, 2, 3)))
    (folder / out).mkdir(exist_ok=True)
    Trainer(recipe, task, folder / out, group).fit(resume=not first_life, check=check)


def everything(folder: Path, group: Group, faces: str) -> None:
    """Gradients and a complete training, then one that loses its last rank; after the restart, only that one is
    resumed."""
    if group.is_true_anywhere(has_restarted()):
        (folder / "restarted").touch()
    else:
        for compression in ("none", "bf16"):
            gradients(folder, group, compression)
        low_rank(group)
        training(folder, group, faces, "whole", 0)
    training(folder, group, faces, "broken", 4)


def act(name: str, folder: str, *rest: str) -> None:
    """Run this rank's work by name."""
    torch.set_num_threads(1)
    group = Group.join()
    if name == "everything":
        everything(Path(folder), group, rest[0])
    else:
        training(Path(folder), group, rest[0], rest[1], int(rest[2]))
        gradients(Path(folder), group, "none")
    group.leave()


def launch(n_ranks: int, *words: str) -> None:
    """Ranks of one host by PyTorch's launcher, each a copy of this process."""
    os.environ.update(NEW_STORE)
    config = LaunchConfig(
        *(1, 1, n_ranks),
        run_id="ranks",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=RESTARTS,
        monitor_interval=0.1,
        start_method="fork",
    )
    elastic_launch(config, act)(*words)


if __name__ == "__main__":
    act(*sys.argv[1:])
