"""The open project: a shot's state on disk, and the steps that undo can take back.

    project = Project.create(path) | Project.open(path)
    loaded = project.load()
    number = project.append("move points", before, after)

One `append` is one transaction: once it has returned, only a failure of the disk can lose the step. The values that a
step replaced stay in the file until there are `MOST_STEPS` newer steps, so that undo still works after a crash.
"""

from __future__ import annotations

import gc
import json
import sqlite3
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rotopaint_ai.errors import DamagedProjectError, DocumentError, LockedError, ProjectError, UsageError
from rotopaint_ai.project import owner, schema
from rotopaint_ai.project.check import check_note, check_state
from rotopaint_ai.project.codecs import Track, TrackPlace, apply_changes, changes, pack, state_of, unpack
from rotopaint_ai.project.state import State

if TYPE_CHECKING:
    from rotopaint_ai.locks import FileLock

# errors that inconsistent content raises when it is unpacked
TORN: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    RecursionError,
    struct.error,
    zlib.error,
    DocumentError,
    UsageError,
)
MOST_STEPS: Final = 500
MOST_BYTES: Final = 512 << 20  # limit for values that only undo needs
_PRIME: Final = 1_000_000_007
_STEPS: Final = "SELECT number, label FROM step ORDER BY number"


@dataclass(frozen=True, slots=True)
class SavedStep:
    """A step that is saved on disk."""

    number: int
    label: str


@dataclass(frozen=True, slots=True)
class LoadedProject:
    """The content of a project: the state, the steps to undo, and the steps to redo (the next one first)."""

    state: State
    behind: tuple[SavedStep, ...]
    ahead: tuple[SavedStep, ...]


