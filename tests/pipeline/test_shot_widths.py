"""A seam's width over a shot: what a run paints with is what its document says."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import OpenImageIO
import pytest

from rotopaint_ai.exchange import document
from rotopaint_ai.inference.models import open_fill
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.jobs import Cancel, RunJob
from rotopaint_ai.pipeline.paint_job import CleanJob, paint_clean
from rotopaint_ai.pipeline.record_store import FrameRecord
from rotopaint_ai.pipeline.run import run
from rotopaint_ai.pipeline.run_document import PackedKeys
from rotopaint_ai.pipeline.shot_widths import with_shot_widths
from rotopaint_ai.plates import open_plate
from rotopaint_ai.shapes.roto import ControlPoint, Key, StrokeWidth

FOLDERS = "run", "clean"


def _records(bridge: list[float], side: list[float]) -> list[FrameRecord]:
    return [
        FrameRecord(1001 + k, "done", widths={"bridge": b, "side": s}) for k, (b, s) in enumerate(zip(bridge, side))
    ]


def test_steady_widths_become_one_and_growing_ones_stay_per_frame() -> None:
    bridge, side = [5.0 + 0.03 * (k % 10) for k in range(20)], [5.0 + 0.3 * k for k in range(20)]
    records = [*_records(bridge, side), FrameRecord(1021, "lost")]
    settled = with_shot_widths(records)
    for _ in range(2):  # they can be gone through again
        found = list(settled)
        assert {record.widths["bridge"] for record in found[:-1]} == {5.27}
        assert [record.widths["side"] for record in found[:-1]] == side
        assert found[-1] is records[-1]


def test_a_key_with_a_width_of_its_own_says_so_on_both_sides() -> None:
    keys, rows = PackedKeys(), [[1.0, 2.0, 0.0, 0.0, 0.0, 0.0], [3.0, 4.0, 0.0, 0.0, 0.0, 0.0]]
    keys.put(1, rows)
    keys.put(2, rows)
    keys.widen(2, 2.5, 1.0)
    points = tuple(ControlPoint(*row) for row in rows)
    assert dict(keys) == {1: Key(points), 2: Key(points, widths=(StrokeWidth(2.5, 2.5, 1.0),) * 2)}


@pytest.mark.parametrize("grows", [0.0, 0.6])
def test_clean_paints_from_a_runs_document_as_the_run_did(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grows: float
) -> None:
    """Frames used to have their own widths, and the document only one."""
    _let_widths_vary(monkeypatch, grows)
    run(RunJob(plates, str(tmp_path / "run"), (puppet.crop_text(),), model=str(pack)), lambda event: None, Cancel())
    found = document.read(tmp_path / "run/shapes.roto.json")
    assert any(shape.has_widths for shape in found.shapes) == (grows > 0)
    fill = open_fill(load_pack(pack))
    with open_plate(plates) as plate:
        paint_clean(
            plate, CleanJob(tmp_path / "clean", found, model=fill), threads=1, sink=lambda event: None, cancel=Cancel()
        )
        names = [path.name for path in sorted((tmp_path / "run/clean").iterdir())]
        assert len(names) == 12
        for name in names:
            ran, cleaned = (_light(tmp_path / each / "clean" / name) for each in FOLDERS)
            assert np.allclose(ran, cleaned, rtol=0.0, atol=1e-3 if grows else 0.0)  # half floats


def _light(path: Path) -> Any:
    source = OpenImageIO.ImageInput.open(str(path))
    pixels = source.read_image("float")
    source.close()
    return pixels


def _let_widths_vary(monkeypatch: pytest.MonkeyPatch, grows: float) -> None:
    """Make the model's widths vary slightly between frames, or grow by this share over the shot."""
    from rotopaint_ai.pipeline import passes

    kept = passes.tracked_record

    def varied(frame: int, *rest: object) -> FrameRecord:
        record = kept(frame, *rest)
        times = 1.0 + grows * (frame - 1001) / 11 if grows else 1.0 + 0.02 * (frame % 3)
        return FrameRecord(**{**_fields(record), "widths": {n: round(w * times, 3) for n, w in record.widths.items()}})

    monkeypatch.setattr(passes, "tracked_record", varied)


def _fields(record: FrameRecord) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}
