"""Mattes against closed forms, against shapely's exact areas, and against supersampling."""

from __future__ import annotations

import itertools
import math
import sys
import tracemalloc
from types import FrameType
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rotopaint_ai.shapes import bezier, rasterise
from rotopaint_ai.shapes.bezier import Array
from rotopaint_ai.shapes.rasterise import Region
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoShape

from .curves import area

W, H = 64, 48


def circle(cx: float, cy: float, radius: float, n: int) -> Array:
    a = np.arange(n) * 2 * np.pi / n
    k = 4 / 3 * math.tan(math.pi / 2 / n) * radius
    c, s = np.cos(a), np.sin(a)
    return np.stack((cx + radius * c, cy + radius * s, k * s, -k * c, -k * s, k * c), axis=1)


def polyline_shape(vertices: list[tuple[float, float]]) -> Array:
    points = np.zeros((len(vertices), 6))
    points[:, :2] = vertices
    return points


def exact(shape: shapely.Geometry) -> NDArray[np.float64]:
    """Area of every pixel inside a geometry, by polygon clipping: an independent calculation of the same number."""
    grid = shapely.box(*np.meshgrid(np.arange(W), np.arange(H)), *np.meshgrid(np.arange(W) + 1, np.arange(H) + 1))
    return np.asarray(shapely.area(shapely.intersection(grid, shape)))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(-20, 84), st.floats(-20, 68)), min_size=3, max_size=3, unique=True))
@example([(0.0, 0.0), (0.0, 2.2250738585072014e-308), (4.0, 0.0)])
def test_triangles_match_clipped_areas(corners: list[tuple[float, float]]) -> None:
    shape = shapely.Polygon(corners)
    if not shape.is_valid:
        return
    got = rasterise.rasterise_closed(polyline_shape(corners), W, H).paste(W, H)
    assert np.abs(got - exact(shape)).max() < 2e-6 + rasterise.DUST


def test_pixel_aligned_square_is_sharp() -> None:
    got = rasterise.rasterise_closed(polyline_shape([(10, 12), (20, 12), (20, 18), (10, 18)]), W, H)
    assert (got.x, got.y) == (10, 12)
    assert got.coverage.shape == (6, 10)
    assert (got.coverage == 1).all()


def test_half_covered_pixels_follow_plate_space() -> None:
    got = rasterise.rasterise_closed(polyline_shape([(10.5, 12), (20, 12), (20, 17.75), (10.5, 17.75)]), W, H).paste(
        W, H
    )
    assert got[12, 10] == pytest.approx(0.5)
    assert got[17, 15] == pytest.approx(0.75)
    assert got[11, 15] == 0
    assert got[12, 20] == 0


def test_curved_shape_against_exact_coverage_along_its_edge() -> None:
    """Mean error below 1e-4 over edge pixels; the reference is clipped from a curve flattened to 1e-7 px."""
    ring = circle(31.3, 23.7, 18.6, 5)
    truth = exact(shapely.Polygon(bezier.flatten(ring, True, 1e-7)))
    got = rasterise.rasterise_closed(ring, W, H).paste(W, H)
    edge = (truth > 0) & (truth < 1)
    error = np.abs(got - truth)
    assert error[edge].mean() < 1e-4
    assert error.max() < 2e-3
    assert got.sum() == pytest.approx(area(ring), rel=1e-5)


def test_large_circle_has_its_area() -> None:
    got = rasterise.rasterise_closed(circle(960.2, 540.4, 300, 16), 1920, 1080)
    assert float(got.coverage.astype(float).sum()) == pytest.approx(math.pi * 300**2, rel=1e-6)


def test_winding_makes_no_difference() -> None:
    ring = circle(30.1, 20.2, 12, 6)
    there = rasterise.rasterise_closed(ring, W, H).paste(W, H)
    back = rasterise.rasterise_closed(bezier.reverse(ring, True), W, H).paste(W, H)
    assert np.abs(there - back).max() < 1e-6


