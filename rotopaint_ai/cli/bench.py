"""`rotopaint bench KIND`: ratios, measured side by side in one run. Kinds stand in `rotopaint_ai.bench`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from rotopaint_ai.errors import RotopaintError

KINDS = {
    "train": "training steps: stock PyTorch against ours, one rank against several",
    "clean": "clean plates against every peer that is installed: quality inside the true seam, and speed",
    "run": "the whole job over reading and writing the same plates alone",
    "load": "clips of 16 frames from movies, files and shards, with every library that is installed",
    "infer": "landmarks and shapes of one frame, crop included, beside published networks of the kind",
    "compare": "two results of one kind, measured on two machines, as a table",
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
        _add_json(kind)
        _kind_named(name).add_arguments(kind)


def execute(arguments: argparse.Namespace) -> int:
    """Do it and return the exit code."""
    return _run_measure(_kind_named(arguments.kind), arguments)


def run_alone(kind: Kind, prog: str, words: Sequence[str]) -> int:
    """A measurement that is no part of `rotopaint bench`, as a program of its own; the exit code."""
    parser = argparse.ArgumentParser(prog=prog, description=kind.__doc__)
    kind.add_arguments(parser)
    _add_json(parser)
    try:
        return _run_measure(kind, parser.parse_args(words))
    except RotopaintError as error:
        print(error, file=sys.stderr)
        return 2


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", help="write the result to a file")


def _run_measure(kind: Kind, arguments: argparse.Namespace) -> int:
    from rotopaint_ai.files import write_json

    content = kind.measure(arguments)
    as_text = getattr(kind, "result_text", None)  # of what is compared; what is measured is JSON with its machine
    if as_text is None:
        from rotopaint_ai.bench.machine import machine_facts

        content = {**content, "machine": machine_facts()}
    if arguments.json:
        write_json(Path(arguments.json), content)
    print(json.dumps(content, indent=1) if as_text is None else as_text(content))
    return 0


def _kind_named(name: str) -> Kind:
    found: Kind = import_module(f"rotopaint_ai.bench.{name}")  # type: ignore[assignment]
    return found
