"""Fuzzing every reader of untrusted files with damaged files: it must open them, or refuse them in one line.

    python benchmarks/fuzz.py [READER ...] [--tries 1000] [--seed 1] [--seconds S] [--json FILE]
    python benchmarks/fuzz.py READER --guided CORPORA/READER [--seconds 1800]    by coverage; `pip install atheris`
    python benchmarks/fuzz.py --collect CORPORA --json tests/bench/corpus.json   a sample, for every test run

Each reader runs in a separate process, with 4 GB and 20 seconds of processor time per try, so that a crash or a hang is
recorded as a find and does not end the fuzzing. Finds are kept with their seed; the exit code is 1 where there is any.
"""

from __future__ import annotations

import argparse
import base64
import faulthandler
import json
import multiprocessing
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

_READING = ("exchange.formats", "plates.plate", "project", "project.run_record", "project.corrected_frames")
_READING += ("pipeline.overrides", "training.data.shards.store", "training.data.dataset", "inference.pack", "sheet")
_READING += ("batch.jobs_file",)


def _our_lines() -> Any:
    """Modules imported inside the block report their executed lines, where the run is guided by coverage."""
    if "--guided" not in sys.argv:
        return nullcontext()
    import atheris

    return atheris.instrument_imports(include=["rotopaint_ai"])


with _our_lines():  # must come first: modules imported earlier report nothing
    from rotopaint_ai.errors import PackError, RotopaintError
    from rotopaint_ai.exchange import document
    from rotopaint_ai.pipeline import overrides
    from rotopaint_ai.project import State, codecs
    from rotopaint_ai.project.corrected_frames import corrections
    from tests.exchange import mutations
    from tests.project import requeried

    for _name in _READING:
        import_module(f"rotopaint_ai.{_name}")

MOST_BYTES, MOST_S = 4 << 30, 20


@dataclass(frozen=True)
class Reader:
    """A reader to fuzz: `seeds` writes good files into a folder; `read` reads a damaged file."""

    seeds: Callable[[Path], list[Path]]
    read: Callable[[Path], object]


def _plates(folder: Path) -> list[Path]:
    import cv2
    import OpenImageIO as oiio

    picture = np.random.default_rng(1).integers(0, 255, (40, 36, 3), np.uint8)
    paths = [folder / f"plate.1001.{kind}" for kind in ("png", "jpg", "tiff")]
    for path in paths:
        cv2.imwrite(str(path), picture)
    for suffix, kind in (("exr", oiio.HALF), ("dpx", oiio.UINT16)):
        path = folder / f"plate.1001.{suffix}"
        written = oiio.ImageOutput.create(str(path))
        written.open(str(path), oiio.ImageSpec(36, 40, 3, kind))
        written.write_image((picture / 255).astype(np.float32))
        written.close()
        paths.append(path)
    return paths


def _read_plate(path: Path) -> None:
    from rotopaint_ai.plates.plate import open_plate

    with open_plate(path) as plate:
        plate.read(plate.frames[0])


def _projects(folder: Path) -> list[Path]:
    """A small project with every kind of content, in pages of 512 bytes, so that tries are fast."""
    import sqlite3

    from rotopaint_ai.project import Project, run_record

    path = folder / "shot.rotopaint"
    state = requeried.sample_state()
    with closing(Project.create(path, State())) as project:
        project.append("all", State(), state)
        project.append("mark", state, replace(state, marks={5: "rejected"}))
        project.take_back(2)
        project.set_note("run", run_record.to_json(run_record.RunRecord({5: {"seam": 0.5}}, held=((5, 6),))))
        project.set_note("plate", {"source": "a/plate.####.exr", "colourspace": None})
        project.set_files({5: ("plate.0005.exr", 1000, 2000, "ab")})
    with closing(sqlite3.connect(path)) as db:
        db.executescript("PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM;")
    for backup in folder.glob(".shot.*"):
        backup.unlink()
    return [path]


def _read_project(path: Path) -> None:
    """Open a project to read it, go through its steps, ask what a run would keep, and write everything again."""
    from rotopaint_ai.project import Project, run_record

    with closing(Project.open(path, write=False)) as project:
        loaded = project.load()
        for name in ("plate", "out", "painted", "view"):
            project.note(name)
        if known := project.note("run"):
            run_record.from_json(known)
        project.files()
        for step in (*loaded.behind, *loaded.ahead)[:3]:
            project.before(step.number, loaded.state)
            project.after(step.number, loaded.state)
    _use_state(path, loaded.state)


