"""The RotoPaint node that an export makes: built from text in one step; an update leaves the artist's shapes alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import nuke as nuke_text
from rotopaint_ai.shapes.roto import RotoDocument

NAME = "RotoPaint_AI"
LAYER = "RotoPaint_AI"  # our shapes lie in this layer; all others are the artist's


def export(nuke: Any, document: RotoDocument, source: Any | None) -> tuple[Any, bool]:
    """Put a document into a RotoPaint node behind `source`; returns the node, and whether it was there before.

    `nuke` is Nuke's module. An earlier node of ours behind the same source is updated: our layer is replaced, all that
    the artist added stays. The whole is one undo step, and the selection is what it was.
    """
    with one_undo(nuke, "RotoPaint AI export"), selection_kept(nuke):
        node = find(nuke, source)
        is_update = node is not None
        if node is None:
            node = _create_node(nuke, source)
        write_curves(node, document)
    return node, is_update


def find(nuke: Any, source: Any | None) -> Any | None:
    """Our node behind a source, if there is one."""
    for node in nuke.allNodes("RotoPaint"):
        if node.name().startswith(NAME) and (source is None or is_input(node, source)):
            return node
    return None


def write_curves(node: Any, document: RotoDocument) -> None:
    """Replace our layer in a node's curves with the document's shapes."""
    knob = node["curves"]
    text = knob.toScript().strip()
    is_wrapped = text.startswith("{{{")  # the knob's own braces are there or not, as this Nuke's toScript has it
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
    if output is not None:  # else the shapes would be painted white over the plate
        output.setValue("alpha")
    if source is not None:
        node.setXYpos(source.xpos(), source.ypos() + source.screenHeight() + 60)
    return node


def is_input(node: Any, source: Any, index: int = 0) -> bool:
    """Whether a node's input is that node."""
    found = node.input(index)
    return found is not None and found.fullName() == source.fullName()


def check_read_size(document: RotoDocument, read: Any) -> None:
    """Raises UsageError where a Read is of another size than the shapes: y runs up in Nuke, so all would be moved."""
    found = read.format()
    size = (int(found.width()), int(found.height()))
    if size != (document.width, document.height):
        raise UsageError(
            f"{read.name()}: is {size[0]} x {size[1]}, the shapes are {document.width} x {document.height}; "
            "give the Read the plate's own format, without a proxy"
        )


@contextmanager
def one_undo(nuke: Any, name: str) -> Iterator[None]:
    """Everything inside is one step of Nuke's undo; an error takes back what was done before it."""
    undo = nuke.Undo()
    undo.begin(name)
    try:
        yield
    except BaseException:
        undo.cancel()
        raise
    undo.end()


@contextmanager
def selection_kept(nuke: Any) -> Iterator[None]:
    before = nuke.selectedNodes()
    try:
        yield
    finally:
        for node in nuke.selectedNodes():
            node.setSelected(False)
        for node in before:
            node.setSelected(True)
