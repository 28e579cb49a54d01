"""Which code makes a result: a version number stays the same while a checkout or a patched install changes under it."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import rotopaint_ai

ROOMS = ("crops.py", "inference", "landmarks", "pipeline", "plates", "seams", "shapes", "sheet.py")


@cache
def code_digest() -> str:
    """Digest of the rooms that decide a run's files, taken once per process, at the door.

    A run that goes on by other code than it began with would end with frames of both; see `state`.
    """
    return digest_of(Path(rotopaint_ai.__file__).parent)


def digest_of(package: Path) -> str:
    """Digest of those rooms in a package's folder: names and content of their Python files, in the order of names."""
    paths = [path for room in ROOMS for path in _files(package / room)]
    digest = hashlib.sha1(usedforsecurity=False)
    for path in paths:
        content = hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
        digest.update(f"{path.relative_to(package).as_posix()}\n{content}\n".encode())
    return digest.hexdigest()


def _files(room: Path) -> list[Path]:
    if room.is_dir():
        return sorted(room.rglob("*.py"))
    return [room] if room.is_file() else []
