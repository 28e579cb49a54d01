"""The whole line on a made-up puppet: what is written, what happens to broken frames, and resuming after a kill."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import OpenImageIO
import pytest

import event_command
from rotopaint_ai.errors import CancelledError, CropError, UsageError
from rotopaint_ai.exchange import document as roto_json
from rotopaint_ai.jobs import Cancel, Event, RunJob
from rotopaint_ai.pipeline.finalise import Outcome
from rotopaint_ai.pipeline.plan import code_digest, digest_of
from rotopaint_ai.pipeline.run import run

ROOT = Path(__file__).resolve().parents[2]
BUILT = code_digest()  # now, when the modules have just been imported


def _job(puppet: ModuleType, plates: str, pack: Path, out: Path, **more: Any) -> RunJob:
    return RunJob(
        plates=plates, out=str(out), model=str(pack), **{"crops": (puppet.crop_text(),), "threads": 2, **more}
    )


def _run(job: RunJob) -> tuple[Outcome, list[Event]]:
    events: list[Event] = []
    return run(job, events.append, Cancel()), events


def _pixels(path: Path) -> Any:
    source = OpenImageIO.ImageInput.open(str(path))
    pixels = source.read_image("float")
    source.close()
    return pixels


@pytest.fixture(scope="module")
def whole(puppet: ModuleType, plates: str, pack: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unbroken run's folder."""
    out = tmp_path_factory.mktemp("whole") / "out"
    outcome, _ = _run(_job(puppet, plates, pack, out))
    assert outcome.is_whole
    return out


