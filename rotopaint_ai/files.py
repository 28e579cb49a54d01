"""Saving without ever losing what was there: write beside, flush, rename."""

from __future__ import annotations

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
    """The folder for what can be fetched again, where this system keeps such."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("rotopaint", appauthor=False))


def file_bytes(path: Path, most: int = 512 << 20) -> bytes:
    """What a file from elsewhere holds, `most` bytes at most. Raises: OSError as opening it does; UsageError for a pipe
    or a device, which would keep its reader waiting or never end, and for a file that is larger."""
    with open(path, "rb", opener=_without_waiting) as stream:
        facts = os.fstat(stream.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise UsageError(f"{path}: is a pipe or a device; wanted a file")
        if facts.st_size > most:
            raise UsageError(f"{path}: has {facts.st_size:,} bytes; wanted {most:,} at most")
        return stream.read(most)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # for whoever writes into a pipe


def refuse_no_file(path: Path) -> None:
    """Raises UsageError where a folder, a pipe, a socket or a device has the place that a file is to take."""
    if path.is_dir():
        raise UsageError(f"{path}: is a folder, and a file is to go there; choose another name")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: is a pipe, a socket or a device, and would be replaced; choose another name")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path beside `path` to write to; on success it takes `path`'s place, on failure it is removed.

    The temporary name keeps the suffix, because image writers choose their format by it. An OSError of the system
    that does not say what file it is about (a full disk's), or that names the temporary one, says `path` when it leaves
    here. Raises: UsageError where `path` is no file.
    """
    refuse_no_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.part{path.suffix}")
    try:
        yield beside
        os.replace(beside, path)
    except OSError as error:
        if error.errno is not None and str(error.filename or beside) == str(beside):  # words alone would be lost
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        beside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text to `path` in one step that either happens whole or not at all."""
    write_parts(path, [text])


def write_parts(path: Path, parts: Iterable[str]) -> None:
    """As `write_text`, for text that is never in memory as a whole."""
    with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(parts)
        stream.flush()
        os.fsync(stream.fileno())


def write_json(path: Path, value: Any, *, indent: int | None = 1) -> None:
    """Write `value` as JSON text in one step; refuses NaN and infinity, which JSON does not have."""
    write_text(path, json.dumps(value, indent=indent, allow_nan=False) + "\n")
