"""Records of finished frames, in memory and on disk.

`DIR/.rotopaint/job.json` holds all inputs of a result (plate, crop, pack, settings). If they change, the other files
are discarded with a warning. `tracked.journal` holds the results of every frame alone, `tracked.snapshot` the tracker's
state between two frames, `settled.journal` the results of the whole shot, and `frames.journal` a record of every
painted frame. Tasks that paint a part of a shot keep their records in `chunks/`.

A journal is a text file of one JSON object per line, each with the checksum of its own text. A process killed at any
moment leaves at most one torn line at the end, which is dropped when the journal is opened again. All that a run
writes after its last frame (shapes, exchange files, report) is made from the journal. So a resumed run and an unbroken
one give the same bytes.

A light record is some ten kilobytes of small Python values; the store packs it into a tenth of that.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import shutil
import zlib
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from rotopaint_ai.errors import DiskError, UsageError
from rotopaint_ai.files import write_json
from rotopaint_ai.frames import summarise
from rotopaint_ai.pipeline.out_folder import FOLDER, Stamp, facts_at, remove_torn, setting_text

NO_LINKS = getattr(os, "O_NOFOLLOW", 0)  # Windows has none
FrameStatus = Literal["done", "lost", "failed"]
PointRow = Sequence[float]
Stations = Sequence[float | None]


def worst_error(errors: Mapping[str, float], seams: Container[str]) -> tuple[str, float] | None:
    """The seam with the largest expected error in a frame, and the error in pixels; without a seam, of all shapes."""
    rated = {name: px for name, px in errors.items() if name in seams} or errors
    return max(rated.items(), key=lambda item: item[1], default=None)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """Facts of a frame's file when it was read; all frames of a movie have the movie's size and times.

    `ctime_ns`: when it was last written or moved; unlike the other times, no program can set it.
    """

    path: str
    size: int
    mtime_ns: int
    fingerprint: str = ""
    ctime_ns: int = 0


@dataclass(frozen=True, slots=True)
class FrameRecord:
    """A finished frame: values in plate space and pixels.

    `status` lost means that no face was found: mattes are empty and the clean plate is the plate. `landmarks` rows are
    `[x, y, expected_error_px]` or None where occluded, in the order of the sheet. `outputs` maps paths relative to the
    run's folder to the stamp of each. `unseen`: by seam the third of it that was least seen, where one stands out.
    `seam_contrast`: by seam, its contrast along it (`seams/visibility.py`) before and, where it was painted, after;
    `seam_scores` likewise, how much it shows.
    `work` tells what of people's work went into the frame; `predicted` and `predicted_landmarks` are what the models
    found where a person's shapes and landmarks stand, or corrections of other frames were carried over, which
    `carried` names.
    """

    frame: int
    status: FrameStatus
    source: SourceFile | None = None
    message: str | None = None
    crop: tuple[float, float, float] | None = None
    hold: int | None = None
    landmarks: Sequence[PointRow | None] | None = None
    shapes: Mapping[str, Sequence[PointRow]] = field(default_factory=dict)
    widths: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, float] = field(default_factory=dict)
    hidden: Sequence[str] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)
    seam_before: float | None = None
    seam_after: float | None = None
    seam_contrast: Mapping[str, Sequence[Stations]] = field(default_factory=dict)
    seam_scores: Mapping[str, Sequence[float]] = field(default_factory=dict)
    seam_fill: Mapping[str, float] = field(default_factory=dict)
    matte_px: float = 0.0
    outputs: Mapping[str, Stamp] = field(default_factory=dict)
    work: str = ""
    predicted: Mapping[str, Sequence[PointRow]] = field(default_factory=dict)
    predicted_landmarks: Sequence[PointRow | None] | None = None
    carried: Sequence[str] = ()
    ms: Mapping[str, float] = field(default_factory=dict)

    def worst_shape(self, seams: Container[str]) -> tuple[str, float] | None:
        """The shape by which the frame is rated and its expected error, pixels; None where no shape has one."""
        return worst_error(self.errors, seams)

    @property
    def is_finite(self) -> bool:
        """Whether all its numbers are finite, as the journal requires."""
        try:
            json.dumps(self.to_json(), allow_nan=False)
        except ValueError:
            return False
        return True

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values. Do not change them: they are shared with the record."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**values, "source": None if self.source is None else asdict(self.source)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FrameRecord:
        """The record that `to_json` described. Raises TypeError, KeyError or ValueError on anything else."""
        known = {item.name for item in fields(cls)}
        taken = {name: item for name, item in value.items() if name in known}
        if taken.get("source") is not None:
            taken["source"] = SourceFile(**taken["source"])
        if taken.get("crop") is not None:
            taken["crop"] = tuple(taken["crop"])
        taken["outputs"] = {name: Stamp(*row) for name, row in taken.get("outputs", {}).items()}
        return cls(**taken)

    @property
    def exposure(self) -> int:
        """The first frame of the hold that this frame belongs to."""
        return self.frame if self.hold is None else self.hold

    def light(self) -> FrameRecord:
        """The record without its points, to bound memory in long shots."""
        return replace(self, landmarks=None, shapes={}, predicted={}, predicted_landmarks=None)

    def outputs_stand(self, folder: Path, facts: Mapping[str, os.stat_result] | None = None) -> bool:
        """Whether every file that the frame wrote is unchanged on disk.

        `facts`: what the disk says of the files in `folder`, by name, where that is known.
        """
        return all(
            stamp.stands(folder / name, facts_at(folder / name) if facts is None else facts.get(name))
            for name, stamp in self.outputs.items()
        )


def hold_spans(records: Iterable[FrameRecord]) -> tuple[tuple[int, int], ...]:
    """First and last frame of every exposure with several frames, in ascending order."""
    last: dict[int, int] = {}
    for record in records:
        if record.hold is not None:
            last[record.hold] = max(record.frame, last.get(record.hold, record.frame))
    return tuple(sorted(last.items()))


class Journal:
    """Append-only records on disk; one line is one `write`, so a killed process tears at most the last line."""

    def __init__(self, path: Path) -> None:
        if path.is_symlink():
            raise UsageError(f"{path}: is a symbolic link, which is never written through; remove it")
        self._path = path
        self._truncate(self._whole_bytes())
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_LINKS, 0o644)

    def append(self, record: FrameRecord) -> None:
        """Add a record, completely or not at all. Raises: OSError where the disk refuses."""
        body = json.dumps(record.to_json(), allow_nan=False, separators=(",", ":")).encode()
        line, before = b"%08x " % zlib.crc32(body) + body + b"\n", os.fstat(self._descriptor).st_size
        try:
            while line:  # a nearly full disk may write only a part of the line, and then fail
                line = line[os.write(self._descriptor, line) :]
        except OSError as error:
            os.ftruncate(self._descriptor, before)
            error.filename = str(self._path)
            raise

    def close(self) -> None:
        """Flush to disk and close the file."""
        os.fsync(self._descriptor)
        os.close(self._descriptor)

    def _whole_bytes(self) -> int:
        if not self._path.exists():
            return 0
        with self._path.open("rb") as stream:
            return sum(len(line) for line, _ in _whole_lines(stream))

    def _truncate(self, n_bytes: int) -> None:
        if self._path.exists() and self._path.stat().st_size != n_bytes:
            os.truncate(self._path, n_bytes)


def read_journal(path: Path) -> Iterator[FrameRecord]:
    """Records of a journal, each frame once (its last record counts), ordered as written; nothing when absent.

    Reads the file twice and holds one record at a time.
    """
    if not path.exists():
        return
    with path.open("rb") as stream:
        last = {value["frame"]: row for row, (_, value) in enumerate(_whole_lines(stream))}
    with path.open("rb") as stream:
        for row, (_, value) in enumerate(_whole_lines(stream)):
            if last.get(value["frame"]) == row:
                yield FrameRecord.from_json(value)


class JournalIndex:
    """The last record of each frame in a journal; records stay on disk and are read on request. A missing journal has
    none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts: dict[int, int] = {}
        start = 0
        with path.open("rb") if path.exists() else BytesIO() as stream:
            for line, value in _whole_lines(stream):
                self._starts[value["frame"]] = start
                start += len(line)

    @property
    def frames(self) -> Collection[int]:
        """Frames that have a record."""
        return self._starts.keys()

    def at(self, frame: int) -> FrameRecord:
        """A frame's record with its points. Raises KeyError; DiskError where the file has changed."""
        start = self._starts[frame]
        try:
            with self._path.open("rb") as stream:
                stream.seek(start)
                for _, value in _whole_lines(stream):
                    if value["frame"] == frame:
                        return FrameRecord.from_json(value)
                    break
        except FileNotFoundError:
            pass
        raise DiskError(f"{self._path}: was removed or written anew while it was in use; run again")


