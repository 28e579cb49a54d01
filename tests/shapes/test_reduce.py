"""Key reduction: within tolerance, holds and human keys unchanged, few keys on typical motion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from rotopaint_ai.shapes import bezier, knots, reduce
from rotopaint_ai.shapes.edit_layers import place_in_layer
from rotopaint_ai.shapes.layers import Layer, LayerPose
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoDocument, RotoShape, StrokeWidth


def ring(x: float, y: float, radius: float, n: int, noise: np.ndarray | None = None) -> Points:
    a = np.arange(n) * 2 * np.pi / n
    k = 4 / 3 * math.tan(math.pi / 2 / n) * radius
    c, s = np.cos(a), np.sin(a)
    rows = np.stack((x + radius * c, y + radius * s, k * s, -k * c, -k * s, k * c), axis=1)
    if noise is not None:
        rows[:, :2] += noise
    return bezier.as_points(rows)


def wandering(n_frames: int, n_points: int, noise_px: float, *, step: int = 1) -> RotoShape:
    """A head that turns about a plate at a usual speed, every pose held for `step` frames."""
    random = np.random.default_rng(3)
    keys = {}
    for i in range(n_frames):
        if i % step == 0:
            u = i / 24 * 0.6
            noise = random.normal(0, noise_px, (n_points, 2))
            pose = ring(900 + 90 * math.sin(u), 500 + 40 * math.sin(0.7 * u), 100 + 5 * math.sin(u), n_points, noise)
        keys[1001 + i] = Key(pose)
    return RotoShape("face", True, "matte", keys)


def worst_distance(a: RotoShape, b: RotoShape) -> float:
    """An independent measure: the Hausdorff distance of the curves, frame by frame, by the document's own `at`."""
    frames = range(a.frames[0], a.frames[-1] + 1)
    return max(
        bezier.curve_distance(bezier.as_array(a.at(f)), bezier.as_array(b.at(f)), a.closed, spacing=4.0)[1]
        for f in frames
    )


def test_a_straight_move_needs_two_keys() -> None:
    keys = {f: Key(ring(100 + 3 * f, 50 - f, 20, 6)) for f in range(10, 40)}
    reduced = reduce.reduce_keys(RotoShape("a", True, "matte", keys), 0.1)
    assert reduced.frames == (10, 39)
    assert (reduced.keys[10], reduced.keys[39]) == (keys[10], keys[39])


def test_smooth_motion_keeps_its_tolerance_with_a_fifth_of_the_keys() -> None:
    shape = wandering(120, 12, 0.05)
    reduced = reduce.reduce_keys(shape, 0.5)
    assert worst_distance(shape, reduced) <= 0.5
    assert len(reduced.keys) <= 0.2 * len(shape.keys)
    assert reduced.frames[0] == 1001
    assert reduced.frames[-1] == 1120


@pytest.mark.parametrize("tolerance", [0.2, 0.5, 1.0])
def test_tolerance_is_kept_and_looser_ones_need_fewer_keys(tolerance: float) -> None:
    shape = wandering(60, 8, 0.1)
    reduced = reduce.reduce_keys(shape, tolerance)
    assert worst_distance(shape, reduced) <= tolerance
    assert len(reduced.keys) <= len(reduce.reduce_keys(shape, tolerance / 2).keys)


def test_held_frames_stay_exactly_still() -> None:
    shape = wandering(48, 8, 0.1, step=2)
    reduced = reduce.reduce_keys(shape, 0.5)
    for frame in range(1001, 1048, 2):
        assert reduced.at(frame) == reduced.at(frame + 1)
    assert len(reduced.keys) <= 25
    assert worst_distance(shape, reduced) <= 0.5


def test_a_jump_stays_between_its_two_frames() -> None:
    keys = {f: Key(ring(100 if f < 20 else 180, 50, 20, 6)) for f in range(10, 30)}
    reduced = reduce.reduce_keys(RotoShape("a", True, "matte", keys), 0.5)
    assert reduced.at(19) == keys[19].points
    assert reduced.at(20) == keys[20].points
    assert len(reduced.keys) <= 3


def test_holds_in_the_document_survive() -> None:
    keys = {1: Key(ring(0, 0, 9, 4), interpolation="hold"), 10: Key(ring(9, 0, 9, 4)), 20: Key(ring(20, 0, 9, 4))}
    reduced = reduce.reduce_keys(RotoShape("a", True, "matte", keys), 0.2)
    assert reduced.at(9) == keys[1].points
    assert reduced.at(9.5) == keys[1].points
    assert reduced.at(10) == keys[10].points


