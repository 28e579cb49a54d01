"""Exchange files of a run, each read back and compared before it counts as written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from rotopaint_ai.errors import DocumentError, UsageError
from rotopaint_ai.exchange import formats, nuke, nuke_reader, nuke_writer, round_trip
from rotopaint_ai.exchange.format_spec import FormatSpec
from rotopaint_ai.exchange.formats import FORMATS
from rotopaint_ai.exchange.round_trip import Proof
from rotopaint_ai.files import replacing
from rotopaint_ai.pipeline.out_folder import Files
from rotopaint_ai.shapes.roto import RotoDocument

_PLAIN = re.compile(r"[A-Za-z0-9_]+")  # names that Nuke takes as they are


@dataclass(frozen=True, slots=True)
class Exported:
    """A written file: its format, path inside the run's folder, what reading it back has shown, what it cannot hold.

    `max_distance_px` is the largest distance of its curves from the shapes', `matte_difference` the largest share of a
    matte's area by which one drawn from the file differs, `n_keys` the keys in it. `error` says why there is no file.
    """

    format: str
    path: str
    max_distance_px: float
    loses: str
    matte_difference: float = 0.0
    n_keys: int = 0
    error: str = ""


def export_names() -> dict[str, FormatSpec]:
    """Formats that can be written, by the names that `--export` takes."""
    return {item.name.lower(): item for item in FORMATS if item.write is not None}


def check_exports(wanted: Sequence[str]) -> None:
    """Raises UsageError for a format that does not exist."""
    for name in wanted:
        if name.lower() not in export_names():
            raise UsageError(f"--export {name}: not a format; wanted some of {', '.join(export_names())}")


def export_files(wanted: Sequence[str]) -> list[Files]:
    """The files of a run that exports these formats."""
    suffixes = [
        ".roto.json",
        *(export_names()[name.lower()].suffixes[0] for name in wanted if name.lower() != "rotopaint"),
    ]
    written = (formats.written_path(Path(f"shapes{suffix}")).name for suffix in dict.fromkeys(suffixes))
    return [Files(".", name, "") for name in written]


def try_export(format: FormatSpec, document: RotoDocument, out: Path) -> Exported:
    """Write `shapes` in a format; one that cannot be written, or reads back wrong, has an `error`."""
    try:
        return _export_document(format, document, out)
    except DocumentError as error:
        return Exported(format.name, "", 0.0, "", error=str(error))


def _export_document(format: FormatSpec, document: RotoDocument, out: Path) -> Exported:
    path = out / f"shapes{format.suffixes[0]}"
    is_plain = "nuke" not in document.metadata and not document.layers  # the shapes of a layer stand together
    if is_plain and ".nk" in format.suffixes and all(_PLAIN.fullmatch(shape.name) for shape in document.shapes):
        shown, lost = write_nuke_in_parts(path, document)
    else:
        shown, lost = formats.write_with_proof(path, document)
    distance, matte = shown.max_distance_px, round(shown.matte_difference, 6)
    return Exported(format.name, formats.written_path(path).name, distance, "; ".join(lost), matte, shown.n_keys)


def write_nuke_in_parts(path: Path, document: RotoDocument) -> tuple[Proof, tuple[str, ...]]:
    """The same file as `nuke.write_report` writes, made and read back one shape at a time.

    A Nuke curve of a long shot takes some twenty times its text in memory; one shape at a time keeps a run's memory
    flat. A script with one shape is the script with none and that shape's text in between, so the parts can be joined.
    Raises: DocumentError where a shape reads back wrong; what was at `path` stays then.
    """
    empty = nuke.dumps(replace(document, shapes=()))
    lost = dict.fromkeys(nuke_writer.losses(document, {shape.name: (shape.name,) for shape in document.shapes}))
    parts, cut = [], 0
    with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as stream:
        for shape in (each for each in document.shapes if each.keys):
            alone = replace(document, shapes=(shape,))
            start, found = _written_part(stream, alone, empty, path.name, is_first=not cut)
            cut = start
            parts.append(round_trip.compare(alone, found, loses=nuke.NOT_KEPT).require(path.name))
            del found  # before the next shape's is made
        stream.write(empty[cut:])
    return Proof.joined(parts), tuple(lost)


def _written_part(
    stream: TextIO, alone: RotoDocument, empty: str, where: str, *, is_first: bool
) -> tuple[int, RotoDocument]:
    """Write what a document of one shape adds to the `empty` script; returns where in that, and the text read back."""
    text = nuke.dumps(alone)
    start = _n_common(empty, text)
    if is_first:
        stream.write(text[:start])
    stream.write(text[start : len(text) - (len(empty) - start)])
    return start, nuke_reader.read_text(text, where=where).document


def _n_common(a: str, b: str) -> int:
    """Length of the beginning that two texts share."""
    return next((n for n, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
