"""A training's time budget, its log, and what limits its speed.

The budget covers the whole command, so loading and the work after the last step count too. Each evaluation adds a line
to `log.csv` and sends a progress event.
"""

from __future__ import annotations

import contextlib
import csv
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import replacing
from rotopaint_ai.jobs import Event, Sink

LEAST_SHARE = 0.1  # share of the command that steps get at least


class Budget:
    """Time limit and time spent, in seconds.

    `limit_s`: for the whole command; None: the number of steps decides. `began`: start time by `now`; None: now.
    """

    def __init__(
        self, limit_s: float | None, *, began: float | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self.limit_s, self._now = limit_s, now
        self._began = now() if began is None else began
        self._steps_began_s, self._tail_s = 0.0, 0.0
        self._validation_s: float | None = None  # duration of a validation when the tail was reserved
        self._slowness = 1.0  # how much slower the machine has become since then
        self._share = 0.0  # last reported share of the command

    def spent_s(self) -> float:
        """Seconds since the command began, including those before a resume."""
        return self._now() - self._began

    @property
    def tail_s(self) -> float:
        """Seconds reserved for the work after the last step, at the speed of the latest validation."""
        return self._tail_s * self._slowness

    def reserve(self, seconds: float) -> None:
        """Reserve seconds for the work after the last step, at the speed of the next validation."""
        self._tail_s, self._validation_s, self._slowness = seconds, None, 1.0

    def note_validation(self, seconds: float) -> None:
        """Record the duration of a validation: a busier machine needs a longer tail."""
        if self._validation_s is None:
            self._validation_s = seconds
        self._slowness = seconds / max(self._validation_s, 1e-9)

    def begin_steps(self) -> None:
        """Record that the steps begin now; earlier time is not part of their schedule."""
        self._steps_began_s = self.spent_s()

    def state(self) -> tuple[float, float]:
        """The state for a checkpoint: seconds spent, and seconds spent before the first step."""
        return self.spent_s(), self._steps_began_s

    def resume(self, spent_s: float, steps_began_s: float) -> None:
        """Continue from a saved `state`."""
        self._began -= spent_s
        self._steps_began_s = steps_began_s

    def left_s(self) -> float:
        """Seconds until the time limit; 0 if it has passed or there is none."""
        return 0.0 if self.limit_s is None else max(0.0, self.limit_s - self.spent_s())

    def progress(self) -> float:
        """Share of the step time that is over; 0 without a time limit. Steps get at least LEAST_SHARE of the
        command."""
        if self.limit_s is None:
            return 0.0
        steps_s = max(self.limit_s - self.tail_s - self._steps_began_s, LEAST_SHARE * self.limit_s)
        return (self.spent_s() - self._steps_began_s) / steps_s

    def share(self, progress: float) -> float:
        """Share of the whole command that is over, given the share of its steps; it never decreases."""
        spent = self.spent_s()
        if progress > 0 and spent > 0:
            remaining = (spent - self._steps_began_s) * (1 / min(1.0, progress) - 1) + self.tail_s
            self._share = max(self._share, spent / (spent + remaining))
        return self._share

    def to_go_s(self, share: float) -> float | None:
        """Seconds until the command ends, at the speed so far, also that before a resume, when a share of it is over.

        None at its beginning. Without a time limit the work after the last step is left out.
        """
        return round(self.spent_s() * (1 / min(1.0, share) - 1), 1) if share > 0 else None

    def facts(self, progress: float) -> dict[str, Any]:
        """What a progress event says of the command, given the share of its steps that is over."""
        share = round(min(1.0, self.share(progress)), 4)
        return {"stage": "train", "share": share, "eta_s": self.to_go_s(share)}


LOG = "log.csv"


@dataclass(frozen=True, slots=True)
class LogRow:
    """One line of the log, written at an evaluation: means since the previous one.

    `scores`: the task's metrics on validation samples; once those are trained on too, the best earlier ones. `facts`:
    other values from the task. `parts`: terms of the loss.
    """

    step: int
    minutes: float
    progress: float
    loss: float
    images_per_s: float
    learning_rate: float
    waiting_share: float = 0.0  # share of the time spent waiting for batches
    copying_share: float = 0.0  # share of the time spent copying batches to the device
    talking_share: float = 0.0  # share of the time spent on gradients of other ranks
    busy_share: float = 0.0  # processor share of the threads' time, or GPU utilisation; 0 if unknown
    copied_gb_per_s: float = 0.0  # from host to device
    scores: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)

    def content(self) -> dict[str, float]:
        """All values by name, in column order."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _TABLES}
        head = {name: own.pop(name) for name in ("step", "minutes")}
        del own["progress"]
        loss = own.pop("loss")
        parts = {f"loss_{name}": value for name, value in self.parts.items()}
        return {**head, **self.facts, "loss": loss, **self.scores, **own, **parts}

    def event_facts(self) -> dict[str, Any]:
        """What a progress event says of the line; loss terms are included only if there are no scores."""
        row = replace(self, parts={}) if self.scores else self
        facts = {name: round(v, 4) if isinstance(v, float) else v for name, v in row.content().items()}
        return {"stage": "train", "share": round(min(1.0, self.progress), 4), **facts}


_TABLES = ("scores", "facts", "parts")


class Reporter:
    """Sends log lines as progress events, and the finished share of `budget` every few seconds in between."""

    def __init__(self, sink: Sink, budget: Budget, every_s: float = 5.0) -> None:
        self._sink, self._budget, self._every_s, self._last_s = sink, budget, every_s, time.monotonic()
        self._scores: Mapping[str, float] = {}

    def row(self, row: LogRow) -> None:
        """Send a line of the log."""
        self._scores = {name: round(value, 4) for name, value in row.scores.items()}
        facts = row.event_facts()
        self._send({**facts, "eta_s": self._budget.to_go_s(facts["share"])})

    def share(self, progress: float) -> None:
        """Send the share, given that of the steps, with the latest scores, unless something was sent recently."""
        if time.monotonic() - self._last_s >= self._every_s:
            self._send({**self._budget.facts(progress), **self._scores})

    def _send(self, facts: dict[str, Any]) -> None:
        self._last_s = time.monotonic()
        self._sink(Event("progress", facts))


class LogWindow:
    """Sums since the last evaluation. `busy_s`: seconds of computation on the device, summed over its `threads`."""

    def __init__(self, busy_s: Callable[[], float] = time.process_time, threads: int = 1) -> None:
        self._busy_s, self._threads, self._began = busy_s, threads, (time.perf_counter(), busy_s())
        self.copied_bytes, self.steps = 0, 0
        # The loss and its parts, summed where they are computed: a GPU is not waited for at each step. One tensor, not
        # one for each step: small blocks left between large ones keep a process's heap from being used again.
        self.sums: Tensor | None = None
        self.names: tuple[str, ...] = ()
        self.images, self.computing, self.waiting, self.copying = 0, 0.0, 0.0, 0.0

    def add(
        self,
        loss: Tensor,
        images: int,
        *,
        taken: float,
        waited: float,
        copied: float,
        n_bytes: int = 0,
        parts: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Add one step: images, seconds of computing (copying included) and of waiting, and bytes copied.

        Raises: TrainingError where the parts of the loss are not those of the steps before.
        """
        self.copied_bytes += n_bytes
        self._busy_s()  # a GPU reports only its recent utilisation
        parts = parts or {}
        self.names = self.names if self.steps else tuple(parts)
        if parts.keys() != set(self.names):
            got, wanted = (", ".join(names) or "none" for names in (parts, self.names))
            raise TrainingError(
                f"parts of the loss are {got}, at the step before {wanted}; wanted the same at all steps"
            )
        values = torch.stack([loss, *(parts[name] for name in self.names)]).detach().double()
        self.sums = values if self.sums is None else self.sums.add_(values)
        self.steps += 1
        self.images += images
        self.computing += taken
        self.waiting += waited
        self.copying += copied

    def row(self, step: int, minutes: float, progress: float, rate: float, talking: float, **tables: Any) -> LogRow:
        """The log line; `talking` in seconds, `tables`: its scores and facts."""
        total = max(self.computing + self.waiting, 1e-9)
        loss, *parts = [0.0] if self.sums is None else (self.sums / self.steps).tolist()
        return LogRow(
            step,
            minutes,
            progress,
            loss,
            self.images / total,
            rate,
            waiting_share=self.waiting / total,
            copying_share=self.copying / total,
            talking_share=min(1.0, talking / total),
            busy_share=self._busy_share(),
            copied_gb_per_s=self.copied_bytes / 1e9 / self.copying if self.copying > 0 else 0.0,
            parts=dict(zip(self.names, parts)),
            **tables,
        )

    def _busy_share(self) -> float:
        clock, busy = time.perf_counter() - self._began[0], self._busy_s() - self._began[1]
        return min(1.0, busy / max(clock * self._threads, 1e-9))


