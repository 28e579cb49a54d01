"""The process in which models of strangers are opened and run: one beside this one, for all of them.

onnxruntime works some of a graph out while it opens it, cannot be stopped inside a node, and a file that is made for it
may end its process. There, a call that takes too long is ended with the process, and the caller gets an error. Models
that were open in it are lost then; a model that is opened later gets a new process.

A frame's landmarks cost 0.6 ms of processor time more there (2 cores, 786 kB a crop). Packs that ship with the product
are trusted as its code is, and run here.
"""

from __future__ import annotations

import atexit
import base64
import importlib.util
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import uuid
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import LifoQueue
from typing import Any

import rotopaint_ai
from rotopaint_ai import errors
from rotopaint_ai.errors import InferenceError, RotopaintError
from rotopaint_ai.inference import limits, session
from rotopaint_ai.inference.messages import ROOM_BYTES, Array, Lane, Message, make_room
from rotopaint_ai.inference.session import ModelSession, Signature, signature_from

_HOME = Path(rotopaint_ai.__file__).parents[1]  # -m imports from where it starts


class _EndedError(Exception):
    """The process has gone; the text says why."""


class _Patience:
    """Raises when one call has taken too long, by ticks of this process: one that was held up starts no alarm."""

    def __init__(self) -> None:
        self._left_s = limits.LIMIT_S

    def tick(self) -> None:
        self._left_s -= limits.TICK_S
        if self._left_s <= 0:
            raise _EndedError(
                f"it has not answered for {limits.LIMIT_S:.0f} s; its graph may never end, use another pack"
            )


