"""The child process that opens and runs untrusted models; all of them share one.

onnxruntime runs parts of a graph already while it opens the file, cannot be stopped inside a node, and may crash on a
crafted file. When a call takes too long, the child process is killed and the caller gets an error. The models open in
it are lost; the next model opened starts a new process.

This costs 0.6 ms of processor time more per frame for the landmarks (2 cores, 786 kB a crop). Packs that ship with the
product are as trusted as its code, and run in this process.
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
from rotopaint_ai.inference import call_limits, onnx_session
from rotopaint_ai.inference.messages import SHARED_BYTES, Array, Lane, Message, make_shared_memory
from rotopaint_ai.inference.onnx_session import ModelSession, Signature, signature_from

# working directory of the child process, from which `-m` imports the package
_HOME = Path(rotopaint_ai.__file__).parents[1]


class _EndedError(Exception):
    """The model process has ended; the text tells why."""


class _Timeout:
    """Time limit of one call. It counts ticks of this process, so a suspended process raises no false alarm."""

    def __init__(self) -> None:
        self._left_s = call_limits.LIMIT_S

    def tick(self) -> None:
        self._left_s -= call_limits.TICK_S
        if self._left_s <= 0:
            raise _EndedError(
                f"it has not answered for {call_limits.LIMIT_S:.0f} s; its graph may never end, use another pack"
            )


class _ModelProcess:
    """A process that runs `serve`, and its lanes. Each lane carries one call at a time."""

    def __init__(self) -> None:
        self._process, lanes = _start(min(64, 2 + (os.cpu_count() or 1)))
        self._owner = os.getpid()
        self.why_ended = ""
        self.forgotten: deque[int] = deque()  # models that are no longer used; the next call closes them
        self._free: LifoQueue[Lane] = LifoQueue()
        for lane in reversed(lanes):  # the queue is last in, first out
            self._free.put(lane)
        weakref.finalize(self, _close_all, lanes)  # also at exit

    @property
    def is_ours(self) -> bool:
        """Whether the model process runs and is a child of this process; a forked process must start its own."""
        return not self.why_ended and self._owner == os.getpid()

    def call(self, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> Message:
        """The answer to one call. Raises _EndedError, and the error that the answer reports."""
        if self._owner != os.getpid():  # after a fork, two processes on one lane would read each other's answers
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
        lane.wait = _Timeout().tick
        try:
            lane.send(message)
            return lane.receive()
        except (OSError, EOFError):
            self.end(self.why_ended or self._exit_reason())
            raise _EndedError(self.why_ended) from None
        except ValueError as error:
            self.end(f"the process that ran it sent an invalid message: {error}")
            raise _EndedError(self.why_ended) from None
        except BaseException as error:  # a lane is unusable after an incomplete message
            self.end(str(error) or "it was stopped")
            raise

    def _dropped(self) -> list[int]:
        return [self.forgotten.popleft() for _ in range(len(self.forgotten))]

    def _exit_reason(self) -> str:
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:
            return "the process that ran it no longer replies"
        return exit_reason(code)

    def end(self, why: str) -> None:
        """Kill the process; pending calls raise _EndedError with this text."""
        self.why_ended = self.why_ended or why
        self._process.kill()
        self._process.wait()


def exit_reason(code: int) -> str:
    """How a process ended, in words."""
    if code < 0 and -code in set(signal.Signals):
        return f"the process that ran it ended by {signal.Signals(-code).name}"
    return f"the process that ran it ended with {code}"


def _start(n_lanes: int) -> tuple[subprocess.Popen[bytes], list[Lane]]:
    """Start the process with only the product on its import path, and pass it its ends of the lanes."""
    pairs = [socket.socketpair() for _ in range(n_lanes)]
    try:
        process, memories = _spawn([theirs for _, theirs in pairs])
    except OSError as error:
        raise InferenceError(f"no process could be started for the models ({error}); close other programs") from error
    for ours, theirs in pairs:
        ours.settimeout(call_limits.TICK_S)
        theirs.close()
    return process, [Lane(ours, memory, _Timeout().tick) for (ours, _), memory in zip(pairs, memories)]


def _command_line(handles: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "rotopaint_ai.inference.serve", *handles]


_Started = tuple[subprocess.Popen[bytes], list[mmap.mmap]]

if sys.platform == "win32":  # Windows passes memory by name and sockets as copies for the other process; untested

    def _spawn(ends: Sequence[socket.socket]) -> _Started:
        names, nothing = [f"rotopaint-{uuid.uuid4().hex}" for _ in ends], subprocess.DEVNULL
        memories = [mmap.mmap(-1, SHARED_BYTES, name) for name in names]
        flags, pipe = subprocess.CREATE_NO_WINDOW, subprocess.PIPE
        process = subprocess.Popen(
            _command_line(names), stdin=pipe, stdout=nothing, stderr=nothing, cwd=_HOME, creationflags=flags
        )
        assert process.stdin is not None
        with process.stdin as handed:
            handed.writelines(base64.b64encode(end.share(process.pid)) + b"\n" for end in ends)
        return process, memories

else:

    def _spawn(ends: Sequence[socket.socket]) -> _Started:
        handles, nothing = [make_shared_memory() for _ in ends], subprocess.DEVNULL
        sockets = [end.fileno() for end in ends]
        words = _command_line([f"{channel}:{memory}" for channel, memory in zip(sockets, handles)])
        process = subprocess.Popen(
            words,
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            cwd=_HOME,
            pass_fds=[*sockets, *handles],
            process_group=0,  # Ctrl-C reaches only the parent process
        )
        memories = [mmap.mmap(handle, SHARED_BYTES) for handle in handles]
        for handle in handles:
            os.close(handle)
        return process, memories


def _close_all(lanes: Sequence[Lane]) -> None:
    for lane in lanes:
        lane.close()


def _error_of(facts: Mapping[str, Any]) -> Exception:
    kind = getattr(errors, facts["kind"], None) if facts["kind"] else None
    text = str(facts["error"])
    return kind(text) if isinstance(kind, type) and issubclass(kind, RotopaintError) else RuntimeError(text)


_lock = threading.Lock()
_started: list[_ModelProcess] = []  # the last is in use; an earlier one belongs to the process that forked this one


def _running_process() -> _ModelProcess:
    with _lock:
        if not _started or not _started[-1].is_ours:
            _started[:] = [each for each in _started if not each.why_ended]
            _started.append(_ModelProcess())
        return _started[-1]


@atexit.register
def end_process() -> None:
    """Kill this process's model process."""
    for each in _started:
        if each.is_ours:
            each.end("it was closed")


