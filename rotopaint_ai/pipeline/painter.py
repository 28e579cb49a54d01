"""Paints frames of finished shapes, or under external mattes, one by one and in any order; removes rigs.

H, W rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import DocumentError, RotopaintError
from rotopaint_ai.pipeline.executor import FrameMemo
from rotopaint_ai.pipeline.hold_outs import Fronts
from rotopaint_ai.pipeline.render_frame import (
    SURROUND_PX,
    FilledRegion,
    Format,
    SeamPart,
    Seams,
    apply_strokes,
    check_measurable,
    check_same_size,
    draw_mattes,
    look_at_seams,
    patch_name,
    write_filled,
    write_patch,
)
from rotopaint_ai.plates.plate import Frame, Plate, open_plate
from rotopaint_ai.seams import groove_width, rig
from rotopaint_ai.seams.cleanplate import FAINTEST
from rotopaint_ai.seams.learned_fill import LearnedFill
from rotopaint_ai.seams.matte import FLATNESS_PX, seam_curves
from rotopaint_ai.seams.paint_settings import Paint, PaintTable
from rotopaint_ai.seams.ribbon import WideCurve
from rotopaint_ai.seams.rig import Loan
from rotopaint_ai.seams.skeleton import middle_lines
from rotopaint_ai.seams.strokes import Strokes
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.rasterise import Region, union
from rotopaint_ai.shapes.roto import RotoShape

Array = npt.NDArray[Any]

APART = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96)  # offsets of source frames, before and after; then the shot's ends
ENOUGH = 3  # source frames at every pixel of a hole, whatever their motion: no more frames are read
KEPT = 16  # source frames in memory
KEPT_CLEAN = 4  # frames of the clean plate in memory
TILES_PX = 2 * rig.TILE_PX  # least width of the surroundings that are searched for patches
EDGE_PX = 3  # around a rig in another frame: its soft edge is not used


@dataclass(frozen=True, slots=True)
class Rig:
    """The options of `clean --rig`: the names of a rig's shapes (empty: all closed shapes), and a clean plate.

    If one picture of a numbered sequence is given, only that picture is used.
    """

    names: frozenset[str] = frozenset()
    clean_plate: Plate | None = None

    @classmethod
    def open(cls, plate: Plate, names: frozenset[str], clean_plate: str | None) -> Rig:
        """The rig with its clean plate open. Raises: PlateError where there is none; DocumentError where its size
        differs."""
        if clean_plate is None:
            return cls(names)
        found = open_plate(clean_plate)
        size = (found.width, found.height)
        check_same_size(f"--clean-plate {found.name}:", size, plate, "take one of the plate's format")
        return cls(names, found)

    @property
    def clean_frames(self) -> Sequence[int]:
        """The frames of the clean plate."""
        if self.clean_plate is None:
            return ()
        return self.clean_plate.frames if self.clean_plate.named_frame is None else (self.clean_plate.named_frame,)

    def shapes_of(self, shapes: Sequence[RotoShape]) -> list[RotoShape]:
        """The shapes of the rig. Raises: DocumentError for unknown names, and where no shape is left."""
        own = [shape for shape in shapes if (shape.name in self.names if self.names else shape.closed)]
        if unknown := sorted(self.names - {shape.name for shape in own}):
            there = ", ".join(shape.name for shape in shapes)
            raise DocumentError(f"--only: '{unknown[0]}' is no shape of the document; it has {there}")
        if not own:
            raise DocumentError("shapes: none is closed, there is no rig to take off; draw around it")
        return own


@dataclass(frozen=True, slots=True, eq=False)
class _Picture:
    """A whole picture (H, W, 3), a mask (H, W) of its pixels away from the rig, and its top-left pixel on the plate."""

    rgb: Array
    free: Array
    origin: tuple[int, int]


class RigPainter:
    """Fills the rig's mattes of frames; thread-safe.

    `matte_of`: the matte of a frame. `frames`: all frames of the shot that can serve as sources.
    """

    def __init__(self, plate: Plate, frames: Sequence[int], matte_of: Callable[[int], Region], rig: Rig) -> None:
        self._plate = plate
        self._frames = frozenset(frames)
        self._matte_of = matte_of
        self._clean_plate, self._clean_frames = rig.clean_plate, rig.clean_frames
        self._lending = FrameMemo(self._read_loan, kept=KEPT)
        self._clean = FrameMemo(self._of_clean_plate, kept=KEPT_CLEAN)

    def fill_frame(self, frame: Frame) -> FilledRegion | None:
        """The region of a frame around its rig with the rig filled; None where no rig is in the picture."""
        matte = self._matte_of(frame.number)
        height, width = matte.coverage.shape
        by = SURROUND_PX + max(TILES_PX, int(rig.REACH * min(height, width)))
        rgb, (x, y) = frame.region(matte.x - by, matte.y - by, width + 2 * by, height + 2 * by)
        cover = Region(matte.x - x, matte.y - y, matte.coverage).paste(rgb.shape[1], rgb.shape[0])
        if not cover.any():
            return None
        now = _Picture(frame.rgb, _free_of_rig(matte, frame), frame.origin)
        done = rig.fill(rgb, cover, self._loans(now, frame.number, cover, (x, y)))
        return FilledRegion(Seams(x, y, rgb, cover, (), (SeamPart(cover, (), Paint()),)), done.rgb, done.shares)

    def _loans(self, now: _Picture, number: int, cover: Array, corner: tuple[int, int]) -> Iterator[Loan]:
        """Yield the clean plate as a source, then nearby frames until each remaining pixel has ENOUGH sources."""
        points = rig.FreePoints(now.rgb, now.free)
        open_yet = cover > 0
        if self._clean_frames:
            nearest = min(self._clean_frames, key=lambda each: abs(each - number))
            for loan in _align_loans(now, points, self._clean.at(nearest), cover.shape, corner, is_plate=True):
                open_yet &= ~loan.free
                yield loan
        n_frames = np.zeros(cover.shape, np.intp)
        for other in self._near(number):
            if not (open_yet & (n_frames < ENOUGH)).any():
                return
            picture = self._lending.at(other)
            if picture is not None:
                loans = _align_loans(now, points, picture, cover.shape, corner, is_plate=False)
                n_frames += np.logical_and.reduce([loan.free for loan in loans])
                yield from loans

    def _near(self, number: int) -> list[int]:
        there = self._frames
        asked = [number + sign * apart for apart in APART for sign in (-1, 1)]
        asked += [min(there, default=number), max(there, default=number)]
        return [each for each in dict.fromkeys(asked) if each in there and each != number]

    def _of_clean_plate(self, number: int) -> _Picture:
        assert self._clean_plate is not None
        read = self._clean_plate.read(number, keep_native=False)
        return _Picture(read.rgb, np.ones(read.rgb.shape[:2], bool), read.origin)

    def _read_loan(self, number: int) -> _Picture | None:
        """Another frame and its area without the rig; None where it cannot be read, which is reported at its own
        turn."""
        try:
            read = self._plate.read(number, keep_native=False)
            return _Picture(read.rgb, _free_of_rig(self._matte_of(number), read), read.origin)
        except RotopaintError:
            return None


def event_facts(filled: FilledRegion) -> Mapping[str, float]:
    """Facts for a frame's event: each source's share of the filled hole."""
    return {f"rig_{name}": share for name, share in filled.chosen.items()}


def _free_of_rig(matte: Region, frame: Frame) -> Array:
    """Pixels of a frame (H, W) away from its rig."""
    height, width = frame.rgb.shape[:2]
    cover = Region(matte.x - frame.origin[0], matte.y - frame.origin[1], matte.coverage).paste(width, height)
    side = 2 * EDGE_PX + 1
    return np.asarray(cv2.dilate((cover > 0).astype(np.uint8), np.ones((side, side), np.uint8)) == 0)


def _align_loans(
    now: _Picture,
    points: rig.FreePoints,
    other: _Picture,
    shape: tuple[int, ...],
    corner: tuple[int, int],
    *,
    is_plate: bool,
) -> list[Loan]:
    """Another picture aligned to a region of this one (top-left plate pixel `corner`), once for each found motion."""
    same = now.rgb.shape == other.rgb.shape
    at, size = np.array(corner, float) - now.origin, (shape[1], shape[0])
    mask = other.free.astype(np.uint8) * 255
    found = []
    for whole in points.motions_to(other.rgb) if same else [np.eye(2, 3)]:
        move = np.column_stack([whole[:, :2], whole[:, :2] @ at + whole[:, 2]])
        is_still = bool(np.array_equal(move[:, :2], np.eye(2)))
        flags = (cv2.INTER_NEAREST if is_still else cv2.INTER_CUBIC) | cv2.WARP_INVERSE_MAP
        rgb = cv2.warpAffine(other.rgb, move, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
        free = cv2.warpAffine(mask, move, size, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, borderValue=0)
        found.append(Loan(np.asarray(rgb), np.asarray(free >= 254), is_plate))
    return found


MATTES_NAME = "mattes"
NOT_PAINTED = "not_painted"  # the fact of a frame in which no pixel has changed


@dataclass(frozen=True, slots=True)
class Painter:
    """Paints one frame at a time; thread-safe."""

    plate: Plate
    out: Path
    shapes: Sequence[RotoShape]
    mattes: ExternalMattes | None
    paints: PaintTable
    model: LearnedFill | None
    patch: bool
    strokes: Mapping[int, Strokes] = field(default_factory=dict)
    measures_widths: bool = False
    rigs: RigPainter | None = None
    fronts: Fronts | None = None

    @classmethod
    def of(
        cls,
        plate: Plate,
        frames: Sequence[int],
        *,
        out: Path,
        shapes: Sequence[RotoShape],
        mattes: ExternalMattes | None,
        paints: PaintTable,
        model: LearnedFill | None,
        patch: bool,
        strokes: Mapping[int, Strokes] | None = None,
        measures_widths: bool = False,
        rig: Rig | None = None,
        fronts: Fronts | None = None,
    ) -> Painter:
        """`frames`: all frames that could be painted; rigs borrow pixels from those near a painted one. `fronts`: what
        stands in front of the face, to be held out of the paint.

        Raises: DocumentError where a rig has no shapes.
        """
        painter = cls(plate, out, shapes, mattes, paints, model, patch, strokes or {}, measures_widths, fronts=fronts)
        if rig is None:
            return painter
        own = rig.shapes_of(shapes) if mattes is None else ()
        return replace(painter, shapes=own, rigs=RigPainter(plate, frames, replace(painter, shapes=own).matte, rig))

    def paint(self, number: int) -> Mapping[str, float]:
        """Write a frame's clean plate, and its patch if requested; returns the seams' visibility before and after.

        Raises: PlateError where the frame cannot be read, or the face in it has no finite pixels.
        """
        frame, format = self.plate.read(number), Format.of(self.plate)
        filled = self.fill_frame(frame)
        filled = apply_strokes(frame, filled, self.strokes.get(number, ()), self.neighbour)
        check_measurable(number, filled)
        write_filled(self.out / format.clean_name(number), frame, filled)
        if self.patch:
            write_patch(self.out / patch_name(number, format), filled, format)
        if filled is None:
            return {NOT_PAINTED: 1.0}
        untouched = {NOT_PAINTED: 1.0} if np.array_equal(filled.after, filled.seams.rgb) else {}
        return {**(_seam_scores(filled) if self.rigs is None else event_facts(filled)), **untouched}

    def neighbour(self, number: int) -> Frame:
        """Another frame of the plate, to be read only."""
        return self.plate.read(number, keep_native=False)

    def fill_frame(self, frame: Frame) -> FilledRegion | None:
        """A frame's region with its seams or its rig painted out; None where none is visible."""
        if self.rigs is not None:
            return self.rigs.fill_frame(frame)
        seams = self.look(frame)
        return seams.filled(self.model) if seams is not None else None

    def matte(self, number: int) -> Region:
        """The union of all mattes of a frame, in plate space. Raises: PlateError where an external one is missing."""
        if self.mattes is not None:
            return self.mattes.at(number)
        mattes = draw_mattes(self.shapes, number, Format.of(self.plate))
        return union(mattes.regions.values())

    def look(self, frame: Frame) -> Seams | None:
        """The region around a frame's seams; None where none is visible."""
        if self.mattes is None:
            shapes = (
                [self._with_measured_width(shape, frame) for shape in self.shapes]
                if self.measures_widths
                else self.shapes
            )
            mattes = draw_mattes(shapes, frame.number, Format.of(self.plate))
            if self.fronts is not None:
                mattes = replace(mattes, front=self.fronts.at(frame))
            return look_at_seams(frame, mattes, shapes, self.paints)
        curves = tuple(seam_curves(self.shapes, frame.number))
        return seams_from_matte(frame, self.mattes.at(frame.number), curves, self.paints.every, surround_px=SURROUND_PX)

    def _with_measured_width(self, shape: RotoShape, frame: Frame) -> RotoShape:
        """An open seam with its measured width in this frame; unchanged where no width can be measured."""
        if shape.role != "seam" or shape.closed or not shape.keys or not shape.is_visible(frame.number):
            return shape
        line = bezier.flatten(bezier.as_array(shape.at(frame.number)), False, FLATNESS_PX)
        if len(line) < 2:
            return shape
        low, high = np.floor(line.min(0)).astype(int) - SURROUND_PX, np.ceil(line.max(0)).astype(int) + SURROUND_PX
        rgb, corner = frame.region(int(low[0]), int(low[1]), *(int(v) for v in high - low))
        face_px = groove_width.face_px(self.shapes, frame.number)
        found = groove_width.shape_width(rgb, line - np.asarray(corner), face_px) if rgb.size else None
        return shape if found is None else replace(shape, width_px=round(2.0 * found) / 2.0)


