"""Settings of memory and of linear algebra that training wants, which a process can only be born with.

A training step frees and asks again for the same large blocks. By default glibc gives each back to the kernel and pays
for every page anew: 1.1-2.3 times the step time on a quiet machine, more on a busy one. These thresholds keep them.
They are read when a process starts, so the command line starts itself again with them (`start_again`), once.

numpy's OpenBLAS has threads of its own, which wait for each other at every small matrix: a prior's heads take 2.4 times
the processor time with two of them. What has many matrices spreads them over cores by itself.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence

SETTINGS: Mapping[str, str] = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
    "OPENBLAS_NUM_THREADS": "1",
}
DONE = "ROTOPAINT_ALLOCATOR"  # set in the second life, so that there is no third; a person may set it to keep the first

BEGAN = "ROTOPAINT_BEGAN"  # in the second life, when the first began, by `time.time`


def began() -> float:
    """When this command began, by `time.time`, in whichever life: to be asked first thing."""
    return float(os.environ.get(BEGAN, time.time()))


def wanted_environment(environment: Mapping[str, str], platform: str) -> dict[str, str] | None:
    """The environment to start again with, or None where that would help nothing or has been done.

    Only glibc reads these settings; another allocator that was preloaded, and settings that a person made, are kept.
    """
    if not platform.startswith("linux") or DONE in environment or "LD_PRELOAD" in environment:
        return None
    return {**SETTINGS, **environment, DONE: "1"}


def start_again(arguments: Sequence[str] | None = None) -> None:
    """Replace this process by the same command with the settings; returns where there is nothing to gain.

    To be called first thing by a command that trains, before threads are started or files opened. `arguments` are those
    after `python -m rotopaint_ai` (None: this process's own).
    """
    environment = wanted_environment(os.environ, sys.platform)
    if environment is None:
        return
    environment[BEGAN] = str(began())
    given = sys.argv[1:] if arguments is None else list(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, "-m", "rotopaint_ai", *given], environment)