def _whole_lines(stream: Any) -> Iterator[tuple[bytes, dict[str, Any]]]:
    for line in stream:
        checksum, _, body = line.partition(b" ")
        if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(body[:-1]):
            return
        value = _record_values(body)
        if value is None:
            return
        yield line, value


def _record_values(body: bytes) -> dict[str, Any] | None:
    """A record's JSON values; None for a text that is no record, as a foreign folder may hold."""
    import msgspec

    try:
        value = json.loads(body, parse_float=_finite_number, parse_constant=_finite_number)
        msgspec.convert(value, FrameRecord)
    except (ValueError, RecursionError):
        return None
    return dict(value)


def _finite_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number


_NAMES = tuple(each.name for each in fields(FrameRecord))
_FASTEST = 1  # zlib level


class RecordStore(MutableMapping[int, FrameRecord]):
    """Records by frame in compact form. Reading returns a new object that equals the stored record."""

    def __init__(self, records: Iterable[FrameRecord] = ()) -> None:
        self._packed_record: dict[int, bytes] = {}
        for record in records:
            self[record.frame] = record

    def __getitem__(self, frame: int) -> FrameRecord:
        return _unpacked_record(self._packed_record[frame])

    def __setitem__(self, frame: int, record: FrameRecord) -> None:
        self._packed_record[frame] = _packed_record(record.light())

    def __delitem__(self, frame: int) -> None:
        del self._packed_record[frame]

    def __iter__(self) -> Iterator[int]:
        return iter(self._packed_record)

    def __len__(self) -> int:
        return len(self._packed_record)

    def __contains__(self, frame: object) -> bool:
        return frame in self._packed_record


