"""Facts of a plate's files, by which a project recognises a moved plate and refuses a different one.

Standard library only. A fingerprint is the hash of a file's content, as a run stores it. For a file larger than
`LARGE_BYTES` (a movie) only samples are hashed, and the fingerprint says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rotopaint_ai.frames import evenly_spread

LARGE_BYTES: Final = 512 << 20
N_WITNESSES: Final = 5
_SAMPLE_BYTES = 1 << 20
_N_SAMPLES = 32
_STATES = (True, False, None)  # the known file, another file, no file

FileFacts = tuple[str, int, int, str]  # name, size, time in nanoseconds, fingerprint


def witnesses(frames: Sequence[int], count: int = N_WITNESSES) -> tuple[int, ...]:
    """A few frames by which a plate is recognised: the first, the last, and others spread between."""
    return tuple(evenly_spread(frames, count))


def look(paths: Mapping[int, Path]) -> dict[int, FileFacts]:
    """The facts of these files, for those that can be read. Slow, because each file is read completely."""
    found: dict[int, FileFacts] = {}
    for frame, path in paths.items():
        try:
            stat = path.stat()
            found[frame] = (path.name, stat.st_size, stat.st_mtime_ns, fingerprint(path))
        except OSError:
            continue
    return found


def fingerprint(path: Path) -> str:
    """The hash of a file's content. Raises OSError."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        if size <= LARGE_BYTES:
            return hashlib.file_digest(stream, lambda: hashlib.sha1(usedforsecurity=False)).hexdigest()
        digest = hashlib.sha1(str(size).encode(), usedforsecurity=False)
        for k in range(_N_SAMPLES):
            stream.seek(k * (size - _SAMPLE_BYTES) // (_N_SAMPLES - 1))
            digest.update(stream.read(_SAMPLE_BYTES))
    return f"sampled:{digest.hexdigest()}"


@dataclass(frozen=True, slots=True)
class FileMatch:
    """The result of comparing files on disk with those that a project knows, by frame."""

    same: tuple[int, ...]
    other: tuple[int, ...]
    gone: tuple[int, ...]

    @property
    def is_same_plate(self) -> bool:
        """Whether this is the project's plate, wherever it lies now."""
        return bool(self.same) and not self.other

    @property
    def is_other_plate(self) -> bool:
        """Whether these are entirely different pictures."""
        return bool(self.other) and not self.same


def compare(known: Mapping[int, FileFacts], paths: Mapping[int, Path]) -> FileMatch:
    """Compare files with the facts known of them. A file of known size and time counts as unchanged and is not read."""
    states = {frame: _is_known(facts, paths.get(frame)) for frame, facts in sorted(known.items())}
    same, other, gone = (tuple(frame for frame, state in states.items() if state is wanted) for wanted in _STATES)
    return FileMatch(same, other, gone)


def compared_facts(known: Mapping[int, FileFacts], frames: Iterable[int]) -> dict[int, FileFacts]:
    """The known facts of the few frames to compare, those with a fingerprint."""
    there = set(frames)
    with_fingerprint = [frame for frame, facts in sorted(known.items()) if facts[3] and frame in there]
    return {frame: known[frame] for frame in witnesses(with_fingerprint)}


def _is_known(facts: FileFacts, path: Path | None) -> bool | None:
    """Whether a file is the known one; None where it does not exist."""
    name, size, mtime_ns, known = facts
    try:
        if path is None:
            return None
        stat = path.stat()
        if (stat.st_size, stat.st_mtime_ns, path.name) == (size, mtime_ns, name):
            return True
        return fingerprint(path) == known
    except OSError:
        return None
