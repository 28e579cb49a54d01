"""What is told of a run's frames: the command that makes them again, their record, and files that changed meanwhile."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rotopaint_ai.cli import run as command
from rotopaint_ai.jobs import RunJob
from rotopaint_ai.pipeline import finalise, save_to_project
from rotopaint_ai.pipeline.manifest import run_command
from rotopaint_ai.pipeline.record_store import FrameRecord, SourceFile

JOBS = {
    "least": RunJob("a.####.exr", "out", ("auto",)),
    "most": RunJob(
        *("plates/a b.####.exr", "the out", ("1001:1,2,30,40", "1009:2,2,30,40")),
        model="pip",
        frames="1001-1010",
        exports=("nuke", "svg"),
        clean=False,
        method="two-bank",
        patch=True,
        device="cpu",
        threads=3,
        colourspace="ACEScg",
        key_tolerance_px=0.25,
        resume=True,
        project="shot.rotopaint",
        overwrite=True,
        force=True,
        face="left",
    ),
    "left alone": RunJob("a.####.exr", "out", ("auto",), project="shot.rotopaint", leave_project=True),
}


@pytest.mark.parametrize("name", JOBS)
def test_the_command_of_a_job_does_that_job(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[RunJob] = []
    monkeypatch.setattr(command, "do", lambda job, events: done.append(job))
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    program, name_of_command, *words = shlex.split(run_command(JOBS[name]))
    command.execute(parser.parse_args(words))
    assert (program, name_of_command) == ("rotopaint", "run")
    assert done == [JOBS[name]]


def test_a_panel_is_told_which_frames_are_lost_and_which_failed() -> None:
    records = [
        FrameRecord(1001, "done", errors={"seam": 1.5}, seam_before=3.0, seam_after=0.5),
        FrameRecord(1002, "lost", message="no face"),
        FrameRecord(1003, "failed", message="cannot be read"),
        FrameRecord(1004, "failed"),
    ]
    state = SimpleNamespace(finished={record.frame: record for record in records})
    plan = SimpleNamespace(models=SimpleNamespace(device_note="CPU"))
    found = save_to_project._run_record(cast(Any, plan), cast(Any, state))
    assert (dict(found.errors), found.lost) == ({1001: {"seam": 1.5}}, {1002})
    assert (found.failed, found.device) == ({1003: "cannot be read", 1004: ""}, "CPU")
    assert found.seam[1001] == (3.0, 0.5)


@pytest.mark.parametrize(("source", "name"), [(SourceFile("a.1001.exr", 1, 1), "a.1001.exr"), (None, "a.####.exr")])
def test_a_plate_that_changed_meanwhile_is_named(tmp_path: Path, source: SourceFile | None, name: str) -> None:
    plan = cast(Any, SimpleNamespace(plate=SimpleNamespace(name="a.####.exr"), out=tmp_path))
    found = finalise._record_on_disk(FrameRecord(1001, "done", source=source), plan, {}, is_changed=True)
    assert found.status == "failed"
    assert str(found.message).startswith(f"frame 1001: {name} changed on disk while the run was going on")
