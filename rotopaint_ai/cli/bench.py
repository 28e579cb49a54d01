"""`rotopaint bench KIND`: ratios, measured side by side in one run. The kinds are modules of `rotopaint_ai.bench`."""

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
    "clean": "clean plates against other installed tools: quality inside the true seam, and speed",
    "run": "the whole job against only reading and writing the same plates",
    "load": "loading clips of 16 frames from movies, files and shards, with every installed library",
    "infer": "landmarks and shapes of one frame, crop included, against published networks",
    "compare": "compare two results of one kind as a table, for example of two machines",
}


class Kind(Protocol):
    """The interface of a kind's module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the kind to the parser."""

    def measure(self, arguments: argparse.Namespace) -> dict[str, Any]:
        """Measure, and return the result as JSON values."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to the parser."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="{" + ",".join(KINDS) + "}")
    for name, about in KINDS.items():
        kind = kinds.add_parser(name, help=about, description=about.capitalize() + ".", allow_abbrev=False)
        _add_json(kind)
        _find_kind(name).add_arguments(kind)


def execute(arguments: argparse.Namespace) -> int:
    """Execute the command; returns the exit code."""
    return _run_measure(_find_kind(arguments.kind), arguments)


def run_alone(kind: Kind, prog: str, words: Sequence[str]) -> int:
    """Run a measurement outside `rotopaint bench` as a program; returns the exit code."""
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
    from rotopaint_ai.files import refuse_no_file, write_json

    if arguments.json:
        refuse_no_file(Path(arguments.json))
    content = kind.measure(arguments)
    as_text = getattr(kind, "result_text", None)  # a comparison is text; a measurement is JSON with its machine
    if as_text is None:
        from rotopaint_ai.bench.machine import machine_facts

        content = {**content, "machine": machine_facts()}
    print(json.dumps(content, indent=1) if as_text is None else as_text(content), flush=True)
    if arguments.json:
        write_json(Path(arguments.json), content)
    return 0


def _find_kind(name: str) -> Kind:
    found: Kind = import_module(f"rotopaint_ai.bench.{name}")  # type: ignore[assignment]
    return found
