"""After Effects' scripts, run by a JavaScript engine in a stand-in of its object model; dumps read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import aftereffects, lossiness, parsing, round_trip
from rotopaint_ai.exchange.parsing import ReadResult
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

from . import shots

STAND_IN = (Path(__file__).parent / "after_effects_stand_in.js").read_text(encoding="utf-8")


def host() -> Any:
    """A JavaScript context with a fake of After Effects' objects."""
    quickjs = pytest.importorskip("quickjs")
    context = quickjs.Context()
    context.eval(STAND_IN)
    return context


def back(context: Any) -> ReadResult:
    """The dump script's output for the open composition, as a document."""
    context.eval(aftereffects.dump_script())
    return aftereffects.loads(context.eval("written.text"), where="dump")


def shot() -> RotoDocument:
    """A blinking eye with feather, a seam, a shape that holds, and a name that needs quoting."""
    held = {1001: Key(shots.CORNERS, "human", "hold"), 1007: Key(shots.moved(shots.CORNERS, 9), "human")}
    shapes = (
        replace(shots.corners("eye"), feather_px=5.0, visible={1003: False, 1004: False}),
        shots.seam(),
        RotoShape('"quoted" \\ é\u2028', True, "matte", held),
    )
    return replace(shots.shot(*shapes), pixel_aspect=1.46, fps=23.976)


def test_the_script_builds_masks_that_the_dump_gives_back() -> None:
    context, document = host(), shot()
    context.eval(aftereffects.dumps(document))
    reading = back(context)
    found = reading.document
    assert not any("transparent" in line for line in reading.losses)  # opacity keys of hidden frames hold
    loses = lossiness.features(aftereffects.losses_of(document))
    shown = round_trip.compare(document, found, loses=loses)
    assert shown.faults == ()
    assert shown.max_distance_px < 1e-6
    assert [shape.frames for shape in found.shapes] == [(1001, 1010), (1001, 1010), (1001, 1007)]
    assert found.shapes[2].keys[1001].interpolation == "hold"
    assert [f for f in range(1001, 1011) if not found.shapes[0].is_visible(f)] == [1003, 1004]
    assert context.eval("app.undo") == 0
    assert context.eval("app.project.activeItem.layer(1).property('ADBE Mask Parade').property(2).maskMode") == 1


def test_hold_outs_are_masks_in_mode_subtract_below_the_others() -> None:
    context = host()
    hand = replace(shots.corners("hand"), subtract=True)
    context.eval(aftereffects.dumps(shots.shot(hand, shots.corners("eye", by=0), shots.seam())))
    masks = "app.project.activeItem.layer(1).property('ADBE Mask Parade')"
    modes = [
        (context.eval(f"{masks}.property({i}).name"), context.eval(f"{masks}.property({i}).maskMode"))
        for i in (1, 2, 3)
    ]
    assert modes == [("eye", 2), ("nose_seam", 1), ("hand", 3)]
    found = back(context)
    assert [(shape.name, shape.subtract) for shape in found.document.shapes][2] == ("hand", True)
    assert not any("holds out" in line for line in found.losses)
    above = parsing.hold_outs_above([hand, shots.corners("eye")])
    assert above == ["hand: is subtracted only from the shapes before it; the document subtracts it from every shape"]


def test_masks_go_onto_the_selected_layer_at_the_compositions_own_frames() -> None:
    """The frame rate and first frame are the composition's: frame 1005 of a clip that starts at 1001 is its fifth."""
    context, document = host(), shots.shot(shots.corners())
    context.eval("var comp = app.project.items.addComp('shot', 960, 640, 1, 2, 25);")
    context.eval(
        "comp.displayStartTime = 0; comp.selectedLayers = [comp.layers.addSolid([1,1,1], 'plate', 960, 640, 1)];"
    )
    context.eval(aftereffects.dumps(document))
    path = "comp.layer(1).property('ADBE Mask Parade').property(1).property('ADBE Mask Shape')"
    assert context.eval("comp.numLayers") == 1
    assert context.eval(f"{path}.keyTime(2)") == pytest.approx(9 / 25)


