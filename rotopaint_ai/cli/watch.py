"""How a command tells what goes on: JSON lines for machines, a bar for a person, terse lines for a log."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO

from rotopaint_ai.errors import in_one_line
from rotopaint_ai.frames import n_frames
from rotopaint_ai.jobs import Cancel, Event, Sink

TERSE_INTERVAL_S = 10.0


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
        self._stream = stream
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
            return _progress_text(facts)
        return None


class Bar:
    """A progress bar with the time to go, for a person at a terminal."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("[cyan]{task.fields[eta]}"),
            console=Console(file=stream),
            transient=True,
        )
        self._task = self._progress.add_task("frames", total=None, rate="", eta="")

    def __call__(self, event: Event) -> None:
        """Show the event."""
        facts = event.facts
        if event.kind == "started":
            self._progress.start()
            self._progress.update(
                self._task,
                total=facts.get("total", 100),
                completed=facts.get("done", 0),
                description=in_one_line(_shot_of(facts) + str(facts.get("name", facts.get("stage")))),
            )
            self._print_line(_started_text(facts), "dim")
        elif event.kind == "note":
            self._print_line(f"{_shot_of(facts)}{facts['message']}", "dim")
        elif event.kind in ("warning", "error"):
            text = f"{event.kind}: {_shot_of(facts)}{facts['message']}"
            self._print_line(text, "yellow" if event.kind == "warning" else "red")
        elif "share" in facts:
            self._progress.update(self._task, completed=100 * facts["share"], rate=_progress_text(facts))
        elif event.kind == "progress":
            rate = f"{facts['ms_per_frame']:.0f} ms/frame" if "ms_per_frame" in facts else ""
            eta = f"{clock_text(facts['eta_s'])} to go"
            self._progress.update(
                self._task,
                total=facts["total"],
                completed=facts["done"],
                description=facts.get("task"),
                rate=rate,
                eta=eta,
            )
        else:
            self._close(event)

    def _print_line(self, text: str, style: str) -> None:
        self._progress.console.print(in_one_line(text), style=style, markup=False, highlight=False)

    def _close(self, event: Event) -> None:
        if event.kind in ("finished", "cancelled"):
            self._progress.stop()


def _shot_of(facts: Any) -> str:
    """Which of a show's shots an event is about."""
    return f"{facts['shot']}: " if "shot" in facts else ""


def _started_text(facts: Any) -> str:
    if "stage" in facts:  # a training
        return (
            f"{facts['stage']}: {facts['samples']} samples, {facts['held_out']} held out, starts from {facts['init']}"
        )
    done = f", {facts['done']} done before" if facts["done"] else ""
    line = f"{_shot_of(facts)}{facts['name']}: {n_frames(facts['total'])}{done}"
    return f"{line}, pack {facts['pack']}, {facts['device']}" if "pack" in facts else line


def _progress_text(facts: Any) -> str:
    if "share" in facts:
        facts_text = ", ".join(f"{name} {value}" for name, value in facts.items() if name not in ("stage", "share"))
        return f"{facts['stage']}: {facts['share']:.0%}, {facts_text}"
    what = f"{facts['task']}: " if "task" in facts else ""
    things = "" if facts.get("task") == "exports" else " frames"
    return f"{what}{facts['done']} of {facts['total']}{things}, {clock_text(facts['eta_s'])} to go"


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