class _ModelProcess:
    """A process of `serve` and the lanes to it, each of which carries one call at a time."""

    def __init__(self) -> None:
        self._process, lanes = _start(min(64, 2 + (os.cpu_count() or 1)))
        self._owner = os.getpid()
        self.why_ended = ""
        self.forgotten: deque[int] = deque()  # models that are no longer used, which the next call closes
        self._free: LifoQueue[Lane] = LifoQueue()
        for lane in reversed(lanes):  # the last in is the first out
            self._free.put(lane)
        weakref.finalize(self, _close_all, lanes)  # at exit, too

    @property
    def is_ours(self) -> bool:
        """Whether the process runs and was started by this one; a forked process starts its own."""
        return not self.why_ended and self._owner == os.getpid()

    def call(self, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> Message:
        """The other side's answer. Raises _EndedError, and whatever it answers is wrong."""
        if self._owner != os.getpid():  # two who talk through one lane would hear each other's answers
            raise _EndedError("it was opened by the process that this one was forked from; open it again here")
        lane = self._free.get()
        try:
            found = self._exchange(lane, Message({**facts, "drop": self._dropped()}, arrays))
            found = Message(found.facts, {name: array.copy() for name, array in found.arrays.items()})
        finally:
            self._free.put(lane)
        if "error" in found.facts:
            raise _error_of(found.facts)
        return found

    def _exchange(self, lane: Lane, message: Message) -> Message:
        lane.wait = _Patience().tick
        try:
            lane.send(message)
            return lane.receive()
        except (OSError, EOFError):
            self.end(self.why_ended or self._end_words())
            raise _EndedError(self.why_ended) from None
        except ValueError as error:
            self.end(f"the process that ran it spoke nonsense: {error}")
            raise _EndedError(self.why_ended) from None
        except BaseException as error:  # in the middle of a message no lane can be used again
            self.end(str(error) or "it was stopped")
            raise

    def _dropped(self) -> list[int]:
        return [self.forgotten.popleft() for _ in range(len(self.forgotten))]

    def _end_words(self) -> str:
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:
            return "the process that ran it answers no more"
        return end_words(code)

    def end(self, why: str) -> None:
        """End the process; calls under way hear why."""
        self.why_ended = self.why_ended or why
        self._process.kill()
        self._process.wait()


def end_words(code: int) -> str:
    """How a process ended, in words."""
    if code < 0 and -code in set(signal.Signals):
        return f"the process that ran it ended by {signal.Signals(-code).name}"
    return f"the process that ran it ended with {code}"


def _start(n_lanes: int) -> tuple[subprocess.Popen[bytes], list[Lane]]:
    """Start the process, from where nothing but the product is imported, and hand it its ends of the lanes."""
    pairs = [socket.socketpair() for _ in range(n_lanes)]
    try:
        process, rooms = _begin([theirs for _, theirs in pairs])
    except OSError as error:
        raise InferenceError(f"no process could be started for the models ({error}); close other programs") from error
    for ours, theirs in pairs:
        ours.settimeout(limits.TICK_S)
        theirs.close()
    return process, [Lane(ours, room, _Patience().tick) for (ours, _), room in zip(pairs, rooms)]


def _words(handles: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "rotopaint_ai.inference.serve", *handles]


_Started = tuple[subprocess.Popen[bytes], list[mmap.mmap]]

if sys.platform == "win32":  # where only names and copies made for the other process are handed over; never run

    def _begin(ends: Sequence[socket.socket]) -> _Started:
        names, nothing = [f"rotopaint-{uuid.uuid4().hex}" for _ in ends], subprocess.DEVNULL
        rooms = [mmap.mmap(-1, ROOM_BYTES, name) for name in names]
        flags, pipe = subprocess.CREATE_NO_WINDOW, subprocess.PIPE
        process = subprocess.Popen(
            _words(names), stdin=pipe, stdout=nothing, stderr=nothing, cwd=_HOME, creationflags=flags
        )
        assert process.stdin is not None
        with process.stdin as handed:
            handed.writelines(base64.b64encode(end.share(process.pid)) + b"\n" for end in ends)
        return process, rooms

else:

    def _begin(ends: Sequence[socket.socket]) -> _Started:
        memory, nothing = [make_room() for _ in ends], subprocess.DEVNULL
        handles = [end.fileno() for end in ends]
        words = _words([f"{channel}:{room}" for channel, room in zip(handles, memory)])
        process = subprocess.Popen(
            words,
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            cwd=_HOME,
            pass_fds=[*handles, *memory],
            process_group=0,  # the parent process handles Ctrl-C
        )
        rooms = [mmap.mmap(room, ROOM_BYTES) for room in memory]
        for room in memory:
            os.close(room)
        return process, rooms


def _close_all(lanes: Sequence[Lane]) -> None:
    for lane in lanes:
        lane.close()


def _error_of(facts: Mapping[str, Any]) -> Exception:
    kind = getattr(errors, facts["kind"], None) if facts["kind"] else None
    text = str(facts["error"])
    return kind(text) if isinstance(kind, type) and issubclass(kind, RotopaintError) else RuntimeError(text)


_lock = threading.Lock()
_started: list[_ModelProcess] = []  # the last one is in use; one before it belongs to the process that forked this one


def _living_process() -> _ModelProcess:
    with _lock:
        if not _started or not _started[-1].is_ours:
            _started[:] = [each for each in _started if not each.why_ended]
            _started.append(_ModelProcess())
        return _started[-1]


@atexit.register
def end_process() -> None:
    """End this process's models, wherever they are open."""
    for each in _started:
        if each.is_ours:
            each.end("it was closed")


def usage() -> Mapping[str, float]:
    """`peak_memory_mb` and `processor_s` of the process that runs the models, and how many `models` are open in it."""
    if _started and _started[-1].is_ours:
        with suppress(_EndedError):
            return _started[-1].call({"do": "measure"}, {}).facts
    return {"peak_memory_mb": 0.0, "processor_s": 0.0, "models": 0}


def shipped_places() -> list[Path]:
    """The folders of this product's packs."""
    spec = importlib.util.find_spec("rotopaint_models")
    installed = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    checkout = Path(__file__).resolve().parents[2] / "models" / "rotopaint_models"
    return [place for place in (*installed, checkout) if place.is_dir()]


def _is_shipped(path: Path) -> bool:
    """Whether a model came with the product, as its code did."""
    return path.parent.parent in shipped_places()


def read_signature(path: Path) -> Signature:
    """Names, types and shapes of a model's inputs and outputs. Raises PackError when the file is not a model."""
    if _is_shipped(path):
        return session.load_signature(path)
    return signature_from(_asked(_living_process(), path, {"do": "sign"}, {}).facts)


def open_model(
    path: Path,
    *,
    device: str = "auto",
    threads: int = 0,
    spinning: bool = False,
    example: Mapping[str, Array],
) -> ModelSession:
    """As `session.open_session`, in the process of models where others made it. Raises as that does."""
    if _is_shipped(path):
        return session.open_session(path, device=device, threads=threads, spinning=spinning, example=example)
    process = _living_process()
    options = {"device": device, "threads": threads, "spinning": spinning}
    facts = _asked(process, path, {"do": "open_model", "options": options}, example).facts
    remote = _RemoteModel(process, facts["number"])
    about = (facts["device"], facts["provider"], facts["note"])
    return ModelSession(path.with_name(facts["name"]), *about, signature_from(facts["signature"]), remote.run)


def _asked(process: _ModelProcess, path: Path, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> Message:
    try:
        return process.call({**facts, "path": str(path.absolute())}, arrays)
    except (_EndedError, RuntimeError) as error:
        raise InferenceError(f"{path}: could not be opened ({error}); export the pack again, or use another") from error


class _RemoteModel:
    """A model that is open in the other process as long as this object exists."""

    def __init__(self, process: _ModelProcess, number: int) -> None:
        self._process, self._number = process, number
        weakref.finalize(self, process.forgotten.append, number).atexit = False

    def run(self, outputs: Sequence[str], inputs: Mapping[str, Array]) -> list[Array]:
        """Outputs of those names. Raises what the other side says, or why it has gone."""
        found = self._process.call({"do": "run", "number": self._number, "outputs": list(outputs)}, inputs)
        return [found.arrays[name] for name in outputs]
