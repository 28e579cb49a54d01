"""A training's time and its log: what it may take, one line at every evaluation, and which ceiling binds.

Time is by the clock of the whole command: loading and what follows the last step count too. Lines go to `log.csv` and
to progress events.
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

from rotopaint_ai.files import replacing
from rotopaint_ai.jobs import Event, Sink

LEAST_SHARE = 0.1  # of the command, for steps


class Budget:
    """Seconds given and spent.

    `limit_s`: of the whole command; None: it ends by steps. `began`: when it did, by `now`; None: just now.
    """

    def __init__(
        self, limit_s: float | None, *, began: float | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self.limit_s, self._now = limit_s, now
        self._began = now() if began is None else began
        self._steps_began_s, self._tail_s = 0.0, 0.0
        self._validation_s: float | None = None  # that the tail was reserved at
        self._slowness = 1.0  # of the machine since
        self._share = 0.0  # of the command that was reported to be over

    def spent_s(self) -> float:
        """Seconds since the command began; of a training that was resumed, those of its earlier lives too."""
        return self._now() - self._began

    @property
    def tail_s(self) -> float:
        """Seconds kept for what follows the last step, at the speed of the latest validation."""
        return self._tail_s * self._slowness

    def reserve(self, seconds: float) -> None:
        """Keep so many seconds, at the speed of the next validation, for what follows the last step."""
        self._tail_s, self._validation_s, self._slowness = seconds, None, 1.0

    def note_validation(self, seconds: float) -> None:
        """Take note of how long a validation took: a machine that has become busy needs a longer tail as well."""
        if self._validation_s is None:
            self._validation_s = seconds
        self._slowness = seconds / max(self._validation_s, 1e-9)

    def begin_steps(self) -> None:
        """Note that steps are about to begin; what was spent so far is no part of their schedule."""
        self._steps_began_s = self.spent_s()

    def state(self) -> tuple[float, float]:
        """What a checkpoint keeps: seconds spent, and spent before the first step."""
        return self.spent_s(), self._steps_began_s

    def resume(self, spent_s: float, steps_began_s: float) -> None:
        """Continue from the `state` that an earlier process has saved."""
        self._began -= spent_s
        self._steps_began_s = steps_began_s

    def left_s(self) -> float:
        """Seconds until the command is to end; 0 where it should have, or ends by steps."""
        return 0.0 if self.limit_s is None else max(0.0, self.limit_s - self.spent_s())

    def progress(self) -> float:
        """Share of the time for steps that is over; 0 where steps alone count. Steps get some time in any case."""
        if self.limit_s is None:
            return 0.0
        steps_s = max(self.limit_s - self.tail_s - self._steps_began_s, LEAST_SHARE * self.limit_s)
        return (self.spent_s() - self._steps_began_s) / steps_s

    def share(self, progress: float) -> float:
        """Share of the whole command that is over when this share of its steps is; it never falls."""
        spent = self.spent_s()
        if progress > 0 and spent > 0:
            to_come = (spent - self._steps_began_s) * (1 / min(1.0, progress) - 1) + self.tail_s
            self._share = max(self._share, spent / (spent + to_come))
        return self._share


LOG = "log.csv"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the log: at an evaluation, means since the last one.

    `scores` are the task's own figures of held-out samples; once those are trained on as well, they stand at the best
    that was measured before. `facts` are what else the task says of its steps, `parts` those of the loss.
    """

    step: int
    minutes: float
    progress: float
    loss: float
    images_per_s: float
    learning_rate: float
    waiting_share: float = 0.0  # of the time, for batches
    copying_share: float = 0.0  # of the time, from batch to network
    talking_share: float = 0.0  # of the time, for other ranks' gradients
    busy_share: float = 0.0  # of the threads' time the processor's, or of the time the GPU's; 0 where nobody can tell
    copied_gb_per_s: float = 0.0  # from batch to network
    scores: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)

    def content(self) -> dict[str, float]:
        """All of it by name, in the order of the log's columns."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _TABLES}
        head = {name: own.pop(name) for name in ("step", "minutes")}
        del own["progress"]
        loss = own.pop("loss")
        parts = {f"loss_{name}": value for name, value in self.parts.items()}
        return {**head, **self.facts, "loss": loss, **self.scores, **own, **parts}

    def event(self) -> Event:
        """The line as a progress event; the loss's parts where there are no scores to tell how it goes."""
        row = replace(self, parts={}) if self.scores else self
        facts = {name: round(v, 4) if isinstance(v, float) else v for name, v in row.content().items()}
        return Event("progress", {"stage": "train", "share": round(min(1.0, self.progress), 4), **facts})


_TABLES = ("scores", "facts", "parts")


