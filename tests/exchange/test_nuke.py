"""Nuke scripts: what is written, seen by a second reader; what is read; and the whole grammar on small samples."""

from __future__ import annotations

import math
import random
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import nuke, nuke_curves, nuke_reader, nuke_script, nuke_text
from rotopaint_ai.exchange.nuke_tree import CurveKey, NukeCurve, unquote
from rotopaint_ai.shapes.layers import Layer
from rotopaint_ai.shapes.roto import ControlPoint, Key, LandmarkKeys, Points, RotoDocument, RotoShape

from . import nuke_oracle as oracle

HEIGHT = 540


def points(seed: int, n: int = 4) -> Points:
    chance = random.Random(seed)
    return tuple(
        ControlPoint(chance.uniform(0, 960), chance.uniform(0, 540), *(chance.uniform(-30, 30) for _ in range(4)))
        for _ in range(n)
    )


def sample() -> RotoDocument:
    seam = RotoShape(
        "pip/nose_seam",
        False,
        "seam",
        {1001: Key(points(1)), 1005: Key(points(2)), 1006: Key(points(3), interpolation="hold"), 1010: Key(points(4))},
        width_px=5.25,
        feather_px=1.5,
        visible={1004: False, 1005: False},
    )
    eye = RotoShape("pip/eye", True, "matte", {1003: Key(points(5)), 1009: Key(points(6))}, feather_px=2.5)
    mouth = RotoShape("mouth", True, "matte", {1002: Key(points(7, 6))})
    return RotoDocument(960, HEIGHT, 1001, 1010, shapes=(seam, eye, mouth))


# --- what is written --------------------------------------------------------------------------------------------------


def test_a_second_reader_sees_the_same_curves_at_every_frame() -> None:
    document = sample()
    found = oracle.groups(oracle.lists(nuke.dumps(document)))
    assert set(found) == {"nose_seam", "eye", "mouth"}
    for shape in document.shapes:
        group = found[shape.name.split("/")[-1]]
        for frame in range(1001, 1011):
            for p, q in zip(shape.at(frame), oracle.control_points(group, frame, HEIGHT), strict=True):
                assert max(abs(a - b) for a, b in zip(p, q, strict=True)) < 1e-3


def test_linear_keys_stay_linear_between_frames() -> None:
    document = sample()
    group = oracle.groups(oracle.lists(nuke.dumps(document)))["eye"]
    for frame in (1003.25, 1005.5, 1008.9):
        meant = document.shape("pip/eye").at(frame)
        for p, q in zip(meant, oracle.control_points(group, frame, HEIGHT), strict=True):
            assert max(abs(a - b) for a, b in zip(p, q, strict=True)) < 1e-3


def test_y_runs_up_and_tangents_turn_over() -> None:
    one = ControlPoint(100.0, 30.0, -4.0, -2.0, 5.0, 3.0)
    document = RotoDocument(960, HEIGHT, 7, 7, shapes=(RotoShape("a", True, "matte", {7: Key((one,) * 3)}),))
    left, middle, right = oracle.groups(oracle.lists(nuke.dumps(document)))["a"][4][0][2][2:5]
    assert [oracle.component(c, [7.0], 7) for c in left] == [-4.0, 2.0]
    assert [oracle.component(c, [7.0], 7) for c in middle] == [100.0, 510.0]
    assert [oracle.component(c, [7.0], 7) for c in right] == [5.0, -3.0]


def test_flags_widths_and_frames() -> None:
    found = oracle.groups(oracle.lists(nuke.dumps(sample())))
    assert oracle.flags(found["nose_seam"]) == (1048576 + 512, 1048576 + 32 + 8192)
    assert oracle.flags(found["eye"]) == (512, 8192)
    seam, eye = oracle.attributes(found["nose_seam"]), oracle.attributes(found["eye"])
    assert (oracle.number(seam["osw"]), oracle.number(seam["osf"])) == (5.25, 1.5)
    assert (oracle.number(eye["fx"]), oracle.number(eye["fy"])) == (2.5, 2.5)
    assert oracle.times(found["nose_seam"]) == [1001, 1005, 1006, 1010]
    assert [(oracle.number(t), oracle.number(v)) for t, v in seam["vis"]] == [(1001, 1), (1004, 0), (1006, 1)]


