"""A piece of a groove that paint keeps is filled again; what is no groove, or lies beside it, stays.

What is far darker than the seam stays too.
"""

from __future__ import annotations

import numpy as np

from rotopaint_ai.seams import residue
from rotopaint_ai.seams.ribbon import Ribbon, build_ribbon

LINE = np.linspace([20.0, 40.0], [180.0, 40.0], 161)
DEPTH = 0.4  # log light
KEPT = slice(80, 110)  # columns


def seam() -> tuple[Ribbon, np.ndarray, np.ndarray]:
    """A ribbon, its log light with a groove in five rows, and paint that removes the groove."""
    hole = np.zeros((80, 200), bool)
    hole[34:47, 20:181] = True
    ribbon = build_ribbon(hole, [(LINE, 4.0)])
    assert ribbon is not None
    away = np.abs(np.arange(len(ribbon.own_TS)) - ribbon.centre)[:, None, None]
    groove = -DEPTH * (away < 3) * ribbon.own_TS[..., None] * np.ones(3)
    relit = np.zeros((*ribbon.own_TS.shape, 4), np.float32)
    relit[..., 3] = ~ribbon.own_TS
    return ribbon, groove.astype(np.float32), relit


def left(relit: np.ndarray, light: np.ndarray) -> np.ndarray:
    return np.asarray((relit[..., :3] + relit[..., 3:] * light).mean(2))


def test_a_piece_of_the_groove_that_paint_keeps_is_lifted() -> None:
    ribbon, light, relit = seam()
    relit[:, KEPT, 3] = 1.0
    before, after = (
        left(each, light)[ribbon.centre, KEPT] for each in (relit, residue.fill_valleys(relit, light, ribbon))
    )
    assert np.allclose(before, -DEPTH)
    assert (after > 0.7 * before).all()


def test_what_paint_leaves_without_a_valley_is_left_alone() -> None:
    ribbon, light, relit = seam()
    assert (residue.fill_valleys(relit, light, ribbon) == relit).all()
    relit[..., :3], relit[..., 3] = 0.0, 1.0
    assert residue.fill_valleys(relit, light, ribbon) is relit  # a seam without paint


def test_a_line_beside_the_groove_and_one_far_deeper_than_it_are_the_faces() -> None:
    ribbon, light, relit = seam()
    relit[ribbon.centre + 5, :, :3] -= np.float32(DEPTH / 2)
    assert np.allclose(residue.fill_valleys(relit, light, ribbon), relit, atol=1e-6)
    ribbon, light, relit = seam()
    relit[ribbon.centre - 2 : ribbon.centre + 3, KEPT, :3] = np.float32(-4.0 * DEPTH)
    light[:, KEPT] = -4.0 * DEPTH  # a hand's shadow, which paint keeps
    assert np.allclose(residue.fill_valleys(relit, light, ribbon)[:, 90:100], relit[:, 90:100], atol=1e-3)


def test_paint_of_one_seam_does_not_affect_another() -> None:
    hole = np.zeros((80, 200), bool)
    hole[34:47, 20:181] = hole[4:17, 20:181] = True
    ribbon = build_ribbon(hole, [(LINE, 4.0), (LINE - (0.0, 30.0), 4.0)])
    assert ribbon is not None
    taken = np.where(ribbon.line.run_S == 0, np.float32(0.3), np.float32(0.0)) * ribbon.own_TS
    usual = residue.mean_added(taken.astype(np.float32), ribbon)
    middle = usual[ribbon.centre]
    inside = ribbon.line.half_S > 0
    assert np.allclose(middle[inside & (ribbon.line.run_S == 0)], 0.3, atol=1e-4)
    assert np.allclose(middle[ribbon.line.run_S == 1], 0.0)


def test_a_light_sample_among_dark_ones_is_not_lifted_above_the_rims() -> None:
    ribbon, light, relit = seam()
    relit[:, KEPT.start : KEPT.stop : 2, 3] = 1.0  # every other column of the groove
    assert left(residue.fill_valleys(relit, light, ribbon), light).max() <= 1e-6
