"""Scripts as studios have them: groups, clones, old files, odd letters, hand edits, and what is cut short."""

from __future__ import annotations

from pathlib import Path

import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import document, nuke, nuke_curves, nuke_reader, nuke_text

from .test_nuke import script, square_block

NUKE6 = (
    'Roto {\n curves {AnimTree: "" {\n Version: 1.2\n Flag: 0\n RootNode: 1\n Node: {\n NodeName: "Root" {\n'
    " Flag: 512\n NodeType: 1\n NumOfChildren: 0\n}\n}\n}\n}\n name Old1\n}\n"
)
ROOT = 'Root {\n inputs 0\n format "100 80 0 0 100 80 1 small"\n first_frame -5\n last_frame 12\n}\n'


def node(name: str = "R", *, points: str = square_block(), kind: str = "Roto", more: str = "", shape: str = "S") -> str:
    """One node whose root layer holds one shape."""
    body = script(points).split("}\n", 1)[1].replace("{curvegroup S", f"{{curvegroup {shape}", 1)
    return body.replace("Roto {", f"{kind} {{", 1).replace(" name R\n", f"{more} name {name}\n")


def names(text: str) -> list[str]:
    return [shape.name for shape in nuke_reader.read_text(text).document.shapes]


def test_nodes_of_several_groups_bear_full_names() -> None:
    inner = "\n".join("  " + line for line in (node() + node("Paint", kind="RotoPaint")).splitlines())
    text = (
        ROOT
        + "Group {\n name Head\n}\n"
        + inner
        + "\n Group {\n  name Eyes\n }\n"
        + inner
        + "\n end_group\nend_group\n"
        + node("R")
    )
    assert names(text) == ["Head.R/S", "Head.Paint/S", "Head.Eyes.R/S", "Head.Eyes.Paint/S", "R/S"]
    assert len(nuke_reader.read_text(text, node="Head.Eyes.R").document.shapes) == 1
    assert len(nuke_reader.read_text(text, node="R").document.shapes) == 3


def test_a_gizmo_and_two_nodes_of_one_name_in_it() -> None:
    assert names("Gizmo {\n name G\n}\n" + node() + node() + "end_group\n") == ["G.R/S", "G.R_2/S"]


def test_clones_are_the_node_that_they_clone() -> None:
    text = (
        node().replace("Roto {", "set C7f5be10 [stack 0]\nRoto {", 1)
        + "clone $C7f5be10 {\n xpos 10\n selected true\n}\n"
    )
    assert names(text) == ["S"]


@pytest.mark.parametrize("ends", ["\r\n", "\r", "\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_byte_order_marks_of_other_systems(tmp_path: Path, ends: str, mark: bytes) -> None:
    (tmp_path / "a.nk").write_bytes(mark + script(square_block()).replace("\n", ends).encode())
    assert [(p.x, p.y) for p in nuke.read(tmp_path / "a.nk").shapes[0].at(1)] == [(10, 60), (30, 60), (30, 20)]


def test_letters_of_an_old_windows_are_read_and_can_be_written_again(tmp_path: Path) -> None:
    text = node("N\u00e4se", shape="Br\u00e4ue") + node("B")
    (tmp_path / "a.nk").write_bytes(text.encode("latin-1"))
    found = nuke.read(tmp_path / "a.nk")
    assert [shape.name for shape in found.shapes] == ["N\u00e4se/Br\u00e4ue", "B/S"]
    document.write(tmp_path / "a.roto.json", found)
    assert document.read(tmp_path / "a.roto.json") == found


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('"left eye"', "left eye"),
        ("left\\ eye", "left eye"),
        ('"a \\"b\\" {c}"', 'a "b" {c}'),
        ("x.y-z[0]", "x.y-z[0]"),
    ],
)
def test_odd_names_of_elements(written: str, read: str) -> None:
    text = node(shape=written.replace("{", "\\{").replace("}", "\\}"))
    reading = nuke_reader.read_text(text)
    assert reading.document.shapes[0].name == read
    ((_, tree),) = reading.trees
    assert nuke_curves.parse_curves(nuke_text.serialise(tree)) == tree


def test_user_knobs_links_and_comments_do_not_matter() -> None:
    more = (
        ' addUserKnob {20 User l "my \\{ tab"}\n addUserKnob {7 amount +INVISIBLE}\n amount {{Tracker1.amount}}\n'
        ' knobChanged "\n# a comment\nif x:\n  pass"\n label "\\[value amount] \\{"\n'
    )
    text = "#! /usr/local/Nuke13.2\nversion 13.2 v8\n# Roto {\ndefine_window_layout_xml {<?xml?>\n}\n" + node(more=more)
    assert names(text) == ["S"]


def test_without_a_root_the_size_is_that_of_the_root_layers_pivot() -> None:
    found = nuke_reader.read_text(node()).document
    assert (found.width, found.height, found.first_frame, found.last_frame) == (100, 80, 1, 1)


