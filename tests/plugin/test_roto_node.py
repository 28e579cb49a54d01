"""The RotoPaint node of an export: one undo step, selection and the artist's shapes kept, values as in the document."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import nuke as nuke_text
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape
from rotopaint_nuke import roto_node

from .conftest import FakeNuke, Node


def document(x: float = 10.0) -> RotoDocument:
    keys = {
        f: Key((ControlPoint(x + f - 1001, 20, 0, 0, 5, 1), ControlPoint(50, 30, -5, 0, 0, 0))) for f in (1001, 1004)
    }
    seam = RotoShape("seam", False, "seam", keys, width_px=5.0, feather_px=1.0)
    eye = RotoShape("eye", True, "matte", {1001: Key((ControlPoint(1, 1), ControlPoint(9, 1), ControlPoint(5, 8)))})
    return RotoDocument(64, 48, 1001, 1004, shapes=(seam, eye))


def shapes_in(node: Node) -> RotoDocument:
    """The shapes in a node's curves, as read by an independent reader."""
    text = node["curves"].toScript()
    inner = text[1:-1] if text.startswith("{{{") else text
    script = f"RotoPaint {{\n curves {{{inner}}}\n name A\n}}\n"
    return nuke_text.nuke_reader.read_text(script, width=64, height=48, where="node").document


@pytest.mark.parametrize("wrapped", [True, False])
def test_an_export_is_one_node_behind_the_read_in_one_undo_step(fake_nuke: FakeNuke, wrapped: bool) -> None:
    if not wrapped:
        fake_nuke.curves = fake_nuke.curves[1:-1]
    read = fake_nuke.add(Node("Read", "Read1"))
    read.selected = True
    node, is_update = roto_node.export(fake_nuke, document(), read)
    assert not is_update
    assert node.input(0) is read
    assert node["output"].value() == "alpha"  # `rgba` would paint the shapes white over the plate
    assert fake_nuke.steps == ["RotoPaint AI export"]
    assert fake_nuke.selectedNodes() == [read]
    assert node["curves"].n_changed == 1
    assert node["curves"].toScript().startswith("{{{") is wrapped
    found = shapes_in(node)
    paths = {"seam": "RotoPaint_AI/seam", "eye": "RotoPaint_AI/eye"}
    assert nuke_text.curve_difference(document(), found, paths) < 0.001


def test_a_second_export_updates_our_layer_and_keeps_what_the_artist_added(fake_nuke: FakeNuke) -> None:
    read = fake_nuke.add(Node("Read", "Read1"))
    node, _ = roto_node.export(fake_nuke, document(), read)
    theirs = replace(document(), shapes=(replace(document().shapes[1], name="garbage"),))
    text = nuke_text.update_layer(node["curves"].toScript()[1:-1], theirs, layer="Artist")
    node["curves"].fromScript("{" + text + "}")
    again, is_update = roto_node.export(fake_nuke, document(x=17.0), read)
    assert is_update
    assert again is node
    assert len(fake_nuke.allNodes("RotoPaint")) == 1
    found = shapes_in(node)
    assert sorted(shape.name for shape in found.shapes) == ["Artist/garbage", "RotoPaint_AI/eye", "RotoPaint_AI/seam"]
    assert found.shape("RotoPaint_AI/seam").at(1001)[0].x == pytest.approx(17.0, abs=1e-3)


def test_another_plate_gets_a_node_of_its_own(fake_nuke: FakeNuke) -> None:
    first, second = (fake_nuke.add(Node("Read", name)) for name in ("Read1", "Read2"))
    roto_node.export(fake_nuke, document(), first)
    _, is_update = roto_node.export(fake_nuke, document(), second)
    assert not is_update
    assert len(fake_nuke.allNodes("RotoPaint")) == 2


def test_a_failed_export_leaves_nothing_behind(fake_nuke: FakeNuke) -> None:
    read = fake_nuke.add(Node("Read", "Read1"))
    read.selected = True
    fake_nuke.curves = "{{{v nonsense"
    with pytest.raises(DocumentError):
        roto_node.export(fake_nuke, document(), read)
    assert fake_nuke.cancelled == 1
    assert fake_nuke.nodes == [read]
    assert fake_nuke.selectedNodes() == [read]
