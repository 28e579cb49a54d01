"""The program of the bundle: it is the panel, every command of `rotopaint`, and the engine's processes (`-m MODULE`).

rotopaint [PLATES]        the panel
rotopaint run ...         a command
rotopaint -m MODULE ...   a module, as Python itself would run it; the engine's processes start so
"""

from __future__ import annotations

import multiprocessing
import runpy
import sys

from rotopaint_ai.cli import COMMANDS, main


def start(words: list[str]) -> int:
    """Run the panel, a command or a module; returns the exit code."""
    if words[:1] == ["-m"] and len(words) > 1:
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return 0
    is_command = bool(words) and (words[0] in COMMANDS or words[0].startswith("-"))
    return main(words if is_command else ["panel", *words])


if __name__ == "__main__":
    multiprocessing.freeze_support()
    sys.exit(start(sys.argv[1:]))
