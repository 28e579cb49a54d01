"""Any document, written for Nuke: two readers that share nothing agree with it and with each other."""

from __future__ import annotations

import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from rotopaint_ai.exchange import nuke, nuke_curves, nuke_reader, nuke_text, nuke_writer, round_trip
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

from . import nuke_oracle as oracle
from . import shots
from .test_nuke import curves_of

FIRST, LAST, HEIGHT = 1001, 1014, 540

far = st.floats(-200, 1200, allow_nan=False, width=32)
near = st.floats(-300, 300, allow_nan=False, width=32)
pixels = st.floats(0, 20, allow_nan=False, width=32)
point = st.builds(ControlPoint, far, far, near, near, near, near)
part = st.text("abcXYZ019_-.", min_size=1, max_size=6)
name = st.lists(part, min_size=1, max_size=3).map("/".join)


@st.composite
def shapes(draw: st.DrawFn, called: str) -> RotoShape:
    n, closed = draw(st.integers(1, 3)), draw(st.booleans())
    pose = st.lists(point, min_size=n, max_size=n).map(tuple)
    poses = draw(st.lists(pose, min_size=1, max_size=3))
    frames = draw(st.sets(st.integers(FIRST, LAST), min_size=1, max_size=4))
    keys = {
        f: Key(draw(st.sampled_from(poses)), "human", draw(st.sampled_from(["linear", "hold"]))) for f in sorted(frames)
    }
    hidden = draw(st.sets(st.integers(FIRST, LAST), max_size=4))
    width = None if closed else draw(st.none() | pixels)
    return RotoShape(called, closed, "matte", keys, width, draw(pixels), visible=dict.fromkeys(hidden, False))


@st.composite
def documents(draw: st.DrawFn) -> RotoDocument:
    called = draw(st.lists(name, min_size=1, max_size=3, unique_by=lambda each: each))
    aspect = draw(st.sampled_from([1.0, 2.0, 1.46, 0.9]))
    found = [draw(shapes(each)) for each in called]
    return RotoDocument(960, HEIGHT, FIRST, LAST, aspect, shapes=tuple(found))


@settings(max_examples=20)
@given(documents())
def test_our_own_reader_gives_the_document_back_and_a_second_trip_changes_nothing(meant: RotoDocument) -> None:
    found = nuke_reader.read_text(nuke.dumps(meant)).document
    # shapes of one layer stand together in a script, so that order is asked of each layer by `paths` alone
    shown = round_trip.compare(meant, found, loses={*nuke.NOT_KEPT, "order"}, names=nuke.script_names(meant))
    assert shown.faults == ()
    again = nuke_reader.read_text(nuke.dumps(found)).document
    assert again == found
    tree = nuke_curves.parse_curves(curves_of(nuke.dumps(meant)))
    assert nuke_curves.parse_curves(nuke_text.serialise(tree)) == tree


@settings(max_examples=20)
@given(documents())
def test_a_strict_reader_of_another_hand_sees_everything_that_was_meant(meant: RotoDocument) -> None:
    text = nuke.dumps(meant)
    found, called = oracle.paths(oracle.lists(text.replace(oracle_format(text), ""))), nuke.script_names(meant)
    assert sorted(found) == sorted(called.values())
    assert oracle.format_of(text) == (960, HEIGHT, meant.pixel_aspect)
    for shape in meant.shapes:
        group = found[called[shape.name]]
        assert oracle.is_open(group) is not shape.closed
        assert oracle.lifetime(group) == (FIRST, LAST)
        feather, width = oracle.softness(group)
        assert feather == shape.feather_px
        assert shape.closed or width == (4.0 if shape.width_px is None else shape.width_px)
        for frame in range(FIRST, LAST + 1):
            assert oracle.is_visible(group, frame) is shape.is_visible(frame)
            seen = oracle.control_points(group, frame, HEIGHT)
            for p, q in zip(shape.at(frame), seen, strict=True):
                assert max(abs(a - b) for a, b in zip(p, q, strict=True)) < 0.02


def oracle_format(text: str) -> str:
    """The line of the format knob, which is no list of braces."""
    return next(line for line in text.splitlines() if line.startswith(" format "))


def test_what_is_said_of_many_shapes_takes_steps_in_proportion() -> None:
    """Twice the shapes (all with one name for Nuke) take about twice the calls."""

    def n_calls(count: int) -> int:
        calls = 0

        def counted(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        many = shots.shot(*(shots.corners(f"é{chr(0x4E00 + place)}") for place in range(count)))
        before = sys.getprofile()
        sys.setprofile(counted)
        try:
            placed = nuke_writer.nuke_names(many)
            nuke_writer.losses(many, {name: tuple(path.split("/")) for name, path in placed.items()})
        finally:
            sys.setprofile(before)
        assert len(set(placed.values())) == count
        return calls

    assert n_calls(800) < 2.5 * n_calls(400)


def test_a_move_into_a_hold_of_one_frame_is_the_same_hold() -> None:
    """Found by the search above: the pair 1003, 1004 comes back as one hold, which draws the same."""
    low, high = ((ControlPoint(0, 0, 0, 0, 0, y),) for y in (0.0, 1.0))
    keys = {1001: Key(low), 1003: Key(high), 1004: Key(high, "human", "hold"), 1005: Key(low)}
    meant = RotoDocument(960, HEIGHT, FIRST, LAST, shapes=(RotoShape("0", True, "matte", keys),))
    found = nuke_reader.read_text(nuke.dumps(meant)).document
    assert [found.shapes[0].at(f) for f in range(1001, 1006)] == [meant.shapes[0].at(f) for f in range(1001, 1006)]
    assert round_trip.compare(meant, found, loses={*nuke.NOT_KEPT, "order"}).faults == ()
