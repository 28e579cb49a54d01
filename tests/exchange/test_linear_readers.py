"""Readers take time in proportion to a file's size: none looks at the same thing again and again."""

from __future__ import annotations

import math
import tracemalloc
from pathlib import Path

import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import formats, lua, parsing, polygons, round_trip, svg
from rotopaint_ai.exchange.polygons import FramePolygon
from rotopaint_ai.shapes import samples
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

TRIANGLE = tuple(ControlPoint(x, y) for x, y in ((0.0, 0.0), (9.0, 0.0), (0.0, 9.0)))


class Counted(str):
    """A name that counts how often it is looked up."""

    looked = 0

    def __hash__(self) -> int:
        Counted.looked += 1
        return super().__hash__()


def polygon(n: int) -> RotoShape:
    turns = [2 * math.pi * i / n for i in range(n)]
    points = tuple(ControlPoint(500 + 400 * math.cos(a), 500 + 400 * math.sin(a), -1.0, 0.5, 1.0, -0.5) for a in turns)
    return RotoShape("a", True, "matte", {1: Key(points, "human"), 2: Key(points[1:] + points[:1], "human")})


def test_equal_names_are_numbered_in_one_look_each() -> None:
    taken = parsing.TakenNames()
    taken.add("a_2")
    Counted.looked = 0
    names = [parsing.free_name(Counted("a"), taken) for _ in range(1000)]
    assert names[:3] == ["a", "a_3", "a_4"]
    assert len(set(names)) == 1000
    assert Counted.looked < 5000


def test_unnamed_paths_of_an_svg_are_shapes_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    paths = '<path d="M0 0L1 1L2 0Z"/>' * 2000
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">{paths}</svg>', encoding="utf-8")
    assert len({shape.name for shape in svg.read(path).shapes}) == 2000


def test_equal_labels_are_as_many_shapes() -> None:
    rows = [FramePolygon(frame, "a", True, TRIANGLE) for frame in (1, 2) for _ in range(2000)]
    shapes = polygons.assemble(rows, [1, 2], "a.json")
    assert [shape.name for shape in shapes[:3]] == ["a", "a_2", "a_3"]
    assert {shape.frames for shape in shapes} == {(1, 2)}
    assert len(shapes) == 2000


_LAYER = '<Properties><Property id="objects"><Object type="Layer" label="c">', "</Object></Property></Properties>"
_FXS = '<Silhouette width="96" height="54"><Object type="Layer">%s</Object></Silhouette>'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "a.svg",
            f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">{"<g>" * 20_000}{"</g>" * 20_000}</svg>',
        ),
        ("a.fxs", _FXS % (_LAYER[0] * 5_000 + _LAYER[1] * 5_000)),
        ("a.nk", "Group {\n}\n" * 20_000),  # took time and memory by the square: 100,000 groups 40 GB
        ("a.setting", "{\n" * 20_000 + "}\n" * 20_000),
        ("a.lottie.json", '{"v": "5", "layers": [' + '{"it": [' * 20_000 + "]}" * 20_000 + "]}"),
    ],
)
def test_groups_in_groups_without_end_are_refused_in_a_line(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError, match=r"nested groups|nested too deep|recursion depth"):
            formats.read(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_comments_that_are_never_closed_are_read_once() -> None:
    assert lua.loads("--[[ a ]] --[[ b\n" * 20_000 + "{ 1 }").items == [1.0]
    assert lua.loads("--[[ a\n b ]] { --[[ c }\n 1 }").items == [1.0]


def test_samples_of_many_points_are_those_of_few() -> None:
    shape = polygon(300)
    rows = samples.rows(shape, (1, 1.5))
    for closed in (True, False):
        p = rows.reshape(2, 300, 6)
        absolute = [p[..., :2], p[..., :2] + p[..., 2:4], p[..., :2] + p[..., 4:6]]
        weights = samples.basis(300, closed, 4)
        for frame in (0, 1):
            points = [row for part in absolute for row in part[frame]]
            assert samples.curve_samples(rows, closed, 4)[frame] == pytest.approx(weights @ points, abs=1e-9)


def test_the_self_check_of_a_traced_mask_stays_small() -> None:
    document = RotoDocument(1000, 1000, 1, 2, shapes=(polygon(4000),))
    tracemalloc.start()
    try:
        round_trip.compare(document, document).require("a.nk")
        assert tracemalloc.get_traced_memory()[1] < 200e6  # with a table of weights 5.9 GB
    finally:
        tracemalloc.stop()


def test_a_plate_that_fills_the_memory_is_refused() -> None:
    with pytest.raises(DocumentError, match="100000 x 100000 px; wanted at most 268,435,456 pixels"):
        parsing.plate_size("a.ssf", None, 100_000, 100_000)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="reads Linux's file without an end")
@pytest.mark.parametrize(
    "suffix", [each.suffixes[0] for each in formats.FORMATS if each.read is not None and each.suffixes != (".blend",)]
)
def test_a_file_without_an_end_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"endless.0001{suffix}"
    path.symlink_to("/dev/zero")
    with pytest.raises(DocumentError, match="is a folder, a pipe or a device; wanted a file of shapes"):
        formats.read(path)
