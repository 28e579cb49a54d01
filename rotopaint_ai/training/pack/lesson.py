"""Training samples from a corrected shot, one per hold.

In a corrected hold the ground truth is the corrected shapes' control points and the landmarks on them. In the other
holds these are unknown, and the rest of the face is labelled by the models themselves, so that what was right stays. H
holds, L landmarks, P control points of all shapes. Plate space, pixels, until pictures are cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, crop_around, cut
from rotopaint_ai.pipeline.teach import ReadHold, ShotReading
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import Plate
from rotopaint_ai.shapes.bezier import as_array
from rotopaint_ai.shapes.refit import Keys
from rotopaint_ai.shapes.roto import RotoDocument, RotoShape
from rotopaint_ai.sheet import Sheet
from rotopaint_ai.training.data.dataset import Picture, Truth
from rotopaint_ai.training.data.memory import Memory

WIDER = 1.5  # picture side over crop side: room for random crops
DETAIL = 1.15  # picture pixels per network pixel


@dataclass(frozen=True, slots=True, eq=False)
class ShotLesson:
    """Samples of a shot's holds.

    `known`: with landmarks from corrections and models, others NaN. `solved`: ground truth that also contains the
    landmarks that follow from solving the whole shot. `is_corrected` (H,).
    """

    sheet: Sheet
    known: Memory
    solved: Truth
    is_corrected: npt.NDArray[np.bool_]

    def training(self, share: float) -> Memory:
        """The samples, with corrected ones repeated to make up `share` of all."""
        ours, others = np.flatnonzero(self.is_corrected), np.flatnonzero(~self.is_corrected)
        times = max(1, round(share / (1 - share) * len(others) / max(len(ours), 1)))
        rows = np.concatenate([np.tile(ours, times), others])
        pictures = tuple(self.known.pictures[row] for row in rows)
        return Memory(pictures, self.known.truth.rows(rows), self.known.shrink[rows])


@dataclass(frozen=True, slots=True, eq=False)
class DrawnShot:
    """A shot's shapes: the present document, and the corrected shapes solved for all frames.

    `corrected`: names of shapes that people corrected. `frames`: frames that people corrected.
    """

    standing: RotoDocument
    solved: Keys
    corrected: Set[str]
    frames: Set[int]

    def points_at(self, shape: RotoShape, frame: int) -> npt.NDArray[np.float64] | None:
        """Control points (P, 6) of a shape at a frame; None if unknown."""
        if frame not in self.frames and (key := self.solved.get(shape.name, {}).get(frame)) is not None:
            return as_array(key.points)
        return as_array(shape.at(frame)) if shape.keys else None


def make_lesson(reading: ShotReading, plate: Plate, drawn: DrawnShot, *, input_size: int, margin: float) -> ShotLesson:
    """The samples of a shot whose predictions are read. Raises PlateError for unreadable frames."""
    sheet = reading.models.pack.sheet
    frames = _frames_of_holds(reading, drawn.frames)
    is_corrected = np.array([frame in drawn.frames for frame in frames])
    samples = [
        _make_hold_sample(sheet, plate, hold, drawn, frame, (input_size, margin))
        for hold, frame in zip(reading.holds, frames)
    ]
    known, solved = (Truth(*map(np.array, zip(*rows))) for rows in zip(*((s.known, s.solved) for s in samples)))
    memory = Memory(tuple(sample.picture for sample in samples), known, np.ones((len(samples), 2)))
    return ShotLesson(sheet, memory, solved, is_corrected)


def _frames_of_holds(reading: ShotReading, corrected: Set[int]) -> list[int]:
    """One frame per hold: a corrected one, else the first."""
    chosen: dict[int, int] = {}
    for frame, hold in sorted(reading.hold_of.items()):
        if hold not in chosen or (frame in corrected and chosen[hold] not in corrected):
            chosen[hold] = frame
    return [chosen[hold] for hold in range(len(reading.holds))]


_Rows = tuple[npt.NDArray[np.float32], ...]  # one sample's columns of Truth


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    picture: Picture
    known: _Rows
    solved: _Rows


def _make_hold_sample(
    sheet: Sheet, plate: Plate, hold: ReadHold, drawn: DrawnShot, frame: int, wanted: tuple[int, float]
) -> _Sample:
    read_L2 = np.stack([hold.points_L.real, hold.points_L.imag], 1)
    splines = _splines(sheet, drawn, frame)
    marks = _place_hand_landmarks(
        sheet, drawn, frame, _place_landmarks_on_splines(sheet, splines, drawn.corrected, read_L2)
    )
    crop, size = _picture_crop(read_L2, *wanted)
    points = np.full((sheet.n_points, 6), np.nan)
    rows = sheet.point_rows()
    for name, spline in splines.items():
        points[rows[name]] = crop.spline_to_crop(spline, size)
    widths = np.array([hold.width_px.get(spec.name, np.nan) for spec in sheet.shapes]) * (size / crop.side)
    solved = crop.to_crop(marks, size)
    own = solved.copy()
    if frame not in drawn.frames:
        corrected = (spec for spec in sheet.shapes if spec.name in drawn.corrected)
        own[[sheet.landmark_row(mark) for spec in corrected for mark in spec.on_landmarks.values()]] = np.nan
    known, whole = (
        tuple(np.asarray(each, np.float32) for each in (places, hold.visible_L > 0.5, points, widths))
        for places in (own, solved)
    )
    return _Sample(_cut_plate(plate, frame, crop, size), known, whole)


def _splines(sheet: Sheet, drawn: DrawnShot, frame: int) -> dict[str, npt.NDArray[np.float64]]:
    counts = {spec.name: (spec.n_points, spec.closed) for spec in sheet.shapes}
    found = {}
    for shape in drawn.standing.shapes:
        points = drawn.points_at(shape, frame)
        if points is not None and counts.get(shape.name) == (len(points), shape.closed):
            found[shape.name] = points
    return found


def _place_landmarks_on_splines(
    sheet: Sheet,
    splines: Mapping[str, npt.NDArray[np.float64]],
    corrected: Set[str],
    read_L2: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Landmarks (L, 2) as predicted; those of corrected shapes are moved to the control points that they lie on."""
    marks = read_L2.copy()
    for spec in sheet.shapes:
        if spec.name in corrected and spec.name in splines:
            for point, name in spec.on_landmarks.items():
                marks[sheet.landmark_row(name)] = splines[spec.name][point, :2]
    return marks


