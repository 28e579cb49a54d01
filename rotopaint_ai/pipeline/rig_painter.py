"""Rigs of a shot taken off frame by frame: where what hides behind them is to be had.

H, W rows and columns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import DocumentError, RotopaintError
from rotopaint_ai.pipeline.paint_settings import Paint
from rotopaint_ai.pipeline.render_frame import SURROUND_PX, Filled, Part, Seams
from rotopaint_ai.plates.plate import Frame, Plate, open_plate
from rotopaint_ai.seams import rig
from rotopaint_ai.seams.rig import Loan
from rotopaint_ai.shapes.rasterise import Region
from rotopaint_ai.shapes.roto import RotoShape

Array = npt.NDArray[Any]

APART = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96)  # frames, before and after, that are asked; then the shot's ends
ENOUGH = 3  # loans at every pixel of a hole: no more frames are asked
KEPT = 16  # frames in memory
TILES_PX = 2 * rig.TILE_PX  # of surroundings that pieces are looked for in, at least
EDGE_PX = 3  # around a rig in another frame: its soft edge is not lent


@dataclass(frozen=True, slots=True)
class Rig:
    """What `clean --rig` says: the names of a rig's shapes, none for all closed ones, and a clean plate."""

    names: frozenset[str] = frozenset()
    clean_plate: Plate | None = None

    @classmethod
    def open(cls, plate: Plate, names: frozenset[str], clean_plate: str | None) -> Rig:
        """Raises: PlateError where there is no clean plate; DocumentError where it is of another size."""
        if clean_plate is None:
            return cls(names)
        found = open_plate(clean_plate)
        got, wanted = (found.width, found.height), (plate.width, plate.height)
        if got != wanted:
            raise DocumentError(
                f"--clean-plate {found.name}: {got[0]} x {got[1]}, {plate.name} is {wanted[0]} x {wanted[1]}; "
                "take one of the plate's format"
            )
        return cls(names, found)

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


@dataclass(slots=True)
class RigPainter:
    """Fills the rig's mattes of frames; may be asked from several threads.

    `matte_of`: the matte of a frame. `frames`: all of the shot that may lend.
    """

    plate: Plate
    frames: Sequence[int]
    matte_of: Callable[[int], Region]
    rig: Rig
    _kept: OrderedDict[int, _Picture | None] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def filled(self, frame: Frame) -> Filled | None:
        """The region of a frame around its rig, without it; None where no rig is on the picture."""
        matte = self.matte_of(frame.number)
        height, width = matte.coverage.shape
        by = SURROUND_PX + max(TILES_PX, int(rig.REACH * min(height, width)))
        rgb, (x, y) = frame.region(matte.x - by, matte.y - by, width + 2 * by, height + 2 * by)
        cover = Region(matte.x - x, matte.y - y, matte.coverage).paste(rgb.shape[1], rgb.shape[0])
        if not cover.any():
            return None
        now = _Picture(frame.rgb, _free(matte, frame), frame.origin)
        loans = list(self._loans(now, frame.number, cover, (x, y)))
        done = rig.fill(rgb, cover, loans)
        return Filled(Seams(x, y, rgb, cover, (), (Part(cover, (), Paint()),)), done.rgb, done.shares)

    def _loans(self, now: _Picture, number: int, cover: Array, corner: tuple[int, int]) -> Iterator[Loan]:
        """The clean plate's, and where that leaves something open, of frames near by until each pixel has ENOUGH."""
        open_yet = cover > 0
        if self.rig.clean_plate is not None:
            loan = _laid(now, self._clean(self.rig.clean_plate, number), cover.shape, corner, is_plate=True)
            open_yet &= ~loan.free
            yield loan
        lent = np.zeros(cover.shape, np.intp)
        for other in self._near(number):
            if not (open_yet & (lent < ENOUGH)).any():
                return
            picture = self._at(other)
            if picture is not None:
                loan = _laid(now, picture, cover.shape, corner, is_plate=False)
                lent += loan.free
                yield loan

    def _near(self, number: int) -> list[int]:
        there = set(self.frames)
        asked = [number + sign * apart for apart in APART for sign in (-1, 1)]
        asked += [min(there, default=number), max(there, default=number)]
        return [each for each in dict.fromkeys(asked) if each in there and each != number]

    def _clean(self, clean: Plate, number: int) -> _Picture:
        """The clean plate's frame of that number, else the nearest one."""
        nearest = min(clean.frames, key=lambda each: abs(each - number))
        with self._lock:
            known = self._kept.get(-1 - nearest)
        if known is None:
            read = clean.read(nearest, keep_native=False)
            known = _Picture(read.rgb, np.ones(read.rgb.shape[:2], bool), read.origin)
            self._keep(-1 - nearest, known)
        return known

    def _at(self, number: int) -> _Picture | None:
        """Another frame and where it is free; None where it cannot be read: its own turn will tell why."""
        with self._lock:
            if number in self._kept:
                return self._kept[number]
        try:
            read = self.plate.read(number, keep_native=False)
            found = _Picture(read.rgb, _free(self.matte_of(number), read), read.origin)
        except RotopaintError:
            found = None
        self._keep(number, found)
        return found

    def _keep(self, key: int, picture: _Picture | None) -> None:
        with self._lock:
            self._kept[key] = picture
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)


def shown(filled: Filled) -> Mapping[str, float]:
    """What a frame's event says: the share of the hole that each kind of source filled."""
    return {f"rig_{name}": share for name, share in filled.chosen.items()}


def _free(matte: Region, frame: Frame) -> Array:
    """Pixels of a frame (H, W) away from its rig."""
    height, width = frame.rgb.shape[:2]
    cover = Region(matte.x - frame.origin[0], matte.y - frame.origin[1], matte.coverage).paste(width, height)
    side = 2 * EDGE_PX + 1
    return np.asarray(cv2.dilate((cover > 0).astype(np.uint8), np.ones((side, side), np.uint8)) == 0)


def _laid(now: _Picture, other: _Picture, shape: tuple[int, ...], corner: tuple[int, int], *, is_plate: bool) -> Loan:
    """Another picture laid on a region of this one, top-left plate pixel `corner`, by the background's motion."""
    same = now.rgb.shape == other.rgb.shape
    move = rig.motion(now.rgb, other.rgb, now.free) if same else np.eye(2, 3)
    at = np.array(corner, float) - now.origin
    move = np.column_stack([move[:, :2], move[:, :2] @ at + move[:, 2]])
    is_whole = bool(np.array_equal(move[:, :2], np.eye(2)))
    flags = (cv2.INTER_NEAREST if is_whole else cv2.INTER_CUBIC) | cv2.WARP_INVERSE_MAP
    size = shape[1], shape[0]
    rgb = cv2.warpAffine(other.rgb, move, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
    mask = other.free.astype(np.uint8) * 255
    free = cv2.warpAffine(mask, move, size, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, borderValue=0)
    return Loan(np.asarray(rgb), np.asarray(free >= 254), is_plate)
