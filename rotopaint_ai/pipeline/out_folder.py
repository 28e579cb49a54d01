"""The folder that a job writes into: its owner job, the files in it that are ours, and its lock.

`DIR/.rotopaint/folder.json` records which plate and job a folder belongs to, and which of its files we wrote. Every
command that writes pictures claims its folder first. A claim is refused, before anything is written, where the folder
belongs to another plate or job, where it would replace somebody else's file, where a source lies in a folder to be
written, where a folder is a link, and where a folder or a pipe is in place of a file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import write_json
from rotopaint_ai.frames import FrameRange, summarise
from rotopaint_ai.locks import hold_lock
from rotopaint_ai.plates.deflate import crc32
from rotopaint_ai.plates.plate import Plate
from rotopaint_ai.plates.sequence import pad

FOLDER = ".rotopaint"
NAME = "folder.json"
FORMAT = "rotopaint-folder"
VERSION = 1
_NUMBERED = re.compile(r"^(?P<stem>.*)\.(?P<number>-?\d+)(?P<suffix>\.[^.]+)$", re.DOTALL)
SAME_TIME_NS = 2_000_000_000  # some disks keep times of files to two seconds
_TORN = re.compile(r"^\..*\.[0-9a-f]{8}\.part(\.[^.]*)?$", re.DOTALL)
_MOST_PADDING = 255  # digits, as long as a file's name can be
_SAMPLE_BYTES = 1 << 20  # bytes of a source's start and end, by which it is recognised under another path


@dataclass(frozen=True, slots=True)
class Files:
    """Files that a job writes: one per frame, `stem.<frame>suffix`, in a folder below DIR; without `frames`, a single
    file."""

    folder: str
    stem: str
    suffix: str
    frames: frozenset[int] | None = None
    padding: int = 4

    def name_of(self, frame: int) -> str:
        """The name of a frame's file."""
        return f"{self.stem}.{pad(frame, self.padding)}{self.suffix}"

    def to_json(self) -> list[Any]:
        """The files as JSON values."""
        frames = None if self.frames is None else summarise(self.frames)
        return [self.folder, self.stem, self.suffix, frames, self.padding]

    @classmethod
    def from_json(cls, row: Sequence[Any]) -> Files:
        """The files that `to_json` described. Raises ValueError or UsageError on anything else."""
        if not (isinstance(row, list) and [type(value) for value in row] in _ROWS):
            raise ValueError("files: wanted folder, stem, suffix, frames and padding of each")
        folder, stem, suffix, text, padding = row
        if not 0 <= padding <= _MOST_PADDING:
            raise ValueError(f"padding {padding}: wanted 0 to {_MOST_PADDING}")
        parts = () if text in (None, "none") else text.split(", ")
        frames = None if text is None else frozenset(f for part in parts for f in FrameRange.parse(part))
        return cls(folder, stem, suffix, frames, padding)


_ROWS = ([str, str, str, str, int], [str, str, str, type(None), int])  # kinds of the values of `Files.to_json`


@dataclass(frozen=True, slots=True)
class FolderClaim:
    """A job's claim on a folder: its plate, its settings, the files it writes, and its other sources.

    `job`: the values that distinguish two jobs of one plate, as JSON values; if empty, any job may follow any other.
    """

    out: Path
    files: Sequence[Files]
    plate: Plate | None = None
    sources: Sequence[Plate] = ()
    job: Mapping[str, Any] | None = None
    size: tuple[int, int] | None = None
    overwrite: bool = False


@contextmanager
def claim_folder(claim: FolderClaim) -> Iterator[None]:
    """Claim the folder while the block runs, after removing what killed processes left in it.

    Raises: UsageError with the reason where the claim is refused.
    """
    refuse_sources(claim.out, claim.files, [*([claim.plate] if claim.plate else []), *claim.sources])
    _refuse_links(claim.out, claim.files)
    _refuse_what_is_no_file(claim.out, claim.files)
    busy = f"{claim.out}: another run is writing here; wait for it, or choose another --out"
    state = claim.out / FOLDER
    known = _read_note(state / NAME)
    _refuse_others(claim, known)
    with hold_lock(state / "lock", refusal=busy):
        known = _read_note(state / NAME)  # another process may have written here until now
        _refuse_others(claim, known)
        remove_torn(claim.out, {FOLDER, *(each.folder for each in claim.files)})
        write_json(state / NAME, _note_content(claim, known), indent=None)
        yield


