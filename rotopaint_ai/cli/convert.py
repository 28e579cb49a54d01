"""`rotopaint convert`: between shape formats, chosen by suffix."""

from __future__ import annotations

import argparse
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which arguments the command takes."""
    parser.add_argument("source", metavar="IN", help="shapes in any format that can be read")
    parser.add_argument("target", metavar="OUT", help="where to write them; the suffix chooses the format")
    parser.add_argument("--width", type=int, metavar="PX", help="the plate's width, where IN does not tell")
    parser.add_argument("--height", type=int, metavar="PX", help="the plate's height, where IN does not tell")
    parser.add_argument("--offset", type=int, default=0, metavar="N", help="frames to add to every frame number")


def execute(arguments: argparse.Namespace) -> int:
    """Do it and return the exit code."""
    from rotopaint_ai.exchange.formats import convert

    done = convert(
        arguments.source, arguments.target, width=arguments.width, height=arguments.height, offset=arguments.offset
    )
    for loss in done.losses:
        print(f"warning: {loss}", file=sys.stderr)
    size = f"{done.n_shapes} shapes, {done.n_keys} keys"
    print(f"{done.path}: {size}; read back, largest distance {done.max_error_px:.4f} px")
    return 0
