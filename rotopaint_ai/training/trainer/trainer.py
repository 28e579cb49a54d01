"""The training loop of every network: `Trainer(config, task, folder).fit()`, and its checkpoint on disk.

Other processes prepare batches, the main thread computes. A step depends only on the seed and the step's number (and,
under a time budget, on the clock), so a stopped run resumes exactly from its checkpoint. A checkpoint is written
atomically, and resumed only by the same training.
"""

from __future__ import annotations

import contextlib
import copy
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, cast

import numpy as np
import torch
from torch import Tensor, nn

from rotopaint_ai.errors import CancelledError, TrainingError
from rotopaint_ai.files import replacing
from rotopaint_ai.jobs import Sink, warning
from rotopaint_ai.numa import remote_share
from rotopaint_ai.training.data.dataset_checks import fingerprint_arrays
from rotopaint_ai.training.trainer.activations import Activations, is_out_of_memory
from rotopaint_ai.training.trainer.captured import CapturedGradients
from rotopaint_ai.training.trainer.config import TrainConfig, gives_config
from rotopaint_ai.training.trainer.cores import TimedBatch, TimedBatches, n_processes, prefetching_batches
from rotopaint_ai.training.trainer.group import ALONE, Group
from rotopaint_ai.training.trainer.log import (
    KEEPING,
    Budget,
    LogRow,
    LogWindow,
    Profile,
    Reporter,
    gpu_clock,
    make_profile,
    write_log,
)
from rotopaint_ai.training.trainer.optim import OPTIMISERS, MovingAverage, rate_at
from rotopaint_ai.training.trainer.roofline import Operations, memory_bound_share
from rotopaint_ai.training.trainer.task import Batch, Losses, Moment, Net, Task


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint atomically. Raises TrainingError where the disk refuses; the previous checkpoint then
    stays."""
    try:
        with replacing(path) as beside, beside.open("wb") as stream:
            torch.save(state, stream)
            stream.flush()
            os.fsync(stream.fileno())
    except (OSError, RuntimeError) as error:  # torch wraps the error of the disk in its own
        reason = error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())[:120]
        raise TrainingError(
            f"{path}: cannot be written ({reason}); free disk space and continue with --resume, from the last "
            "checkpoint"
        ) from error


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The state in a checkpoint. Raises TrainingError for a damaged file, or one that is not a checkpoint."""
    damaged = f"{path}: cannot be read, it is damaged or no checkpoint; train again without --resume"
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise TrainingError(f"{path}: cannot be read ({error.strerror or error}); check its permissions") from error
    except Exception as error:  # torch raises many kinds of errors for a damaged file, with advice for developers
        raise TrainingError(damaged) from error
    if not isinstance(state, dict):
        raise TrainingError(damaged)
    return state


def resume_state(path: Path, config: Any, data: str) -> dict[str, Any] | None:
    """The state in a checkpoint; None where there is none.

    Raises: TrainingError for a damaged file, or where it was made with another config or from other data.
    """
    if not path.is_file():
        return None
    state = read_checkpoint(path)
    if "recipe" not in state or not gives_config(str(state["recipe"]), config):
        raise TrainingError(f"{path}: was made with another recipe; train again without --resume, or with that recipe")
    if state.get("data", data) != data:  # older checkpoints have no such field
        raise TrainingError(f"{path}: was made from other data; train again without --resume, or from those data")
    return state


@contextlib.contextmanager
def loading_state(path: Path) -> Iterator[None]:
    """Report errors while a state is loaded. Raises TrainingError where a part is missing or does not fit."""
    try:
        yield
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise TrainingError(
            f"{path}: was made by another version, or from data with other landmarks; train again without --resume"
        ) from error


CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True, slots=True)
class TrainResult(Generic[Net]):
    """The trained network on the CPU, with its log and speed.

    `validated` is the best network by the task's score, and all metrics are measured on it. `net` is the same one,
    unless the training continued on held-out samples; then `net` is the last one. A task without scores returns the
    last one.
    """

    net: Net
    validated: Net
    rows: tuple[LogRow, ...]
    steps: int
    minutes: float
    profile: Profile | None = None

    @property
    def images_per_s(self) -> float:
        """Images per second of training, the mean over its log."""
        return float(np.mean([row.images_per_s for row in self.rows])) if self.rows else 0.0


