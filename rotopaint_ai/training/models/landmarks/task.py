"""The training loop of the landmark network.

One thread makes batches, the main one computes. What happens at a step depends only on the seed and the step's number
(and, under a time budget, on the clock), so that a run that was killed goes on exactly where its checkpoint stands.

N batch, L landmarks, S side of the crop in pixels.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.training.data.augment import Augmenter, Batch, Geometry
from rotopaint_ai.training.data.dataset import Memory, joined, shrunk
from rotopaint_ai.training.data.pose_augment import Turner
from rotopaint_ai.training.data.prefetch import ahead
from rotopaint_ai.training.data.rigid_structure import Relief
from rotopaint_ai.training.data.shards.sampler import Order
from rotopaint_ai.training.data.shards.shard_prefetch import fetching
from rotopaint_ai.training.data.shards.stream import reading_s, sizes_of
from rotopaint_ai.training.models.landmarks import losses
from rotopaint_ai.training.models.landmarks.net import COARSE_STRIDE, LandmarkNet
from rotopaint_ai.training.models.landmarks.preview import Splines, write_preview
from rotopaint_ai.training.models.landmarks.validation import as_input, precision, predict_held_out, seen_error
from rotopaint_ai.training.trainer.activations import Activations, is_out_of_memory
from rotopaint_ai.training.trainer.checkpoint import data_print, taking, to_go_on_from, write_checkpoint
from rotopaint_ai.training.trainer.log import LOG, NOT_MEASURED, HeldOutError, Row, Window, write_log
from rotopaint_ai.training.trainer.optim import OPTIMISERS, rate_at
from rotopaint_ai.training.trainer.parallel.group import ALONE, Group
from rotopaint_ai.training.trainer.parallel.topology import remote_share
from rotopaint_ai.training.trainer.profile import Profile, gpu_clock, profile
from rotopaint_ai.training.trainer.recipe import Recipe

CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True, slots=True)
class Task:
    """What to train on: samples in memory, the held-out ones, landmark weights and mirror order.

    `faces_px`: the longest side of each held-out sample's face in pixels of its plate, for errors in pixels.
    """

    train: Memory
    held_out: Memory
    weights_L: npt.NDArray[np.float32]
    mirror: tuple[int, ...]
    splines: Splines | None = None  # to draw previews with
    faces_px: npt.NDArray[np.float64] | None = None
    relief: Relief | None = None  # of the character's head, to show it from other sides

    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """What tells these samples from others: their number, order, sizes and labels."""
        for memory in (self.train, self.held_out):
            yield np.array(sizes_of(memory.pictures))
            yield from (memory.truth.landmarks, memory.truth.visible, memory.truth.points)


@dataclass(frozen=True, slots=True)
class Trained:
    """The network, how it went, and how fast.

    `judged` is the best one by held-out error, and what all figures are of; `net` goes on from it on all samples, where
    the recipe lets held-out ones join at last, and is the same one else.
    """

    net: LandmarkNet
    judged: LandmarkNet
    rows: tuple[Row, ...]
    steps: int
    minutes: float
    best_percent: float
    profile: Profile | None = None


def build_net(recipe: Recipe, n_landmarks: int) -> LandmarkNet:
    """The recipe's network with freshly drawn weights."""
    torch.manual_seed(recipe.seed)
    return LandmarkNet(
        n_landmarks,
        backbone=recipe.backbone,
        widths=recipe.widths,
        depths=recipe.depths,
        neck=recipe.neck,
        fine=recipe.fine,
        window=recipe.window,
    )


def fit_landmarks(
    recipe: Recipe,
    net: LandmarkNet,
    task: Task,
    folder: Path,
    *,
    resume: bool = False,
    report: Callable[[Row], None] = lambda row: None,
    check: Callable[[], None] = lambda: None,
    group: Group = ALONE,
) -> Trained:
    """Train `net` and leave a checkpoint, a log and previews in `folder`.

    `check` is called every step and may raise to stop, on any rank; the checkpoint of the last evaluation then stays.
    Raises: TrainingError when the loss stops being a number, or a checkpoint to resume from does not fit.
    """
    run = Run(recipe, net, task, folder, group)
    if resume:
        run.load()
    with fetching(run.everything.pictures, run.shards_ahead) as tell, ahead(run.make_batch, run.at) as batches:
        while not run.is_over:
            tell(run.at)
            group.check(check)
            if run.is_joining:
                run.join(report)
            run.step(*next(batches))
            if run.at % recipe.eval_every == 0 or run.is_over:
                row = run.evaluate()
                run.save()
                report(row)  # who reads this line can rely on the checkpoint
                if run.is_stale:
                    break
    return run.result()


