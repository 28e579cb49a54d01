"""Checks of the content of a project file, which may come from anybody, before a screen or a run uses it.

Standard library only. Each check raises ValueError or DocumentError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from rotopaint_ai.exchange import document as documents
from rotopaint_ai.exchange.limits import check_frames, check_metadata
from rotopaint_ai.project.state import State
from rotopaint_ai.shapes.roto import RotoDocument

_PLATE: Final[Mapping[str, tuple[type, ...]]] = {
    **{"source": (str,), "name": (str,), "width": (int,), "height": (int,)},
    "colourspace": (str, type(None)),
}
_KINDS: Final[Mapping[str, type]] = {"position": int, "sum": list, "out": str, "learnt": str, "shapes": str}


def check_state(state: State) -> None:
    """Refuse a document that no `.roto.json` could hold."""
    of_others = [each for face in state.faces.values() for each in (face.document, face.predicted)]
    for each in (state.document, state.predicted, *of_others):
        if each is not None:
            _check_document(each)


def check_note(name: str, value: Any) -> None:
    """Refuse a note of a type that this program does not write: most notes are objects."""
    if value is None:
        return
    wanted: Any = _KINDS.get(name, dict)
    if type(value) is not wanted:
        raise ValueError(f"the note '{name}' is {str(value)[:40]!r}")
    for field, kinds in _PLATE.items():
        if name == "plate" and field in value and type(value[field]) not in kinds:
            raise ValueError(f"the plate's {field} is {str(value[field])[:40]!r}")


def _check_document(document: RotoDocument) -> None:
    """Check a document with the reader of documents, without the numbers of its keys.

    There may be half a million keys, and each has a checksum.
    """
    bare = tuple(replace(shape, keys={}, metadata={}) for shape in document.shapes)
    marks = replace(document.landmarks, keys={})
    documents.loads(documents.dumps(replace(document, shapes=bare, landmarks=marks, metadata={})))
    check_frames(document, "document")
    check_metadata((document.metadata, *(shape.metadata for shape in document.shapes)), "document")
    for shape in document.shapes:
        if len({len(key.points) for key in shape.keys.values()}) > 1:
            raise ValueError(f"control points of {shape.name[:40]!r} change in number")
    wanted = len(document.landmarks.names)
    if any(len(row) != wanted for row in document.landmarks.keys.values()):
        raise ValueError("a frame has more or fewer landmarks than there are names")
