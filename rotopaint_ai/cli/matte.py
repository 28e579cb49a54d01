"""`rotopaint matte`: mattes from shapes."""

from __future__ import annotations

import argparse
from pathlib import Path

from rotopaint_ai.cli.shared import (
    add_overwrite,
    add_size_arguments,
    add_work_arguments,
    exit_code,
    n_threads,
    one_thread_per_frame,
    print_warnings,
    say,
    size_given,
    text_given,
)
from rotopaint_ai.frames import n_frames
from rotopaint_ai.jobs import BEGINS_ANEW
from rotopaint_ai.watch import watch_work


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to the parser."""
    parser.add_argument("shapes", metavar="SHAPES", help="shapes.roto.json, or another shape format")
    parser.add_argument("--out", type=text_given, required=True, metavar="DIR", help="mattes are written to DIR/matte")
    parser.add_argument("--frames", metavar="A-B,C", help="draw only these frames")
    add_size_arguments(parser)
    add_overwrite(parser)
    add_work_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Execute the command; returns the exit code."""
    one_thread_per_frame()
    from rotopaint_ai.exchange.formats import read
    from rotopaint_ai.pipeline.paint_job import paint_mattes

    threads = n_threads(arguments.threads)
    width, height = size_given(arguments) or (None, None)
    document, lost = read(arguments.shapes, width=width, height=height, node=arguments.node, override=True)
    print_warnings(lost)
    with watch_work(events=arguments.events, hint=BEGINS_ANEW) as (sink, cancel):
        painted = paint_mattes(
            document,
            Path(arguments.out),
            name=Path(arguments.shapes).name.partition(".")[0],
            frames=arguments.frames,
            threads=threads,
            sink=sink,
            cancel=cancel,
            overwrite=arguments.overwrite,
        )
    if not arguments.events:
        say(f"mattes of {n_frames(len(painted.done))} written to {Path(arguments.out) / 'matte'}")
    return exit_code(painted.failed)
