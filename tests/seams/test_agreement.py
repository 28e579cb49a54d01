"""The second opinion: how far it agrees with a matte, by hand, and what a run tells of it."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.crops import Crop
from rotopaint_ai.pipeline.manifest import summarise_matte_checks, warn_of_mattes
from rotopaint_ai.pipeline.record_store import FrameRecord
from rotopaint_ai.report.charts import opinion_chart
from rotopaint_ai.seams.agreement import NEAR, agreement, in_crop
from rotopaint_ai.shapes.rasterise import EMPTY, Region


def _bar(row: int, first: int = 20, last: int = 80) -> np.ndarray:  # type: ignore[type-arg]
    picture = np.zeros((100, 100), np.float32)
    picture[row : row + 2, first:last] = 1
    return picture


def test_the_same_seam_agrees_in_full() -> None:
    found = agreement(_bar(40), _bar(40))
    assert found is not None
    assert (found.seen, found.covered, found.score) == (1, 1, 1)


def test_a_seam_a_little_aside_still_agrees_and_one_far_away_does_not() -> None:
    assert pytest.approx(1.2) == NEAR * 100  # pixels of this crop
    near, far = agreement(_bar(41), _bar(40)), agreement(_bar(50), _bar(40))
    assert near is not None
    assert far is not None
    assert near.score == 1
    assert far.score == 0


def test_half_a_seam_is_seen_by_half() -> None:
    found = agreement(_bar(40, last=50), _bar(40))  # 30 of 60 columns, and one more is within reach
    assert found is not None
    assert found.seen == pytest.approx(31 / 60)
    assert found.covered == 1
    assert found.score == pytest.approx(2 * 31 / 60 / (1 + 31 / 60))


def test_no_seam_on_either_side_is_no_disagreement() -> None:
    assert agreement(np.zeros((100, 100)), np.zeros((100, 100))) is None
    lone = agreement(_bar(40), np.zeros((100, 100)))
    assert lone is not None
    assert lone.score == 0


def test_a_matte_stands_in_the_crop_where_it_stands_on_the_plate() -> None:
    matte = Region(200, 100, np.ones((8, 20), np.float32))
    seen = in_crop(matte, Crop(210, 104, 80), 160)  # two pixels of the crop for one of the plate
    ys, xs = np.nonzero(seen > 0.5)
    assert (xs.min(), xs.max() + 1, ys.min(), ys.max() + 1) == (60, 100, 72, 88)
    assert seen[0, 0] == 0
    assert not in_crop(EMPTY, Crop(0, 0, 10), 16).any()


def _records(*scores: float | None) -> list[FrameRecord]:
    return [FrameRecord(1001 + k, "done", agreement=score) for k, score in enumerate(scores)]


def test_frames_where_they_part_are_named() -> None:
    said = summarise_matte_checks(_records(0.9, None, 0.2, 0.3, 0.8))
    assert said["doubtful"] == [1003, 1004]
    assert warn_of_mattes(said) == (
        "matte check: the pack's seam network and the splines part at 1003-1004 (agreement below 50%); look at "
        "those frames first; no matte was changed"
    )


def test_nothing_is_told_where_they_agree_or_nobody_was_asked() -> None:
    assert warn_of_mattes(summarise_matte_checks(_records(0.9, 0.8))) is None
    assert summarise_matte_checks(_records(None, None)) == {}
    assert warn_of_mattes({}) is None


def test_the_report_draws_it() -> None:
    run = {
        "second_opinion": summarise_matte_checks(_records(0.9, 0.2)),
        "frames": {"held": [], "failed": {}, "missing": [], "lost": []},
    }
    shown = opinion_chart(run)
    assert shown is not None
    assert shown.title == "Matte check"
    assert "They part at: 1002." in shown.lead
    assert opinion_chart({**run, "second_opinion": {}}) is None
