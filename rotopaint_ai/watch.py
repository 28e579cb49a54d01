"""Showing the progress of a command: JSON lines for programs, a bar for a person, short lines for a log."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any, TextIO, TypeVar

from rotopaint_ai.errors import in_one_line
from rotopaint_ai.frames import n_frames
from rotopaint_ai.jobs import RESUMES, Cancel, Event, Sink, n_cores

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

TERSE_INTERVAL_S = 10.0
_LATE_S = 2.0  # seconds after which a remaining time is shown
# Share of the work, and seconds, after which the remaining time can be estimated.
_SHOWS_TIME, _SHOWS_AFTER_S = 0.05, 2.0


class JsonLines:
    """Writes every event as one line of JSON; where the reader has closed the stream, the work is stopped."""

    def __init__(self, stream: TextIO, cancel: Cancel) -> None:
        self._stream = stream
        self._cancel = cancel
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """Write the event."""
        with self._lock:
            try:
                self._stream.write(event.line() + "\n")
                self._stream.flush()
            except (BrokenPipeError, ValueError):
                self._cancel.request()


class TerseLines:
    """Writes warnings, errors and an occasional line of progress, for logs and farms."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._clock = stream, ClockOfShares()
        self._last = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Write the event where it is important enough for a line."""
        text = self._line_of(event)
        if text is not None:
            print(in_one_line(text), file=self._stream, flush=True)

    def _line_of(self, event: Event) -> str | None:
        facts = event.facts
        if event.kind == "started":
            return _started_text(facts)
        if event.kind == "note":
            return f"{_shot_of(facts)}{facts['message']}"
        if event.kind in ("warning", "error"):
            return f"{event.kind}: {_shot_of(facts)}{facts['message']}"
        if event.kind == "progress" and time.monotonic() - self._last >= TERSE_INTERVAL_S:
            self._last = time.monotonic()
            return _progress_text(facts, self._clock.left_s_of(facts) if "share" in facts else None)
        return None


class Bar:
    """A progress bar for a terminal; its remaining time counts down between events."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._clock = ClockOfShares()
        self._progress = Progress(
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[count]}"),
            TextColumn("{task.fields[note]}", markup=False),
            TextColumn("[cyan]{task.fields[eta]}"),
            console=Console(file=stream),
            transient=True,
        )
        self._task = self._progress.add_task("", total=None, count="", note="", eta=Countdown(None))

    def __call__(self, event: Event) -> None:
        """Show the event."""
        facts = event.facts
        if event.kind == "started":
            self._show(_shot_of(facts) + str(facts.get("name", facts.get("stage"))), 0.0, "", None)
            self._print_line(_started_text(facts), "dim")
        elif event.kind == "note":
            self._print_line(f"{_shot_of(facts)}{facts['message']}", "dim")
        elif event.kind in ("warning", "error"):
            text = f"{event.kind}: {_shot_of(facts)}{facts['message']}"
            self._print_line(text, "yellow" if event.kind == "warning" else "red")
        elif "share" in facts:
            share = float(facts["share"])
            self._show(facts["stage"], share, f"{share:.0%}", self._clock.left_s_of(facts), note=_note_text(facts))
        elif "done" in facts and event.kind == "progress":
            count = f"{facts['done']}/{facts['total']}"
            note = f"{facts['ms_per_frame']:.0f} ms/frame" if "ms_per_frame" in facts else ""
            share = facts["done"] / max(1, facts["total"])
            task = facts.get("task")
            self._show(task and _shot_of(facts) + task, share, count, facts["eta_s"], note=note)
        elif event.kind == "progress":
            self._show(facts["task"], None, "", facts["eta_s"])
        elif event.kind in ("finished", "cancelled"):
            self.close()

    def close(self) -> None:
        """Remove the bar from the terminal."""
        self._progress.stop()

    def _show(self, what: str | None, share: float | None, count: str, eta_s: float | None, note: str = "") -> None:
        self._progress.update(
            self._task,
            total=None if share is None else 1.0,
            completed=share or 0.0,
            description=None if what is None else in_one_line(what),
            count=count,
            note=note,
            eta=Countdown(eta_s),
        )
        self._progress.start()

    def _print_line(self, text: str, style: str) -> None:
        self._progress.console.print(in_one_line(text), style=style, markup=False, highlight=False)


