"""Set-up of a worker process of our own cluster; Dask calls it by its option `preload`."""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:
    """Ignore Ctrl-C, which the process that started the cluster handles: a terminal sends it to all processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
