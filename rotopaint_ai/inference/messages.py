"""Messages between this process and the model process: JSON facts and float32 arrays.

Arrays travel in shared memory: sending a crop takes 1 % of the landmark model's time there, through a socket 6 %.
Arrays that do not fit go through the socket. A message never contains code, because the other process runs untrusted
models.
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

SHARED_BYTES = 16 << 20  # shared memory of one lane; the system allocates pages only when they are written
_MOST_BYTES = 8 << 30  # largest array accepted, so that a faulty process cannot request more
_MOST_FACTS = 1 << 24
_LENGTH = struct.Struct("<Q")


class Message(NamedTuple):
    """Facts, and arrays by name."""

    facts: Mapping[str, Any]
    arrays: Mapping[str, Array]


class Lane:
    """One end of a socket with shared memory for arrays. It carries one message at a time."""

    def __init__(self, channel: socket.socket, shared: mmap.mmap, wait: Callable[[], None]) -> None:
        """`wait` is called at each timeout of the socket, and may raise."""
        self._channel, self._shared, self.wait = channel, shared, wait

    def send(self, message: Message) -> None:
        """Write one message. Raises OSError, and what `wait` raises."""
        arrays = {name: np.asarray(array, np.float32) for name, array in message.arrays.items()}
        is_shared = sum(array.nbytes for array in arrays.values()) <= len(self._shared)
        shapes = [[name, array.shape] for name, array in arrays.items()]
        head = json.dumps([message.facts, shapes, is_shared]).encode()
        at = 0
        for array in arrays.values() if is_shared else ():
            self._view(array.shape, at)[...] = array
            at += array.nbytes
        self._write(memoryview(_LENGTH.pack(len(head)) + head))
        for array in () if is_shared else arrays.values():
            self._write(_bytes_of(np.ascontiguousarray(array)))

    def receive(self) -> Message:
        """Read one message. Its arrays may be views of the shared memory, valid until the next message is sent.

        Raises OSError, EOFError where the other process has ended, ValueError for an invalid message, and what `wait`
        raises.
        """
        (length,) = _LENGTH.unpack(self._read(memoryview(bytearray(_LENGTH.size))))
        if length > _MOST_FACTS:
            raise ValueError(f"a message of {length} bytes")
        head = bytes(self._read(memoryview(bytearray(length))))
        try:
            facts, shapes, is_shared = json.loads(head)
            arrays = self._allocate(shapes, is_shared)
        except (ArithmeticError, TypeError) as error:
            raise ValueError(f"a message of invalid form ({error})") from error
        for array in () if is_shared else arrays.values():
            self._read(_bytes_of(array))
        return Message(facts, arrays)

    def _allocate(self, shapes: Any, is_shared: bool) -> dict[str, Array]:
        """Arrays in the shared memory, or empty arrays that the socket fills."""
        arrays, at = {}, 0
        for name, shape in shapes:
            arrays[name] = self._view(shape, at) if is_shared else _empty(shape)
            at += arrays[name].nbytes
        return arrays

    def close(self) -> None:
        """Close the socket; the memory is freed with the last array that uses it."""
        self._channel.close()

    def _view(self, shape: Any, at: int) -> Array:
        return np.frombuffer(self._shared, np.float32, math.prod(shape), at).reshape(shape)

    def _write(self, data: memoryview) -> None:
        at = 0
        while at < len(data):
            try:
                at += self._channel.send(data[at:])
            except TimeoutError:
                self.wait()

    def _read(self, buffer: memoryview) -> memoryview:
        at = 0
        while at < len(buffer):
            try:
                n_read = self._channel.recv_into(buffer[at:])
            except TimeoutError:
                self.wait()
                continue
            if not n_read:
                raise EOFError("the other process has ended")
            at += n_read
        return buffer


def make_shared_memory() -> int:
    """Shared memory that two processes can map: a file descriptor, which the caller closes. Not on Windows."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("rotopaint")
    else:
        with tempfile.TemporaryFile() as stream:
            handle = os.dup(stream.fileno())
    os.truncate(handle, SHARED_BYTES)
    return handle


def _empty(shape: list[int]) -> Array:
    if 4 * math.prod(shape) > _MOST_BYTES:
        raise ValueError(f"an array of {shape}")
    return np.empty(shape, np.float32)


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
