"""A run's records of a long shot are kept packed, and read as if they were not."""

from __future__ import annotations

import json
import random
import tracemalloc
import zlib
from pathlib import Path

import pytest

from rotopaint_ai.pipeline.out_folder import Stamp
from rotopaint_ai.pipeline.record_store import (
    FrameRecord,
    Journal,
    JournalIndex,
    RecordStore,
    SourceFile,
    hold_spans,
    read_journal,
)
from rotopaint_ai.pipeline.run_document import PackedKeys, PackedLandmarks
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, RotoShape


def _record(frame: int) -> FrameRecord:
    """A record as large as those of a run with ten shapes, three of them seams."""
    draw = random.Random(frame)
    names = [f"shape_{k}" for k in range(10)]
    stations = [[round(draw.random(), 4) for _ in range(24)] for _ in range(2)]
    return FrameRecord(
        frame,
        "done",
        source=SourceFile(f"plate.{frame}.exr", 350_000 + frame, 1_700_000_000_000_000_000 + frame, f"{frame:040x}"),
        crop=(draw.random(), draw.random(), 280.0),
        hold=None if frame % 2 else frame - 1,
        landmarks=[[draw.random(), draw.random(), 0.5], None],
        shapes={name: [[draw.random() for _ in range(6)]] for name in names},
        widths=dict.fromkeys(names, 3.5),
        errors={name: draw.random() for name in names},
        hidden=("shape_3",),
        seam_contrast=dict.fromkeys(names[:3], stations),
        outputs={f"matte/{name}.{frame}.exr": Stamp(draw.randrange(10_000), 1, 2) for name in names},
        ms={"decode": draw.random()},
    )


def test_what_is_remembered_of_a_finished_frame_is_what_was_said() -> None:
    records = [_record(frame) for frame in (1003, 1001, 1002)]
    finished = RecordStore(records)
    assert list(finished) == [1003, 1001, 1002]
    assert finished[1001] == records[1].light()
    assert isinstance(finished[1001].crop, tuple)
    assert finished[1002].source == records[2].source
    del finished[1003]
    assert 1003 not in finished
    assert len(finished) == 2
    lost = FrameRecord(7, "failed", message="cannot be read")
    finished[7] = lost
    assert finished[7] == lost


def test_spans_of_holds_reach_to_the_last_repeat_in_any_order() -> None:
    hold_of = {1006: 1005, 1003: 1001, 1001: None, 1002: 1001, 1004: None, 1005: None}
    records = [FrameRecord(frame, "done", hold=hold) for frame, hold in hold_of.items()]
    assert hold_spans(records) == ((1001, 1003), (1005, 1006))
    assert hold_spans([]) == ()


def test_a_finished_frame_takes_a_kilobyte_or_two() -> None:
    """As plain values a record takes some ten kilobytes, so 20 MB for 2,000 frames."""
    records = [_record(frame) for frame in range(1001, 1101)]
    finished = RecordStore(records[:1])
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for record in records[1:]:
            finished[record.frame] = record
        taken = (tracemalloc.get_traced_memory()[0] - before) / 99
    finally:
        tracemalloc.stop()
    assert taken < 2500


def test_packed_keys_are_the_keys() -> None:
    keys = PackedKeys()
    rows = {frame: [[frame / 3, 2.0, 0.1, 0.2, 0.3, 0.4], [1.0, frame, 0, 0, 0, 0]] for frame in (12, 10, 11)}
    for frame, each in rows.items():
        keys.put(frame, each)
    plain = {frame: Key(tuple(ControlPoint(*row) for row in rows[frame])) for frame in sorted(rows)}
    assert dict(keys) == plain
    assert list(keys) == [10, 11, 12]
    assert RotoShape("a", True, keys=keys) == RotoShape("a", True, keys=plain)
    assert (10 in keys, 9 in keys, len(keys)) == (True, False, 3)
    with pytest.raises(KeyError):
        keys[9]


def test_frames_of_a_hold_share_their_numbers() -> None:
    keys = PackedKeys()
    for frame in range(100):
        keys.put(frame, [[frame // 2, 0.0, 0.0, 0.0, 0.0, 0.0]])
    assert len(keys._numbers) == 50 * 6
    assert [key.points[0].x for key in keys.values()] == [frame // 2 for frame in range(100)]


def test_landmarks_that_are_not_seen_stay_so() -> None:
    landmarks = PackedLandmarks()
    landmarks.put(2, [[1.5, 2.5, 0.25], None])
    landmarks.put(1, ())
    assert dict(landmarks) == {1: (), 2: (Landmark(1.5, 2.5, 0.25), None)}


def _line(value: object) -> bytes:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return b"%08x " % zlib.crc32(body) + body + b"\n"


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {"a": 1},
        {"frame": "x", "status": "done"},
        {"frame": 1.5, "status": "done"},
        {"frame": 2, "status": "fine"},
        {"frame": 2, "status": "done", "source": [1]},
        {"frame": 2, "status": "done", "outputs": {"clean/x": 5}},
        {"frame": 2, "status": "done", "crop": [1, 2]},
        b'{"frame": 2, "status": "done", "crop": [NaN, 1, 1]}',
        b'{"frame": 2, "status": "done", "matte_px": 1e999}',
        b'{"frame": 2, "status": "done", "matte_px": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
    ],
)
def test_an_invalid_journal_line_ends_it_like_a_torn_one(tmp_path: Path, wrong: object) -> None:
    path, whole = tmp_path / "frames.journal", _record(1)
    path.write_bytes(_line(whole.to_json()) + _line(wrong) + _line(_record(3).to_json()))
    assert [record.frame for record in read_journal(path)] == [1]
    assert list(JournalIndex(path).frames) == [1]
    Journal(path).close()
    assert path.read_bytes() == _line(whole.to_json())
