"""Nuke as a host of the panel: the selected Read gives the plate, an export becomes a RotoPaint node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nuke

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document as roto_document
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_nuke import clean_merge, roto_node
from rotopaint_ui.host import Engine, PlateChoice, find_engine
from rotopaint_ui.panel.panel import Panel

# Nuke's names for the colour spaces that the engine computes itself; other names are passed to OCIO unchanged.
_COLOURSPACES = {"linear": "linear", "srgb": "sRGB", "rec709": "Rec.709", "cineon": "Cineon"}


class NukeHost:
    """The panel's requests to Nuke; to be called only on Nuke's main thread, like everything of Qt."""

    name = "Read"
    export_label = "Export to RotoPaint node"

    def __init__(self) -> None:
        self._source: Any | None = None

    def engine(self) -> Engine:
        """The Python interpreter of the product's installation; never Nuke's own."""
        return find_engine(own_python=False)

    def chosen_plate(self) -> PlateChoice:
        """The plate of the selected Read. Raises UsageError where none, or more than one, is selected."""
        reads = nuke.selectedNodes("Read")
        if len(reads) != 1:
            raise UsageError(f"{len(reads)} Read nodes are selected; select the one with the plate")
        self._source = reads[0]
        return choice_of(reads[0])

    def export(self, document: RotoDocument, shapes: Path) -> str:
        """Make or update the RotoPaint node behind the plate's Read."""
        source = self._source
        if source is not None and not nuke.exists(source.fullName()):
            source = self._source = None
        if source is not None:
            roto_node.check_read_size(document, source)
        node, is_update = roto_node.export(nuke, document, source)
        done = "Updated" if is_update else "Made"
        return f"{done} {node.name()} with {len(document.shapes)} shapes; one undo reverts it"


def set_up_clean(shapes: Path) -> str:
    """Merge a run's clean frames over the selected Read; returns a message for the artist. Raises UsageError."""
    reads = nuke.selectedNodes("Read")
    if len(reads) != 1:
        raise UsageError(f"{len(reads)} Read nodes are selected; select the one with the plate")
    pattern = clean_merge.clean_pattern(shapes)
    if pattern is None:
        raise UsageError(f"{shapes.parent}: holds no clean frames; run again with clean plates")
    document = roto_document.read(shapes)
    merge, is_update = clean_merge.set_up(nuke, reads[0], pattern, (document.first_frame, document.last_frame))
    return f"{'Updated' if is_update else 'Made'} {merge.name()}; one undo reverts it"


def choice_of(read: Any) -> PlateChoice:
    """The plate of a Read node. Raises UsageError where the node names no file."""
    source = nuke.filename(read) or ""
    if not source:
        raise UsageError(f"{read.name()}: has no file; choose the plate in its file knob")
    shift = read.knob("frame")
    if shift is not None and str(shift.value()).strip():
        raise UsageError(
            f"{read.name()}: shifts its frames; clear its frame knob, because shapes use the frame numbers on disk"
        )
    is_sequence = any(sign in source for sign in ("#", "%"))
    frames = f"{int(read['first'].value())}-{int(read['last'].value())}" if is_sequence else None
    return PlateChoice(source, frames, _colourspace(read))


def _colourspace(read: Any) -> str | None:
    """The engine's name of the Read's colour space; None leaves it to the file."""
    raw, knob = read.knob("raw"), read.knob("colorspace")
    if raw is not None and raw.value():
        return "linear"
    name = "default" if knob is None else str(knob.value())
    if name.lower().startswith("default"):  # `default`, or `default (sRGB)`
        return None
    return _COLOURSPACES.get(name.lower(), name)


def create_panel() -> Panel:
    """Create the panel widget, which Nuke docks."""
    return Panel(NukeHost())
