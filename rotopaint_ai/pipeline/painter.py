"""Paints frames of finished shapes, or under external mattes, one by one and in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rotopaint_ai.pipeline.paint_settings import Paint, Paints
from rotopaint_ai.pipeline.render_frame import (
    SURROUND_PX,
    Filled,
    Format,
    Part,
    Seams,
    check_measurable,
    check_same_size,
    draw_mattes,
    look_at_seams,
    patch_name,
    touched_up,
    write_filled,
    write_patch,
)
from rotopaint_ai.pipeline.rig_painter import Rig, RigPainter
from rotopaint_ai.pipeline.rig_painter import shown as shares_of
from rotopaint_ai.plates.plate import Frame, Plate, open_plate
from rotopaint_ai.seams import width
from rotopaint_ai.seams.learned import FillModel
from rotopaint_ai.seams.matte import FLATNESS_PX, seam_curves
from rotopaint_ai.seams.ribbon import Curve
from rotopaint_ai.seams.skeleton import middle_lines
from rotopaint_ai.seams.strokes import Strokes
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.rasterise import Region, union
from rotopaint_ai.shapes.roto import RotoShape

Array = npt.NDArray[Any]
MATTES_NAME = "mattes"


@dataclass(frozen=True, slots=True)
class Painter:
    """Paints one frame at a time; may be asked from several threads."""

    plate: Plate
    out: Path
    shapes: Sequence[RotoShape]
    mattes: ExternalMattes | None
    paints: Paints
    model: FillModel | None
    patch: bool
    strokes: Mapping[int, Strokes] = field(default_factory=dict)
    measures_widths: bool = False
    rigs: RigPainter | None = None

    @classmethod
    def of(
        cls,
        plate: Plate,
        frames: Sequence[int],
        *,
        out: Path,
        shapes: Sequence[RotoShape],
        mattes: ExternalMattes | None,
        paints: Paints,
        model: FillModel | None,
        patch: bool,
        strokes: Mapping[int, Strokes] | None = None,
        measures_widths: bool = False,
        rig: Rig | None = None,
    ) -> Painter:
        """`frames`: all that could be painted; rigs ask those around the ones that are.

        Raises: DocumentError where a rig has no shapes.
        """
        painter = cls(plate, out, shapes, mattes, paints, model, patch, strokes or {}, measures_widths)
        if rig is None:
            return painter
        own = rig.shapes_of(shapes) if mattes is None else ()
        return replace(painter, shapes=own, rigs=RigPainter(plate, frames, replace(painter, shapes=own).matte, rig))

    def paint(self, number: int) -> Mapping[str, float]:
        """Write a frame's clean plate, and its patch where that is wanted; how much its seams show before and after.

        Raises: PlateError where the frame cannot be read, or the face in it has no finite pixels.
        """
        frame, format = self.plate.read(number), Format.of(self.plate)
        filled = self.filled(frame)
        filled = touched_up(frame, filled, self.strokes.get(number, ()), self.neighbour)
        check_measurable(number, filled)
        write_filled(self.out / format.clean_name(number), frame, filled)
        if self.patch:
            write_patch(self.out / patch_name(number, format), filled, format)
        if filled is None:
            return {}
        return _seam_scores(filled) if self.rigs is None else shares_of(filled)

    def neighbour(self, number: int) -> Frame:
        """Another frame of the plate, to be looked at and never written."""
        return self.plate.read(number, keep_native=False)

    def filled(self, frame: Frame) -> Filled | None:
        """A frame's region with its seams painted away, or its rig; None where none is to be seen."""
        if self.rigs is not None:
            return self.rigs.filled(frame)
        seams = self.look(frame)
        return seams.filled(self.model) if seams is not None else None

    def matte(self, number: int) -> Region:
        """The union of all mattes of a frame, in plate space. Raises: PlateError where an external one is missing."""
        if self.mattes is not None:
            return self.mattes.at(number)
        mattes = draw_mattes(self.shapes, number, Format.of(self.plate))
        return union(mattes.regions.values())

    def look(self, frame: Frame) -> Seams | None:
        """The region around a frame's seams; None where none is to be seen."""
        if self.mattes is None:
            shapes = (
                [self._with_measured_width(shape, frame) for shape in self.shapes]
                if self.measures_widths
                else self.shapes
            )
            mattes = draw_mattes(shapes, frame.number, Format.of(self.plate))
            return look_at_seams(frame, mattes, shapes, self.paints)
        curves = tuple(seam_curves(self.shapes, frame.number))
        return seams_from_matte(frame, self.mattes.at(frame.number), curves, self.paints.every, surround_px=SURROUND_PX)

    def _with_measured_width(self, shape: RotoShape, frame: Frame) -> RotoShape:
        """An open seam with the width that its banks show in this frame; others, and where none shows, as they are."""
        if shape.role != "seam" or shape.closed or not shape.keys or not shape.is_visible(frame.number):
            return shape
        line = bezier.flatten(bezier.as_array(shape.at(frame.number)), False, FLATNESS_PX)
        if len(line) < 2:
            return shape
        low, high = np.floor(line.min(0)).astype(int) - SURROUND_PX, np.ceil(line.max(0)).astype(int) + SURROUND_PX
        rgb, corner = frame.region(int(low[0]), int(low[1]), *(int(v) for v in high - low))
        face_px = width.face_px(self.shapes, frame.number)
        found = width.of_shape(rgb, line - np.asarray(corner), face_px) if rgb.size else None
        return shape if found is None else replace(shape, width_px=round(2.0 * found) / 2.0)


