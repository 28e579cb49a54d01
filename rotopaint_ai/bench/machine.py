"""The machine of a measurement: processor, caches, memory, accelerator, versions, and the roofline.

The roofline is measured: bytes per second that all cores copy together, and float32 operations per second of matrix
products on all cores. Work with fewer operations per byte than `ridge_flop_per_byte` is limited by memory, other work
by arithmetic.
Source: Williams, Waterman & Patterson, "Roofline: an insightful visual performance model" (2009).
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from rotopaint_ai import __version__
from rotopaint_ai.jobs import n_cores

PACKAGES = ("numpy", "opencv-python-headless", "onnxruntime", "onnxruntime-gpu", "torch", "OpenImageIO", "av")
COPIED_BYTES, MOST_COPIED_BYTES = 64 << 20, 2 << 30  # bytes per core, and at most for all cores
SIDE, ROUNDS = 768, 3
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_DEVICE = Path("/dev/nvidia0")


def machine_facts() -> dict[str, Any]:
    """Facts of the machine as JSON values; measuring the roofline takes about a second."""
    return {
        "cpu": _cpu_model(),
        "cores": n_cores(),
        "caches": _caches(),
        "memory_gb": _memory_gb(),
        **_roofline(),
        "accelerator": accelerator(),
        "system": platform.platform(),
        "versions": {"rotopaint-ai": __version__, "python": platform.python_version(), **_library_versions()},
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Hardware"))]
    return names[0] if names else platform.processor() or platform.machine()


def _caches() -> dict[str, str]:
    """Sizes of the first core's caches by level; empty where Linux does not report them."""
    found = {}
    for folder in sorted(_CACHES.glob("index*")):
        with suppress(OSError):  # some systems report a cache's level but not its size
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
            found[f"L{level} {kind.lower()}"] = size
    return found


def _memory_gb() -> float | None:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)


def _roofline() -> dict[str, float]:
    n_bytes = min(COPIED_BYTES, MOST_COPIED_BYTES // n_cores())
    source = [np.ones(n_bytes, np.uint8) for _ in range(n_cores())]
    target = [np.empty_like(each) for each in source]
    sides = [np.ones((SIDE, SIDE), np.float32) for _ in source]
    copy_s = _best_s(lambda at: np.copyto(target[at], source[at]))
    product_s = _best_s(lambda at: sides[at] @ sides[at])
    bytes_per_s = 2 * n_bytes * len(source) / copy_s  # a copy reads and writes each byte
    flop_per_s = 2 * SIDE**3 * len(source) / product_s
    return {
        "copy_gb_per_s": round(bytes_per_s / 1e9, 2),
        "float32_gflop_per_s": round(flop_per_s / 1e9, 1),
        "ridge_flop_per_byte": round(flop_per_s / bytes_per_s, 1),
    }


def _best_s(act: Callable[[int], object]) -> float:
    """Seconds until all cores have called `act` once, in parallel; the best of several rounds."""
    taken = []
    with ThreadPoolExecutor(n_cores()) as pool:
        for _ in range(ROUNDS + 1):  # the first one warms up
            began = time.perf_counter()
            list(pool.map(act, range(n_cores())))
            taken.append(time.perf_counter() - began)
    return min(taken[1:])


def accelerator() -> str:
    """Name, memory and driver of the NVIDIA devices, or the reason why they are unknown."""
    try:
        import pynvml
    except ImportError:
        if not _DEVICE.exists():
            return "none"
        return "an unknown NVIDIA device: pip install nvidia-ml-py (part of 'rotopaint-ai[train]')"
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(at) for at in range(pynvml.nvmlDeviceGetCount())]
        names = [f"{_device_name(pynvml, h)}, {pynvml.nvmlDeviceGetMemoryInfo(h).total / 1e9:.0f} GB" for h in handles]
        return f"{'; '.join(names)}; driver {pynvml.nvmlSystemGetDriverVersion()}" if names else "none"
    except pynvml.NVMLError as error:
        return f"an NVIDIA device whose driver does not answer ({error})" if _DEVICE.exists() else "none"


def _device_name(nvml: Any, handle: Any) -> str:
    name = nvml.nvmlDeviceGetName(handle)
    return name.decode() if isinstance(name, bytes) else str(name)


def _library_versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