def test_moving_points_never_get_bare_values() -> None:
    document = sample()
    group = oracle.groups(oracle.lists(nuke.dumps(document)))["eye"]
    moving = [item for row in group[4][0][2][2:] for items in row for item in items]
    assert moving
    assert all(len(item) == 5 for item in moving)


def test_layers_per_character_and_names_without_blanks(tmp_path: Path) -> None:
    shapes = tuple(RotoShape(name, True, "matte", {1: Key(points(3))}) for name in ("left eye", "left_eye", "näse {x"))
    document = RotoDocument(960, HEIGHT, 1, 1, shapes=shapes)
    proof = nuke.write_report(tmp_path / "a.nk", document, layer="Mr Pip")
    back = nuke.read(tmp_path / "a.nk")
    assert [shape.name for shape in back.shapes] == ["Mr_Pip/left_eye", "Mr_Pip/left_eye_2", "Mr_Pip/n_se__x"]
    assert sum("is called" in line for line in proof.losses) == 3


@settings(max_examples=60)
@given(st.data())
def test_any_mix_of_holds_and_moves_survives(data: st.DataObject) -> None:
    frames = sorted(data.draw(st.sets(st.integers(1001, 1020), min_size=1, max_size=7)))
    keys = {
        frame: Key(
            points(data.draw(st.integers(0, 4)), 3), interpolation=data.draw(st.sampled_from(["linear", "hold"]))
        )
        for frame in frames
    }
    document = RotoDocument(960, HEIGHT, 1001, 1020, shapes=(RotoShape("a", True, "matte", keys),))
    back = nuke_reader.read_text(nuke.dumps(document)).document
    for frame in range(1001, 1021):
        for p, q in zip(document.shapes[0].at(frame), back.shapes[0].at(frame), strict=True):
            assert max(abs(a - b) for a, b in zip(p, q, strict=True)) < 1e-3
    group = oracle.groups(oracle.lists(nuke.dumps(document)))["a"]
    for frame in range(1001, 1021):
        for p, q in zip(document.shapes[0].at(frame), oracle.control_points(group, frame, HEIGHT), strict=True):
            assert max(abs(a - b) for a, b in zip(p, q, strict=True)) < 1e-3


def test_writing_reading_writing_is_one_and_the_same(tmp_path: Path) -> None:
    assert nuke.write_verified(tmp_path / "a.nk", sample()) < 1e-4
    first = nuke.read(tmp_path / "a.nk")
    assert nuke.write_verified(tmp_path / "b.nk", first) == 0.0
    assert nuke.read(tmp_path / "b.nk") == first
    assert (tmp_path / "a.nk").read_text() == (tmp_path / "b.nk").read_text()


def test_visibility_width_feather_and_range_come_back(tmp_path: Path) -> None:
    nuke.write_verified(tmp_path / "a.nk", sample())
    back = nuke.read(tmp_path / "a.nk")
    assert (back.width, back.height, back.first_frame, back.last_frame) == (960, HEIGHT, 1001, 1010)
    seam, eye = back.shape("pip/nose_seam"), back.shape("pip/eye")
    assert seam.visible == {1004: False, 1005: False}
    assert (seam.closed, seam.role, seam.width_px, seam.feather_px) == (False, "seam", 5.25, 1.5)
    assert (eye.closed, eye.role, eye.feather_px) == (True, "matte", 2.5)
    assert [seam.keys[f].interpolation for f in seam.frames] == ["linear", "linear", "hold", "linear"]


def test_losses_are_reported() -> None:
    track = {1: (1.0, 0, 0, 0, 1, 0, 0, 0, 1), 2: (2.0, 0, 0, 0, 2, 0, 0, 0, 1)}
    shape = RotoShape("a", False, "seam", {1: Key(points(1))}, taper=(0.2, 0.2), layer=Layer("badge", track=track))
    document = RotoDocument(960, HEIGHT, 1, 1, 2.0, landmarks=LandmarkKeys(("nose",)), shapes=(shape,))
    reported = " ".join(nuke.nuke_writer.build_layers(document).losses)
    for word in (
        "landmarks",
        "frame rate",
        "taper",
        "layer 'badge': its track is written as a key on each of 2 frames",
    ):
        assert word in reported


