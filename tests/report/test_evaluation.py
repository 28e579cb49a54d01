"""The page of a pack's evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from rotopaint_ai.report import evaluation
from rotopaint_ai.report.evaluation import _reliability


def test_a_plot_ends_five_percent_above_its_largest_value() -> None:
    """A plot of 380 with a margin of 46 is 288 wide, so 4 of 4.2 px are at 46 + 274.3 across and 334 - 274.3 down."""
    found = _reliability([{"expected_px": 4.0, "true_px": 1.05}, {"expected_px": 0.0, "true_px": 2.1}])
    assert found is not None
    assert found["dots"] == [(320.3, 262.0), (46.0, 190.0)]
    assert found["ticks"] == [
        ("0", 46.0, 334.0),
        ("1.05", 118.0, 262.0),
        ("2.1", 190.0, 190.0),
        ("3.15", 262.0, 118.0),
        ("4.2", 334.0, 46.0),
    ]
    assert _reliability([{"expected_px": 0.0, "true_px": 0.0}])["dots"] == [(46.0, 334.0)]  # type: ignore[index]
    assert _reliability([]) is None


@pytest.mark.parametrize("between_eyes", [0.0123, None])
def test_the_page_gives_interocular_errors_for_faces_with_eyes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, between_eyes: float | None
) -> None:
    asked: dict[str, object] = {}
    monkeypatch.setattr(evaluation, "fill_template", lambda *_, **given: asked.update(given) or "page")
    per_landmark = {name: {"px": {"mean": mean}} for name, mean in (("a", 1.0), ("b", None), ("c", 3.0))}
    result = {"nme_interocular": between_eyes, "expected_error": {"reliability": []}, "per_landmark": per_landmark}
    evaluation.write_page(tmp_path / "page.html", result, b"jpeg")
    assert (tmp_path / "page.html").read_text() == "page"
    assert asked["nme"] == ("nme_face_size" if between_eyes is None else "nme_interocular")
    assert [name for name, _ in asked["landmarks"]] == ["c", "a", "b"]  # type: ignore[attr-defined]
    assert asked["worst"] == "anBlZw=="
