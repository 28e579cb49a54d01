"""One edit for many frames: which frames change, and which stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.shapes import edit_frames
from rotopaint_ai.shapes.layers import Layer, LayerPose
from rotopaint_ai.shapes.roto import ControlPoint, Interpolation, Key, Points, RotoDocument, RotoShape


def pair(x: float, y: float = 0.0) -> Points:
    return ControlPoint(x, y), ControlPoint(x + 10, y, -1, 0, 0, 0)


def document() -> RotoDocument:
    keys = {1: Key(pair(0)), 5: Key(pair(4), "propagated", "hold"), 9: Key(pair(8)), 13: Key(pair(12), "human")}
    return RotoDocument(100, 80, 1, 20, shapes=(RotoShape("lip", False, "seam", keys), RotoShape("new", True)))


def xs(document: RotoDocument, index: int = 0) -> dict[int, float]:
    return {frame: key.points[index].x for frame, key in document.shape("lip").keys.items()}


def test_a_relative_edit_adds_the_change_to_every_key_in_range() -> None:
    before = document()
    moved = (before.shape("lip").at(5)[0]._replace(x=7.0), before.shape("lip").at(5)[1])
    after = edit_frames.carry(before, "lip", 5, moved, frames=range(1, 10), mode="relative")
    assert xs(after) == {1: 3, 5: 7, 9: 11, 13: 12}
    assert xs(after, 1) == xs(before, 1)
    assert [key.source for key in after.shape("lip").keys.values()] == ["human"] * 4
    assert after.shape("lip").keys[5].interpolation == "hold"


def test_an_absolute_edit_puts_what_changed_where_it_was_put() -> None:
    before = document()
    moved = (ControlPoint(50, 2, 0, 0, 1, 1), before.shape("lip").at(9)[1])
    after = edit_frames.carry(before, "lip", 9, moved, frames=range(5, 14), mode="absolute")
    assert xs(after) == {1: 0, 5: 50, 9: 50, 13: 50}
    assert xs(after, 1) == xs(before, 1)
    assert after.shape("lip").keys[13].points[0] == ControlPoint(50, 2, 0, 0, 1, 1)
    assert after.shape("lip").keys[1] is before.shape("lip").keys[1]


def test_an_edit_between_keys_makes_one_there() -> None:
    after = edit_frames.carry(document(), "lip", 3, pair(5), frames=range(3, 6), mode="relative")
    assert xs(after) == {1: 0, 3: 5, 5: 7, 9: 8, 13: 12}  # it was at 2: three to the right


def test_pasted_keys_lie_where_they_were_copied_or_at_the_shapes_position() -> None:
    before, form = document(), pair(40, 30)
    absolute = edit_frames.paste_keys(before, "lip", form, [1, 9])
    assert absolute.shape("lip").keys[9].points == form
    relative = edit_frames.paste_keys(
        before, "lip", (ControlPoint(40, 30), ControlPoint(60, 30)), [9], is_relative=True
    )
    assert [p[:2] for p in relative.shape("lip").keys[9].points] == [(3, 0), (23, 0)]  # both about x 13
    with pytest.raises(DocumentError, match="1 points"):
        edit_frames.paste_keys(before, "lip", form[:1], [1])


def test_keys_hold_or_go_on() -> None:
    after = edit_frames.set_interpolation(document(), "lip", [1, 9], "hold").shape("lip")
    assert [after.keys[f].interpolation for f in (1, 5, 9, 13)] == ["hold", "hold", "hold", "linear"]
    assert after.keys[1].source == "model"
    assert after.at(4) == after.at(1)
    with pytest.raises(DocumentError, match="no key at frame 4"):
        edit_frames.set_interpolation(document(), "lip", [4], "hold")


def test_whole_shapes_are_keyed_and_unkeyed() -> None:
    after = edit_frames.set_keys(document(), ["lip", "new"], [3, 7])
    assert xs(after) == {1: 0, 3: 2, 5: 4, 7: 4, 9: 8, 13: 12}
    assert after.shape("lip").keys[7].interpolation == "hold"
    assert after.shape("new").keys == {}
    back = edit_frames.delete_keys(after, ["lip"], [3, 7, 8])
    assert xs(back) == xs(document())
    with pytest.raises(DocumentError, match="no key left"):
        edit_frames.delete_keys(after, ["lip"], range(1, 20))


@pytest.mark.parametrize("frames", [[5], [4, 6, 5], [2, 9, 14], [20]])
@pytest.mark.parametrize("kinds", [("ease",) * 3, ("smooth",) * 3, ("smooth", "ease", "smooth"), ("linear", "smooth")])
@pytest.mark.parametrize("is_in_layer", [False, True])
def test_a_key_moves_no_frame_of_what_eases_or_moves_smoothly(
    kinds: tuple[Interpolation, ...], frames: list[int], is_in_layer: bool
) -> None:
    line = tuple(ControlPoint(3, y, 1, 0, -1, 0) for y in (2, 5))
    pose = LayerPose(20, -4, 30, 2, 1.5, 6, 2)
    layer = Layer("head", {1: LayerPose(), 16: pose}) if is_in_layer else None
    keys = {
        frame: Key(pair(x, x * x / 40), "model", kind, line if frame == 8 else ())
        for frame, x, kind in zip((1, 8, 12, 16), (0, 70, 64, 90), (*kinds, "smooth", "smooth"))
    }
    shape = RotoShape("lip", True, "matte", keys, feather_px=2.0, layer=layer)
    before = replace(document(), shapes=(shape,))
    after = edit_frames.set_keys(before, ["lip"], frames).shape("lip")
    assert all(after.keys[frame].source == "human" for frame in frames)
    for tenth in range(10, 230):
        frame = tenth / 10
        assert np.allclose(after.at(frame), shape.at(frame), atol=1e-9)
        assert np.allclose(after.feather_at(frame), shape.feather_at(frame), atol=1e-9)


def test_shapes_that_would_have_no_key_left_keep_theirs_and_others_do_not() -> None:
    before, lone = document(), {5: Key(pair(0))}
    more = tuple(RotoShape(name, False, "matte", lone) for name in "abcd")
    before = replace(before, shapes=(*before.shapes, *more))
    for names, whose in (
        (["a", "lip", "new"], "shape 'a'"),
        (["lip", *"abcd"], "shape 'a', shape 'b', shape 'c' and 1"),
    ):
        with pytest.raises(edit_frames.KeysKeptError, match=f"not the last one of {whose}") as caught:
            edit_frames.delete_keys(before, names, [5, 9])
        after = caught.value.document
        assert [after.shape(name).frames for name in ("lip", "a", "b")] == [(1, 13), (5,), (5,)]
    with pytest.raises(edit_frames.KeysKeptError, match="not those of shape 'lip'"):
        edit_frames.delete_keys_of(before, {"lip": range(1, 20)}, is_part=True)
    with pytest.raises(DocumentError, match="shape 'a': would have no key left"):
        edit_frames.delete_keys_of(before, {"lip": [2], "a": [5], "b": [5]})


def test_keyed_frames_in_a_range_are_listed() -> None:
    assert edit_frames.keyed_frames_in(document().shape("lip"), 2, 9) == (5, 9)
