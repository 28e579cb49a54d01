"""The line's memory as bytes, and back.

Pickle, because the memory is a web of small arrays and values that belong to the stages; but a pickle that can only
build arrays, plain containers and this product's own values, whatever a file claims. Models are left out by name and
put back from the open pack.
"""

from __future__ import annotations

import io
import pickle
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rotopaint_ai.files import replacing
from rotopaint_ai.pipeline.line import Snapshot

_MAGIC = b"rotopaint-snapshot-1\n"
_PLAIN = {
    ("collections", "deque"),
    ("collections", "OrderedDict"),
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("builtins", "slice"),
    ("builtins", "range"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    *(
        (module, name)
        for module in ("numpy._core.multiarray", "numpy.core.multiarray")
        for name in ("_reconstruct", "scalar")
    ),
    *((module, "_frombuffer") for module in ("numpy._core.numeric", "numpy.core.numeric")),
}
_OWN = "rotopaint_ai."


class _Pickler(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, models: Mapping[str, object]) -> None:
        super().__init__(stream, protocol=5)
        self._names = {id(model): name for name, model in models.items()}

    def persistent_id(self, value: object) -> str | None:
        return self._names.get(id(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, models: Mapping[str, object]) -> None:
        super().__init__(stream)
        self._models = models

    def persistent_load(self, name: Any) -> object:
        return self._models[name]

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _PLAIN and not (module.startswith(_OWN) and "." not in name):
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a snapshot")
        found = super().find_class(module, name)
        if module.startswith(_OWN) and not (isinstance(found, type) and found.__module__.startswith(_OWN)):
            raise pickle.UnpicklingError(f"{module}.{name} is not a value of this product")
        return found


def save_snapshot(path: Path, snapshot: Snapshot, models: Mapping[str, object]) -> None:
    """Write a snapshot in one step; objects in `models` are written as their names."""
    stream = io.BytesIO()
    _Pickler(stream, models).dump(snapshot)
    body = stream.getvalue()
    with replacing(path) as beside:
        beside.write_bytes(_MAGIC + b"%08x" % zlib.crc32(body) + body)


def load_snapshot(path: Path, models: Mapping[str, object]) -> Snapshot | None:
    """The snapshot in a file; None where there is none or where it is torn, foreign or of another version."""
    try:
        data = path.read_bytes()
        body = data[len(_MAGIC) + 8 :]
        if not data.startswith(_MAGIC + b"%08x" % zlib.crc32(body)):
            return None
        snapshot = _Unpickler(io.BytesIO(body), models).load()
    except (OSError, ValueError, KeyError, EOFError, AttributeError, ImportError, TypeError, pickle.UnpicklingError):
        return None
    return snapshot if isinstance(snapshot, Snapshot) else None
