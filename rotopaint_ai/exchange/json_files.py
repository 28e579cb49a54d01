"""JSON files whose suffix does not name a format: recognised by their content, never written.

Standard library only.
"""

from __future__ import annotations

from pathlib import Path

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import aftereffects, blender, coco, document, labelme, lottie, parsing
from rotopaint_ai.exchange.format_spec import FormatSpec
from rotopaint_ai.exchange.parsing import ReadResult
from rotopaint_ai.shapes.roto import RotoDocument

_WANTED = "COCO or labelme annotations, Lottie, or a dump of Blender's or After Effects' masks"


def read(path: Path, width: int | None, height: int | None) -> tuple[RotoDocument, tuple[str, ...]]:
    """The document in a JSON file of any known format. Raises DocumentError."""
    found = loads(parsing.text_of(path), width=width, height=height, where=path.name)
    return found.document, found.losses


def loads(text: str, *, width: int | None = None, height: int | None = None, where: str = "file") -> ReadResult:
    """The document in a JSON text of any known format. Raises DocumentError."""
    data = parsing.json_of(text, where, wanted=_WANTED)
    form = data.get("format") if isinstance(data, dict) else None
    size = {"width": width, "height": height}
    if form == document.FORMAT:
        return ReadResult(document.loads(text, where=where))
    if form == blender.FORMAT:
        return blender.loads(text, **size, where=where)
    if form == aftereffects.FORMAT:
        return aftereffects.loads(text, **size, where=where)
    if lottie.is_lottie(data):
        return lottie.loads(text, **size, where=where)
    if isinstance(data, dict) and "annotations" in data:
        return coco.loads(text, **size, where=where)
    if isinstance(data, dict) and isinstance(data.get("shapes"), list):
        return labelme.loads(text, **size, where=where)
    raise DocumentError(f"{where}: is not a known JSON format; wanted {_WANTED}")


FORMAT = FormatSpec("JSON", (".json",), "recognised by content: COCO, labelme, Lottie, dumps", read, None)
