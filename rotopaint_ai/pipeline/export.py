"""Exchange files of a run, each read back and compared before it counts as written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import formats
from rotopaint_ai.exchange.formats import FORMATS, Format
from rotopaint_ai.jobs import RunJob
from rotopaint_ai.shapes.roto import RotoDocument


@dataclass(frozen=True, slots=True)
class Exported:
    """A written file: its format, path inside the run's folder, the largest distance of its curves from the shapes in
    pixels, and what it cannot hold."""

    format: str
    path: str
    max_distance_px: float
    loses: str


def names() -> dict[str, Format]:
    """Formats that can be written, by the names that `--export` takes."""
    return {item.name.lower(): item for item in FORMATS if item.write is not None}


def check_exports(wanted: Sequence[str]) -> None:
    """Raises UsageError for a format that does not exist."""
    for name in wanted:
        if name.lower() not in names():
            raise UsageError(f"--export {name}: not a format; wanted some of {', '.join(names())}")


def write_exports(document: RotoDocument, job: RunJob, out: Path) -> list[Exported]:
    """Write `shapes.roto.json` and every format asked for. Raises DocumentError where one reads back wrong."""
    wanted = dict.fromkeys(["rotopaint", *(name.lower() for name in job.exports)])
    return [_export(names()[name], document, out) for name in wanted]


def _export(format: Format, document: RotoDocument, out: Path) -> Exported:
    path = out / f"shapes{format.suffixes[0]}"
    distance, lost = formats.write(path, document)
    return Exported(format.name, path.name, distance, "; ".join(lost))
