"""Every reader with a few damaged files (`benchmarks/fuzz.py` goes on for longer), and that finds are seen."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from module_file import module_at
from rotopaint_ai.batch.jobs_file import read_show
from rotopaint_ai.errors import MOST_LETTERS, DocumentError, RotopaintError
from rotopaint_ai.exchange import formats
from rotopaint_ai.inference.pack import load_card
from rotopaint_ai.plates.plate import open_plate
from rotopaint_ai.project import Project, run_record
from rotopaint_ai.sheet import load_sheet
from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.mining.sources import read_coco
from rotopaint_ai.training.models.landmarks.config import load_pack_config

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


RUN = (
    '{"format": "rotopaint-run", "frames": {"lost": [], "failed": {}, "held": %s}, "errors": {"shapes": ["seam"], '
    '"by_frame": {"1": [%s]}}, "seam": {"by_frame": {"1": %s}}, "device": {}, "timing": {"ms_per_frame": 40}}'
)


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    return module_at(BENCHMARKS / "fuzz.py")


@pytest.mark.parametrize(
    ("name", "tries"),
    [
        ("plates", 30),
        ("project", 60),
        ("shard index", 60),
        ("data set", 40),
        ("card", 60),
        ("sheet", 40),
        ("jobs file", 40),
    ]
    + [("run.json", 60)],
)
def test_damaged_files_are_opened_or_refused_in_one_line(
    fuzz: ModuleType, tmp_path: Path, name: str, tries: int
) -> None:
    reader = fuzz.READERS[name]
    seeds = reader.seeds(tmp_path)
    for number in range(tries):
        said = fuzz.outcome(reader.read, fuzz.damage_file(seeds, tmp_path, number))
        assert said in ("opened", "refused"), number


CORPUS: dict[str, list[list[str]]] = json.loads(Path(__file__).with_name("corpus.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(CORPUS))
def test_what_was_found_by_coverage_is_opened_or_refused_in_one_line(
    fuzz: ModuleType, tmp_path: Path, name: str
) -> None:
    for number, (ending, text) in enumerate(CORPUS[name]):
        path = tmp_path / f"damaged{ending}"
        path.write_bytes(base64.b64decode(text))
        assert fuzz.outcome(fuzz.READERS[name].read, path) in ("opened", "refused"), number


def _read_in_a_data_set(path: Path) -> object:
    (path.parent / "dataset.json").write_text('{"format": "rotopaint-dataset", "version": 1, "name": "x"}')
    path.rename(path.with_name("sheet.yaml"))
    return read_dataset(path.parent)


BY_PATH: dict[str, Callable[[Path], object]] = {
    "a.nk": formats.read,
    "a.json": formats.read,
    "a.rotopaint": lambda path: Project.open(path, write=False),
    "a.1001.exr": lambda path: open_plate(path).read(1001),
    "a.mov": open_plate,
    "card.json": lambda path: load_card(path.parent),
    "sheet.yaml": load_sheet,
    "samples": _read_in_a_data_set,
    "show.yaml": read_show,
    "run.json": run_record.read,
    "recipe.yaml": load_pack_config,
    "coco.json": read_coco,
}


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes among the files")
@pytest.mark.parametrize("name", BY_PATH)
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "endless"])
def test_pipes_and_devices_are_refused_in_place_of_any_file(
    tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    def end(number: int, frame: object) -> None:
        raise AssertionError("waits for a pipe, or for a device to end")

    make(tmp_path / name)
    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(10)
    try:
        with pytest.raises(RotopaintError) as refused:
            BY_PATH[name](tmp_path / name)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert "\n" not in str(refused.value)


def test_the_fuzzer_detects_each_kind_of_failure(
    fuzz: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(path: Path) -> None:
        raise KeyError("x")

    def goes_on(path: Path) -> None:
        while True:
            time.process_time()

    monkeypatch.setattr(fuzz, "MOST_S", 0.05)
    assert fuzz.outcome(raises, tmp_path) == "KeyError: 'x'"
    assert fuzz.outcome(goes_on, tmp_path).startswith("takes more than")


def test_a_message_is_short_whatever_a_file_says() -> None:
    text = str(DocumentError("a.json: format is " + "x" * 5000 + "; wanted rotopaint-shapes"))
    assert len(text) <= MOST_LETTERS
    assert text.startswith("a.json: format is x")
    assert text.endswith("wanted rotopaint-shapes")


def test_a_hold_of_a_billion_frames_is_not_walked_through(fuzz: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(fuzz._RUN.replace("[[1001, 1002]]", "[[1001, 1000000000]]"), encoding="utf-8")
    assert fuzz.outcome(fuzz.READERS["run.json"].read, path) == "opened"
    record = run_record.read(path)
    assert record.worst(record.errors, settled=frozenset({999_999_999})) == []
    assert run_record.RunRecord().joined(record, [5_000]).held == ()
    assert run_record.RunRecord().joined(record, [1_000]).held == record.held


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"format": "rotopaint-run", "frames": {"lost": [1e999]}}',
        RUN % ("[[1, 2e9]]", "0.5", "[16.5, 3.25]"),
        RUN % ("[]", "NaN", "[16.5, 3.25]"),
        RUN % ("[]", "0.5", '["a", 3.25]'),
    ],
)
def test_a_record_of_a_run_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError, match="is not a record of a run"):
        run_record.read(tmp_path / "run.json")
