"""What a worker process of our own cluster does first: Dask calls it there (its option `preload`)."""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:
    """Leave Ctrl-C to who started the cluster: a terminal tells all of its processes at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
