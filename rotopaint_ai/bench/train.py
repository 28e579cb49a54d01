"""Training steps of the shipped network: stock PyTorch against ours, and one rank against several (goals P2 and P7)."""

from __future__ import annotations

import argparse
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which arguments the kind takes."""
    parser.add_argument("--steps", type=int, default=12, metavar="N", help="steps per measurement (12)")
    parser.add_argument("--batch", type=int, default=32, metavar="N", help="crops per step and rank (32)")
    parser.add_argument("--size", type=int, default=256, metavar="PX", help="side of the crops (256)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds to take the median of (3)")
    parser.add_argument("--ranks", default="1,2", metavar="N,N", help="numbers of ranks, one thread each (1,2)")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure in turns, and return the rates as JSON values. Raises UsageError for absurd numbers."""
    from rotopaint_ai.bench.training.measure import Settings, measure_all
    from rotopaint_ai.cli.shared import needs_training
    from rotopaint_ai.errors import UsageError

    needs_training()
    ranks = [int(part) for part in arguments.ranks.split(",") if part.strip().isdecimal()]
    numbers = (arguments.steps, arguments.batch, arguments.size, arguments.rounds)
    if not ranks or min(*numbers, *ranks) < 1 or arguments.size % 32:
        raise UsageError("bench train: wanted counts from 1, and a size that 32 divides")
    return measure_all(Settings(*numbers, tuple(ranks)))