def test_another_size_is_refused_not_guessed() -> None:
    context = host()
    context.eval("app.project.items.addComp('shot', 1920, 1080, 1, 2, 24);")
    with pytest.raises(Exception, match="made for 960 x 640, the composition is 1920 x 1080"):
        context.eval(aftereffects.dumps(shots.shot(shots.corners())))


def test_eased_moves_are_sampled_and_thinned_out() -> None:
    context, document = host(), shots.shot(shots.corners(by=100.0), last=1010)
    context.eval(aftereffects.dumps(document))
    path = "app.project.activeItem.layer(1).property('ADBE Mask Parade').property(1).property('ADBE Mask Shape')"
    context.eval(f"{path}.setInterpolationTypeAtKey(1, 2, 2); {path}.setInterpolationTypeAtKey(2, 2, 2);")
    found = back(context)
    (shape,) = found.document.shapes
    for frame in range(1001, 1011):  # a smooth step, by hand
        u = (frame - 1001) / 9
        assert shape.at(frame)[0].x == pytest.approx(300 + 100 * u * u * (3 - 2 * u), abs=0.1)
    assert any("eased moves got" in line for line in found.losses)


def dump(**mask: Any) -> str:
    """A dump of one mask."""
    row = {
        "name": "Mask 1",
        "feather": [0, 0],
        "expansion": 0,
        "opacity": [],
        "keys": [[1001, "linear", [[1.0] * 6] * 3, True, 0]],
    }
    layer = {"name": "plate", "width": 100, "height": 80, "moved": False, "masks": [{**row, **mask}]}
    head = {"format": aftereffects.FORMAT, "version": 1, "width": 100, "height": 80, "pixel_aspect": 1, "fps": 24}
    return json.dumps({**head, "first_frame": 1001, "n_frames": 10, "layers": [layer]})


@pytest.mark.parametrize(
    ("mask", "reported"),
    [
        ({"inverted": True}, "is inverted"),
        ({"mode": "INTERSECT"}, "in mode intersect"),
        ({"feather": [8, 4], "expansion": 3}, "8 by 4 px became its mean"),
        ({"feather": [8, 8], "expansion": 0}, "became 4 px outside"),
        ({"animated": True}, "feather or expansion is animated"),
        ({"opacity": [[None, 50]]}, "partly transparent"),
        ({"keys": [[1001, "linear", [[1.0] * 6] * 3, True, 4]]}, "feather points along the mask"),
        ({"keys": [[1001, "linear", [[1.0] * 6] * 3], [1002, "linear", [[1.0] * 6] * 4]]}, "points change in number"),
        ({"keys": [[1001.4, "linear", [[1.0] * 6] * 3, True, 0]]}, "moved to the nearest frame"),
    ],
)
def test_what_a_document_cannot_hold_is_reported(mask: dict[str, Any], reported: str) -> None:
    assert any(reported in line for line in aftereffects.loads(dump(**mask)).losses)


def test_layers_that_move_or_have_another_size_are_reported() -> None:
    data = json.loads(dump())
    data["layers"][0]["moved"] = True
    assert any("is moved" in line for line in aftereffects.loads(json.dumps(data)).losses)
    data["layers"][0]["width"] = 50
    found = aftereffects.loads(json.dumps(data))
    assert (found.document.shapes, "left out" in found.losses[-1]) == ((), True)


def test_rounded_key_times_are_whole_frames() -> None:
    """Times that are off by rounding (0.0004 frames) still give one key a frame; truncation would double some."""
    keys = [[1001 + i + (0.0004 if i % 2 else -0.0004), "linear", [[float(i)] * 6] * 3, True, 0] for i in range(10)]
    (shape,) = aftereffects.loads(dump(keys=keys)).document.shapes
    assert shape.frames == tuple(range(1001, 1011))
    with pytest.raises(DocumentError, match="write the file again"):
        aftereffects.loads(dump(keys=[[1001]]))


