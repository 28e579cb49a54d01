"""Time and memory limits of one model call.

An ONNX graph may loop without end or allocate tensors of any size, so a small file can hang or exhaust the machine.
`process` enforces the time limit by ending its process, onnxruntime's allocator the memory limit.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

LIMIT_S = 120.0  # seconds for one call or for opening a model; shipped models take milliseconds
TICK_S = 0.5
MOST_BYTES = 8 << 30  # CPU memory limit of all models of a process together
SHARED_ALLOCATOR = "session.use_env_allocators"


@lru_cache(maxsize=1)
def bound_memory() -> None:
    """Register one CPU allocator with a memory limit for this process; sessions opt in by `SHARED_ALLOCATOR`."""
    import onnxruntime

    place = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    defaults = dict.fromkeys(("arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk"), -1)
    onnxruntime.create_and_register_allocator(place, onnxruntime.OrtArenaCfg({"max_mem": MOST_BYTES, **defaults}))


def explain_error(error: Exception) -> str:
    """The text of a call's error; names the memory limit where that caused it."""
    if "Available memory of" in str(error):
        return f"it wants more than {MOST_BYTES >> 30} GB; use another pack"
    return str(error)


def own_peak_memory_mb() -> float:
    """Peak resident memory of this process so far, megabytes; 0 where the system does not report it.

    On Linux, `getrusage` includes the peak of the parent process, so `/proc` is read instead.
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