class Project:
    """One open project file, to be used by one thread at a time."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, taken: owner.OwnershipResult, lock: FileLock | None = None
    ) -> None:
        self.path = path
        self._lock = lock
        self.other_owner = taken.other  # another owner, for whom this one only reads
        self.left_behind = taken.left_behind  # an owner whose process ended without closing
        self._db = connection
        self._mine = taken.mine
        self._tracks: dict[Track, int] = {}
        self._changed = False
        self._is_sealed = schema.version(connection) > 1

    # --- opening and closing

    @classmethod
    def create(cls, path: Path, state: State = State()) -> Project:  # noqa: B008 - a frozen value
        """Create a project file with a first state, which undo cannot remove. Raises ProjectError."""
        connection = schema.create(path)
        lock = _take_lock(path)
        with schema.project_errors(path), schema.transaction(connection):
            taken = owner.take(connection)
        project = cls(path, connection, taken, lock)
        project.reset(state)
        return project

    @classmethod
    def open(cls, path: Path, *, write: bool = True) -> Project:
        """Open an existing file: for writing where nobody else has it open, else for reading; see `other_owner`.

        Raises: ProjectError, DamagedProjectError.
        """
        if write and not _is_writable(path):
            write = False
        connection = schema.open_file(path, write=write)
        lock = None
        try:
            with schema.project_errors(path):
                lock = _take_lock(path) if write else None
                if lock is None:
                    return cls(path, connection, owner.OwnershipResult(None, other=owner.read(connection)))
                with schema.transaction(connection):
                    project = cls(path, connection, owner.take(connection), lock)
                if project.left_behind is not None:
                    project.check()
                return project
        except BaseException:
            connection.close()
            if lock is not None:
                lock.release()
            raise

    @property
    def is_read_only(self) -> bool:
        """Whether another owner has the project, or the disk does not allow writing."""
        return self._mine is None

    def check(self) -> None:
        """Check the integrity of the whole file. Raises DamagedProjectError."""
        with schema.project_errors(self.path):
            verdict = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise DamagedProjectError(f"{self.path.name}: is damaged ({verdict}); {schema.way_out(self.path)}")

    def heartbeat(self) -> None:
        """Renew the lock, and write the write-ahead log into the file; call it every `owner.HEARTBEAT_S` seconds.

        A copy of the file without its log then lacks only the steps since the last call.
        Raises: LockedError where the lock has been lost."""
        if self._mine is not None:
            with schema.project_errors(self.path):
                alive = owner.heartbeat(self._db, self._mine.token)
                self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            if not alive:
                self._complain()

    def close(self) -> None:
        """Remove unused values, keep a good copy beside the file, and release the lock."""
        if self._mine is not None:
            with suppress(ProjectError), schema.project_errors(self.path):
                self._tidy()
                self._sum_up()
            with suppress(ProjectError), schema.project_errors(self.path):
                owner.release(self._db, self._mine.token)
            with suppress(ProjectError), schema.project_errors(self.path):
                if self._changed:
                    self._back_up()
        self._mine = None
        self._db.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _back_up(self) -> None:
        """Write a new good copy, and rotate the older copies once it is written."""
        newest = self.path.with_name(f".{self.path.stem}.newest{schema.SUFFIX}")
        self.copy_to(newest)
        schema.rotate_backups(self.path)
        newest.replace(schema.backup_path(self.path))

    def copy_to(self, path: Path) -> None:
        """Write a complete copy of the project, without an owner. Raises ProjectError."""
        beside = path.with_name(f".{path.stem}.part{schema.SUFFIX}")
        beside.unlink(missing_ok=True)
        try:
            with schema.project_errors(self.path):
                schema.touch_like(self.path, beside)
                self._db.execute("VACUUM INTO ?", (str(beside),))
                with sqlite3.connect(beside) as copy:
                    copy.execute("DELETE FROM owner")
                copy.close()
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)

    # --- the state

    def load(self) -> LoadedProject:
        """The state and its history. Raises DamagedProjectError where the content is inconsistent."""
        with schema.project_errors(self.path), _without_collector():
            try:
                self._compare_sum()
                state = state_of(self._read_tracks())
                check_state(state)
                steps = [SavedStep(number, str(label)) for number, label in self._db.execute(_STEPS)]
            except TORN as error:
                raise self._torn(error) from error
        at = self._position()
        behind = tuple(step for step in steps if step.number <= at)
        return LoadedProject(state, behind, tuple(step for step in steps if step.number > at))

    def reset(self, state: State) -> None:
        """Replace the state and delete all steps."""
        with self._writing():
            for table in ("change", "step", "item"):
                self._db.execute(f"DELETE FROM {table}")
            self._set_note("position", 0)
            self._put_values(_all_new(state), step=None)

    def append(self, label: str, before: State, after: State) -> int:
        """Save a step with its changes, and delete the steps that were undone. Returns the step's number."""
        with self._writing():
            at = self._position()
            self._db.execute("DELETE FROM step WHERE number > ?", (at,))
            made = datetime.now(UTC).isoformat(timespec="seconds")
            number = at + 1
            self._db.execute("INSERT INTO step VALUES (?, ?, ?)", (number, label, made))
            self._put_values(changes(before, after), step=number)
            self._db.execute("DELETE FROM step WHERE number <= ?", (number - MOST_STEPS,))
            self._set_note("position", number)
        return number

    def take_back(self, number: int) -> None:
        """Undo a step on disk."""
        self._swap_values(number, "before", number - 1)

    def do_again(self, number: int) -> None:
        """Redo a step on disk."""
        self._swap_values(number, "after", number)

    def before(self, number: int, state: State) -> State:
        """The state before a step, `state` being the one after it. Raises ProjectError, DamagedProjectError."""
        return self._apply_step(number, "before", state)

    def after(self, number: int, state: State) -> State:
        """The state after a step, `state` being the one before it. Raises ProjectError, DamagedProjectError."""
        return self._apply_step(number, "after", state)

    # --- facts beside the state

    def note(self, name: str) -> Any:
        """A note, which is stored beside the state, as JSON values; None where it was never set."""
        with schema.project_errors(self.path):
            row = self._db.execute("SELECT value FROM note WHERE name = ?", (name,)).fetchone()
        return None if row is None else self._value(name, row[0])

    def set_note(self, name: str, value: Any) -> None:
        """Store a note beside the state. This is not a step, so undo does not change it."""
        with self._writing():
            self._set_note(name, value)

    def files(self) -> dict[int, tuple[str, int, int, str]]:
        """File name, size, time in nanoseconds and fingerprint of the plate's known frames."""
        with schema.project_errors(self.path):
            rows = self._db.execute("SELECT frame, name, size, mtime_ns, fingerprint FROM plate_file").fetchall()
        return {frame: (name, size, mtime, fingerprint) for frame, name, size, mtime, fingerprint in rows}

    def set_files(self, files: Mapping[int, tuple[str, int, int, str]], *, clear: bool = False) -> None:
        """Store these facts of the plate's files; `clear` deletes the earlier ones."""
        with self._writing():
            if clear:
                self._db.execute("DELETE FROM plate_file")
            rows = [(frame, *facts) for frame, facts in files.items()]
            self._db.executemany("INSERT OR REPLACE INTO plate_file VALUES (?, ?, ?, ?, ?)", rows)

    # --- parts

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self._mine is None:
            who = f"{self.other_owner} works on it" if self.other_owner is not None else "it may not be written"
            raise LockedError(f"{self.path.name}: open to read only, {who}; save a copy to work on it")
        with schema.project_errors(self.path), schema.transaction(self._db):
            holder = owner.read(self._db)
            if holder is None or holder.token != self._mine.token:
                self._complain()
            try:
                if not self._changed:
                    self._db.execute("DELETE FROM note WHERE name = 'sum'")
                yield
            except BaseException:
                self._tracks.clear()  # numbers that were not kept
                raise
        self._changed = True

    def _complain(self) -> None:
        holder = owner.read(self._db)
        who = str(holder) if holder is not None else "somebody"
        raise LockedError(
            f"{self.path.name}: {who} took the project over while this machine was silent; save a copy of your work"
        )

    def _put_values(
        self, new: Iterator[tuple[TrackPlace, Any]] | Sequence[tuple[TrackPlace, Any]], *, step: int | None
    ) -> None:
        """Write values to places; with a step, also record the values that they replace."""
        db, known = self._db, dict[int, int]()
        keep: list[Any] = []  # keeps the values alive, so that no id() is used twice
        next_id = int(db.execute("SELECT coalesce(max(id), 0) FROM value").fetchone()[0])
        values: list[tuple[int, bytes]] = []
        items: list[tuple[int, int, int]] = []
        gone: list[tuple[int, int]] = []
        noted: list[tuple[int, int, int | None]] = []
        for (track, frame), value in new:
            number = self._track_number(track)
            at = None
            if value is None:
                gone.append((number, frame))
            else:
                at = known.get(id(value))
                if at is None:
                    next_id += 1
                    at = known[id(value)] = next_id
                    keep.append(value)
                    values.append((at, schema.seal(pack(track.kind, value))))
                items.append((number, frame, at))
            noted.append((number, frame, at))
        db.executemany("INSERT INTO value VALUES (?, ?)", values)
        if step is not None:
            db.executemany(
                "INSERT INTO change SELECT ?, ?, ?, (SELECT value FROM item WHERE track = ? AND frame = ?), ?",
                [(step, number, frame, number, frame, at) for number, frame, at in noted],
            )
        db.executemany("INSERT OR REPLACE INTO item VALUES (?, ?, ?)", items)
        db.executemany("DELETE FROM item WHERE track = ? AND frame = ?", gone)

    def _swap_values(self, number: int, side: str, position: int) -> None:
        with self._writing():
            self._db.execute(
                "DELETE FROM item WHERE (track, frame) IN (SELECT track, frame FROM change WHERE step = ?)", (number,)
            )
            self._db.execute(
                f"INSERT INTO item SELECT track, frame, {side} FROM change WHERE step = ? AND {side} IS NOT NULL",
                (number,),
            )
            self._set_note("position", position)

    def _value(self, name: str, text: str) -> Any:
        """A note's value. Raises DamagedProjectError."""
        try:
            value = json.loads(text)
            check_note(name, value)
        except TORN as error:
            raise self._torn(error) from error
        return value

    def _torn(self, error: Exception) -> DamagedProjectError:
        return DamagedProjectError(f"{self.path.name}: its content is torn ({error!r}); {schema.way_out(self.path)}")

    def _unpack(self, kind: str, data: bytes) -> Any:
        return unpack(kind, schema.unseal(data) if self._is_sealed else data)

    def _sum_up(self) -> None:
        """Store a checksum of the tables on closing; the checksums of the values do not cover their places."""
        if self._changed:
            with schema.transaction(self._db):
                self._set_note("sum", self._checksums())

    def _compare_sum(self) -> None:
        """Raise ValueError where the tables differ from the stored checksum."""
        row = self._db.execute("SELECT value FROM note WHERE name = 'sum'").fetchone()
        if row is not None and json.loads(row[0]) != self._checksums():
            raise ValueError("its tables are not as they were left")

    def _checksums(self) -> list[int]:
        items = self._db.execute(
            f"SELECT count(*), coalesce(sum((track * {_PRIME} + frame * 31 + value * 17 + track * frame % {_PRIME}) "
            f"% {_PRIME}), 0) FROM item"
        ).fetchone()
        tracks = self._db.execute("SELECT id, kind, name FROM track ORDER BY id").fetchall()
        notes = self._db.execute("SELECT name, value FROM note WHERE name != 'sum' ORDER BY name").fetchall()
        return [*items, zlib.crc32(repr((tracks, notes)).encode("utf-8", "surrogatepass"))]

    def _apply_step(self, number: int, side: str, state: State) -> State:
        with schema.project_errors(self.path):
            if self._db.execute("SELECT 1 FROM step WHERE number = ?", (number,)).fetchone() is None:
                raise ProjectError(f"{self.path.name}: this step is no longer in the project; the shot stays as it is")
            try:
                made = apply_changes(state, self._step_values(number, side))
                check_state(made)
            except TORN as error:
                raise self._torn(error) from error
        return made

    def _step_values(self, number: int, side: str) -> dict[TrackPlace, Any]:
        """The value before or after a step at every place that it changed (None: no value)."""
        rows = self._db.execute(
            f"SELECT kind, name, frame, {side}, data FROM change JOIN track ON track.id = track "
            f"LEFT JOIN value ON value.id = {side} WHERE step = ?",
            (number,),
        )
        known: dict[tuple[str, int], Any] = {}
        return {
            TrackPlace(Track(kind, name), _checked_frame(frame)): None
            if at is None
            else self._unpacked(known, kind, at, data)
            for kind, name, frame, at, data in rows
        }

    def _unpacked(self, known: dict[tuple[str, int], Any], kind: str, at: int, data: bytes) -> Any:
        """A value of a kind of track; each stored value is unpacked only once."""
        if (kind, at) not in known:
            known[kind, at] = self._unpack(kind, data)
        return known[kind, at]

    def _read_tracks(self) -> dict[Track, dict[int, Any]]:
        tracks: dict[Track, dict[int, Any]] = {}
        known: dict[tuple[str, int], Any] = {}
        for number, kind, name in self._db.execute("SELECT id, kind, name FROM track ORDER BY id").fetchall():
            values: dict[int, Any] = {}
            rows = self._db.execute(
                "SELECT frame, value, data FROM item JOIN value ON value.id = value WHERE track = ? ORDER BY frame",
                (number,),
            )
            for frame, at, data in rows:
                values[_checked_frame(frame)] = self._unpacked(known, kind, at, data)
            if values:
                tracks[Track(kind, name)] = values
        return tracks

    def _track_number(self, track: Track) -> int:
        if track not in self._tracks:
            self._db.execute("INSERT OR IGNORE INTO track (kind, name) VALUES (?, ?)", tuple(track))
            row = self._db.execute("SELECT id FROM track WHERE kind = ? AND name = ?", tuple(track)).fetchone()
            self._tracks[track] = int(row[0])
        return self._tracks[track]

    def _position(self) -> int:
        return int(self.note("position") or 0)

    def _set_note(self, name: str, value: Any) -> None:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        self._db.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (name, text))

    def _tidy(self) -> None:
        """Delete the oldest steps while undo uses too much space, then the values that nothing refers to."""
        if not self._changed:
            return
        self._db.execute("PRAGMA foreign_keys = OFF")  # or each deleted value is searched for in every change
        with schema.transaction(self._db):
            while self._undo_bytes() > MOST_BYTES:
                self._db.execute("DELETE FROM change WHERE step = (SELECT min(number) FROM step)")
                self._db.execute("DELETE FROM step WHERE number = (SELECT min(number) FROM step)")
            self._db.execute(
                "DELETE FROM value WHERE id NOT IN (SELECT value FROM item UNION SELECT before FROM change WHERE "
                "before IS NOT NULL UNION SELECT after FROM change WHERE after IS NOT NULL)"
            )

    def _undo_bytes(self) -> int:
        row = self._db.execute(
            "SELECT coalesce(sum(length(data)), 0) FROM value WHERE id IN (SELECT before FROM change UNION SELECT "
            "after FROM change) AND id NOT IN (SELECT value FROM item)"
        ).fetchone()
        return int(row[0])


def _all_new(state: State) -> Iterator[tuple[TrackPlace, Any]]:
    return changes(State(), state)


def _checked_frame(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"frame {str(value)[:40]!r} is not a number")
    return value


def _take_lock(path: Path) -> FileLock | None:
    """The project's lock; None where somebody else has it. Raises ProjectError where the disk allows no lock."""
    try:
        return owner.lock_project(path)
    except OSError as error:
        raise ProjectError(
            f"{path.name}: cannot be locked ({error.strerror}); check the disk and its permissions"
        ) from error


def _is_writable(path: Path) -> bool:
    import os

    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pause Python's garbage collector: it would scan half a million new tuples and find nothing to free."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
