"""Records of finished frames, packed: a run remembers every frame of its shot, and a shot may have thousands.

A light record is some ten kilobytes of small Python values; packed it is one string of about a tenth of that.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import fields

from rotopaint_ai.pipeline.records import FrameRecord, Source

_NAMES = tuple(each.name for each in fields(FrameRecord))
_FASTEST = 1  # of zlib's levels


class Finished(MutableMapping[int, FrameRecord]):
    """Light records by frame. What is given back is equal to what was put in, and made anew each time."""

    def __init__(self, records: Iterable[FrameRecord] = ()) -> None:
        self._packed: dict[int, bytes] = {}
        for record in records:
            self[record.frame] = record

    def __getitem__(self, frame: int) -> FrameRecord:
        return _unpacked(self._packed[frame])

    def __setitem__(self, frame: int, record: FrameRecord) -> None:
        self._packed[frame] = _packed(record.light())

    def __delitem__(self, frame: int) -> None:
        del self._packed[frame]

    def __iter__(self) -> Iterator[int]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    def __contains__(self, frame: object) -> bool:
        return frame in self._packed


def _packed(record: FrameRecord) -> bytes:
    source = record.source
    told = None if source is None else (source.path, source.size, source.mtime_ns, source.fingerprint)
    values = [told if name == "source" else getattr(record, name) for name in _NAMES]
    return zlib.compress(pickle.dumps(values, protocol=pickle.HIGHEST_PROTOCOL), _FASTEST)


def _unpacked(packed: bytes) -> FrameRecord:
    values = dict(zip(_NAMES, pickle.loads(zlib.decompress(packed)), strict=True))
    told = values.pop("source")
    return FrameRecord(source=None if told is None else Source(*told), **values)
