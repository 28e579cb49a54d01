"""The model process of `process`: opens and runs models, one thread for each lane, until the parent closes a lane."""

from __future__ import annotations

import base64
import contextlib
import itertools
import mmap
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.inference import call_limits, onnx_session
from rotopaint_ai.inference.messages import SHARED_BYTES, Array, Lane, Message

Answer = tuple[Mapping[str, Any], Mapping[str, Array]]


class _Models:
    """The open models, by number."""

    def __init__(self) -> None:
        self._open: dict[int, onnx_session.ModelSession] = {}
        self._numbers = itertools.count()

    def answer(self, request: Message) -> Message:
        """The reply to one request; an error becomes a reply, too."""
        for number in request.facts.get("drop", ()):
            self._open.pop(number, None)
        try:
            return Message(*getattr(self, f"_{request.facts['do']}")(request))
        except Exception as error:  # onnxruntime's exceptions share no base class
            kind = type(error).__name__ if isinstance(error, RotopaintError) else ""
            return Message({"error": str(error), "kind": kind}, {})

    def _sign(self, request: Message) -> Answer:
        return onnx_session.signature_facts(onnx_session.load_signature(Path(request.facts["path"]))), {}

    def _open_model(self, request: Message) -> Answer:
        opened = onnx_session.open_session(
            Path(request.facts["path"]), **request.facts["options"], example=request.arrays
        )
        number = next(self._numbers)
        self._open[number] = opened
        about = {"name": opened.path.name, "device": opened.device, "provider": opened.provider, "note": opened.note}
        return {"number": number, **about, "signature": onnx_session.signature_facts(opened.signature)}, {}

    def _run(self, request: Message) -> Answer:
        names = request.facts["outputs"]
        return {}, dict(zip(names, self._open[request.facts["number"]].run_once(names, request.arrays)))

    def _measure(self, request: Message) -> Answer:
        used = {"peak_memory_mb": call_limits.own_peak_memory_mb(), "processor_s": time.process_time()}
        return {**used, "models": len(self._open)}, {}


def _never() -> None:
    """The `wait` of a lane without a timeout."""


def _serve(lane: Lane, models: _Models) -> None:
    """Answer the requests of one lane. When the lane closes, end the process, whatever its other threads compute."""
    try:
        while True:
            lane.send(models.answer(lane.receive()))
    finally:
        os._exit(0)


def main(handles: Sequence[str]) -> None:
    """Serve the lanes with these handles; does not return."""
    _bound_memory()
    models, lanes = _Models(), [_lane(handle) for handle in handles]
    for lane in lanes[1:]:
        threading.Thread(target=_serve, args=(lane, models), daemon=True).start()
    _serve(lanes[0], models)


def _lane(handle: str) -> Lane:
    """The lane of a handle, `socket:memory`. On Windows the handle is `memory`, and the socket comes through stdin."""
    if sys.platform == "win32":
        channel = socket.fromshare(base64.b64decode(sys.stdin.readline()))
        return Lane(channel, mmap.mmap(-1, SHARED_BYTES, handle), _never)
    channel, memory = (int(number) for number in handle.split(":"))
    shared = mmap.mmap(memory, SHARED_BYTES)
    os.close(memory)
    return Lane(socket.socket(fileno=channel), shared, _never)


def _bound_memory() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if not onnx_session.installed_devices(onnx_session.AUTO_ORDER):  # a GPU driver maps more memory than it uses
            resource.setrlimit(resource.RLIMIT_DATA, (call_limits.MOST_BYTES, call_limits.MOST_BYTES))


if __name__ == "__main__":
    main(sys.argv[1:])
