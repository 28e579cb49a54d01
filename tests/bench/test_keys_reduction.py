"""The benchmark of key reduction: its bound is a true bound, and it shows the cost of simple thinning."""

from __future__ import annotations

import argparse

import numpy as np
import pytest

from benchmarks import keys_reduction
from rotopaint_ai.shapes import reduce, samples
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoShape


def parabola(n: int) -> RotoShape:
    return RotoShape(
        "a", False, "seam", {i: Key((ControlPoint(0.02 * i * i, 0), ControlPoint(0, 50))) for i in range(n)}
    )


def test_the_bound_is_that_of_free_lines() -> None:
    """0.02 t^2 deviates from its best line over h frames by 0.02 h^2 / 8: 14 frames at 0.5 px, of which 141 frames make
    ten and a rest."""
    assert keys_reduction.least(parabola(141), 0.5) == 11
    assert keys_reduction.least(parabola(142), 0.5) == 12


def test_thinning_keeps_values_and_tolerance_of_points() -> None:
    shape = parabola(141)
    thin = keys_reduction.thin_keys(shape, 0.5)
    assert all(thin.keys[f].points == shape.keys[f].points for f in thin.frames)
    assert samples.distances(shape, thin, range(141)).max() <= 0.5


def test_the_result_names_every_case_and_we_need_the_fewest() -> None:
    parser = argparse.ArgumentParser()
    keys_reduction.add_arguments(parser)
    found = keys_reduction.measure(parser.parse_args(["--frames", "48"]))["cases"]
    assert len(found) == 8
    for case in found.values():
        assert case["ours"]["keys"] <= case["points_thinned"]["keys"] <= case["keys_per_frame"]
        assert case["ours"]["deviation_px"] <= 0.5
    bounded = [case for case in found.values() if case["least_possible"] is not None]
    assert bounded
    assert all(case["least_possible"] <= case["ours"]["share"] + 1e-9 for case in bounded)


@pytest.mark.parametrize("n", [2, 17])
def test_reduction_is_never_below_the_bound(n: int) -> None:
    chance = np.random.default_rng(n)
    walk = chance.normal(0, 1.5, (40, 2)).cumsum(axis=0)
    shape = RotoShape(
        "a", False, "seam", {i: Key((ControlPoint(*xy), ControlPoint(50, 50))) for i, xy in enumerate(walk.tolist())}
    )
    assert len(reduce.reduce_keys(shape, 0.5).keys) >= keys_reduction.least(shape, 0.5)
