"""Which room may import which, and what a bare import must not load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "onnxruntime", "PySide6", "cv2", "numpy", "OpenImageIO", "av", "numba", "yaml", "rich"}
LIGHT = (
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
)
STEPS = """
import sys
sys.path[:0], before = {paths!r}, set()
for step in {steps!r}:
    exec(step)
    now = {{name.split(".")[0] for name in sys.modules}}
    print(*now - before)
    before = now
"""


def first_loaded_by(*steps: str) -> list[set[str]]:
    """Top-level modules that each step loads first, when the steps run in order in a new interpreter."""
    paths = [str(ROOT), str(ROOT / "ui"), str(ROOT / "plugin"), str(ROOT / "models")]
    done = subprocess.run(
        [sys.executable, "-c", STEPS.format(paths=paths, steps=steps)], capture_output=True, text=True, check=True
    )
    return [set(line.split()) for line in done.stdout.splitlines()]


def test_light_modules_load_nothing_heavy() -> None:
    loaded = first_loaded_by(*(f"import {module}" for module in LIGHT), "import rotopaint_ai.shapes.bezier")
    heavy = {module: found & HEAVY for module, found in zip(LIGHT, loaded) if found & HEAVY}
    assert heavy == {}
    assert "numpy" in loaded[-1]  # what is heavy is seen


def test_a_run_loads_only_what_it_needs() -> None:
    """Movies need PyAV, other colour spaces OpenColorIO, other stills OpenImageIO.

    Each costs its start and 10 to 30 MB, and EXR as most studios write it needs none.
    """
    wanted_by_few = {"av", "PyOpenColorIO", "OpenImageIO", "torch", "numba", "PIL"}
    [loaded] = first_loaded_by("import rotopaint_ai.pipeline.run")
    assert loaded & wanted_by_few == set()


def test_import_directions() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    paths = os.pathsep.join(str(ROOT / place) for place in (".", "ui", "plugin", "models"))
    done = subprocess.run(
        [str(tool), "--no-cache"], cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stdout[-3000:]
