"""The tracker of the line: follows the face, cleans its landmarks over time, and draws the shapes of settled frames.

L landmarks, P control points of all shapes.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, CropKeys
from rotopaint_ai.inference.models import Models
from rotopaint_ai.landmarks.dejitter import Dejitter
from rotopaint_ai.landmarks.detect import Follower
from rotopaint_ai.landmarks.track import FrameLandmarks
from rotopaint_ai.pipeline.clock import Times, timed
from rotopaint_ai.pipeline.frame import Settled
from rotopaint_ai.pipeline.line import Settled as SettledFrames
from rotopaint_ai.pipeline.pictures import Gallery
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import Frame
from rotopaint_ai.sheet import Sheet

Array = npt.NDArray[Any]

DIGITS = 4  # coordinates are rounded to 1/10,000 px once, here, so that files, mattes and a resumed run agree exactly


class LazyRgb:
    """A frame's scene-linear pixels that are made only where somebody looks.

    Has the shape of the data window (H, W, 3) and gives slices of it, which is all that crops and holds ask of a
    picture; a whole plate would cost more than the network.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self.shape = (*frame.codes.shape[:2], 3)

    def __getitem__(self, window: tuple[slice, slice]) -> Array:
        rows, columns = (slice(*part.indices(size)) for part, size in zip(window, self.shape))
        x, y = self._frame.origin
        width, height = columns.stop - columns.start, rows.stop - rows.start
        return self._frame.region(x + columns.start, y + rows.start, width, height)[0]


class FaceTracker:
    """Frames in order go in, settled frames come out. Holds plain values and arrays and the pack's models only."""

    def __init__(self, models: Models, crops: CropKeys, gallery: Gallery) -> None:
        self._sheet = models.pack.sheet
        self._predict = models.predict_shapes
        self._gallery = gallery
        self._follower = Follower(
            models.detect, models.pack.input_size, crops, to_display, margin=models.pack.crop_margin
        )
        self._dejitter = Dejitter()

    def push(self, frame: Frame, ms: Times) -> SettledFrames:
        """Take the next frame; returns the frames that are settled now."""
        with timed(ms, "detect"):
            found = self._follower.step(frame.number, cast(Array, LazyRgb(frame)), frame.origin)
        with timed(ms, "de-jitter"):
            ready = self._dejitter.push(found)
        with timed(ms, "shapes"):
            return self._settle(ready)

    def skip(self, frame: int) -> SettledFrames:
        """Take note of a frame that cannot be read."""
        return ()

    def flush(self) -> SettledFrames:
        """Settle what is left."""
        return self._settle(self._dejitter.flush())

    def _settle(self, frames: list[FrameLandmarks]) -> SettledFrames:
        return [(landmarks.frame, self._settled(landmarks)) for landmarks in frames]

    def _settled(self, landmarks: FrameLandmarks) -> Settled:
        assert landmarks.crop is not None
        hold = landmarks.held_from if landmarks.held_from != landmarks.frame else None
        crop = Crop(*(round(float(v), DIGITS) for v in (landmarks.crop.x, landmarks.crop.y, landmarks.crop.side)))
        if landmarks.lost is not None:
            is_pictured = self._gallery.wants(landmarks.frame, None, is_repeat=hold is not None)
            return Settled(crop, landmarks.lost, hold, (), {}, {}, {}, is_pictured)
        prediction = self._predict(landmarks.points_LC[None].astype(np.float32))
        errors = expected_errors(self._sheet, landmarks)
        return Settled(
            crop=crop,
            lost=None,
            hold=hold,
            landmarks=_landmark_rows(landmarks),
            shapes={name: _rows(prediction.points_NPK[0, rows]) for name, rows in self._sheet.point_rows().items()},
            widths=_widths(self._sheet, prediction.width_NS, landmarks),
            errors=errors,
            is_pictured=self._gallery.wants(
                landmarks.frame, max(errors.values(), default=0.0), is_repeat=hold is not None
            ),
        )


def expected_errors(sheet: Sheet, landmarks: FrameLandmarks) -> dict[str, float]:
    """Each shape's expected error: the mean of the landmarks that it is predicted from."""
    return {
        spec.name: round(float(landmarks.expected_error_px_L[list(sheet.rows_of(spec))].mean()), DIGITS)
        for spec in sheet.shapes
    }


def _widths(sheet: Sheet, width_NS: Array | None, landmarks: FrameLandmarks) -> dict[str, float]:
    """Full widths of the open shapes: the model's own, or the sheet's usual share of the face's size."""
    if width_NS is not None:
        return {
            spec.name: round(float(width), DIGITS)
            for spec, width in zip(sheet.shapes, width_NS[0])
            if not spec.closed and width > 0
        }
    face_px = float(np.ptp(landmarks.points_LC, axis=0).max())
    return {
        spec.name: round(spec.width_share * face_px, DIGITS)
        for spec in sheet.shapes
        if not spec.closed and spec.width_share is not None
    }


def _landmark_rows(landmarks: FrameLandmarks) -> list[list[float] | None]:
    values = np.column_stack([landmarks.points_LC, landmarks.expected_error_px_L])
    return [row if seen else None for row, seen in zip(_rows(values), landmarks.is_visible_L)]


def _rows(values: Array) -> list[list[float]]:
    return [[round(number, DIGITS) for number in row] for row in values.astype(np.float64).tolist()]