def test_shapes_beyond_the_plate_are_cut_or_empty() -> None:
    whole = rasterise.rasterise_closed(circle(132, 124, 12.5, 8), 300, 300).paste(300, 300)[100:148, 100:164]
    moved = rasterise.rasterise_closed(circle(32, 24, 12.5, 8), W, H).paste(W, H)
    assert np.abs(whole - moved).max() < 1e-6
    part = rasterise.rasterise_closed(circle(0, 0, 12.5, 8), W, H).paste(W, H)
    assert part.sum() == pytest.approx(math.pi * 12.5**2 / 4, rel=1e-4)
    assert rasterise.rasterise_closed(circle(-100, 0, 12, 8), W, H).is_empty
    assert rasterise.rasterise_closed(circle(10, 900, 12, 8), W, H).is_empty


def test_absurd_numbers_neither_hang_nor_fill_memory() -> None:
    wide = polyline_shape([(-1e9, 10), (1e9, 10), (1e9, 20), (-1e9, 20)])
    got = rasterise.rasterise_closed(wide, W, H).paste(W, H)
    assert got[10:20].min() > 0.999
    assert got[:10].max() == 0
    assert rasterise.rasterise_closed(polyline_shape([(0, 0), (math.nan, 1), (2, 2)]), W, H).is_empty
    assert rasterise.rasterise_closed(np.zeros((0, 6)), W, H).is_empty


def test_feather_falls_linearly_outside_the_edge_only() -> None:
    box = polyline_shape([(20, 15), (40, 15), (40, 30), (20, 30)])
    got = rasterise.rasterise_closed(box, W, H, feather_px=5.0).paste(W, H)
    assert (got[15:30, 20:40] == 1).all()
    # along the normal the pixel k beyond the edge averages 1 - u / 5 over [k, k + 1]
    assert got[22, 40:46] == pytest.approx([0.9, 0.7, 0.5, 0.3, 0.1, 0.0], abs=1e-5)
    assert got[14:9:-1, 30] == pytest.approx([0.9, 0.7, 0.5, 0.3, 0.1], abs=1e-5)


def test_feather_follows_the_distance_from_a_curve() -> None:
    got = rasterise.rasterise_closed(circle(32, 24, 10, 8), W, H, feather_px=8.0).paste(W, H)
    n = 16
    at = (np.arange(W * n) + 0.5) / n, (np.arange(H * n) + 0.5) / n
    radius = np.hypot(at[0][None] - 32, at[1][:, None] - 24)
    truth = np.clip(1 - (radius - 10) / 8, 0, 1).reshape(H, n, W, n).mean(axis=(1, 3))
    assert np.abs(got - truth).max() < 0.02
    assert np.abs(got - truth).mean() < 5e-4


def test_a_feather_never_lowers_coverage_and_vanishes_smoothly() -> None:
    ring = circle(30.3, 22.8, 9, 6)
    hard = rasterise.rasterise_closed(ring, W, H).paste(W, H)
    for feather in (0.01, 0.3, 1.5, 6.0):
        soft = rasterise.rasterise_closed(ring, W, H, feather_px=feather).paste(W, H)
        assert (soft >= hard - 1e-6).all()
    slight = rasterise.rasterise_closed(ring, W, H, feather_px=0.01).paste(W, H)
    assert np.abs(slight - hard).max() < 0.12


def test_straight_stroke_has_exact_area() -> None:
    line = polyline_shape([(10, 20), (50, 20)])
    got = rasterise.rasterise_open(line, W, H, width_px=5).paste(W, H)
    assert got[18:22, 10:50].min() == pytest.approx(1.0)
    assert got[17, 20] == pytest.approx(0.5)
    assert got[:, 10:50].sum() == pytest.approx(200, rel=1e-6)
    assert got[:, :10].sum() == pytest.approx(math.pi * 2.5**2 / 2, rel=2e-3)
    assert got.sum() == pytest.approx(200 + math.pi * 2.5**2, rel=2e-4)


