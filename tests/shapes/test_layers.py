"""Layers: shape positions between and beyond their keys, and what an edit of a layer moves."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import document as documents
from rotopaint_ai.exchange import formats, nuke, nuke_reader
from rotopaint_ai.project import State, codecs
from rotopaint_ai.shapes import edit, edit_layers, group_moves, manual_keys, reduce, samples
from rotopaint_ai.shapes.bake import bake_layer
from rotopaint_ai.shapes.layers import Layer, LayerPose, place_point, product, way_back
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoDocument, RotoShape, feather_line

SQUARE = (ControlPoint(60, 40, 0, 5, 5, 0), ControlPoint(80, 40), ControlPoint(80, 60), ControlPoint(60, 60))
ROWS = tuple(ControlPoint(dx, dy, 1, 0, 0, 2) for dx, dy in ((-4, -4), (4, -4), (4, 4), (-4, 4)))
TURN = {1001: LayerPose(pivot_x=70, pivot_y=50), 1011: LayerPose(20, -10, 90, 2, 1, 70, 50)}


def shot(*, layer: Layer | None = None, keys: dict[int, Key] | None = None) -> RotoDocument:
    badge = RotoShape("badge", True, "matte", keys or {1001: Key(SQUARE, "human", feather=ROWS)}, layer=layer)
    line = RotoShape("line", False, "seam", {1001: Key(SQUARE[:2], "human"), 1011: Key(SQUARE[2:], "human")})
    return RotoDocument(200, 100, 1001, 1011, shapes=(badge, line))


def where(points: Points) -> list[tuple[float, float]]:
    return [(round(p.x, 6), round(p.y, 6)) for p in points]


def test_a_pose_scales_turns_and_shifts_about_its_pivot() -> None:
    """Clockwise on the screen: a point right of the pivot moves below it. (10, 0) scaled by 2 is (20, 0)."""
    assert place_point(TURN[1011].matrix, 80, 50) == pytest.approx((90, 60))
    assert place_point(TURN[1011].matrix, 70, 50) == pytest.approx((90, 40))
    half = Layer("a", TURN).matrix_at(1006)  # each number half-way: (10, -5), 45 degrees, 1.5
    assert place_point(half, 80, 50) == pytest.approx((80 + 15 * math.sqrt(0.5), 45 + 15 * math.sqrt(0.5)))


def test_a_parent_moves_its_children_and_a_track_comes_before_the_pose() -> None:
    parent = Layer("a", {1001: LayerPose(x=100)})
    track = {1001: (1.0, 0, 0, 0, 1, 0, 0, 0, 1), 1003: (2.0, 0, 0, 0, 2, 0, 0, 0, 1)}
    child = Layer("b", {1001: LayerPose(y=7)}, track, parent)
    assert place_point(child.matrix_at(1003), 3, 4) == pytest.approx((106, 15))
    assert place_point(child.matrix_at(1002), 3, 4) == pytest.approx((104.5, 13))  # half-way from 1 to 2
    assert place_point(child.matrix_at(1009), 3, 4) == pytest.approx((106, 15))
    back = product(child.matrix_at(1003), way_back(child.matrix_at(1003)))
    assert back == pytest.approx((1, 0, 0, 0, 1, 0, 0, 0, 1))


def test_the_way_back_of_a_map_with_perspective_is_its_way_back() -> None:
    m = (2.0, 1.0, 3.0, 0.5, 3.0, -1.0, 0.1, 0.2, 2.0)
    np.testing.assert_allclose(way_back(m), np.linalg.inv(np.reshape(m, (3, 3))).ravel(), rtol=1e-12)
    assert place_point(way_back(m), *place_point(m, 5, 7)) == pytest.approx((5, 7))


def test_a_shape_with_one_key_moves_with_its_layer_feather_and_handles_too() -> None:
    shape = shot(layer=Layer("a", TURN)).shape("badge")
    turned = shape.at(1011)
    assert where(turned) == [(100, 20), (100, 60), (80, 60), (80, 20)]  # (-10, -10) -> (-20, -10) -> (10, -20)
    assert turned[0][2:] == pytest.approx((-5, 0, 0, 10))
    assert where(feather_line(turned, shape.feather_at(1011))) == [(104, 12), (104, 68), (76, 68), (76, 12)]
    assert shape.at(1001) == SQUARE
    assert where(shape.at(990)) == where(SQUARE)


def test_between_keys_a_shape_is_interpolated_in_its_layer() -> None:
    """Both keys are at rest in the layer: the shape rotates with it, and does not shrink as a linear path would."""
    layer = Layer("a", {1001: LayerPose(pivot_x=70, pivot_y=50), 1011: LayerPose(0, 0, 90, 1, 1, 70, 50)})
    start = shot(layer=layer).shape("badge")
    shape = start.with_keys(
        {1001: start.keys[1001], 1011: Key(start.at(1011), "human", "hold", start.feather_at(1011))}
    )
    middle = shape.at(1006)
    assert [math.hypot(p.x - 70, p.y - 50) for p in middle] == pytest.approx([math.sqrt(200)] * 4)
    assert where(middle)[0] == (70.0, round(50 - math.sqrt(200), 6))
    assert np.allclose(samples.rows(shape, [1001, 1006, 1011]), [np.ravel(shape.at(f)) for f in (1001, 1006, 1011)])
    smooth = shape.with_keys({f: replace(key, interpolation="smooth") for f, key in shape.keys.items()})
    assert where(smooth.at(1004)) == where(shape.at(1004))
    assert where(smooth.feather_at(1004)) == where(shape.feather_at(1004))


def test_grouping_moves_nothing_and_poses_take_keys_along() -> None:
    before = shot()
    document = edit_layers.group(before, ["badge", "line"], "group_1")
    assert [shape.keys for shape in document.shapes] == [shape.keys for shape in before.shapes]
    document = edit_layers.set_pose(document, "group_1", [1001, 1002], LayerPose(x=5))
    assert where(document.shape("line").at(1011)) == [(85, 60), (65, 60)]
    document = edit_layers.set_pose(document, "group_1", [1011], LayerPose(x=25))
    assert where(document.shape("line").at(1001)) == [(65, 40), (85, 40)]
    assert where(document.shape("line").at(1011)) == [(105, 60), (85, 60)]
    assert where(document.shape("badge").at(1011))[0] == (85, 40)
    document = edit_layers.delete_poses(document, "group_1", [1011])
    assert where(document.shape("line").at(1011)) == [(85, 60), (65, 60)]
    with pytest.raises(DocumentError, match="no key at frame 1005"):
        edit_layers.delete_poses(document, "group_1", [1005])
    with pytest.raises(DocumentError, match="the name is taken"):
        edit_layers.group(document, ["badge"], "group_1")
    with pytest.raises(DocumentError, match=r"scaled by 0, 1; wanted"):
        edit_layers.set_pose(document, "group_1", [1001], LayerPose(scale_x=0))


def test_a_models_keys_that_go_along_stay_the_models() -> None:
    """Predicted keys move exactly with the group, however often; a human key stays a human key."""
    keys = {1001: Key(SQUARE), 1006: Key(SQUARE, "human"), 1011: Key(SQUARE)}
    start, said = shot(keys=keys), shot(keys={frame: Key(SQUARE) for frame in keys})
    document, predicted = edit_layers.group(start, ["badge"], "g"), said
    for pose in (LayerPose(x=3), LayerPose(3, -7, 33, 1.3, 0.7, 70, 50)):
        moved = edit_layers.set_pose(document, "g", [1011], pose)
        along = group_moves.move_with_groups(predicted, document, moved)
        assert along is not None
        document, predicted = moved, along
    badge, models = document.shape("badge"), predicted.shape("badge")
    assert [key.source for key in badge.keys.values()] == ["model", "human", "model"]
    assert [badge.keys[frame] for frame in (1001, 1011)] == [models.keys[frame] for frame in (1001, 1011)]
    assert models.at(1006) == badge.at(1006)
    x, y = place_point(document.layers[0].matrix_at(1011), 60, 40)
    assert badge.at(1011)[0][:2] == pytest.approx((x, y))
    assert predicted.shape("line") is said.shape("line")
    anew = group_moves.apply_groups(said, document, {"badge": {1006}})
    assert [where(anew.shape("badge").at(f)) for f in (1001, 1011)] == [where(badge.at(f)) for f in (1001, 1011)]
    assert anew.shape("badge").keys[1006] == said.shape("badge").keys[1006]
    below = group_moves.remove_groups(document, document)
    assert [where(below.shape("badge").at(f)) for f in keys] == [where(SQUARE)] * 3
    put_back = manual_keys.with_manual_keys(anew, document)
    assert group_moves.apply_groups(put_back, document) is put_back  # already placed in its group
    assert put_back.shape("badge").layer == badge.layer


def test_a_track_places_nothing() -> None:
    """A track determines the motion between keys; a pose above it moves the result."""
    track = {1001: (1.0, 0, 0, 0, 1, 0, 0, 0, 1), 1011: (2.0, 0, 9, 0, 2, 0, 0, 0, 1)}
    layer = Layer("a", {1001: LayerPose(y=7)}, track, Layer("b", {1001: LayerPose(scale_x=2)}))
    assert place_point(layer.placement_at(1011), 3, 4) == pytest.approx((6, 11))
    assert place_point(Layer("a", track=track).placement_at(1011), 3, 4) == pytest.approx((3, 4))


def test_smooth_keys_under_a_plane_in_perspective_come_back_from_nuke(tmp_path: Path) -> None:
    """They were up to 0.2 px off, because slopes were mapped one way and mapped back another."""
    tilted = {
        f: (1.0, 0.0, f - 1001.0, 0.0, 1.0, 0.0, 2e-5 * (f - 1001), 1e-5 * (f - 1001), 1.0) for f in range(1001, 1012)
    }
    poses = (
        SQUARE,
        tuple(p._replace(x=p.x + 40, out_dx=9.0) for p in SQUARE),
        tuple(p._replace(y=p.y - 30) for p in SQUARE),
    )
    keys = {frame: Key(points, "human", "smooth") for frame, points in zip((1001, 1005, 1011), poses)}
    document = shot(layer=Layer("a", track=tilted), keys=keys)
    proof = nuke.write_report(tmp_path / "a.nk", document)
    assert proof.max_error_px < 1e-3
    back, _ = nuke_reader.read_text((tmp_path / "a.nk").read_text()).document.shapes
    assert back.keys[1001].slopes is not None
    assert back.layer is not None
    again = edit_layers.place_in_layer(edit_layers.to_layer_space(back), back.layer)
    for frame in (1003, 1004.5, 1008):
        assert where(again.at(frame)) == where(back.at(frame))


@pytest.mark.parametrize("way", ["ungroup", "put_into"])
def test_a_models_shape_that_leaves_a_moved_group_stays_and_is_a_persons(way: str) -> None:
    said = shot(keys={1001: Key(SQUARE), 1011: Key(SQUARE)})
    document = edit_layers.group(said, ["badge"], "g")
    moved = edit_layers.set_pose(document, "g", [1001, 1011], LayerPose(x=3))
    predicted = group_moves.move_with_groups(said, document, moved)
    free = edit_layers.ungroup(moved, "g") if way == "ungroup" else edit_layers.put_into(moved, ["badge"], None)
    assert {key.source for key in free.shape("badge").keys.values()} == {"human"}
    assert where(free.shape("badge").at(1011))[0] == (63, 40)
    below = group_moves.move_with_groups(predicted, moved, free)
    assert below is not None
    assert where(below.shape("badge").at(1011))[0] == (60, 40)  # the prediction


def test_another_pivot_moves_nothing_at_the_keys() -> None:
    document = shot(layer=Layer("a", TURN))
    moved = edit_layers.set_pivot(document, "a", 0, 0)
    for frame in (1001, 1011):
        assert where(moved.shape("badge").at(frame)) == where(document.shape("badge").at(frame))
    assert [(pose.pivot_x, pose.pivot_y) for pose in moved.layers[0].poses.values()] == [(0, 0)] * 2


def test_ungrouped_shapes_stay_where_they_are_seen() -> None:
    document = shot(layer=Layer("a", TURN))
    free = edit_layers.ungroup(document, "a")
    assert free.layers == ()
    for frame in range(1001, 1012):
        a, b = document.shape("badge").at(frame), free.shape("badge").at(frame)
        assert max(math.hypot(p.x - q.x, p.y - q.y) for p, q in zip(a, b)) <= 0.1
    shifts = shot(layer=Layer("a", {1001: LayerPose(), 1011: LayerPose(x=9)})).shape("badge")
    assert bake_layer(shifts, 1001, 1011).frames == (1001, 1011)
    held = shot(layer=Layer("a", TURN), keys={1001: Key(SQUARE, "human", "hold"), 1006: Key(SQUARE, "human")})
    flat = bake_layer(held.shape("badge"), 1001, 1011)
    for frame in range(1001, 1012):
        pairs = zip(held.shape("badge").at(frame), flat.at(frame))
        assert max(math.hypot(p.x - q.x, p.y - q.y) for p, q in pairs) <= 0.1
    nested = edit_layers.group(document, ["badge"], "inner")
    assert nested.shape("badge").layer == Layer("inner", parent=document.layers[0])
    assert edit_layers.ungroup(nested, "inner") == document
    assert [layer.name for layer in edit_layers.rename_layer(nested, "a", "outer").layers] == ["outer", "inner"]


def test_in_a_shot_of_one_frame_a_shape_changes_between_moving_layers() -> None:
    one = replace(shot(layer=Layer("a", TURN), keys={1001: Key(SQUARE, "human")}), first_frame=1001, last_frame=1001)
    other = Layer("b", {1001: LayerPose(x=5), 1011: LayerPose(x=9)})
    moved = edit_layers.put_into(one, ["badge"], other).shape("badge")
    assert moved.layer == other
    assert where(moved.at(1001)) == where(one.shape("badge").at(1001))


def test_layers_come_back_from_document_project_and_other_frames() -> None:
    track = {1001: (1.0, 0, 0, 0, 1, 0, 0, 0, 1), 1011: (1.0, 0.01, 3, 0, 1, 0, 1e-5, 0, 1)}
    layer = Layer("in", {1001: LayerPose(x=1)}, track, Layer("out", TURN))
    document = shot(layer=layer)
    text = documents.dumps(document)
    assert '"version": 2' in text
    assert documents.loads(text) == document
    state = codecs.apply_changes(State(), dict(codecs.changes(State(), State(document=document))))
    assert state.document == document
    for kind, row in (("pose", TURN[1011]), ("plane", track[1011])):
        assert codecs.unpack(kind, codecs.pack(kind, row)) == row
    later = edit.shift_frames(document, 10)
    assert where(later.shape("badge").at(1016)) == where(document.shape("badge").at(1006))


def test_fewer_keys_are_found_within_the_layer() -> None:
    shape = shot(layer=Layer("a", TURN)).shape("badge")
    keys = {frame: Key(shape.at(frame)) for frame in range(1001, 1012)}
    few = reduce.reduce_keys(shape.with_keys(keys), 0.5)
    assert len(few.keys) <= 2
    for frame in range(1001, 1012):
        assert np.abs(np.subtract(few.at(frame), shape.at(frame))).max() <= 0.5


@pytest.mark.parametrize("has_track", [False, True])
def test_nuke_has_the_layers_and_gives_them_back(has_track: bool) -> None:
    """Nuke layers with transform keys, not a key at every frame; nested ones too."""
    track = {
        f: (1.0, 0.002 * k, 3.0 * k, 0.0, 1.0, k, 1e-5 * k, -2e-5 * k, 1.0) for k, f in enumerate(range(1001, 1012))
    }
    layer = Layer("head/eyes", TURN, track if has_track else {}, Layer("head", {1001: LayerPose(degrees=5, x=3)}))
    meant = shot(layer=layer)
    found = nuke_reader.read_text(nuke.dumps(meant)).document
    names = nuke.script_names(meant)
    assert nuke.curve_difference(meant, found, names) < 0.02
    shape = found.shape(names["badge"])
    assert shape.frames == (1001,)
    assert shape.layer is not None
    assert [each.name for each in shape.layer.chain] == ["head", "head/eyes"]
    assert set(shape.layer.poses) == set(TURN)
    assert shape.layer.poses[1011] == pytest.approx(TURN[1011], abs=1e-4)
    assert set(shape.layer.track) == (set(track) if has_track else set())


def test_layers_of_nuke_hold_only_their_own_shapes(tmp_path: Path) -> None:
    """Names that Nuke cannot distinguish, a name that remains after leaving a layer, a name inside another's."""
    turned = Layer("head", TURN)
    badge, line = shot().shapes
    cases = {
        "signs": (replace(badge, layer=Layer("g 1", TURN)), replace(line, layer=Layer("g_1"))),
        "taken out": (replace(badge, name="head/a"), replace(line, name="head/b", layer=turned)),
        "inside": (replace(badge, layer=Layer("head/eyes", {1001: LayerPose(x=9)})), replace(line, layer=turned)),
    }
    for name, shapes in cases.items():
        meant = replace(shot(), shapes=shapes)
        formats.write(tmp_path / f"{name}.nk", meant)
        found, _ = formats.read(tmp_path / f"{name}.nk")
        assert nuke.curve_difference(meant, found, nuke.script_names(meant)) < 0.02
    _, lost = formats.write(tmp_path / "out.nk", replace(shot(), shapes=cases["taken out"]))
    assert "shape 'head/a' is called 'head_2/a': a moving layer has that name" in lost


@pytest.mark.parametrize("suffix", [".ssf", ".setting", ".jsx", ".svg", ".lottie.json"])
def test_other_formats_get_linear_keys_with_one_warning(tmp_path: Path, suffix: str) -> None:
    meant = shot(layer=Layer("a", TURN))
    meant = replace(meant, shapes=tuple(replace(s, layer=Layer("a", TURN)) for s in meant.shapes))
    _, lost = formats.write(tmp_path / f"shot{suffix}", meant)
    assert [line for line in lost if line.startswith("layers a:")] == [next(x for x in lost if "layers a" in x)]
    proof = formats.proof_of(tmp_path / f"shot{suffix}", meant)
    assert not proof.faults
