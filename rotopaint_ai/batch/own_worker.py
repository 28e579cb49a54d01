"""What a worker process of our own cluster does first: Dask calls it there (its option `preload`)."""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:
    """Ignore Ctrl-C, which the process that started the cluster handles: a terminal sends it to all processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
