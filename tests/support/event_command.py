"""`rotopaint` in a separate process, with an action that runs at one of its events.

An action from outside comes some time after an event, and long after it on a busy machine; this one comes at once.
"""

from __future__ import annotations

import sys

WAIT = "sys.stdin.readline()"  # until it is sent a line
DIE = "os.kill(os.getpid(), signal.SIGKILL)"

_MAIN = """
import os, signal, sys
from rotopaint_ai import watch
from rotopaint_ai.cli import main

tell, n = watch.JsonLines.__call__, 0

def tell_and_act(lines, event):
    global n
    tell(lines, event)
    n += 1
    if {at}:
        {deed}

watch.JsonLines.__call__ = tell_and_act
sys.exit(main())
"""


def command(words: list[str], *, at: str, deed: str) -> list[str]:
    """The command line of `rotopaint WORDS` that does `deed` where `at` is true of the latest `event`, the `n`-th time.

    Both are Python source; `--events` must be among the words.
    """
    return [sys.executable, "-c", _MAIN.format(at=at, deed=deed), *words]
