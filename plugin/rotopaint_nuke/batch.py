"""RotoPaint nodes without a screen, for `nuke -t` and render farms.

import rotopaint_nuke.batch as batch
batch.build("/shots/010/shapes.roto.json", read="Read1")
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nuke

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document
from rotopaint_nuke import clean_merge, roto_node


def build(shapes: str | Path, *, read: str | None = None, with_clean: bool = False) -> Any:
    """Make or update the RotoPaint node of a `*.roto.json`, behind a Read where one is named; returns the node.

    `with_clean` also sets up the clean frames beside the shapes. Raises UsageError where the Read or the clean frames
    do not exist, DocumentError where the file is not a document.
    """
    path = Path(shapes)
    found = document.read(path)
    source = None if read is None else nuke.toNode(read)
    if read is not None and source is None:
        raise UsageError(f"{read}: no such node in this script; name the plate's Read")
    if source is not None:
        roto_node.check_read_size(found, source)
    node, _ = roto_node.export(nuke, found, source)
    if with_clean:
        add_clean(path, source, (found.first_frame, found.last_frame))
    return node


def add_clean(shapes: Path, source: Any | None, frames: tuple[int, int]) -> Any:
    """Make the Read and Merge of the clean frames beside a run's shapes. Raises UsageError without clean frames."""
    pattern = clean_merge.clean_pattern(shapes)
    if source is None or pattern is None:
        what = "no Read was named" if source is None else f"{shapes.parent / 'clean'} holds no clean frames"
        raise UsageError(f"clean plate: {what}; run with clean plates, and say which Read is the plate")
    return clean_merge.set_up(nuke, source, pattern, frames)[0]
