"""What mining makes of its sources before it compares them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rotopaint_ai.exchange import nuke
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape
from rotopaint_ai.training.mining.sources import read_source


@pytest.mark.parametrize(("drawn", "mined"), [(10.0, None), (6.0, 6.0)])
def test_a_stroke_at_nukes_default_width_is_of_unknown_width(tmp_path: Path, drawn: float, mined: float | None) -> None:
    points = tuple(ControlPoint(10.0 + 20 * k, 30.0, -5, 0, 5, 0) for k in range(4))
    seam = RotoShape("seam", False, "seam", {1001: Key(points, "human")}, width_px=drawn)
    nuke.write_verified(tmp_path / "roto.nk", RotoDocument(128, 64, 1001, 1001, shapes=(seam,)))
    (take,) = read_source(tmp_path / "roto.nk", "plate.####.jpg", size=(128, 64))
    assert take.frames[1001].shapes["seam"].width_px == mined
