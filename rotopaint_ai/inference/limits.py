"""Bounds on what a model may take in one call: time, by ending its process (`process`), and memory, by its allocator.

A graph may hold loops, and tensors whose sizes come from its own values, so that a small file can run for ever or ask
for any memory.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

LIMIT_S = 120.0  # for one call, or for a model to open; the shipped models take milliseconds
TICK_S = 0.5
MOST_BYTES = 8 << 30  # memory limit of all models of a process together, on the CPU
SHARED_ALLOCATOR = "session.use_env_allocators"


@lru_cache(maxsize=1)
def bound_memory() -> None:
    """Give this process's models on the CPU one allocator, with an end. Sessions ask for it by `SHARED_ALLOCATOR`."""
    import onnxruntime

    place = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    as_usual = dict.fromkeys(("arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk"), -1)
    onnxruntime.create_and_register_allocator(place, onnxruntime.OrtArenaCfg({"max_mem": MOST_BYTES, **as_usual}))


def explain_error(error: Exception) -> str:
    """The error of a call: the memory limit where that was the cause, else the original text."""
    if "Available memory of" in str(error):
        return f"it wants more than {MOST_BYTES >> 30} GB; use another pack"
    return str(error)


def own_peak_memory_mb() -> float:
    """The largest resident memory of this process so far, megabytes; 0 where the system does not tell.

    Linux's `getrusage` counts what the process that started this one held as well, so its own record is read there.
    """
    try:
        match = re.search(r"^VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
        return round(int(match[1]) / 1024, 1) if match else 0.0
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return 0.0
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20), 1)
