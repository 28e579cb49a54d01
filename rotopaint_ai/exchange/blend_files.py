"""Blender's own files, `.blend`: Blender itself runs a script that writes their masks. Standard library only."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from rotopaint_ai.errors import DocumentError, UsageError
from rotopaint_ai.exchange import blender, parsing
from rotopaint_ai.exchange.format_spec import FormatSpec
from rotopaint_ai.shapes.roto import RotoDocument

TIMEOUT_S: Final = 300


def read(path: Path, width: int | None, height: int | None) -> tuple[RotoDocument, tuple[str, ...]]:
    """The masks of a `.blend`, read by running the dump script. Raises UsageError where Blender is not installed."""
    program = shutil.which("blender")
    if program is None:
        raise UsageError(
            f"{path.name}: is read by Blender, which is not on the PATH; run a script of 'rotopaint convert --scripts "
            "DIR' in Blender and convert its dump"
        )
    found = blender.loads(_dump_of_file(program, path), width=width, height=height, where=path.name)
    return found.document, found.losses


def _dump_of_file(program: str, path: Path) -> str:
    """The dump of a file, by the dump script. Raises DocumentError with Blender's last line if nothing was written."""
    if not path.is_file():
        raise DocumentError(f"{path.name}: does not exist; check the path")
    with tempfile.TemporaryDirectory() as folder:
        script, target = Path(folder) / "dump.py", Path(folder) / "masks.blender.json"
        script.write_text(blender.dump_script(), encoding="utf-8")
        quietly = ["--disable-autoexec", "-b"]  # no script in the file may run, whatever the user's preferences say
        words = [
            program,
            *quietly,
            str(path.resolve()),
            "--python-exit-code",
            "1",
            "-P",
            str(script),
            "--",
            str(target),
        ]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DocumentError(
                f"{path.name}: Blender did not answer ({str(error)[:80]}); run the script in it"
            ) from error
        if not target.exists():
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()] or ["no words"]
            raise DocumentError(f"{path.name}: Blender wrote no masks ({lines[-1].strip()[:100]}); open it in Blender")
        return parsing.text_of(target)


FORMAT: Final = FormatSpec("Blender file", (".blend",), "masks of a file, if Blender is installed", read, None)