def remove_torn(out: Path, folders: Iterable[str]) -> None:
    """Delete temporary files that killed processes have left in folders below `out`."""
    for folder in folders:
        for path in (out / folder).glob(".*.part*"):
            if _TORN.match(path.name):
                with suppress(OSError):  # it does no harm
                    path.unlink()


def refuse_sources(out: Path, files: Iterable[Files], sources: Iterable[Plate]) -> None:
    """Raise UsageError where frames of a source lie in `out`, or in a folder in it to be written, directly or by
    links."""
    targets = {(out / folder).resolve() for folder in (".", FOLDER, *(each.folder for each in files))}
    for source in sources:
        inside = _folders_of(source) & targets
        if inside:
            where = sorted(inside)[0]
            raise UsageError(
                f"--out {out}: {source.name} itself lies in {where}, which would be written to; choose another"
            )


def _folders_of(source: Plate) -> set[Path]:
    """The folders of a source's files, with links resolved."""
    paths = {source.path_of(frame) for frame in source.frames}
    folders = {folder.resolve() for folder in {path.parent for path in paths}}
    return folders | {path.resolve().parent for path in paths if path.is_symlink()}


def _refuse_links(out: Path, files: Iterable[Files]) -> None:
    for folder in [FOLDER, *sorted({each.folder for each in files} - {"."})]:
        path = out
        for part in Path(folder).parts:
            path = path / part
            if path.is_symlink():
                raise _link_refusal(path)
    for name in sorted(_names_in(out / FOLDER)):
        if (out / FOLDER / name).is_symlink():
            raise _link_refusal(out / FOLDER / name)


def _refuse_what_is_no_file(out: Path, files: Sequence[Files]) -> None:
    """Refuse pipes, folders and files in wrong places before the work starts.

    A pipe in `.rotopaint` would block its reader for ever. A folder in place of a file, or a file in place of a folder,
    would be noticed only at the end."""
    for folder in sorted({each.folder for each in files} | {FOLDER}):
        wanted = _Matcher(each for each in files if each.folder == folder)
        try:
            entries = list(os.scandir(out / folder))
        except NotADirectoryError:
            where = out / folder if out.is_dir() else out
            raise UsageError(f"{where}: is a file, or lies in one; wanted a folder") from None
        except FileNotFoundError:
            continue
        for entry in entries:
            is_ours = wanted.has(entry.name) or (folder == FOLDER and not entry.is_dir())
            if is_ours and not entry.is_file() and not entry.is_symlink():
                raise UsageError(f"{entry.path}: is no file, and one of ours goes there; remove it")


def _link_refusal(path: Path) -> UsageError:
    return UsageError(f"{path}: is a symbolic link, which is never written through; remove it")


def _refuse_others(claim: FolderClaim, known: Mapping[str, Any] | None) -> None:
    if claim.overwrite:
        return
    advice = "choose another --out, or add --overwrite"
    if known is not None:
        if whose := _other_plate(claim, known.get("plate") or {}):
            raise UsageError(f"{claim.out}: belongs to {whose}; {advice}")
        before, now = known.get("job") or {}, claim.job or {}
        changed = [name for name in now if name in before and before[name] != now[name]]
        if changed:
            was, new = (setting_text(values[changed[0]]) for values in (before, now))
            raise UsageError(f"{claim.out}: belongs to a job with {changed[0]} {was}, this one has {new}; {advice}")
    if foreign := _foreign(claim, known):
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise UsageError(f"{claim.out / foreign[0]}{more}: not written by RotoPaint, and would be replaced; {advice}")


class Stamp(NamedTuple):
    """The facts of a written file: size in bytes, time in nanoseconds, and CRC-32 of its content."""

    size: int
    mtime_ns: int
    crc32: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """The stamp of a file that was just written. Raises OSError where it is gone."""
        with path.open("rb") as stream:
            facts = os.fstat(stream.fileno())
            return cls(facts.st_size, facts.st_mtime_ns, crc32(stream.read()))

    def stands(self, path: Path, facts: os.stat_result | None) -> bool:
        """Whether the file at `path`, with these `facts` of now, is still the one that was written.

        Its content is compared where its time differs from the stamp, or its change time (`st_ctime`, which nobody can
        set) is later. So a copy of the file counts, too.
        """
        if facts is None or not stat.S_ISREG(facts.st_mode) or facts.st_size != self.size:
            return False
        times = abs(facts.st_mtime_ns - self.mtime_ns), facts.st_ctime_ns - self.mtime_ns
        return max(times) <= SAME_TIME_NS or _has_content(path, self.crc32)


