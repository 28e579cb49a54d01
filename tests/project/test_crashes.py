"""Sessions killed at random instants: nothing that was committed is lost, undo goes on, the file is whole."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from module_file import module_at

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "crashes.py"


@pytest.fixture
def crashes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark's module, whose child processes find the product."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return module_at(BENCHMARK)


@pytest.mark.skipif(sys.platform == "win32", reason="kills with a signal")
def test_a_killed_session_loses_at_most_the_edit_under_way(crashes: ModuleType, tmp_path: Path) -> None:
    found = crashes.measure(tmp_path, kills=6, seed=7, longest_s=0.15, fewest=6)
    assert [each for each in found if not each.is_right] == []
    assert sum(each.undone for each in found) > 8  # 19 and more: some of the acts are undoes


def test_the_check_detects_a_lost_edit(crashes: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "shot.rotopaint"
    session = crashes.ShotSession()
    session.start_project(path)
    script = crashes.edits(session, 3)
    for _ in range(5):
        next(script)
    session.close()
    assert crashes.look(path, 3, 5).is_right
    assert not crashes.look(path, 3, 7).is_right
