"""`rotopaint clean`: paint the seams of shapes away."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from rotopaint_ai.cli.shared import add_work_arguments, exit_code, n_threads, one_thread_per_frame
from rotopaint_ai.cli.watch import choose_sink, stopping_on_signals
from rotopaint_ai.jobs import Cancel, FillMethod


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which arguments the command takes."""
    parser.add_argument("plates", metavar="PLATES", help="pattern (plate.####.exr), folder, one image or movie")
    parser.add_argument("shapes", metavar="SHAPES", help="shapes.roto.json, or another shape format")
    parser.add_argument("--out", required=True, metavar="DIR", help="clean plates are written to DIR/clean")
    parser.add_argument("--method", choices=get_args(FillMethod), default="auto", help="how seams are painted away")
    parser.add_argument("--frames", metavar="A-B", help="these frames only")
    parser.add_argument("--colourspace", metavar="NAME", help="colour space of the plate, where the file is wrong")
    add_work_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Do it and return the exit code."""
    one_thread_per_frame()
    from rotopaint_ai.exchange.formats import read
    from rotopaint_ai.pipeline.paint import paint_clean
    from rotopaint_ai.plates import open_plate

    threads = n_threads(arguments.threads)
    cancel = Cancel()
    with open_plate(arguments.plates, colourspace=arguments.colourspace) as plate, stopping_on_signals(cancel):
        document, _ = read(arguments.shapes, width=plate.width, height=plate.height)
        painted = paint_clean(
            plate,
            document,
            Path(arguments.out),
            method=arguments.method,
            frames=arguments.frames,
            threads=threads,
            sink=choose_sink(events=arguments.events, cancel=cancel),
            cancel=cancel,
        )
    if not arguments.events:
        print(f"{len(painted.done)} clean frames written to {Path(arguments.out) / 'clean'}")
    return exit_code(painted.failed)
