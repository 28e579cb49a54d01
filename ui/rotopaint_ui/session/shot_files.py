"""The shot on disk: the facts of its plate, the output folder of runs, and their results. No Qt."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.project import run_record
from rotopaint_ai.project.run_record import RunRecord
from rotopaint_ai.shapes.roto import RotoDocument

SHAPES_NAME = "shapes.roto.json"
HAND_NAME = "shapes.before-run.roto.json"  # the artist's keys while a run is under way; gone when it has ended
RUN_NAME = "run.json"
JOB_NAME = ".rotopaint/job.json"  # written when a run begins
CLEAN_NAME = "clean"  # the folder of the clean plates
RIG_FOLDER = "rig"  # the folder of frames without a rig; they have a folder CLEAN_NAME of their own
_MOVIES = frozenset({".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpg", ".mxf", ".webm"})
_PICTURES = frozenset({".cin", ".dpx", ".exr", ".jpeg", ".jpg", ".png", ".tif", ".tiff"})
_SAYS_NOTHING = re.compile(r"(plates?|frames?|img|images?|exr|dpx|jpe?g|png|main|src|v\d+|\d+x\d+)[._]?", re.IGNORECASE)
_NUMBER = re.compile(r"(-?\d+)\D*$")


def rig_frames_folder(out: Path) -> Path:
    """The folder of a shot's frames without its rig."""
    return out / RIG_FOLDER / CLEAN_NAME


@dataclass(frozen=True, slots=True)
class PlateFacts:
    """The decoder's facts about the open plate."""

    source: str
    name: str
    path: Path
    width: int
    height: int
    pixel_aspect: float
    fps: float
    frames: tuple[int, ...]
    missing: tuple[int, ...]
    colourspace: str
    bit_depth: str
    is_named_by_frame: bool = False  # `source` is one file of the sequence

    @classmethod
    def from_json(cls, source: str, facts: Mapping[str, Any]) -> PlateFacts:
        """The facts in the decoder's reply to an open request."""
        return cls(
            source=source,
            name=facts["name"],
            path=Path(facts["path"]),
            width=facts["width"],
            height=facts["height"],
            pixel_aspect=facts["pixel_aspect"],
            fps=facts["fps"],
            frames=tuple(facts["frames"]),
            missing=tuple(facts["missing"]),
            colourspace=facts["colourspace"],
            bit_depth=facts["bit_depth"],
            is_named_by_frame=facts["is_named_by_frame"],
        )

    @property
    def first(self) -> int:
        """First frame on disk."""
        return self.frames[0]

    @property
    def last(self) -> int:
        """Last frame on disk."""
        return self.frames[-1]


def empty_document(plate: PlateFacts) -> RotoDocument:
    """An empty document of the plate's size and frames, for shapes that are drawn before the first run."""
    return RotoDocument(plate.width, plate.height, plate.first, plate.last, plate.pixel_aspect, plate.fps)


@dataclass(frozen=True, slots=True)
class Results:
    """What a run left in its folder. `trouble`: one line on what could not be read; `has_clean`: there are clean
    plates."""

    out: Path
    document: RotoDocument | None = None
    hand: RotoDocument | None = None  # the artist's keys from before a run that was cut off
    run: RunRecord = field(default_factory=RunRecord)
    trouble: str | None = None
    has_clean: bool = False
    is_cut_off: bool = False  # a run began here and has not ended


def read_run_results(out: Path) -> Results:
    """Read the results of a run; changes nothing in memory, so that it may run in a thread."""
    found = Results(out)
    try:
        if (out / SHAPES_NAME).is_file():
            found = replace(found, document=documents.read(out / SHAPES_NAME))
        if (out / HAND_NAME).is_file():
            found = replace(found, hand=documents.read(out / HAND_NAME))
        if (out / RUN_NAME).is_file():
            found = replace(found, run=run_record.read(out / RUN_NAME))
        found = replace(found, is_cut_off=_is_cut_off(out))
        clean = out / CLEAN_NAME
        found = replace(found, has_clean=clean.is_dir() and any(clean.iterdir()))
    except (RotopaintError, OSError) as error:
        found = replace(found, trouble=str(error))
    return found


def _is_cut_off(out: Path) -> bool:
    """Whether the last run in this folder has not ended."""
    job, record = out / JOB_NAME, out / RUN_NAME
    return job.is_file() and not (record.is_file() and record.stat().st_mtime_ns >= job.stat().st_mtime_ns)


def write_document(path: Path, document: RotoDocument) -> None:
    """Write the shot's document, and delete the copy of the artist's keys that `prepare_run` made."""
    documents.write(path, document)
    path.with_name(HAND_NAME).unlink(missing_ok=True)


def shot_name(plate: PlateFacts) -> str:
    """The plate's name or, where that is generic, the nearest folder name that is not."""
    folders = [each.name for each in plate.path.parents if each.name]
    return next((name for name in (plate.name, *folders[:4]) if name and not _SAYS_NOTHING.fullmatch(name)), plate.name)


def plates_in(folder: Path) -> list[str]:
    """The sequences in a folder, as `name.####.exr`; single pictures are left out."""
    counts: dict[str, int] = {}
    for path in folder.iterdir():
        number = _NUMBER.search(path.stem)
        if path.suffix.lower() in _PICTURES and number is not None:
            name = f"{path.stem[: number.start(1)]}####{path.stem[number.end(1) :]}{path.suffix}"
            counts[name] = counts.get(name, 0) + 1
    return sorted(name for name, count in counts.items() if count > 1)


def default_out(plate: PlateFacts) -> Path:
    """The default output folder of this plate: beside the plate's folder, named after folder and plate."""
    folder = plate.path.parent
    return folder.parent / f"{folder.name}_rotopaint" / (plate.name or "plate")


def frame_paths(plate: PlateFacts, frames: Sequence[int]) -> dict[int, Path]:
    """Paths of a plate's frames: the movie itself, or the first file's name with other numbers."""
    stem, path = plate.path.name, plate.path
    number = _NUMBER.search(stem)
    if path.suffix.lower() in _MOVIES or number is None or int(number[1]) != plate.first or len(plate.frames) == 1:
        return dict.fromkeys(frames, path)
    width = len(number[1]) if number[1].startswith("0") else 0
    return {
        frame: path.with_name(f"{stem[: number.start(1)]}{frame:0{width}d}{stem[number.end(1) :]}") for frame in frames
    }


def range_text(span: tuple[int, int] | None) -> str:
    """In and Out as text for buttons; empty where they are not set."""
    return "" if span is None else f"{span[0]}" if span[0] == span[1] else f"{span[0]}\u2013{span[1]}"
