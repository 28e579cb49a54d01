"""What is said of a shape that came back wrong: every classic mistake is made on purpose, and named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rotopaint_ai.exchange.diagnosis import diagnose
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoDocument, RotoShape

SHOT = RotoDocument(200, 100, 1001, 1012)
POINTS = (
    ControlPoint(20.0, 10.0, -3.0, 1.0, 4.0, 2.0),
    ControlPoint(90.0, 25.0, -5.0, -6.0, 7.0, 3.0),
    ControlPoint(60.0, 80.0, 9.0, 2.0, -8.0, -4.0),
)


def _shape(*keys: tuple[int, Points]) -> RotoShape:
    return RotoShape("mouth", closed=True, keys={frame: Key(points, "human") for frame, points in keys})


def _moved(points: Points, by: float) -> Points:
    return tuple(point._replace(x=point.x + by) for point in points)


MEANT = _shape((1001, POINTS), (1004, _moved(POINTS, 6.0)), (1009, _moved(POINTS, -11.0)))


@pytest.mark.parametrize("shift", [1, -1, 1001, -1001, 1000, -1000, 7])
def test_a_shift_in_time_is_named_with_its_frames(shift: int) -> None:
    found = MEANT.with_keys({frame + shift: key for frame, key in MEANT.keys.items()})
    frames = range(1001 + shift, 1013 + shift)
    assert diagnose(MEANT, found, SHOT, frames) == f"frames are shifted by {shift}"


@pytest.mark.parametrize("shift", [1, -1, 1001, -1001, 1000, -1000])
def test_a_usual_shift_is_named_where_a_key_came_in_before_the_first(shift: int) -> None:
    """The distance between the first keys is then no evidence."""
    keys = {frame + shift: key for frame, key in MEANT.keys.items()}
    found = MEANT.with_keys({998 + shift: keys[1001 + shift], **keys})
    assert diagnose(MEANT, found, SHOT, range(1001 + shift, 1013 + shift)) == f"frames are shifted by {shift}"


def _with_rows(change: object) -> RotoShape:
    return MEANT.with_keys(
        {f: replace(key, points=tuple(change(*p) for p in key.points)) for f, key in MEANT.keys.items()}  # type: ignore[operator]
    )


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda x, y, a, b, c, d: ControlPoint(x, 100 - y, a, -b, c, -d), "it is upside down (y)"),
        (lambda x, y, a, b, c, d: ControlPoint(200 - x, y, -a, b, -c, d), "it is mirrored (x)"),
        (lambda x, y, a, b, c, d: ControlPoint(y, x, b, a, d, c), "x and y are swapped"),
        (lambda x, y, a, b, c, d: ControlPoint(x, y, c, d, a, b), "incoming and outgoing handles are swapped"),
        (lambda x, y, a, b, c, d: ControlPoint(x, y), "handles are lost"),
        (lambda x, y, a, b, c, d: ControlPoint(x, y, a, -b, c, -d), "the y of the handles has the wrong sign"),
        (lambda x, y, a, b, c, d: ControlPoint(x, y, x + a, y + b, x + c, y + d), "handles are absolute, not offsets"),
        (lambda x, y, a, b, c, d: ControlPoint(x + 0.5, y + 0.5, a, b, c, d), "it is half a pixel off"),
        (lambda x, y, a, b, c, d: ControlPoint(x - 0.5, y - 0.5, a, b, c, d), "it is half a pixel off"),
        (lambda x, y, a, b, c, d: ControlPoint(x / 2, y / 2, a / 2, b / 2, c / 2, d / 2), "it is at half size"),
        (lambda x, y, a, b, c, d: ControlPoint(2 * x, 2 * y, 2 * a, 2 * b, 2 * c, 2 * d), "it is at double size"),
        (lambda x, y, a, b, c, d: ControlPoint(x + 3 * y, y, a, b, c, d), ""),  # a mistake that nobody makes
        # 80 px upside down, and up to a fiftieth of that besides; more, or little from the start, is none of these
        (lambda x, y, a, b, c, d: ControlPoint(x + 1, 100 - y, a, -b, c, -d), "it is upside down (y)"),
        (lambda x, y, a, b, c, d: ControlPoint(x + 3, 100 - y, a, -b, c, -d), ""),
        (lambda x, y, a, b, c, d: ControlPoint(x + 0.2, y, a, b, c, d), ""),
    ],
)
def test_points_that_were_misread_are_named(change: object, wanted: str) -> None:
    assert diagnose(MEANT, _with_rows(change), SHOT, range(1001, 1013)) == wanted


@pytest.mark.parametrize("times", [2.0, 0.5])
def test_a_pixel_aspect_that_was_applied_or_taken_off_is_named(times: float) -> None:
    wide = replace(SHOT, pixel_aspect=2.0)
    found = _with_rows(lambda x, y, a, b, c, d: ControlPoint(times * x, y, times * a, b, times * c, d))
    assert diagnose(MEANT, found, wide, range(1001, 1013)) == "pixel aspect is applied to x"


def _in_order(*rows: int, run_back: bool = False) -> RotoShape:
    """The shape with its points in this order; handles are swapped if the order is reversed."""

    def turned(p: ControlPoint) -> ControlPoint:
        return ControlPoint(p.x, p.y, p.out_dx, p.out_dy, p.in_dx, p.in_dy) if run_back else p

    return MEANT.with_keys(
        {f: replace(key, points=tuple(turned(key.points[row]) for row in rows)) for f, key in MEANT.keys.items()}
    )


def test_keys_that_hold_or_move_by_mistake_and_points_in_another_order_are_named() -> None:
    frames = range(1001, 1013)
    held = MEANT.with_keys({f: replace(key, interpolation="hold") for f, key in MEANT.keys.items()})
    moving = MEANT.with_keys({f: replace(key, interpolation="linear") for f, key in MEANT.keys.items()})
    assert diagnose(held, moving, SHOT, frames) == "holds became moves"
    assert diagnose(moving, held, SHOT, frames) == "moves became holds"
    assert diagnose(MEANT, _in_order(2, 0, 1), SHOT, frames) == "points start elsewhere"
    assert diagnose(MEANT, _in_order(0, 2, 1, run_back=True), SHOT, frames) == "points run the other way"
    line, back = (replace(shape, closed=False) for shape in (MEANT, _in_order(2, 1, 0, run_back=True)))
    assert diagnose(line, back, SHOT, frames) == "points run the other way"
    assert diagnose(MEANT, MEANT.with_keys({}), SHOT, frames) == ""
