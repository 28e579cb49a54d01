"""Feathers of several widths and strokes with a profile: against closed forms and against constant ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rotopaint_ai.shapes import rasterise
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoShape

R, K = 30.0, 0.5522847498 * 30.0
CIRCLE = tuple(
    ControlPoint(*row)
    for row in ((80, 50, -K, 0, K, 0), (110, 80, 0, -K, 0, K), (80, 110, K, 0, -K, 0), (50, 80, 0, K, 0, -K))
)


def ring(by: float) -> tuple[ControlPoint, ...]:
    """The feather rows of a circle that is larger by this width."""
    s = (R + by) / R
    return tuple(
        ControlPoint((p.x - 80) * (s - 1), (p.y - 80) * (s - 1), *(value * s for value in p[2:])) for p in CIRCLE
    )


def drawn(feather: tuple[ControlPoint, ...], feather_px: float = 0.0) -> np.ndarray:
    return rasterise.rasterise_feathered(CIRCLE, feather, 160, 160, feather_px=feather_px).paste(160, 160)


def test_an_even_line_is_the_uniform_feather() -> None:
    uniform = rasterise.rasterise_closed(CIRCLE, 160, 160, feather_px=8).paste(160, 160)
    assert np.abs(drawn(ring(8)) - uniform).max() < 0.01
    assert np.abs(drawn(ring(5), 3.0) - uniform).max() < 0.01


def test_a_line_inside_softens_inwards() -> None:
    inside = drawn(ring(-8))
    frustum = math.pi * (30**2 + 30 * 22 + 22**2) / 3
    assert inside.sum() == pytest.approx(frustum, rel=0.003)
    assert inside[80, 80 + 32] == 0.0
    assert inside[80, 80 + 20] == 1.0


def test_a_line_on_the_edge_is_a_hard_edge() -> None:
    hard = rasterise.rasterise_closed(CIRCLE, 160, 160).paste(160, 160)
    assert np.array_equal(drawn(ring(0)), hard)


def test_each_side_has_its_own_width() -> None:
    rows = list(ring(4))
    rows[1] = ring(16)[1]
    matte = drawn(tuple(rows))
    assert matte[80, 110 + 8] == pytest.approx(0.5, abs=0.05)
    assert matte[80, 50 - 9] == 0.0


def test_the_matte_of_a_shape_follows_its_keys() -> None:
    shape = RotoShape("a", True, keys={1: Key(CIRCLE, feather=ring(0)), 9: Key(CIRCLE, feather=ring(16))})
    middle = rasterise.matte(shape, 5, 160, 160).paste(160, 160)
    assert np.abs(middle - drawn(ring(8))).max() < 1e-6


def test_a_stroke_with_an_even_profile_is_the_plain_stroke() -> None:
    line = (ControlPoint(20, 60, 0, 0, 20, -20), ControlPoint(80, 60, -20, 0, 20, 20), ControlPoint(140, 50, -20, 0))
    plain = rasterise.rasterise_open(line, 160, 160, width_px=8, feather_px=3).paste(160, 160)
    even = rasterise.rasterise_profile(line, [(4, 4, 3)] * 3, 160, 160).paste(160, 160)  # type: ignore[arg-type]
    assert np.abs(plain - even).max() < 0.01


def test_a_profile_has_two_sides_and_changes_evenly() -> None:
    line = (ControlPoint(20, 80), ControlPoint(120, 80))
    matte = rasterise.rasterise_profile(line, [(2, 10, 0), (12, 0, 0)], 160, 160).paste(160, 160)  # type: ignore[arg-type]
    # left is up: the curve runs right, y runs down
    above, below = matte[:80, 69:71].sum() / 2, matte[80:, 69:71].sum() / 2
    assert above == pytest.approx(7, abs=0.15)
    assert below == pytest.approx(5, abs=0.15)
