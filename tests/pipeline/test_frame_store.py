"""Pixels of the first pass in memory for the second."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.inference.sample import CROP_FILE, find_sample, read_crops
from rotopaint_ai.jobs import Cancel, RunJob
from rotopaint_ai.pipeline import passes
from rotopaint_ai.pipeline.frame_store import FrameStore
from rotopaint_ai.pipeline.run import run
from rotopaint_ai.plates import open_plate
from rotopaint_ai.plates.plate import Frame, Plate
from rotopaint_ai.plates.plate_window import Area
from tests.pipeline.test_run import comparable


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often each frame of a plate is read from disk."""
    counted, read = Counter[int](), Plate.read

    def counting(plate: Plate, frame: int, **how: Any) -> Frame:
        counted[frame] += 1
        return read(plate, frame, **how)

    monkeypatch.setattr(Plate, "read", counting)
    return counted


def _run(out: Path) -> Path:
    sample = find_sample()
    crops = read_crops(sample / CROP_FILE)
    run(RunJob(str(sample), str(out), crops=crops, frames="1001-1006"), lambda event: None, Cancel())
    return out


def test_a_short_shot_is_read_once_and_a_longer_one_ends_alike(
    tmp_path: Path, reads: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "choose_pictured", lambda *_: frozenset({1003}))  # pictures show more of a frame
    short = _run(tmp_path / "short")
    assert reads == {frame: 2 if frame == 1003 else 1 for frame in range(1001, 1007)}
    reads.clear()
    monkeypatch.setattr(FrameStore.__init__, "__defaults__", (1,))
    long = _run(tmp_path / "long")
    assert min(reads.values()) == 2
    assert comparable(short) == comparable(long)


def test_the_first_frames_are_kept_while_there_is_room(plates: str) -> None:
    with open_plate(plates) as plate:
        frames = [plate.read(frame) for frame in plate.frames[:4]]
    sizes = [frame.codes.nbytes for frame in frames]
    store = FrameStore(sizes[0] + sizes[1] + 1)
    for frame in frames:
        store.keep(frame)
    assert [store.look_up(frame.number, None) is not None for frame in frames] == [True, True, False, False]
    assert not store.has_room
    taken = store.take(frames[0].number, None)
    assert taken is not None
    assert np.array_equal(taken.codes, frames[0].codes)
    assert store.take(frames[0].number, None) is None


def test_a_frame_without_the_pixels_that_are_wanted_is_not_given(plates: str) -> None:
    with open_plate(plates) as plate:
        frame = plate.read(plate.frames[0], near=Area(40, 40, 80, 80))
        without = plate.read(plate.frames[1], keep_native=False)
    store = FrameStore()
    store.keep(frame)
    store.keep(without)
    assert store.look_up(frame.number, Area(45, 45, 75, 75)) is not None
    assert store.look_up(frame.number, Area(45, 45, 81, 75)) is None
    assert store.look_up(frame.number, None) is None
    assert store.look_up(without.number, None) is None
