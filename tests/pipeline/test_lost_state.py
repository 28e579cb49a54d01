"""What is gone from the disk, or has changed under a run, is never called done."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import av
import pytest

from rotopaint_ai.cli import main
from rotopaint_ai.crops import Crop, CropKeys
from rotopaint_ai.errors import CancelledError, DamagedFrameError, DiskError
from rotopaint_ai.exchange import document as roto_json
from rotopaint_ai.jobs import Cancel, Event, RunJob
from rotopaint_ai.pipeline import out_folder, passes, plan, process_frame
from rotopaint_ai.pipeline.record_store import crops_before
from rotopaint_ai.pipeline.run import run
from rotopaint_ai.plates.plate import Plate


@pytest.fixture
def job(puppet: ModuleType, pack: Path, tmp_path: Path) -> RunJob:
    pattern = puppet.make_plates(tmp_path / "plates", range(1001, 1007))
    return RunJob(str(pattern), str(tmp_path / "out"), (puppet.crop_text(),), str(pack), exports=(), threads=1)


def at_frame(number: int, act: Callable[[], object]) -> Callable[[Event], None]:
    """A sink that does something once, when a frame is finished."""

    def see(event: Event) -> None:
        if event.kind == "frame" and event.facts["frame"] == number:
            act()

    return see


@pytest.mark.parametrize(
    ("frame", "says"),
    [(1004, "run again"), (1006, "lacks frames 1001-1006.*run again")],  # the first also where others are to be read
)
def test_records_that_are_gone_end_the_run_and_leave_the_shapes(job: RunJob, frame: int, says: str) -> None:
    out = Path(job.out)
    with pytest.raises(DiskError, match=says):
        run(job, at_frame(frame, lambda: shutil.rmtree(out / ".rotopaint")), Cancel())
    assert not (out / "shapes.roto.json").exists()
    assert not (out / "run.json").exists()


def test_a_run_resumes_without_records_from_the_tracker_memory(
    job: RunJob, puppet: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet.make_plates(Path(job.plates).parent, range(1001, 1013))
    monkeypatch.setattr(passes, "SNAPSHOT_INTERVAL_S", 0.0)
    journal, cancel = Path(job.out) / ".rotopaint" / "tracked.journal", Cancel()
    with pytest.raises(CancelledError):
        run(job, lambda event: cancel.request() if event.kind == "tracked" else None, cancel)
    assert journal.with_suffix(".snapshot").exists()
    journal.unlink()
    outcome = run(RunJob.from_json({**job.to_json(), "resume": True}), lambda _: None, Cancel())
    assert outcome.done == tuple(range(1001, 1013))


def test_a_folder_that_is_gone_ends_the_run(job: RunJob) -> None:
    out = Path(job.out)
    with pytest.raises((DiskError, OSError)):  # the second where a frame was just being written
        run(job, at_frame(1004, lambda: shutil.rmtree(out, ignore_errors=True)), Cancel())
    assert not (out / "shapes.roto.json").exists()
    assert not (out / "run.json").exists()


@pytest.mark.parametrize("name", ["before", "after", "face"])
def test_pictures_of_the_report_that_are_gone_are_left_out(job: RunJob, name: str) -> None:
    pictures = Path(job.out) / "report" / "img"

    def remove() -> None:
        for path in pictures.glob(f"{name}.*"):
            path.unlink()

    assert run(job, at_frame(1006, remove), Cancel()).is_whole
    page = (pictures.parent / "index.html").read_text(encoding="utf-8")
    shown = set(re.findall(r"img/\w+\.\d+\.jpg", page))
    assert {path for path in shown if not (pictures.parent / path).exists()} == set()


def test_the_disks_faults_have_an_exit_code_of_their_own(
    job: RunJob, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", job.plates, "--crop", job.crops[0], "--out", job.out, "--model", str(job.model)]
    for error in (DiskError("gone"), OSError(28, "No space left on device", "matte.exr")):

        def refuse(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("rotopaint_ai.pipeline.run.run", refuse)
        assert main(words) == 5
    assert "matte.exr: No space left on device" in capsys.readouterr().err


def test_clean_plates_that_are_gone_are_no_done_frames(job: RunJob) -> None:
    clean = Path(job.out) / "clean"
    outcome = run(job, at_frame(1004, (clean / "plate.1002.exr").unlink), Cancel())
    assert list(outcome.failed) == [1002]
    assert "files are gone" in outcome.failed[1002]
    assert run(RunJob.from_json({**job.to_json(), "resume": True}), lambda _: None, Cancel()).is_whole


def test_a_frame_is_redone_when_its_plate_changes_after_reading(
    job: RunJob, puppet: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is overwritten when the frame's pixels are in memory but its record is not yet written."""
    draw = process_frame.draw_mattes

    def swap(shapes: object, frame: int, *rest: object) -> object:
        if frame == 1003:
            puppet.write_exr(Path(job.plates.replace("####", "1003")), puppet.draw(1009))
        return draw(shapes, frame, *rest)  # type: ignore[arg-type]

    job = RunJob.from_json({**job.to_json(), "clean": False})
    monkeypatch.setattr(process_frame, "draw_mattes", swap)
    outcome = run(job, lambda _: None, Cancel())
    assert list(outcome.failed) == [1003]
    assert "plate.1003.exr changed on disk while the run was going on" in outcome.failed[1003]
    monkeypatch.undo()
    assert run(RunJob.from_json({**job.to_json(), "resume": True}), lambda _: None, Cancel()).is_whole
    document = roto_json.read(Path(job.out) / "shapes.roto.json")
    cx, _, _ = puppet.face_at(1009, 192, 120)
    assert document.shape("seam_middle").at(1003)[1].x == pytest.approx(cx, abs=1.0)


