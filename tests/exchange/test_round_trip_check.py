"""The self-check catches every mistake that is planted on purpose, and says which one it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import round_trip
from rotopaint_ai.exchange.features import EVERY
from rotopaint_ai.shapes.roto import ControlPoint, Key, LandmarkKeys, Points, RotoDocument, RotoShape

Plant = Callable[[RotoDocument], RotoDocument]


def ring(x: float, y: float) -> Points:
    """A lopsided outline whose handles are not mirror images of each other."""
    return (
        ControlPoint(x + 60, y, -3, -20, 8, 24),
        ControlPoint(x, y + 40, 20, 4, -26, -6),
        ControlPoint(x - 50, y, 2, 16, 6, -22),
        ControlPoint(x, y - 35, -18, 1, 30, -5),
    )


def sample() -> RotoDocument:
    keys = {
        1001: Key(ring(300, 200)),
        1005: Key(ring(340, 230), "human"),
        1009: Key(ring(330, 210), interpolation="hold"),
        1014: Key(ring(380, 260)),
    }
    seam = {f: Key(key.points[:3], key.source, key.interpolation) for f, key in keys.items()}
    shapes = (
        RotoShape("pip/eye", True, "matte", keys, feather_px=3.0, visible={1003: False}),
        RotoShape("pip/seam", False, "seam", seam, width_px=5.0, feather_px=1.0, taper=(0.1, 0.0)),
        RotoShape("mouth", True, "matte", {1004: Key(ring(700, 400))}),
    )
    return RotoDocument(960, 540, 1001, 1014, 2.0, 25.0, LandmarkKeys(("nose",), {1001: (None,)}), shapes)


def shape(change: Callable[[RotoShape], RotoShape], place: int = 0) -> Plant:
    """A change of one shape, as a change of the document."""
    return lambda d: replace(d, shapes=tuple(change(s) if i == place else s for i, s in enumerate(d.shapes)))


def points(change: Callable[[Points], Points], place: int = 0) -> Plant:
    def all_keys(s: RotoShape) -> RotoShape:
        return s.with_keys({f: replace(key, points=change(key.points)) for f, key in s.keys.items()})

    return shape(all_keys, place)


def each(change: Callable[[ControlPoint], ControlPoint]) -> Callable[[Points], Points]:
    return lambda run: tuple(change(p) for p in run)


def shifted(s: RotoShape) -> RotoShape:
    return s.with_keys({f - 1: key for f, key in s.keys.items()})


def without(frame: int) -> Callable[[RotoShape], RotoShape]:
    return lambda s: s.with_keys({f: key for f, key in s.keys.items() if f != frame})


def baked(s: RotoShape) -> RotoShape:
    return s.with_keys({f: Key(s.at(f)) for f in range(s.frames[0], s.frames[-1] + 1)})


FAULTS: list[tuple[str, Plant, str]] = [
    ("flipped y", points(each(lambda p: ControlPoint(p.x, 540 - p.y, p[2], -p[3], p[4], -p[5]))), "upside down"),
    ("mirrored x", points(each(lambda p: ControlPoint(960 - p.x, p.y, -p[2], p[3], -p[4], p[5]))), "mirrored"),
    ("x for y", points(each(lambda p: ControlPoint(p.y, p.x, p[3], p[2], p[5], p[4]))), "swapped"),
    ("shifted frames", shape(shifted), "frames are shifted by -1"),
    ("frames from 0", shape(lambda s: s.with_keys({f - 1001: k for f, k in s.keys.items()})), "shifted by -1001"),
    ("swapped handles", points(each(lambda p: ControlPoint(p.x, p.y, *p[4:6], *p[2:4]))), "handles are swapped"),
    ("lost handles", points(each(lambda p: ControlPoint(p.x, p.y))), "handles are lost"),
    (
        "absolute handles",
        points(each(lambda p: p._replace(in_dx=p[2] + p.x, in_dy=p[3] + p.y, out_dx=p[4] + p.x, out_dy=p[5] + p.y))),
        "absolute",
    ),
    (
        "one handle turned",
        points(each(lambda p: p._replace(in_dy=-p.in_dy, out_dy=-p.out_dy))),
        "the y of the handles has the wrong sign",
    ),
    ("half a pixel", points(each(lambda p: p._replace(x=p.x + 0.5, y=p.y + 0.5))), "half a pixel"),
    ("proxy size", points(each(lambda p: ControlPoint(*(v / 2 for v in p)))), "half size"),
    ("aspect applied", points(each(lambda p: ControlPoint(p.x / 2, p.y, p[2] / 2, p[3], p[4] / 2, p[5]))), "aspect"),
    ("reversed", points(lambda run: (run[0], *run[:0:-1])), "off at frame"),
    ("turned on", points(lambda run: (*run[1:], run[0])), "start elsewhere"),
    ("lost point", points(lambda run: run[:-1]), "control points 3, should be 4"),
    ("dropped feather", shape(lambda s: replace(s, feather_px=0.0)), "feather 0, should be 3"),
    ("closed an open spline", shape(lambda s: replace(s, closed=True), 1), "closed True, should be False"),
    ("width", shape(lambda s: replace(s, width_px=None), 1), "width 4, should be 5"),
    ("taper", shape(lambda s: replace(s, taper=(0.0, 0.0)), 1), "taper"),
    ("role", shape(lambda s: replace(s, role="matte"), 1), "role matte, should be seam"),
    ("dropped key", shape(without(1005)), "keys at 1005 are missing"),
    ("baked keys", shape(baked), "keys at 1002, 1003, 1004 ... are not in the source"),
    (
        "hold became a move",
        shape(lambda s: s.with_keys({f: replace(k, interpolation="linear") for f, k in s.keys.items()})),
        "frame 1009 no longer holds",
    ),
    (
        "move became a hold",
        shape(lambda s: s.with_keys({f: replace(k, interpolation="hold") for f, k in s.keys.items()})),
        "holds, but not in the source",
    ),
    (
        "source",
        shape(lambda s: s.with_keys({f: replace(k, source="model") for f, k in s.keys.items()})),
        "key 1005 has another",
    ),
    ("always shown", shape(lambda s: replace(s, visible={})), "visibility differs at 1003"),
    ("lost shape", lambda d: replace(d, shapes=d.shapes[:2]), "'mouth' is missing"),
    ("another shape", lambda d: replace(d, shapes=(*d.shapes, replace(d.shapes[2], name="x"))), "'x' is not in"),
    ("order", lambda d: replace(d, shapes=d.shapes[::-1]), "another order"),
    ("no keys", shape(lambda s: s.with_keys({}), 2), "0 keys, should have 1"),
    ("wrong aspect", lambda d: replace(d, pixel_aspect=1.0), "pixel aspect 1.0, should be 2.0"),
    ("frame rate", lambda d: replace(d, fps=24.0), "frame rate"),
    ("size", lambda d: replace(d, height=541), "size (960, 541)"),
    ("range", lambda d: replace(d, last_frame=1015), "frames (1001, 1015)"),
    ("landmarks", lambda d: replace(d, landmarks=LandmarkKeys()), "landmarks 0, should be 1"),
]


@pytest.mark.parametrize(("plant", "reported"), [each[1:] for each in FAULTS], ids=[each[0] for each in FAULTS])
def test_a_planted_fault_is_caught_and_named(plant: Plant, reported: str) -> None:
    shown = round_trip.compare(sample(), plant(sample()))
    assert any(reported in fault for fault in shown.faults), shown.faults
    with pytest.raises(DocumentError, match=r"^a\.nk: the file read back differs from its source: "):
        shown.require("a.nk")


def test_what_is_right_has_no_fault() -> None:
    shown = round_trip.compare(sample(), sample()).require("a.nk")
    assert (shown.n_shapes, shown.n_keys, shown.max_distance_px, shown.matte_difference) == (3, 9, 0.0, 0.0)
    assert shown.n_drawn >= 3


def test_the_shapes_of_a_layer_may_stand_together() -> None:
    brow, chin, nose = sample().shapes

    def named(*shapes: tuple[RotoShape, str]) -> RotoDocument:
        return replace(sample(), shapes=tuple(replace(shape, name=name) for shape, name in shapes))

    meant = named((brow, "face/up/brow"), (chin, "chin"), (nose, "face/nose"))
    nested = named((brow, "face/up/brow"), (nose, "face/nose"), (chin, "chin"))
    assert not round_trip.compare(meant, nested).faults
    alike = named((brow, "face/brow"), (chin, "face"), (nose, "face/nose"))
    assert not round_trip.compare(alike, replace(alike, shapes=[alike.shapes[k] for k in (0, 2, 1)])).faults
    for wrong in (meant.shapes[::-1], (meant.shapes[1], meant.shapes[0], meant.shapes[2])):
        assert round_trip.compare(meant, replace(meant, shapes=wrong)).faults == ("shapes are in another order",)


def test_names_may_change_where_the_writer_says_so() -> None:
    renamed = replace(sample(), shapes=(*sample().shapes[:2], replace(sample().shapes[2], name="Mouth_1")))
    assert round_trip.compare(sample(), renamed).faults
    assert not round_trip.compare(sample(), renamed, names={"mouth": "Mouth_1"}).faults


def test_what_a_format_does_not_hold_is_no_fault_of_the_file() -> None:
    bare = replace(
        sample(),
        pixel_aspect=1.0,
        fps=24.0,
        landmarks=LandmarkKeys(),
        shapes=tuple(replace(baked(s), feather_px=0.0, taper=(0.0, 0.0)) for s in sample().shapes),
    )
    assert len(round_trip.compare(sample(), bare).faults) > 6
    lost = {"keys", "holds", "sources", "feather", "taper", "aspect", "fps", "landmarks"}
    shown = round_trip.compare(sample(), bare, loses=[feature for feature in EVERY if feature in lost])
    assert shown.faults == ()
    assert shown.matte_difference > 0.05  # the lost feather is still measured


def test_a_shape_that_is_never_seen_need_not_be_in_a_drawing() -> None:
    hidden = shape(lambda s: replace(s, visible=dict.fromkeys(range(1001, 1015), False)), 2)(sample())
    bare = replace(hidden, shapes=hidden.shapes[:2])
    assert round_trip.compare(hidden, bare).faults == ("shape 'mouth' is missing",)
    assert round_trip.compare(hidden, bare, loses=("visibility",)).faults == ()


def test_a_curve_of_other_points_is_measured_as_a_curve() -> None:
    """A circle of four arcs compared with one of 400 straight pieces: they differ by the sagitta, r (1 - cos(pi /
    400))."""
    k = 100 * 0.5522847498
    four = tuple(
        ControlPoint(200 + 100 * c, 200 + 100 * s, s * k, -c * k, -s * k, c * k)
        for c, s in ((1, 0), (0, 1), (-1, 0), (0, -1))
    )
    from math import cos, pi, sin

    many = tuple(ControlPoint(200 + 100 * cos(i * pi / 200), 200 + 100 * sin(i * pi / 200)) for i in range(400))
    a, b = (RotoDocument(400, 400, 1, 1, shapes=(RotoShape("o", True, keys={1: Key(p)}),)) for p in (four, many))
    shown = round_trip.compare(a, b, loses=("points", "tangents"), limit_px=0.05)
    assert shown.faults == ()
    assert 0.003 < shown.max_distance_px < 0.035  # 0.003 of the chords, 0.027 of the four arcs (Riskus)
    assert shown.matte_difference < 0.001


def test_proofs_of_parts_are_one_proof() -> None:
    whole = round_trip.compare(sample(), sample())
    parts = [replace(sample(), shapes=(s,)) for s in sample().shapes]
    assert round_trip.Proof.joined(round_trip.compare(part, part) for part in parts) == whole


def test_the_frame_that_is_furthest_off_is_named() -> None:
    """One key moved by 3 px, another by 9: the note names the second."""

    def pushed(key: Key, by: float) -> Key:
        return replace(key, points=each(lambda p: p._replace(x=p.x + by))(key.points))

    def moved(s: RotoShape) -> RotoShape:
        return s.with_keys({f: pushed(key, {1001: 3.0, 1014: 9.0}.get(f, 0.0)) for f, key in s.keys.items()})

    (fault, *_) = round_trip.compare(sample(), shape(moved)(sample())).faults
    assert "9.00 px off at frame 1014" in fault
