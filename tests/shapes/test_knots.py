"""Fitted keys: against closed forms, and against the number of keys that lie on the poses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rotopaint_ai.shapes import knots, reduce, samples
from rotopaint_ai.shapes.knots import Stretch
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoShape


def track(x: np.ndarray, *, pins: tuple[bool, bool] = (False, False)) -> Stretch:
    """A single point that moves along x: its two numbers, then its one sample."""
    xy = np.stack((x, np.zeros_like(x)), axis=1)
    return Stretch(np.concatenate((xy, xy), axis=1), 2, pins)


@pytest.mark.parametrize("a", [0.05, 0.02, 0.005])
def test_a_parabola_needs_the_theoretical_number_of_keys(a: float) -> None:
    """a t^2 strays from its chord over h frames by a h^2 / 4, from the best line by half of that: h = sqrt(8 tol / a).

    Continuous moves reach that too, because all runs of a parabola are alike; runs are whole frames long.
    """
    n, tolerance = 241, 0.5
    found = knots.fit_fewest_keys(track(a * np.arange(n) ** 2.0), tolerance)
    run = math.sqrt(8 * tolerance / a)
    by_chords = math.ceil((n - 1) / math.sqrt(4 * tolerance / a)) + 1
    assert math.ceil((n - 1) / run) < len(found.rows) <= math.ceil((n - 1) / math.floor(run)) + 1 < by_chords
    assert found.worst <= tolerance


@pytest.mark.parametrize("guess", [1, 2, 5, 40])
@pytest.mark.parametrize("n", range(1, 12))
def test_a_run_reaches_to_the_corner_whatever_is_guessed(n: int, guess: int) -> None:
    """A straight move of n frames, then another 40 times as fast: a line covers the first and not a frame more."""
    x = np.concatenate([np.arange(n + 1.0), n + 40 * np.arange(1, 9.0)])
    samples = np.stack((x, np.zeros_like(x)), axis=1)
    assert knots._longest_reach(samples, 0.5, guess) == n


def test_pinned_ends_keep_their_values() -> None:
    x = 40 * np.sin(np.arange(60) / 9)
    stretch = track(x, pins=(True, True))
    found = knots.fit_fewest_keys(stretch, 0.5)
    assert found.values[0] == pytest.approx(stretch.table[0], abs=0)
    assert found.values[-1] == pytest.approx(stretch.table[-1], abs=0)
    assert stretch.errors(knots.hats(np.array(found.rows)) @ found.values).max() <= 0.5


def test_what_cannot_be_thinned_stays_as_it_is() -> None:
    x = np.where(np.arange(20) % 2, 0.0, 50.0)
    found = knots.fit_fewest_keys(track(x), 0.5)
    assert found.rows == tuple(range(20))
    assert np.array_equal(found.values[:, 0], x)


@settings(max_examples=60)
@given(st.data())
def test_any_mix_of_moves_holds_and_human_keys_is_kept(data: st.DataObject) -> None:
    """Within tolerance everywhere; still parts stay still, and human keys stay unchanged."""
    n = data.draw(st.integers(2, 30))
    chance = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    scale = data.draw(st.sampled_from([0.1, 0.6, 5.0]))
    x, keys = 0.0, {}
    for frame in range(1, n + 1):
        x += scale * chance.normal() * data.draw(st.sampled_from([0.0, 0.0, 1.0]))
        points = (ControlPoint(x, 0.0), ControlPoint(40.0, 2 * x))
        source = data.draw(st.sampled_from(["model", "model", "model", "human"]))
        kind = data.draw(st.sampled_from(["linear", "linear", "hold"]))
        if frame in (1, n) or chance.random() < 0.8:
            keys[frame] = Key(points, source, kind)
    shape = RotoShape("a", False, "seam", keys)
    reduced = reduce.reduce_keys(shape, 0.5)
    frames = range(1, n + 1)
    assert samples.distances(shape, reduced, frames).max() <= 0.5
    assert len(reduced.keys) <= n
    for frame, key in keys.items():
        if key.source == "human":
            assert reduced.keys[frame].points == key.points
    assert all(reduced.at(f) == reduced.at(f + 1) for f in frames[:-1] if shape.at(f) == shape.at(f + 1))


def wave(n: int, holds: int = 1) -> RotoShape:
    """Two points on a wave; every pose is held for this many frames."""
    keys = {}
    for i in range(n):
        t = i - i % holds
        keys[1 + i] = Key((ControlPoint(30 * math.sin(t / 8), t), ControlPoint(100, 30 * math.cos(t / 7))))
    return RotoShape("a", False, "seam", keys)


def test_a_pose_on_twos_needs_one_key_and_no_more() -> None:
    shape = wave(40, 2)
    reduced = reduce.reduce_keys(shape, 0.5)
    assert reduced.frames == tuple(range(1, 41, 2))
    assert samples.distances(shape, reduced, range(1, 41)).max() == 0.0


def test_neighbouring_holds_within_the_tolerance_are_one_hold_of_a_pose_between() -> None:
    """Poses at 0, 0.4, 0.8 px: the middle one is within 0.4 of both, the first is not within 0.5 of the last."""
    keys = {1 + i: Key((ControlPoint((i // 2) * 0.4, 0), ControlPoint(50, 0))) for i in range(6)}
    reduced = reduce.reduce_keys(RotoShape("a", False, "seam", keys), 0.5)
    assert reduced.frames == (1,)
    assert reduced.at(6)[0].x == pytest.approx(0.4)


def test_a_move_into_a_hold_and_a_jump_out_of_it() -> None:
    keys = {f: Key((ControlPoint(min(f, 10) if f < 20 else 300 + f, 0), ControlPoint(0, 50))) for f in range(1, 31)}
    reduced = reduce.reduce_keys(RotoShape("a", False, "seam", keys), 0.25)
    assert reduced.frames == (1, 10, 20, 30)
    assert [reduced.keys[f].interpolation for f in (1, 10, 20)] == ["linear", "hold", "linear"]
    assert [reduced.at(f)[0].x for f in (10, 15, 19, 20)] == pytest.approx([10, 10, 10, 320])


def test_long_shots_are_worked_on_in_parts_that_fit_together() -> None:
    shape = wave(700)
    reduced = reduce.reduce_keys(shape, 0.5)
    assert samples.distances(shape, reduced, range(1, 701)).max() <= 0.5
    alone = len(reduce.reduce_keys(shape.with_keys({f: shape.keys[f] for f in range(1, 201)}), 0.5).keys)
    assert len(reduced.keys) <= 3.5 * alone + 4


@pytest.mark.parametrize("n", [1, 2])
def test_one_row_or_two_are_kept(n: int) -> None:
    x = np.arange(n) * 7.0
    found = knots.fit_fewest_keys(track(x), 0.5)
    assert found.rows == tuple(range(n))
    assert np.array_equal(found.values[:, 0], x)
    assert found.errors.shape == (n - 1,)