def test_a_feather_line_becomes_feather_points_at_the_vertices() -> None:
    """By hand: a square of side 40 whose feather ends 3, 6, 9 and 0 px outside the edges at its corners."""
    square = tuple(ControlPoint(x, y) for x, y in ((20, 20), (60, 20), (60, 60), (20, 60)))
    away = ((-3, -3), (6, -6), (9, 9), (0, 0))
    line = tuple(ControlPoint(x, y) for x, y in away)
    shape = RotoShape("eye", True, "matte", {1001: Key(square, "human", feather=line), 1005: Key(square, "human")})
    document = RotoDocument(100, 80, 1001, 1005, shapes=(shape,))
    context = host()
    context.eval(aftereffects.dumps(document))
    path = "app.project.activeItem.layer(1).property('ADBE Mask Parade').property(1).property('ADBE Mask Shape')"
    radii = json.loads(context.eval(f"JSON.stringify({path}.keyValue(1).featherRadii)"))
    assert radii == pytest.approx([3, 6, 9, 0], abs=1e-6)
    assert json.loads(context.eval(f"JSON.stringify({path}.keyValue(1).featherSegLocs)")) == [0, 1, 2, 3]
    assert json.loads(context.eval(f"JSON.stringify({path}.keyValue(2).featherRadii)")) == [0, 0, 0, 0]
    found = back(context)
    assert found.losses == ()
    for frame, rows in ((1001, away), (1005, ((0, 0),) * 4)):
        found_rows = [row[:2] for row in found.document.shapes[0].feather_at(frame)]
        assert found_rows == [pytest.approx(row, abs=1e-6) for row in rows]


def test_feather_points_stand_outside_the_masks_own_feather() -> None:
    """A mask feather of 8 px ends 4 px outside; feather points of 3, 6, 9 and 0 px add to it."""
    square = [[20, 20], [60, 20], [60, 60], [20, 60]]
    key = [
        1001,
        "linear",
        [[*at, 0, 0, 0, 0] for at in square],
        True,
        4,
        [[i, 0, r] for i, r in enumerate((3, 6, 9, 0))],
    ]
    shape = aftereffects.loads(dump(feather=[8, 8], keys=[key])).document.shapes[0]
    away = [tuple(row[:2]) for row in shape.feather_at(1001)]
    assert away == [pytest.approx(at, abs=1e-6) for at in ((-7, -7), (10, -10), (13, 13), (-4, 4))]
    assert shape.feather_px == 0


def test_feather_points_between_vertices_are_reported() -> None:
    rows = [[0, 0.5, 6.0]]
    found = aftereffects.loads(dump(keys=[[1001, "linear", [[1.0] * 6] * 3, True, 1, rows]]))
    assert any("feather points between vertices" in line for line in found.losses)


@pytest.mark.parametrize(
    ("opacity", "hidden"), [([[1001, 0], [1010, 100]], 9), ([[1001, 100], [1003, 0], [1005, 100]], 2)]
)
def test_a_dump_whose_opacity_may_fade_is_reported(opacity: list[list[int]], hidden: int) -> None:
    """A dump of an earlier script does not tell fades from keys that hold, so the report names both."""
    found = aftereffects.loads(dump(opacity=opacity))
    assert len(found.document.shapes[0].visible) == hidden
    assert found.losses == (
        "Mask 1: is partly transparent at times, unless its opacity keys hold; the document shows or hides it from "
        "each of them on",
    )
    held, eased = ([[*row, kind] for row in opacity] for kind in ("hold", "eased"))
    assert aftereffects.loads(dump(opacity=held)).losses == ()
    assert aftereffects.loads(dump(opacity=eased)).losses == (
        "Mask 1: is partly transparent at times; the document draws it opaque",
    )


def test_switches_of_opacity_are_no_fades() -> None:
    """Neither where no frame lies between the keys, nor in our own script, whose keys hold."""
    assert aftereffects.loads(dump(opacity=[[1001, 100], [1002, 100], [1003, 0]])).losses == ()
    assert aftereffects.loads(aftereffects.dumps(shot())).losses == ()
