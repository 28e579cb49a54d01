"""What this process and the one that runs models say to each other: facts as JSON, and arrays of float32.

Arrays lie in memory that both see: through a socket a crop costs 6 % of the landmark model's time, there 1 %. What does
not fit into it goes through the socket. Nothing that arrives is code: the other side holds models of strangers.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import socket
import struct
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

ROOM_BYTES = 16 << 20  # size of a lane; pages that are never written take no memory
_MOST_BYTES = 8 << 30  # largest array, so that a fault in the other process cannot request more
_MOST_FACTS = 1 << 24
_LENGTH = struct.Struct("<Q")


class Message(NamedTuple):
    """Facts, and arrays by name."""

    facts: Mapping[str, Any]
    arrays: Mapping[str, Array]


class Lane:
    """One end of a socket with shared memory for arrays; it carries one message at a time."""

    def __init__(self, channel: socket.socket, room: mmap.mmap, wait: Callable[[], None]) -> None:
        """`wait` is called whenever the channel's timeout passes, and may raise."""
        self._channel, self._room, self.wait = channel, room, wait

    def send(self, message: Message) -> None:
        """Write one message. Raises OSError, and what `wait` raises."""
        arrays = {name: np.asarray(array, np.float32) for name, array in message.arrays.items()}
        is_here = sum(array.nbytes for array in arrays.values()) <= len(self._room)
        shapes = [[name, array.shape] for name, array in arrays.items()]
        head = json.dumps([message.facts, shapes, is_here]).encode()
        at = 0
        for array in arrays.values() if is_here else ():
            self._seen(array.shape, at)[...] = array
            at += array.nbytes
        self._write(memoryview(_LENGTH.pack(len(head)) + head))
        for array in () if is_here else arrays.values():
            self._write(_bytes_of(np.ascontiguousarray(array)))

    def receive(self) -> Message:
        """Read one message; its arrays may be views of the lane's memory, valid until the next message is sent.

        Raises OSError, EOFError where the other process has ended, ValueError for an invalid message, and as `wait`.
        """
        (length,) = _LENGTH.unpack(self._read(memoryview(bytearray(_LENGTH.size))))
        if length > _MOST_FACTS:
            raise ValueError(f"a message of {length} bytes")
        head = bytes(self._read(memoryview(bytearray(length))))
        try:
            facts, shapes, is_here = json.loads(head)
            arrays = self._laid_out(shapes, is_here)
        except (ArithmeticError, TypeError) as error:
            raise ValueError(f"a message of another form ({error})") from error
        for array in () if is_here else arrays.values():
            self._read(_bytes_of(array))
        return Message(facts, arrays)

    def _laid_out(self, shapes: Any, is_here: bool) -> dict[str, Array]:
        """Arrays in the memory of the lane, or room for what comes through the socket."""
        arrays, at = {}, 0
        for name, shape in shapes:
            arrays[name] = self._seen(shape, at) if is_here else _empty(shape)
            at += arrays[name].nbytes
        return arrays

    def close(self) -> None:
        """Close the socket; the memory is freed with the last array in it."""
        self._channel.close()

    def _seen(self, shape: Any, at: int) -> Array:
        return np.frombuffer(self._room, np.float32, math.prod(shape), at).reshape(shape)

    def _write(self, data: memoryview) -> None:
        at = 0
        while at < len(data):
            try:
                at += self._channel.send(data[at:])
            except TimeoutError:
                self.wait()

    def _read(self, room: memoryview) -> memoryview:
        at = 0
        while at < len(room):
            try:
                n_read = self._channel.recv_into(room[at:])
            except TimeoutError:
                self.wait()
                continue
            if not n_read:
                raise EOFError("the other side has gone")
            at += n_read
        return room


def make_room() -> int:
    """A file of memory that two processes can map; its handle, for this process to close. Not on Windows."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("rotopaint")
    else:
        with tempfile.TemporaryFile() as stream:
            handle = os.dup(stream.fileno())
    os.truncate(handle, ROOM_BYTES)
    return handle


def _empty(shape: list[int]) -> Array:
    if 4 * math.prod(shape) > _MOST_BYTES:
        raise ValueError(f"an array of {shape}")
    return np.empty(shape, np.float32)


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
