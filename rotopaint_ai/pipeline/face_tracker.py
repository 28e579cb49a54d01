"""The tracker of a run: follows the face, cleans its landmarks over time, and draws the shapes of settled frames.

L landmarks, P control points of all shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil, floor, inf
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, CropKeys, crop_around
from rotopaint_ai.inference.models import Models
from rotopaint_ai.landmarks.dejitter import Dejitter
from rotopaint_ai.landmarks.detect import Display, Follower, LostLimits, are_near
from rotopaint_ai.landmarks.track import FrameLandmarks
from rotopaint_ai.pipeline.executor import SettledFrames, StageTimes, time_stage
from rotopaint_ai.pipeline.process_frame import TrackedFrame
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import Frame
from rotopaint_ai.plates.plate_window import Area
from rotopaint_ai.seams.placement import Evidence, PlacedSeam, Seam, SeamLook, look, place
from rotopaint_ai.shapes.predict import FrameShapes, ShapePredictor, covering_widths
from rotopaint_ai.sheet import ShapeSpec, Sheet

Array = npt.NDArray[Any]

DIGITS = 4  # coordinates are rounded to 1/10,000 px once, here, so that files, mattes and a resumed run agree exactly
ROOM, DOUBTFUL_ROOM = 0.2, 0.4  # share of the crop's side by which the next frames are read beyond this frame's crop
_FRONT_ROOM = 0.1  # the same for this frame where a network looks at the crop around the final landmarks again
_MARGIN_PX = 2
IN_SIGHT = 0.8  # probability from which on a landmark is surely seen
KeepLook = Callable[[int, SeamLook], None]
STILL = "seams_left_as_predicted"  # entry of a pack's card: seams that are not placed


class LazyRgb:
    """A frame's scene-linear pixels, converted only where they are used.

    Has the shape of the data window (H, W, 3) and returns slices of it, which is all that crops and holds need;
    converting a whole plate would cost more than the network.
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
    """Takes frames in order, returns settled frames. Its state is plain values, arrays and the pack's models."""

    def __init__(
        self, models: Models, crops: CropKeys, *, instability: float = inf, keep_look: KeepLook | None = None
    ) -> None:
        """`instability`: the limit above which a crop shows no face; `keep_look` gets the looks at new exposures."""
        self._sheet = models.pack.sheet
        self._predict = ShapePredictor(models.pack.sheet, models.predict_shapes)
        self._follower = Follower(
            models.detect,
            models.pack.input_size,
            crops,
            to_display,
            margin=models.pack.crop_margin,
            limits=LostLimits(instability=instability),
        )
        self._dejitter = Dejitter()
        self.reach: Area | None = None  # this and `room`: see `executor.Tracker`
        self._again = 0.0 if models.find_front is None else _FRONT_ROOM
        still = frozenset(models.pack.card.get(STILL, ()))
        self._placer = SeamPlacer(models.pack.sheet, models.find_seams, to_display, still, keep_look)

    def push(self, frame: Frame, ms: StageTimes) -> SettledFrames:
        """Take the next frame; returns the frames that are settled now."""
        pixels = LazyRgb(frame)
        with time_stage(ms, "detect"):
            found = self._follower.step(frame.number, cast(Array, pixels), frame.origin)
        with time_stage(ms, "shapes"):
            self._placer.see(found, pixels, frame.origin)
        self.reach = None if found.crop is None else crop_area(found.crop).grown(ceil(self._again * found.crop.side))
        with time_stage(ms, "de-jitter"):
            ready = self._dejitter.push(found)
        with time_stage(ms, "shapes"):
            return self._settle_frames(ready)

    @property
    def room(self) -> float:
        """Larger while crops besides the face's own are read."""
        return DOUBTFUL_ROOM if self._follower.is_doubtful else ROOM

    def skip(self, frame: int) -> SettledFrames:
        """Note a frame that cannot be read."""
        return ()

    def flush(self) -> SettledFrames:
        """Settle the frames that still wait."""
        return self._settle_frames(self._dejitter.flush())

    def _settle_frames(self, frames: list[FrameLandmarks]) -> SettledFrames:
        found = [landmarks for landmarks in frames if landmarks.lost is None]
        shapes = {item.frame: item for item in self._predict(found)}
        return [(landmarks.frame, self._place_shapes(landmarks, shapes.get(landmarks.frame))) for landmarks in frames]

    def _place_shapes(self, landmarks: FrameLandmarks, shapes: FrameShapes | None) -> TrackedFrame:
        if shapes is not None and landmarks.crop is not None and not _stand_near(shapes, landmarks.crop):
            return self._settled_frame(replace(landmarks, lost="the model gave no finite shapes near the crop"), None)
        return self._settled_frame(*((landmarks, None) if shapes is None else self._placer.place(landmarks, shapes)))

    def _settled_frame(self, landmarks: FrameLandmarks, shapes: FrameShapes | None) -> TrackedFrame:
        assert landmarks.crop is not None
        hold = landmarks.held_from if landmarks.held_from != landmarks.frame else None
        crop = rounded_crop(landmarks.crop)
        if shapes is None:
            return TrackedFrame(crop, landmarks.lost or "no shapes", hold, (), {}, {}, {}, ())
        return TrackedFrame(
            crop=crop,
            lost=None,
            hold=hold,
            landmarks=_rows_with_errors(landmarks),
            shapes={name: rounded_rows(shapes.points_PK[rows]) for name, rows in self._sheet.point_rows().items()},
            widths=_by_shape_name(self._sheet, covering_widths(shapes)),
            errors=_by_shape_name(self._sheet, shapes.expected_error_px_S),
            hidden=tuple(name for name, seen in zip(self._sheet.shape_names, shapes.is_visible_S) if not seen),
        )


