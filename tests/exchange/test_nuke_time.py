"""When a Nuke script's shapes change: its range, its switches, and what a document holds once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rotopaint_ai.exchange import formats, nuke, nuke_reader
from rotopaint_ai.exchange.nuke_reader import NukeReading
from rotopaint_ai.shapes.bake import bake_layer
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

SQUARE = "{cc {f 8192} {px 1001 {0 0} {10 20} {0 0} {0 0} {30 20} {0 0} {0 0} {30 40} {0 0}}} idem"


def script(*curves: str, root: str = "") -> NukeReading:
    body = "\n".join(curves)
    tree = f"{{v x3f99999a}}\n {{f 0}}\n {{n\n {{layer Root\n {{f 2097152}}\n {{t 100 50}}\n {{a}}\n{body}\n}}}}"
    text = f'{root}Roto {{\n format "200 100 0 0 200 100 1 x"\n curves {{{{{tree}}}}}\n name Roto1\n}}\n'
    return nuke_reader.read_text(text)


def square(attributes: str = "", name: str = "B", flags: str = "8192") -> str:
    edge = SQUARE.replace("8192", flags)
    return f"{{curvegroup {name} 512 bezier {{{edge}}} {{tx 1001 20 30}} {{a {attributes}}}}}"


ROOT = "Root {\n first_frame 1001\n last_frame 1100\n}\n"


def test_a_shape_drawn_once_moves_with_its_layer(tmp_path: Path) -> None:
    moving = f"{{layer L {{f 512}} {{t 0 0 0 {{{{1001 0 0 1 2 1}}{{1050 98 2 1 0 1}}}}}} {{a}} {square()}}}"
    found = script(moving).document
    assert (found.first_frame, found.last_frame) == (1001, 1050)
    (shape,) = found.shapes
    baked = bake_layer(shape, found.first_frame, found.last_frame)
    assert baked.at(1050)[0].x - baked.at(1001)[0].x == pytest.approx(98.0)
    formats.write(tmp_path / "shapes.ssf", found)  # Shake has no layers
    (back,) = formats.read(tmp_path / "shapes.ssf", width=200, height=100)[0].shapes
    assert back.at(back.frames[-1])[0].x - back.at(back.frames[0])[0].x == pytest.approx(98.0, abs=0.1)


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("", (1001, 1001)),
        (ROOT, (1001, 1100)),
        ("Root {\n last_frame 2000\n}\n", (1, 2000)),
        ("Root {\n first_frame 1\n last_frame 100\n}\n", (1001, 1001)),  # a default range that the shot left
        ("Root {\n first_frame 1\n last_frame 900000000\n}\n", (1001, 1001)),
    ],
)
def test_the_range_of_the_script_counts_where_it_holds_all_keys(root: str, expected: tuple[int, int]) -> None:
    found = script(square(), root=root).document
    assert (found.first_frame, found.last_frame) == expected


@pytest.mark.parametrize(
    ("life", "expected"),
    [
        ("ltt 3 ltn 1005 ltm 1", (1001, 1005)),
        ("ltt 1 ltn 1 ltm 1008", (1001, 1008)),
        ("ltt 4 ltn 990 ltm 1008", (990, 1008)),
        ("ltt 4 ltn 1050 ltm 1050", (1001, 1050)),
        ("ltt 4 ltn 1050 ltm 1049", (1001, 1001)),
        ("ltn 990 ltm 1008", (990, 1008)),
        ("ltn 990 ltm 1000000", (990, 1001)),
        ("ltn 1 ltm 1", (1001, 1001)),
    ],
)
def test_a_lifetime_counts_by_its_type(life: str, expected: tuple[int, int]) -> None:
    found = script(square(life)).document
    assert (found.first_frame, found.last_frame) == expected


def test_a_shape_that_is_switched_off_stays_off() -> None:
    found = script(square("vis {{1001 1}{1010 0}}")).document
    assert found.last_frame == 1010
    assert [found.shapes[0].is_visible(frame) for frame in (1001, 1009, 1010)] == [True, True, False]
    again = script(square("vis {{1001 0}{1010 1}}")).document
    assert again.last_frame == 1009  # shown from there on, as every frame beyond is


@pytest.mark.parametrize(
    ("attributes", "flags", "lost"),
    [
        ("opc {{1001 0 0 1 0 1}{1050 1 0 1 0 1}}", "8192", ["B: is partly transparent"]),
        ("opc {{1001 0}{1002 1}}", "8192", []),
        ("fx {{1001 0}{1010 50}} fy {{1001 0}{1010 50}}", "8192", ["B: feather changes over time"]),
        ("fx 20 fy 0", "8192", ["B: feather differs in x and y"]),
        ("fo {{1001 0}{1010 1}} fx 10 fy 10", "8192", ["B: feather changes over time"]),
        ("osw {{1001 2}{1010 20}}", "8224", ["B: width changes over time"]),
        ("osw {{1001 2}{1010 20}}", "8192", []),  # a closed shape has no width
        ("inv {{1001 0}{1010 1}}", "8192", ["B: inverted"]),
        ("mbo {{1001 0}{1010 1}}", "8192", ["B: has motion blur"]),
        ("bm {{1001 0}{1010 12}}", "8192", ["B: has a blending mode"]),
    ],
)
def test_what_a_document_holds_once_is_reported_where_it_changes(attributes: str, flags: str, lost: list[str]) -> None:
    losses = script(square(attributes, flags=flags)).losses
    assert len(losses) == len(lost)
    assert all(loss.startswith(start) for loss, start in zip(losses, lost))


def test_layers_of_one_name_keep_their_own_motion_in_a_new_script() -> None:
    layers = [
        f"{{layer L {{f 512}} {{t 0 0 0 {{{keys}}}}} {{a}} {square(name=name)}}}"
        for keys, name in (("{1001 0 0 1 30 1}{1002 30 30 1 0 1}", "P"), ("{1001 0 0 1 60 1}{1002 60 60 1 0 1}", "Q"))
    ]
    found = script(*layers)
    again = nuke_reader.read_text(nuke.dumps(found.document)).document
    assert [shape.at(1002)[0].x - shape.at(1001)[0].x for shape in again.shapes] == pytest.approx([30.0, 60.0])
    assert found.losses == ("layer L: the name occurs twice; the other layer is now called L_2",)


@pytest.mark.parametrize("frames", [(1003, 1005), (990, 1100), (1001, 1007)])
@pytest.mark.parametrize("is_empty", [False, True])
def test_a_documents_range_comes_back_whatever_its_keys(frames: tuple[int, int], is_empty: bool) -> None:
    """It was that of the keys, and frame 1 where there was none."""
    keys = {
        frame: Key((ControlPoint(frame - 1000, 2), ControlPoint(9, 4), ControlPoint(5, 30))) for frame in (1001, 1007)
    }
    shapes = () if is_empty else (RotoShape("lip", True, "matte", keys),)
    text = nuke.dumps(RotoDocument(320, 200, *frames, shapes=shapes))
    back = nuke_reader.read_text(text).document
    assert (back.first_frame, back.last_frame) == frames