def test_a_frame_that_changes_while_it_is_read_is_read_again(
    job: RunJob, puppet: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, n_reads = Plate.read, []

    def slow(plate: Plate, frame: int, **more: object) -> object:
        found = read(plate, frame, **more)  # type: ignore[arg-type]
        if frame == 1002 and not n_reads:
            puppet.write_exr(Path(job.plates.replace("####", "1002")), puppet.draw(1009))
        n_reads.extend([frame] if frame == 1002 else [])
        return found

    monkeypatch.setattr(Plate, "read", slow)
    assert run(job, lambda _: None, Cancel()).is_whole
    assert len(n_reads) == 3  # twice to follow the face, once to paint


def test_a_plate_that_changes_between_following_and_painting_fails_alone(job: RunJob, puppet: ModuleType) -> None:
    def change(event: Event) -> None:
        if event.kind == "tracked" and event.facts["frame"] == 1004:
            puppet.write_exr(Path(job.plates.replace("####", "1002")), puppet.draw(1009))

    outcome = run(job, change, Cancel())
    assert list(outcome.failed) == [1002]
    assert "changed on disk since its face was followed" in outcome.failed[1002]
    resumed = RunJob.from_json({**job.to_json(), "resume": True})
    assert run(resumed, lambda _: None, Cancel()).is_whole


def _written_anew(path: Path, *, later_s: int) -> None:
    """Overwrite a file with other content of the same size, then set its time, as `cp -p` and `rsync -t` do."""
    facts = path.stat()
    path.write_bytes(path.read_bytes()[:-4] + b"\0\0\0\0")
    os.utime(path, ns=(0, facts.st_mtime_ns + later_s * 1_000_000_000))


@pytest.fixture
def long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop the two seconds' tolerance for disks with coarse times, so that tests need not wait."""
    monkeypatch.setattr(out_folder, "SAME_TIME_NS", 0)


@pytest.mark.usefixtures("long_ago")
@pytest.mark.parametrize("later_s", [10, 0])
def test_an_output_that_somebody_wrote_anew_in_the_same_size_is_made_again(job: RunJob, later_s: int) -> None:
    run(job, lambda _: None, Cancel())
    path = Path(job.out) / "clean/plate.1002.exr"
    before = path.read_bytes()
    _written_anew(path, later_s=later_s)
    run(RunJob.from_json({**job.to_json(), "resume": True}), lambda _: None, Cancel())
    assert path.read_bytes() == before


@pytest.mark.usefixtures("long_ago")
def test_an_output_that_is_written_anew_in_mid_run_is_not_done(job: RunJob) -> None:
    def harm(event: Event) -> None:
        if event.kind == "frame" and event.facts["frame"] == 1002:
            _written_anew(Path(job.out) / "clean/plate.1001.exr", later_s=0)

    outcome = run(job, harm, Cancel())
    assert list(outcome.failed) == [1001]
    assert "not those that were written; --resume makes them again" in outcome.failed[1001]


@pytest.mark.usefixtures("long_ago")
def test_a_copy_of_a_whole_run_has_nothing_to_make_again(job: RunJob) -> None:
    run(job, lambda _: None, Cancel())
    copy, reported = f"{job.out}.copy", list[Event]()
    shutil.copytree(job.out, copy)
    assert run(RunJob.from_json({**job.to_json(), "out": copy, "resume": True}), reported.append, Cancel()).is_whole
    assert [event for event in reported if event.kind == "frame"] == []


def test_older_clean_plates_beside_a_run_without_any_are_reported(job: RunJob) -> None:
    def warnings_of(job: RunJob) -> list[str]:
        reported: list[Event] = []
        run(job, reported.append, Cancel())
        return [str(event.facts["message"]) for event in reported if event.kind == "warning"]

    bare = replace(job, clean=False)
    assert warnings_of(bare) == warnings_of(job) == []
    [message] = warnings_of(bare)
    assert message.startswith(f"{Path(job.out) / 'clean'}: 6 frames of an earlier run stay as they are; remove them")


def test_a_frame_that_could_not_be_read_for_a_while_is_read_by_resume(
    job: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def glitch(plate: Plate, frame: int, **more: object) -> object:
        if frame == 1003:
            raise DamagedFrameError("plate.1003.exr: input/output error")
        return read(plate, frame, **more)  # type: ignore[arg-type]

    read = Plate.read
    whole = run(replace(job, out=f"{job.out}.whole"), lambda _: None, Cancel())
    monkeypatch.setattr(Plate, "read", glitch)
    assert list(run(job, lambda _: None, Cancel()).failed) == [1003]
    reported: list[Event] = []
    assert list(run(replace(job, resume=True), reported.append, Cancel()).failed) == [1003]
    assert not [event for event in reported if event.kind == "tracked"]  # it is still so: nothing is done anew
    monkeypatch.setattr(Plate, "read", read)
    assert run(replace(job, resume=True), lambda _: None, Cancel()).done == whole.done
    same = "shapes.roto.json"
    assert (Path(job.out) / same).read_bytes() == (Path(f"{job.out}.whole") / same).read_bytes()


def test_a_movie_that_is_touched_in_mid_run_is_whole(job: RunJob, puppet: ModuleType, tmp_path: Path) -> None:
    movie = tmp_path / "m.mp4"
    with av.open(str(movie), "w") as container:
        stream = container.add_stream("libx264", rate=24, options={"crf": "8"})
        stream.width, stream.height = 192, 120
        stream.pix_fmt = "yuv420p"
        for frame in range(1001, 1007):
            picture = (puppet.draw(frame).clip(0, 1) ** 0.45 * 255).astype("uint8")
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    filmed = replace(job, plates=str(movie))

    def touch() -> None:
        os.utime(movie, (1, 1))

    outcome = run(filmed, at_frame(3, touch), Cancel())
    assert outcome.is_whole
    reported: list[Event] = []
    run(replace(filmed, resume=True), reported.append, Cancel())
    assert not [event for event in reported if event.kind in ("tracked", "warning", "frame")]


def test_a_plate_that_was_replaced_with_its_time_kept_is_noticed(job: RunJob, puppet: ModuleType) -> None:
    """For example by a copy that keeps times, of a file of the same size, as all uncompressed frames have."""
    plate = Path(job.plates.replace("####", "1003"))
    before = plate.stat()
    puppet.write_exr(plate, puppet.draw(1009))
    other = plate.read_bytes()[: before.st_size].ljust(before.st_size, b"\0")
    puppet.write_exr(plate, puppet.draw(1003))
    run(job, lambda _: None, Cancel())
    kept = plate.stat()
    plate.write_bytes(other)
    os.utime(plate, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    assert (plate.stat().st_size, plate.stat().st_mtime_ns) == (kept.st_size, kept.st_mtime_ns)
    said: list[str] = []
    again = RunJob.from_json({**job.to_json(), "resume": True})
    run(again, lambda event: said.append(str(event.facts.get("message"))), Cancel())
    assert any("changed on disk at 1003" in line for line in said)


def test_a_resumed_auto_run_keeps_the_crop_that_it_found(
    job: RunJob, puppet: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame that was not processed yet is rendered again, with the face elsewhere."""
    puppet.make_plates(Path(job.plates).parent, range(1001, 1025))
    box = Crop(*face_box(puppet))
    found = CropKeys({1001: box})
    monkeypatch.setattr(plan, "propose_crop", lambda *_, **__: (found, None))
    auto = RunJob.from_json({**job.to_json(), "crops": ["auto"]})
    cancel = Cancel()
    with pytest.raises(CancelledError):
        run(auto, at_frame(1003, cancel.request), cancel)
    monkeypatch.setattr(plan, "propose_crop", lambda *_, **__: (CropKeys({1001: replace(box, x=box.x + 1)}), None))
    said: list[Event] = []
    assert run(RunJob.from_json({**auto.to_json(), "resume": True}), said.append, Cancel()).is_whole
    assert not [event for event in said if "starting from the first frame" in str(event.facts.get("message"))]
    assert sum(event.kind == "frame" for event in said) < 24


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({}, ("100,100,80",)),
        ({"asked": ["90,90,60"]}, None),
        ({"asked": None}, None),
        ({"plate": ["other", ".exr", 320, 180, None]}, None),
        ({"crops": ["1001:no"]}, ("1001:no",)),
        ({"crops": 7}, None),
    ],
)
def test_only_crops_found_for_this_plate_are_kept(
    tmp_path: Path, more: dict[str, object], found: tuple[str, ...] | None
) -> None:
    plate_facts = ["plate", ".exr", 320, 180, None]
    (tmp_path / ".rotopaint").mkdir()
    content = {"plate": plate_facts, "asked": ["auto"], "crops": ["100,100,80"], **more}
    (tmp_path / ".rotopaint" / "job.json").write_text(json.dumps(content))
    assert crops_before(tmp_path, plate_facts, ("auto",)) == found


def test_an_auto_run_that_cannot_read_earlier_crops_looks_for_the_face(
    job: RunJob, puppet: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "propose_crop", lambda *_, **__: (CropKeys({1001: Crop(*face_box(puppet))}), None))
    monkeypatch.setattr(plan, "crops_before", lambda *_: ("1001:no",))
    auto = RunJob.from_json({**job.to_json(), "crops": ["auto"], "resume": True})
    assert run(auto, lambda event: None, Cancel()).is_whole


def face_box(puppet: ModuleType) -> tuple[float, float, float]:
    """The middle and side of the box around the puppet's face."""
    x, y, width, _ = (float(part) for part in puppet.crop_text().split(","))
    return x + width / 2, y + width / 2, width
