"""`rotopaint restore`: restore a damaged or lost project from its last good copy."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to the parser."""
    parser.epilog = "A project keeps its last three good copies beside it; one is made each time it is closed."
    parser.add_argument(
        "project", type=Path, metavar="PROJECT", help="the project file; a damaged file at this place is kept"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Execute the command; returns the exit code."""
    from rotopaint_ai.cli import OK
    from rotopaint_ai.project.restore import restore

    restored = restore(arguments.project)
    made = datetime.fromtimestamp(restored.copy.stat().st_mtime)
    kept = f"; the damaged file is kept as {restored.kept.name}" if restored.kept is not None else ""
    print(
        f"{arguments.project.name} is restored from its copy of {made:%Y-%m-%d %H:%M}; "
        f"{restored.n_steps} steps can be undone{kept}"
    )
    return OK
