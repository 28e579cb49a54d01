"""A curve on a head solved over a shot."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.shapes.facespace import Array, Complex
from rotopaint_ai.shapes.shot_solver import HeadPoses, head_poses, solve

HOLDS = 16
CHANCE = np.random.default_rng(4)
HEAD = CHANCE.normal(0, 1, (30, 3))
CURVE = np.array([(x, 0.3 * x * x, 0.8 - 0.2 * x * x) for x in np.linspace(-0.8, 0.8, 9)])


def seen(points: Array) -> Complex:
    """Points of a head that turns, comes nearer and moves, as a camera far away sees them: (H, N)."""
    rows = []
    for k in range(HOLDS):
        yaw, size = 0.5 * np.sin(k / 5), 90 + k
        x, z = np.cos(yaw) * points[:, 0] + np.sin(yaw) * points[:, 2], points[:, 1]
        rows.append(size * (x + 1j * z) * np.exp(0.02j * k) + 400 + 3 * k + 200j)
    return np.array(rows)


@pytest.fixture(scope="module")
def heads() -> HeadPoses:
    return head_poses(seen(HEAD), np.arange(HOLDS) * 2.0 + 1001)


def test_poses_undo_shift_turn_and_size(heads: HeadPoses) -> None:
    flat = head_poses(HEAD[:, 0] * np.exp([[0.1j], [0.4j]]) * [[1], [3]] + [[5], [7j]], np.arange(2.0))
    assert flat.factor_H[1] / flat.factor_H[0] == pytest.approx(3 * np.exp(0.3j))
    assert flat.look_HQ == pytest.approx(0, abs=1e-9)
    assert np.corrcoef(heads.look_HQ[:, 0], np.sin(np.arange(HOLDS) / 5))[0, 1] ** 2 > 0.98


def test_what_a_person_drew_mends_holds_that_nobody_touched(heads: HeadPoses) -> None:
    true = seen(CURVE)
    wrong = true + (4 + 3j) * heads.factor_H[:, None] / abs(heads.factor_H).mean()
    exact = np.isin(np.arange(HOLDS), (2, 8, 13))
    wrong[exact] = true[exact]
    found = solve(heads, wrong, np.full(HOLDS, 5.0), exact)
    off = abs(found.splines_HD - true).mean(axis=1)
    assert off[exact].max() < 0.2
    assert off[~exact].mean() < 2.5 < abs(wrong - true)[~exact].mean() / 1.5
    assert found.deviation_px_H[exact].max() < 0.2 < found.deviation_px_H[~exact].min()


def test_a_hold_that_says_something_else_is_weighed_down(heads: HeadPoses) -> None:
    true = seen(CURVE)
    said = true.copy()
    said[6] += 12
    found = solve(heads, said, np.full(HOLDS, 0.4), np.zeros(HOLDS, bool))
    assert abs(found.splines_HD[6] - true[6]).mean() < 5
    assert abs(np.delete(found.splines_HD - true, 6, axis=0)).mean() < 0.4