def test_a_file_that_reads_back_wrong_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.nk"
    nuke.write_verified(path, sample())
    before = path.read_text()
    broken = nuke_text.nuke_number
    monkeypatch.setattr(nuke_text, "nuke_number", lambda value: broken(value + 0.5 if value > 40 else value))
    with pytest.raises(DocumentError):
        nuke.write_verified(path, sample())
    assert path.read_text() == before
    assert [each.name for each in tmp_path.iterdir()] == ["a.nk"]


def test_numbers_no_float_can_hold_are_refused(tmp_path: Path) -> None:
    wild = tuple(p._replace(x=math.inf) for p in points(1))
    document = RotoDocument(960, HEIGHT, 1, 1, shapes=(RotoShape("a", True, "matte", {1: Key(wild)}),))
    with pytest.raises(DocumentError, match="shape 'a'"):
        nuke.write_verified(tmp_path / "a.nk", document)
    assert not list(tmp_path.iterdir())


def test_update_replaces_ours_and_keeps_the_artists() -> None:
    theirs = (
        "{{v x3f99999a} {f 0} {n {layer Root {f 0} {t 480 270} {a} {curvegroup Mine 576 bezier {{cc {f 8192} {p "
        "{0 0} {1 1} {0 0} {0 0} {5 1} {0 0} {0 0} {5 5} {0 0}}} idem} {t} {a zz 1}}}}}"
    )
    once = nuke.update_layer(theirs, sample(), layer="pip")
    twice = nuke.update_layer(once, sample(), layer="pip")
    assert twice == once
    root = nuke_curves.parse_curves(once).root
    assert [child.name for child in root.children] == ["pip", "Mine"]
    assert root.children[1] == nuke_curves.parse_curves(theirs).root.children[0]


# --- what is read -----------------------------------------------------------------------------------------------------


def script(
    points_block: str, *, transform: str = "{t}", attrs: str = "{a}", kind: str = "bezier", flags: int = 8192
) -> str:
    return (
        "Root {\n inputs 0\n}\nRoto {\n curves {{{v x3f99999a}\n {f 0}\n {n {layer Root {f 0} {t 50 40} {a}\n"
        f"{{curvegroup S 512 {kind} {{{{cc {{f {flags}}} {points_block}}} idem}} {transform} {attrs}}}}}}}}}}}\n"
        " name R\n}\n"
    )


def curves_of(text: str) -> str:
    """The curves of a script's first Roto node that has any."""
    return next(curves for node in nuke_script.nodes(text) if (curves := node.text("curves")))


def square_block(corners: str = "{10 20} {30 20} {30 60}") -> str:
    return "{p " + " ".join(f"{{0 0}} {corner} {{0 0}}" for corner in corners.replace("} {", "}|{").split("|")) + "}"


def corners_of(text: str, frame: float = 1) -> list[tuple[float, float]]:
    return [(p.x, p.y) for p in nuke_reader.read_text(text).document.shapes[0].at(frame)]


def test_plain_points_are_flipped_into_plate_space() -> None:
    reading = nuke_reader.read_text(script(square_block()))
    assert (reading.document.width, reading.document.height) == (100, 80)
    assert corners_of(script(square_block())) == [(10, 60), (30, 60), (30, 20)]
    assert reading.losses == ()


def test_missing_components_are_zero() -> None:
    assert corners_of(script("{p {} {7} {} {} {} {} {} {1 2} {}}")) == [(7, 80), (0, 80), (1, 78)]


def test_translate_rotate_and_scale_about_the_pivot() -> None:
    moved = script(square_block(), transform="{t 10 20 0 5 -3}")
    assert corners_of(moved) == [(15, 63), (35, 63), (35, 23)]
    turned = script(square_block(), transform="{t 10 20 0 0 0 0 0 0 90}")  # counter-clockwise with y up
    assert corners_of(turned) == [pytest.approx(p, abs=1e-4) for p in [(10, 60), (10, 40), (-30, 40)]]
    scaled = script(square_block(), transform="{t 10 20 0 0 0 0 0 0 0 2 0.5}")
    assert corners_of(scaled) == [(10, 60), (50, 60), (50, 40)]