def test_human_keys_are_sacred() -> None:
    shape = wandering(60, 8, 0.2)
    by_hand = {1013: ring(0, 0, 50, 8), 1014: ring(2, 0, 50, 8), 1040: ring(900, 500, 100, 8)}
    keys = {f: Key(by_hand[f], "human") if f in by_hand else key for f, key in shape.keys.items()}
    reduced = reduce.reduce_keys(shape.with_keys(keys), 2.0)
    for frame, points in by_hand.items():
        assert reduced.keys[frame].points == points
        assert reduced.keys[frame].source == "human"


def test_human_keys_inside_a_hold_are_kept_too() -> None:
    pose = ring(50, 50, 20, 6)
    keys = {f: Key(pose, "human" if f == 5 else "model") for f in range(1, 11)}
    reduced = reduce.reduce_keys(RotoShape("a", True, "matte", keys), 0.5)
    assert 5 in reduced.keys
    assert all(reduced.at(f) == pose for f in range(1, 11))


def test_open_shapes_and_single_points() -> None:
    line = {f: Key((ControlPoint(0, 0), ControlPoint(10 + f, f * f / 40))) for f in range(30)}
    shape = RotoShape("seam", False, "seam", line)
    reduced = reduce.reduce_keys(shape, 0.3)
    assert reduce.deviation(shape, reduced) <= 0.3
    assert len(reduced.keys) < 15
    dot = RotoShape("dot", False, "seam", {f: Key((ControlPoint(f, 0),)) for f in range(10)})
    assert len(reduce.reduce_keys(dot, 0.1).keys) == 2


def test_documents_and_shapes_with_few_keys() -> None:
    one = RotoShape("one", True, "matte", {5: Key(ring(0, 0, 9, 4))})
    none = RotoShape("none", True)
    document = RotoDocument(100, 100, 1, 9, shapes=(one, none))
    assert reduce.reduce_document(document, 0.5) == document


def test_a_long_shot_needs_few_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts fits, not seconds: about one for every two remaining keys (11 for 23), for any length of shot."""
    shape, fits = wandering(240, 20, 0.1), 0
    fit = knots.fit

    def counted(stretch: knots.Stretch, rows: Sequence[int], tolerance_px: float) -> knots.Fit:
        nonlocal fits
        fits += 1
        return fit(stretch, rows, tolerance_px)

    monkeypatch.setattr(knots, "fit", counted)
    reduced = reduce.reduce_keys(shape, 0.5)
    assert 0 < fits <= len(reduced.keys)
    assert reduce.deviation(shape, reduced) <= 0.5


def test_a_width_profile_stays_within_the_tolerance() -> None:
    keys = {
        f: Key(ring(100 + 3 * f, 50, 20, 6), widths=(StrokeWidth(w, w, w / 2),) * 6)
        for f in range(1, 11)
        for w in (2.0 + 2.0 * (f % 2),)
    }
    shape = RotoShape("a", False, "seam", keys)
    reduced = reduce.reduce_keys(shape, 0.5)
    for frame in range(1, 11):
        np.testing.assert_allclose(reduced.widths_at(frame), shape.widths_at(frame), atol=0.5)
        np.testing.assert_allclose(reduced.at(frame), shape.at(frame), atol=1e-6)
    steady = shape.with_keys({f: replace(key, widths=keys[1].widths) for f, key in keys.items()})
    assert reduce.reduce_keys(steady, 0.5).frames == (1, 10)


def test_a_feather_that_grows_over_a_still_shape_grows_after_it() -> None:
    still = ring(100, 50, 20, 6)
    keys = {f: Key(still, feather=tuple(ControlPoint(0.3 * f * f, 0.0) for _ in still)) for f in range(1, 11)}
    shape = RotoShape("a", True, "matte", keys)
    reduced = reduce.reduce_keys(shape, 0.5)
    assert 2 < len(reduced.keys) < 10
    for frame in range(1, 11):
        assert reduced.at(frame) == still
        assert reduced.feather_at(frame)[0].x == pytest.approx(0.3 * frame * frame, abs=0.5)


def test_the_tolerance_is_that_of_the_plate_in_a_scaled_layer() -> None:
    big = Layer("L", {1: LayerPose(scale_x=20.0, scale_y=20.0), 60: LayerPose(x=50.0, scale_x=20.0, scale_y=20.0)})
    shape = place_in_layer(wandering(60, 8, 0.3), big)
    shape = shape.with_keys({frame - 1000: key for frame, key in shape.keys.items()})
    reduced = reduce.reduce_keys(shape, 0.5)
    assert worst_distance(shape, reduced) <= 0.5