def _has_content(path: Path, wanted: int) -> bool:
    try:
        return crc32(path.read_bytes()) == wanted
    except OSError:
        return False


Stamps = Mapping[str, Stamp | None]  # by name below the folder


def stamps_of(out: Path, files: Iterable[Files], frame: int) -> Stamps:
    """The stamps of the files just written for a frame; None where one is already gone."""
    names = [f"{each.folder}/{each.name_of(frame)}" for each in files if each.frames is not None]
    return {name: _stamp_or_none(out / name) for name in names}


def _stamp_or_none(path: Path) -> Stamp | None:
    try:
        return Stamp.of(path)
    except OSError:
        return None


def facts_in(out: Path, folders: Iterable[str]) -> dict[str, os.stat_result]:
    """Facts (`os.stat`) of all files in some folders below `out`; listed folder by folder, which is fast on network
    disks."""
    facts: dict[str, os.stat_result] = {}
    for folder in folders:
        with suppress(OSError), os.scandir(out / folder) as entries:
            for entry in entries:
                with suppress(OSError):  # it was deleted meanwhile
                    facts[f"{folder}/{entry.name}"] = entry.stat()
    return facts


def frames_not_as_written(out: Path, written: Mapping[int, Stamps]) -> list[int]:
    """Frames with a file that is gone or differs from what was written."""
    folders = {name.rpartition("/")[0] for stamps in written.values() for name in stamps}
    there = facts_in(out, sorted(folders))
    return sorted(
        frame
        for frame, stamps in written.items()
        if any(stamp is None or not stamp.stands(out / name, there.get(name)) for name, stamp in stamps.items())
    )


def facts_at(path: Path) -> os.stat_result | None:
    """Facts (`os.stat`) of a file; None where it does not exist."""
    try:
        return path.stat()
    except OSError:
        return None


def other_frames(out: Path, files: Iterable[Files]) -> list[int]:
    """Frames outside a job that have files on disk under the job's names, from an earlier run."""
    wanted = [each for each in files if each.frames is not None]
    there = {each.folder: _names_in(out / each.folder) for each in wanted}
    numbered = {each: filter(None, map(_NUMBERED.match, there[each.folder])) for each in wanted}
    found = {(each, int(match["number"]), match[0]) for each, names in numbered.items() for match in names}
    return sorted({n for each, n, name in found if n not in (each.frames or ()) and name == each.name_of(n)})