def write_log(folder: Path, rows: Sequence[LogRow]) -> None:
    """Write the whole log into a training's folder, atomically."""
    lines = [row.content() for row in rows]
    with replacing(folder / LOG) as beside, beside.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(lines[-1])
        writer.writerows(
            [f"{value:.6g}" if isinstance(value, float) else value for value in line.values()] for line in lines
        )


KEEPING = "keep"  # the activation mode without extra cost


@dataclass(frozen=True, slots=True)
class Profile:
    """Shares of a training's time, averaged over its log, and what limits its speed.

    `busy`: processor share of the threads' time, or GPU utilisation. `copied_gb_per_s`: host-to-device speed of
    batches.
    `memory_bound`: share of the computation limited by memory bandwidth, from a roofline. `remote`: share of its memory
    on NUMA nodes other than its cores'. None where unknown.
    """

    bound_by: str
    waiting: float
    copying: float
    talking: float
    computing: float
    busy: float | None
    copied_gb_per_s: float
    memory_bound: float | None
    remote: float | None
    device: str
    activations: str

    def content(self) -> dict[str, Any]:
        """The profile as JSON values."""
        return {key: round(v, 4) if isinstance(v, float) else v for key, v in asdict(self).items()}

    def line(self) -> str:
        """The profile in one line: what limits the speed, and the shares."""
        of_it = "" if self.memory_bound is None else f" ({self.memory_bound:.0%} of it memory bandwidth)"
        text = (
            f"bound by {self.bound_by}: {self.computing:.1%} computing{of_it}, {self.waiting:.1%} waiting for batches, "
        )
        text += f"{self.copying:.1%} copying at {self.copied_gb_per_s:.2f} GB/s, {self.talking:.1%} gradients"
        if self.busy is not None:
            text += f"; {self.device} busy {self.busy:.0%}"
        elif self.device != "processor":
            text += f"; how busy {self.device} was is unknown (nvidia-ml-py is missing, or its driver does not answer)"
        return text if self.remote is None else f"{text}; {self.remote:.0%} of memory on other NUMA nodes"


