"""The tracker of the line: follows the face, cleans its landmarks over time, and draws the shapes of settled frames.

L landmarks, P control points of all shapes.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, CropKeys
from rotopaint_ai.inference.models import Models
from rotopaint_ai.landmarks.dejitter import Dejitter
from rotopaint_ai.landmarks.detect import Follower, LostLimits
from rotopaint_ai.landmarks.track import FrameLandmarks
from rotopaint_ai.pipeline.clock import Times, timed
from rotopaint_ai.pipeline.executor import SettledFrames
from rotopaint_ai.pipeline.pictures import Gallery
from rotopaint_ai.pipeline.process_frame import Settled
from rotopaint_ai.pipeline.snap_seams import STILL, SeamPlacer
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import Frame
from rotopaint_ai.plates.plate_window import Area
from rotopaint_ai.shapes.predict import FrameShapes, ShapePredictor, covering_widths
from rotopaint_ai.sheet import Sheet

Array = npt.NDArray[Any]

REACH = 1.15  # times the crop's side: pictures of the report show half as much again as the seams are high ...
BROAD = 4 / 3  # ... and are at least as much broader
AIR_PX = 16
DIGITS = 4  # coordinates are rounded to 1/10,000 px once, here, so that files, mattes and a resumed run agree exactly


class LazyRgb:
    """A frame's scene-linear pixels that are made only where somebody looks.

    Has the shape of the data window (H, W, 3) and gives slices of it, which is all that crops and holds ask of a
    picture; a whole plate would cost more than the network.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self.shape: tuple[int, ...] = (*frame.codes.shape[:2], 3)

    def __getitem__(self, window: tuple[slice, slice]) -> Array:
        rows, columns = (slice(*part.indices(size)) for part, size in zip(window, self.shape))
        x, y = self._frame.origin
        width, height = columns.stop - columns.start, rows.stop - rows.start
        return self._frame.region(x + columns.start, y + rows.start, width, height)[0]


class FaceTracker:
    """Frames in order go in, settled frames come out. Holds plain values and arrays and the pack's models only."""

    def __init__(self, models: Models, crops: CropKeys, gallery: Gallery, *, doubt: float = inf) -> None:
        """`doubt`: from which on the model's own doubt says that a shot shows no face."""
        self._sheet = models.pack.sheet
        self._predict = ShapePredictor(models.pack.sheet, models.predict_shapes)
        self._gallery = gallery
        self._follower = Follower(
            models.detect,
            models.pack.input_size,
            crops,
            to_display,
            margin=models.pack.crop_margin,
            mirror=models.pack.mirror,
            limits=LostLimits(doubt=doubt),
        )
        self._dejitter = Dejitter()
        self.reach: Area | None = None  # see `executor.Tracker`
        still = frozenset(models.pack.card.get(STILL, ()))
        self._placer = SeamPlacer(models.pack.sheet, models.find_seams, to_display, still)

    def push(self, frame: Frame, ms: Times) -> SettledFrames:
        """Take the next frame; returns the frames that are settled now."""
        pixels = LazyRgb(frame)
        with timed(ms, "detect"):
            found = self._follower.step(frame.number, cast(Array, pixels), frame.origin)
        with timed(ms, "shapes"):
            self._placer.see(found, pixels, frame.origin)
        self.reach = _reach(found)
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
        found = [landmarks for landmarks in frames if landmarks.lost is None]
        shapes = {item.frame: item for item in self._predict(found)}
        return [(landmarks.frame, self._place(landmarks, shapes.get(landmarks.frame))) for landmarks in frames]

    def _place(self, landmarks: FrameLandmarks, shapes: FrameShapes | None) -> Settled:
        if shapes is not None and not np.isfinite(shapes.points_PK).all():
            return self._settled(replace(landmarks, lost="the model gave no finite shapes"), None)
        return self._settled(*((landmarks, None) if shapes is None else self._placer.place(landmarks, shapes)))

    def _settled(self, landmarks: FrameLandmarks, shapes: FrameShapes | None) -> Settled:
        assert landmarks.crop is not None
        hold = landmarks.held_from if landmarks.held_from != landmarks.frame else None
        crop = Crop(*(round(float(v), DIGITS) for v in (landmarks.crop.x, landmarks.crop.y, landmarks.crop.side)))
        if shapes is None:
            is_pictured = self._gallery.wants(landmarks.frame, None, is_repeat=hold is not None)
            return Settled(crop, landmarks.lost or "no shapes", hold, (), {}, {}, {}, (), is_pictured)
        errors = _named(self._sheet, shapes.expected_error_px_S)
        worst = max(errors.values(), default=0.0)
        return Settled(
            crop=crop,
            lost=None,
            hold=hold,
            landmarks=_landmark_rows(landmarks),
            shapes={name: _rows(shapes.points_PK[rows]) for name, rows in self._sheet.point_rows().items()},
            widths=_named(self._sheet, covering_widths(shapes)),
            errors=errors,
            hidden=tuple(name for name, seen in zip(self._sheet.shape_names, shapes.is_visible_S) if not seen),
            is_pictured=self._gallery.wants(landmarks.frame, worst, is_repeat=hold is not None),
        )


def _reach(found: FrameLandmarks) -> Area | None:
    """What a frame's mattes, fills, measures and pictures may look at: the crop, and air around seams in it."""
    crop = found.crop
    if crop is None:
        return None
    high = crop.side * REACH / 2 + AIR_PX
    broad = BROAD * high
    return Area(crop.x - broad, crop.y - high, crop.x + broad, crop.y + high)


def _named(sheet: Sheet, values_S: Array) -> dict[str, float]:
    """Finite values by the name of their shape."""
    return {name: round(float(value), DIGITS) for name, value in zip(sheet.shape_names, values_S) if np.isfinite(value)}


def _landmark_rows(landmarks: FrameLandmarks) -> list[list[float] | None]:
    values = np.column_stack([landmarks.points_LC, landmarks.expected_error_px_L])
    return [row if seen else None for row, seen in zip(_rows(values), landmarks.is_visible_L)]


def _rows(values: Array) -> list[list[float]]:
    return [[round(number, DIGITS) for number in row] for row in values.astype(np.float64).tolist()]