def test_the_extra_matrix_moves_points_and_turns_tangents() -> None:
    row = "{t 0 0 0 0 0 0 0 0 0 1 1 1 0 0 0 0 0 0 0 0 -1 0 50 1 0 0 8 0 0 1 0 0 0 0 1}"  # x' = 50 - y, y' = x + 8
    block = "{p {-1 0} {10 20} {1 0} {0 0} {30 20} {0 0} {0 0} {30 60} {0 0}}"
    point = nuke_reader.read_text(script(block, transform=row)).document.shapes[0].at(1)[0]
    assert point == pytest.approx((30, 62, 0, 1, 0, -1))


def test_layers_transform_from_the_child_up() -> None:
    inner = "{curvegroup S 512 bezier {{cc {f 8192} " + square_block() + "} idem} {t 0 0 0 1 0} {a}}"
    text = (
        "Roto {\n curves {{{v 1.2} {f 0} {n {layer Root {f 0} {t 50 40} {a} {layer L {f 0} "
        "{t 0 0 0 0 0 0 0 0 0 2 2} {a} " + inner + "}}}}}\n}\n"
    )
    reading = nuke_reader.read_text(text)
    assert reading.document.shapes[0].name == "L/S"
    assert [(p.x, p.y) for p in reading.document.shapes[0].at(1)] == [(22, 40), (62, 40), (62, -40)]


def test_an_animated_layer_is_baked_into_linear_keys() -> None:
    move = "{t 0 0 0 {{1 0 0 1 2 1} {11 20 2 1 0 1}}}"
    text = script(square_block(), transform=move)
    shape = nuke_reader.read_text(text).document.shapes[0]
    assert shape.frames == (1, 11)
    assert shape.at(6)[0].x == pytest.approx(20)


@pytest.mark.parametrize(
    ("curve", "wanted"),
    [
        ("{{1 5} {5 9}}", {1: 5, 4: 5, 5: 9, 9: 9}),  # bare: hold
        ("{{1 5 -} {5 9 -}}", {1: 5, 3: 7, 5: 9, 2: 5.625}),  # flat cubic: 5 + 4 (3 u^2 - 2 u^3)
        ("{{1 5 0 1 1 1} {5 9 1 1 0 1}}", {1: 5, 2: 6, 3: 7, 4: 8, 5: 9}),
        ("{{1 5 0 1 3 1} {5 5 0 1 0 1}}", {1: 5, 2: 5 + 12 * 0.25 * 0.5625, 3: 6.5}),  # 12 u (1 - u)^2
        ("{{1 5 -} {2} {4 9 -}}", {1: 5, 2: 5, 3: 5, 4: 9}),  # a key without value repeats it, and steps
        ("{r {{{1 5} 3} {{4 9} 2}}}", {1: 5, 3: 5, 4: 9, 5: 9}),
    ],
)
def test_curves_by_the_rules_of_their_keys(curve: str, wanted: dict[int, float]) -> None:
    text = script("{p {0 0} {" + curve + " 20} {0 0} {0 0} {30 20} {0 0} {0 0} {30 60} {0 0}}")
    shape = nuke_reader.read_text(text).document.shapes[0]
    for frame, value in wanted.items():
        assert shape.at(frame)[0].x == pytest.approx(value, abs=0.1)
        assert nuke_curves.parse_curves(curves_of(text)).root.children[0].outline.points[1].values[0].at(  # type: ignore[union-attr]
            frame
        ) == pytest.approx(value, abs=1e-6)


def test_shared_times_runs_and_constants() -> None:
    block = (
        "{px {1 2 3 4} {0 0} {{{5 -} {x 2 7} {8 0 1 0 1}} {{x 4 20}}} {0 0} {0 0} {{30} 20} {0 0} {0 0} {30 60} {0 0}}"
    )
    tree = nuke_curves.parse_curves(curves_of(script(block)))
    x, y = tree.root.children[0].outline.points[1].values  # type: ignore[union-attr]
    assert [(key.time, key.value, key.step) for key in x.keys] == [
        (1, 5, False),
        (2, 7, True),
        (3, 7, True),
        (4, 8, False),
    ]
    assert [key.value for key in y.keys] == [20] * 4
    shape = nuke_reader.read_text(script(block)).document.shapes[0]
    assert [shape.at(f)[0].x for f in (1, 2, 3, 4)] == [5, 7, 7, 8]


