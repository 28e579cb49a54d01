"""Modules outside every package, for tests: benchmarks, scripts, and what a room's tests share.

With `--import-mode=importlib` pytest imports each test file alone, so that a neighbour is not importable by name. Of
the tests' folders only this one is on the path (pyproject.toml).
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType


def module_at(path: Path) -> ModuleType:
    """The module of a Python file: executed once in a process, and in `sys.modules`, where dataclasses look."""
    name = "file_" + re.sub(r"\W", "_", str(path.resolve()))
    if name not in sys.modules:
        sys.modules[name] = _executed(name, path)
    return sys.modules[name]


def _executed(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
