"""`rotopaint evaluate`: measure a model pack on a data set."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rotopaint_ai.cli.shared import needs_training
from rotopaint_ai.cli.watch import stopping_on_signals
from rotopaint_ai.jobs import Cancel

LINES = (
    ("landmarks mean", "px", ("landmarks_px", "mean")),
    ("landmarks 95 %", "px", ("landmarks_px", "p95")),
    ("landmarks mean", "% of the face", ("landmarks_percent", "mean")),
    ("seam curves mean", "px", ("seams", "px", "mean")),
    ("seam curves mean", "% of the face", ("seams", "percent", "mean")),
    ("other shapes mean", "px", ("other_shapes", "px", "mean")),
    ("time", "ms/frame", ("ms_per_frame",)),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which arguments the command takes."""
    parser.add_argument("pack", metavar="PACK", help="folder or name of a model pack")
    parser.add_argument("dataset", metavar="DATASET", help="data set to measure on; its test samples where it has some")
    parser.add_argument("--json", metavar="FILE", help="write all numbers to a file")
    parser.add_argument("--against", metavar="PACK", help="measure a second pack on the same samples")
    parser.add_argument("--contact", metavar="FILE.jpg", help="write a contact sheet of the worst samples")


def execute(arguments: argparse.Namespace) -> int:
    """Do it and return the exit code."""
    needs_training()
    from rotopaint_ai.files import write_json
    from rotopaint_ai.training.dataset import read_dataset
    from rotopaint_ai.training.evaluate import evaluate

    cancel = Cancel()
    with stopping_on_signals(cancel):
        dataset = read_dataset(Path(arguments.dataset))
        contact = Path(arguments.contact) if arguments.contact else None
        results = [evaluate(arguments.pack, dataset, contact=contact, check=cancel.check)]
        if arguments.against:
            results.append(evaluate(arguments.against, dataset, check=cancel.check))
    if arguments.json:
        content = {"result": results[0], "against": results[1] if len(results) > 1 else None}
        write_json(Path(arguments.json), content)
    print(table(results))
    return 0


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """The main numbers of one or two evaluations, side by side."""
    head = f"{'':34}" + "".join(f"{result['pack']:>16}" for result in results)
    rows = [
        f"{f'{name}, {unit}':34}" + "".join(f"{_shown(result, path):>16}" for result in results)
        for name, unit, path in LINES
    ]
    n = results[0]["n_samples"]
    return "\n".join([f"{results[0]['dataset']}: {n} samples ({', '.join(results[0]['splits'])})", head, *rows])


def _shown(result: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = result
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return "-" if value is None else f"{value:.3f}"
