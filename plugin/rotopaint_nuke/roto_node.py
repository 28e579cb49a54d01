"""The RotoPaint node of an export: built from text in one step. An update does not change the artist's shapes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import nuke as nuke_text
from rotopaint_ai.shapes.roto import RotoDocument

NAME = "RotoPaint_AI"
LAYER = "RotoPaint_AI"  # our shapes are in this layer; all other layers are the artist's


def export(nuke: Any, document: RotoDocument, source: Any | None) -> tuple[Any, bool]:
    """Write a document to a RotoPaint node after `source`; returns the node, and whether it existed before.

    `nuke` is Nuke's module. An earlier node of ours after the same source is updated: our layer is replaced, and
    everything that the artist added stays. All is one undo step, and the selection does not change.
    """
    with group_undo(nuke, "RotoPaint AI export"), keep_selection(nuke):
        node = find(nuke, source)
        is_update = node is not None
        if node is None:
            node = _create_node(nuke, source)
        write_curves(node, document)
    return node, is_update


def find(nuke: Any, source: Any | None) -> Any | None:
    """Our node after a source, if there is one."""
    for node in nuke.allNodes("RotoPaint"):
        if node.name().startswith(NAME) and (source is None or is_input(node, source)):
            return node
    return None


def write_curves(node: Any, document: RotoDocument) -> None:
    """Replace our layer in a node's curves with the document's shapes."""
    knob = node["curves"]
    text = knob.toScript().strip()
    # Depending on the version, Nuke's toScript includes the knob's own braces or not.
    is_wrapped = text.startswith("{{{")
    inner = text[1:-1] if is_wrapped else text
    updated = nuke_text.update_layer(inner, document, layer=LAYER)
    knob.fromScript("{" + updated + "}" if is_wrapped else updated)
    knob.changed()


def _create_node(nuke: Any, source: Any | None) -> Any:
    for each in nuke.selectedNodes():
        each.setSelected(False)
    node = nuke.createNode("RotoPaint", inpanel=False)
    node.setName(NAME, uncollide=True)
    node.setInput(0, source)
    output = node.knob("output")
    if output is not None:  # otherwise the shapes would be painted white over the plate
        output.setValue("alpha")
    if source is not None:
        node.setXYpos(source.xpos(), source.ypos() + source.screenHeight() + 60)
    return node


def is_input(node: Any, source: Any, index: int = 0) -> bool:
    """Whether the input `index` of a node is `source`."""
    found = node.input(index)
    return found is not None and found.fullName() == source.fullName()


def check_read_size(document: RotoDocument, read: Any) -> None:
    """Raise UsageError where a Read has another size than the shapes: Nuke's y runs up, so all shapes would move."""
    found = read.format()
    size = (int(found.width()), int(found.height()))
    if size != (document.width, document.height):
        raise UsageError(
            f"{read.name()}: is {size[0]} x {size[1]}, the shapes are {document.width} x {document.height}; "
            "give the Read the plate's own format, without a proxy"
        )


@contextmanager
def group_undo(nuke: Any, name: str) -> Iterator[None]:
    """Make everything inside the block one step of Nuke's undo; an error undoes the block."""
    undo = nuke.Undo()
    undo.begin(name)
    try:
        yield
    except BaseException:
        undo.cancel()
        raise
    undo.end()


@contextmanager
def keep_selection(nuke: Any) -> Iterator[None]:
    """Select after the block, also where it fails, exactly the nodes that were selected before it."""
    before = nuke.selectedNodes()
    try:
        yield
    finally:
        for node in nuke.selectedNodes():
            node.setSelected(False)
        for node in before:
            node.setSelected(True)
