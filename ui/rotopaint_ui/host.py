"""The interface of the program that hosts the panel. Standard library only."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import rotopaint_ai
from rotopaint_ai.errors import UsageError
from rotopaint_ai.shapes.roto import RotoDocument

PYTHON_VARIABLE = "ROTOPAINT_PYTHON"
_HOST_VARIABLES = ("PYTHONHOME", "PYTHONSTARTUP", "QT_PLUGIN_PATH", "QT_QPA_PLATFORM_PLUGIN_PATH")


@dataclass(frozen=True, slots=True)
class PlateChoice:
    """A plate selected in the host: its path, its frames, and its colour space.

    `frames` is `FIRST-LAST`, None the whole plate; `colourspace` None: the file decides.
    """

    source: str
    frames: str | None = None
    colourspace: str | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """The Python interpreter for the engine's processes, and the folders from which it imports the product."""

    python: str
    folders: tuple[str, ...]

    def environment(self) -> dict[str, str]:
        """The environment of an engine process: this one's, without what belongs to the host's own Python and Qt."""
        kept = {name: value for name, value in os.environ.items() if name not in _HOST_VARIABLES}
        return {
            **kept,
            "PYTHONPATH": os.pathsep.join(self.folders),
            "PYTHONUNBUFFERED": "1",
            "PYTHONUTF8": "1",
            "PYTHONSAFEPATH": "1",
        }


class Host(Protocol):
    """A program that shows the panel. Nothing here may block or open a dialog."""

    @property
    def name(self) -> str:
        """The host's name, as artists know it."""

    @property
    def export_label(self) -> str:
        """The label of its Export button."""

    def engine(self) -> Engine:
        """The engine's interpreter. Raises: UsageError where no suitable Python is found."""

    def chosen_plate(self) -> PlateChoice | None:
        """The plate that is selected in the host, if any."""

    def export(self, document: RotoDocument, shapes: Path) -> str:
        """Hand the saved document to the host; returns one line that says what was made. Raises RotopaintError."""


def find_engine(*, own_python: bool) -> Engine:
    """The engine of this installation.

    `$ROTOPAINT_PYTHON` comes first. With `own_python` the running interpreter is an ordinary Python with the product's
    packages; otherwise, inside a host, the engine is the environment in which the product is installed.
    """
    folders = package_folders()
    named = os.environ.get(PYTHON_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise UsageError(
                f"{PYTHON_VARIABLE}={named}: no such file; name the Python that has RotoPaint AI installed"
            )
        return Engine(named, folders)
    if own_python:
        return Engine(sys.executable, folders)
    for python in _pythons_near(Path(rotopaint_ai.__file__).resolve().parent):
        if python.is_file():
            return Engine(str(python), folders)
    raise UsageError(
        f"no Python was found beside {folders[0]}; set {PYTHON_VARIABLE} to the Python that has RotoPaint AI installed"
    )


def package_folders() -> tuple[str, ...]:
    """The folders that hold `rotopaint_ai` and `rotopaint_ui`, each once, in that order."""
    packages = (Path(rotopaint_ai.__file__), Path(__file__))
    return tuple(dict.fromkeys(str(path.resolve().parents[1]) for path in packages))


def _pythons_near(package: Path) -> Sequence[Path]:
    """Paths of Python beside an installed `PREFIX/lib/python3.x/site-packages/rotopaint_ai`, Windows' form of it, or a
    checkout."""
    folder = package.parent
    is_installed = folder.name in ("site-packages", "dist-packages")
    prefixes = list(folder.parents)[:3] if is_installed else [folder / ".venv", folder / "venv"]
    forms = ("bin/python3", "bin/python", "Scripts/python.exe", "python.exe")
    return [prefix / form for prefix in prefixes for form in forms]