def test_bent_stroke_against_shapely() -> None:
    arc = circle(32, 24, 15, 8)[:6]
    band = shapely.LineString(bezier.flatten(arc, False, 1e-6)).buffer(3.0, quad_segs=64)
    got = rasterise.rasterise_open(arc, W, H, width_px=6).paste(W, H)
    error = np.abs(got - exact(band))
    edge = (exact(band) > 0) & (exact(band) < 1)
    assert error[edge].mean() < 1e-3
    assert got.sum() == pytest.approx(band.area, rel=2e-4)


def test_corners_and_crossings_count_once() -> None:
    vertices = [(8.0, 10.0), (50.0, 10.0), (50.0, 40.0), (20.0, 4.0)]
    band = shapely.LineString(vertices).buffer(3.0, quad_segs=64)
    got = rasterise.rasterise_open(polyline_shape(vertices), W, H, width_px=6).paste(W, H)
    error = np.abs(got - exact(band))
    assert error.mean() < 2e-3
    assert got.max() <= 1.0
    assert got.sum() == pytest.approx(band.area, rel=5e-3)


def test_hairpin_tighter_than_its_width_stays_whole() -> None:
    arc = circle(32, 24, 2.0, 8)[:5]
    band = shapely.LineString(bezier.flatten(arc, False, 1e-5)).buffer(4.0, quad_segs=64)
    got = rasterise.rasterise_open(arc, W, H, width_px=8).paste(W, H)
    assert np.abs(got - exact(band)).max() < 0.15
    assert got.sum() == pytest.approx(band.area, rel=0.02)


def test_taper_narrows_to_nothing_at_both_ends() -> None:
    line = polyline_shape([(10, 20), (50, 20)])
    got = rasterise.rasterise_open(line, W, H, width_px=6, taper=(0.25, 0.5)).paste(W, H)
    widths = got.sum(axis=0)
    assert got[:, :10].sum() == 0
    assert widths[10:20] == pytest.approx(6 * (np.arange(10) + 0.5) / 10, rel=1e-4)
    assert widths[20:30] == pytest.approx(6.0, rel=1e-5)
    assert widths[30:50] == pytest.approx(6 * (20 - np.arange(20) - 0.5) / 20, rel=1e-4)


def test_tapers_that_overlap_meet_in_a_ridge() -> None:
    line = polyline_shape([(10, 20), (50, 20)])
    widths = rasterise.rasterise_open(line, W, H, width_px=6, taper=(1.0, 1.0)).paste(W, H).sum(axis=0)
    assert widths[29] == pytest.approx(6 * 19.5 / 40, rel=1e-3)
    assert widths.sum() == pytest.approx(60, rel=1e-4)


def test_feather_of_a_stroke_ends_where_it_should() -> None:
    line = polyline_shape([(10, 20), (50, 20)])
    got = rasterise.rasterise_open(line, W, H, width_px=4, feather_px=4.0).paste(W, H)
    assert got[22:26, 30] == pytest.approx([0.875, 0.625, 0.375, 0.125], abs=1e-5)
    assert got[26, 30] == pytest.approx(0.0, abs=1e-6)
    beyond = np.hypot(10 - (np.arange(4, 8) + 0.5), 0.5) - 2  # from the round end to the centres of pixels before it
    assert got[20, 4:8] == pytest.approx(1 - beyond / 4, abs=1e-3)


def test_points_on_one_spot_make_a_dot() -> None:
    dot = rasterise.rasterise_open(polyline_shape([(20.5, 20.5), (20.5, 20.5)]), W, H, width_px=6)
    assert dot.coverage.sum() == pytest.approx(math.pi * 9, rel=1e-2)


