"""Saving files without losing the old content: write a temporary file, flush it, rename it."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import UsageError


def user_cache() -> Path:
    """The system's cache folder of this user, for files that can be fetched again."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("rotopaint", appauthor=False))


def file_bytes(path: Path, most: int = 512 << 20) -> bytes:
    """The bytes of a file, which may come from anybody.

    Raises: OSError where it cannot be opened; UsageError for a file larger than `most` bytes, and for a pipe or a
    device, which could block the reader or never end."""
    with open(path, "rb", opener=_without_waiting) as stream:
        facts = os.fstat(stream.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise UsageError(f"{path}: is a pipe or a device; wanted a file")
        if facts.st_size > most:
            raise UsageError(f"{path}: has {facts.st_size:,} bytes; wanted {most:,} at most")
        return stream.read(most)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file as hexadecimal text."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def free_copy_name(path: Path) -> Path:
    """A name beside a file that none has: `NAME.other-1.SUFFIXES`, or the next number."""
    stem, _, suffix = path.name.partition(".")
    names = (path.with_name(f"{stem}.other-{n}.{suffix}") for n in itertools.count(1))
    return next(place for place in names if not place.exists())


def absolute_place(place: str) -> str:
    """A path as an absolute path, which holds in any working folder; a server's address stays unchanged."""
    return place if "://" in place else os.path.abspath(place)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # do not wait for the writer of a pipe


def refuse_no_file(path: Path) -> None:
    """Raise UsageError where `path` is a folder, a pipe, a socket or a device, so that no file can be written there."""
    if path.is_dir():
        raise UsageError(f"{path}: is a folder, so no file can be written there; choose another name")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: is a pipe, a socket or a device, which a file would replace; choose another name")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` to write to; on success it replaces `path`, on failure it is removed.

    The temporary name keeps the suffix, because image writers choose their format by it. An OSError that names no file
    (for example of a full disk), or that names the temporary file, is changed to name `path`.
    Raises: UsageError where `path` is not a file.
    """
    refuse_no_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.part{path.suffix}")
    try:
        yield beside
        os.replace(beside, path)
    except OSError as error:
        if error.errno is not None and str(error.filename or beside) == str(beside):  # its text would be lost
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        beside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text to `path` atomically."""
    write_parts(path, [text])


def write_parts(path: Path, parts: Iterable[str]) -> None:
    """As `write_text`, for text in parts, so that the whole text is never in memory."""
    with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(parts)
        stream.flush()
        os.fsync(stream.fileno())


def write_json(path: Path, value: Any, *, indent: int | None = 1) -> None:
    """Write `value` as JSON text atomically; refuses NaN and infinity, which JSON does not have."""
    write_text(path, json.dumps(value, indent=indent, allow_nan=False) + "\n")