def _seam_scores(filled: FilledRegion) -> dict[str, float]:
    """The visibility of a region's seams in the plate and after painting, by the names of `run`'s events."""
    seams = filled.seams
    before = seams.seen if seams.seen is not None else seams.look(seams.rgb)
    return {"seam_before": round(before.score, 4), "seam_after": round(seams.look(filled.after).score, 4)}


@dataclass(frozen=True, slots=True)
class ExternalMattes:
    """A sequence of mattes of the plate's size.

    In colour files the brightest colour's code counts; where all colours are black, alpha, as Nuke's Roto writes it,
    unless it is 1 everywhere. Coverage up to FAINTEST, as of a file with a floor, counts as none.
    """

    pictures: Plate

    @classmethod
    def open(cls, source: str, plate: Plate) -> ExternalMattes:
        """Raises: PlateError where there are none; DocumentError where they are of another size than the plate, or a
        run's mattes of all shapes, most of which are no seams."""
        pictures = open_plate(source)
        named = pictures.matte_names(pictures.frames[0]) if Path(source).name.startswith("all.") else ()
        others = [name for name in named if not name.lower().startswith("seam")]
        if others:
            raise DocumentError(
                f"--mattes {Path(source).name}: covers all shapes of a run, {', '.join(others[:3])} as well; give the "
                "mattes of a seam, or the shapes in place of mattes"
            )
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
        cover = _above_floor(codes / np.float32(read.maximum) if read.maximum else codes)
        if not cover.any():
            alpha = self.pictures.matte_channels(frame)
            is_matte = alpha is not None and alpha.shape == cover.shape and not (alpha >= 1.0).all()
            cover = _above_floor(alpha) if is_matte and alpha is not None else cover
        return Region(*read.origin, cover)


def _above_floor(cover: Array) -> Array:
    """Coverage from 0 to 1, with zeros where no paint goes."""
    clipped = np.clip(np.nan_to_num(cover), 0.0, 1.0)
    return np.where(clipped > FAINTEST, clipped, np.float32(0.0))


def seams_from_matte(
    frame: Frame, matte: Region, curves: tuple[WideCurve, ...], paint: Paint, *, surround_px: int
) -> Seams | None:
    """The region of a frame around a matte; without `curves` (plate space), middle lines of the matte are its curves.

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
    return Seams(x, y, rgb, cover, moved, (SeamPart(cover, moved, paint),))


def _matte_in_region(matte: Region, x: int, y: int, width: int, height: int) -> Array:
    whole = replace(matte, x=matte.x - x, y=matte.y - y)
    return whole.paste(width, height)