class Trainer(Generic[Net, Batch]):
    """The state of a training: everything in a checkpoint."""

    def __init__(
        self,
        config: TrainConfig,
        task: Task[Net, Batch],
        folder: Path,
        group: Group = ALONE,
        budget: Budget | None = None,
    ) -> None:
        """`budget`: of the command that runs this training; None: the training has its own."""
        self.config, self.task, self.folder, self.group = config, task, folder, group
        self.budget = budget or Budget(config.limit_s)
        self.data = fingerprint_arrays(task.arrays())
        self.net = cast(Net, cast(Any, task.net).to(group.device, memory_format=torch.channels_last))
        self.average = MovingAverage(self.net, config.ema)
        self.objective = group.wrap(
            _Objective(self.net, task), compression=config.compression, equal=config.equal_ranks
        )
        self.optimiser = OPTIMISERS[config.optimiser](self.net, config.learning_rate, config.weight_decay)
        self.activations = Activations(config.activations, task.blocks(), folder)
        # the last gradients' norm, and the parts of the loss
        self.unchecked: tuple[Tensor, dict[str, Tensor]] | None = None
        self.at, self.seconds = 0, 0.0
        self.by_clock = 0.0  # share of the budget's step time that has passed, as measured by the first rank
        self.best = (float("inf"),) * len(task.scores)
        self.best_state = copy.deepcopy(self.average.net.state_dict()) if task.scores else {}
        self.has_joined = False  # whether held-out samples are trained on
        self.rows: list[LogRow] = []
        self.making_s, self.reading_s, self.decoding_s = 0.0, 0.0, 0.0  # of batches
        self.operations = Operations()  # of the first step of this process
        self.window = self._new_window()
        self.captured = self._capturing()

    def fit(
        self,
        *,
        resume: bool = False,
        sink: Sink = lambda event: None,
        check: Callable[[], None] = lambda: None,
    ) -> TrainResult[Net]:
        """Train to the end; write a checkpoint and a log to the folder.

        `sink` receives each row of the log after its checkpoint is written, and the progress in between. `check` is
        called before every step and may raise CancelledError on any rank to stop; the last step is then saved.

        Raises: TrainingError when the loss is not finite, or a checkpoint to resume from does not fit.
        """
        if resume:
            self.load()
        else:
            self._keep_stopped(sink)
        self._begin()
        report = Reporter(sink, self.budget)
        # batches first: their processes must be forked before this process starts threads
        with self.batches() as batches, self.task.prefetching(self.moment(self.at)) as prefetch:
            while not self.is_over:
                prefetch(self.moment(self.at))
                self._check(check)
                if not self.has_joined and self.task.trains_on_all(self.moment(self.at)):
                    self.join_held_out(report)
                self.step(*next(batches))
                if self.at % self.config.eval_every == 0 or self.is_over:
                    row = self.evaluate()
                    self._read_clock()
                    self.save()
                    report.row(row)  # a reader of this row can rely on the checkpoint
                    self._drop_failed_capture(sink)
                else:
                    report.share(self.progress(self.at))
        return self.result()

    def _begin(self) -> None:
        """Start the schedule. Under a time budget, validate first, to measure the machine's speed."""
        if self.config.minutes is not None and self.group.is_first:
            self._timed_validation()
        if not self.at:
            self.budget.begin_steps()
        self._read_clock()

    def _read_clock(self) -> None:
        self.by_clock = self.group.from_first(self.budget.progress())

    def _check(self, check: Callable[[], None]) -> None:
        try:
            self.group.check(check)
        except CancelledError:  # between two steps, so the saved state is consistent
            if self.at:
                self.save()
            raise

    def moment(self, step: int) -> Moment:
        """The state of the run at a step."""
        return Moment(step, self.progress(step), self.config, self.group)

    def progress(self, step: int) -> float:
        """Share of the run completed at a step: by steps or by the clock, whichever is larger."""
        by_step = step / self.config.steps if self.config.steps else 0.0
        return max(by_step, self.by_clock)

    @property
    def is_over(self) -> bool:
        return self.progress(self.at) >= 1.0

    def join_held_out(self, report: Reporter) -> None:
        """Validate the network a last time; from now on held-out samples are trained on, too."""
        if not self.rows or self.rows[-1].step != self.at:
            report.row(self.evaluate())
        self.has_joined = True

    def batches(self) -> contextlib.AbstractContextManager[TimedBatches[Batch]]:
        """This rank's parts of the batches from this step on; the same for the same seed and moments."""
        return prefetching_batches(self.task, self.moment, self.at, n_processes(self.group.device))

    def step(self, made: TimedBatch[Batch], waited: float) -> None:
        """One optimiser step. `waited`: seconds spent waiting for the batch."""
        start, batch = time.perf_counter(), made.batch
        self._add_batch_times(made)
        moment = self.moment(self.at)
        for group in self.optimiser.param_groups:
            group["lr"] = self.config.learning_rate * rate_at(moment.progress, warmup=self.config.warmup)
        self.task.set_mode(self.net)
        inputs = self.task.to_device(batch, moment)
        copied = time.perf_counter() - start
        self._check_numbers()
        loss, parts = self.gradients(inputs, moment)
        self.unchecked = nn.utils.clip_grad_norm_(self.net.parameters(), self.config.clip), parts
        self.optimiser.step()
        self.average.update(self.at)
        self.at += 1
        taken = time.perf_counter() - start
        self.seconds += taken + waited
        self._read_clock()
        self.window.add(
            loss,
            self.config.batch,
            taken=taken,
            waited=waited,
            copied=copied,
            n_bytes=_n_bytes(batch),
            parts=parts,
        )

    def _check_numbers(self) -> None:
        """Raise TrainingError where the last step's gradients were not finite.

        The check is one step late, so that a GPU need not synchronise with the CPU.
        """
        if self.unchecked is None:
            return
        (norm, parts), self.unchecked = self.unchecked, None
        if not torch.isfinite(norm):
            shown = ", ".join(f"{name} {float(part):.3g}" for name, part in parts.items())
            raise TrainingError(
                f"step {self.at - 1}: the loss is not finite ({shown}); lower learning_rate and start again"
            )

    def _add_batch_times(self, made: TimedBatch[Batch]) -> None:
        self.making_s += made.taken_s
        self.reading_s += made.reading_s
        self.decoding_s += made.decoding_s

    def gradients(self, inputs: Any, moment: Moment) -> Losses:
        """The loss of a batch and its gradients; where memory runs out, repeated with fewer saved activations.

        Raises: TrainingError where no fewer can be saved.
        """
        while True:
            self.optimiser.zero_grad(set_to_none=True)
            try:
                if self.captured is not None and self.activations.current == KEEPING:
                    return _copy_losses(self.captured(inputs))
                with self.activations.saving():
                    return self._compute(inputs, moment)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                refused = " ".join(str(error).split())[:200]
            if self.group.ranks > 1 or not self.activations.save_memory():
                raise TrainingError(
                    f"step {self.at}: memory ran out ({refused}); set a smaller batch, or activations=offload"
                )

    def _capturing(self) -> CapturedGradients | None:
        """A recorder of steps, on a single GPU with a task whose steps can be recorded; None elsewhere."""
        if self.group.device.type != "cuda" or self.group.ranks > 1 or not self.task.captures:
            return None
        moment, stream = self.moment(0), cast(Any, torch.cuda.Stream)(self.group.device)
        return CapturedGradients(lambda inputs: self._compute(inputs, moment), list(self.net.parameters()), stream)

    def _drop_failed_capture(self, sink: Sink) -> None:
        if self.captured is not None and self.captured.failure:
            sink(warning(f"steps cannot be recorded on this GPU ({self.captured.failure}); training is slower without"))
            self.captured = None

    def _compute(self, inputs: Any, moment: Moment) -> Losses:
        with contextlib.nullcontext() if self.operations.noted else self.operations:
            loss, parts = self.objective(inputs, moment)
            cast(Any, loss).backward()
        return loss.detach(), parts

    def evaluate(self) -> LogRow:
        """The log's next row, with the scores of the averaged weights; stores these weights when they are the best so
        far.

        Its time does not count as training. Once held-out samples are trained on, nothing is measured and the best
        scores stay.
        """
        scores = self.best if self.has_joined or not self.task.scores else self._validate()
        talking = self.group.communication_s(self.objective) * self.window.steps
        row = self.window.row(
            self.at,
            self.seconds / 60,
            self.budget.share(self.progress(self.at)),
            self.optimiser.param_groups[0]["lr"],
            talking,
            scores=dict(zip(self.task.scores, scores)),
            facts=self.task.facts(self.moment(self.at - 1)),
        )
        self.window = self._new_window()
        self.rows.append(row)
        if self.group.is_first:
            write_log(self.folder, self.rows)
        return row

    def _validate(self) -> tuple[float, ...]:
        scores = self._timed_validation() if self.group.is_first else self.best
        scores = tuple(self.group.from_first(value) for value in scores)
        if scores[0] < self.best[0]:
            self.best = scores
            self.best_state = copy.deepcopy(self.average.net.state_dict())
        return scores

    def _timed_validation(self) -> tuple[float, ...]:
        start = time.perf_counter()
        scores = self.task.validate(self.average.net)
        self.budget.note_validation(time.perf_counter() - start)
        return scores

    def _new_window(self) -> LogWindow:
        if self.group.device.type == "cuda":
            return LogWindow(gpu_clock())
        return LogWindow(threads=torch.get_num_threads())

    def save(self) -> None:
        """Write the checkpoint atomically; only the first rank does. Raises TrainingError."""
        self._check_numbers()
        if not self.group.is_first:
            return
        state = {
            "recipe": self.config.to_yaml(),
            "data": self.data,
            "net": self.net.state_dict(),
            "ema": self.average.net.state_dict(),
            "best_state": self.best_state,
            "optimiser": self.optimiser.state_dict(),
            **{name: getattr(self, name) for name in _NUMBERS},
            "is_over": self.is_over,
            "budget": self.budget.state(),
            "rows": [asdict(row) for row in self.rows],
        }
        write_checkpoint(self.folder / CHECKPOINT, state)

    def _keep_stopped(self, sink: Sink) -> None:
        """Rename the checkpoint of a training that was stopped, so that this one does not write over it."""
        path, state = self.folder / CHECKPOINT, {}
        if self.group.is_first and path.is_file():
            with contextlib.suppress(TrainingError):  # damaged
                state = read_checkpoint(path)
        if not state.get("is_over", True):  # older checkpoints have no such field
            kept = path.with_name(f"checkpoint.{state['at']}.pt")
            path.replace(kept)
            sink(
                warning(
                    f"starts anew; {kept} keeps a training that was stopped (rename it to {CHECKPOINT} and --resume)"
                )
            )

    def load(self) -> None:
        """Resume from the folder's checkpoint; start anew where there is none. Raises TrainingError."""
        path = self.folder / CHECKPOINT
        state = resume_state(path, self.config, self.data)
        if state is not None:
            with loading_state(path):
                self._load_state(state)

    def _load_state(self, state: dict[str, Any]) -> None:
        self.net.load_state_dict(state["net"])
        self.average.net.load_state_dict(state["ema"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.best_state = state.get("best_state", state["ema"])
        for name in _NUMBERS:
            setattr(self, name, state.get(name, getattr(self, name)))
        self.at, self.seconds, self.best = state["at"], state["seconds"], tuple(self.best)
        self.budget.resume(*state.get("budget", (self.seconds, 0.0)))
        # rows of version 0.9 and before are tuples with other columns; the log then begins here
        self.rows = [LogRow(**row) for row in state.get("rows", ()) if isinstance(row, dict)]

    def result(self) -> TrainResult[Net]:
        """The networks in evaluation mode and contiguous memory format, on the CPU."""
        last = _to_cpu(copy.deepcopy(self.average.net))
        validated = last
        if self.task.scores:
            validated = copy.deepcopy(self.average.net)
            validated.load_state_dict(self.best_state)
            validated = _to_cpu(validated)
        net = last if self.has_joined else validated
        reading, decoding = (seconds / max(self.making_s, 1e-9) for seconds in (self.reading_s, self.decoding_s))
        found = make_profile(
            self.rows,
            device="processor" if self.group.device.type == "cpu" else "GPU",
            activations=self.activations.current,
            reading_share=reading,
            decoding_share=decoding,
            memory_bound=memory_bound_share(self.operations.noted, self.group.device),
            remote=remote_share(),
        )
        return TrainResult(net, validated, tuple(self.rows), self.at, self.seconds / 60, found)


_NUMBERS = ("at", "seconds", "best", "has_joined")


class _Objective(nn.Module):
    """A network and its loss as one module, whose forward pass DDP can wrap."""

    def __init__(self, net: nn.Module, task: Task[Any, Any]) -> None:
        super().__init__()
        self.net = net
        self._task = [task]  # in a list, because a task is not a module

    def forward(self, inputs: Any, moment: Moment) -> Losses:
        return self._task[0].loss(self.net, inputs, moment)


def _copy_losses(losses: Losses) -> Losses:
    """Copies of a recorded step's losses, whose memory the next step overwrites."""
    loss, parts = losses
    return loss.clone(), {name: part.clone() for name, part in parts.items()}


def _n_bytes(batch: Any) -> int:
    """Bytes of a batch's arrays; a batch is an array or a tuple of arrays."""
    parts = batch if isinstance(batch, tuple) else (batch,)
    return sum(int(getattr(part, "nbytes", 0)) for part in parts)


def _to_cpu(net: Net) -> Net:
    return cast(Net, cast(Any, net).to("cpu", memory_format=torch.contiguous_format).eval())
