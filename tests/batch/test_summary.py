"""The summary page of a show, of runs whose figures are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rotopaint_ai.batch.jobs_file import Show
from rotopaint_ai.batch.summary import ShotSummary, _page, _summary_of, _summary_row


def content(**frames: Any) -> dict[str, Any]:
    """A `run.json` of four frames and two seams: the worst errors are 3, 5 and 1 px; one frame has none.

    The face's outline is further off, and rates no frame."""
    return {
        "frames": {"done": 4, "failed": {}, "lost": [], "missing": [], **frames},
        "shapes": {"left": {"role": "seam"}, "face": {"role": "matte"}, "right": {"role": "seam"}},
        "errors": {
            "shapes": ["left", "face", "right"],
            "by_frame": {"1": [3.0, 9.0, 2.0], "2": [None, 1.0, 5.0], "3": [1.0, 7.0, None], "4": [None, 9.0, None]},
        },
        "seam": {"by_frame": {"1": [4.0, 1.0], "2": [6.0, 2.0], "3": [9.0, None]}},
        "pictures": [{"face": "one.jpg"}, {"face": "two.jpg"}],
    }


def test_a_finished_shot_has_its_worst_frames_and_the_median_of_their_errors() -> None:
    found = _summary_of("sh 1", content(), 12.34)
    assert (found.state, found.frames, found.trouble) == ("done", 4, "")
    assert found.worst == ((2, 5.0), (1, 3.0), (3, 1.0))
    assert (found.median_error_px, found.seam, found.seconds) == (3.0, (5.0, 1.5), 12.3)
    row = _summary_row(found)
    assert (row["errors"], row["worst"], row["seam"]) == ("3 / 5.00", "2, 1, 3", "5 \u2192 1.5")
    assert (row["picture"], row["report"]) == ("sh%201/report/one.jpg", "sh%201/report/index.html")


@pytest.mark.parametrize(
    ("frames", "trouble"),
    [
        ({"failed": {"7": "torn"}}, "1 frame failed, first 7: torn"),
        ({"failed": {"7": "torn", "8": "gone"}}, "2 frames failed, first 7: torn"),
        ({"missing": [3, 4, 5]}, "not on disk: frames 3-5"),
        ({"lost": [2], "missing": [3]}, "not on disk: frames 3; no face at frames 2"),
    ],
)
def test_a_shot_with_a_frame_that_failed_or_is_not_there_says_so(frames: dict[str, Any], trouble: str) -> None:
    found = _summary_of("sh1", content(**frames), 0.0)
    assert (found.state, found.trouble) == ("frames failed", trouble)


def test_the_page_counts_shots_by_their_state(tmp_path: Path) -> None:
    done, failed = ShotSummary("a", "done", frames=1500), ShotSummary("c", "failed", message="no crop")
    page = _page(Show(tmp_path / "show.yaml", tmp_path), (done, ShotSummary("b", "done", frames=2), failed))
    assert "3 shots: 2 done, 1 failed; 1,502 frames." in page
    assert page.count("no crop") == 1
