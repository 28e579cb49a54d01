"""The probable cause of a shape that reads back wrong: the classic mistakes of exchange, tried one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rotopaint_ai.shapes import samples
from rotopaint_ai.shapes.roto import ControlPoint, Interpolation, Points, RotoDocument, RotoShape

NEAR_PX = 0.25  # a mistake counts as the cause if undoing it leaves at most this distance
_SHARE = 0.02  # or at most this share of the former distance

_KINDS: tuple[tuple[str, Interpolation], ...] = (
    ("holds became moves", "linear"),
    ("moves became holds", "hold"),
)

PointChange = Callable[[ControlPoint], ControlPoint]


def diagnose(meant: RotoShape, found: RotoShape, document: RotoDocument, frames: Sequence[float]) -> str:
    """The mistake that turns `meant` into `found`, as a phrase; empty where no known mistake does."""
    if not meant.keys or not found.keys or meant.n_points != found.n_points:
        return ""
    asked = frames[:: max(1, len(frames) // 24)]
    before = _largest_distance(meant, found, asked)
    tried = [(_largest_distance(guess, found, asked), text) for text, guess in _mistakes(meant, found, document)]
    best, text = min(tried, key=lambda each: each[0])
    return text if best <= max(NEAR_PX, _SHARE * before) and best < 0.5 * before else ""


def _largest_distance(a: RotoShape, b: RotoShape, frames: Sequence[float]) -> float:
    return float(samples.distances(a, b, frames, per_segment=4).max(initial=0.0))


def _mistakes(meant: RotoShape, found: RotoShape, document: RotoDocument) -> Iterator[tuple[str, RotoShape]]:
    """Each mistake's name, and the shape as that mistake would have written it."""
    for text, change in _changes(document):
        yield text, _with_mapped_points(meant, change)
    yield "points run the other way", _with_reversed_points(meant)
    for shift in _shifts_to_try(meant, found, document):
        yield f"frames are shifted by {shift}", meant.with_keys({f + shift: key for f, key in meant.keys.items()})
    for text, kind in _KINDS:
        yield text, meant.with_keys({f: replace(key, interpolation=kind) for f, key in meant.keys.items()})
    for turn in range(1, min(meant.n_points, 64) if meant.closed else 1):
        yield "points start elsewhere", _with_turned_points(meant, turn)


def _changes(document: RotoDocument) -> list[tuple[str, PointChange]]:
    width, height, aspect = document.width, document.height, document.pixel_aspect
    found: list[tuple[str, PointChange]] = [
        ("it is upside down (y)", lambda p: ControlPoint(p.x, height - p.y, p[2], -p[3], p[4], -p[5])),
        ("it is mirrored (x)", lambda p: ControlPoint(width - p.x, p.y, -p[2], p[3], -p[4], p[5])),
        ("x and y are swapped", lambda p: ControlPoint(p.y, p.x, p[3], p[2], p[5], p[4])),
        ("incoming and outgoing handles are swapped", lambda p: ControlPoint(p.x, p.y, *p[4:6], *p[2:4])),
        ("handles are lost", lambda p: ControlPoint(p.x, p.y)),
        ("the y of the handles has the wrong sign", lambda p: ControlPoint(p.x, p.y, p[2], -p[3], p[4], -p[5])),
        ("handles are absolute, not offsets", _absolute_handles),
        ("it is half a pixel off", lambda p: p._replace(x=p.x - 0.5, y=p.y - 0.5)),
        ("it is half a pixel off", lambda p: p._replace(x=p.x + 0.5, y=p.y + 0.5)),
        ("it is at half size", _scale_change(0.5, 0.5)),
        ("it is at double size", _scale_change(2.0, 2.0)),
    ]
    if aspect != 1.0:
        found += [("pixel aspect is applied to x", _scale_change(k, 1.0)) for k in (aspect, 1.0 / aspect)]
    return found


def _absolute_handles(p: ControlPoint) -> ControlPoint:
    return ControlPoint(p.x, p.y, p.in_dx + p.x, p.in_dy + p.y, p.out_dx + p.x, p.out_dy + p.y)


def _scale_change(x: float, y: float) -> PointChange:
    return lambda p: ControlPoint(p.x * x, p.y * y, p[2] * x, p[3] * y, p[4] * x, p[5] * y)


def _shifts_to_try(meant: RotoShape, found: RotoShape, document: RotoDocument) -> list[int]:
    """Frame shifts worth trying: by one, by the shot's first frame, and from first key to first key."""
    first = document.first_frame
    tried = (1, -1, first, -first, first - 1, 1 - first, found.frames[0] - meant.frames[0])
    return [shift for shift in dict.fromkeys(tried) if shift]


def _with_mapped_points(shape: RotoShape, change: PointChange) -> RotoShape:
    return _with_points(shape, lambda points: tuple(change(p) for p in points))


def _with_reversed_points(shape: RotoShape) -> RotoShape:
    def turned(points: Points) -> Points:
        run = tuple(ControlPoint(p.x, p.y, *p[4:6], *p[2:4]) for p in reversed(points))
        return (run[-1], *run[:-1]) if shape.closed else run

    return _with_points(shape, turned)


def _with_turned_points(shape: RotoShape, turn: int) -> RotoShape:
    return _with_points(shape, lambda points: (*points[turn:], *points[:turn]))


def _with_points(shape: RotoShape, change: Callable[[Points], Points]) -> RotoShape:
    return shape.with_keys({f: replace(key, points=change(key.points)) for f, key in shape.keys.items()})