def _stand_near(shapes: FrameShapes, crop: Crop) -> bool:
    return bool(np.isfinite(shapes.points_PK).all()) and are_near(shapes.points_PK[:, :2], crop)


def _by_shape_name(sheet: Sheet, values_S: Array) -> dict[str, float]:
    """The finite values, by the name of their shape."""
    return {name: round(float(value), DIGITS) for name, value in zip(sheet.shape_names, values_S) if np.isfinite(value)}


def _rows_with_errors(landmarks: FrameLandmarks) -> list[list[float] | None]:
    values = np.column_stack([landmarks.points_LC, landmarks.expected_error_px_L])
    return [row if seen else None for row, seen in zip(rounded_rows(values), landmarks.is_visible_L)]


def rounded_rows(values: Array) -> list[list[float]]:
    """Rows (N, K) of plate pixels, rounded to DIGITS decimals as in records."""
    return [[round(number, DIGITS) for number in row] for row in values.astype(np.float64).tolist()]


def rounded_crop(crop: Crop) -> Crop:
    """A crop rounded as in records."""
    return Crop(*(round(float(v), DIGITS) for v in (crop.x, crop.y, crop.side)))


class PixelSource(Protocol):
    """A data window's scene-linear pixels (H, W, 3), computed when a slice needs them."""

    shape: tuple[int, ...]

    def __getitem__(self, window: tuple[slice, slice], /) -> Array:
        """Pixels of some rows and columns."""


class _KnownPlacement(NamedTuple):
    """The placed seams of an exposure, with the input (`asked`) that they were computed from."""

    held_from: int
    asked: bytes
    placed: list[PlacedSeam]


