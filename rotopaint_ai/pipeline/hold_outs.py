"""What stands in front of a face, held out of the paint over its seams.

A pack's segmentation network looks at the crop around a frame's landmarks (`seams/front.py`). Frames that repeat an
exposure take what it sees in the exposure's first frame, so that nothing moves inside a hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from math import ceil, floor
from typing import NamedTuple

import numpy as np

from rotopaint_ai.crops import Crop, crop_around
from rotopaint_ai.errors import PlateError
from rotopaint_ai.pipeline.executor import FrameMemo
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import Frame, Plate
from rotopaint_ai.plates.plate_window import Area
from rotopaint_ai.seams.front import FrontFinder, cut_region, find_front
from rotopaint_ai.seams.matte import seam_curves
from rotopaint_ai.seams.ribbon import WideCurve
from rotopaint_ai.shapes.rasterise import EMPTY, Region
from rotopaint_ai.shapes.roto import RotoDocument, RotoShape, hold_starts

KEPT = 16  # fronts in memory; a front is cut to what stands there, and mostly empty
LEAST_MARKS = 3  # visible landmarks that still make a face
REACH = 2.0  # sides of the landmarks' box within which seams belong to the same face
_TAPS = 5.0  # pixels of the network around its crop that cutting it reads


class FrontPlace(NamedTuple):
    """Where the network looks in a frame: the face's crop, and the seams (lines and half widths) in plate space."""

    crop: Crop
    seams: Sequence[WideCurve]


def place_of(marks: Sequence[Sequence[float] | None], shapes: Sequence[RotoShape], frame: int) -> FrontPlace | None:
    """Where the network looks in a frame with these landmarks and shapes; None where they show no face or seam."""
    crop, seams = face_crop(marks, shapes, frame), seam_curves([each for each in shapes if not each.subtract], frame)
    return FrontPlace(crop, seams) if crop is not None and seams else None


def face_crop(marks: Sequence[Sequence[float] | None], shapes: Iterable[RotoShape], frame: int) -> Crop | None:
    """The network's crop, around a frame's landmarks: `[x, y, ...]`, None where hidden. None where too few are visible.

    Landmarks under a hand are hidden, but the seams beside them are known, and count. Whole pixels, so that the rounded
    numbers of a saved document give the crop of the run that wrote it.
    """
    seen = np.array([mark[:2] for mark in marks if mark is not None], np.float64)
    if len(seen) < LEAST_MARKS:
        return None
    reach = crop_around(seen, margin=REACH)
    seams = [each.at(frame) for each in shapes if each.role == "seam" and not each.subtract]
    points = np.array([point[:2] for row in seams for point in row], np.float64).reshape(-1, 2)
    near = (np.abs(points - (reach.x, reach.y)) <= reach.side / 2).all(axis=1)
    crop = crop_around(np.concatenate((seen, points[near])))
    return Crop(round(crop.x), round(crop.y), round(crop.side))


class Fronts:
    """What stands in front of the face in the exposures of a plate, each looked at once; thread-safe.

    `place_at`: where the network looks in a frame, None where it does not. `exposure_of`: the first frame of the
    exposure that a frame shows. `kept`: exposures in memory.
    """

    def __init__(
        self,
        plate: Plate,
        find: FrontFinder,
        place_at: Callable[[int], FrontPlace | None],
        exposure_of: Callable[[int], int],
        kept: int = KEPT,
    ) -> None:
        self._plate, self._find, self._place_at, self._exposure_of = plate, find, place_at, exposure_of
        self._memo: FrameMemo[Region] = FrameMemo(self._read_front, kept=kept)

    @classmethod
    def of_document(cls, plate: Plate, document: RotoDocument, find: FrontFinder) -> Fronts:
        """Those of a document's frames, by its landmarks; where a model found equal ones, they make a hold.

        Many pictures may share landmarks that people placed, which have no expected error.
        """
        rows, on_plate = document.landmarks.keys, frozenset(plate.frames)
        found = {f: row for f, row in rows.items() if f in on_plate and any(m and m.expected_error_px for m in row)}
        starts = hold_starts(found)

        def place_at(frame: int) -> FrontPlace | None:
            return place_of(rows[frame], document.shapes, frame) if frame in rows else None

        return cls(plate, find, place_at, lambda frame: starts.get(frame, frame))

    def at(self, frame: Frame) -> Region:
        """Coverage by what stands in front of the face, in the first frame of the exposure that a frame shows.

        Where that first frame cannot be read any more, the frame itself counts.
        """
        exposure = self._exposure_of(frame.number)
        if exposure != frame.number:
            with suppress(PlateError):
                return self._memo.at(exposure)
        return self._memo.at(frame.number, partial(self._front_of, frame))

    def starts_exposure(self, number: int) -> bool:
        """Whether a frame is the first of its exposure."""
        return self._exposure_of(number) == number

    def area_at(self, number: int) -> Area | None:
        """The area of a frame that is read for its front; None where it shows no face, or repeats another frame."""
        place = self._place_at(number) if self.starts_exposure(number) else None
        return None if place is None else self._area(place.crop)

    def _area(self, crop: Crop) -> Area:
        half = crop.side / 2 + ceil(_TAPS * max(1.0, crop.side / self._find.size))
        return Area(floor(crop.x - half), floor(crop.y - half), ceil(crop.x + half), ceil(crop.y + half))

    def _read_front(self, number: int) -> Region:
        return self._front_of(self._plate.read(number, keep_native=False, near=self.area_at(number)))

    def _front_of(self, frame: Frame) -> Region:
        place = self._place_at(frame.number)
        if place is None:
            return EMPTY
        left, top, right, bottom = map(int, self._area(place.crop))
        rgb, origin = frame.region(left, top, right - left, bottom - top)
        if rgb.size == 0:
            return EMPTY
        front = find_front(rgb, origin, place.crop, place.seams, self._find, to_display)
        return cut_region(front, (0, 0), (frame.height, frame.width))
