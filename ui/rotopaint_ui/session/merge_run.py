"""What to look at while a run goes on. No Qt."""

from __future__ import annotations

from rotopaint_ai.shapes.manual_keys import with_human_keys
from rotopaint_ai.shapes.merge import merge
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ui.session import seam_settings
from rotopaint_ui.session.live_document import LiveDocument


def under_way(own: RotoDocument | None, stream: LiveDocument) -> RotoDocument:
    """What to look at while a run goes on: what has come, and at the other frames what was there."""
    live = stream.document()
    if own is None:
        return live
    came = frozenset(live.landmarks.keys).union(*(shape.keys for shape in live.shapes))
    return with_human_keys(merge(own, live, came), own)
