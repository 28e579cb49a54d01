"""What users of roto exchange complain about elsewhere, each as a test: the open document, Nuke scripts, conventions.

The numbers are those of the list of 22 complaints collected from exporters, forums and issue trackers; the other
formats have their own in `test_complaints_<format>.py`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType

import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import document, formats, nuke, nuke_reader, nuke_text
from rotopaint_ai.shapes import reduce, samples
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoDocument, RotoShape

from . import nuke_oracle as oracle
from .test_nuke import script, square_block

# A rectangle whose four corners have eight different handles: nothing mirrors anything.
CUSPS = (
    ControlPoint(100, 50, 0, 30, 40, 0),
    ControlPoint(300, 50, -10, 0, 0, 25),
    ControlPoint(300, 200, 0, -5, -60, 0),
    ControlPoint(100, 200, 35, 0, 0, -15),
)


def shaped(
    points: Points = CUSPS, *, name: str = "a", frame: int = 1001, closed: bool = True, **more: object
) -> RotoShape:
    return RotoShape(name, closed, "matte" if closed else "seam", {frame: Key(points)}, **more)  # type: ignore[arg-type]


def shot(
    *shapes: RotoShape, width: int = 1920, height: int = 1080, last: int = 1040, aspect: float = 1.0
) -> RotoDocument:
    return RotoDocument(width, height, 1001, last, aspect, shapes=shapes)


def moved(points: Points, dx: float, dy: float = 0.0) -> Points:
    return tuple(p._replace(x=p.x + dx, y=p.y + dy) for p in points)


def through_nuke(meant: RotoDocument, tmp_path: Path) -> RotoDocument:
    path = tmp_path / "a.nk"
    nuke.write_verified(path, meant)
    formats.proof_of(path, meant).require(path.name)
    return nuke.read(path)


def in_nuke(meant: RotoDocument, name: str = "a", frame: int = 1001) -> list[tuple[float, ...]]:
    """Control points as read by an independent reader."""
    group = oracle.groups(oracle.lists(nuke.dumps(meant)))[name]
    return oracle.control_points(group, frame, meant.height)


def test_01_feather_arrives(tmp_path: Path) -> None:
    back = through_nuke(shot(shaped(feather_px=7.5)), tmp_path)
    assert back.shapes[0].feather_px == 7.5


def test_01_feather_of_several_widths_arrives() -> None:
    feather = "{cc {f 8192} {p " + " ".join(f"{{0 0}} {{{w} 0}} {{0 0}}" for w in (0, 6, 12)) + "}}"
    reading = nuke_reader.read_text(script(square_block()).replace("idem", feather))
    shape = reading.document.shapes[0]
    assert [row.x for row in shape.feather_at(1)] == [0.0, 6.0, 12.0]
    assert shape.feather_px == 0.0
    assert not any("feather" in line for line in reading.losses)


def test_02_unequal_handles_do_not_swap() -> None:
    for meant, found in zip(CUSPS, in_nuke(shot(shaped())), strict=True):
        assert found == pytest.approx(tuple(meant), abs=1e-4)


@pytest.mark.parametrize(("width", "height"), [(1920, 1080), (2048, 1556)])
def test_03_y_is_flipped_about_this_plates_height(width: int, height: int) -> None:
    text = nuke.dumps(shot(shaped(), width=width, height=height))
    first = oracle.groups(oracle.lists(text))["a"][4][0][2][3]  # the first point; its tangents stand around it
    assert [oracle.component(each, [1001.0], 1001) for each in first] == [100.0, height - 50.0]


def test_03_a_wrong_height_is_refused_not_guessed(tmp_path: Path) -> None:
    nuke.write_verified(tmp_path / "a.nk", shot(shaped()))
    with pytest.raises(DocumentError, match="made for 1920 x 1080, given 2048 x 1556"):
        nuke.read(tmp_path / "a.nk", width=2048, height=1556)


@pytest.mark.parametrize("aspect", [2.0, 1.46])
def test_04_pixel_aspect_is_kept_and_never_applied_to_points(tmp_path: Path, aspect: float) -> None:
    meant = shot(shaped(), aspect=aspect)
    back = through_nuke(meant, tmp_path)
    assert back.pixel_aspect == pytest.approx(aspect)
    assert back.shapes[0].at(1001)[1].x == 300.0
    assert in_nuke(meant)[1][0] == 300.0


def test_05_frames_are_those_on_disk(tmp_path: Path) -> None:
    keys = {1001: Key(CUSPS), 1040: Key(moved(CUSPS, 50))}
    meant = shot(RotoShape("a", True, "matte", keys))
    assert oracle.times(oracle.groups(oracle.lists(nuke.dumps(meant)))["a"]) == [1001, 1040]
    back = through_nuke(meant, tmp_path)
    assert (back.first_frame, back.last_frame, back.shapes[0].frames) == (1001, 1040, (1001, 1040))


def test_06_six_keys_in_200_frames_stay_six_keys(tmp_path: Path) -> None:
    frames = (1001, 1037, 1080, 1111, 1150, 1200)
    keys = {f: Key(moved(CUSPS, 13 * i, 7 * (i % 3))) for i, f in enumerate(frames)}
    back = through_nuke(shot(RotoShape("a", True, "matte", keys), last=1200), tmp_path)
    assert back.shapes[0].frames == frames


def test_06_baked_keys_are_reduced_with_a_tolerance() -> None:
    frames = (1001, 1037, 1080, 1111, 1150, 1200)
    sparse = RotoShape("a", True, "matte", {f: Key(moved(CUSPS, 13 * i, 7 * (i % 3))) for i, f in enumerate(frames)})
    baked = sparse.with_keys({f: Key(sparse.at(f)) for f in range(1001, 1201)})
    reduced = reduce.reduce_keys(baked, 0.5)
    assert len(reduced.keys) <= 6
    assert max(samples.distances(baked, reduced, range(1001, 1201))) <= 0.5


def test_06_points_with_keys_of_their_own_become_common_keys() -> None:
    x = "{{1 0 0 1 1 1} {11 10 1 1 0 1}}"
    y = "{{1 20 0 1 2 1} {6 30 2 1 0 1}}"
    text = script(f"{{p {{0 0}} {{{x} 20}} {{0 0}} {{0 0}} {{30 {y}}} {{0 0}} {{0 0}} {{30 60}} {{0 0}}}}")
    shape = nuke_reader.read_text(text).document.shapes[0]
    assert shape.frames == (1, 6, 11)
    assert [(shape.at(f)[0].x, 80 - shape.at(f)[1].y) for f in (1, 3, 6, 11)] == [(0, 20), (2, 24), (5, 30), (10, 30)]


def test_07_eased_keys_become_linear_ones_within_a_tenth_of_a_pixel() -> None:
    text = script("{p {0 0} {{{1 0 -} {101 500 -}} 20} {0 0} {0 0} {30 20} {0 0} {0 0} {30 60} {0 0}}")
    shape = nuke_reader.read_text(text).document.shapes[0]
    for frame in range(1, 102):
        u = (frame - 1) / 100
        assert shape.at(frame)[0].x == pytest.approx(500 * (3 * u * u - 2 * u**3), abs=0.1)
    assert len(shape.keys) < 101


def test_08_step_keys_hold_and_moving_points_are_never_bare() -> None:
    text = script("{p {0 0} {{{1 5} {9 50}} 20} {0 0} {0 0} {30 20} {0 0} {0 0} {30 60} {0 0}}")
    shape = nuke_reader.read_text(text).document.shapes[0]
    assert [shape.at(f)[0].x for f in (1, 8, 8.9, 9)] == [5, 5, 5, 50]
    keys = {1001: Key(CUSPS), 1009: Key(moved(CUSPS, 40))}
    group = oracle.groups(oracle.lists(nuke.dumps(shot(RotoShape("a", True, "matte", keys)))))["a"]
    moving = [items for row in group[4][0][2][2:] for items in row if not isinstance(items, str) and len(items) > 1]
    assert moving
    assert all(len(item) == 5 for items in moving for item in items)


def test_09_nested_layers_with_rotation_about_a_pivot_off_centre_are_baked() -> None:
    """By hand: 90 degrees counter-clockwise (y up) about (10, 20), then the outer layer moves by (5, -3)."""
    inner = "{curvegroup S 512 bezier {{cc {f 8192} " + square_block() + "} idem} {t} {a}}"
    turned = "{layer In {f 0} {t 10 20 0 0 0 0 0 0 90} {a} " + inner + "}"
    text = (
        "Roto {\n curves {{{v 1.2} {f 0} {n {layer Root {f 0} {t 50 40} {a} {layer Out {f 0} {t 0 0 0 5 -3} {a} "
        + turned
        + "}}}}}\n}\n"
    )
    shape = nuke_reader.read_text(text).document.shapes[0]
    assert shape.name == "Out/In/S"
    found = [(p.x, 80 - p.y) for p in shape.at(1)]
    assert found == [pytest.approx(p, abs=1e-4) for p in [(15, 17), (15, 37), (-25, 37)]]


def test_10_visibility_lifetime_and_opacity_are_one_answer(tmp_path: Path) -> None:
    hidden = dict.fromkeys((*range(1001, 1005), *range(1020, 1041)), False)
    back = through_nuke(shot(shaped(visible=hidden)), tmp_path)
    assert [f for f in range(1001, 1041) if back.shapes[0].is_visible(f)] == list(range(1005, 1020))
    moving = square_block().replace("{10 20}", "{{{1 10 -} {9 10 -}} 20}")
    for attrs in ("{a ltt 4 ltn 3 ltm 5}", "{a vis {{1 0} {3 1} {6 0}}}", "{a opc {{1 0} {3 1} {6 0}}}"):
        shape = nuke_reader.read_text(script(moving, attrs=attrs)).document.shapes[0]
        assert [f for f in range(1, 10) if shape.is_visible(f)] == [3, 4, 5]


@pytest.mark.parametrize(
    ("attrs", "reported"),
    [("mbo 1", "motion blur"), ("inv 1", "inverted"), *((f"bm {n}", "blending mode") for n in (4, 5, 13))],
)
def test_11_unsupported_content_is_reported_and_kept_in_the_tree(attrs: str, reported: str) -> None:
    reading = nuke_reader.read_text(script(square_block(), attrs=f"{{a {attrs}}}"))
    assert any(reported in line for line in reading.losses)
    name, value = attrs.split()
    assert f"{name} {nuke_text.nuke_number(float(value))}" in nuke_text.serialise(reading.trees[0][1])


def test_11_shape_order_is_top_most_first(tmp_path: Path) -> None:
    back = through_nuke(shot(shaped(name="top"), shaped(name="middle"), shaped(name="below")), tmp_path)
    assert [shape.name for shape in back.shapes] == ["top", "middle", "below"]
    assert re.findall(r"curvegroup (\w+)", (tmp_path / "a.nk").read_text()) == ["top", "middle", "below"]


def test_12_names_that_nuke_would_change_are_changed_by_us_and_reported(tmp_path: Path) -> None:
    meant = shot(shaped(name="left eye"), shaped(name="left_eye"), shaped(name="Näse"), shaped(name="e{ye}"))
    shown = nuke.write_report(tmp_path / "a.nk", meant)
    assert [s.name for s in nuke.read(tmp_path / "a.nk").shapes] == ["left_eye", "left_eye_2", "N_se", "e_ye_"]
    assert sum("is called" in line for line in shown.losses) == 4
    document.write(tmp_path / "a.roto.json", meant)
    assert document.read(tmp_path / "a.roto.json") == meant


@pytest.mark.parametrize(
    "points",
    [CUSPS[:1], CUSPS[:2], moved(CUSPS, -1e5, 1e5), (ControlPoint(5, 5),) * 3],
    ids=["one point", "two points", "far outside", "no area"],
)
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("suffix", [".nk", ".roto.json", ".svg"])
def test_13_odd_shapes_survive(tmp_path: Path, points: Points, closed: bool, suffix: str) -> None:
    meant = shot(shaped(points, closed=closed, width_px=None if closed else 3.0))
    formats.write(tmp_path / f"a{suffix}", meant)
    assert formats.proof_of(tmp_path / f"a{suffix}", meant).require("a").n_shapes == 1


def test_14_bspline_points_are_not_taken_for_points_of_the_curve() -> None:
    """A B-spline square of side 60 about (50, 40): on a diagonal its curve lies 2/3 of the way out to the corner."""
    block = "{p " + " ".join(f"{{{x} {y}}}" for x, y in ((20, 10), (80, 10), (80, 70), (20, 70))) + "}"
    first = nuke_reader.read_text(script(block, kind="bspline")).document.shapes[0].at(1)[0]
    assert (first.x, 80 - first.y) == pytest.approx(((20 + 4 * 20 + 80) / 6, (70 + 4 * 10 + 10) / 6), abs=1e-4)


@pytest.mark.parametrize("flags", ["576", "1536", "1600", "0"])
def test_15_selected_and_locked_elements_are_read(flags: str) -> None:
    text = script(square_block()).replace("curvegroup S 512", f"curvegroup S {flags}")
    assert nuke_reader.read_text(text).document.shapes[0].n_points == 3
    assert "curvegroup a 512 bezier" in nuke.dumps(shot(shaped()))


def test_16_expressions_are_baked_from_what_the_file_keeps_and_reported() -> None:
    text = script('{p {0 0} {{"=Tracker1.tracks.1.track_x" {{1 7 -} {5 9 -}}} 20} {0 0} {0 0} {9 9} {0 0}}')
    reading = nuke_reader.read_text(text)
    assert [reading.document.shapes[0].at(f)[0].x for f in (1, 5)] == [7, 9]
    assert any("1 expressions were replaced" in line for line in reading.losses)
    assert "Tracker1" in nuke_text.serialise(reading.trees[0][1])


def test_17_shapes_of_one_eye_are_reported() -> None:
    reading = nuke_reader.read_text(script(square_block(), attrs="{a nv 1 view1 2}"))
    assert len(reading.document.shapes) == 1
    assert any("view" in line for line in reading.losses)


def test_18_numbers_have_no_exponents_and_exponents_are_read(tmp_path: Path) -> None:
    tiny = (ControlPoint(1e-7, 3e6, 1e-12, -1e-9, 2.5e-8, 0), *CUSPS[1:])
    meant = shot(shaped(tiny))
    numbers = re.findall(r"(?<![\w.])-?[\d.]+[eE][-+]?\d+(?!\w)", nuke.dumps(meant))
    assert numbers == []
    formats.write(tmp_path / "a.svg", meant)
    assert formats.proof_of(tmp_path / "a.svg", meant).max_distance_px < 1e-6
    assert nuke_reader.read_text(script(square_block("{1e1 2E+1} {30 20} {30 60}"))).document.shapes[0].at(1)[0].x == 10


def test_19_a_shape_whose_points_change_in_number_is_refused_by_name() -> None:
    uneven = RotoShape("lip", True, "matte", {1001: Key(CUSPS), 1002: Key(CUSPS[:3])})
    with pytest.raises(DocumentError, match=r"shape 'lip': keys with \[3, 4\] control points"):
        document.dumps(shot(uneven))


@pytest.mark.parametrize("fps", [23.976, 24.0, 29.97])
def test_20_frame_rates_never_double_or_drop_keys(tmp_path: Path, fps: float) -> None:
    keys = {f: Key(moved(CUSPS, f - 1001)) for f in range(1001, 1041)}
    meant = RotoDocument(1920, 1080, 1001, 1040, fps=fps, shapes=(RotoShape("a", True, "matte", keys),))
    for suffix in (".roto.json", ".nk"):
        formats.write(tmp_path / f"a{suffix}", meant)
        assert formats.read(tmp_path / f"a{suffix}")[0].shapes[0].frames == tuple(range(1001, 1041))


def test_21_a_huge_node_costs_as_much_per_key_as_a_small_one() -> None:
    """Counts calls, not seconds: ten times the keys take at most a little over ten times the calls."""

    def n_calls(n_keys: int) -> int:
        keys = {1001 + i: Key(moved(CUSPS, (i * 37) % 101, (i * 17) % 89)) for i in range(n_keys)}
        meant, count = shot(RotoShape("a", True, "matte", keys), last=1001 + n_keys), 0

        def profile(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(profile)
        try:
            nuke_reader.read_text(nuke.dumps(meant))
        finally:
            sys.setprofile(None)
        return count

    assert n_calls(500) < 11 * n_calls(50)


def test_22_coordinates_are_those_of_the_full_plate_also_where_a_proxy_is_set() -> None:
    proxied = 'Root {\n format "100 80 0 0 100 80 1 full"\n proxy true\n proxy_format "50 40 0 0 50 40 1 half"\n}\n'
    text = proxied + script(square_block()).split("}\n", 1)[1]
    reading = nuke_reader.read_text(text)
    assert (reading.document.width, reading.document.height) == (100, 80)
    assert reading.document.shapes[0].at(1)[0][:2] == (10, 60)
