"""A disk that fills up: what was written stands, what was not is not there, and the line says where."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import OpenImageIO
import pytest

from rotopaint_ai.files import replacing, write_json
from rotopaint_ai.pipeline.record_store import FrameRecord, Journal, read_journal
from rotopaint_ai.plates import exr, oiio
from rotopaint_ai.plates.clean_writer import write_clean
from rotopaint_ai.plates.plate import open_plate


def test_a_record_that_does_not_fit_leaves_no_torn_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, really, calls = tmp_path / "frames.journal", os.write, [0]
    journal = Journal(path)
    journal.append(FrameRecord(1, "done"))

    def filling(descriptor: int, data: bytes) -> int:
        calls[0] += 1
        if calls[0] > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return really(descriptor, data[:20])

    with monkeypatch.context() as full:
        full.setattr(os, "write", filling)
        with pytest.raises(OSError, match=r"frames\.journal"):
            journal.append(FrameRecord(2, "done"))
    journal.append(FrameRecord(3, "done"))  # somebody made room
    journal.close()
    assert [record.frame for record in read_journal(path)] == [1, 3]


def test_a_record_that_is_taken_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really = os.write
    journal = Journal(tmp_path / "frames.journal")
    with monkeypatch.context() as slow:
        slow.setattr(os, "write", lambda descriptor, data: really(descriptor, data[:7]))
        journal.append(FrameRecord(1, "lost", message="no face"))
    journal.close()
    assert [(record.frame, record.message) for record in read_journal(tmp_path / "frames.journal")] == [(1, "no face")]


def test_a_failed_write_is_named_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_json(path, {"frames": 1})

    def fill() -> None:
        with replacing(path) as beside:
            beside.write_text("half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=r"No space left on device: '.*run\.json'") as refused:
        fill()
    assert refused.value.filename == str(path)
    assert path.read_text() == '{\n "frames": 1\n}\n'
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]


def test_a_clean_plate_that_does_not_fit_is_no_damaged_plate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EXRs are written while their source is mapped, and an error of the target's disk used to be reported of the
    source."""
    spec = OpenImageIO.ImageSpec(32, 20, 3, OpenImageIO.HALF)
    spec.attribute("compression", "zip")
    oiio.save(tmp_path / "plate.1001.exr", spec, np.full((20, 32, 3), 0.5, np.float16))
    with open_plate(str(tmp_path / "plate.####.exr")) as plate:
        frame = plate.read(1001)

        def full(*given: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(exr, "_write_chunks", full)
        target = tmp_path / "clean" / "plate.1001.exr"
        with pytest.raises(OSError, match="No space left on device") as refused:
            write_clean(target, frame, np.ones((2, 2, 3), np.float32), np.ones((2, 2), bool), at=(4, 4))
    assert refused.value.filename == str(target)
    assert not list(target.parent.iterdir())
