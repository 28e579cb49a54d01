"""Scaling of training over ranks: measured on this machine, and predicted for real hosts (goal P7).

python -m benchmarks.scaling [--ranks 1,2,4,8] [--links 1gbit,200mbit] [--json FILE]     # from the checkout
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchmarks.scaling import hosts
from benchmarks.scaling.measure import Settings, measure_all
from rotopaint_ai.cli.bench import run_alone
from rotopaint_ai.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser."""
    parser.add_argument(
        "--ranks", default="1,2,4,8", metavar="N,N", help="numbers of ranks to measure, one thread each (1,2,4,8)"
    )
    parser.add_argument("--steps", type=int, default=8, metavar="N", help="steps per measurement (8)")
    parser.add_argument("--batch", type=int, default=16, metavar="N", help="crops per step and rank (16)")
    parser.add_argument("--size", type=int, default=256, metavar="PX", help="side of the crops (256)")
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="number of rounds; the median is reported (3)"
    )
    parser.add_argument(
        "--links",
        default="",
        metavar="RATE,RATE",
        help="also measure two hosts, simulated by network namespaces, over links such as 1gbit,200mbit (Linux)",
    )


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure alternately, and return the table as JSON values. Raises UsageError, TrainingError."""
    ranks = [int(part) for part in arguments.ranks.split(",") if part.strip().isdecimal()]
    numbers = (arguments.steps, arguments.batch, arguments.size, arguments.rounds)
    if not ranks or min(*numbers, *ranks) < 1 or arguments.batch < 2 or arguments.size % 32:
        raise UsageError("scaling: wanted counts from 1, 2 crops or more, and a size that 32 divides")
    links = tuple(part.strip() for part in arguments.links.split(",") if part.strip())
    for link in links:
        hosts.bits_per_s(link)
    if links and (reason := hosts.missing()):
        raise UsageError(f"--links {arguments.links}: {reason}; leave it out")
    return measure_all(Settings(*numbers, tuple(dict.fromkeys((1, *ranks))), links))


if __name__ == "__main__":
    sys.exit(run_alone(sys.modules[__name__], "python -m benchmarks.scaling", sys.argv[1:]))
