"""What the process of `process` does: open models and run them, a thread for each lane, until the other side goes."""

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
from rotopaint_ai.inference import limits, session
from rotopaint_ai.inference.messages import ROOM_BYTES, Array, Lane, Message

Answer = tuple[Mapping[str, Any], Mapping[str, Array]]


class _Models:
    """The models that are open, by number."""

    def __init__(self) -> None:
        self._open: dict[int, session.ModelSession] = {}
        self._numbers = itertools.count()

    def answer(self, asked: Message) -> Message:
        """What to send back; what went wrong is an answer, too."""
        for number in asked.facts.get("drop", ()):
            self._open.pop(number, None)
        try:
            return Message(*getattr(self, f"_{asked.facts['do']}")(asked))
        except Exception as error:  # onnxruntime's exceptions have no common root of their own
            kind = type(error).__name__ if isinstance(error, RotopaintError) else ""
            return Message({"error": str(error), "kind": kind}, {})

    def _sign(self, asked: Message) -> Answer:
        return session.signature_facts(session.load_signature(Path(asked.facts["path"]))), {}

    def _open_model(self, asked: Message) -> Answer:
        opened = session.open_session(Path(asked.facts["path"]), **asked.facts["options"], example=asked.arrays)
        number = next(self._numbers)
        self._open[number] = opened
        about = {"name": opened.path.name, "device": opened.device, "provider": opened.provider, "note": opened.note}
        return {"number": number, **about, "signature": session.signature_facts(opened.signature)}, {}

    def _run(self, asked: Message) -> Answer:
        names = asked.facts["outputs"]
        return {}, dict(zip(names, self._open[asked.facts["number"]].run_once(names, asked.arrays)))

    def _measure(self, asked: Message) -> Answer:
        used = {"peak_memory_mb": limits.own_peak_memory_mb(), "processor_s": time.process_time()}
        return {**used, "models": len(self._open)}, {}


def _never() -> None:
    """A lane without a timeout."""


def _serve(lane: Lane, models: _Models) -> None:
    """Answer what comes on a lane. Where it ends, so does the process, whatever its other threads compute."""
    try:
        while True:
            lane.send(models.answer(lane.receive()))
    finally:
        os._exit(0)


def main(handles: Sequence[str]) -> None:
    """Serve the lanes of those handles; does not return."""
    _bound_memory()
    models, lanes = _Models(), [_lane(handle) for handle in handles]
    for lane in lanes[1:]:
        threading.Thread(target=_serve, args=(lane, models), daemon=True).start()
    _serve(lanes[0], models)


def _lane(handle: str) -> Lane:
    """The lane of a handle, which is `socket:memory`; on Windows `memory` alone, and the socket comes by the input."""
    if sys.platform == "win32":
        channel = socket.fromshare(base64.b64decode(sys.stdin.readline()))
        return Lane(channel, mmap.mmap(-1, ROOM_BYTES, handle), _never)
    channel, memory = (int(number) for number in handle.split(":"))
    room = mmap.mmap(memory, ROOM_BYTES)
    os.close(memory)
    return Lane(socket.socket(fileno=channel), room, _never)


def _bound_memory() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if not session.installed_devices(session.AUTO_ORDER):  # a GPU's driver maps more than it uses
            resource.setrlimit(resource.RLIMIT_DATA, (limits.MOST_BYTES, limits.MOST_BYTES))


if __name__ == "__main__":
    main(sys.argv[1:])
