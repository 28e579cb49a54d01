"""Exchange files of a run, each read back and compared before it counts as written; several processes in parallel.

Python runs one thread at a time, so every worker is a process: `python -m rotopaint_ai.pipeline.export DOCUMENT OUT`
reads the shapes, takes names of formats from its input, one per line, and answers each with a line of JSON, the fields
of `ExportedFile`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Final, TextIO

import rotopaint_ai
from rotopaint_ai.errors import DocumentError, UsageError
from rotopaint_ai.exchange import document as roto_json
from rotopaint_ai.exchange import formats, nuke, nuke_reader, nuke_writer, round_trip
from rotopaint_ai.exchange.format_spec import FormatSpec
from rotopaint_ai.exchange.formats import FORMATS
from rotopaint_ai.exchange.round_trip import Proof
from rotopaint_ai.files import file_sha256, free_copy_name, replacing, write_json
from rotopaint_ai.jobs import Event, RunJob, Sink, ignore, warning
from rotopaint_ai.pipeline.out_folder import Files
from rotopaint_ai.project.names import rename_shapes
from rotopaint_ai.shapes.roto import RotoDocument

_RECORD = ".exports.json"  # SHA-256 of the exported files in a run's folder, by name
_PLAIN = re.compile(r"[A-Za-z0-9_]+")  # names that Nuke takes as they are


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A written file: its format, path inside the run's folder, the result of reading it back, and its losses.

    `max_distance_px`: the largest distance of its curves from the source's. `matte_difference`: the largest difference
    of a drawn matte, as a share of its area. `n_keys`: the number of keys. `error`: why there is no file. `sha256`: of
    the file as written; empty for one file per frame.
    """

    format: str
    path: str
    max_distance_px: float
    loses: str
    matte_difference: float = 0.0
    n_keys: int = 0
    error: str = ""
    sha256: str = ""


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


def try_export(format: FormatSpec, document: RotoDocument, out: Path) -> ExportedFile:
    """Write `shapes` in a format; where that fails, or the file reads back wrong, the result has an `error`."""
    try:
        return _export_document(format, document, out)
    except DocumentError as error:
        return ExportedFile(format.name, "", 0.0, "", error=str(error))


def _export_document(format: FormatSpec, document: RotoDocument, out: Path) -> ExportedFile:
    path = out / f"shapes{format.suffixes[0]}"
    is_plain = "nuke" not in document.metadata and not document.layers  # the shapes of a layer stand together
    if is_plain and ".nk" in format.suffixes and all(_PLAIN.fullmatch(shape.name) for shape in document.shapes):
        shown, lost = write_nuke_in_parts(path, document)
    else:
        shown, lost = formats.write_with_proof(path, document)
    distance, matte = shown.max_distance_px, round(shown.matte_difference, 6)
    written = formats.written_path(path)
    digest = file_sha256(written) if written.is_file() else ""
    return ExportedFile(format.name, written.name, distance, "; ".join(lost), matte, n_keys=shown.n_keys, sha256=digest)


def keep_changed_exports(out: Path, names: Iterable[str], sink: Sink = ignore) -> None:
    """Rename those of some files of a folder that somebody has changed since a run wrote them, so that the next run
    replaces none."""
    written = _digests(out)
    for path in (out / name for name in names):
        digest = written.get(path.name)
        if digest is not None and path.is_file() and file_sha256(path) != digest:
            kept = path.rename(free_copy_name(path))
            sink(warning(f"{path.name} was changed by hand since the last run; that file is kept as {kept.name}"))


def record_exports(out: Path, exports: Sequence[ExportedFile]) -> None:
    """Write down what was exported, beside what earlier runs with other formats wrote; see `keep_changed_exports`."""
    write_json(out / _RECORD, {**_digests(out), **{each.path: each.sha256 for each in exports if each.sha256}})