def _seam_scores(filled: Filled) -> dict[str, float]:
    """How much the seams of a region show, in the plate and painted; as the events of `run` name it."""
    seams = filled.seams
    before = seams.seen if seams.seen is not None else seams.look(seams.rgb)
    return {"seam_before": round(before.score, 4), "seam_after": round(seams.look(filled.after).score, 4)}


@dataclass(frozen=True, slots=True)
class ExternalMattes:
    """A sequence of mattes of the plate's size; colour files count by their brightest channel, as codes, not light."""

    pictures: Plate

    @classmethod
    def open(cls, source: str, plate: Plate) -> ExternalMattes:
        """Raises: PlateError where there are none; DocumentError where they are of another size than the plate."""
        pictures = open_plate(source)
        check_same_size(
            f"--mattes {Path(source).name}:",
            (pictures.width, pictures.height),
            plate,
            "render mattes in the plate's format",
        )
        return cls(pictures)

    def at(self, frame: int) -> Region:
        """The matte of a frame, 0..1, in plate space. Raises: PlateError where the frame is missing or damaged."""
        read = self.pictures.read(frame, keep_native=False)
        codes = read.codes.astype(np.float32).max(axis=2)
        cover = codes / np.float32(read.maximum) if read.maximum else codes
        return Region(*read.origin, np.clip(np.nan_to_num(cover), 0.0, 1.0))


def seams_from_matte(
    frame: Frame, matte: Region, curves: tuple[Curve, ...], paint: Paint, *, surround_px: int
) -> Seams | None:
    """The region of a frame around a matte; curves are in plate space, or are made from the matte where none are.

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
    cover = _matte_in_region(matte, x, y, rgb.shape[1], rgb.shape[0])
    if not cover.any():
        return None
    moved = tuple((np.asarray(line) - (x, y), half) for line, half in curves) or tuple(middle_lines(cover > 0))
    return Seams(x, y, rgb, cover, moved, (Part(cover, moved, paint),))


def _matte_in_region(matte: Region, x: int, y: int, width: int, height: int) -> Array:
    whole = replace(matte, x=matte.x - x, y=matte.y - y)
    return whole.paste(width, height)