def comparable(out: Path) -> dict[str, bytes]:
    """Every file of a run by name, without those that contain times: run.json, the report page, the run's own state."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and ".rotopaint" not in path.parts and path.name not in ("run.json", "index.html")
    }


def facts(out: Path) -> dict[str, Any]:
    """`run.json` without times."""
    content = json.loads((out / "run.json").read_text())
    for name in ("finished", "timing", "device", "job", "command"):
        content.pop(name)
    return content


def test_outputs_are_those_of_the_contract(whole: Path) -> None:
    for frame in range(1001, 1013):
        for name in ("matte/seam_middle", "matte/outline", "matte/all", "clean/plate"):
            assert (whole / f"{name}.{frame}.exr").is_file()
    for name in ("shapes.roto.json", "shapes.nk", "report/index.html", "run.json"):
        assert (whole / name).is_file()
    plate = json.loads((whole / "run.json").read_text())["plate"]
    assert [plate[name] for name in ("first_frame", "last_frame", "width", "height")] == [1001, 1012, 192, 120]


def test_landmarks_and_shapes_are_where_the_puppet_is(puppet: ModuleType, whole: Path) -> None:
    document = roto_json.read(whole / "shapes.roto.json")
    assert document.landmarks.names == puppet.NAMES
    for frame in (1001, 1006, 1012):
        cx, cy, radius = puppet.face_at(frame, 192, 120)
        found = np.array([(mark.x, mark.y) for mark in document.landmarks.keys[frame] if mark])
        assert np.abs(found - (puppet.OFFSETS * radius + (cx, cy))).max() < 1.0
        middle = document.shape("seam_middle").at(frame)[1]
        assert (middle.x, middle.y) == pytest.approx((cx, cy), abs=1.0)


def test_held_frames_are_identical_and_named(whole: Path) -> None:
    document = roto_json.read(whole / "shapes.roto.json")
    for shape in document.shapes:
        assert all(shape.at(frame) == shape.at(frame + 1) for frame in range(1001, 1013, 2))
    held = json.loads((whole / "run.json").read_text())["frames"]["held"]
    assert held == [[frame, frame + 1] for frame in range(1001, 1013, 2)]


def test_clean_plate_changes_the_matte_only_and_hides_the_seam(plates: str, whole: Path) -> None:
    plate = _pixels(Path(plates.replace("####", "1004")))
    clean = _pixels(whole / "clean/plate.1004.exr")
    source = OpenImageIO.ImageInput.open(str(whole / "matte/seam_middle.1004.exr"))
    spec = source.spec()
    source.close()
    matte = np.zeros(plate.shape[:2], dtype=np.float32)
    part = _pixels(whole / "matte/seam_middle.1004.exr")[..., 3]
    matte[spec.y : spec.y + spec.height, spec.x : spec.x + spec.width] = part
    assert (spec.full_width, spec.full_height) == (192, 120)
    assert (clean != plate)[matte == 0].sum() == 0
    assert (clean != plate).any()
    reported = json.loads((whole / "run.json").read_text())["seam"]
    for frames in (reported["by_frame"], reported["by_seam"]["seam_middle"]):
        assert sorted(map(int, frames)) == list(range(1001, 1013))
        assert all(after < before / 3 for before, after in frames.values())


def test_events_tell_the_whole_story(puppet: ModuleType, plates: str, pack: Path, tmp_path: Path) -> None:
    _, events = _run(_job(puppet, plates, pack, tmp_path / "out", frames="1003-1006"))
    passes = [*["tracked", "progress"] * 4, *["frame", "progress"] * 4]
    assert [event.kind for event in events] == ["started", *passes, "finished"]
    for kind in ("tracked", "frame"):
        assert [event.facts["frame"] for event in events if event.kind == kind] == [1003, 1004, 1005, 1006]
    for event in events:
        assert json.loads(event.line())["event"] == event.kind
    assert events[-2].facts["done"] == events[-2].facts["total"] == 4


def test_no_clean_writes_no_clean_plates(puppet: ModuleType, plates: str, pack: Path, tmp_path: Path) -> None:
    _run(_job(puppet, plates, pack, tmp_path, frames="1001-1002", clean=False))
    assert not (tmp_path / "clean").exists()
    assert (tmp_path / "matte/all.1001.exr").is_file()
    assert (tmp_path / "report/index.html").is_file()


def test_broken_and_missing_frames_are_named_and_the_others_go_on(
    puppet: ModuleType, pack: Path, tmp_path: Path
) -> None:
    pattern = puppet.make_plates(tmp_path / "plates", range(1001, 1009))
    broken = tmp_path / "plates/plate.1004.exr"
    broken.write_bytes(broken.read_bytes()[:900])
    (tmp_path / "plates/plate.1006.exr").unlink()
    outcome, events = _run(_job(puppet, pattern, pack, tmp_path / "out"))
    assert outcome.done == (1001, 1002, 1003, 1005, 1007, 1008)
    assert list(outcome.failed) == [1004]
    assert "plate.1004.exr" in outcome.failed[1004]
    assert outcome.missing == (1006,)
    assert not outcome.is_whole
    assert [event.facts["frame"] for event in events if event.kind == "error"] == [1004]
    assert (tmp_path / "out/clean/plate.1005.exr").is_file()


def test_lost_face_leaves_the_plate_as_it_was(puppet: ModuleType, pack: Path, tmp_path: Path) -> None:
    pattern = puppet.make_plates(tmp_path / "plates", range(1001, 1007))
    for frame in (1003, 1004):
        puppet.write_exr(tmp_path / f"plates/plate.{frame}.exr", puppet.draw(frame, with_puppet=False))
    outcome, _ = _run(_job(puppet, pattern, pack, tmp_path / "out"))
    assert outcome.lost == (1003, 1004)
    assert outcome.done == (1001, 1002, 1005, 1006)
    assert not outcome.is_whole
    document = roto_json.read(tmp_path / "out/shapes.roto.json")
    assert not document.shape("outline").is_visible(1003)
    assert document.shape("outline").is_visible(1005)
    assert (tmp_path / "out/clean/plate.1003.exr").read_bytes() == (tmp_path / "plates/plate.1003.exr").read_bytes()


def test_auto_crop_finds_the_puppet(puppet: ModuleType, plates: str, pack: Path, tmp_path: Path) -> None:
    outcome, _ = _run(_job(puppet, plates, pack, tmp_path, frames="1001-1002", crops=("auto",)))
    assert outcome.lost == ()
    document = roto_json.read(tmp_path / "shapes.roto.json")
    cx, cy, _ = puppet.face_at(1001, 192, 120)
    middle = document.shape("seam_middle").at(1001)[1]
    assert (middle.x, middle.y) == pytest.approx((cx, cy), abs=1.0)


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"frames": "2001-2010"}, UsageError, "plate has frames 1001-1012"),
        ({"crops": ("900,900,50,50",)}, CropError, "outside the plate"),
        ({"crops": ("10,900,50,50",)}, CropError, "outside the plate"),
        ({"crops": ("900,10,50,50",)}, CropError, "outside the plate"),
        ({"crops": ("10,10",)}, CropError, "X,Y,W,H"),
        ({"crops": ("0,0,100000,100000",)}, CropError, "around the face"),
        ({"exports": ("maya",)}, UsageError, "--export maya"),
        ({"method": "spline"}, UsageError, "--method spline: wanted one of auto, two-bank"),
    ],
)
def test_wrong_use_is_refused_before_work_starts(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path, more: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        _run(_job(puppet, plates, pack, tmp_path / "out", **more))
    assert not (tmp_path / "out").exists()


def test_two_runs_do_not_write_into_one_folder(puppet: ModuleType, plates: str, pack: Path, tmp_path: Path) -> None:
    job = _job(puppet, plates, pack, tmp_path, frames="1001-1002")

    def start_another(event: Event) -> None:
        if event.kind == "started":
            with pytest.raises(UsageError, match="another run is writing here"):
                run(job, lambda _: None, Cancel())

    assert run(job, start_another, Cancel()).is_whole


def test_defect_in_one_frame_fails_that_frame_only_and_keeps_its_roto(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rotopaint_ai.pipeline import process_frame as frame_room

    def refuse(path: Path, *rest: Any) -> None:
        if "1002" in path.name:
            raise ZeroDivisionError("made up")
        written(path, *rest)

    written = frame_room.write_filled
    monkeypatch.setattr(frame_room, "write_filled", refuse)
    outcome, _ = _run(_job(puppet, plates, pack, tmp_path, frames="1001-1004"))
    assert outcome.done == (1001, 1003, 1004)
    assert "made up" in outcome.failed[1002]
    assert "1002" in outcome.failed[1002]
    assert "Traceback" in (tmp_path / ".rotopaint/errors.txt").read_text()
    assert 1002 in roto_json.read(tmp_path / "shapes.roto.json").shape("outline").keys
    monkeypatch.undo()
    outcome, events = _run(_job(puppet, plates, pack, tmp_path, frames="1001-1004", resume=True))
    assert outcome.is_whole
    assert [event.facts["frame"] for event in events if event.kind == "frame"] == [1002]


# Stopping and going on


class StopAfter:
    """Requests a stop after some frames."""

    def __init__(self, n_frames: int, cancel: Cancel, kind: str = "frame") -> None:
        self.left, self.cancel, self.kind = n_frames, cancel, kind

    def __call__(self, event: Event) -> None:
        self.left -= event.kind == self.kind
        if self.left <= 0:
            self.cancel.request()


def _stop(job: RunJob, n_frames: int) -> None:
    cancel = Cancel()
    with pytest.raises(CancelledError, match="--resume"):
        run(job, StopAfter(n_frames, cancel), cancel)


def test_stopped_run_goes_on_to_the_same_result(
    puppet: ModuleType, plates: str, pack: Path, whole: Path, tmp_path: Path
) -> None:
    _stop(_job(puppet, plates, pack, tmp_path), 3)
    assert not (tmp_path / "run.json").exists()
    _, events = _run(_job(puppet, plates, pack, tmp_path, resume=True))
    assert 3 <= events[0].facts["done"] < 12
    assert comparable(tmp_path) == comparable(whole)
    assert facts(tmp_path) == facts(whole)


def test_a_run_stopped_while_tracking_resumes_to_the_same_result(
    puppet: ModuleType, plates: str, pack: Path, whole: Path, tmp_path: Path
) -> None:
    cancel = Cancel()
    with pytest.raises(CancelledError, match="--resume"):
        run(_job(puppet, plates, pack, tmp_path), StopAfter(4, cancel, "tracked"), cancel)
    assert not list((tmp_path / "clean").glob("*"))
    _, events = _run(_job(puppet, plates, pack, tmp_path, resume=True))
    assert 0 < sum(event.kind == "tracked" for event in events) < 10
    assert comparable(tmp_path) == comparable(whole)
    assert facts(tmp_path) == facts(whole)


def test_resume_makes_deleted_files_again(
    puppet: ModuleType, plates: str, pack: Path, whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    (out / "clean/plate.1003.exr").unlink()
    (out / "matte/all.1010.exr").write_bytes(b"torn")
    _, events = _run(_job(puppet, plates, pack, out, resume=True))
    assert [event.facts["frame"] for event in events if event.kind == "frame"] == [1003, 1010]
    assert comparable(out) == comparable(whole)


def test_resume_of_a_finished_run_does_nothing_but_the_end(
    puppet: ModuleType, plates: str, pack: Path, whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    _, events = _run(_job(puppet, plates, pack, out, resume=True))
    assert [event.kind for event in events] == ["started", "finished"]
    assert comparable(out) == comparable(whole)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"crops": ("40,12,90,90",)}, "the crop changed"),
        ({"frames": "1001-1003"}, "the frame range changed"),
        ({"clean": False}, "the settings changed"),
    ],
)
def test_changed_job_starts_again_and_says_so(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path, more: dict[str, Any], text: str
) -> None:
    _stop(_job(puppet, plates, pack, tmp_path), 2)
    _, events = _run(_job(puppet, plates, pack, tmp_path, resume=True, overwrite=True, **more))
    assert text in str(events[0].facts["message"])
    assert events[1].facts["done"] == 0


def test_changed_plate_starts_again_and_touched_one_does_not(puppet: ModuleType, pack: Path, tmp_path: Path) -> None:
    pattern = puppet.make_plates(tmp_path / "plates", range(1001, 1007))
    job = _job(puppet, pattern, pack, tmp_path / "out", resume=True)
    _run(job)
    first = tmp_path / "plates/plate.1001.exr"
    os.utime(first, (1, 1))
    _, events = _run(job)
    assert events[0].facts["done"] == 6
    puppet.write_exr(first, puppet.draw(1005))
    _, events = _run(job)
    assert "plate changed on disk at 1001" in events[0].facts["message"]
    assert events[1].facts["done"] == 0


def test_changed_code_starts_again_and_says_so(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stop(_job(puppet, plates, pack, tmp_path), 2)
    monkeypatch.setattr("rotopaint_ai.pipeline.plan.code_digest", lambda: "another fill, the same version")
    _, events = _run(_job(puppet, plates, pack, tmp_path, resume=True))
    assert "another version or build" in str(events[0].facts["message"])
    assert events[1].facts["done"] == 0


def test_code_is_reported_by_content(tmp_path: Path) -> None:
    code = tmp_path / "seams" / "light.py"
    code.parent.mkdir()
    code.write_text("A = 1\n")
    before = digest_of(tmp_path)
    os.utime(code, (1, 1))
    assert digest_of(tmp_path) == before
    code.write_text("A = 2\n")
    assert digest_of(tmp_path) != before


def test_killed_runs_go_on_to_the_same_result(
    puppet: ModuleType, plates: str, pack: Path, whole: Path, tmp_path: Path
) -> None:
    """Killed at random moments until one process finishes: the files equal those of one run.

    Moments are counted in the process's own time, which does not depend on the machine's load.
    """
    dice = random.Random(7)
    words = ["run", plates, "--crop", puppet.crop_text(), "--out", str(tmp_path), "--model", str(pack), "--resume"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    n_killed = 0
    for _ in range(40):
        at = f"n == {dice.randint(1, 4)}"  # events to wait for, so that every life gets a little further
        deed = f"signal.setitimer(signal.ITIMER_VIRTUAL, {0.0001 + dice.random() * 0.06})"
        command = event_command.command([*words, "--threads", "2", "--events"], at=at, deed=deed)
        done = subprocess.run(command, capture_output=True, env=environment, cwd=ROOT, text=True, check=False)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGVTALRM, done.stderr  # like -9: nothing of Python's runs any more
        n_killed += 1
    else:
        pytest.fail("never got through")
    assert n_killed >= 3
    built = json.loads((tmp_path / ".rotopaint/job.json").read_text())["rotopaint"]
    assert built[1] == BUILT, "the code was edited, or is another checkout's, while this test ran: run it again"
    assert comparable(tmp_path) == comparable(whole)
    assert facts(tmp_path) == facts(whole)