def test_unkeyed_shapes_take_the_scripts_range_negative_frames_too() -> None:
    found = nuke_reader.read_text(ROOT + node()).document
    assert (found.first_frame, found.last_frame, found.shapes[0].frames) == (-5, 12, (-5,))


def test_negative_and_fractional_key_times() -> None:
    x = "{{-7.5 0 0 1 2 1} {-2.5 10 2 1 0 1}}"
    reading = nuke_reader.read_text(
        script(f"{{p {{0 0}} {{{x} 20}} {{0 0}} {{0 0}} {{30 20}} {{0 0}} {{0 0}} {{30 60}} {{0 0}}}}")
    )
    shape = reading.document.shapes[0]
    assert shape.frames == (-8, -7, -3, -2)
    assert [shape.at(f)[0].x for f in (-8, -7, -5, -3, -2)] == pytest.approx([0, 1, 5, 9, 10])
    assert any("between frames" in line for line in reading.losses)


def test_nuke_6_and_splinewarp_are_named_and_the_rest_is_read() -> None:
    warp = "SplineWarp3 {\n curves {{{v x3f99999a}}}\n name Warp1\n}\n"
    reading = nuke_reader.read_text(NUKE6 + warp + node())
    assert [shape.name for shape in reading.document.shapes] == ["S"]
    assert any(line.startswith("Old1: written by Nuke 6") for line in reading.losses)
    assert any(line.startswith("Warp1: SplineWarp3 nodes are not read") for line in reading.losses)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (NUKE6, "Old1: written by Nuke 6; open and save"),
        ("SplineWarp3 {\n name W\n}\n", "SplineWarp3 is not read"),
        ("Blur {\n name B\n}\n", "holds no Roto or RotoPaint node"),
        (node(points="{p {0 0} {1 1}}"), "2 entries; wanted three for each control point"),
    ],
)
def test_a_script_with_nothing_to_read_says_why_in_one_line(text: str, reported: str) -> None:
    with pytest.raises(DocumentError, match=reported) as caught:
        nuke_reader.read_text(text)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.nk").write_bytes(node().encode("utf-16"))
    with pytest.raises(DocumentError, match=r"a\.nk: is not text"):
        nuke.read(tmp_path / "a.nk")


def test_disabled_nodes_are_read_and_reported() -> None:
    reading = nuke_reader.read_text(node(more=" disable true\n"))
    assert len(reading.document.shapes) == 1
    assert any("R: is disabled" in line for line in reading.losses)


def test_empty_layers_empty_nodes_and_single_points() -> None:
    empty = "{layer L {f 0} {t} {a}}"
    one = node(points="{p {-1 -1} {5 5} {1 1}}").replace("{curvegroup S", empty + " {curvegroup S", 1)
    nothing = "Roto {\n name N\n}\nRotoPaint {\n curves {}\n name M\n}\n"
    found = nuke_reader.read_text(nothing + one).document
    assert [(shape.name, shape.n_points) for shape in found.shapes] == [("S", 1)]
    assert nuke_reader.read_text(ROOT + nothing).document.shapes == ()


def test_expressions_of_layers_and_those_without_a_value_are_reported() -> None:
    linked = script(
        square_block(), transform='{t 0 0 0 {"=Tracker1.translate.x" {{1 5 -} {9 7 -}}} {=Tracker1.translate.y}}'
    )
    reading = nuke_reader.read_text(linked)
    assert [reading.document.shapes[0].at(f)[0].x for f in (1, 9)] == [15, 17]
    assert any("1 expressions were replaced" in line for line in reading.losses)
    assert any("1 expressions have no value in the file" in line for line in reading.losses)
    ((_, tree),) = reading.trees
    assert "{=Tracker1.translate.y}" in nuke_text.serialise(tree)
    assert nuke_curves.parse_curves(nuke_text.serialise(tree)) == tree


def test_a_small_file_cannot_stand_for_endless_keys() -> None:
    bomb = "{r {" + " ".join(f"{{{{{i * 1_000_000} 1}} 1000000}}" for i in range(9)) + "}}"
    with pytest.raises(DocumentError, match="run lengths expand to more than 3,000,000 keys"):
        nuke_reader.read_text(script(f"{{p {{0 0}} {{{bomb} 20}} {{0 0}}}}"))
    far = "{{1 0 -} {x7f000000 5 -}}"
    with pytest.raises(DocumentError, match="wanted numbers up to 10,000,000"):
        nuke_reader.read_text(script(f"{{p {{0 0}} {{{far} 20}} {{0 0}}}}"))


def refusal(text: str) -> str | None:
    try:
        nuke_reader.read_text(text)
    except DocumentError as error:
        return str(error)
    return None


def test_wherever_a_script_is_cut_short_it_is_read_or_refused_in_one_line() -> None:
    text = ROOT + "Group {\n name G\n}\n" + node() + "end_group\n"
    reported = [refusal(text[:end]) for end in range(0, len(text), 3)]
    lines = [line for line in reported if line is not None]
    assert not any("\n" in line for line in lines)
    assert len(lines) > 0.8 * len(reported)
