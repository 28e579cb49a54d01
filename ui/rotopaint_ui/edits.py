"""What a hand does to a roto document, over the frames that it means. Each edit returns a new document. No Qt.

`rotopaint_ai.shapes.edit` changes one frame; here an edit reaches every frame that holds the same drawing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from rotopaint_ai.shapes import edit, manual_keys
from rotopaint_ai.shapes.roto import ControlPoint, RotoDocument

Handle = Literal["point", "in", "out"]

human_keys, model_keys, with_human_keys = manual_keys.human_keys, manual_keys.model_keys, manual_keys.with_human_keys

_SMOOTH_COSINE = -0.995  # tangents less than about 6 degrees off a straight line turn together


def move_points(
    document: RotoDocument, shape: str, frames: Iterable[int], indices: Iterable[int], dx: float, dy: float
) -> RotoDocument:
    """Move control points, tangents with them, by (dx, dy) plate pixels at these frames; each becomes a human key."""
    offsets = dict.fromkeys(indices, (dx, dy))
    for frame in frames:
        document = edit.move_points(document, shape, frame, offsets)
    return document


def move_tangent(
    document: RotoDocument,
    shape: str,
    frames: Iterable[int],
    index: int,
    *,
    handle: Handle,
    dx: float,
    dy: float,
    alone: bool,
) -> RotoDocument:
    """Move the end of a tangent by (dx, dy) at these frames.

    The opposite one turns with it and keeps its length, unless it was a corner before or the tangent is moved `alone`.
    """
    for frame in frames:
        point = document.shape(shape).at(frame)[index]
        x, y = (point.in_dx, point.in_dy) if handle == "in" else (point.out_dx, point.out_dy)
        broken = alone or not is_smooth(point)
        document = edit.move_tangent(document, shape, frame, index, handle, (x + dx, y + dy), broken=broken)
    return document


def is_smooth(point: ControlPoint) -> bool:
    """Whether the two tangents lie in one line, so that the curve has no corner there."""
    lengths = math.hypot(point.in_dx, point.in_dy) * math.hypot(point.out_dx, point.out_dy)
    along = point.in_dx * point.out_dx + point.in_dy * point.out_dy
    return lengths > 0 and along / lengths < _SMOOTH_COSINE
