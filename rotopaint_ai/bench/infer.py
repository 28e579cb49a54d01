"""Time of one frame's landmarks and shapes, crop included, against published networks (goal P8)."""

from __future__ import annotations

import argparse
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this kind to the parser."""
    parser.add_argument("--model", metavar="PACK", help="model pack: a folder or the name of an installed one")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of the landmark network (2)")
    parser.add_argument(
        "--rounds", type=int, default=60, metavar="N", help="number of frames; the median is reported (60)"
    )


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure, and return the result as JSON values. Raises PackError, DeviceError; UsageError for absurd counts."""
    from rotopaint_ai.cli.shared import n_threads
    from rotopaint_ai.errors import UsageError

    if arguments.rounds < 1:
        raise UsageError(f"--rounds {arguments.rounds}: wanted 1 or more")
    from rotopaint_ai.bench.one_frame import compare

    return compare(arguments.model, threads=n_threads(arguments.threads), rounds=arguments.rounds)
