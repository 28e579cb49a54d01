"""How a command tells what goes on: JSON lines for machines, a bar for a person, terse lines for a log."""

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
_LATE_S = 2.0  # after which more than a moment is left
_SHOWS_TIME, _SHOWS_AFTER_S = 0.05, 2.0  # share of the work, and time, after which the rest can be estimated


class JsonLines:
    """Every event as one line of JSON; when the reader has gone, the work is asked to stop."""

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
    """Warnings, errors and now and then a line of progress, for logs and farms."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._clock = stream, ClockOfShares()
        self._last = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Write the event when it is worth a line."""
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
            return _progress_text(facts, self._clock.left_s(facts["share"]) if "share" in facts else None)
        return None


class Bar:
    """A line with a bar and the time to go, which is counted down between events, for a person at a terminal."""

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
            self._show(facts["stage"], share, f"{share:.0%}", self._clock.left_s(share), note=_note_text(facts))
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
        """Take the line away."""
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
    """The time to go as text, as it is whenever somebody looks."""

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
    """Tells from the share of some work that is over how long the rest takes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._start = clock, clock()

    def left_s(self, share: float) -> float | None:
        """Seconds; None while too little is over to tell."""
        passed = self._clock() - self._start
        return passed * (1 - share) / share if share >= _SHOWS_TIME and passed >= _SHOWS_AFTER_S else None


Progress = Callable[[str, int, int], None]  # stage, parts of it that are done, and all of them


def silent(stage: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


def work_in_order(
    work: Callable[[_Item], _Result],
    items: Sequence[_Item],
    stage: str,
    progress: Progress,
    workers: futures.Executor | None = None,
) -> Iterator[_Result]:
    """What `work` makes of each item, in their order; by those workers, without any here, one after the other."""
    progress(stage, 0, len(items))
    results = map(work, items) if workers is None else workers.map(work, items)
    for done, result in enumerate(results, start=1):
        progress(stage, done, len(items))
        yield result


def work_on_each(
    work: Callable[[_Item], _Result],
    items: Sequence[_Item],
    stage: str,
    progress: Progress,
    workers: futures.Executor | None = None,
) -> list[_Result]:
    """What `work` makes of each item, by those workers; without any on every core: arrays are worked on outside
    Python's lock."""
    progress(stage, 0, len(items))
    with futures.ThreadPoolExecutor(n_cores()) if workers is None else nullcontext(workers) as pool:
        waiting = [pool.submit(work, item) for item in items]
        try:
            for done, _ in enumerate(futures.as_completed(waiting), start=1):
                progress(stage, done, len(items))
            return [each.result() for each in waiting]
        finally:  # whoever is stopped waits for no more than what is under way
            for each in waiting:
                each.cancel()


class StagedProgress:
    """Progress of stages in turn as events, which tell the share of the whole that is over.

    `check` is called beforehand and may raise, to stop.
    """

    def __init__(self, shares: Mapping[str, float], sink: Sink, check: Callable[[], None] = lambda: None) -> None:
        self._shares, self._sink, self._check = shares, sink, check

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Tell that `done` of `total` parts of a stage are done."""
        self._check()
        stages = list(self._shares)
        before = sum(self._shares[name] for name in stages[: stages.index(stage)])
        share = (before + self._shares[stage] * done / max(total, 1)) / sum(self._shares.values())
        self._sink(Event("progress", {"stage": stage, "share": round(share, 4)}))


def _shot_of(facts: Mapping[str, Any]) -> str:
    """Which of a show's shots an event is about."""
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
    """What a training's progress means to a person; all that was measured is for `--events` and the log."""
    if "held_out_px" in facts:
        return f"{facts['held_out_px']:.2f} px off on held-out samples"
    return str(facts.get("doing", ""))


def to_go_text(seconds: float | None) -> str:
    """The time to go as a person reads it."""
    return f"{clock_text(seconds)} to go"


def clock_text(seconds: float | None) -> str:
    """Seconds as a person reads them: 1:05, or 2:00:00; a question mark where nobody knows."""
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
def telling(*, events: bool, cancel: Cancel) -> Iterator[Sink]:
    """The sink of `choose_sink`; a bar is taken away at the end, also where the work fails."""
    sink = choose_sink(events=events, cancel=cancel)
    try:
        yield sink
    finally:
        if isinstance(sink, Bar):
            sink.close()


@contextmanager
def watched(*, events: bool, hint: str = RESUMES) -> Iterator[tuple[Sink, Cancel]]:
    """Who is told of some work, and what asks it to stop: Ctrl-C and SIGTERM do, and the bar goes at the end.

    `hint` says how a person goes on after that.
    """
    cancel = Cancel(hint)
    with stopping_on_signals(cancel), telling(events=events, cancel=cancel) as sink:
        yield sink, cancel


@contextmanager
def stopping_on_signals(cancel: Cancel) -> Iterator[None]:
    """Turn Ctrl-C and a farm's SIGTERM into a clean stop; the second Ctrl-C stops at once."""

    def ask(number: int, frame: FrameType | None) -> None:
        if (
            cancel.requested and number == signal.SIGINT
        ):  # SIGTERM may follow Ctrl-C: from who started us, who got it too
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
    """SIGTERM is what Ctrl-C is: it raises KeyboardInterrupt where the work is, and files beside others go."""

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
