"""The training loop of networks that are not the landmark network: the detector and the second opinion.

Batches are a function of the seed and the step's number; training ends by steps or by the clock; the checkpoint holds
everything, so that a run that was stopped goes on where it stood. Memory that runs out makes a step keep less.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import torch
import yaml
from torch import Tensor, nn

from rotopaint_ai.errors import CancelledError, TrainingError, UsageError
from rotopaint_ai.training.models.landmarks.net import BACKBONES
from rotopaint_ai.training.trainer.activations import MODES, Activations, is_out_of_memory
from rotopaint_ai.training.trainer.checkpoint import taking, to_go_on_from, write_checkpoint
from rotopaint_ai.training.trainer.optim import OPTIMISERS, rate_at

CHECKPOINT = "checkpoint.pt"
AnyBatch = TypeVar("AnyBatch")
Net = TypeVar("Net", bound=nn.Module)


@dataclass(frozen=True, slots=True)
class Schedule:
    """What every such recipe says of network and run. Training ends at `minutes` or `steps`; one may be null."""

    task: str = ""
    name: str = ""
    backbone: str = "dense"
    widths: tuple[int, ...] = (16, 32, 64, 96, 128)  # those of the landmark network, whose weights start these
    depths: tuple[int, ...] = (1, 1, 1, 1)
    neck: int = 48
    minutes: float | None = 11.0
    steps: int | None = None
    batch: int = 16
    optimiser: str = "adamw"
    learning_rate: float = 2e-3
    warmup: float = 0.03
    weight_decay: float = 0.02
    clip: float = 5.0
    ema: float = 0.997
    bf16: bool = True
    activations: str = "auto"
    threads: int = 1
    seed: int = 1
    log_every: int = 50

    def to_yaml(self) -> str:
        """The whole recipe as YAML text that reads back to an equal one."""
        content = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}
        return cast(str, yaml.safe_dump(content, sort_keys=False, width=120))

    def check(self) -> None:
        """Raises UsageError with the first field that cannot be."""
        _ = BACKBONES[self.backbone], OPTIMISERS[self.optimiser]
        for ok, message in (
            (len(self.widths) == 5 and len(self.depths) == 4, "widths, depths: wanted 5 and 4 numbers"),
            # oneDNN's bf16 kernels crash the process on some other channel counts
            (all(w > 0 and w % 8 == 0 for w in (*self.widths, self.neck)), "widths, neck: wanted multiples of 8"),
            (all(depth >= 1 for depth in self.depths), f"depths {self.depths}: wanted 1 or more"),
            (self.minutes is not None or self.steps is not None, "minutes and steps are both null; wanted one of them"),
            (self.minutes is None or self.minutes > 0, f"minutes {self.minutes}: wanted more than 0"),
            (self.steps is None or self.steps > 0, f"steps {self.steps}: wanted more than 0"),
            (self.batch >= 2, f"batch {self.batch}: wanted 2 or more, which batch normalisation needs"),
            (self.activations in MODES, f"activations {self.activations}: wanted one of {', '.join(MODES)}"),
            (0 <= self.ema < 1, f"ema {self.ema}: wanted 0 to below 1"),
            (0 < self.learning_rate <= 1, f"learning_rate {self.learning_rate}: wanted more than 0, up to 1"),
            (0 <= self.warmup < 1, f"warmup {self.warmup}: wanted 0 to below 1"),
            (0 <= self.weight_decay <= 1, f"weight_decay {self.weight_decay}: wanted 0 to 1"),
            (self.clip > 0, f"clip {self.clip}: wanted more than 0"),
            (self.seed >= 0, f"seed {self.seed}: wanted 0 or more"),
            (self.threads >= 1 and self.log_every >= 1, "threads, log_every: wanted 1 or more"),
        ):
            if not ok:
                raise UsageError(message)


def check_parts(augment: Mapping[str, float], losses: Mapping[str, float]) -> None:
    """Raises UsageError unless augmentations are given as probabilities and losses as weights."""
    if not all(0 <= probability <= 1 for probability in augment.values()):
        raise UsageError("augment: wanted probabilities from 0 to 1")
    if not (all(weight >= 0 for weight in losses.values()) and any(losses.values())):
        raise UsageError("losses: wanted weights of 0 or more, at least one above 0")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the log: means since the last one. Shares are of the time."""

    step: int
    minutes: float
    loss: float
    parts: dict[str, float]
    images_per_s: float
    waiting_share: float
    progress: float


