"""The time to read and write exchange files: a large Nuke script and other formats, relative to their size.

python benchmarks/exchange.py [SHAPES...] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from rotopaint_ai.cli.bench import run_alone
from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document, formats, nuke, nuke_reader
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser."""
    parser.add_argument("files", nargs="*", metavar="SHAPES", help="additional files to read, in any shape format")
    parser.add_argument("--shapes", type=int, default=100, metavar="N", help="shapes of the synthetic script (100)")
    parser.add_argument("--keys", type=int, default=200, metavar="N", help="keys of each shape (200)")
    parser.add_argument("--points", type=int, default=8, metavar="N", help="control points of each shape (8)")
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="number of rounds; the median is reported (3)"
    )


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure, and return the result as JSON values. Raises UsageError, DocumentError for files."""
    if min(arguments.shapes, arguments.keys, arguments.points, arguments.rounds) < 1:
        raise UsageError("exchange: wanted counts from 1")
    meant = _document(arguments.shapes, arguments.keys, arguments.points)
    text, plain = nuke.dumps(meant), document.dumps(meant)
    rounds = arguments.rounds
    made_up = {
        "size_mb": round(len(text) / 1e6, 2),
        "json_size_mb": round(len(plain) / 1e6, 2),
        "write_s": _seconds(lambda: nuke.dumps(meant), rounds),
        "read_s": _seconds(lambda: nuke_reader.read_text(text), rounds),
        "json_write_s": _seconds(lambda: document.dumps(meant), rounds),
        "json_read_s": _seconds(lambda: document.loads(plain), rounds),
        "bare_json_read_s": _seconds(lambda: json.loads(plain), rounds),
    }
    made_up["read_s_per_mb"] = round(made_up["read_s"] / made_up["size_mb"], 4)
    made_up["read_over_bare_json"] = round(made_up["read_s"] / max(made_up["bare_json_read_s"], 1e-9), 2)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "a.nk"
        made_up["write_and_prove_s"] = _seconds(lambda: formats.write(path, meant), 1)
    return {"nuke": made_up, "files": {file: _file(Path(file), rounds) for file in arguments.files}}


def _document(n_shapes: int, n_keys: int, n_points: int) -> Any:
    """A document in which all numbers differ, so that nothing can be shared."""
    chance = random.Random(5)

    def point() -> ControlPoint:
        return ControlPoint(*(chance.uniform(0, 1080) for _ in range(2)), *(chance.uniform(-9, 9) for _ in range(4)))

    def shape(place: int) -> RotoShape:
        keys = {1001 + i: Key(tuple(point() for _ in range(n_points))) for i in range(n_keys)}
        return RotoShape(f"shape{place}", True, "matte", keys)

    return RotoDocument(1920, 1080, 1001, 1000 + n_keys, shapes=tuple(shape(i) for i in range(n_shapes)))


def _file(path: Path, rounds: int) -> dict[str, float]:
    size, seconds = path.stat().st_size / 1e6, _seconds(lambda: formats.read(path), rounds)
    return {"size_mb": round(size, 3), "read_s": seconds, "read_s_per_mb": round(seconds / max(size, 1e-6), 4)}


def _seconds(work: Callable[[], object], rounds: int) -> float:
    found = []
    for _ in range(rounds):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return round(median(found), 4)


if __name__ == "__main__":
    sys.exit(run_alone(sys.modules[__name__], "python benchmarks/exchange.py", sys.argv[1:]))
