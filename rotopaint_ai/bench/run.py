"""Time of the whole job, divided by the time to only read and write the same plates (goal P1)."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from rotopaint_ai.jobs import RunJob


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this kind to the parser."""
    parser.add_argument(
        "--plates", metavar="PLATES", help="plates to measure with (default: the sample shot at 1920 x 1080)"
    )
    parser.add_argument("--crop", action="append", metavar="X,Y,W,H", help="box around the face in those plates")
    parser.add_argument("--model", metavar="PACK", help="model pack: a folder or the name of an installed one")
    parser.add_argument("--frames", metavar="A-B,C", help="use only these frames")
    parser.add_argument("--export", default="", metavar="NAME,...", help="also export these formats, as run does")
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="number of rounds; the median is reported (3)"
    )
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="default: 0 (every core)")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure, and return the result as JSON values. Raises as `whole_job.measure`."""
    from rotopaint_ai.cli.shared import one_thread_per_frame

    one_thread_per_frame()
    from rotopaint_ai.bench import whole_job

    with tempfile.TemporaryDirectory() as scratch:
        return whole_job.measure(_bench_job(arguments, Path(scratch)), rounds=max(1, arguments.rounds)).content()


def _bench_job(arguments: argparse.Namespace, scratch: Path) -> RunJob:
    from rotopaint_ai.bench.plates import enlarge
    from rotopaint_ai.errors import UsageError
    from rotopaint_ai.inference.sample import CROP_FILE, find_sample, read_crops

    if arguments.plates is None:
        sample = find_sample()
        plates, crops = enlarge(sample, read_crops(sample / CROP_FILE), scratch / "plates")
    elif arguments.crop:
        plates, crops = arguments.plates, tuple(arguments.crop)
    else:
        raise UsageError("--plates needs --crop X,Y,W,H as well")
    return RunJob(
        plates=str(plates),
        out=str(scratch / "out"),
        crops=crops,
        model=arguments.model,
        frames=arguments.frames,
        exports=tuple(name for name in arguments.export.split(",") if name),
        threads=arguments.threads,
    )
