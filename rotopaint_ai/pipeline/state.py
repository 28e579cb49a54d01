"""What a run leaves on disk so that a killed one goes on to the same result.

`DIR/.rotopaint/job.json` holds everything that decides a result (plate, crop, pack, settings); `frames.journal` holds a
record of every finished frame; `line.snapshot` the line's memory between two frames. A difference in `job.json` makes
the rest worthless, and says so in one line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import write_json
from rotopaint_ai.pipeline.records import FrameRecord, Journal, read_journal

try:
    import fcntl
except ImportError:  # not on Windows, where an open journal keeps a second run out
    fcntl = None  # type: ignore[assignment]

FOLDER = ".rotopaint"
WRITTEN_FOLDERS = (".", FOLDER, "matte", "clean", "report", "report/img")
_TORN = re.compile(r"^\..*\.[0-9a-f]{8}\.part(\.[^.]*)?$")
FORMAT = "rotopaint-run-state"
VERSION = 1
JOURNAL = "frames.journal"
SNAPSHOT = "line.snapshot"

_WORDS = {
    "rotopaint": "this is another version of the product",
    "plate": "the plate changed",
    "frames": "the frame range changed",
    "crops": "the crop changed",
    "pack": "the model pack changed",
    "settings": "the settings changed",
}


@dataclass(slots=True)
class RunState:
    """The open state of a run: which frames are finished, and where to write the next ones."""

    folder: Path
    journal: Journal
    lock: IO[str]
    finished: dict[int, FrameRecord] = field(default_factory=dict)

    def add(self, record: FrameRecord) -> None:
        """Mark a frame as finished; in memory it stays without its points."""
        self.journal.append(record)
        self.finished[record.frame] = record.light()

    def clear(self) -> None:
        """Forget all frames."""
        self.journal.close()
        (self.folder / JOURNAL).unlink(missing_ok=True)
        self.snapshot_path.unlink(missing_ok=True)
        self.journal = Journal(self.folder / JOURNAL)
        self.finished.clear()

    def records(self) -> Iterator[FrameRecord]:
        """Records of all finished frames with their points, one at a time from disk."""
        return read_journal(self.folder / JOURNAL)

    @property
    def snapshot_path(self) -> Path:
        """Where the line's memory is kept."""
        return self.folder / SNAPSHOT

    def close(self) -> None:
        """Flush and let go of the files."""
        self.journal.close()
        self.lock.close()


def open_state(out: Path, job: Mapping[str, Any], *, resume: bool) -> tuple[RunState, str | None]:
    """The state in a run's folder, and why an earlier one could not be used (None: it was, or there was none).

    `job` maps the words of `_WORDS` to JSON values. Without `resume`, and where the job differs, everything starts
    from the first frame.
    """
    folder = out / FOLDER
    lock = _lock(out)
    content = json.loads(json.dumps({"format": FORMAT, "version": VERSION, **job}))
    note = _difference(folder, content) if resume else None
    if not resume or note is not None:
        for name in (JOURNAL, SNAPSHOT):
            (folder / name).unlink(missing_ok=True)
    _remove_torn(out)
    journal = Journal(folder / JOURNAL)
    finished = {record.frame: record.light() for record in read_journal(folder / JOURNAL)}
    write_json(folder / "job.json", content)
    return RunState(folder, journal, lock, finished), note


def _lock(out: Path) -> IO[str]:
    """Keep a second run out of the folder for as long as this process lives."""
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    stream = (folder / "lock").open("w")
    if fcntl is not None:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            stream.close()
            raise UsageError(f"{out}: another run is writing here; wait for it, or choose another --out") from error
    return stream


def _remove_torn(out: Path) -> None:
    """Remove what a killed process was writing beside its targets."""
    for folder in WRITTEN_FOLDERS:
        for path in (out / folder).glob(".*.part*"):
            if _TORN.match(path.name):
                path.unlink(missing_ok=True)


def _difference(folder: Path, content: Mapping[str, Any]) -> str | None:
    try:
        before = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "nothing to go on from here"
    except (OSError, ValueError):
        return "the state of the stopped run cannot be read"
    changed = [name for name in content if before.get(name) != content[name]]
    if not changed:
        return None
    return f"{_WORDS.get(changed[0], 'the state is of another kind')}{_detail(changed[0], before, content)}"


def _detail(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if name not in ("crops", "frames"):
        return ""
    return f" (was {_shown(before.get(name))}, is {_shown(now[name])})"


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