def usage() -> Mapping[str, float]:
    """`peak_memory_mb` and `processor_s` of the model process, and the number of open `models`."""
    if _started and _started[-1].is_ours:
        with suppress(_EndedError):
            return _started[-1].call({"do": "measure"}, {}).facts
    return {"peak_memory_mb": 0.0, "processor_s": 0.0, "models": 0}


def shipped_places() -> list[Path]:
    """The folders of the shipped packs."""
    spec = importlib.util.find_spec("rotopaint_models")
    installed = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    checkout = Path(__file__).resolve().parents[2] / "models" / "rotopaint_models"
    return [place for place in (*installed, checkout) if place.is_dir()]


def _is_shipped(path: Path) -> bool:
    """Whether a model is part of the product."""
    return path.parent.parent in shipped_places()


def read_signature(path: Path) -> Signature:
    """Names, types and shapes of a model's inputs and outputs. Raises PackError when the file is not a model."""
    if _is_shipped(path):
        return onnx_session.load_signature(path)
    return signature_from(_call_on(_running_process(), path, {"do": "sign"}, {}).facts)


def open_model(
    path: Path,
    *,
    device: str = "auto",
    threads: int = 0,
    spinning: bool = False,
    example: Mapping[str, Array],
) -> ModelSession:
    """As `onnx_session.open_session`, but in the model process unless the model is shipped. Raises the same errors."""
    if _is_shipped(path):
        return onnx_session.open_session(path, device=device, threads=threads, spinning=spinning, example=example)
    process = _running_process()
    options = {"device": device, "threads": threads, "spinning": spinning}
    facts = _call_on(process, path, {"do": "open_model", "options": options}, example).facts
    remote = _RemoteModel(process, facts["number"])
    about = (facts["device"], facts["provider"], facts["note"])
    return ModelSession(path.with_name(facts["name"]), *about, signature_from(facts["signature"]), remote.run)


def _call_on(process: _ModelProcess, path: Path, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> Message:
    try:
        return process.call({**facts, "path": str(path.absolute())}, arrays)
    except (_EndedError, RuntimeError) as error:
        raise InferenceError(f"{path}: could not be opened ({error}); export the pack again, or use another") from error


class _RemoteModel:
    """A model open in the model process, for the lifetime of this object."""

    def __init__(self, process: _ModelProcess, number: int) -> None:
        self._process, self._number = process, number
        weakref.finalize(self, process.forgotten.append, number).atexit = False

    def run(self, outputs: Sequence[str], inputs: Mapping[str, Array]) -> list[Array]:
        """The named outputs. Raises the other process's error, or _EndedError."""
        found = self._process.call({"do": "run", "number": self._number, "outputs": list(outputs)}, inputs)
        return [found.arrays[name] for name in outputs]
