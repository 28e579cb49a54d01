"""The log of a training: one line at every evaluation, in `log.csv` and as progress events."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from rotopaint_ai.files import replacing
from rotopaint_ai.jobs import Event

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


class LogWindow:
    """Sums since the last evaluation. `busy_s` tells the seconds that a device has computed, all its threads' together,
    and `threads` how many it has."""

    def __init__(self, busy_s: Callable[[], float] = time.process_time, threads: int = 1) -> None:
        self._busy_s, self._threads, self._began = busy_s, threads, (time.perf_counter(), busy_s())
        self.copied_bytes = 0
        self.losses: list[float] = []
        self.parts: list[Mapping[str, float]] = []
        self.images, self.computing, self.waiting, self.copying = 0, 0.0, 0.0, 0.0

    def add(
        self,
        loss: float,
        images: int,
        *,
        taken: float,
        waited: float,
        copied: float,
        n_bytes: int = 0,
        parts: Mapping[str, float] | None = None,
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
            float(np.mean(self.losses)) if self.losses else 0.0,
            self.images / total,
            rate,
            waiting_share=self.waiting / total,
            copying_share=self.copying / total,
            talking_share=min(1.0, talking / total),
            busy_share=self._busy_share(),
            copied_gb_per_s=self.copied_bytes / 1e9 / self.copying if self.copying > 0 else 0.0,
            parts={name: float(np.mean([parts[name] for parts in self.parts])) for name in names},
            **tables,
        )

    def _busy_share(self) -> float:
        clock, busy = time.perf_counter() - self._began[0], self._busy_s() - self._began[1]
        return min(1.0, busy / max(clock * self._threads, 1e-9))


def write_log(path: Path, rows: Sequence[Row]) -> None:
    """Write the whole log, beside and renamed."""
    lines = [row.content() for row in rows]
    with replacing(path) as beside, beside.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(lines[-1])
        writer.writerows(
            [f"{value:.6g}" if isinstance(value, float) else value for value in line.values()] for line in lines
        )
