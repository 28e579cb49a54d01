"""Who works on a project: one person at a time, by name; everybody else reads.

The lock is a row of the file itself, so that taking it is a transaction. It carries user, host, process and a sign of
life that its owner renews. A lock is stale when its process is gone from this host, or has given no sign of life for
two minutes; a stale lock is taken over, and an owner who has lost it (a machine that slept) is told when it writes.
"""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import sqlite3
import sys
import time
from dataclasses import dataclass
from typing import Final

SILENCE_S: Final = 120.0
HEARTBEAT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Owner:
    """Who has, or had, the lock; times in seconds since 1970."""

    token: str
    user: str
    host: str
    pid: int
    since: float
    seen: float

    def __str__(self) -> str:
        return f"{self.user} on {self.host}"

    def is_stale(self, now: float) -> bool:
        """Whether nobody stands behind the lock any more."""
        if self.host == socket.gethostname() and not _is_alive(self.pid):
            return True
        return now - self.seen > SILENCE_S


def me(now: float) -> Owner:
    """This process as an owner."""
    return Owner(secrets.token_hex(8), _user(), socket.gethostname(), os.getpid(), now, now)


def read(connection: sqlite3.Connection) -> Owner | None:
    """Who has the lock."""
    row = connection.execute("SELECT token, user, host, pid, since, seen FROM owner").fetchone()
    return None if row is None else Owner(*row)


@dataclass(frozen=True, slots=True)
class Taken:
    """How taking the lock ended: with it, or with who else has it; and who had left it behind."""

    mine: Owner | None
    other: Owner | None = None
    left_behind: Owner | None = None


def take(connection: sqlite3.Connection, now: float | None = None) -> Taken:
    """Take the lock where it is free or stale, inside a transaction."""
    now = time.time() if now is None else now
    holder = read(connection)
    if holder is not None and not holder.is_stale(now):
        return Taken(None, other=holder)
    mine = me(now)
    connection.execute(
        "INSERT OR REPLACE INTO owner VALUES (1, ?, ?, ?, ?, ?, ?)",
        (mine.token, mine.user, mine.host, mine.pid, mine.since, mine.seen),
    )
    return Taken(mine, left_behind=holder)


def heartbeat(connection: sqlite3.Connection, token: str) -> bool:
    """Give a sign of life; False where the lock has been lost."""
    return connection.execute("UPDATE owner SET seen = ? WHERE token = ?", (time.time(), token)).rowcount == 1


def release(connection: sqlite3.Connection, token: str) -> None:
    """Give the lock back."""
    connection.execute("DELETE FROM owner WHERE token = ?", (token,))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "somebody"


def _is_alive(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # the sign of life decides
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's process
    return True
