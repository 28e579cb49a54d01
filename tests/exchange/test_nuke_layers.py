"""Layers to Nuke's transform lists and back, by hand: places in the list, y upwards, keys that go straight."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange.nuke_layers import LayersRead, nuke_transform_of
from rotopaint_ai.exchange.nuke_tree import CurveKey, NukeCurve, NukeLayer, NukeTransform
from rotopaint_ai.shapes.layers import Layer, LayerPose

HEIGHT = 100
USUAL = [1.0 if i in (9, 10, 11, 19, 24, 29, 34) else 0.0 for i in range(35)]


def shifted(x: float, y: float) -> tuple[float, ...]:
    return (1.0, 0.0, x, 0.0, 1.0, y, 0.0, 0.0, 1.0)


def listed(changes: Mapping[int, NukeCurve], length: int = 35) -> NukeTransform:
    return NukeTransform(None, tuple(changes.get(i, NukeCurve(USUAL[i])) for i in range(length)))


def keyed(*keys: tuple[float, float, float, float]) -> NukeCurve:
    """Keys as time, value, incoming slope and outgoing slope."""
    return NukeCurve(keys=tuple(CurveKey(t, v, a, 1.0, b, 1.0, False) for t, v, a, b in keys))


def read(*above: NukeTransform, names: tuple[str, ...] = ("a", "b")) -> Layer | None:
    layers = [NukeLayer(name, 0, transform, (), ()) for name, transform in zip(names, above)]
    return LayersRead(HEIGHT, []).find_layer(layers, names[: len(above)])


def test_a_pose_fills_its_places_of_the_list() -> None:
    pose = LayerPose(3.0, 4.0, 15.0, 2.0, 0.5, 10.0, 30.0)
    values = nuke_transform_of(Layer("a", {7: pose}), HEIGHT).values
    assert [curve.constant for curve in values] == [10, 70, 0, 3, -4, 0, 0, 0, -15, 2, 0.5]
    assert not any(curve.keys for curve in values)


def test_what_changes_has_keys_that_go_straight_and_what_does_not_has_none() -> None:
    poses = {5: LayerPose(x=2.0), 1: LayerPose(), 9: LayerPose(x=1.0)}
    values = nuke_transform_of(Layer("a", poses), HEIGHT).values
    assert values[3] == keyed((1, 0, 0, 0.5), (5, 2, 0.5, -0.25), (9, 1, -0.25, 0))
    assert all(not curve.keys for i, curve in enumerate(values) if i != 3)


def test_a_track_is_written_as_a_matrix_with_y_up() -> None:
    track = {3: shifted(6.0, -4.0), 1: shifted(2.0, 4.0)}
    values = nuke_transform_of(Layer("a", track=track), HEIGHT, of_track=True).values
    assert values == listed({22: keyed((1, 2, 0, 2), (3, 6, 2, 0)), 26: keyed((1, -4, 0, 4), (3, 4, 4, 0))}).values


def test_a_track_in_perspective_fills_the_third_row() -> None:
    """By hand: F M F, with F the flip of 100 rows and (0.001, 0.002, 1) as M's third row."""
    track = {1: (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.001, 0.002, 1.0)}
    values = nuke_transform_of(Layer("a", track=track), HEIGHT, of_track=True).values
    expected = dict(enumerate(USUAL)) | {23: 0.1, 24: 0.8, 26: 20.0, 31: 0.001, 32: -0.002, 34: 1.2}
    assert [curve.constant for curve in values] == pytest.approx(list(expected.values()))


def test_a_layer_without_a_transform_has_an_empty_list() -> None:
    assert nuke_transform_of(Layer("a"), HEIGHT) == NukeTransform(None, ())


def test_straight_keys_come_back_as_poses_and_no_frame_more() -> None:
    poses = {1: LayerPose(pivot_x=8.0, pivot_y=30.0), 5: LayerPose(2.0, 6.0, -10.0, 1.5, 2.0, 8.0, 30.0)}
    layer = read(nuke_transform_of(Layer("a", poses), HEIGHT))
    assert layer is not None
    assert (layer.name, list(layer.poses), layer.track, layer.parent) == ("a", [1, 5], {}, None)
    for frame, pose in poses.items():
        assert layer.poses[frame] == pytest.approx(pose)


def test_one_bent_span_among_straight_ones_is_read_frame_by_frame() -> None:
    layer = read(listed({3: keyed((1, 0, 0, 1), (3, 2, 1, 0), (5, 4, 0, 0))}, 11))
    assert layer is not None
    assert list(layer.poses) == [1, 2, 3, 4, 5]
    assert layer.poses[2].x == pytest.approx(1.0)
    assert layer.poses[4].x == pytest.approx(3.0)  # the middle of an ease


def test_a_whole_list_whose_matrix_does_nothing_is_a_pose() -> None:
    layer = read(listed({3: NukeCurve(2.0)}))
    assert layer is not None
    assert (layer.poses[0].x, layer.track) == (2.0, {})