def _use_state(path: Path, state: State) -> None:
    """Use a state as if it were a good one: write it as a document and as a project, mine it, run it."""
    for track, values in codecs.tracks_of(state).items():
        for value in values.values():
            codecs.unpack(track.kind, codecs.pack(track.kind, value))
    if state.document is not None:
        document.loads(document.dumps(state.document))
        corrections(path)
    work = overrides.read_inputs(path).work
    work.fingerprint()
    for frame in sorted(state.crops)[:3]:
        work.digest(frame)


def _text_seed(name: str, text: str) -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        (folder / name).write_text(text, encoding="utf-8")
        return [folder / name]

    return write


def _read_index(path: Path) -> None:
    from rotopaint_ai.training.data.shards.store import parse_index

    index = parse_index(path.read_bytes(), path.name)
    if parse_index(index.dump(), path.name).places() != index.places():
        raise AssertionError("an index changes when it is read, written and read again")


def _dataset_files(folder: Path) -> list[Path]:
    """A data set of three samples, and one more with all optional fields."""
    names = ("samples.jsonl", "head.json", "sheet.yaml")
    return [_text_seed(name, text)(folder)[0] for name, text in zip(names, (_SAMPLE * 3, _HEAD, _SHEET))]


def _read_dataset(path: Path) -> None:
    """Read a data set with one damaged file; its pictures are not opened."""
    from rotopaint_ai.training.data.dataset import read_dataset

    folder = path.parent / "set"
    folder.mkdir(exist_ok=True)
    names = {".jsonl": "samples.jsonl", ".json": "dataset.json", ".yaml": "sheet.yaml"}
    for ending, text in ((".jsonl", _SAMPLE), (".json", _HEAD), (".yaml", _SHEET)):
        (folder / names[ending]).write_bytes(path.read_bytes() if ending == path.suffix else text.encode())
    data = read_dataset(folder)
    data.rows_of("train")
    data.truth.scaled(np.ones((len(data), 2)))


def _read_sheet(path: Path) -> None:
    from rotopaint_ai.sheet import load_sheet

    load_sheet(path)


def _read_jobs(path: Path) -> None:
    from rotopaint_ai.batch.jobs_file import read_show

    read_show(path)


def _read_run(path: Path) -> None:
    """Read a run record, use it as the panel does (worst frames, beside human keys), and store it in a project."""
    from rotopaint_ai.project import run_record

    record = run_record.read(path)
    keyed = {"seam": frozenset({1002}), "bridge": frozenset()}
    record.worst([*record.errors, *record.lost, *record.failed], settled=frozenset({1001}), keyed=keyed)
    record.errors_by_shape()
    run_record.from_json(json.loads(json.dumps(run_record.to_json(record))))


def _packs(folder: Path) -> list[Path]:
    from rotopaint_ai.inference.pack import find_pack

    return [find_pack() / name for name in ("card.json", "shapes.onnx", "sheet.yaml")]


def _read_pack(path: Path) -> None:
    """Read a pack with one damaged file; the card has the hash of that file, unless the card itself is damaged."""
    import shutil

    from rotopaint_ai.inference.pack import find_pack, load_pack, write_card

    folder, name = path.parent / "pack", path.suffix
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(find_pack(), folder)
    target = {".json": "card.json", ".onnx": "shapes.onnx", ".yaml": "sheet.yaml"}[name]
    card = json.loads((folder / "card.json").read_text())
    (folder / target).write_bytes(path.read_bytes())
    if target != "card.json":
        write_card(folder, {key: value for key, value in card.items() if key not in ("format", "version", "files")})
    load_pack(folder)