def test_an_eased_move_stays_one_and_is_exact() -> None:
    curve = "{{1 0 -} {41 300 -}}"
    text = script("{p {0 0} {" + curve + " 20} {0 0} {0 0} {30 20} {0 0} {0 0} {30 60} {0 0}}")
    reading = nuke_reader.read_text(text)
    shape = reading.document.shapes[0]
    for frame in range(1, 42):
        u = (frame - 1) / 40
        assert shape.at(frame)[0].x == pytest.approx(300 * (3 * u * u - 2 * u**3), abs=1e-9)
    assert [key.interpolation for key in shape.keys.values()] == ["ease", "linear"]
    assert not any("linear keys" in line for line in reading.losses)


def test_handle_weights_bend_time() -> None:
    """Weights of 3 on both sides: the value stays near its ends; at the middle symmetry gives half."""
    curve = NukeCurve(keys=(CurveKey(0, 0, 0, 3, 0, 3, False), CurveKey(10, 1, 0, 3, 0, 3, False)))
    assert curve.at(5) == pytest.approx(0.5, abs=1e-4)  # time stands still there
    # time: 3 v^2 u (1) + 3 v u^2 (0) + u^3 = 0.488 at u = 0.2; value: 3 v u^2 + u^3 = 0.104
    assert curve.at(3.92) == pytest.approx(0.104, abs=1e-9)
    # weights of 2 and 1 over 8 frames, at u = 1/2: time (3 * 2/3 + 3 * 2/3 + 1) / 8 = 5/8, value (3 * 16/3 + 4 * 8) / 8
    uneven = NukeCurve(keys=(CurveKey(1, 0, 0, 1, 1, 2, False), CurveKey(9, 8, 0, 1, 0, 1, False)))
    assert uneven.at(6) == pytest.approx(6.0, abs=1e-9)


@pytest.mark.parametrize(("name", "shown"), [('"My Head"', "My Head"), ('"', '"'), (r"a\{b", "a{b"), ("Nose", "Nose")])
def test_names_are_shown_without_what_protects_them(name: str, shown: str) -> None:
    assert unquote(name) == shown


def test_bspline_becomes_the_same_curve() -> None:
    corners = [(10, 10), (90, 10), (90, 70), (10, 70)]
    block = "{p " + " ".join(f"{{{{a t 1}} {x} {y}}}" for x, y in corners) + "}"
    block = block.replace("{{a t 1}", "{{a t 1}")
    shape = nuke_reader.read_text(script(block, kind="bspline")).document.shapes[0]
    a, b, c, d = (corners[i] for i in (3, 0, 1, 2))
    p, q = shape.at(1)[0], shape.at(1)[1]
    for u in (0.0, 0.3, 0.8, 1.0):
        v = 1 - u
        basis = (v**3 / 6, (3 * u**3 - 6 * u**2 + 4) / 6, (-3 * u**3 + 3 * u**2 + 3 * u + 1) / 6, u**3 / 6)
        wanted = [sum(w * corner[i] for w, corner in zip(basis, (a, b, c, d), strict=True)) for i in (0, 1)]
        bernstein = (v**3, 3 * v * v * u, 3 * v * u * u, u**3)
        xs = (p.x, p.x + p.out_dx, q.x + q.in_dx, q.x)
        ys = (p.y, p.y + p.out_dy, q.y + q.in_dy, q.y)
        assert sum(w * x for w, x in zip(bernstein, xs, strict=True)) == pytest.approx(wanted[0], abs=1e-4)
        assert 80 - sum(w * y for w, y in zip(bernstein, ys, strict=True)) == pytest.approx(wanted[1], abs=1e-4)