def make_profile(
    rows: Sequence[LogRow],
    *,
    device: str,
    activations: str,
    reading_share: float,
    decoding_share: float = 0.0,
    memory_bound: float | None = None,
    remote: float | None = None,
) -> Profile | None:
    """The profile of a run, from its log lines weighted by duration; None if there are none.

    `reading_share`, `decoding_share`: shares of batch-making time spent reading and decoding pictures. `activations`:
    the last mode. `memory_bound`: see `Profile`.
    """
    if not rows:
        return None
    weights = np.diff([0.0, *(row.minutes for row in rows)]).clip(min=1e-9)

    def mean(name: str) -> float:
        return float(np.average([getattr(row, name) for row in rows], weights=weights))

    waiting, copying, talking = (mean(f"{name}_share") for name in ("waiting", "copying", "talking"))
    computing = max(0.0, 1 - waiting - copying - talking)
    shares = {
        _waiting_name(reading_share, decoding_share): waiting,
        "copying": copying,
        "gradients": talking,
        _computing_name(activations, memory_bound): computing,
    }
    busy = mean("busy_share")
    return Profile(
        bound_by=max(shares, key=lambda name: shares[name]),
        waiting=waiting,
        copying=copying,
        talking=talking,
        computing=computing,
        busy=busy if busy > 0 else None,
        copied_gb_per_s=mean("copied_gb_per_s"),
        memory_bound=memory_bound,
        remote=remote,
        device=device,
        activations=activations,
    )


def _waiting_name(reading_share: float, decoding_share: float) -> str:
    if reading_share + decoding_share <= 0.5:
        return "augmentation"
    return "the disk" if reading_share > decoding_share else "decoding pictures"


def _computing_name(activations: str, memory_bound: float | None) -> str:
    if activations != KEEPING:
        return f"memory (activations: {activations})"
    return "memory bandwidth" if memory_bound is not None and memory_bound > 0.5 else "arithmetic"


_ASK_S = 1.0  # shortest interval for one NVML utilisation reading


def gpu_clock() -> Callable[[], float]:
    """A clock of the seconds that the GPU has computed since now, from the driver's utilisation.

    The driver is asked at most every _ASK_S, because a query takes as long as a step. The clock stands still if the
    driver reports nothing.
    """
    last, busy = time.perf_counter(), 0.0

    def look() -> float:
        nonlocal last, busy
        now = time.perf_counter()
        if now - last < _ASK_S:
            return busy
        with contextlib.suppress(Exception):  # without NVML, or with a driver that does not support it
            busy += (now - last) * torch.cuda.utilization() / 100
        last = now
        return busy

    return look
