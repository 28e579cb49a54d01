"""The command line of models that are evaluated on folders: one line of figures for each, and all of them in a file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.files import write_json
from rotopaint_ai.inference.session import ModelSession


@dataclass(frozen=True, slots=True)
class FolderEvaluation:
    """An open model: `figures` says how good it is on a folder; `per` is what its session sees at a time."""

    session: ModelSession
    figures: Callable[[Path], Mapping[str, Any]]
    per: str


def main(doc: str, file: str, sources: str, open_evaluation: Callable[[str], FolderEvaluation]) -> int:
    """Measure and print; returns the exit code. `file`: the model's name in a pack; `sources`: what it is run on."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", help=f"pack or {file}")
    parser.add_argument("sources", nargs="+", type=Path, help=sources)
    parser.add_argument("--json", type=Path, help="write all numbers to a file")
    options = parser.parse_args()
    try:
        evaluation = open_evaluation(options.pack)
        found: dict[str, Any] = {}
        for source in options.sources:
            found[str(source)] = evaluation.figures(source)
            print(source, json.dumps(found[str(source)]))
        if options.json:
            write_json(options.json, {**found, f"ms_per_{evaluation.per}": evaluation.session.ms_per_call})
    except RotopaintError as error:
        print(error, file=sys.stderr)
        return 2
    return 0