class Run:
    """The state of a run: everything that a checkpoint holds."""

    def __init__(self, recipe: Recipe, net: LandmarkNet, task: Task, folder: Path, group: Group) -> None:
        self.recipe, self.task, self.folder, self.group = recipe, task, folder, group
        self.data = data_print(task.arrays())
        layout = torch.channels_last if recipe.channels_last else torch.contiguous_format
        self.device = group.device
        self.net = cast(LandmarkNet, cast(Any, net).to(self.device, memory_format=layout))
        self.ema = copy.deepcopy(self.net).eval()
        self.model = group.wrap(self.net, compression=recipe.compression, equal=recipe.equal_ranks)
        self.ema_tensors, self.net_tensors = _floats(self.ema), _floats(self.net)
        self.best_state = copy.deepcopy(self.ema.state_dict())
        self.optimiser = OPTIMISERS[recipe.optimiser](self.net, recipe.learning_rate, recipe.weight_decay)
        self.weights_L = torch.tensor(task.weights_L, device=self.device)
        self.activations = Activations(recipe.activations, self.net.blocks(), folder)
        self.at, self.seconds, self.since_best = 0, 0.0, 0
        self.best = NOT_MEASURED
        self.has_joined = False
        self.rows: list[Row] = []
        self.making_s = 0.0  # that the thread of batches took
        self.window = self._new_window()
        self.everything = joined(task.train, task.held_out) if recipe.learn_all else task.train
        factor = recipe.small_size / recipe.input_size
        self.small = shrunk(self.everything, factor) if self._starts_small else self.everything

    @property
    def _starts_small(self) -> bool:
        return self.recipe.small_share > 0 and self.recipe.small_size < self.recipe.input_size

    def _new_window(self) -> Window:
        if self.device.type == "cuda":
            return Window(gpu_clock())
        return Window(threads=torch.get_num_threads())

    def progress(self, step: int) -> float:
        """Share of the run that is over at a step: by steps or by the clock, whichever is further."""
        by_step = step / self.recipe.steps if self.recipe.steps else 0.0
        by_clock = self.seconds / (self.recipe.minutes * 60) if self.recipe.minutes else 0.0
        return max(by_step, by_clock)

    @property
    def is_over(self) -> bool:
        return self.progress(self.at) >= 1.0

    def join(self, report: Callable[[Row], None]) -> None:
        """Judge the network a last time; from now on it learns from held-out samples too."""
        if not self.rows or self.rows[-1].step != self.at:
            report(self.evaluate())
        self.has_joined = True

    @property
    def is_joining(self) -> bool:
        """Whether held-out samples join with the next step, and have not yet."""
        return not self.has_joined and self.learns_all(self.at)

    @property
    def is_stale(self) -> bool:
        return not self.has_joined and self.recipe.patience is not None and self.since_best >= self.recipe.patience

    def learns_all(self, step: int) -> bool:
        """Whether held-out samples have joined by a step."""
        return self.recipe.learn_all > 0 and self.progress(step) >= 1 - self.recipe.learn_all

    def size_at(self, step: int) -> int:
        """Crop size of a step."""
        small = self._starts_small and self.progress(step) < self.recipe.small_share
        return self.recipe.small_size if small else self.recipe.input_size

    def order_at(self, step: int) -> Order:
        """The order of samples by which a step goes."""
        n = len(self.everything if self.learns_all(step) else self.task.train)  # held-out samples stand last
        groups = self.everything.groups
        return Order(n, self.recipe.seed, None if groups is None else groups[:n])

    def shards_ahead(self, step: int) -> list[int]:
        """A row of each shard that a step and those after it want, the first first."""
        return self.order_at(step).ahead(step, self.recipe.batch)

    def make_batch(self, step: int) -> Batch:
        """The batch of a step; the same for the same seed, step and crop size."""
        recipe, size = self.recipe, self.size_at(step)
        memory = self.small if size < recipe.input_size else self.everything
        rows = self.group.share(self.order_at(step).batch(step, recipe.batch))
        start = time.perf_counter()
        draws = [np.random.default_rng((recipe.seed, step, at)) for at in self.group.share(range(recipe.batch))]
        batch = make_augmenter(recipe, self.task.mirror, self.task.relief).batch(memory, rows, size, draws)
        self.making_s += time.perf_counter() - start
        return batch

    def step(self, batch: Batch, waited: float) -> None:
        """One step of the optimiser."""
        start = time.perf_counter()
        rate = self.recipe.learning_rate * rate_at(self.progress(self.at), warmup=self.recipe.warmup)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        size = batch.crops.shape[1]
        target = losses.make_target(
            torch.from_numpy(batch.landmarks).to(self.device),
            torch.from_numpy(batch.visible).to(self.device),
            self.weights_L,
            size,
            self.recipe.hidden_weight,
        )
        self.net.train()
        noise = torch.Generator().manual_seed(self.recipe.seed * 1_000_003 + self.at)
        everywhere = (self.recipe.batch, *target.points.shape[1:])
        jitter = torch.randn(everywhere, generator=noise) * self.recipe.centre_jitter * COARSE_STRIDE
        crops = as_input(batch.crops, self.device)
        copied = time.perf_counter() - start
        weight, ranks = self.group.sums([float(target.weight.sum())])[0], self.group.ranks
        loss, parts = self._learn(crops, self.group.share(jitter).to(self.device), target, weight / ranks)
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), self.recipe.clip)
        if not torch.isfinite(norm):
            raise TrainingError(
                f"step {self.at}: the loss is no longer a number ({parts}); lower learning_rate and start again"
            )
        self.optimiser.step()
        self._follow()
        self.at += 1
        taken = time.perf_counter() - start
        self.seconds += self.group.first_says(taken + waited)
        self.window.add(float(loss.detach()), self.recipe.batch, taken, waited, copied, batch.crops.nbytes)

    def _learn(
        self, crops: Tensor, jitter: Tensor, target: losses.Target, norm: float
    ) -> tuple[Tensor, dict[str, float]]:
        """The loss of a batch and its gradients; where memory runs out, once more with less kept.

        Raises: TrainingError where nothing less can be kept.
        """
        while True:
            self.optimiser.zero_grad(set_to_none=True)
            try:
                with self.activations.saving():
                    with precision(self.recipe, self.device):
                        said = self.model(crops, jitter)
                    loss, parts = losses.total(said, target, self.recipe.losses, norm=norm)
                    cast(Any, loss).backward()
                return loss, parts
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                refused = " ".join(str(error).split())[:200]
            if self.group.ranks > 1 or not self.activations.tighten():
                raise TrainingError(
                    f"step {self.at}: memory ran out ({refused}); set a smaller batch, or activations=offload"
                )

    @torch.no_grad()
    def _follow(self) -> None:
        """Move the averaged weights towards the new ones; early on they follow quickly."""
        decay = min(self.recipe.ema, (1 + self.at) / (10 + self.at))
        torch._foreach_lerp_(self.ema_tensors, self.net_tensors, 1 - decay)

    def evaluate(self) -> Row:
        """Held-out error of the averaged weights; keeps them when they are the best so far. Not counted as training.

        Once held-out samples have joined there is none, and the best so far stands.
        """
        rows = _spread(len(self.task.held_out), self.recipe.eval_limit)
        error = self.best if self.has_joined else self._judge(rows)
        rate = self.optimiser.param_groups[0]["lr"]
        talking = self.group.talking_s(self.model) * len(self.window.losses)
        row = self.window.row(self.at, self.seconds / 60, self.size_at(self.at - 1), error, rate, talking)
        self.window = self._new_window()
        self.rows.append(row)
        if not self.group.is_first:
            return row
        write_log(self.folder / LOG, self.rows)
        preview = self.folder / "preview.jpg"
        write_preview(preview, self.ema, self.task.held_out, rows[:12], self.recipe, self.task.splines)
        return row

    def _judge(self, rows: npt.NDArray[np.intp]) -> HeldOutError:
        error = self.held_out_error(rows) if self.group.is_first else NOT_MEASURED
        error = HeldOutError(*(self.group.first_says(value) for value in error))
        self.since_best += 1
        if error.percent < self.best.percent:
            self.best, self.since_best = error, 0
            self.best_state = copy.deepcopy(self.ema.state_dict())
        return error

    def held_out_error(self, rows: npt.NDArray[np.intp]) -> HeldOutError:
        """What the averaged weights get wrong on some held-out samples."""
        held = predict_held_out(self.ema, self.task.held_out, rows, self.recipe, exact=False)
        faces = held.face if self.task.faces_px is None else self.task.faces_px[rows]
        return seen_error(held, faces)

    def save(self) -> None:
        """Write the checkpoint beside and rename; the first rank does, for all."""
        if not self.group.is_first:
            return
        state = {
            "recipe": self.recipe.to_yaml(),
            "data": self.data,
            "net": self.net.state_dict(),
            "ema": self.ema.state_dict(),
            "best_state": self.best_state,
            "optimiser": self.optimiser.state_dict(),
            "best": tuple(self.best),
            **{name: getattr(self, name) for name in ("at", "seconds", "since_best", "has_joined")},
            "rows": [tuple(row) for row in self.rows],
        }
        write_checkpoint(self.folder / CHECKPOINT, state)

    def load(self) -> None:
        """Go on from the folder's checkpoint; start anew where there is none. Raises TrainingError."""
        path = self.folder / CHECKPOINT
        state = to_go_on_from(path, recipe=self.recipe.to_yaml(), data=self.data)
        if state is not None:
            with taking(path):
                self._take(state)

    def _take(self, state: dict[str, Any]) -> None:
        self.net.load_state_dict(state["net"])
        self.ema.load_state_dict(state["ema"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.best_state = state["best_state"]
        self.best = HeldOutError(*state["best"])
        for name in ("at", "seconds", "since_best", "has_joined"):
            setattr(self, name, state[name])
        self.rows = [Row(*row) for row in state["rows"]]

    def result(self) -> Trained:
        """The networks, in evaluation mode and plain memory layout."""
        judged = copy.deepcopy(self.ema)
        judged.load_state_dict(self.best_state)
        judged = _plain(judged)
        net = _plain(copy.deepcopy(self.ema)) if self.has_joined else judged
        found = profile(
            self.rows,
            device="processor" if self.device.type == "cpu" else "GPU",
            activations=self.activations.current,
            reading_share=reading_s(self.everything.pictures) / max(self.making_s, 1e-9),
            remote=remote_share(),
        )
        return Trained(net, judged, tuple(self.rows), self.at, self.seconds / 60, self.best.percent, found)


def _plain(net: LandmarkNet) -> LandmarkNet:
    return cast(LandmarkNet, cast(Any, net).to("cpu", memory_format=torch.contiguous_format).eval())


def make_augmenter(recipe: Recipe, mirror: tuple[int, ...], relief: Relief | None = None) -> Augmenter:
    """The recipe's augmentation; without a relief nothing is shown from other sides."""
    geometry = Geometry(
        scale=(recipe.scale_low, recipe.scale_high),
        shift=recipe.shift,
        rotation_deg=recipe.rotation_deg,
        flip=recipe.flip,
        shear=recipe.shear,
        perspective=recipe.perspective,
        bent=recipe.bent,
        bend=recipe.bend,
    )
    turner = Turner(relief, recipe.turned, recipe.turned_yaw_deg, recipe.turned_pitch_deg) if relief else None
    return Augmenter(geometry, recipe.augment, recipe.crop_margin, mirror, turner)


def _floats(module: nn.Module) -> list[Tensor]:
    return [value for value in module.state_dict().values() if value.is_floating_point()]


def _spread(n: int, limit: int) -> npt.NDArray[np.intp]:
    """At most `limit` rows out of n, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, limit)).round().astype(np.intp))
