"""`rotopaint train`: a model pack from data sets."""

from __future__ import annotations

import argparse
import json
import shlex
import sys

from rotopaint_ai.cli.shared import needs_training
from rotopaint_ai.cli.watch import choose_sink, stopping_on_signals
from rotopaint_ai.jobs import Cancel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which arguments the command takes."""
    parser.add_argument("datasets", nargs="+", metavar="DATASET", help="folders made by 'rotopaint mine' or the stage")
    parser.add_argument("--out", required=True, metavar="PACK", help="folder of the new pack")
    parser.add_argument("--recipe", metavar="FILE.yaml", help="a recipe file, or the name of a shipped recipe")
    parser.add_argument(
        "--set", action="append", default=[], metavar="key=value", help="change a field of the recipe; repeats"
    )
    parser.add_argument("--init", metavar="PACK", help="pack to start from; 'none' starts from nothing")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint of the same training")
    parser.add_argument("--name", metavar="TEXT", help="the pack's name on its card")
    parser.add_argument("--licence", metavar="TEXT", help="the pack's licence on its card")
    parser.add_argument("--events", action="store_true", help="print one JSON object per line (docs/events.md)")


def execute(arguments: argparse.Namespace) -> int:
    """Do it and return the exit code."""
    needs_training()
    from rotopaint_ai.training.allocator import start_again

    start_again()
    from rotopaint_ai.training.train import train

    cancel = Cancel()
    with stopping_on_signals(cancel):
        report = train(
            arguments.datasets,
            arguments.out,
            recipe=arguments.recipe,
            overrides=tuple(arguments.set),
            init=arguments.init,
            resume=arguments.resume,
            name=arguments.name,
            licence=arguments.licence,
            command=shlex.join(["rotopaint", *sys.argv[1:]]),
            sink=choose_sink(events=arguments.events, cancel=cancel),
            cancel=cancel,
        )
    if not arguments.events:
        print(f"{report.pack}: {report.steps} steps, {report.images_per_s:.0f} images/s")
        print(json.dumps(report.metrics, indent=1))
    return 0
