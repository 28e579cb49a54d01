"""Somebody else's mattes: pictures whose brightness says how much of each pixel is seam."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.pipeline.paint_settings import Paint
from rotopaint_ai.pipeline.render_frame import Part, Seams
from rotopaint_ai.plates.plate import Frame, Plate, open_plate
from rotopaint_ai.seams.ribbon import Curve
from rotopaint_ai.seams.skeleton import middle_lines
from rotopaint_ai.shapes.rasterise import Region

Array = npt.NDArray[Any]
NAME = "mattes"


@dataclass(frozen=True, slots=True)
class ExternalMattes:
    """A sequence of mattes of the plate's size; colour files count by their brightest channel, as codes, not light."""

    pictures: Plate

    @classmethod
    def open(cls, source: str, plate: Plate) -> ExternalMattes:
        """Raises: PlateError where there are none; DocumentError where they are of another size than the plate."""
        pictures = open_plate(source)
        got, wanted = (pictures.width, pictures.height), (plate.width, plate.height)
        if got != wanted:
            raise DocumentError(
                f"--mattes {Path(source).name}: {got[0]} x {got[1]}, {plate.name} is {wanted[0]} x {wanted[1]}; "
                "render mattes in the plate's format"
            )
        return cls(pictures)

    def at(self, frame: int) -> Region:
        """The matte of a frame, 0..1, in plate space. Raises: PlateError where the frame is missing or damaged."""
        read = self.pictures.read(frame, keep_native=False)
        codes = read.codes.astype(np.float32).max(axis=2)
        cover = codes / np.float32(read.maximum) if read.maximum else codes
        return Region(*read.origin, np.clip(np.nan_to_num(cover), 0.0, 1.0))


def seams_of(frame: Frame, matte: Region, curves: tuple[Curve, ...], paint: Paint, *, surround_px: int) -> Seams | None:
    """The region of a frame around a lent matte; curves are in plate space, or are made from the matte where none are.

    None where the matte is empty or lies off the frame.
    """
    rows, columns = (np.flatnonzero(matte.coverage.max(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return None
    left, top = matte.x + int(columns[0]) - surround_px, matte.y + int(rows[0]) - surround_px
    width, height = (int(span[-1] - span[0]) + 1 + 2 * surround_px for span in (columns, rows))
    rgb, (x, y) = frame.region(left, top, width, height)
    if rgb.size == 0:
        return None
    cover = _cut(matte, x, y, rgb.shape[1], rgb.shape[0])
    if not cover.any():
        return None
    moved = tuple((np.asarray(line) - (x, y), half) for line, half in curves) or tuple(middle_lines(cover > 0))
    return Seams(x, y, rgb, cover, moved, (Part(cover, moved, paint),))


def _cut(matte: Region, x: int, y: int, width: int, height: int) -> Array:
    whole = replace(matte, x=matte.x - x, y=matte.y - y)
    return whole.paste(width, height)