def test_expressions_give_their_cached_values_and_are_reported() -> None:
    for cached in ('{"=frame * 2" 7}', "{=$gui\\ ?\\ 1:2 7}", "{=a {{1 7}}}"):
        text = script("{p {0 0} {" + cached + " 20} {0 0} {0 0} {30 20} {0 0} {0 0} {30 60} {0 0}}")
        reading = nuke_reader.read_text(text)
        assert reading.document.shapes[0].at(1)[0].x == 7
        assert "1 expressions" in reading.losses[0]


def test_visibility_lifetime_and_opacity() -> None:
    keyed = square_block().replace("{10 20}", "{{{1 10 -} {6 10 -}} 20}")
    for attrs, hidden in (
        ("{a vis {{1 1} {3 0} {5 1}}}", {3, 4}),
        ("{a opc {{1 1} {6 0}}}", {6}),
        ("{a ltt 2 ltn 4 ltm 4}", {1, 2, 3, 5, 6}),
        ("{a ltt 3 ltn 4 ltm 4}", {1, 2, 3}),
        ("{a ltn 4 ltm 4}", set()),
    ):
        shape = nuke_reader.read_text(script(keyed, attrs=attrs)).document.shapes[0]
        assert {frame for frame in range(1, 7) if not shape.is_visible(frame)} == hidden


def test_strokes_and_unknown_attributes_are_kept_in_the_tree() -> None:
    stroke = (
        "{cubiccurve Brush1 512 catmullrom {cc {f 2080} {p {1 2 x3f000000} {3 4} {}}} {t 1 2} {a bs 5 strange 1.5}}"
    )
    text = script(square_block()).replace("{curvegroup", stroke + "\n{curvegroup")
    reading = nuke_reader.read_text(text)
    assert len(reading.document.shapes) == 1
    assert any("1 paint strokes" in line for line in reading.losses)
    ((_, tree),) = reading.trees
    assert nuke_curves.parse_curves(nuke_text.serialise(tree)) == tree
    assert "strange" in nuke_text.serialise(tree)
    assert tree.root.children[0].attributes[1] == ("strange", NukeCurve(1.5))


def test_absolute_tangents_are_made_offsets() -> None:
    text = script("{p {9 20} {10 20} {11 21} {30 20} {30 20} {30 20} {30 60} {30 60} {30 60}}", flags=0)
    point = nuke_reader.read_text(text).document.shapes[0].at(1)[0]
    assert point == (10, 60, -1, 0, 1, -1)


def test_size_is_refused_where_it_contradicts_and_wanted_where_it_is_missing() -> None:
    text = script(square_block())
    with pytest.raises(DocumentError, match="made for 100 x 80, given 200 x 100"):
        nuke_reader.read_text(text, width=200, height=100)
    nameless = text.replace("{t 50 40}", "{t}")
    with pytest.raises(DocumentError, match="does not state the size"):
        nuke_reader.read_text(nameless)
    assert nuke_reader.read_text(nameless, width=200, height=100).document.height == 100
    rooted = nameless.replace("inputs 0", 'format "300 200 0 0 300 200 2 wide"', 1)
    document = nuke_reader.read_text(rooted).document
    assert (document.width, document.height, document.pixel_aspect) == (300, 200, 2.0)


def test_nodes_inside_groups_and_odd_indents_are_found() -> None:
    inner = script(square_block()).split("}\n", 1)[1]
    text = (
        'set a "b {"\nGroup {\n label "unbalanced \\{ here"\n tooltip {one \\} two}\n}\n'
        + "\n".join("     " + line for line in inner.splitlines())
        + "\nend_group\n# Roto {\n"
    )
    assert len(nuke_reader.read_text(text).document.shapes) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("{p ", "{q ", 1),
        lambda text: text.replace("8192", "81q2", 1),
        lambda text: text.replace("bezier", "xspline", 1),
        lambda text: text.replace("{10 20}", "{10 20 30 40}", 1),
        lambda text: text.replace("{10 20}", "{{{1 10} {1 20}} 20}", 1),
        lambda text: text.replace("{10 20}", "{x7f800000 20}", 1),
        lambda text: text.replace("{10 20}", "{1e308 20}", 1),
        lambda text: text.replace("{10 20}", "{x7f000000 20}", 1),
        lambda text: text.replace("{layer Root", "{layer " + "x" * 5000, 1).replace("{10 20}", "{{10 20 30}}", 1),
        lambda text: text.replace("{10 20}", "{{{1 2 3}} 20}", 1),
        lambda text: text.replace("{10 20}", "{{r {{{1 2} 99999999}}} 20}", 1),
        lambda text: text.replace("{n ", "{m ", 1),
        lambda text: text.replace("{{{v", "{AnimTree: {{v", 1),
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("Roto {", "Blur {", 1),
        lambda text: text.replace("{layer Root", "{layer A " * 3000 + "{layer Root", 1),
    ],
)
def test_anything_outside_the_grammar_is_refused_in_one_line(damage: object) -> None:
    assert callable(damage)
    with pytest.raises(DocumentError) as caught:
        nuke_reader.read_text(damage(script(square_block())))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_numbers_are_written_as_nuke_writes_them() -> None:
    assert [nuke_text.nuke_number(v) for v in (0.0, 1.0, -0.0, 1001.0, 0.5)] == [
        "0",
        "1",
        "x80000000",
        "x447a4000",
        "x3f000000",
    ]


