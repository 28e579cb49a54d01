"""The owner of a project: one person at a time may write, everybody else reads.

A lock beside the file (`rotopaint_ai.locks`) tells that somebody has the project open. The operating system releases it
when the process ends, whatever the clocks say. A row of the file names the owner and holds a token. An owner compares
the token before every write, so that an owner whose lock was lost (the disk was disconnected) is refused.
"""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rotopaint_ai.locks import FileLock

HEARTBEAT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Owner:
    """The person and process that have, or had, the lock; times in seconds since 1970."""

    token: str
    user: str
    host: str
    pid: int
    since: float
    seen: float

    def __str__(self) -> str:
        return f"{self.user} on {self.host}"


def identify_process(now: float) -> Owner:
    """This process as an owner."""
    return Owner(secrets.token_hex(8), _user(), socket.gethostname(), os.getpid(), now, now)


def read(connection: sqlite3.Connection) -> Owner | None:
    """The owner that the file names."""
    row = connection.execute("SELECT token, user, host, pid, since, seen FROM owner").fetchone()
    return None if row is None else Owner(*row)


@dataclass(frozen=True, slots=True)
class OwnershipResult:
    """What taking a project gave: this process's token (`mine`), or the present owner (`other`).

    `left_behind` is an owner whose process ended without closing the project.
    """

    mine: Owner | None
    other: Owner | None = None
    left_behind: Owner | None = None


def take(connection: sqlite3.Connection, now: float | None = None) -> OwnershipResult:
    """Record this process as the owner, inside a transaction. The caller must hold the lock."""
    holder, mine = read(connection), identify_process(time.time() if now is None else now)
    connection.execute(
        "INSERT OR REPLACE INTO owner VALUES (1, ?, ?, ?, ?, ?, ?)",
        (mine.token, mine.user, mine.host, mine.pid, mine.since, mine.seen),
    )
    return OwnershipResult(mine, left_behind=holder)


def lock_project(path: Path) -> FileLock | None:
    """The lock of a project file; None where another process, or another window of this one, has it. Raises OSError."""
    from rotopaint_ai.locks import FileLock

    try:
        return FileLock(path.with_name(f".{path.name}.lock"))
    except BlockingIOError:
        return None


def heartbeat(connection: sqlite3.Connection, token: str) -> bool:
    """Update the time when this owner was last seen; False where the lock has been lost."""
    return connection.execute("UPDATE owner SET seen = ? WHERE token = ?", (time.time(), token)).rowcount == 1


def release(connection: sqlite3.Connection, token: str) -> None:
    """Remove this owner from the file."""
    connection.execute("DELETE FROM owner WHERE token = ?", (token,))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "somebody"
