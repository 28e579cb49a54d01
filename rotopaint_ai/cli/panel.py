"""`rotopaint panel`: the standalone window, with a plate where one is given."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from rotopaint_ai.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to the parser."""
    parser.add_argument(
        "plates", nargs="?", metavar="PLATES", help="pattern, folder, one frame or movie; without it, open one there"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="output folder of runs (default: beside the plate's folder)"
    )


def main() -> int:
    """`rotopaint-panel [PLATES]`: the command as a separate program, for menus and `uvx`."""
    from rotopaint_ai.cli import main as rotopaint

    return rotopaint(["panel", *sys.argv[1:]])


def execute(arguments: argparse.Namespace) -> int:
    """Show the window; returns when it is closed. Raises UsageError where Qt or the given file is missing."""
    given = arguments.plates
    if given and not set(given) & set("#%*?[") and not Path(given).exists():
        raise UsageError(
            f"{given}: does not exist; wanted a plate's pattern, a folder, a picture, a movie or a project"
        )
    if arguments.out is not None and not given:
        raise UsageError("--out: is the output folder for PLATES; give PLATES too, or open them in the window")
    return load_window()(arguments.plates, arguments.out)


def load_window() -> Callable[[str | None, Path | None], int]:
    """The function that shows a plate and its output folder. Raises UsageError where Qt is not installed."""
    try:
        # Imported by name, because the engine must not depend on its screens.
        app = import_module("rotopaint_ui.standalone.app")
    except ImportError as error:
        raise UsageError(f"the panel needs Qt ({error}); pip install 'rotopaint-ai[ui]'") from error
    show: Callable[[str | None, Path | None], int] = app.main
    return show
