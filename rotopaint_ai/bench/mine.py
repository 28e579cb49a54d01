"""Label errors planted into good roto: which of them `mine` finds, and how often it cries wolf."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which arguments the kind takes."""
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="finished roto that is known to be good, as 'mine'"
    )
    parser.add_argument("--plates", metavar="PLATES", help="plates of the roto, as for 'mine'")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="how often to plant anew (3)")
    parser.add_argument("--details", action="store_true", help="name every error that was missed and every false alarm")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure, and return the result as JSON values. Raises as `mine`."""
    from rotopaint_ai.training.mining.planted import score

    sources = tuple(Path(source) for source in arguments.sources)
    return score(sources, arguments.plates, seeds=max(1, arguments.seeds), details=arguments.details)