def _place_hand_landmarks(
    sheet: Sheet, drawn: DrawnShot, frame: int, marks_L2: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Landmarks, with those that a person placed."""
    known = drawn.standing.landmarks
    for name, mark in zip(known.names, known.keys.get(frame, ())):
        if mark is not None and name in known.hand.get(frame, frozenset()) and name in sheet.landmark_names:
            marks_L2[sheet.landmark_row(name)] = mark.x, mark.y
    return marks_L2


def _picture_crop(points_L2: npt.NDArray[np.float64], input_size: int, margin: float) -> tuple[Crop, int]:
    """The square of a sample's picture in the plate, and the picture's side in pixels, never larger than the
    square's."""
    crop = crop_around(points_L2, margin=margin * WIDER)
    return crop, int(min(np.ceil(input_size * DETAIL * WIDER), max(np.ceil(crop.side), input_size / 4)))


def _cut_plate(plate: Plate, frame: int, crop: Crop, size: int) -> Picture:
    half = int(crop.side / 2) + 4
    read = plate.read(frame, keep_native=False)
    rgb, origin = read.region(int(crop.x) - half, int(crop.y) - half, 2 * half, 2 * half)
    display = to_display(cut(np.asarray(rgb, np.float32), origin, crop, size))
    return np.asarray(np.rint(np.clip(display, 0, 1) * 255), np.uint8)
