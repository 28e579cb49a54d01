"""Speed of loading clips of 16 frames from movies, files and shards (goal P4)."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this kind to the parser."""
    parser.add_argument(
        "--frames", type=int, default=500, metavar="N", help="length of the synthetic shot, frames (500)"
    )
    parser.add_argument("--size", type=int, default=512, metavar="PX", help="side of its pictures, pixels (512)")
    parser.add_argument("--clips", type=int, default=16, metavar="N", help="clips per measurement (16)")
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="number of rounds; the median is reported (3)"
    )
    parser.add_argument(
        "--workers", type=int, default=2, metavar="N", help="processes of the measurement with several processes (2)"
    )
    parser.add_argument(
        "--sources", metavar="TEXT,TEXT", help="measure only sources whose name contains one of these texts"
    )
    parser.add_argument(
        "--readers", metavar="TEXT,TEXT", help="measure only readers whose name contains one of these texts"
    )
    parser.add_argument("--work", metavar="DIR", help="folder for the encoded shot; choose the disk to measure")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Encode one shot in every format, load it with every installed reader, and return the rates as JSON values."""
    from rotopaint_ai.bench.loading.reading_rates import LoadingSettings, measure_all
    from rotopaint_ai.errors import UsageError
    from rotopaint_ai.training.trainer.launch import restart_process

    numbers = (arguments.frames, arguments.size, arguments.clips, arguments.rounds, arguments.workers)
    if min(numbers) < 1 or arguments.frames < 32 or arguments.size % 16:
        raise UsageError("bench load: wanted 32 frames or more, a size that 16 divides, and counts from 1")
    restart_process()  # training's memory settings, for both sides
    settings = LoadingSettings(*numbers, _split_texts(arguments.sources), _split_texts(arguments.readers))
    with tempfile.TemporaryDirectory(dir=arguments.work, prefix="rotopaint-load-") as scratch:
        return measure_all(Path(scratch), settings)


def _split_texts(given: str | None) -> tuple[str, ...]:
    return tuple(text.strip() for text in (given or "").split(",") if text.strip())