def _names_in(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return set()


def setting_text(value: Any) -> str:
    """A setting of a job as text for a message."""
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _foreign(claim: FolderClaim, known: Mapping[str, Any] | None) -> list[str]:
    """Files on disk that the job would replace but that we did not write."""
    if known is not None and known.get("files") is None:
        return []  # from a version that did not record counts
    ours = [Files.from_json(row) for row in (known or {}).get("files", ())]
    found: list[str] = []
    for folder in sorted({each.folder for each in claim.files}):
        wanted = _Matcher(each for each in claim.files if each.folder == folder)
        mine = _Matcher(each for each in ours if each.folder == folder)
        try:
            names = sorted(entry.name for entry in os.scandir(claim.out / folder) if not entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            continue
        found += [f"{folder}/{name}".removeprefix("./") for name in names if wanted.has(name) and not mine.has(name)]
    return found


class _Matcher:
    """Tells whether a file's name is among some `Files` of one folder."""

    def __init__(self, files: Iterable[Files]) -> None:
        self._single: set[str] = set()
        self._numbered: dict[tuple[str, str, int], frozenset[int]] = {}
        for each in files:
            if each.frames is None:
                self._single.add(each.stem + each.suffix)
            else:
                key = (each.stem, each.suffix, each.padding)
                self._numbered[key] = self._numbered.get(key, frozenset()) | each.frames
        self._paddings = {padding for _, _, padding in self._numbered}

    def has(self, name: str) -> bool:
        """Whether the name is among them."""
        if name in self._single:
            return True
        match = _NUMBERED.match(name)
        if match is None:
            return False
        frame = int(match["number"])
        return any(
            match["number"] == pad(frame, padding)
            and frame in self._numbered.get((match["stem"], match["suffix"], padding), ())
            for padding in self._paddings
        )


def _other_plate(claim: FolderClaim, before: Mapping[str, Any]) -> str | None:
    """The plate that a folder belongs to; None where that is the claim's plate, or is not recorded."""
    size = (claim.plate.width, claim.plate.height) if claim.plate is not None else claim.size
    was = before.get("size")
    if size is not None and was is not None and tuple(was) != size:
        return f"{before.get('name')} of {was[0]} x {was[1]}, not {size[0]} x {size[1]}"
    if claim.plate is None or "place" not in before:
        return None
    place = _plate_place(claim.plate)
    if before["place"] == place or _is_known_again(claim.plate, before):
        return None
    return f"the plate {before['place']}, not {place}"


def _is_known_again(plate: Plate, before: Mapping[str, Any]) -> bool:
    """Whether a plate at another path is the recorded one, by the hash of a sample frame."""
    if before.get("sample") is None or before.get("frame") not in plate.frames:
        return False
    return bool(_sample_hash(plate, before["frame"]) == before["sample"])


def _plate_place(plate: Plate) -> str:
    """The path of a plate: the pattern of its frames, or the movie."""
    path = plate.path_of(plate.frames[0])
    folder = path.parent.resolve()
    return str(folder / path.name) if plate.is_movie else str(folder / f"{plate.name}.#{plate.suffix}")


def _sample_hash(plate: Plate, frame: int) -> str | None:
    """A hash of the beginning and the end of a frame's file; None where it cannot be read."""
    try:
        with plate.path_of(frame).open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            digest = hashlib.sha256(f"{size}\n".encode() + stream.read(_SAMPLE_BYTES))
            stream.seek(max(size - _SAMPLE_BYTES, 0))
            digest.update(stream.read(_SAMPLE_BYTES))
            return digest.hexdigest()
    except OSError:
        return None


def _note_content(claim: FolderClaim, known: Mapping[str, Any] | None) -> dict[str, Any]:
    before = known or {}
    rows = [each.to_json() for each in claim.files]
    kept = [] if before.get("files") is None else [row for row in before["files"] if row not in rows]
    plate = dict(before.get("plate") or {})
    if claim.plate is not None:
        frame = claim.plate.frames[0]
        plate = {
            "name": claim.plate.name,
            "size": [claim.plate.width, claim.plate.height],
            "place": _plate_place(claim.plate),
            "frame": frame,
            "sample": _sample_hash(claim.plate, frame),
        }
    elif claim.size is not None and "place" not in plate:
        plate = {"name": "shapes", "size": list(claim.size)}
    job = dict(claim.job) if claim.job is not None else before.get("job")
    is_old = known is not None and known.get("files") is None  # then everything there counts as ours
    files = None if is_old else [*kept, *rows]
    return {"format": FORMAT, "version": VERSION, "plate": plate, "job": job, "files": files}


def _read_note(path: Path) -> dict[str, Any] | None:
    """The record in a folder; None without one. Folders of older versions record their plate only."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.get("format") == FORMAT:
            _check_folder_record(content)
            return dict(content)
    except FileNotFoundError:
        return _read_old(path.with_name("job.json"))
    except (OSError, ValueError, AttributeError, RecursionError, UsageError) as error:
        raise UsageError(f"{path}: cannot be read ({error}); remove it, and add --overwrite") from error
    raise UsageError(f"{path}: is of another kind; remove it, and add --overwrite")


def _check_folder_record(note: Mapping[str, Any]) -> None:
    """Raise ValueError or UsageError where a record differs in shape from `_note_content`."""
    if note.get("version", VERSION) not in range(1, VERSION + 1):
        raise ValueError(f"version {note['version']}: wanted {VERSION} at most")
    for name, kind in (("plate", dict), ("job", dict), ("files", list)):
        if not isinstance(note.get(name), (kind, type(None))):
            raise ValueError(f"{name}: is no {'list' if kind is list else 'object'}")
    plate = note.get("plate") or {}
    size = plate.get("size")
    if size is not None and not (isinstance(size, list) and [type(value) for value in size] == [int, int]):
        raise ValueError("size of the plate: wanted width and height")
    if not isinstance(plate.get("frame"), (int, type(None))):
        raise ValueError("frame of the plate: wanted a number")
    for row in note.get("files") or ():
        Files.from_json(row)


def _read_old(path: Path) -> dict[str, Any] | None:
    try:
        name, _, width, height, _ = json.loads(path.read_text(encoding="utf-8"))["plate"]
        return {"plate": {"name": name, "size": [width, height]}, "files": None}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
