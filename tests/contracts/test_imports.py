"""Which room may import which, and what a bare import must not load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "onnxruntime", "PySide6", "cv2", "numpy", "OpenImageIO", "av", "numba", "yaml", "rich")


def loaded_by(code: str) -> set[str]:
    """Top-level modules that are loaded after running `code` in a fresh interpreter."""
    paths = [str(ROOT), str(ROOT / "ui"), str(ROOT / "plugin"), str(ROOT / "models")]
    script = f"import sys; sys.path[:0] = {paths!r}\n{code}\nprint(' '.join({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "rotopaint_ai",
        "rotopaint_ai.api",
        "rotopaint_ai.cli",
        "rotopaint_ai.jobs",
        "rotopaint_ai.sheet",
        "rotopaint_ai.shapes.roto",
        "rotopaint_ai.exchange.document",
        "rotopaint_ai.exchange.nuke",
        "rotopaint_ai.project",
        "rotopaint_ai.roto",
        "rotopaint_ai.live.wire",
    ],
)
def test_light_modules_load_nothing_heavy(module: str) -> None:
    assert loaded_by(f"import {module}").isdisjoint(HEAVY)


def test_a_run_loads_only_what_it_needs() -> None:
    """Movies want PyAV, other colour spaces OpenColorIO, other stills OpenImageIO: each costs its start and 10 to 30
    MB, and EXR as most studios write it wants none."""
    wanted_by_few = {"av", "PyOpenColorIO", "OpenImageIO", "torch", "numba", "PIL"}
    assert loaded_by("import rotopaint_ai.pipeline.run").isdisjoint(wanted_by_few)


def test_the_check_sees_a_heavy_import() -> None:
    assert "numpy" in loaded_by("import rotopaint_ai.shapes.bezier")


def test_import_directions() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    paths = os.pathsep.join(str(ROOT / place) for place in (".", "ui", "plugin", "models"))
    done = subprocess.run(
        [str(tool), "--no-cache"], cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stdout[-3000:]
