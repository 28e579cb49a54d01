"""The clean plate in the comp: a Read of the clean frames, merged over the plate inside our shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rotopaint_ai.errors import UsageError
from rotopaint_nuke import roto_node

CLEAN = "RotoPaint_AI_Clean"
MERGE = "RotoPaint_AI_Patch"


def set_up(nuke: Any, source: Any, clean: str, frames: tuple[int, int]) -> tuple[Any, bool]:
    """Merge the clean frames over a plate inside the alpha of our RotoPaint node; returns the Merge and if it existed.

    `nuke` is Nuke's module, `source` the plate's Read, `clean` the clean frames' pattern (`.../plate.####.exr`). A
    second call updates the Read's file and range. All is one undo step, and the selection does not change. Raises
    UsageError where the plate has no RotoPaint node of ours yet.
    """
    shapes = roto_node.find(nuke, source)
    if shapes is None:
        raise UsageError(f"{source.name()}: has no {roto_node.NAME} node yet; export the shapes first")
    with roto_node.group_undo(nuke, "RotoPaint AI clean plate"), roto_node.keep_selection(nuke):
        read = _node_named(nuke, "Read", CLEAN, lambda node: _clean_of(nuke, node, source))
        if read is None:
            read = _new(nuke, "Read", CLEAN, source, 160)
        _fill_read(read, source, clean, frames)
        merge = _node_named(nuke, "Merge2", MERGE, lambda node: roto_node.is_input(node, source))
        is_update = merge is not None
        if merge is None:
            merge = _new(nuke, "Merge2", MERGE, source, 320)
        for index, node in enumerate((source, read, shapes)):  # B, A, mask
            merge.setInput(index, node)
        _set_knobs(merge, operation="copy", maskChannelMask="rgba.alpha")
    return merge, is_update


def clean_pattern(shapes: Path) -> str | None:
    """The pattern of the clean frames of a run with shapes at `DIR/shapes.roto.json`; None without clean frames."""
    found = sorted(path for path in (shapes.parent / "clean").glob("*.*.*") if path.suffix != ".json")
    if not found:
        return None
    head, number = found[0].stem.rsplit(".", 1)
    return f"{found[0].parent.as_posix()}/{head}.{'#' * len(number)}{found[0].suffix}"


def _clean_of(nuke: Any, read: Any, source: Any) -> bool:
    """Whether `read` is our Read of the clean frames for this source."""
    merges = [node for node in nuke.allNodes("Merge2") if node.name().startswith(MERGE)]
    return any(roto_node.is_input(node, source) and roto_node.is_input(node, read, 1) for node in merges)


def _node_named(nuke: Any, kind: str, name: str, fits: Any) -> Any | None:
    return next((node for node in nuke.allNodes(kind) if node.name().startswith(name) and fits(node)), None)


def _new(nuke: Any, kind: str, name: str, source: Any, below: int) -> Any:
    for each in nuke.selectedNodes():
        each.setSelected(False)
    node = nuke.createNode(kind, inpanel=False)
    node.setName(name, uncollide=True)
    node.setXYpos(source.xpos() + 110, source.ypos() + below)
    return node


def _fill_read(read: Any, source: Any, clean: str, frames: tuple[int, int]) -> None:
    """Set file, range and colour space of the clean frames; the colour space is that of the plate."""
    first, last = frames
    _set_knobs(read, file=clean, first=first, last=last, origfirst=first, origlast=last)
    for name in ("colorspace", "raw"):
        theirs = source.knob(name)
        if theirs is not None:
            _set_knobs(read, **{name: theirs.value()})


def _set_knobs(node: Any, **values: Any) -> None:
    for name, value in values.items():
        knob = node.knob(name)
        if knob is not None:
            knob.setValue(value)
