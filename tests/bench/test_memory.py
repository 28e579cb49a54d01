"""The benchmark of memory reads what a run itself held."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from module_file import module_at
from rotopaint_ai.inference.sample import CROP_FILE, find_sample, read_crops

HELD_MB = 800  # several times what a run of one frame takes


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere a process's peak is its own")
def test_memory_of_the_measuring_process_is_not_counted(tmp_path: Path) -> None:
    memory = module_at(Path(__file__).parents[2] / "benchmarks" / "memory.py")
    plates, crop = memory.link_frames(tmp_path, 1), read_crops(find_sample() / CROP_FILE)[0]
    held = b"x" * (HELD_MB << 20)
    peak = memory.peak_mb(plates, crop, tmp_path / "out", 1, 0)
    del held  # until here
    assert 50 < peak < HELD_MB
