"""Keys after reduction over one key a frame (goal G9)."""

from __future__ import annotations

import argparse
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which arguments the kind takes."""
    parser.add_argument("files", nargs="*", metavar="SHAPES", help="documents to measure as well, any shape format")
    parser.add_argument("--tolerance", type=float, default=0.5, metavar="PX", help="largest deviation (0.5)")
    parser.add_argument("--frames", type=int, default=120, metavar="N", help="length of the made-up moves (120)")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure, and return the result as JSON values. Raises UsageError, DocumentError for files."""
    from rotopaint_ai.bench.key_ways import compare
    from rotopaint_ai.errors import UsageError

    if not 0 < arguments.tolerance <= 100 or not 2 <= arguments.frames <= 100_000:
        raise UsageError("bench keys: wanted a tolerance above 0 px, and 2 frames or more")
    return compare(arguments.files, tolerance_px=arguments.tolerance, n_frames=arguments.frames)
