"""`--crop auto` end to end: the face that is found is followed, said, and an error where there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.errors import CropError
from rotopaint_ai.exchange import document
from rotopaint_ai.inference.models import Detection, LandmarkModel, Models, open_detector, open_models
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.jobs import Cancel, Event, RunJob
from rotopaint_ai.pipeline import plan as plans
from rotopaint_ai.pipeline.run import run
from rotopaint_ai.plates.plate import open_plate

SAMPLE = Path(__file__).resolve().parents[2] / "models" / "rotopaint_models" / "sample"


class Coloured:
    """A detector that takes coloured areas for faces; `seen` has the frames in the order of calls."""

    size = (160, 96)

    def __init__(self, *seen: bool) -> None:
        self.seen = list(seen)

    def __call__(self, pictures: np.ndarray) -> tuple[np.ndarray, ...]:  # type: ignore[type-arg]
        ys, xs = np.nonzero(np.ptp(pictures[0], axis=2) > 0.4)
        box = np.array([[[xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]]], np.float32)
        score = 0.97 if not self.seen or self.seen.pop(0) else 0.0
        return box, np.full((1, 1), score, np.float32), np.ones((1, 1, 4, 4)), np.zeros((1, 1, 5, 2))


def _job(plates: str, pack: Path, out: Path, frames: str | None = None) -> RunJob:
    return RunJob(plates=plates, out=str(out), crops=("auto",), model=str(pack), frames=frames, exports=(), clean=False)


def test_the_found_face_is_followed_and_reported(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "open_detector", lambda pack: Coloured())
    reported: list[Event] = []
    outcome = run(_job(plates, pack, tmp_path / "auto", "1001-1006"), reported.append, Cancel())
    assert outcome.is_whole
    assert outcome.lost == ()
    [note] = [event.facts["message"] for event in reported if event.kind == "note"]
    assert [event for event in reported if event.kind == "warning"] == []
    assert "crop 'auto': took 1001:" in note
    assert "found in 6 of 6 frames looked at" in note
    found = document.read(tmp_path / "auto" / "shapes.roto.json").landmarks
    by_hand = tmp_path / "hand"
    job = RunJob(plates=plates, out=str(by_hand), crops=(puppet.crop_text(),), model=str(pack), frames="1001-1006")
    run(job, lambda event: None, Cancel())
    wanted = document.read(by_hand / "shapes.roto.json").landmarks
    for frame in range(1001, 1007):
        for a, b in zip(found.keys[frame], wanted.keys[frame]):
            assert a is not None
            assert b is not None
            assert (a.x, a.y) == pytest.approx((b.x, b.y), abs=0.5)


def test_holds_stay_holds(plates: str, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pose is held for two frames; a box found in the second frame of a hold must not split it."""
    monkeypatch.setattr(plans, "open_detector", lambda pack: Coloured())
    run(_job(plates, pack, tmp_path, "1001-1004"), lambda event: None, Cancel())
    marks = document.read(tmp_path / "shapes.roto.json").landmarks
    assert marks.keys[1001] == marks.keys[1002]
    assert marks.keys[1003] == marks.keys[1004]


def test_no_face_is_one_clear_line(plates: str, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "open_detector", lambda pack: Coloured(*[False] * 100))
    with pytest.raises(CropError) as refused:
        run(_job(plates, pack, tmp_path, "1001-1004"), lambda event: None, Cancel())
    assert str(refused.value).startswith("crop 'auto': no face found in 1001-1004 of plate (4 frames looked at)")
    assert str(refused.value).endswith("draw a box: --crop X,Y,W,H")
    assert "\n" not in str(refused.value)


def test_what_the_landmark_model_cannot_read_is_no_face(
    plates: str, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every frame the detector takes a ball for a face."""
    opened = plans.open_models

    def unsure(*given: Any, **named: Any) -> Models:
        models = opened(*given, **named)
        known = models.detect

        def detect(crops: np.ndarray) -> Detection:  # type: ignore[type-arg]
            said = known(crops)
            return said._replace(expected_error_NL=np.full_like(said.expected_error_NL, 0.09 * crops.shape[1]))

        return replace(models, detect=_Unsure(known.session, known.input_size, detect))

    monkeypatch.setattr(plans, "open_models", unsure)
    monkeypatch.setattr(plans, "open_detector", lambda pack: Coloured())
    with pytest.raises(CropError) as refused:
        run(_job(plates, pack, tmp_path, "1001-1004"), lambda event: None, Cancel())
    assert "(4 frames looked at, 4 finds in which the landmark model reads no face)" in str(refused.value)
    assert str(refused.value).endswith("draw a box: --crop X,Y,W,H, or add --force if one is a face")
    assert "\n" not in str(refused.value)


@dataclass(frozen=True, slots=True)
class _Unsure(LandmarkModel):
    """A landmark model with given answers."""

    say: Callable[..., Detection]

    def __call__(self, crops: np.ndarray) -> Detection:  # type: ignore[type-arg]
        return self.say(crops)


def test_no_face_is_detected_where_a_box_is_given(
    puppet: ModuleType, plates: str, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pack: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(plans, "open_detector", refuse)
    job = RunJob(plates=plates, out=str(tmp_path), crops=(puppet.crop_text(),), model=str(pack), frames="1001")
    assert run(job, lambda event: None, Cancel()).is_whole


def test_the_shipped_detector_finds_the_face_of_the_sample_shot() -> None:
    pack = load_pack()
    detector = open_detector(pack)
    assert detector is not None
    truth = document.read(SAMPLE / "truth.roto.json")
    with open_plate(str(SAMPLE)) as plate:
        keys, note = plans.propose_crop(plate, plate.frames[::8], open_models(pack, device="cpu", threads=1))
    assert note is not None
    assert "found in 3 of 3 frames looked at" in note.facts["message"]
    for frame, crop in keys.keys.items():
        at = np.array([(m.x, m.y) for m in truth.landmarks.keys[frame] if m is not None])
        low, high = at.min(0), at.max(0)
        assert crop.x == pytest.approx((low[0] + high[0]) / 2, abs=0.2 * crop.side)
        assert crop.y == pytest.approx((low[1] + high[1]) / 2, abs=0.2 * crop.side)
        assert 0.8 < crop.side / float((high - low).max()) < 1.8
