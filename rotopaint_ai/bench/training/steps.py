"""Training steps of the shipped network in a process of its own; prints two rates in images per second.

The first rate is by wall time, the second by processor time of all ranks. The second is more reliable on a busy
machine.

    python -m rotopaint_ai.bench.training.steps {stock,ours} STEPS BATCH SIZE

Both use the same network and losses. `stock` is plain PyTorch: float32, contiguous, the system's allocator.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any

import torch

from rotopaint_ai.training.models.landmarks import config as losses
from rotopaint_ai.training.models.landmarks.config import load_pack_config
from rotopaint_ai.training.models.landmarks.task import build_net
from rotopaint_ai.training.trainer.group import Group

N_LANDMARKS = 69
WARM_UP = 3


def main(words: list[str]) -> None:
    """Run the steps on all ranks, and print the rates."""
    kind, n_steps, batch, size = words[0], *(int(word) for word in words[1:4])
    if kind not in ("stock", "ours"):
        raise SystemExit(f"{kind}: wanted stock or ours")
    torch.set_num_threads(1)
    group = Group.join()
    net: Any = build_net(load_pack_config("shipped"), N_LANDMARKS).train()
    if kind == "ours":
        net = net.to(memory_format=torch.channels_last)
    model = group.wrap(net)
    optimiser = torch.optim.AdamW(net.parameters(), 1e-4)
    draw = torch.Generator().manual_seed(group.rank)
    crops = torch.rand(batch, 3, size, size, generator=draw)
    crops = crops.to(memory_format=torch.channels_last) if kind == "ours" else crops
    places = torch.rand(batch, N_LANDMARKS, 2, generator=draw) * size
    seen = torch.ones(batch, N_LANDMARKS)
    target = losses.make_target(places, seen, torch.ones(N_LANDMARKS), size, 0.3)
    parts = load_pack_config("shipped").losses
    start = used = 0.0
    for step in range(WARM_UP + n_steps):
        if step == WARM_UP:
            group.sums([0.0])  # all ranks begin together
            start, used = time.perf_counter(), time.process_time()
        with torch.autocast("cpu", torch.bfloat16) if kind == "ours" else contextlib.nullcontext():
            output = model(crops)
        loss, _ = losses.total_loss(output, target, parts)
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        optimiser.step()
    (taken,) = group.sums([time.process_time() - used])
    if group.is_first:
        n_images = group.ranks * n_steps * batch
        print(f"images/s {n_images / (time.perf_counter() - start):.4f} {n_images / taken:.4f}")
    group.leave()


if __name__ == "__main__":
    main(sys.argv[1:])