class Reporter:
    """Sends the log's lines as progress events, and between them every few seconds the share that is over."""

    def __init__(self, sink: Sink, every_s: float = 5.0) -> None:
        self._sink, self._every_s, self._last_s = sink, every_s, time.monotonic()
        self._scores: Mapping[str, float] = {}

    def row(self, row: Row) -> None:
        """Send a line of the log."""
        self._scores = {name: round(value, 4) for name, value in row.scores.items()}
        self._send(row.event())

    def share(self, share: Callable[[], float]) -> None:
        """Send the share with the scores of the last line, where nothing was sent for a while."""
        if time.monotonic() - self._last_s >= self._every_s:
            facts = {"stage": "train", "share": round(min(1.0, share()), 4), **self._scores}
            self._send(Event("progress", facts))

    def _send(self, event: Event) -> None:
        self._last_s = time.monotonic()
        self._sink(event)


class LogWindow:
    """Sums since the last evaluation. `busy_s`: seconds of computation of the device, summed over its `threads`."""

    def __init__(self, busy_s: Callable[[], float] = time.process_time, threads: int = 1) -> None:
        self._busy_s, self._threads, self._began = busy_s, threads, (time.perf_counter(), busy_s())
        self.copied_bytes = 0
        self.losses: list[Tensor] = []  # values stay where they were computed: a GPU is not waited for at each step
        self.parts: list[Mapping[str, Tensor]] = []
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
        """One step: how many images, seconds of computing (copying among them) and of waiting, and bytes copied."""
        self.copied_bytes += n_bytes
        self._busy_s()  # a GPU tells only of the time just gone
        self.losses.append(loss)
        self.parts.append(parts or {})
        self.images += images
        self.computing += taken
        self.waiting += waited
        self.copying += copied

    def row(self, step: int, minutes: float, progress: float, rate: float, talking: float, **tables: Any) -> Row:
        """The line of the log; `talking` in seconds, `tables` its scores and facts."""
        total = max(self.computing + self.waiting, 1e-9)
        names = self.parts[0] if self.parts else ()
        return Row(
            step,
            minutes,
            progress,
            _mean(self.losses),
            self.images / total,
            rate,
            waiting_share=self.waiting / total,
            copying_share=self.copying / total,
            talking_share=min(1.0, talking / total),
            busy_share=self._busy_share(),
            copied_gb_per_s=self.copied_bytes / 1e9 / self.copying if self.copying > 0 else 0.0,
            parts={name: _mean([parts[name] for parts in self.parts]) for name in names},
            **tables,
        )

    def _busy_share(self) -> float:
        clock, busy = time.perf_counter() - self._began[0], self._busy_s() - self._began[1]
        return min(1.0, busy / max(clock * self._threads, 1e-9))


def _mean(values: Sequence[Tensor]) -> float:
    return float(torch.stack(list(values)).double().mean()) if values else 0.0


def write_log(folder: Path, rows: Sequence[Row]) -> None:
    """Write the whole log into a training's folder, beside and renamed."""
    lines = [row.content() for row in rows]
    with replacing(folder / LOG) as beside, beside.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(lines[-1])
        writer.writerows(
            [f"{value:.6g}" if isinstance(value, float) else value for value in line.values()] for line in lines
        )


KEEPING = "keep"  # the way to keep activations that costs nothing


@dataclass(frozen=True, slots=True)
class Profile:
    """Shares of a training's time, weighed over its log, and what binds it.

    `busy` is the share of its threads' time that the processor gave it, or of its time that the GPU computed;
    `copied_gb_per_s` what a batch is copied at on its way to the network; `memory_bound` the part of the computing that
    the device's bandwidth to its memory binds, by its roofline; `remote` the share of its memory that lies on
    other NUMA nodes than its cores. None where nobody can tell.
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
        """The profile in one line, which shows what limits the speed."""
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


def profile(
    rows: Sequence[Row],
    *,
    device: str,
    activations: str,
    reading_share: float,
    decoding_share: float = 0.0,
    memory_bound: float | None = None,
    remote: float | None = None,
) -> Profile | None:
    """The profile of a run by its log, each line weighed by its minutes; None where there is none.

    `reading_share`, `decoding_share`: of the time in which batches are made, what went into bringing pictures' bytes to
    memory, and into decoding them. `activations`: how they were kept at last. `memory_bound`: see `Profile`.
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


_ASK_S = 1.0  # over which NVML's figure is a mean, at the least


def gpu_clock() -> Callable[[], float]:
    """A clock of the seconds that the GPU has computed since now, as the driver says of the time just gone; it is asked
    at most every _ASK_S, as an answer takes as long as a step. Stands still where the driver says nothing."""
    last, busy = time.perf_counter(), 0.0

    def look() -> float:
        nonlocal last, busy
        now = time.perf_counter()
        if now - last < _ASK_S:
            return busy
        with contextlib.suppress(Exception):  # without NVML, or a driver that is not asked
            busy += (now - last) * torch.cuda.utilization() / 100
        last = now
        return busy

    return look