@pytest.mark.parametrize("feather", [0.0, 3.0])
@pytest.mark.parametrize("closed", [False, True])
def test_pixels_away_from_a_shape_are_exactly_zero(closed: bool, feather: float) -> None:
    points = circle(300.3, 200.7, 90.1, 7)
    if closed:
        got = rasterise.rasterise_closed(points, 640, 480, feather_px=feather)
        outline = shapely.Polygon(bezier.flatten(points, True, 0.001, centred=True))
    else:
        got = rasterise.rasterise_open(points, 640, 480, width_px=5.0, feather_px=feather)
        outline = shapely.LineString(bezier.flatten(points, False, 0.001, centred=True)).buffer(2.5)
    rows, columns = np.nonzero(got.coverage)
    far = shapely.distance(outline, shapely.points(columns + got.x + 0.5, rows + got.y + 0.5))
    assert far.max() < feather + 0.75  # half a pixel's diagonal, and flattening
    assert got.coverage[got.coverage > 0].min() >= rasterise.DUST
    if not feather:
        assert got.coverage.sum(dtype=float) == pytest.approx(outline.area, rel=2e-5)


def test_matte_of_a_document_shape() -> None:
    points = tuple(ControlPoint(*row) for row in circle(30, 20, 8, 4))
    moved = tuple(p._replace(x=p.x + 10) for p in points)
    shape = RotoShape("eye", True, "matte", {1001: Key(points), 1003: Key(moved)}, visible={1003: False})
    middle = rasterise.matte(shape, 1002, W, H).paste(W, H)
    columns = (np.arange(W) + 0.5) @ middle.sum(axis=0) / middle.sum()
    assert columns == pytest.approx(35.0, abs=1e-3)
    assert rasterise.matte(shape, 1003, W, H).is_empty
    assert rasterise.matte(RotoShape("none", True), 1001, W, H).is_empty


@pytest.mark.parametrize("feather", [0.0, 3.0])
def test_a_shape_without_extent_is_drawn_as_nothing_but_its_feather(feather: float) -> None:
    dot = (ControlPoint(0.0, 0.0),) * 3
    region = rasterise.rasterise_closed(dot, W, H, feather_px=feather)
    assert float(region.paste(W, H)[8:].max()) == 0.0


def test_union_takes_the_larger_value() -> None:
    a = Region(2, 3, np.full((4, 4), 0.5, dtype=np.float32))
    b = Region(4, 5, np.full((6, 2), 0.8, dtype=np.float32))
    both = rasterise.union([a, rasterise.EMPTY, b]).paste(W, H)
    assert both[5, 4] == np.float32(0.8)
    assert both[3, 2] == np.float32(0.5)
    assert both.sum() == pytest.approx(0.5 * 16 + 0.8 * 12 - 0.5 * 4, rel=1e-6)
    assert rasterise.union([]).is_empty


@pytest.mark.parametrize(("radius", "width", "height"), [(6, 1920, 1080), (400, 1920, 1080), (60, 4096, 2160)])
def test_a_shape_costs_the_same_lines_of_python_whatever_its_size(radius: float, width: int, height: int) -> None:
    """No loop over pixels, rows or pieces of a curve. Counts lines, not time, so that the machine's speed does not
    matter."""

    def n_lines(shape: Array, size: tuple[int, int]) -> int:
        counted = []

        def look(frame: FrameType, event: str, arg: object) -> Any:
            counted.append(event)
            return look

        before = sys.gettrace()
        sys.settrace(look)
        try:
            rasterise.rasterise_closed(shape, *size, feather_px=1.5)
        finally:
            sys.settrace(before)
        return len(counted)

    usual = circle(240, 135, 60, 12), (480, 270)
    rasterise.rasterise_closed(usual[0], *usual[1], feather_px=1.5)  # fills the caches
    assert n_lines(circle(width / 2, height / 2, radius, 12), (width, height)) == n_lines(*usual) > 100


