"""Bright gaps between smooth banks are removed; lines that are also bright beside the seam stay."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.seams import cleanplate, glint, visibility

from . import synthetic_seams


def ribbon(bright: float, texture: float) -> tuple[np.ndarray, np.ndarray]:
    """A smooth ribbon of log light with a bright line along its middle, and other lines of another height
    everywhere."""
    far = np.zeros((31, 120), np.float32)
    far[::5] += np.float32(texture)
    far[15] += np.float32(bright)
    hole = np.zeros(far.shape, bool)
    hole[10:21] = True
    return far, hole


def test_a_line_between_smooth_banks_is_found_and_nothing_else() -> None:
    far, hole = ribbon(0.05, 0.001)
    found = glint.lines(far, hole)
    assert found is not None
    assert (found[14:17] == 1.0).all()
    assert not found[:14].any()
    assert not found[17:].any()


@pytest.mark.parametrize(("bright", "texture"), [(0.0, 0.001), (0.0, 0.015), (0.3, 0.1), (-0.3, 0.001)])
def test_lines_like_those_beside_it_and_dark_ones_are_face(bright: float, texture: float) -> None:
    assert glint.lines(*ribbon(bright, texture)) is None


def test_a_bright_gap_in_smooth_skin_cannot_be_seen_any_more() -> None:
    line = synthetic_seams.curve()
    rows, columns = np.mgrid[: synthetic_seams.SIZE[0], : synthetic_seams.SIZE[1]]
    clean = np.stack([0.4 + 0.0006 * rows, 0.3 + 0.0004 * columns, 0.25 + 0.0 * rows], 2).astype(np.float32)
    plate = clean * (2.0 - synthetic_seams.groove(line, depth=0.35, gap=2.0))
    out = cleanplate.fill(plate, synthetic_seams.matte(line, 6.0), [(line, 6.0)], "two-bank")
    before, after = (visibility.score(x, [(line, 5.0)]) for x in (plate, out))
    assert after < 0.15 * before