def _card_files(folder: Path) -> list[Path]:
    """The card and the sheet of a small pack, and the model process's description of its models."""
    sides = {
        "landmarks.onnx": (
            {"crop": ["N", 32, 32, 3]},
            {"landmarks": ["N", 2, 2], "expected_error": ["N", 2], "visible": ["N", 2]},
        ),
        "shapes.onnx": ({"landmarks": ["N", 2, 2]}, {"points": ["N", 3, 6], "width": ["N", 1]}),
        "seam.onnx": ({"featured_strip": ["N", "T", 40, 11]}, {"logits": ["N", "T", 41]}),
        "seam_features.onnx": ({"crop": ["N", 416, 416, 3]}, {"features": ["N", 208, 208, 8]}),
        "fill.onnx": ({"strip": ["N", "T", "S", 11]}, {"answer": ["N", "T", "S", 6]}),
        "detector.onnx": (
            {"picture": ["N", 64, 64, 3]},
            {"boxes": ["N", 9, 4], "scores": ["N", 9], "masks": ["N", 9, 8, 8], "keypoints": ["N", 9, 5, 2]},
        ),
    }
    typed = {
        name: {
            side: {each: ["tensor(float)", shape] for each, shape in tensors.items()}
            for side, tensors in zip(("inputs", "outputs"), both)
        }
        for name, both in sides.items()
    }
    files = dict.fromkeys(sides, "0" * 64) | {"sheet.yaml": "0" * 64}
    numbers = {"format": "rotopaint-pack", "version": 1, "name": "x", "input_size": 32, "crop_margin": 1.3}
    (folder / "card.json").write_text(json.dumps(numbers | {"files": files, "licence": "x", "training": {"seed": 1}}))
    (folder / "answer.sign").write_text(json.dumps(typed))
    (folder / "sheet.yaml").write_text(_SHEET)
    return [folder / "card.json", folder / "sheet.yaml", folder / "answer.sign"]


def _read_card(path: Path) -> None:
    """Read a pack without opening its models: card, sheet, file names, and the description of its models.

    A hash of zeros in the card counts as correct, so that tries get past the check of hashes.
    """
    from unittest import mock

    from rotopaint_ai.inference import onnx_session, pack

    folder = path.parent / "card"
    if not folder.is_dir():
        folder.mkdir()
        _card_files(folder)
        for name in json.loads((folder / "answer.sign").read_text()):
            (folder / name).write_bytes(b"no model")
    names = {".json": "card.json", ".yaml": "sheet.yaml", ".sign": "answer.sign"}
    texts = {name: (folder / name).read_bytes() for name in names.values()}
    answer = (path if path.suffix == ".sign" else folder / "answer.sign").read_bytes()

    def signature(model: Path) -> onnx_session.Signature:
        try:
            return onnx_session.signature_from(json.loads(answer)[model.name])
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise PackError("no answer") from error  # our own process always gives a description of the right form

    try:
        (folder / names[path.suffix]).write_bytes(path.read_bytes())
        with (
            mock.patch.object(pack, "read_signature", signature),
            mock.patch.object(pack, "file_sha256", return_value="0" * 64),
        ):
            pack.load_pack(folder)
    finally:
        for name, text in texts.items():
            (folder / name).write_bytes(text)


_HEAD = '{"format": "rotopaint-dataset", "version": 1, "name": "x", "licence": "x"}'
_SHEET = """format: rotopaint-sheet
version: 1
name: two
landmarks: [{name: a, mirror: b}, {name: b, mirror: a}]
shapes:
  - {name: seam, closed: false, role: seam, n_points: 3}
"""
_SAMPLE = (
    '{"image": "images/a.jpg", "width": 60, "height": 40, "character": "pip", "shot": "sh", "frame": 1001, "split": '
    '"train", "landmarks": {"a": [1.0, 2.0, 1.0], "b": [5.5, 6.5, 0.0]}, "shapes": {"seam": {"points": '
    "[[1, 2, 0, 0, 1, 1], [3, 4, 0, 0, 1, 1], [5, 6, 0, 0, 1, 1]]}}, "
    '"face_box": [1, 2, 30, 30], "pixel_scale": 1.0}\n'
)
_INDEX = (
    '{"format": "rotopaint-shards", "version": 1, "shards": [{"name": "000000.tar", "bytes": 4096, "sha256": "'
    + "0123456789abcdef" * 4
    + '", "members": {"images/a.jpg": [512, 1024, 77], "images/b.jpg": [2048, 1024, 78]}}]}'
)
_JOBS = """defaults: {model: puppet, export: [nuke]}
out: renders
shots:
  - {name: sh010, plates: "a/plate.####.exr", crop: ["1,2,30,40"], frames: 1001-1010}
  - {name: sh020, plates: b.mov, crop: auto}
"""
_RUN = (
    '{"format": "rotopaint-run", "version": 1, "frames": {"lost": [1003], "failed": {"1004": "torn"}, "held": [[1001, '
    '1002]]}, "errors": {"shapes": ["seam"], "by_frame": {"1001": [0.5], "1002": [0.75]}}, "seam": {"by_frame": '
    '{"1001": [16.5, 3.25]}}, "device": {"used": "cpu", "note": "CPU"}, "timing": {"ms_per_frame": 40.5}}'
)

