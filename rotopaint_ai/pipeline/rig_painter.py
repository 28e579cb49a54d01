"""Rigs of a shot taken off frame by frame: where what hides behind them is to be had.

H, W rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import DocumentError, RotopaintError
from rotopaint_ai.pipeline.executor import KeptByFrame
from rotopaint_ai.pipeline.paint_settings import Paint
from rotopaint_ai.pipeline.render_frame import SURROUND_PX, Filled, Part, Seams, check_same_size
from rotopaint_ai.plates.plate import Frame, Plate, open_plate
from rotopaint_ai.seams import rig
from rotopaint_ai.seams.rig import Loan
from rotopaint_ai.shapes.rasterise import Region
from rotopaint_ai.shapes.roto import RotoShape

Array = npt.NDArray[Any]

APART = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96)  # frames, before and after, that are asked; then the shot's ends
ENOUGH = 3  # loans at every pixel of a hole: no more frames are asked
KEPT = 16  # frames that lend, in memory
KEPT_CLEAN = 4  # frames of the clean plate
TILES_PX = 2 * rig.TILE_PX  # of surroundings that pieces are looked for in, at least
EDGE_PX = 3  # around a rig in another frame: its soft edge is not lent


@dataclass(frozen=True, slots=True)
class Rig:
    """What `clean --rig` says: the names of a rig's shapes, none for all closed ones, and a clean plate.

    A picture of a numbered sequence that is named itself is that picture alone.
    """

    names: frozenset[str] = frozenset()
    clean_plate: Plate | None = None

    @classmethod
    def open(cls, plate: Plate, names: frozenset[str], clean_plate: str | None) -> Rig:
        """Raises: PlateError where there is no clean plate; DocumentError where it is of another size."""
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
        return self.clean_plate.frames if self.clean_plate.named is None else (self.clean_plate.named,)

    def shapes_of(self, shapes: Sequence[RotoShape]) -> list[RotoShape]:
        """Those shapes that are the rig's. Raises: DocumentError for names that are none, and where there are none."""
        own = [shape for shape in shapes if (shape.name in self.names if self.names else shape.closed)]
        if unknown := sorted(self.names - {shape.name for shape in own}):
            there = ", ".join(shape.name for shape in shapes)
            raise DocumentError(f"--only: '{unknown[0]}' is no shape of the document; it has {there}")
        if not own:
            raise DocumentError("shapes: none is closed, there is no rig to take off; draw around it")
        return own


@dataclass(frozen=True, slots=True, eq=False)
class _Picture:
    """A whole picture (H, W, 3), what of it is no rig (H, W), and its top-left pixel's place on the plate."""

    rgb: Array
    free: Array
    origin: tuple[int, int]


class RigPainter:
    """Fills the rig's mattes of frames; may be asked from several threads.

    `matte_of`: the matte of a frame. `frames`: all of the shot that may lend.
    """

    def __init__(self, plate: Plate, frames: Sequence[int], matte_of: Callable[[int], Region], rig: Rig) -> None:
        self._plate = plate
        self._frames = frozenset(frames)
        self._matte_of = matte_of
        self._clean_plate, self._clean_frames = rig.clean_plate, rig.clean_frames
        self._lending = KeptByFrame(self._read_loan, kept=KEPT)
        self._clean = KeptByFrame(self._of_clean_plate, kept=KEPT_CLEAN)

    def filled(self, frame: Frame) -> Filled | None:
        """The region of a frame around its rig, without it; None where no rig is on the picture."""
        matte = self._matte_of(frame.number)
        height, width = matte.coverage.shape
        by = SURROUND_PX + max(TILES_PX, int(rig.REACH * min(height, width)))
        rgb, (x, y) = frame.region(matte.x - by, matte.y - by, width + 2 * by, height + 2 * by)
        cover = Region(matte.x - x, matte.y - y, matte.coverage).paste(rgb.shape[1], rgb.shape[0])
        if not cover.any():
            return None
        now = _Picture(frame.rgb, _free_of_rig(matte, frame), frame.origin)
        loans = list(self._loans(now, frame.number, cover, (x, y)))
        done = rig.fill(rgb, cover, loans)
        return Filled(Seams(x, y, rgb, cover, (), (Part(cover, (), Paint()),)), done.rgb, done.shares)

    def _loans(self, now: _Picture, number: int, cover: Array, corner: tuple[int, int]) -> Iterator[Loan]:
        """The clean plate's, and where that leaves something open, of frames near by until each pixel has ENOUGH."""
        points = rig.BackgroundPoints(now.rgb, now.free)
        open_yet = cover > 0
        if self._clean_frames:
            nearest = min(self._clean_frames, key=lambda each: abs(each - number))
            loan = _lay_on(now, points, self._clean.at(nearest), cover.shape, corner, is_plate=True)
            open_yet &= ~loan.free
            yield loan
        n_loans = np.zeros(cover.shape, np.intp)
        for other in self._near(number):
            if not (open_yet & (n_loans < ENOUGH)).any():
                return
            picture = self._lending.at(other)
            if picture is not None:
                loan = _lay_on(now, points, picture, cover.shape, corner, is_plate=False)
                n_loans += loan.free
                yield loan

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
        """Another frame and where it is free; None where it cannot be read: its own turn will tell why."""
        try:
            read = self._plate.read(number, keep_native=False)
            return _Picture(read.rgb, _free_of_rig(self._matte_of(number), read), read.origin)
        except RotopaintError:
            return None


def shown(filled: Filled) -> Mapping[str, float]:
    """What a frame's event says: the share of the hole that each kind of source filled."""
    return {f"rig_{name}": share for name, share in filled.chosen.items()}


def _free_of_rig(matte: Region, frame: Frame) -> Array:
    """Pixels of a frame (H, W) away from its rig."""
    height, width = frame.rgb.shape[:2]
    cover = Region(matte.x - frame.origin[0], matte.y - frame.origin[1], matte.coverage).paste(width, height)
    side = 2 * EDGE_PX + 1
    return np.asarray(cv2.dilate((cover > 0).astype(np.uint8), np.ones((side, side), np.uint8)) == 0)


def _lay_on(
    now: _Picture,
    points: rig.BackgroundPoints,
    other: _Picture,
    shape: tuple[int, ...],
    corner: tuple[int, int],
    *,
    is_plate: bool,
) -> Loan:
    """Another picture laid on a region of this one, top-left plate pixel `corner`, by the background's motion."""
    same = now.rgb.shape == other.rgb.shape
    move = points.motion_to(other.rgb) if same else np.eye(2, 3)
    at = np.array(corner, float) - now.origin
    move = np.column_stack([move[:, :2], move[:, :2] @ at + move[:, 2]])
    is_whole = bool(np.array_equal(move[:, :2], np.eye(2)))
    flags = (cv2.INTER_NEAREST if is_whole else cv2.INTER_CUBIC) | cv2.WARP_INVERSE_MAP
    size = shape[1], shape[0]
    rgb = cv2.warpAffine(other.rgb, move, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
    mask = other.free.astype(np.uint8) * 255
    free = cv2.warpAffine(mask, move, size, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, borderValue=0)
    return Loan(np.asarray(rgb), np.asarray(free >= 254), is_plate)
