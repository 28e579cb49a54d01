"""Points inserted and deleted, tangents and transforms: against hand calculation, and against the array versions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.shapes import bezier, edit_points, edit_tangents, edit_transform
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoDocument, RotoShape, Slopes, feather_line

from .curves import insert

KAPPA = 4 / 3 * (math.sqrt(2) - 1)  # handle length of a quarter of a circle of radius 1


def circle(radius: float, x: float = 0.0, y: float = 0.0) -> Points:
    k = KAPPA * radius
    return (
        ControlPoint(x + radius, y, 0, -k, 0, k),
        ControlPoint(x, y + radius, k, 0, -k, 0),
        ControlPoint(x - radius, y, 0, k, 0, -k),
        ControlPoint(x, y - radius, -k, 0, k, 0),
    )


def square(x: float, y: float) -> Points:
    return tuple(ControlPoint(a, b) for a, b in ((x, y), (x + 10, y), (x + 10, y + 10), (x, y + 10)))


def document(closed: bool = True, **keys: Points) -> RotoDocument:
    table = {int(name[1:]): Key(points) for name, points in keys.items()}
    return RotoDocument(100, 80, 1, 20, shapes=(RotoShape("eye", closed, "matte", table),))


def test_a_new_point_leaves_a_smooth_motion_as_it_was() -> None:
    rates = tuple(ControlPoint(9.0, k, 1.0, 0.5 * k, -1.0, 0.0) for k in range(4))
    rest = tuple(ControlPoint(0.0, 0.0) for _ in range(4))
    row = tuple(ControlPoint(2.0, 1.0) for _ in range(4))
    keys = {
        1: Key(square(10, 10), "human", "smooth", row, slopes=Slopes(rates, rest, rates, rest)),
        11: Key(square(50, 10), "human", feather=row),
    }
    shape = RotoShape("eye", True, "matte", keys)
    (after,) = edit_points.add_point(RotoDocument(100, 80, 1, 20, shapes=(shape,)), "eye", 1, 0.25).shapes
    for frame in (1, 4, 6, 11):
        whole = edit_points.add_point(
            RotoDocument(100, 80, 1, 20, shapes=(RotoShape("eye", True, "matte", {1: Key(shape.at(frame))}),)),
            "eye",
            1,
            0.25,
        ).shapes[0]
        np.testing.assert_allclose(after.at(frame), whole.at(1), atol=1e-9)
        old, new = (feather_line(each.at(frame), each.feather_at(frame)) for each in (shape, after))
        np.testing.assert_allclose([*new[:2], *new[3:]][0], old[0], atol=1e-9)


@given(st.integers(0, 3), st.floats(0.02, 0.98), st.integers(1, 11))
def test_a_point_more_changes_no_curve_at_keys_or_between(segment: int, t: float, frame: int) -> None:
    before = document(f1=circle(10), f11=circle(30, 7, -4)).shape("eye")
    after = edit_points.add_point(document(f1=circle(10), f11=circle(30, 7, -4)), "eye", segment, t).shape("eye")
    old, new = bezier.as_array(before.at(frame)), bezier.as_array(after.at(frame))
    assert len(new) == 5
    assert np.allclose(new, insert(old, True, segment, t))


def test_a_place_that_is_not_on_the_shape_is_reported() -> None:
    with pytest.raises(DocumentError, match="segments run from 0 to 3"):
        edit_points.add_point(document(f1=circle(10)), "eye", 4, 0.5)


def test_a_point_taken_away_again_leaves_the_curve_it_was_put_on() -> None:
    more = edit_points.add_point(document(f1=circle(10), f5=circle(20, 3, 3)), "eye", 2, 0.37)
    less = edit_points.delete_points(more, "eye", (3,)).shape("eye")
    for frame, radius, x in ((1, 10, 0), (5, 20, 3)):
        there, back = bezier.as_array(circle(radius, x, x)), bezier.as_array(less.keys[frame].points)
        assert bezier.curve_distance(there, back, True, spacing=0.5)[1] < 0.02


def test_deleting_follows_the_curve_better_than_leaving_the_tangents_alone() -> None:
    ring = bezier.as_points(insert(bezier.as_array(circle(50)), True, 0, 0.5))
    fitted = edit_points.delete_points(document(f1=ring), "eye", {1}).shape("eye").keys[1].points
    bare = tuple(point for index, point in enumerate(ring) if index != 1)
    there = bezier.as_array(ring)
    off = [bezier.curve_distance(there, bezier.as_array(points), True)[1] for points in (fitted, bare)]
    assert off[0] < 0.05 < 5 < off[1]


def test_deleting_across_the_seam_of_a_closed_shape_and_several_at_once() -> None:
    ring = bezier.as_array(circle(50))
    for segment in (3, 1, 0):
        ring = insert(ring, True, segment, 0.5)
    shape = edit_points.delete_points(document(f1=bezier.as_points(ring)), "eye", {1, 3, 6}).shape("eye")
    assert bezier.curve_distance(ring, bezier.as_array(shape.keys[1].points), True)[1] < 0.05


def test_corners_without_tangents_stay_corners_and_the_least_is_kept() -> None:
    three = edit_points.delete_points(document(f1=square(0, 0)), "eye", (1,))
    assert three.shape("eye").keys[1].points == tuple(p for i, p in enumerate(square(0, 0)) if i != 1)
    with pytest.raises(DocumentError, match="needs 3"):
        edit_points.delete_points(three, "eye", (0,))
    with pytest.raises(DocumentError, match="no control point 7"):
        edit_points.delete_points(three, "eye", (7,))


def test_an_open_end_moves_with_its_segment() -> None:
    line = (ControlPoint(0, 0), ControlPoint(10, 0, -3, 0, 3, 0), ControlPoint(20, 5))
    shape = edit_points.delete_points(document(closed=False, f1=line), "eye", (2,)).shape("eye")
    assert shape.keys[1].points == line[:2]


@given(st.floats(-30, 30), st.floats(-30, 30))
def test_the_nearest_place_on_a_circle(x: float, y: float) -> None:
    found = edit_points.find_nearest(circle(10, 2, 1), True, x, y)
    assert found is not None
    expected = abs(math.hypot(x - 2, y - 1) - 10)  # four cubics are off a circle by 0.027 % of the radius at most
    assert found.distance == pytest.approx(expected, abs=3e-3)
    assert math.hypot(found.x - x, found.y - y) == pytest.approx(found.distance)


def test_smooth_tangents_lie_along_the_neighbours_and_reach_a_third() -> None:
    points = edit_tangents.smooth((ControlPoint(0, 0), ControlPoint(6, 8), ControlPoint(12, 0)), {0, 1}, False)
    assert points[1] == pytest.approx((6, 8, -10 / 3, 0, 10 / 3, 0))
    assert points[0] == pytest.approx((0, 0, 0, 0, 2, 8 / 3))
    assert points[2] == ControlPoint(12, 0)
    assert edit_tangents.cusp(points, {1})[1] == ControlPoint(6, 8)


def test_smooth_tangents_have_the_slope_of_the_chord_wherever_the_curve_begins() -> None:
    """Neighbours 5 and 6 px away, and their chord (10, 3)."""
    _, point, _ = edit_tangents.smooth((ControlPoint(0, 3), ControlPoint(4, 6), ControlPoint(10, 6)), {1}, False)
    chord = math.hypot(10, 3)
    assert point[2:4] == pytest.approx((-10 * 5 / 3 / chord, -3 * 5 / 3 / chord))
    assert point[4:] == pytest.approx((10 * 2 / chord, 3 * 2 / chord))


def test_join_and_mirror_put_tangents_in_one_line() -> None:
    corner = (ControlPoint(5, 5, -2, 0, 0, 4),)
    joined = edit_tangents.join(corner, {0})[0]
    diagonal = math.sqrt(0.5)
    assert joined == pytest.approx((5, 5, -2 * diagonal, -2 * diagonal, 4 * diagonal, 4 * diagonal))
    assert edit_tangents.is_smooth(joined)
    assert not edit_tangents.is_smooth(corner[0])
    mirrored = edit_tangents.mirror_tangents(corner, {0})[0]
    assert mirrored == pytest.approx((5, 5, -3 * diagonal, -3 * diagonal, 3 * diagonal, 3 * diagonal))


@pytest.mark.parametrize(("mode", "other"), [("turn", (0, -1)), ("alone", (-1, 0)), ("mirror", (0, -3))])
def test_a_dragged_tangent_moves_the_other_by_the_chosen_mode(
    mode: edit_tangents.Mode, other: tuple[float, float]
) -> None:
    points = edit_tangents.drag((ControlPoint(0, 0, -1, 0, 2, 0),), 0, "out", (0, 3), mode)
    assert points[0] == pytest.approx((0, 0, *other, 0, 3))


def test_transforms_turn_about_their_pivot_and_take_tangents_along() -> None:
    point = (ControlPoint(3, 2, -1, 0, 1, 0),)
    assert edit_transform.transform(point, edit_transform.translation(2, -1))[0] == ControlPoint(5, 1, -1, 0, 1, 0)
    turned = edit_transform.transform(point, edit_transform.rotation(90, (2, 2)))[0]
    assert turned == pytest.approx((2, 3, 0, -1, 0, 1))  # y runs down: clockwise on the screen
    grown = edit_transform.transform(point, edit_transform.scale_about(2, 3, (1, 1)))[0]
    assert grown == pytest.approx((5, 4, -2, 0, 2, 0))


def test_rotation_on_an_anamorphic_plate_is_round_to_the_eye() -> None:
    x, y = edit_transform.rotation(90, (0, 0), pixel_aspect=2.0)(1, 0)
    assert (x, y) == pytest.approx((0, 2))  # one pixel to the right is two screen units long
    assert edit_transform.rotation(90, (0, 0), pixel_aspect=2.0)(0, 4) == pytest.approx((-2, 0))
    full = edit_transform.rotation(360, (4, 9), pixel_aspect=1.7)
    assert full(1, 2) == pytest.approx((1, 2))


def test_handles_are_a_third_of_the_chord_where_samples_do_not_determine_them() -> None:
    """First with samples only at both ends; then with samples at thirds and end directions that point outwards."""
    ahead = edit_points._fit_handles([(0, 0), (9, 0)], [0, 1], start_tangent=(1, 0), end_tangent=(-1, 0))
    assert ahead == ((0, 0), (3, 0), (6, 0), (9, 0))
    away = edit_points._fit_handles(
        [(0, 0), (3, 0), (6, 0), (9, 0)], [0, 1 / 3, 2 / 3, 1], start_tangent=(-1, 0), end_tangent=(1, 0)
    )
    assert away == ((0, 0), (-3, 0), (12, 0), (9, 0))


def test_handles_are_those_of_the_cubic_that_the_samples_lie_on() -> None:
    cubic, ts = np.array([(0, 0), (2, 4), (8, 3), (10, 0)], float), np.linspace(0, 1, 9)
    weights = np.stack([(1 - ts) ** 3, 3 * (1 - ts) ** 2 * ts, 3 * (1 - ts) * ts**2, ts**3], 1)
    ways = (cubic[1] - cubic[0]) / np.hypot(2, 4), (cubic[2] - cubic[3]) / np.hypot(2, 3)
    found = edit_points._fit_handles(
        [tuple(p) for p in weights @ cubic], list(ts), start_tangent=tuple(ways[0]), end_tangent=tuple(ways[1])
    )
    np.testing.assert_allclose(found, cubic, atol=1e-9)