READERS = {
    "shapes": Reader(mutations.seeds, lambda path: mutations.formats.read(path)),
    "plates": Reader(_plates, _read_plate),
    "project": Reader(_projects, _read_project),
    "pack": Reader(_packs, _read_pack),
    "card": Reader(_card_files, _read_card),
    "shard index": Reader(_text_seed("index.json", _INDEX), _read_index),
    "data set": Reader(_dataset_files, _read_dataset),
    "sheet": Reader(_text_seed("sheet.yaml", _SHEET), _read_sheet),
    "jobs file": Reader(_text_seed("show.yaml", _JOBS), _read_jobs),
    "run.json": Reader(_text_seed("run.json", _RUN), _read_run),
}


def outcome(read: Callable[[Path], object], path: Path) -> str:
    """`opened`, `refused`, or the failure. A refusal must be one line of at most 600 characters."""
    try:
        with _processor_time():
            read(path)
    except RotopaintError as error:
        return (
            "refused"
            if len(str(error)) <= 600 and "\n" not in str(error)
            else f"a refusal of {len(str(error))} characters"
        )
    except OSError as error:
        return "refused" if error.strerror else f"OSError: {error}"[:200]
    except _TooLong:
        return f"takes more than {MOST_S} s"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    return "opened"


class _TooLong(BaseException):
    pass


@contextmanager
def _processor_time() -> Iterator[None]:
    def end(number: int, frame: object) -> None:
        raise _TooLong

    signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _work(name: str, first: int, last: int, folder: Path, tell: Any) -> None:
    """Run tries `first` to `last`, each from its own seed; reports the number before a try and the outcome after it."""
    faulthandler.disable()
    sys.stderr = open("/dev/null", "w")  # noqa: SIM115 - decoders print errors there
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES * 2, MOST_BYTES * 2))
    reader = READERS[name]
    seeds = reader.seeds(folder)
    for number in range(first, last):
        tell.send((number, None))
        tell.send((number, outcome(reader.read, damage_file(seeds, folder, number))))


def damage_file(seeds: list[Path], folder: Path, number: int) -> Path:
    """A damaged file, always the same for a number."""
    chance = random.Random(number)
    source = chance.choice(seeds)
    path = folder / f"damaged{''.join(source.suffixes) if source.name.startswith('seed') else source.suffix}"
    whole = requeried.requeried if source.suffix == ".rotopaint" and number % 4 else mutations.mutated
    path.write_bytes(whole(source.read_bytes(), chance))
    return path


def fuzz(name: str, tries: int, seed: int, seconds: float, keep: Path) -> dict[str, Any]:
    """The outcomes of all tries of one reader."""
    count: Counter[str] = Counter()
    finds: list[dict[str, Any]] = []
    at, last, end = seed * 10_000_000, seed * 10_000_000 + tries, time.monotonic() + seconds
    while at < last and time.monotonic() < end:
        at = _one_process(name, at, last, end, count, finds, keep)
    return {
        "reader": name,
        "tries": sum(count.values()),
        **{k: count[k] for k in ("opened", "refused")},
        "finds": finds,
    }


