"""Where one seam runs into another, the other's groove does not count as a stroke on the face."""

from __future__ import annotations

import numpy as np

from rotopaint_ai.seams import cleanplate, junctions
from rotopaint_ai.seams.ribbon import Ribbon, build_ribbon

from . import synthetic_seams

LEVEL = np.linspace([20.0, 40.0], [180.0, 40.0], 161)
UPRIGHT = np.linspace([100.0, 5.0], [100.0, 75.0], 71)


def ribbon_of(*curves: tuple[np.ndarray, float], top: int = 5) -> Ribbon:
    hole = np.zeros((80, 200), bool)
    hole[35:46, 20:181] = True
    hole[top:76, 98:103] = True
    ribbon = build_ribbon(hole, curves)
    assert ribbon is not None
    return ribbon


def reach_of(ribbon: Ribbon) -> np.ndarray:
    half = ribbon.line.half_S
    return (half + 1.0) * (half > 0)


def test_samples_in_another_seams_groove_are_those_within_its_reach() -> None:
    ribbon = ribbon_of((LEVEL, 5.0), (UPRIGHT, 1.5))
    assert ribbon.step == 1.0
    crossed = junctions.find_crossings(ribbon, reach_of(ribbon)) & ribbon.own_TS
    x, y = ribbon.map_x_TS + 0.5, ribbon.map_y_TS + 0.5
    is_level = ribbon.line.run_S[None].repeat(len(x), 0) == 0
    assert np.abs(x - 100.0)[crossed & is_level].max() < 2.5
    assert np.abs(y - 40.0)[crossed & ~is_level].max() < 6.0
    inside = ribbon.own_TS & np.where(is_level, np.abs(x - 100.0) < 2.0, np.abs(y - 40.0) < 5.5)
    assert crossed[inside].all()
    assert inside.any()


def test_seams_side_by_side_a_seam_alone_and_its_bends_cross_nothing() -> None:
    turn = np.linspace(0.0, np.pi / 2, 20)[:, None]
    bend = np.concatenate([LEVEL[:60], [[79.0, 48.0]] + 8.0 * np.concatenate([np.sin(turn), -np.cos(turn)], 1)])
    for curves in (((LEVEL, 5.0), (LEVEL + (0.0, 4.0), 5.0)), ((LEVEL, 5.0),), ((bend, 5.0),)):
        ribbon = ribbon_of(*curves)
        assert not junctions.find_crossings(ribbon, reach_of(ribbon)).any()


def test_a_groove_is_as_wide_as_what_paint_takes_off_and_spots_cancel_out() -> None:
    ribbon = ribbon_of((LEVEL, 5.0), (UPRIGHT, 1.5))
    away = np.abs(np.arange(len(ribbon.own_TS)) - ribbon.centre)[:, None]
    level = ribbon.line.run_S[None] == 0
    ripple = 0.5 * np.sin(np.arange(len(ribbon.line.run_S)) * np.pi / 4)[None]
    taken = junctions.grooves(np.where(level & (away < 3), np.float32(0.2), np.float32(0)) + ripple * level, ribbon)
    assert np.allclose(taken[0, :6], [0.2, 0.2, 0.2, 0.0, 0.0, 0.0], atol=0.02)
    assert np.allclose(taken[1], 0.0)


def test_no_dot_is_left_where_a_bridge_seam_runs_into_a_side_seam() -> None:
    """The side seam's own ribbon shows the bridge's groove as a dark stroke across it, which paint used to keep."""
    clean = synthetic_seams.face()
    level = synthetic_seams.curve()
    middle = level[len(level) // 2]
    side = np.linspace(middle - (4.0, 30.0), middle + (4.0, 30.0), 81)
    plate = clean * synthetic_seams.groove(level, depth=0.9) * synthetic_seams.groove(side, depth=0.3)
    matte = np.maximum(synthetic_seams.matte(level, 5.0), synthetic_seams.matte(side, 4.0))
    near = np.zeros_like(matte)
    x, y = (int(v) for v in middle)
    near[y - 6 : y + 7, x - 6 : x + 7] = matte[y - 6 : y + 7, x - 6 : x + 7]
    out = cleanplate.fill(plate, matte, [(level, 5.0), (side, 4.0)], "two-bank")
    assert synthetic_seams.rms(out, clean, near) < 0.2 * synthetic_seams.rms(plate, clean, near)


def dark_where_crossed(ribbon: Ribbon) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Light that rises evenly along all columns with a rest at crossings, paint that keeps it, and the crossings."""
    light = np.zeros((*ribbon.own_TS.shape, 3), np.float32)
    light += np.arange(light.shape[1], dtype=np.float32)[None, :, None]
    crossed = junctions.find_crossings(ribbon, reach_of(ribbon)) & ribbon.own_TS
    away = np.abs(np.arange(len(light)) - ribbon.centre)[:, None]
    groove = away <= np.ceil(ribbon.line.half_S)[None]
    plate = light - np.where(groove | crossed, np.float32(4.0), np.float32(0))[..., None]
    kept = np.concatenate([np.where(crossed[..., None], plate, light), np.zeros_like(light[..., :1])], 2)
    return light, plate, kept, crossed


def test_light_that_rises_evenly_along_a_seam_continues_across_another() -> None:
    ribbon = ribbon_of((LEVEL, 5.0), (UPRIGHT, 1.5))
    light, plate, kept, crossed = dark_where_crossed(ribbon)
    out = junctions.bridge_crossings(kept, plate, ribbon)
    assert crossed[ribbon.centre].any()
    assert np.allclose(out[ribbon.centre, :, :3], light[ribbon.centre], atol=1e-3)
    assert np.array_equal(out[~crossed], kept[~crossed])


def test_between_takes_from_one_side_where_its_run_has_no_other() -> None:
    light = np.repeat(np.arange(8.0, dtype=np.float32)[None, :, None], 3, 2)
    good = np.array([[True, False, False, True, False, False, True, False]])
    run = np.array([0, 0, 0, 0, 1, 1, 1, 2])
    made, able = junctions.interpolate_light(light, good, run, np.zeros(5, int), np.array([1, 2, 4, 5, 7]))
    assert np.allclose(made[:4, 0], [1.0, 2.0, 6.0, 6.0])
    assert able.tolist() == [True, True, True, True, False]
