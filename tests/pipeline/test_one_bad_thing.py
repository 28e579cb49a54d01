"""One bad thing does not sink the rest: a frame, an export."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from rotopaint_ai.cli import main
from rotopaint_ai.jobs import Cancel, Event, RunJob
from rotopaint_ai.pipeline import export, face_tracker, process_frame, render_frame
from rotopaint_ai.pipeline.run import run
from rotopaint_ai.shapes.predict import FrameShapes, ShapePredictor


@pytest.fixture
def job(puppet: ModuleType, pack: Path, tmp_path: Path) -> RunJob:
    pattern = puppet.make_plates(tmp_path / "plates", range(1001, 1007))
    return RunJob(str(pattern), str(tmp_path / "out"), (puppet.crop_text(),), str(pack), exports=(), threads=2)


def outcome_of(job: RunJob) -> tuple[set[int], set[int]]:
    """The frames that succeeded, and those that failed."""
    outcome = run(job, lambda _: None, Cancel())
    assert not outcome.is_whole
    return set(outcome.done), {*outcome.failed, *outcome.lost}


@pytest.mark.parametrize("factor", [np.nan, 1e4, -1e30], ids=["no numbers", "far away", "huge"])
def test_shapes_outside_all_bounds_fail_their_frames(
    job: RunJob, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    predict = ShapePredictor.__call__

    def broken(self: ShapePredictor, *rest: object) -> list[FrameShapes]:
        found = predict(self, *rest)  # type: ignore[arg-type]
        return [replace(each, points_PK=each.points_PK * factor) if each.frame == 1003 else each for each in found]

    monkeypatch.setattr(face_tracker.ShapePredictor, "__call__", broken)
    assert outcome_of(job) == ({1001, 1002, 1004, 1005, 1006}, {1003})


def test_a_nan_measure_fails_its_frame(job: RunJob, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = process_frame.FrameProcessor._finish_settled

    def broken(self: process_frame.FrameProcessor, frame: object, *rest: object) -> object:
        record = finish(self, frame, *rest)  # type: ignore[arg-type]
        return replace(record, seam_before=float("nan")) if record.frame == 1003 else record

    monkeypatch.setattr(process_frame.FrameProcessor, "_finish_settled", broken)
    assert outcome_of(job) == ({1001, 1002, 1004, 1005, 1006}, {1003})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_extreme_pixels_fail_at_most_their_frame(job: RunJob, puppet: ModuleType) -> None:
    picture = puppet.draw(1003)
    where = np.random.default_rng(1).random(picture.shape[:2]) < 0.01
    picture[where] = 1e38
    puppet.write_exr(Path(job.plates.replace("####", "1003")), picture)
    done = set(run(job, lambda _: None, Cancel()).done)
    assert {1001, 1002, 1005, 1006} <= done


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_run_and_clean_refuse_the_same_frames_for_pixels_that_are_no_numbers(
    job: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both refuse a frame with too few finite pixels around its seams to fill from."""
    whole = run(job, lambda _: None, Cancel())
    assert whole.is_whole
    monkeypatch.setattr(render_frame, "LEAST_FINITE", 1.1)
    assert set(run(replace(job, out=f"{job.out}.run"), lambda _: None, Cancel()).failed) == set(whole.done)
    words = ["clean", job.plates, f"{job.out}/shapes.roto.json", "--out", f"{job.out}.clean"]
    assert main(words) == 3
    assert not list(Path(f"{job.out}.clean").rglob("*.exr"))


def test_a_frame_that_the_tracker_cannot_read_fails_alone(job: RunJob, monkeypatch: pytest.MonkeyPatch) -> None:
    push = face_tracker.FaceTracker.push

    def broken(self: face_tracker.FaceTracker, frame: object, ms: object) -> object:
        if frame.number == 1003:  # type: ignore[attr-defined]
            raise FloatingPointError("made up")
        return push(self, frame, ms)  # type: ignore[arg-type]

    monkeypatch.setattr(face_tracker.FaceTracker, "push", broken)
    assert outcome_of(job) == ({1001, 1002, 1004, 1005, 1006}, {1003})


def test_an_export_that_cannot_hold_a_name_leaves_the_others(job: RunJob, monkeypatch: pytest.MonkeyPatch) -> None:
    from rotopaint_ai.errors import DocumentError

    write = export._export_document

    def refuse(format: export.FormatSpec, *rest: object) -> export.ExportedFile:
        if format.name == "SVG":
            raise DocumentError("shapes.svg: cannot hold the name; rename the shape")
        return write(format, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(export, "_export_document", refuse)
    events: list[Event] = []
    job = replace(job, exports=("svg", "nuke"), frames="1001-1002")
    outcome = run(job, events.append, Cancel())
    assert not outcome.is_whole
    assert (Path(job.out) / "shapes.nk").is_file()
    assert [each.error for each in outcome.exports if each.format == "SVG"] == [
        "shapes.svg: cannot hold the name; rename the shape"
    ]
    assert any("--export svg" in str(event.facts.get("message")) for event in events)
    assert "not written" in (Path(job.out) / "report/index.html").read_text()
