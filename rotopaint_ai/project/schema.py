"""The SQLite side of the project file: its tables, how it is opened, and why it may be refused.

Standard library only. On a local disk the file uses a write-ahead log, so that neither an edit nor a reader waits. On a
network disk such a log is not safe; there the file uses a rollback journal, and each edit waits for the disk. A file
may come from anybody. If its tables differ from those below it is refused, so that no view or trigger in it can run.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from stat import S_IMODE
from typing import Final

from rotopaint_ai.errors import DamagedProjectError, ProjectError
from rotopaint_ai.project.disk import is_local

SUFFIX: Final = ".rotopaint"
APPLICATION_ID: Final = 0x526F7450  # "RotP"
VERSION: Final = 2  # values of version 1 have no checksum
N_BACKUPS: Final = 3
MOST_BYTES: Final = 256 << 20  # limit of one value
CACHE_BYTES: Final = 8 << 20  # limit of SQLite's page cache
PATIENCE_S: Final = 5.0
_MAGIC = b"SQLite format 3\x00"

# `value` holds the values of all states, `item` the current value at each place, `change` the old and the new value of
# each place that a step changed. A value is never altered, so undo only exchanges the numbers of values.
_SCHEMA = """
CREATE TABLE note (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE track (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (kind, name));
CREATE TABLE value (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE item (
  track INTEGER NOT NULL REFERENCES track, frame INTEGER NOT NULL, value INTEGER NOT NULL REFERENCES value,
  PRIMARY KEY (track, frame)
) WITHOUT ROWID;
CREATE TABLE step (number INTEGER PRIMARY KEY, label TEXT NOT NULL, made TEXT NOT NULL);
CREATE TABLE change (
  step INTEGER NOT NULL REFERENCES step ON DELETE CASCADE, track INTEGER NOT NULL REFERENCES track,
  frame INTEGER NOT NULL, before INTEGER REFERENCES value, after INTEGER REFERENCES value,
  PRIMARY KEY (step, track, frame)
) WITHOUT ROWID;
CREATE TABLE plate_file (
  frame INTEGER PRIMARY KEY, name TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
  fingerprint TEXT NOT NULL
);
CREATE TABLE owner (
  id INTEGER PRIMARY KEY CHECK (id = 1), token TEXT NOT NULL, user TEXT NOT NULL, host TEXT NOT NULL,
  pid INTEGER NOT NULL, since REAL NOT NULL, seen REAL NOT NULL
);
CREATE VIEW shape_key AS
  SELECT track.name AS shape, item.frame AS frame,
    CASE hex(substr(value.data, 1, 1)) WHEN '00' THEN 'model' WHEN '01' THEN 'human' ELSE 'propagated' END AS source
  FROM item JOIN track ON track.id = item.track JOIN value ON value.id = item.value WHERE track.kind = 'key';
"""


def create(path: Path) -> sqlite3.Connection:
    """Create an empty project file. Raises ProjectError where the file exists."""
    if path.exists():
        raise ProjectError(f"{path.name}: exists already; open it, or choose another name")
    path.parent.mkdir(parents=True, exist_ok=True)
    with project_errors(path):
        connection = _connect(path, write=True)
        connection.executescript(
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; BEGIN; {_SCHEMA} COMMIT;"
        )
        _set_journal(connection, path)
    return connection


def open_file(path: Path, *, write: bool) -> sqlite3.Connection:
    """Open an existing project file. Raises ProjectError, DamagedProjectError; both say what to do."""
    _check_magic(path)
    with project_errors(path):
        connection = _connect(path, write=write)
        try:
            _check_version(connection, path)
            if write:
                _set_journal(connection, path)
                _seal_values(connection)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def project_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into a message of one line about this file.

    A damaged name can also make Python fail to decode SQLite's error; that is covered too.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        raise _sqlite_error(path, error) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise DamagedProjectError(f"{path.name}: is damaged ({error}); {way_out(path)}") from error


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """A transaction that is on disk when the block ends, or is undone completely where the block raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def backup_path(path: Path, number: int = 1) -> Path:
    """The path of a backup of a project: number 1 is the newest, `N_BACKUPS` the oldest."""
    return path.with_name(f".{path.stem}.backup{'' if number == 1 else f'.{number}'}{SUFFIX}")


def rotate_backups(path: Path) -> None:
    """Rename the backups to make room for a new one; the oldest is deleted."""
    for number in range(N_BACKUPS - 1, 0, -1):
        if backup_path(path, number).is_file():
            backup_path(path, number).replace(backup_path(path, number + 1))


def touch_like(path: Path, copy: Path) -> None:
    """Create an empty file `copy` with the access rights of the file `path`. Raises ProjectError."""
    try:
        copy.touch(mode=S_IMODE(path.stat().st_mode) | 0o600)
    except OSError as error:
        raise ProjectError(f"{copy}: cannot be written ({error.strerror}); check the disk") from error


def seal(data: bytes) -> bytes:
    """A value with its checksum appended, as the file stores it."""
    return data + zlib.crc32(data).to_bytes(4, "little")


def unseal(data: bytes) -> bytes:
    """A value without its checksum. Raises ValueError where the checksum is wrong."""
    if zlib.crc32(data[:-4]).to_bytes(4, "little") != data[-4:]:
        raise ValueError("a value does not fit its checksum")
    return data[:-4]


def version(connection: sqlite3.Connection) -> int:
    """The version of the file; from version 2 on, values have checksums."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def way_out(path: Path) -> str:
    """What an artist can do about a file that cannot be opened."""
    backup = backup_path(path)
    if backup.is_file():
        return f"`rotopaint restore {path.name}` restores its last good copy {backup.name}"
    return "rename it and open the plate for a new project; shapes.roto.json in the folder of its runs comes in with it"


def _check_magic(path: Path) -> None:
    if path.exists() and not path.is_file():  # opening a pipe may block for ever
        raise ProjectError(f"{path}: is not a file; choose a project that ends in {SUFFIX}")
    try:
        with path.open("rb") as stream:
            start = stream.read(len(_MAGIC))
    except FileNotFoundError as error:
        raise ProjectError(f"{path}: does not exist; check the path, or open the plate for a new project") from error
    except OSError as error:
        raise ProjectError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    if start != _MAGIC:
        if path.suffix == SUFFIX and (not start.strip(b"\0") or start[:6] == _MAGIC[:6]):
            raise DamagedProjectError(f"{path.name}: is empty or cut off; {way_out(path)}")
        if path.suffix == SUFFIX:
            copy = f", or {way_out(path)}" if backup_path(path).is_file() else ""
            raise ProjectError(f"{path.name}: is damaged, or no RotoPaint project; choose another file{copy}")
        raise ProjectError(f"{path.name}: is not a RotoPaint project; choose a file that ends in {SUFFIX}")


def _connect(path: Path, *, write: bool) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?{'mode=rwc' if write else _reading_mode(path)}"
    connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA cache_size = -{CACHE_BYTES >> 10}")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
    return connection


def _reading_mode(path: Path) -> str:
    """SQLite's open mode for reading.

    In a folder without write permission SQLite cannot share the log, so the file is read without it.
    """
    log = path.with_name(f"{path.name}-wal")
    is_still = not os.access(path.parent, os.W_OK) and not (log.exists() and log.stat().st_size)
    return "mode=ro&immutable=1" if is_still else "mode=ro"


def _set_journal(connection: sqlite3.Connection, path: Path) -> None:
    wanted = "WAL" if is_local(path) else "TRUNCATE"
    got = str(connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()[0]).lower()
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if got == 'wal' else 'FULL'}")


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID:
        raise ProjectError(f"{path.name}: belongs to another program; choose another file")
    if version(connection) > VERSION:
        raise ProjectError(
            f"{path.name}: was written by a newer version (project {version(connection)}, this one reads {VERSION}); "
            "update RotoPaint AI, or export the shapes there and convert them here"
        )
    if _tables(connection) != _our_tables():
        raise DamagedProjectError(f"{path.name}: its tables are not those of a project; {way_out(path)}")


def _tables(connection: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """Kind, name and definition of everything in the database; blanks are normalised."""
    rows = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master LIMIT 100").fetchall()
    return {(str(kind), str(name), " ".join(str(sql).split())) for kind, name, sql in rows}


@lru_cache(maxsize=1)
def _our_tables() -> frozenset[tuple[str, str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_SCHEMA)
        return frozenset(_tables(connection))


def _seal_values(connection: sqlite3.Connection) -> None:
    """Convert a file of version 1 to the current version."""
    if version(connection) < 2:
        connection.create_function("sealed", 1, seal, deterministic=True)
        with transaction(connection):
            connection.execute("UPDATE value SET data = sealed(data)")
            connection.execute("PRAGMA user_version = 2")


def _sqlite_error(path: Path, error: sqlite3.OperationalError) -> ProjectError:
    text = str(error)
    if "locked" in text or "busy" in text:
        return ProjectError(f"{path.name}: another program keeps it locked; close that program and try again")
    if "readonly" in text or "read-only" in text:
        return ProjectError(f"{path.name}: write permission is missing; ask for it, or save a copy elsewhere")
    if "full" in text:
        return ProjectError(f"{path.name}: the disk is full; free some space. Earlier work is saved")
    if "no such table" in text or "no such column" in text:
        return DamagedProjectError(f"{path.name}: is damaged ({text}); {way_out(path)}")
    return ProjectError(f"{path.name}: the disk reported an error ({text}); check the disk and its permissions")