def _packed_record(record: FrameRecord) -> bytes:
    source_row = None if record.source is None else astuple(record.source)
    values = [source_row if name == "source" else getattr(record, name) for name in _NAMES]
    return zlib.compress(pickle.dumps(values, protocol=pickle.HIGHEST_PROTOCOL), _FASTEST)


def _unpacked_record(packed: bytes) -> FrameRecord:
    values = dict(zip(_NAMES, pickle.loads(zlib.decompress(packed)), strict=True))
    source_row = values.pop("source")
    return FrameRecord(source=None if source_row is None else SourceFile(*source_row), **values)


UNCLAIMED_FOLDERS = (".", "report")  # a run of a project writes there, too, and so does the panel
FORMAT = "rotopaint-run-state"
VERSION = 1
FRAMES, TRACKED, SETTLED = "frames", "tracked", "settled"
CHUNKS = "chunks"

_WORDS = {
    "rotopaint": "this is another version or build of the product",
    "plate": "the plate changed",
    "frames": "the frame range changed",
    "crops": "the crop changed",
    "pack": "the model pack changed",
    "settings": "the settings changed",
}


@dataclass(slots=True)
class RunState:
    """The open state of a run: which frames are finished, and the journal for the next ones."""

    folder: Path
    journal: Journal
    stage: str = FRAMES
    finished: RecordStore = field(default_factory=RecordStore)

    def add(self, record: FrameRecord) -> None:
        """Mark a frame as finished; only its record without points stays in memory."""
        self.journal.append(record)
        self.finished[record.frame] = record

    def clear(self) -> None:
        """Forget all frames."""
        self.journal.close()
        _remove_state(self.folder)
        self.journal = Journal(self.journal_path)
        self.finished.clear()

    def records(self) -> Iterator[FrameRecord]:
        """Records of all finished frames with their points, one at a time from disk."""
        return read_journal(self.journal_path)

    @property
    def journal_path(self) -> Path:
        """The path of the journal."""
        return self.folder / f"{self.stage}.journal"

    @property
    def snapshot_path(self) -> Path:
        """The path of the tracker's snapshot."""
        return self.folder / f"{self.stage}.snapshot"

    def close(self) -> None:
        """Flush and close the files."""
        self.journal.close()