class Countdown:
    """The remaining time as text, computed each time it is shown."""

    def __init__(self, eta_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._eta_s, self._clock, self._since = eta_s, clock, clock()

    def __str__(self) -> str:
        if not self._eta_s:
            return ""
        left_s = self._eta_s - (self._clock() - self._since)
        return to_go_text(max(0.0, left_s)) if left_s > -_LATE_S else "longer than usual"

    def __format__(self, spec: str) -> str:
        return str(self)


class ClockOfShares:
    """Estimates the remaining time from the finished share of the work, where the work does not tell it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._start = clock, clock()

    def left_s(self, share: float) -> float | None:
        """Remaining seconds; None while too little is finished for an estimate."""
        passed = self._clock() - self._start
        return passed * (1 - share) / share if share >= _SHOWS_TIME and passed >= _SHOWS_AFTER_S else None

    def left_s_of(self, facts: Mapping[str, Any]) -> float | None:
        """Remaining seconds of a progress event: its own `eta_s`, which knows of work before a resume, or estimated."""
        told = facts.get("eta_s")
        return self.left_s(float(facts["share"])) if told is None else float(told)


StageProgress = Callable[[str, int, int], None]  # stage, number of finished parts, number of all parts


def ignore_progress(stage: str, done: int, total: int) -> None:
    """A progress function that does nothing."""


def work_in_order(
    work: Callable[[_Item], _Result],
    items: Sequence[_Item],
    stage: str,
    progress: StageProgress,
    workers: futures.Executor | None = None,
) -> Iterator[_Result]:
    """The results of `work` for each item, in order, computed by `workers`, or one by one here without them."""
    progress(stage, 0, len(items))
    results = map(work, items) if workers is None else workers.map(work, items)
    for done, result in enumerate(results, start=1):
        progress(stage, done, len(items))
        yield result


def work_on_each(
    work: Callable[[_Item], _Result],
    items: Sequence[_Item],
    stage: str,
    progress: StageProgress,
    workers: futures.Executor | None = None,
) -> list[_Result]:
    """The results of `work` for each item, in order, computed by `workers`, or by a thread per core without them.

    Threads run in parallel, because numpy releases Python's global lock.
    """
    progress(stage, 0, len(items))
    with futures.ThreadPoolExecutor(n_cores()) if workers is None else nullcontext(workers) as pool:
        waiting = [pool.submit(work, item) for item in items]
        try:
            for done, _ in enumerate(futures.as_completed(waiting), start=1):
                progress(stage, done, len(items))
            return [each.result() for each in waiting]
        finally:  # on a stop, wait only for the items in progress
            for each in waiting:
                each.cancel()


class StagedProgress:
    """Sends progress events for consecutive stages, with the finished share of the whole.

    `check` is called before each event and may raise to stop.
    """

    def __init__(self, shares: Mapping[str, float], sink: Sink, check: Callable[[], None] = lambda: None) -> None:
        self._shares, self._sink, self._check = shares, sink, check

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report that `done` of `total` parts of a stage are finished."""
        self._check()
        stages = list(self._shares)
        before = sum(self._shares[name] for name in stages[: stages.index(stage)])
        share = (before + self._shares[stage] * done / max(total, 1)) / sum(self._shares.values())
        self._sink(Event("progress", {"stage": stage, "share": round(share, 4)}))


def _shot_of(facts: Mapping[str, Any]) -> str:
    """The prefix with the shot's name, for an event of a show."""
    return f"{facts['shot']}: " if "shot" in facts else ""


def _started_text(facts: Mapping[str, Any]) -> str:
    if "stage" in facts:  # a training
        return (
            f"{facts['stage']}: {facts['samples']} samples, {facts['held_out']} held out, starts from {facts['init']}"
        )
    done = f", {facts['done']} done before" if facts["done"] else ""
    line = f"{_shot_of(facts)}{facts['name']}: {n_frames(facts['total'])}{done}"
    return f"{line}, pack {facts['pack']}, {facts['device']}" if "pack" in facts else line


def _progress_text(facts: Mapping[str, Any], left_s: float | None = None) -> str:
    if "share" in facts:
        parts = [f"{facts['share']:.0%}", _note_text(facts), "" if left_s is None else to_go_text(left_s)]
        return f"{facts['stage']}: {', '.join(part for part in parts if part)}"
    what = f"{facts['task']}: " if "task" in facts else ""
    if "done" not in facts:
        return f"{what}{to_go_text(facts['eta_s'])}"
    things = "" if facts.get("task") == "exports" else " frames"
    return f"{what}{facts['done']} of {facts['total']}{things}, {to_go_text(facts['eta_s'])}"


def _note_text(facts: Mapping[str, Any]) -> str:
    """A training's progress for a person. The other figures are only in `--events` and the log."""
    if "held_out_px" in facts:
        return f"{facts['held_out_px']:.2f} px off on held-out samples"
    return str(facts.get("doing", ""))


def to_go_text(seconds: float | None) -> str:
    """The remaining time as text for a person."""
    return f"{clock_text(seconds)} to go"


def clock_text(seconds: float | None) -> str:
    """Seconds as text for a person: 1:05, or 2:00:00; a question mark where they are unknown."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def choose_sink(*, events: bool, cancel: Cancel) -> Sink:
    """JSON lines on stdout when asked for; otherwise a bar on a terminal, terse lines elsewhere, both on stderr."""
    if events:
        return JsonLines(sys.stdout, cancel)
    return Bar(sys.stderr) if sys.stderr.isatty() else TerseLines(sys.stderr)


@contextmanager
def open_sink(*, events: bool, cancel: Cancel) -> Iterator[Sink]:
    """The sink of `choose_sink`; a bar is removed at the end, also where the work fails."""
    sink = choose_sink(events=events, cancel=cancel)
    try:
        yield sink
    finally:
        if isinstance(sink, Bar):
            sink.close()


@contextmanager
def watch_work(*, events: bool, hint: str = RESUMES) -> Iterator[tuple[Sink, Cancel]]:
    """The sink and the cancel flag of some work. Ctrl-C and SIGTERM set the flag; the bar is removed at the end.

    `hint` tells a person how to continue after a stop.
    """
    cancel = Cancel(hint)
    with stopping_on_signals(cancel), open_sink(events=events, cancel=cancel) as sink:
        yield sink, cancel


@contextmanager
def stopping_on_signals(cancel: Cancel) -> Iterator[None]:
    """Turn Ctrl-C and a farm's SIGTERM into a clean stop; the second Ctrl-C stops at once."""

    def ask(number: int, frame: FrameType | None) -> None:
        # SIGTERM may follow Ctrl-C: the parent process got Ctrl-C too and sends it.
        if cancel.is_requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        cancel.request()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C: it raises KeyboardInterrupt in the work, so that temporary files are removed."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
