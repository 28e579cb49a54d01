"""Every file of the shared formats: opened rightly or refused in one line; no crash, hang or memory blow-up.

`pytest -s tests/plates/test_formats_table.py` prints the table.
"""

from __future__ import annotations

import ast
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from file_trials import Row, as_text

pytestmark = pytest.mark.shared

# A file that takes a processor this many seconds hangs for an artist.
_SECONDS = 20.0
_PEAK_MB = 1200
ROOT = Path(__file__).resolve().parents[2]
_WORKER = """
import json, sys, time
from dataclasses import asdict
from pathlib import Path
from rotopaint_ai.pipeline.manifest import peak_memory_mb
from file_trials import look
for line in sys.stdin:
    began = time.process_time()
    row = asdict(look(Path(line.rstrip("\\n")), Path(sys.argv[1])))
    print(json.dumps(row | {"seconds": time.process_time() - began, "peak": peak_memory_mb()}), flush=True)
"""
# What OpenImageIO decodes and this product refuses all the same, and why.
_REFUSED_ON_PURPOSE = ("Trunks.exr", "composited.exr")  # deep


@pytest.fixture(scope="module")
def index(shared: Path) -> dict[str, dict[str, str]]:
    with (shared / "data/formats/INDEX.tsv").open(encoding="utf-8", newline="") as stream:
        return {line["file"]: line for line in csv.DictReader(stream, delimiter="\t")}


@pytest.fixture(scope="module")
def table(shared: Path, index: dict[str, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """All files read in one child process, so that a crash fails a test and does not end the run."""
    files = [shared / "data" / name for name in index]
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", _WORKER, str(tmp_path_factory.mktemp("clean"))],
        input="".join(f"{file}\n" for file in files),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests" / "support")))},
    )
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    culprit = files[len(lines)].name if len(lines) < len(files) else "none"
    assert found.returncode == 0, f"{culprit}: exit {found.returncode}: {found.stderr[-2000:]}"
    assert max(line.pop("peak") for line in lines) < _PEAK_MB
    rows = {name: Row(**line) for name, line in zip(index, lines, strict=True)}
    print("\n" + as_text(list(rows.values())))
    return rows


def test_every_refusal_is_one_clear_line(table: dict[str, Row]) -> None:
    refused = [row for row in table.values() if not row.opened]
    assert refused
    for row in refused:
        assert row.name in row.text
        assert len(row.text) < 400
        assert row.text.isprintable()
        assert row.text.startswith(("DamagedFrameError", "UnsupportedPlateError")), row.text


def test_no_file_takes_long(table: dict[str, Row]) -> None:
    assert {row.name: row.seconds for row in table.values() if row.seconds > _SECONDS} == {}


def test_what_another_reader_decodes_is_opened(table: dict[str, Row], index: dict[str, dict[str, str]]) -> None:
    lost = {
        name: table[name].text
        for name, line in index.items()
        if line["oiio_reads"] == "ok" and not table[name].opened and table[name].name not in _REFUSED_ON_PURPOSE
    }
    assert lost == {}


def test_damaged_files_are_refused(table: dict[str, Row]) -> None:
    assert [name for name, row in table.items() if "/exr_damaged/" in name and row.opened] == []


def test_untouched_codes_come_back_bit_by_bit(table: dict[str, Row]) -> None:
    assert {row.name: row.clean for row in table.values() if row.opened and not row.clean.endswith("identical")} == {}


def test_means_are_those_of_another_reader(table: dict[str, Row], index: dict[str, dict[str, str]]) -> None:
    """Each channel's mean agrees with OpenImageIO's, where both readers have the same channels."""
    compared = 0
    for name, row in table.items():
        text = index[name]["mean_per_channel"]
        # It drops the last pixels of single-channel DPX lines that do not fill a word, and multiplies alpha into PSD
        if not row.opened or row.codes_mean is None or "nan" in text or not text or "_Y_10_" in name or ".psd" in name:
            continue
        means = ast.literal_eval(text)
        assert row.codes_mean == pytest.approx(means[: len(row.codes_mean)], rel=2e-3, abs=2e-4), name
        compared += 1
    assert compared > 80


def test_the_table_is_readable_text() -> None:
    rows = [
        Row("a.exr", True, "", "4x4+0+0 in 4x4", "3 float16", "linear", ".exr identical"),
        Row("b.exr", False, "cut"),
    ]
    lines = [" ".join(line.split()) for line in as_text(rows).splitlines()]
    assert lines == [
        "opened a.exr 4x4+0+0 in 4x4 3 float16 linear clean: .exr identical",
        "refused b.exr cut",
        "2 files: 1 opened, 1 refused; slowest 0.00 s",
    ]