def test_a_shape_takes_memory_of_its_own_size_and_not_the_plates() -> None:
    def peak(width: int, height: int) -> int:
        tracemalloc.start()
        rasterise.rasterise_closed(circle(width / 2, height / 2, 60, 12), width, height, feather_px=1.5)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(480, 270)
    assert peak(4096, 2160) < 1.1 * peak(480, 270)


@pytest.mark.parametrize("feather_px", [1.0, 9.0])
def test_a_feather_reaches_in_from_beyond_the_plate(feather_px: float) -> None:
    """The part that the plate cuts off equals that on a larger plate, also where only the feather lies on the plate."""
    wavy = [(2, -6.5, 0, 0, 8, 0), (20, 3, -6, -8, 6, 8), (40, -7.5, -8, 0, 0, 0)]
    far = [(x + 30, y + 30, *rest) for x, y, *rest in wavy]
    for draw in (
        lambda points, *size: rasterise.rasterise_open(points, *size, width_px=8.0, feather_px=feather_px),
        lambda points, *size: rasterise.rasterise_closed(points, *size, feather_px=feather_px),
    ):
        whole = draw(np.array(far, float), W + 60, H + 60).paste(W + 60, H + 60)[30 : 30 + H, 30 : 30 + W]
        np.testing.assert_allclose(draw(np.array(wavy, float), W, H).paste(W, H), whole, atol=1e-6)
        assert whole.any()


def test_a_stroke_of_many_pieces_is_the_largest_of_them() -> None:
    """A zigzag's corners split the stroke; separately, each edge with its round ends is a stroke of its own."""
    corners = [(4 + 3 * k, 10 + 25 * (k % 2)) for k in range(19)]
    got = rasterise.rasterise_open(np.array([(*p, 0, 0, 0, 0) for p in corners], float), W, H, width_px=3.0)
    alone = [
        rasterise.rasterise_open(np.array([(*p, 0, 0, 0, 0), (*q, 0, 0, 0, 0)], float), W, H, width_px=3.0)
        for p, q in itertools.pairwise(corners)
    ]
    np.testing.assert_allclose(got.paste(W, H), np.max([part.paste(W, H) for part in alone], axis=0), atol=1e-4)


# --- hold-out shapes -----------------------------------------------------------------------------------------------


def square(name: str, x: float, y: float, side: float, *, subtract: bool = False) -> RotoShape:
    corners = ((x, y), (x + side, y), (x + side, y + side), (x, y + side))
    key = Key(tuple(ControlPoint(*corner) for corner in corners), "human")
    return RotoShape(name, True, "matte", {1: key}, subtract=subtract)


@pytest.mark.parametrize("turn", [1, -1])
def test_a_hold_out_shape_is_subtracted_from_the_others_anywhere_in_the_list(turn: int) -> None:
    """A square of 20 px without its right half, and without a quarter of the pixel column where the edge cuts it."""
    shapes = square("face", 10, 10, 20), square("hand", 20.25, 0, 40, subtract=True)
    drawn = rasterise.mattes_of(shapes[::turn], 1, W, H)
    assert drawn["face"].coverage.sum() == pytest.approx(10.25 * 20, abs=0.01)
    assert drawn["face"].paste(W, H)[15, 20] == pytest.approx(0.25, abs=1e-4)
    assert drawn["hand"].coverage.sum() == pytest.approx(40 * 40, abs=1)  # its own matte stays unchanged


def test_nothing_is_held_out_where_the_shape_is_hidden_or_elsewhere() -> None:
    face, hand = square("face", 10, 10, 20), square("hand", 50, 10, 10, subtract=True)
    whole = rasterise.matte(face, 1, W, H)
    assert np.array_equal(rasterise.mattes_of((face, hand), 1, W, H)["face"].coverage, whole.coverage)
    over = RotoShape("hand", True, "matte", face.keys, visible={1: False}, subtract=True)
    assert np.array_equal(rasterise.mattes_of((face, over), 1, W, H)["face"].coverage, whole.coverage)
