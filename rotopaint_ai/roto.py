"""Roto documents for other programs: load, edit, evaluate, rasterise, save.

    from rotopaint_ai import roto

    document = roto.load("shapes.nk")                        # any format that `rotopaint convert` reads
    seam = document.shape("nose_seam")
    points = seam.at(1012)                                   # control points, also between keys
    thick = dataclasses.replace(seam, width_px=8.0)          # values are frozen: an edit makes a new value
    roto.save("shapes.roto.json", roto.with_shape(document, thick))
    alpha = roto.rasterise(thick, 1012, document)            # (H, W) float32 coverage; needs numpy

Everything except `rasterise` needs only the standard library.
Convention: plate space, pixels, x right, y down, origin at the outer corner of the top-left pixel, pixel centres at
+0.5; tangents are offsets from their point; frames are the integers on disk.
`schema()` is the JSON Schema of `.roto.json`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import formats
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, Points, RotoDocument, RotoShape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "ControlPoint",
    "DocumentError",
    "Key",
    "Landmark",
    "LandmarkKeys",
    "Points",
    "RotoDocument",
    "RotoShape",
    "load",
    "rasterise",
    "save",
    "schema",
    "with_shape",
]


def load(path: Path | str, *, size: tuple[int, int] | None = None) -> RotoDocument:
    """The document in a file of any format; `size` is the plate's, for files that do not state it.

    Raises UsageError for an unknown suffix, DocumentError where the content does not match the suffix.
    """
    width, height = size or (None, None)
    return formats.read(path, width=width, height=height)[0]


def save(path: Path | str, document: RotoDocument) -> tuple[str, ...]:
    """Write a file in the format of its suffix; returns the losses of that format, one line each.

    The file is read back and compared before it replaces an old one. Raises UsageError, DocumentError.
    """
    return formats.write(path, document)[1]


def with_shape(document: RotoDocument, shape: RotoShape) -> RotoDocument:
    """The document with a shape replaced by name; a shape with a new name is added on top."""
    if any(each.name == shape.name for each in document.shapes):
        return replace(document, shapes=tuple(shape if s.name == shape.name else s for s in document.shapes))
    return replace(document, shapes=(shape, *document.shapes))


def rasterise(shape: RotoShape, frame: int, document: RotoDocument) -> NDArray[np.float32]:
    """The shape's coverage at a frame, (H, W) float32 between 0 and 1, of the document's size.

    Holdout shapes of the document are subtracted, unless the shape is a holdout itself.
    """
    from rotopaint_ai.shapes.rasterise import mattes_of

    away = () if shape.subtract else (each for each in document.shapes if each.subtract and each.name != shape.name)
    drawn = mattes_of((shape, *away), frame, document.width, document.height)
    return drawn[shape.name].paste(document.width, document.height)


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of `.roto.json` that ships with the package."""
    text = files("rotopaint_ai.exchange").joinpath("roto.schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