class Fit(Generic[Net, AnyBatch]):
    """A network in training: `fit(...)` runs it to its end."""

    def __init__(
        self,
        plan: Schedule,
        net: Net,
        folder: Path,
        *,
        make_batch: Callable[[int], AnyBatch],
        loss_of: Callable[[Net, AnyBatch, torch.Generator], tuple[Tensor, dict[str, float]]],
        blocks: tuple[nn.Module, ...],
        data: str = "",
    ) -> None:
        """`data`: what tells the data of this run from others (`checkpoint.data_print`)."""
        torch.set_num_threads(plan.threads)
        self.data = data
        self.plan, self.folder, self.make_batch, self.loss_of = plan, folder, make_batch, loss_of
        self.net = cast(Net, cast(Any, net).to(memory_format=torch.channels_last))
        self.ema = copy.deepcopy(self.net).eval()
        self.optimiser = OPTIMISERS[plan.optimiser](self.net, plan.learning_rate, plan.weight_decay)
        self.activations = Activations(plan.activations, blocks, folder)
        self.at, self.seconds = 0, 0.0
        self._parts: list[dict[str, float]] = []
        self._losses: list[float] = []
        self._took, self._waited = 0.0, 0.0

    @property
    def progress(self) -> float:
        """Share of the run that is over: by steps or by the clock, whichever is further."""
        by_step = self.at / self.plan.steps if self.plan.steps else 0.0
        return max(by_step, self.seconds / (60 * self.plan.minutes) if self.plan.minutes else 0.0)

    def run(self, report: Callable[[Row], None], check: Callable[[], None]) -> Net:
        """Train to the end and return the averaged network, in evaluation mode and plain memory layout.

        Raises: TrainingError when the loss stops being a number; what `check` raises, leaving a checkpoint.
        """
        try:
            while self.progress < 1:
                check()
                self._step()
                if self.at % self.plan.log_every == 0:
                    report(self._row())
                    self.save()
        except CancelledError:  # between two steps, so what is saved is whole
            if self.at:
                self.save()
            raise
        if self._losses:
            report(self._row())
        self.save()
        return cast(Net, cast(Any, copy.deepcopy(self.ema)).to(memory_format=torch.contiguous_format).eval())

    def _step(self) -> None:
        start = time.perf_counter()
        batch = self.make_batch(self.at)
        waited = time.perf_counter() - start
        rate = self.plan.learning_rate * rate_at(self.progress, warmup=self.plan.warmup)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.net.train()
        loss, parts = self._learn(batch)
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), self.plan.clip)
        if not torch.isfinite(norm):
            raise TrainingError(f"step {self.at}: the loss is no longer a number ({parts}); lower learning_rate")
        self.optimiser.step()
        self._follow()
        self.at += 1
        took = time.perf_counter() - start
        self.seconds, self._took, self._waited = self.seconds + took, self._took + took, self._waited + waited
        self._losses.append(float(loss.detach()))
        self._parts.append(parts)

    def _learn(self, batch: AnyBatch) -> tuple[Tensor, dict[str, float]]:
        while True:
            self.optimiser.zero_grad(set_to_none=True)
            noise = torch.Generator().manual_seed(self.plan.seed * 1_000_003 + self.at)
            try:
                with self.activations.saving():
                    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.plan.bf16):
                        loss, parts = self.loss_of(self.net, batch, noise)
                    cast(Any, loss).backward()
                return loss, parts
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                refused = " ".join(str(error).split())[:200]
            if not self.activations.tighten():
                raise TrainingError(f"step {self.at}: memory ran out ({refused}); set a smaller batch")

    @torch.no_grad()
    def _follow(self) -> None:
        decay = min(self.plan.ema, (1 + self.at) / (10 + self.at))
        own, new = ([v for v in m.state_dict().values() if v.is_floating_point()] for m in (self.ema, self.net))
        torch._foreach_lerp_(own, new, 1 - decay)

    def _row(self) -> Row:
        n, names = len(self._losses), self._parts[0].keys()
        parts = {name: sum(part[name] for part in self._parts) / n for name in names}
        took = max(self._took, 1e-9)
        row = Row(
            self.at,
            self.seconds / 60,
            sum(self._losses) / n,
            parts,
            n * self.plan.batch / took,
            self._waited / took,
            min(1.0, self.progress),
        )
        self._losses, self._parts, self._took, self._waited = [], [], 0.0, 0.0
        return row

    def save(self) -> None:
        """Write the checkpoint beside and rename."""
        state = {
            "recipe": self.plan.to_yaml(),
            "data": self.data,
            **{name: getattr(self, name).state_dict() for name in ("net", "ema", "optimiser")},
            "at": self.at,
            "seconds": self.seconds,
        }
        write_checkpoint(self.folder / CHECKPOINT, state)

    def load(self) -> None:
        """Go on from the folder's checkpoint; start anew where there is none. Raises TrainingError."""
        path = self.folder / CHECKPOINT
        state = to_go_on_from(path, recipe=self.plan.to_yaml(), data=self.data)
        if state is None:
            return
        with taking(path):
            for name in ("net", "ema", "optimiser"):
                getattr(self, name).load_state_dict(state[name])
            self.at, self.seconds = state["at"], state["seconds"]