def test_one_key_between_frames_among_whole_ones_is_read_frame_by_frame() -> None:
    layer = read(listed({3: keyed((1, 0, 0, 2), (2.5, 3, 2, 2), (4, 6, 2, 0))}, 11))
    assert layer is not None
    assert {frame: pose.x for frame, pose in layer.poses.items()} == pytest.approx({1: 0, 2: 2, 3: 4, 4: 6})


def test_keys_between_frames_are_read_on_all_whole_frames_around_them() -> None:
    layer = read(listed({3: keyed((1.5, 0, 0, 1), (3.5, 2, 1, 0))}, 11))
    assert layer is not None
    assert {frame: pose.x for frame, pose in layer.poses.items()} == pytest.approx({1: 0, 2: 0.5, 3: 1.5, 4: 2})


def test_what_a_short_list_leaves_out_is_as_usual() -> None:
    layer = read(listed({3: NukeCurve(2.0)}, 4))
    assert layer is not None
    assert layer.poses == {0: LayerPose(x=2.0, pivot_y=100.0)}


def test_a_constant_transform_is_a_pose_of_frame_0() -> None:
    layer = read(listed({4: NukeCurve(7.0)}, 11))
    assert layer is not None
    assert layer.poses == {0: LayerPose(y=-7.0, pivot_y=100.0)}


@pytest.mark.parametrize("place", [12, 20, 34])
def test_what_no_pose_can_do_is_a_track(place: int) -> None:
    """For example a skew, or a matrix given by its numbers."""
    layer = read(listed({place: NukeCurve(USUAL[place] + 0.25), 3: keyed((1, 0, 0, 1), (3, 2, 1, 0))}))
    assert layer is not None
    assert not layer.poses
    assert list(layer.track) == [1, 2, 3]


def test_a_track_inside_its_layer_becomes_one_layer_again_and_no_other_does() -> None:
    whole = Layer("a", {1: LayerPose(x=3.0)}, {1: shifted(2.0, 4.0), 2: (1.0, 0.1, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)})
    lists = nuke_transform_of(whole, HEIGHT), nuke_transform_of(whole, HEIGHT, of_track=True)
    layer = read(*lists, names=("a", "a/track"))
    assert layer is not None
    assert (layer.name, layer.parent, list(layer.poses)) == ("a", None, [0])
    assert layer.track[1] == pytest.approx(shifted(2.0, 4.0))
    other = read(*lists, names=("a", "b/track"))
    assert other is not None
    assert other.name == "b/track"
    assert other.parent is not None
    assert other.parent.name == "a"
    twice = read(lists[1], lists[1], names=("a", "a/track"))
    assert twice is not None
    assert twice.parent is not None


def test_what_moves_nothing_is_no_layer_and_shapes_share_what_is() -> None:
    still, moving = (
        NukeLayer("still", 0, listed({}, 11), (), ()),
        NukeLayer("b", 0, listed({3: NukeCurve(2.0)}, 11), (), ()),
    )
    known = LayersRead(HEIGHT, [])
    first = known.find_layer([still, moving], ("still", "b"))
    assert first is not None
    assert first.parent is None
    assert known.find_layer([still, moving], ("still", "b")) is first
    assert known.find_layer([still], ("still",)) is None


def test_layers_of_one_name_move_as_they_did() -> None:
    left, right = (NukeLayer("a", 0, listed({3: NukeCurve(x)}, 11), (), ()) for x in (30.0, 60.0))
    losses: list[str] = []
    known = LayersRead(HEIGHT, losses)
    found = [known.find_layer([layer], ("a",)) for layer in (left, right, left)]
    assert [layer and (layer.name, layer.poses[0].x) for layer in found] == [("a", 30.0), ("a_2", 60.0), ("a", 30.0)]
    assert losses == ["layer a: the name occurs twice; the other layer is now called a_2"]


def test_a_track_in_a_layer_that_stands_still_is_not_that_of_the_layer_above() -> None:
    turned = listed({8: keyed((1, 0, 0, 5), (3, 10, 5, 0)), 19: keyed((1, 1, 0, 0.1), (3, 1.2, 0.1, 0))})
    layers = [
        NukeLayer("a", 0, listed({3: NukeCurve(2.0)}, 11), (), ()),
        NukeLayer("b", 0, listed({}, 11), (), ()),
        NukeLayer("track", 0, turned, (), ()),
    ]
    found = LayersRead(HEIGHT, []).find_layer(layers, ("a", "a/b", "a/b/track"))
    assert found is not None
    assert found.parent is not None
    assert (found.name, found.parent.name, bool(found.track), found.parent.track) == ("a/b/track", "a", True, {})


def test_a_key_at_the_end_of_time_is_refused() -> None:
    with pytest.raises(DocumentError, match="frames 1 to 2000000000"):
        read(listed({3: keyed((1, 0, 0, 1), (2_000_000_000, 9, 1, 0))}))


def test_a_layer_that_is_scaled_to_nothing_is_refused() -> None:
    with pytest.raises(DocumentError, match=r"scaled by 1, 0\.0005 at frame 3"):
        read(listed({10: keyed((1, 1, 0, -0.49975), (3, 0.0005, -0.49975, 0))}, 11))
    kept = read(listed({10: NukeCurve(0.001)}, 11))
    assert kept is not None
    assert kept.poses[0].scale_y == 0.001