def _digests(out: Path) -> dict[str, str]:
    try:
        found = json.loads((out / _RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    rows = found.items() if isinstance(found, dict) else ()
    return {name: digest for name, digest in rows if isinstance(digest, str)}


def write_nuke_in_parts(path: Path, document: RotoDocument) -> tuple[Proof, tuple[str, ...]]:
    """The same file as `nuke.write_report` writes, made and read back one shape at a time.

    A Nuke curve of a long shot takes some twenty times its text in memory; one shape at a time bounds a run's memory. A
    script with one shape is the empty script with that shape's text inserted, so the parts can be joined. Raises:
    DocumentError where a shape reads back wrong; the file at `path` is then unchanged.
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
    """Write the text by which a document of one shape exceeds the `empty` script; returns its position and the text
    read back."""
    text = nuke.dumps(alone)
    start = _n_common(empty, text)
    if is_first:
        stream.write(text[:start])
    stream.write(text[start : len(text) - (len(empty) - start)])
    return start, nuke_reader.read_text(text, where=where).document


def _n_common(a: str, b: str) -> int:
    """The length of the common beginning of two texts."""
    return next((n for n, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


LEAST_S: Final = 3.0  # what takes less is written before other processes have started
REPORTED_S: Final = 1.0  # shorter exports are not announced
_MODULE: Final = "rotopaint_ai.pipeline.export"
_USUAL_S: Final = 0.0003  # a format's time for one shape on one frame, until something is measured
_TIMES: Final = {  # time relative to the other formats
    "cryptomatte": 8.0,
    "blender": 4.0,
    "coco": 4.0,
    "nuke": 3.5,
    "labelme": 3.0,
    "fusion": 2.5,
}


def write_exports(
    document: RotoDocument,
    job: RunJob,
    out: Path,
    given: Mapping[str, str] | None = None,
    *,
    sink: Sink = ignore,
    threads: int = 1,
) -> list[ExportedFile]:
    """Write `shapes.roto.json`, which is the source itself, and every requested format.

    `given`: names of shapes in these files, where an artist has renamed them. `sink` receives the number of finished
    exports and the remaining time, if that is more than a moment. A format that cannot be written has an `error`; the
    others are written.
    """
    source = out / "shapes.roto.json"
    roto_json.write(source, document)
    named = rename_shapes(document, given or {})
    names = [name for name in dict.fromkeys(name.lower() for name in job.exports) if name != "rotopaint"]
    n_keys = sum(len(shape.keys) for shape in document.shapes)
    own = ExportedFile("RotoPaint", source.name, 0.0, "", n_keys=n_keys, sha256=file_sha256(source))
    usual_s = _n_poses(named) * _USUAL_S
    whole_s = usual_s * sum(_TIMES.get(name, 1.0) for name in names)
    n_workers = min(threads, len(names)) if whole_s >= LEAST_S else 1
    progress = _ExportProgress(names, n_workers, usual_s, sink if whole_s >= REPORTED_S else ignore)
    if n_workers < 2:
        return [own, *(progress.step(name, try_export(export_names()[name], named, out)) for name in names)]
    found = {}
    with TemporaryDirectory(prefix=".rotopaint-", dir=out) as folder:
        if named != document:
            source = Path(folder) / source.name
            roto_json.write(source, named)
        for name, answer in _answers(names, source, out, n_workers):
            found[name] = progress.step(name, answer or try_export(export_names()[name], named, out))
    return [own, *(found[name] for name in names)]


def expected_s(names: Sequence[str], n_frames: int, n_shapes: int, threads: int) -> float:
    """The expected seconds of a run's exports; 0 for exports that take only a moment."""
    weights = [_TIMES.get(name, 1.0) for name in {name.lower() for name in names} - {"rotopaint"}]
    usual_s = n_frames * max(1, n_shapes) * _USUAL_S
    whole_s = usual_s * sum(weights)
    if whole_s < REPORTED_S:
        return 0.0
    return usual_s * _bound_of(weights, min(threads, len(weights)) if whole_s >= LEAST_S else 1)


def _bound_of(weights: Collection[float], n_workers: int) -> float:
    """The least work of the busiest of some parallel workers: an equal share, or the largest piece."""
    return max(sum(weights) / n_workers, max(weights, default=0.0))


def _n_poses(document: RotoDocument) -> int:
    return (document.last_frame - document.first_frame + 1) * max(1, len(document.shapes))


class _ExportProgress:
    """Reports the number of finished exports, and the remaining time estimated from their durations."""

    def __init__(self, names: Sequence[str], n_workers: int, usual_s: float, sink: Sink) -> None:
        self._left = {name: _TIMES.get(name, 1.0) for name in names}
        self._total, self._whole, self._workers = len(names), sum(self._left.values()), n_workers
        self._sink, self._start = sink, time.monotonic()
        if names:
            self._tell(usual_s * _bound_of(self._left.values(), n_workers))

    def step(self, name: str, done: ExportedFile) -> ExportedFile:
        """Count one more export, and return it."""
        del self._left[name]
        rate = (time.monotonic() - self._start) / (self._whole - sum(self._left.values()))
        self._tell(rate * self._workers * _bound_of(self._left.values(), self._workers))
        return done

    def _tell(self, eta_s: float) -> None:
        done = self._total - len(self._left)
        self._sink(Event("progress", {"task": "exports", "done": done, "total": self._total, "eta_s": round(eta_s, 1)}))


def _answers(
    names: Sequence[str], source: Path, out: Path, n_workers: int
) -> Iterator[tuple[str, ExportedFile | None]]:
    """Each name with the answer of its process; None where that ended without one."""
    todo: SimpleQueue[str] = SimpleQueue()
    for name in sorted(names, key=lambda name: -_TIMES.get(name, 1.0)):
        todo.put(name)
    with ThreadPoolExecutor(n_workers, thread_name_prefix="export") as pool:
        workers: SimpleQueue[_Worker] = SimpleQueue()
        for _ in range(n_workers):
            workers.put(_Worker(source, out))
        try:
            jobs = [pool.submit(_ask_next, todo.get, workers) for _ in names]
            for job in as_completed(jobs):
                yield job.result()
        finally:
            while not workers.empty():
                workers.get().close()


def _ask_next(next_name: Callable[[], str], workers: SimpleQueue[_Worker]) -> tuple[str, ExportedFile | None]:
    name, worker = next_name(), workers.get()
    try:
        return name, worker.ask(name)
    finally:
        workers.put(worker)


class _Worker:
    """A process that writes one format after another."""

    def __init__(self, source: Path, out: Path) -> None:
        words = [sys.executable, "-m", _MODULE, str(source.absolute()), str(out.absolute())]
        pipe, home = subprocess.PIPE, Path(rotopaint_ai.__file__).parents[1]  # -m imports from where it starts
        self._process = subprocess.Popen(
            words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd=home, encoding="utf-8"
        )

    def ask(self, name: str) -> ExportedFile | None:
        """Write a format; returns the result, or None where the process ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{name}\n")
            self._process.stdin.flush()
            return ExportedFile(**json.loads(self._process.stdout.readline()))
        except (OSError, ValueError, TypeError):
            return None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def main(words: Sequence[str]) -> int:
    """Answer each name of a format with a line; what libraries print is redirected."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    document, out = roto_json.read(words[0]), Path(words[1])
    for line in sys.stdin:
        print(json.dumps(asdict(try_export(export_names()[line.strip()], document, out))), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
