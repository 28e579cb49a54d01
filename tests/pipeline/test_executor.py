"""The line tells who reads where the face was last, so that frames in flight hold its surroundings and no more."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import OpenImageIO
import pytest

from rotopaint_ai.jobs import Cancel
from rotopaint_ai.pipeline.executor import Eta, Executor, SettledFrames, Snapshot, keep_nothing
from rotopaint_ai.pipeline.record_store import FrameRecord
from rotopaint_ai.plates import oiio
from rotopaint_ai.plates.plate import Frame, open_plate
from rotopaint_ai.plates.plate_window import Area

FACE = Area(20.0, 40.0, 60.0, 90.0)


class _Tracker:
    """Sees a face that stands still; settles each frame two frames later."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.means: dict[int, float] = {}

    @property
    def reach(self) -> Area:
        return FACE

    @property
    def room(self) -> float:
        return 0.2

    def push(self, frame: Frame, ms: MutableMapping[str, float]) -> SettledFrames:
        self.means[frame.number] = float(frame.region(20, 40, 40, 50)[0].mean())
        self.waiting.append(frame.number)
        return [(self.waiting.pop(0), None)] if len(self.waiting) > 2 else []

    def skip(self, frame: int) -> SettledFrames:
        return ()

    def flush(self) -> SettledFrames:
        return [(frame, None) for frame in self.waiting]


def test_frames_are_read_near_where_the_face_was(tmp_path: Path) -> None:
    spec = OpenImageIO.ImageSpec(128, 128, 3, OpenImageIO.HALF)
    spec.attribute("compression", "zip")
    for frame in range(1, 9):
        oiio.save(tmp_path / f"p.{frame:04d}.exr", spec, np.full((128, 128, 3), frame / 8, np.float16))
    asked: dict[int, Area | None] = {}
    kept: dict[int, int] = {}
    with open_plate(str(tmp_path / "p.####.exr")) as plate:

        def read(frame: int, near: Area | None) -> Frame:
            asked[frame] = near
            return plate.read(frame, near=near)

        def finish(frame: Frame, known: Any, ms: dict[str, float]) -> FrameRecord:
            kept[frame.number] = frame.codes.nbytes
            return cast(FrameRecord, SimpleNamespace(frame=frame.number))

        tracker = _Tracker()
        executor = Executor(read, finish, lambda *_: None, lambda _: False, lambda _: None, threads=2)  # type: ignore[arg-type, return-value]
        done = [record.frame for record in executor.run(plate.frames, Snapshot(0, tracker), Cancel())]
    assert done == list(range(1, 9))
    assert tracker.means == {frame: frame / 8 for frame in range(1, 9)}
    assert asked[1] is None  # nobody knows yet
    assert asked[8] == FACE.grown(0.2 * 50.0)
    assert set(kept.values()) == {40 * 50 * 3 * 2}


def test_frames_are_prepared_once_they_are_read_and_before_they_are_finished(tmp_path: Path) -> None:
    """The stage times of a frame go along."""
    spec = OpenImageIO.ImageSpec(128, 128, 3, OpenImageIO.HALF)
    for number in (1, 2, 4):
        oiio.save(tmp_path / f"p.{number:04d}.exr", spec, np.zeros((128, 128, 3), np.float16))
    prepared: list[int] = []

    def prepare(frame: Frame, ms: dict[str, float]) -> None:
        assert "decode" in ms
        ms["front"] = float(frame.number)
        prepared.append(frame.number)

    def finish(frame: Frame, known: Any, ms: dict[str, float]) -> FrameRecord:
        assert frame.number in prepared
        return cast(FrameRecord, SimpleNamespace(frame=frame.number, front=ms["front"]))

    def fail(number: int, message: str) -> FrameRecord:
        return cast(FrameRecord, SimpleNamespace(frame=number, front=None))

    with open_plate(str(tmp_path / "p.####.exr")) as plate:

        def read(frame: int, near: Area | None) -> Frame:
            return plate.read(frame, near=near)

        executor = Executor(read, finish, fail, lambda _: False, keep_nothing, 2, prepare)
        done = {each.frame: each.front for each in executor.run((1, 2, 3, 4), Snapshot(0, _Tracker()), Cancel())}  # type: ignore[attr-defined]
    assert done == {1: 1.0, 2: 2.0, 3: None, 4: 4.0}
    assert sorted(prepared) == [1, 2, 4]


class _Wide(_Tracker):
    """Reads whole frames, like a tracker that has lost the face."""

    def push(self, frame: Frame, ms: MutableMapping[str, float]) -> SettledFrames:
        frame.region(0, 0, 128, 128)
        return super().push(frame, ms)


def test_a_file_that_is_another_one_when_more_of_it_is_wanted(tmp_path: Path) -> None:
    """It is read again; where it has disappeared, only its frame fails."""
    spec = OpenImageIO.ImageSpec(128, 128, 3, OpenImageIO.HALF)
    spec.attribute("compression", "zip")

    def save(number: int, value: float) -> None:
        oiio.save(tmp_path / f"p.{number:04d}.exr", spec, np.full((128, 128, 3), value, np.float16))

    def record(frame: int, message: str) -> FrameRecord:
        return cast(FrameRecord, SimpleNamespace(frame=frame, message=message))

    for number in (1, 2, 3, 4):
        save(number, 0.5)
    tracker = _Wide()
    with open_plate(str(tmp_path / "p.####.exr")) as plate:

        def read(number: int, near: Area | None) -> Frame:
            is_first = number not in seen
            seen.add(number)
            frame = plate.read(number, near=FACE if is_first else near)
            if number == 2:
                plate.path_of(number).unlink()
            if number == 3 and is_first:
                save(number, 0.25)
                os.utime(plate.path_of(number), (1, 1))
            return frame

        seen: set[int] = set()
        executor = Executor(
            read, lambda frame, *_: record(frame.number, ""), record, lambda _: False, lambda _: None, threads=1
        )
        found = {each.frame: each.message or "" for each in executor.run(plate.frames, Snapshot(0, tracker), Cancel())}
    assert {frame for frame, message in found.items() if not message} == {1, 3, 4}
    assert "p.0002.exr" in found[2]
    assert tracker.means == {1: 0.5, 3: 0.25, 4: 0.5}


def test_the_time_to_go_is_that_of_the_frames_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of ten frames were done before; the third and fourth took 3 s each, so the other six take 18 s."""
    clock = iter((100.0, 103.0, 106.0))
    monkeypatch.setattr("rotopaint_ai.pipeline.executor.time.monotonic", lambda: next(clock))
    eta = Eta(total=10, done=2)
    assert eta.step() == {"done": 3, "total": 10, "eta_s": 21.0, "ms_per_frame": 3000.0}
    assert eta.step() == {"done": 4, "total": 10, "eta_s": 18.0, "ms_per_frame": 3000.0}
