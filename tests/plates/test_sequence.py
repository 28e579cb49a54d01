"""Which files a pattern, a folder or one frame stands for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rotopaint_ai.errors import MissingFrameError, UsageError
from rotopaint_ai.plates.sequence import find, pad


def _touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch()


@pytest.mark.parametrize("number", ["####", "%04d", "@@@@", "$F4", "#", "%d"])
def test_patterns_find_the_same_frames(tmp_path: Path, number: str) -> None:
    _touch(tmp_path, "plate.1001.exr", "plate.1003.exr", "plate.1002.exr", "plate.1001.jpg", "other.1001.exr")
    listing = find(tmp_path / f"plate.{number}.exr")
    assert listing.frames == (1001, 1002, 1003)
    assert (listing.name, listing.suffix, listing.missing) == ("plate", ".exr", ())


def test_a_path_that_may_not_be_read_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(UsageError, match=r"plate.####.exr: may not be read; change its permissions"):
        find(tmp_path / "plate.####.exr")


def test_one_frame_finds_the_rest_and_names_the_holes(tmp_path: Path) -> None:
    _touch(tmp_path, *(f"sh010_plate_v012.{n:04d}.dpx" for n in (998, 999, 1000, 1003, 10000)))
    listing = find(tmp_path / "sh010_plate_v012.0999.dpx")
    assert listing.frames == (998, 999, 1000, 1003, 10000)
    assert listing.missing[:3] == (1001, 1002, 1004)
    assert (listing.padding, listing.named_frame, listing.name) == (4, 999, "sh010_plate_v012")
    with pytest.raises(MissingFrameError, match=r"sh010_plate_v012\.1001\.dpx"):
        listing.path_of(1001)


def test_a_hole_right_after_the_first_frame_is_named(tmp_path: Path) -> None:
    _touch(tmp_path, "p.0001.exr", "p.0003.exr", "p.0004.exr")
    assert find(tmp_path / "p.####.exr").missing == (2,)


def test_padding_keeps_two_sequences_apart(tmp_path: Path) -> None:
    _touch(tmp_path, "p.001.png", "p.002.png", "p.1.png", "p.1000.png")
    assert find(tmp_path / "p.%03d.png").frames == (1, 2, 1000)
    assert find(tmp_path / "p.002.png").frames == (1, 2, 1000)
    assert find(tmp_path / "p.###.png").frames == find(tmp_path / "p.@@@.png").frames == (1, 2, 1000)
    assert find(tmp_path / "p.%d.png").frames == (1, 1000)
    _touch(tmp_path, "p.05.png")
    assert find(tmp_path / "p.##.png").frames == (5, 1000)


def test_negative_frames(tmp_path: Path) -> None:
    _touch(tmp_path, "p.-0002.exr", "p.-0001.exr", "p.0000.exr", "p.0001.exr")
    listing = find(tmp_path / "p.0001.exr")
    assert listing.frames == (-2, -1, 0, 1)
    assert pad(-2, 4) == "-0002"


def test_a_version_number_is_no_frame_number(tmp_path: Path) -> None:
    _touch(tmp_path, "still_v001.exr", "still_v002.exr")
    listing = find(tmp_path / "still_v002.exr")
    assert listing.frames == (1,)
    assert listing.path_of(1).name == "still_v002.exr"


def test_a_folder_with_one_sequence(tmp_path: Path) -> None:
    _touch(tmp_path, "000100.jpg", "000101.jpg", "notes.txt", ".hidden.0001.exr", "Thumbs.db")
    listing = find(tmp_path)
    assert listing.frames == (100, 101)
    assert listing.name == tmp_path.name
    assert listing.named_frame is None


def test_a_folder_with_two_sequences_asks_which(tmp_path: Path) -> None:
    _touch(tmp_path, "a.0001.exr", "a.0002.exr", "b.0001.exr", "b.0002.exr")
    with pytest.raises(UsageError, match=r"2 plates .*a\.####\.exr"):
        find(tmp_path)


def test_a_folder_with_a_movie_or_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no plate"):
        find(tmp_path)
    _touch(tmp_path, "take.mov")
    assert find(tmp_path).path_of(1).name == "take.mov"


def test_a_missing_plate_is_reported(tmp_path: Path) -> None:
    _touch(tmp_path, "p.0003.exr", "p.0004.exr")
    with pytest.raises(MissingFrameError, match=r"p\.0001\.exr.*3-4"):
        find(tmp_path / "p.0001.exr")
    with pytest.raises(UsageError, match="no such file"):
        find(tmp_path / "q.exr")
    with pytest.raises(UsageError, match="no file matches"):
        find(tmp_path / "q.####.exr")
    with pytest.raises(UsageError, match="more than one place"):
        find(tmp_path / "p.##.%04d.exr")


def test_two_thousand_frames_are_listed_without_opening(tmp_path: Path) -> None:
    _touch(tmp_path, *(f"p.{n:04d}.exr" for n in range(1, 2001)))
    assert len(find(tmp_path / "p.####.exr").frames) == 2000


def test_a_stray_number_far_away_does_not_fill_the_memory(tmp_path: Path) -> None:
    for number in ("0001", "0002", "999999999"):
        (tmp_path / f"plate.{number}.exr").touch()
    listing = find(tmp_path / "plate.####.exr")
    with pytest.raises(UsageError, match="too far apart"):
        _ = listing.missing


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "plate.1001.exr")
    with pytest.raises(UsageError, match="is a pipe or a device"):
        find(tmp_path / "plate.1001.exr")


def test_a_link_that_leads_to_itself_is_a_missing_frame(tmp_path: Path) -> None:
    _touch(tmp_path, "plate.1001.exr", "plate.1003.exr")
    (tmp_path / "plate.1002.exr").symlink_to("plate.1002.exr")
    assert find(tmp_path / "plate.####.exr").missing == (1002,)


def test_a_name_may_hold_a_hash_of_its_own(tmp_path: Path) -> None:
    _touch(tmp_path, "take #2.1001.png", "take #2.1002.png")
    assert find(tmp_path / "take #2.####.png").frames == (1001, 1002)
    with pytest.raises(UsageError, match="more than one place"):
        find(tmp_path / "take #2.####.exr")
