"""`rotopaint bench KIND`: ratios, measured side by side in one run. Kinds stand in `rotopaint_ai.bench`."""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

KINDS = {
    "train": "training steps: stock PyTorch against ours, one rank against several",
    "clean": "clean plates against every peer that is installed: quality inside the true seam, and speed",
    "run": "the whole job over reading and writing the same plates alone",
    "load": "clips of 16 frames from movies, files and shards, with every library that is installed",
    "infer": "landmarks and shapes of one frame, crop included, beside published networks of the kind",
}


class Kind(Protocol):
    """What each kind's module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Say which arguments the kind takes."""

    def measure(self, arguments: argparse.Namespace) -> dict[str, Any]:
        """Measure, and return the result as JSON values."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which arguments the command takes."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="{" + ",".join(KINDS) + "}")
    for name, about in KINDS.items():
        kind = kinds.add_parser(name, help=about, description=about.capitalize() + ".", allow_abbrev=False)
        kind.add_argument("--json", metavar="FILE", help="write the result to a file")
        _kind(name).add_arguments(kind)


def execute(arguments: argparse.Namespace) -> int:
    """Do it and return the exit code."""
    from rotopaint_ai.files import write_json

    content = _kind(arguments.kind).measure(arguments)
    if arguments.json:
        write_json(Path(arguments.json), content)
    print(json.dumps(content, indent=1))
    return 0


def _kind(name: str) -> Kind:
    found: Kind = import_module(f"rotopaint_ai.bench.{name}")  # type: ignore[assignment]
    return found