@dataclass(slots=True)
class SeamPlacer:
    """Looks at frames as they pass, and places the seams of settled ones, except those named in `still`."""

    sheet: Sheet
    evidence: Evidence | None
    display: Display
    still: frozenset[str] = frozenset()
    keep_look: KeepLook | None = None
    _looks: dict[int, SeamLook] = field(default_factory=dict)
    _known: _KnownPlacement | None = None

    def see(self, found: FrameLandmarks, pixels: PixelSource, origin: tuple[int, int]) -> None:
        """Keep a look at the frame if it shows a new exposure of the face."""
        if (
            found.held_from != found.frame
            or found.lost is not None
            or found.crop is None
            or not self._placeable_seams()
        ):
            return
        seen = look_near(pixels, origin, rounded_crop(found.crop), self.display, self.evidence)
        if seen is not None:
            self._looks[found.frame] = seen
            if self.keep_look is not None:
                self.keep_look(found.frame, seen)

    def place(self, landmarks: FrameLandmarks, shapes: FrameShapes) -> tuple[FrameLandmarks, FrameShapes]:
        """A settled frame with its seams moved onto the visible ones, and their landmarks moved along.

        Landmarks that a person placed stay, and so do seams that are hidden or sit on such landmarks.
        """
        self._looks = {frame: seen for frame, seen in self._looks.items() if frame >= landmarks.held_from}
        seen = self._looks.get(landmarks.held_from)
        specs = [spec for spec in self._placeable_seams() if self._is_free(spec, landmarks, shapes)]
        if seen is None or not specs:
            return landmarks, shapes
        rows, columns = self.sheet.point_rows(), [self.sheet.shape_names.index(spec.name) for spec in specs]
        seams = [
            Seam(shapes.points_PK[rows[spec.name]], float(shapes.width_px_S[k]), float(shapes.expected_error_px_S[k]))
            for spec, k in zip(specs, columns)
        ]
        placed = [
            item if self._is_trusted(spec, landmarks, seam, item) else _leave_in_place(seam)
            for spec, seam, item in zip(specs, seams, self._placed_seams(landmarks, seams, seen))
        ]
        points, errors = shapes.points_PK.copy(), shapes.expected_error_px_S.copy()
        at = landmarks.points_LC.copy()
        for spec, k, item in zip(specs, columns, placed):
            points[rows[spec.name]], errors[k] = item.points, item.expected_error_px
            for point, name in spec.on_landmarks.items():
                at[self.sheet.landmark_row(name)] += (
                    item.points[point, :2] - shapes.points_PK[rows[spec.name]][point, :2]
                )
        return replace(landmarks, points_LC=at), replace(shapes, points_PK=points, expected_error_px_S=errors)

    def _placeable_seams(self) -> list[ShapeSpec]:
        free = (spec for spec in self.sheet.shapes if spec.role == "seam" and not spec.closed)
        return [spec for spec in free if spec.name not in self.still]

    def _is_free(self, spec: ShapeSpec, landmarks: FrameLandmarks, shapes: FrameShapes) -> bool:
        k = self.sheet.shape_names.index(spec.name)
        by_hand = any(landmarks.hand_L[self.sheet.landmark_row(name)] for name in spec.on_landmarks.values())
        known = np.isfinite(shapes.width_px_S[k]) and np.isfinite(shapes.expected_error_px_S[k])
        return bool(shapes.is_visible_S[k] and known and not by_hand)

    def _is_trusted(self, spec: ShapeSpec, landmarks: FrameLandmarks, seam: Seam, item: PlacedSeam) -> bool:
        """Whether a seam is completely visible, or has moved by no more than its expected error.

        A seam with a hidden end would be attracted by the edges that hide it. On validation shots of two characters 1.5
        px were kept in 84.4 % of frames without this, in 87.2 % with it, and the mean went from 0.94 to 0.88 px.
        """
        rows = [self.sheet.landmark_row(name) for name in spec.on_landmarks.values()] or list(self.sheet.rows_of(spec))
        in_sight = bool((landmarks.visible_L[rows] >= IN_SIGHT).all())
        return in_sight or item.moved_px <= seam.expected_error_px

    def _placed_seams(self, landmarks: FrameLandmarks, seams: list[Seam], seen: SeamLook) -> list[PlacedSeam]:
        asked = b"".join(
            np.append(seam.points, (seam.width_px, seam.expected_error_px)).astype(np.float64).tobytes()
            for seam in seams
        )
        known = self._known
        if known is None or (known.held_from, known.asked) != (landmarks.held_from, asked):
            face_px = crop_around(landmarks.points_LC, margin=1.0).side
            known = _KnownPlacement(landmarks.held_from, asked, place(seams, seen, face_px, self.evidence))
            self._known = known
        return known.placed


def look_near(
    pixels: PixelSource, origin: tuple[int, int], crop: Crop, display: Display, evidence: Evidence | None
) -> SeamLook | None:
    """A look at a crop of a data window whose corner is at `origin`; None where less than 8 px of it are in the
    window."""
    rows, columns = crop_window(crop, pixels.shape, origin)
    if rows.stop - rows.start < 8 or columns.stop - columns.start < 8:
        return None
    return look(pixels[rows, columns], origin[0] + columns.start, origin[1] + rows.start, crop, display, evidence)


def _leave_in_place(seam: Seam) -> PlacedSeam:
    return PlacedSeam(seam.points, 0.0, 0.0, seam.expected_error_px)


def crop_area(crop: Crop) -> Area:
    """The area of a frame that is read to follow its face and to place its seams, in whole pixels."""
    half = crop.side / 2
    inner = Area(floor(crop.x - half), floor(crop.y - half), ceil(crop.x + half), ceil(crop.y + half))
    return inner.grown(_MARGIN_PX)


def crop_window(crop: Crop, shape: tuple[int, ...], origin: tuple[int, int]) -> tuple[slice, slice]:
    """Rows and columns of the data window inside a crop's area."""
    area = crop_area(crop)
    rows = _span_within(int(area.top) - origin[1], int(area.bottom) - origin[1], shape[0])
    return rows, _span_within(int(area.left) - origin[0], int(area.right) - origin[0], shape[1])


def _span_within(low: int, high: int, size: int) -> slice:
    return slice(min(max(low, 0), size), max(min(high, size), 0))