@settings(max_examples=100)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_numbers_come_back_bit_for_bit(value: float) -> None:
    back = oracle.number(nuke_text.nuke_number(value))
    assert struct.pack(">f", back) == struct.pack(">f", value)


def test_words_of_a_script() -> None:
    (line, words), (_, more) = nuke_script.commands('a {b {c}} "d \\"e" f\\ g; h\n', where="x")
    assert line == 1
    assert [(word.text, word.braced) for word in words] == [
        ("a", False),
        ("b {c}", True),
        ('d "e', False),
        ("f g", False),
    ]
    assert [word.text for word in more] == ["h"]


def test_a_bspline_of_one_point_is_that_point_and_of_two_a_line() -> None:
    one = nuke_reader.read_text(script("{p {10 20}}", kind="bspline")).document.shapes[0]
    assert one.at(1) == (ControlPoint(10.0, 60.0),)
    two = nuke_reader.read_text(script("{p {10 20} {40 20}}", kind="bspline", flags=32)).document.shapes[0]
    assert [tuple(p) for p in two.at(1)] == [(10, 60, -10, 0, 10, 0), (40, 60, -10, 0, 10, 0)]


@pytest.mark.parametrize(
    ("curve", "frames", "kinds"),
    [
        ("{{1 10 -} {6 10 -}}", (1, 6), ["linear", "linear"]),  # keys that never move
        ("{{1 10} {6 30}}", (1, 6), ["hold", "hold"]),  # steps
        ("{{1 10} {2 30} {6 10}}", (1, 2, 6), ["hold", "hold", "hold"]),  # also from a frame to the next
        ("{{1 10} {6 10}}", (1, 6), ["hold", "hold"]),  # steps from a value to the same
        ("{{3 10}}", (3,), ["linear"]),  # one key
    ],
)
def test_keys_that_do_not_move_the_shape_keep_their_frames(
    curve: str, frames: tuple[int, ...], kinds: list[str]
) -> None:
    shape = nuke_reader.read_text(script(square_block().replace("{10 20}", "{" + curve + " 20}"))).document.shapes[0]
    assert shape.frames == frames
    assert [shape.keys[frame].interpolation for frame in frames] == kinds
    assert [shape.at(frame)[0].x for frame in (0, frames[0])] == [10, 10]


def test_a_feather_line_that_was_lost_or_added_is_a_difference() -> None:
    """Each feather point lies 3 px to the right of its control point and 4 px below it: 5 px away."""
    points = tuple(ControlPoint(x, y) for x, y in ((0, 0), (40, 0), (0, 30)))
    bare = RotoDocument(64, 48, 1, 2, shapes=(RotoShape("a", True, "matte", {1: Key(points)}),))
    rows = (ControlPoint(3, 4),) * 3
    feathered = replace(bare, shapes=(RotoShape("a", True, "matte", {1: Key(points, feather=rows)}),))
    assert nuke.curve_difference(feathered, bare) == pytest.approx(5)
    assert nuke.curve_difference(bare, feathered) == pytest.approx(5)
    assert nuke.curve_difference(feathered, feathered) == 0
