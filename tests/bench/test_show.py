"""Simulated shows: a real scheduler, sleeping workers, a clock that skips sleep; nothing is lost, and time adds up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.scaling import show

pytest.importorskip("distributed")
ROOT = Path(__file__).resolve().parents[2]


def _simulated(*words: str) -> list[dict[str, float]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    command = [sys.executable, "-m", "benchmarks.scaling.show", *words]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_workers_and_the_scheduler_die_and_nothing_is_lost(tmp_path: Path) -> None:
    found = _simulated("--shots", "12", "--workers", "3")
    assert [row["trouble"] for row in found] == ["none", "workers", "scheduler"]
    for row in found:
        assert row["lost"] == 0
        assert row["makespan_s"] >= row["work_s"] / 3
    quiet, deaths, dies = found
    assert quiet["attempts"] == quiet["tasks"] == 48
    assert quiet["makespan_s"] <= quiet["work_s"] / 3 + quiet["longest_s"] + 5  # Graham, and what starting takes
    assert deaths["attempts"] == 49  # one worker died with one task
    assert 49 < dies["attempts"] <= 53  # and three more were in the middle when the scheduler did, at most


def test_the_longest_chain_by_hand() -> None:
    times = {"track": [10.0], "paint": [30.0], "gather": [5.0]}
    assert show._longest(show.tasks_of_show(3, 50), times) == 45.0
    lines = show.film_lines(times, 50)
    hours = (1500 * 75 + 80 * show.PUPPET_S) / 3600
    assert lines[0].endswith(f"{hours:.0f} hours of one worker")
    assert f"{hours / 256:7.2f} hours at best" in lines[-1]


def test_recorded_times_are_a_show_s_own(tmp_path: Path) -> None:
    notes = tmp_path / ".rotopaint/tasks/a"
    notes.mkdir(parents=True)
    for name, seconds in (("track", 1.5), ("paint.1-50", 2.5), ("paint.51-100", 3.5), ("gather", 0.5)):
        (notes / f"{name}.done").write_text(json.dumps({"seconds": seconds}))
    assert show.recorded_times(tmp_path) == {"track": [1.5], "paint": [2.5, 3.5], "gather": [0.5]}


def test_the_plot_stands_where_the_figures_are() -> None:
    rows = [{"workers": w, "trouble": "workers", "ratio": r} for w, r in ((256, 1.15), (1, 1.0), (16, 1.05))]
    root = ElementTree.fromstring(show.svg(rows))
    dots = sorted(
        (float(e.attrib["cx"]), float(e.attrib["cy"])) for e in root.iter("{http://www.w3.org/2000/svg}circle")
    )
    assert dots == [(60.0, 300.0), (360.0, 260.0), (660.0, 180.0)]
