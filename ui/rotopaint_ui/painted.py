"""Which frames of the clean plate still fit the shapes: what each was painted from, kept beside it. No Qt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from rotopaint_ai.files import write_text
from rotopaint_ai.project.values import SeamSettings, State
from rotopaint_ai.seams.strokes import Strokes
from rotopaint_ai.shapes.roto import RotoDocument, RotoShape

NAME = "clean.json"
FORMAT = "rotopaint-clean"
NONE: Mapping[int, Strokes] = MappingProxyType({})


def print_of(
    document: RotoDocument, seams: Mapping[str, SeamSettings], frame: int, strokes: Mapping[int, Strokes] = NONE
) -> str:
    """Everything that the paint of a frame depends on, in a few letters; empty where nothing is painted."""
    rows = [_row(shape, seams.get(shape.name), frame) for shape in document.shapes if shape.role == "seam"]
    drawn: list[object] = [row for row in rows if row is not None]
    if drawn and strokes.get(frame):
        drawn.append(strokes[frame])
    return hashlib.blake2b(repr(drawn).encode(), digest_size=8).hexdigest() if drawn else ""


def prints(
    document: RotoDocument,
    seams: Mapping[str, SeamSettings],
    frames: Iterable[int],
    strokes: Mapping[int, Strokes] = NONE,
) -> dict[int, str]:
    """What frames would be painted from now."""
    return {frame: print_of(document, seams, frame, strokes) for frame in frames}


def stale(state: State, frames: Iterable[int], painted: Mapping[int, str]) -> list[int]:
    """Frames whose paint no longer fits, or that have none."""
    if state.document is None:
        return []
    now = prints(state.document, state.seams, frames, state.strokes)
    return [frame for frame, mark in now.items() if painted.get(frame) != mark]


def read(out: Path) -> dict[int, str] | None:
    """What the clean plate in a folder was painted from; None where nobody has noted it."""
    try:
        value = json.loads((out / NAME).read_text(encoding="utf-8"))
        if value["format"] != FORMAT:
            return None
        return {int(frame): str(mark) for frame, mark in value["frames"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write(out: Path, painted: Mapping[int, str]) -> None:
    """Note it. Raises OSError."""
    frames = {str(frame): mark for frame, mark in sorted(painted.items())}
    write_text(out / NAME, json.dumps({"format": FORMAT, "version": 1, "frames": frames}) + "\n")


def _row(shape: RotoShape, seam: SeamSettings | None, frame: int) -> tuple[object, ...] | None:
    points = shape.at(frame)
    if not points or not shape.is_visible(frame):
        return None
    places = tuple(round(value, 3) for point in points for value in point)
    paint = SeamSettings() if seam is None else seam
    taper = tuple(round(share, 4) for share in shape.taper)
    return places, shape.width_px, shape.feather_px, taper, paint.method, paint.grain, paint.strength
