"""`rotopaint demo`: the main job on the sample shot that ships with the models."""

from __future__ import annotations

import argparse
from pathlib import Path

from rotopaint_ai.cli import OK
from rotopaint_ai.cli.panel import load_window
from rotopaint_ai.cli.run import add_line_arguments, do, split_names
from rotopaint_ai.cli.shared import text_given
from rotopaint_ai.jobs import RunJob


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to the parser."""
    parser.add_argument(
        "--out", type=text_given, default="rotopaint_demo", metavar="DIR", help="output folder (./rotopaint_demo)"
    )
    parser.add_argument("--panel", action="store_true", help="open the result in the panel afterwards")
    add_line_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Execute the command; returns the exit code."""
    from rotopaint_ai.inference.sample import CROP_FILE, find_sample, read_crops

    show = load_window() if arguments.panel else None
    folder = find_sample()
    job = RunJob(
        plates=str(folder),
        out=arguments.out,
        crops=read_crops(folder / CROP_FILE),
        model=arguments.model,
        exports=split_names(arguments.export),
        method=arguments.method,
        device=arguments.device,
        threads=arguments.threads,
        key_tolerance_px=arguments.reduce_keys,
    )
    code = do(job, events=arguments.events)
    if not arguments.events:
        out = Path(arguments.out)
        print(f"mattes in {out / 'matte'}, clean plates in {out / 'clean'}, Nuke script {out / 'shapes.nk'}")
    return show(str(folder), Path(arguments.out)) if show and code == OK else code