def _one_process(
    name: str, at: int, last: int, end: float, count: Counter[str], finds: list[dict[str, Any]], keep: Path
) -> int:
    """Run tries in one process until all are done or the process dies; returns the number of the next try."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        child = multiprocessing.get_context("fork").Process(target=_work, args=(name, at, last, Path(folder), theirs))
        child.start()
        theirs.close()
        verdict: str | None = "alive"
        try:
            while time.monotonic() < end and ours.poll(3 * MOST_S):
                number, verdict = ours.recv()
                if verdict is not None:
                    at = number + 1
                    _count(name, number, verdict, count, finds, keep, Path(folder))
            if verdict is None and time.monotonic() < end:
                raise EOFError
        except EOFError:
            if at < last:
                _count(name, at, f"the process ended or hung ({child.exitcode})", count, finds, keep, Path(folder))
                at += 1
        child.kill()
        child.join()
    return at


def _count(
    name: str, number: int, verdict: str, count: Counter[str], finds: list[dict[str, Any]], keep: Path, folder: Path
) -> None:
    count[verdict if verdict in ("opened", "refused") else "find"] += 1
    if verdict not in ("opened", "refused"):
        finds.append({"number": number, "verdict": verdict})
        for path in folder.glob("damaged*"):
            (keep / f"{name.replace(' ', '_')}.{number}{path.suffix}").write_bytes(path.read_bytes())


def _kind(path: Path) -> str:
    return "".join(path.suffixes) if path.name.startswith("seed") else path.suffix


def _whole(name: str) -> Callable[[bytes, random.Random], bytes]:
    """How a reader's files are damaged so that they are still recognised as that kind of file."""
    return requeried.requeried if name == "project" else mutations.reshaped


def _kinds(seeds: list[Path]) -> list[str]:
    """The suffixes of a reader's files; the first byte of a guided try selects one."""
    return sorted(set(map(_kind, seeds)))


def collect_corpora(corpora: Path, most: int = 30, most_bytes: int = 800) -> dict[str, list[list[str]]]:
    """A sample of small files of each reader's corpus under `corpora`, as suffix and base64, for `tests/bench`."""
    found = {}
    for name, reader in READERS.items():
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            kinds = _kinds(reader.seeds(Path(folder)))
        tries = {path.read_bytes() for path in (corpora / name.replace(" ", "_")).glob("*")}
        small = sorted((data for data in tries if 1 < len(data) <= most_bytes), key=lambda data: (len(data), data))
        chosen = small[:: max(1, -(-len(small) // most))]
        if chosen:
            found[name] = [[kinds[data[0] % len(kinds)], base64.b64encode(data[1:]).decode()] for data in chosen]
    return found


def fuzz_guided(name: str, corpus: Path, seconds: float) -> None:
    """Fuzz guided by coverage of our own lines; ends after the given time, or at the first find."""
    import atheris

    reader, folder = READERS[name], Path(tempfile.mkdtemp(prefix="fuzz-"))
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = reader.seeds(folder)
    kinds = _kinds(seeds)
    for path in seeds:
        (corpus / path.name).write_bytes(bytes([kinds.index(_kind(path))]) + path.read_bytes())

    def one(data: bytes) -> None:
        path = folder / f"damaged{kinds[data[0] % len(kinds)] if data else kinds[0]}"
        path.write_bytes(data[1:])
        verdict = outcome(reader.read, path)
        if verdict not in ("opened", "refused"):
            raise RuntimeError(verdict)

    def change(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        how = chance.choice((None, mutations.mutated, *[_whole(name)] * 2))
        if how is None:
            return bytes(atheris.Mutate(data, most))
        # Changes of single bytes rarely leave JSON, YAML or a database valid.
        return (data[:1] + how(data[1:], chance))[:most]

    words = [sys.argv[0], str(corpus), f"-max_total_time={seconds:.0f}", "-timeout=600", "-rss_limit_mb=4000"]
    atheris.Setup(words, one, custom_mutator=change)
    atheris.Fuzz()


def main() -> int:
    """Fuzz the selected readers and print the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"any of {', '.join(READERS)} (default: all)")
    parser.add_argument("--tries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1800.0, help="time limit for each reader")
    parser.add_argument("--guided", type=Path, metavar="CORPUS")
    parser.add_argument("--collect", type=Path, metavar="CORPORA", help="write a sample of the corpora to --json")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.collect is not None:
        given.json.write_text(json.dumps(collect_corpora(given.collect), indent=0) + "\n", encoding="utf-8")
        return 0
    if given.guided is not None:
        fuzz_guided(given.readers[0], given.guided, given.seconds)
    keep = Path(tempfile.mkdtemp(prefix="fuzz-finds-"))
    rows = []
    for name in given.readers or READERS:
        rows.append(fuzz(name, given.tries, given.seed, given.seconds, keep))
        print(json.dumps(rows[-1]), flush=True)
    print(f"finds are kept in {keep}")
    if given.json is not None:
        given.json.write_text(json.dumps({"seed": given.seed, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return int(any(row["finds"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
