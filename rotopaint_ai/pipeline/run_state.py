"""What a run leaves on disk so that a killed one goes on to the same result.

`DIR/.rotopaint/job.json` holds everything that decides a result (plate, crop, pack, settings); `frames.journal` holds a
record of every finished frame; `frames.snapshot` the line's memory between two frames. A run that is split over
processes keeps `tracked.journal` and `tracked.snapshot` for its tracking and `chunks/` for what was painted. A
difference in `job.json` makes the rest worthless, and says so in one line.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rotopaint_ai.files import write_json
from rotopaint_ai.pipeline.out_folder import FOLDER
from rotopaint_ai.pipeline.record_store import FrameRecord, Journal, RecordStore, read_journal

WRITTEN_FOLDERS = (".", FOLDER, "matte", "clean", "report", "report/img")
_TORN = re.compile(r"^\..*\.[0-9a-f]{8}\.part(\.[^.]*)?$")
FORMAT = "rotopaint-run-state"
VERSION = 1
FRAMES, TRACKED = "frames", "tracked"
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
    """The open state of a run: which frames are finished, and where to write the next ones."""

    folder: Path
    journal: Journal
    stage: str = FRAMES
    finished: RecordStore = field(default_factory=RecordStore)

    def add(self, record: FrameRecord) -> None:
        """Mark a frame as finished; in memory it stays without its points."""
        self.journal.append(record)
        self.finished[record.frame] = record

    def clear(self) -> None:
        """Forget all frames."""
        self.journal.close()
        _forget(self.folder)
        self.journal = Journal(self.journal_path)
        self.finished.clear()

    def records(self) -> Iterator[FrameRecord]:
        """Records of all finished frames with their points, one at a time from disk."""
        return read_journal(self.journal_path)

    @property
    def journal_path(self) -> Path:
        """Where the records are kept."""
        return self.folder / f"{self.stage}.journal"

    @property
    def snapshot_path(self) -> Path:
        """Where the line's memory is kept."""
        return self.folder / f"{self.stage}.snapshot"

    def close(self) -> None:
        """Flush and let go of the files."""
        self.journal.close()


def open_state(out: Path, job: Mapping[str, Any], *, resume: bool, stage: str = FRAMES) -> tuple[RunState, str | None]:
    """The state in a run's folder, and why an earlier one could not be used (None: it was, or there was none).

    `job` maps the words of `_WORDS` to JSON values. Without `resume`, and where the job differs, everything starts
    from the first frame. The caller has claimed the folder (`out_folder`).
    """
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    content = json.loads(json.dumps({"format": FORMAT, "version": VERSION, **job}))
    note = _difference(folder, content) if resume else None
    if not resume or note is not None:
        _forget(folder)
    _remove_torn(out)
    path = folder / f"{stage}.journal"
    journal = Journal(path)
    finished = RecordStore(read_journal(path))
    write_json(folder / "job.json", content)
    return RunState(folder, journal, stage, finished), note


def _forget(folder: Path) -> None:
    for stage in (FRAMES, TRACKED):
        for path in (folder / f"{stage}.journal", folder / f"{stage}.snapshot"):
            path.unlink(missing_ok=True)
    shutil.rmtree(folder / CHUNKS, ignore_errors=True)


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
