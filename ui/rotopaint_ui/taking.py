"""What to look at while a run goes on. No Qt."""

from __future__ import annotations

from rotopaint_ai.shapes.manual_keys import with_human_keys
from rotopaint_ai.shapes.merge import merge
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.stream import Stream


def under_way(own: RotoDocument | None, stream: Stream) -> RotoDocument:
    """What has come of a run so far, and at the other frames what was there."""
    live = stream.document()
    if own is None:
        return live
    came = frozenset(live.landmarks.keys).union(*(shape.keys for shape in live.shapes))
    return with_human_keys(merge(own, live, came), own)