def open_state(out: Path, job: Mapping[str, Any], *, resume: bool, stage: str = FRAMES) -> tuple[RunState, str | None]:
    """The state in a run's folder, and why an earlier one could not be used (None: it could, or there was none).

    `job` maps the words of `_WORDS` to JSON values, and `asked` to the crops of the request. Without `resume`, and
    where the job differs, everything starts from the first frame. The caller has claimed the folder (`out_folder`).
    """
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    content = json.loads(json.dumps({"format": FORMAT, "version": VERSION, **job}))
    note = _job_difference(folder, content) if resume else None
    if not resume or note is not None:
        _remove_state(folder)
    remove_torn(out, UNCLAIMED_FOLDERS)
    path = folder / f"{stage}.journal"
    journal = Journal(path)
    finished = RecordStore(read_journal(path))
    write_json(folder / "job.json", content)
    return RunState(folder, journal, stage, finished), note


def open_part(out: Path, name: str) -> RunState:
    """The state of a task that paints a part of a tracked shot; its records go to `name`.journal."""
    path = out / FOLDER / f"{name}.journal"
    journal = Journal(path)
    return RunState(out / FOLDER, journal, name, RecordStore(read_journal(path)))


def crops_before(out: Path, plate: Sequence[Any], asked: Sequence[str]) -> tuple[str, ...] | None:
    """The crops of the run whose state is in a folder, as the command line takes them.

    None where there are none, or that run had other requested crops or another plate.
    """
    try:
        before = json.loads((out / FOLDER / "job.json").read_text(encoding="utf-8"))
        if before["plate"] != list(plate) or before["asked"] != list(asked):
            return None
        words = before["crops"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    is_list = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return tuple(words) if is_list and words else None


def _remove_state(folder: Path) -> None:
    for stage in (FRAMES, TRACKED, SETTLED):
        for path in (folder / f"{stage}.journal", folder / f"{stage}.snapshot"):
            path.unlink(missing_ok=True)
    shutil.rmtree(folder / CHUNKS, ignore_errors=True)


def _job_difference(folder: Path, content: Mapping[str, Any]) -> str | None:
    try:
        before = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "nothing to go on from here"
    except (OSError, ValueError, RecursionError):
        return "the state of the stopped run cannot be read"
    if not isinstance(before, dict):
        return "the state of the stopped run cannot be read"
    changed = [name for name in content if name != "asked" and before.get(name) != content[name]]
    if not changed:
        return None
    return f"{_WORDS.get(changed[0], 'the state is of another kind')}{_change_detail(changed[0], before, content)}"


_LONGEST_SETTING = 60  # characters; longer ones, as boxes at many frames, are not told


def _change_detail(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    was, now_is = setting_text(before.get(name)), setting_text(now[name])
    if name not in ("crops", "frames") or max(len(was), len(now_is)) > _LONGEST_SETTING:
        return ""
    return f" (was {was}, is {now_is})"


class CountedRecords:
    """A state's records, read from disk at each iteration and counted, because a record missing from the journal is not
    done."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._seen: set[int] = set()

    def __iter__(self) -> Iterator[FrameRecord]:
        seen = set[int]()
        for record in self._state.records():
            seen.add(record.frame)
            yield record
        self._seen = seen

    def check(self, out: Path) -> None:
        """Raise DiskError where records of finished frames have disappeared from disk."""
        gone = sorted(set(self._state.finished) - self._seen)
        if gone:
            raise DiskError(
                f"{self._state.journal_path}: lacks frames {summarise(gone)}, which were finished: somebody removed it "
                f"while the run was going on; run again, nothing in {out} was called done"
            )
