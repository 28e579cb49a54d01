"""Middle lines of mattes whose middle is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import pytest

from rotopaint_ai.seams import skeleton
from rotopaint_ai.seams.ribbon import WideCurve
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


def _noise(density: float, side: int) -> np.ndarray:
    return np.random.default_rng(5).random((side, side)) < density


def _lines_one_by_one(hole: np.ndarray) -> list[WideCurve]:
    """The middle lines of a matte, found without any short cut."""
    depth = cv2.distanceTransform(np.pad(hole.astype(np.uint8), 1), cv2.DIST_L2, 5)[1:-1, 1:-1]
    left = {(int(y), int(x)) for y, x in np.argwhere(thin_matte(hole))}
    curves = []
    while left:
        order, before = skeleton._walk(left, skeleton._walk(left, min(left))[0][-1])
        path = [order[-1]]
        while (last := before[path[-1]]) is not None:
            path.append(last)
        left -= set(path)
        half = float(np.median([depth[p] for p in path]))
        if len(path) >= max(skeleton._SHORTEST, skeleton._SLIM * 2 * half):
            curves.append((skeleton._smooth_line(path), half))
    return sorted(curves, key=lambda curve: -len(curve[0]))


def test_short_cuts_change_no_line() -> None:
    across = np.stack([np.linspace(10, 110, 200), np.full(200, 30.0)], 1)
    down = np.stack([np.full(100, 60.0), np.linspace(30, 75, 100)], 1)
    bent = np.stack([across[:, 0], 40 + 12 * np.sin(across[:, 0] / 20)], 1)
    strokes = [stroke(bent, 4.0), stroke(across, 3.0) | stroke(down, 3.0), stroke(across[:1] + 20, 9.0)]
    for hole in (*strokes, *(_noise(density, 60) for density in (0.2, 0.5, 0.8))):
        found, wanted = middle_lines(hole), _lines_one_by_one(hole)
        assert [half for _, half in found] == [half for _, half in wanted]
        assert all(np.array_equal(line, other) for (line, _), (other, _) in zip(found, wanted, strict=True))


def test_the_work_on_a_noisy_matte_grows_with_its_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts the pixels that searches look at."""
    hole, seen, walk = _noise(0.2, 240), [0], skeleton._walk

    def counted_min(pixels: Sequence[Any]) -> Any:
        seen[0] += len(pixels)
        return min(pixels)

    def counted_walk(pixels: set[tuple[int, int]], start: tuple[int, int]) -> Any:
        order, before = walk(pixels, start)
        seen[0] += len(order)
        return order, before

    monkeypatch.setattr(skeleton, "min", counted_min, raising=False)
    monkeypatch.setattr(skeleton, "_walk", counted_walk)
    assert len(middle_lines(hole)) > 100
    assert seen[0] < 2 * int(thin_matte(hole).sum())
