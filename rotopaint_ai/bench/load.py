"""Loading clips of 16 frames from movies, files and shards (goal P4)."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which arguments the kind takes."""
    parser.add_argument("--frames", type=int, default=500, metavar="N", help="length of the made-up shot (500)")
    parser.add_argument("--size", type=int, default=512, metavar="PX", help="side of its pictures (512)")
    parser.add_argument("--clips", type=int, default=16, metavar="N", help="clips per measurement (16)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds to take the median of (3)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes of the second measurement (2)")
    parser.add_argument("--sources", metavar="TEXT,TEXT", help="only sources with one of these in their name")
    parser.add_argument("--readers", metavar="TEXT,TEXT", help="only readers with one of these in their name")
    parser.add_argument("--work", metavar="DIR", help="folder for the encoded shot, on the disk to be measured")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Encode one shot in every way, load it in every way that is installed, and return the rates as JSON values."""
    from rotopaint_ai.bench.loading.measure import LoadingSettings, measure_all
    from rotopaint_ai.errors import UsageError
    from rotopaint_ai.training.trainer.launch import start_again

    numbers = (arguments.frames, arguments.size, arguments.clips, arguments.rounds, arguments.workers)
    if min(numbers) < 1 or arguments.frames < 32 or arguments.size % 16:
        raise UsageError("bench load: wanted 32 frames or more, a size that 16 divides, and counts from 1")
    start_again()  # both sides with the memory settings that training has
    settings = LoadingSettings(*numbers, _split_texts(arguments.sources), _split_texts(arguments.readers))
    with tempfile.TemporaryDirectory(dir=arguments.work, prefix="rotopaint-load-") as scratch:
        return measure_all(Path(scratch), settings)


def _split_texts(given: str | None) -> tuple[str, ...]:
    return tuple(text.strip() for text in (given or "").split(",") if text.strip())
