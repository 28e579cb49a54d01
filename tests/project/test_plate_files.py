"""Which files a project's plate was."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rotopaint_ai.project import plate_files


def facts_of(path: Path, frame: int = 1001) -> plate_files.FileFacts:
    return plate_files.look({frame: path})[frame]


def test_small_files_are_hashed_whole_and_large_ones_by_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three samples of two bytes out of ten, at 0, 4 and 8, after the size in digits."""
    path = tmp_path / "movie"
    path.write_bytes(b"abcdefghij")
    monkeypatch.setattr(plate_files, "LARGE_BYTES", 10)
    assert plate_files.fingerprint(path) == hashlib.sha1(b"abcdefghij").hexdigest()
    monkeypatch.setattr(plate_files, "LARGE_BYTES", 9)
    monkeypatch.setattr(plate_files, "_SAMPLE_BYTES", 2)
    monkeypatch.setattr(plate_files, "_N_SAMPLES", 3)
    assert plate_files.fingerprint(path) == "sampled:" + hashlib.sha1(b"10" + b"abefij").hexdigest()


def test_only_files_of_another_size_or_time_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "p.1001.dpx"
    path.write_bytes(b"first")
    known = facts_of(path)
    name, size, mtime_ns, print_ = known
    assert (name, size, print_) == ("p.1001.dpx", 5, hashlib.sha1(b"first").hexdigest())
    unread = (name, size, mtime_ns, "of another")
    assert plate_files.compare({1001: unread}, {1001: path}).same == (1001,)
    for changed in ((name, 6, mtime_ns, print_), (name, size, mtime_ns + 1, print_), ("q", size, mtime_ns, print_)):
        assert plate_files.compare({1001: changed}, {1001: path}).same == (1001,)
        assert plate_files.compare({1001: (*changed[:3], "of another")}, {1001: path}).other == (1001,)
    assert plate_files.compare({1001: known, 1002: known}, {1001: tmp_path / "gone"}).gone == (1001, 1002)


@pytest.mark.parametrize(
    ("same", "other", "is_same", "is_other"),
    [((1,), (), True, False), ((), (1,), False, True), ((1,), (2,), False, False), ((), (), False, False)],
)
def test_plates_match_or_differ_only_where_all_present_files_agree(
    same: tuple[int, ...], other: tuple[int, ...], is_same: bool, is_other: bool
) -> None:
    found = plate_files.FileMatch(same, other, gone=(3,))
    assert (found.is_same_plate, found.is_other_plate) == (is_same, is_other)


def test_the_frames_compared_are_those_with_a_fingerprint_that_are_asked_for() -> None:
    known = {frame: ("p", 1, 2, "" if frame % 2 else "print") for frame in range(1001, 1009)}
    assert sorted(plate_files.compared_facts(known, range(1003, 1008))) == [1004, 1006]
    assert sorted(plate_files.compared_facts(known, [])) == []
