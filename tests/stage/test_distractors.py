"""Distractors change a picture, but no face in it."""

from __future__ import annotations

import numpy as np

from rotopaint_ai.stage.distractors import DISTRACTORS, add_distractors


def test_distractors_do_not_change_faces() -> None:
    """Balls, lumps and scattered faces change the picture, except where a face is."""
    rng = np.random.default_rng(0)
    picture = np.full((96, 160, 3), 90, np.uint8)
    other = rng.integers(0, 255, (80, 80, 3)).astype(np.uint8)
    face = np.array([60.0, 20, 110, 80])
    changed = [add_distractors(picture, [face], other, rng) for _ in range(20)]
    assert all((each[20:80, 60:110] == 90).all() for each in changed)
    assert sum((each != 90).any() for each in changed) >= 18
    assert (picture == 90).all()
    for draw in DISTRACTORS:
        assert draw(picture[:30, :40], other, rng).shape == (30, 40, 3)
