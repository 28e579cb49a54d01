"""Middle lines of mattes whose middle is known."""

from __future__ import annotations

import numpy as np

from rotopaint_ai.seams.skeleton import middle_lines, thin_matte


def stroke(line: np.ndarray, half: float, size: tuple[int, int] = (80, 120)) -> np.ndarray:
    rows, columns = np.mgrid[: size[0], : size[1]] + 0.5
    apart = np.hypot(columns[..., None] - line[:, 0], rows[..., None] - line[:, 1]).min(-1)
    return apart <= half


def test_the_middle_line_of_a_bent_stroke_runs_through_its_middle() -> None:
    x = np.linspace(15, 105, 200)
    line = np.stack([x, 40 + 12 * np.sin(x / 20)], 1)
    (found, half), = middle_lines(stroke(line, 4.0))  # fmt: skip
    apart = np.hypot(found[:, None, 0] - line[:, 0], found[:, None, 1] - line[:, 1]).min(1)
    assert apart.max() < 1.2
    assert 3.3 < half < 5.0
    assert abs(float(np.hypot(*np.diff(found, axis=0).T).sum()) / 100 - 1) < 0.15


def test_two_strokes_and_a_crossing_give_a_line_for_each_stretch() -> None:
    across = np.stack([np.linspace(10, 110, 200), np.full(200, 30.0)], 1)
    down = np.stack([np.full(100, 60.0), np.linspace(30, 75, 100)], 1)
    lines = middle_lines(stroke(across, 3.0) | stroke(down, 3.0))
    assert len(lines) == 2
    assert len(lines[0][0]) > 85
    assert 30 < len(lines[1][0]) < 50


def test_blobs_and_nothing_have_no_middle_line() -> None:
    assert middle_lines(np.zeros((20, 20), bool)) == []
    assert middle_lines(stroke(np.array([[30.0, 30.0]]), 9.0)) == []


def test_thinning_keeps_a_line_of_one_pixel_and_what_it_joins() -> None:
    line = np.zeros((9, 30), bool)
    line[4, 3:27] = True
    assert np.array_equal(thin_matte(line), line)
    fat = np.zeros((20, 40), bool)
    fat[6:13, 4:36] = True
    thin = thin_matte(fat)
    assert not (thin & ~fat).any()
    assert thin.sum(0).max() == 1
    assert thin.any(0).sum() >= 24
