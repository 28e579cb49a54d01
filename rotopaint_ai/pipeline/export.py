"""Exchange files of a run, each read back and compared before it counts as written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document as roto_json
from rotopaint_ai.exchange import nuke
from rotopaint_ai.jobs import RunJob
from rotopaint_ai.shapes.roto import RotoDocument


@dataclass(frozen=True, slots=True)
class Exported:
    """A written file: its format, path inside the run's folder, the largest distance of its curves from the shapes in
    pixels (None: not measured), and what it cannot hold."""

    format: str
    path: str
    max_distance_px: float | None
    loses: str


def _write_nuke(path: Path, document: RotoDocument) -> tuple[float | None, str]:
    proof = nuke.write_report(path, document)
    return proof.max_error_px, "; ".join(proof.losses)


Writer = Callable[[Path, RotoDocument], tuple[float | None, str]]
WRITERS: Mapping[str, tuple[str, Writer]] = MappingProxyType({"nuke": ("shapes.nk", _write_nuke)})


def check_exports(names: Sequence[str]) -> None:
    """Raises UsageError for a format that does not exist."""
    for name in names:
        if name not in WRITERS:
            raise UsageError(f"--export {name}: not a format; wanted some of {', '.join(WRITERS)}")


def write_exports(document: RotoDocument, job: RunJob, out: Path) -> list[Exported]:
    """Write `shapes.roto.json` and every format asked for. Raises DocumentError where one reads back wrong."""
    roto_json.write(out / "shapes.roto.json", document)
    return [Exported("roto.json", "shapes.roto.json", 0.0, ""), *(_export(name, document, out) for name in job.exports)]


def _export(name: str, document: RotoDocument, out: Path) -> Exported:
    file, write = WRITERS[name]
    distance, loses = write(out / file, document)
    return Exported(name, file, distance, loses)
