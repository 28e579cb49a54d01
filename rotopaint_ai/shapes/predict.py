"""Roto shapes from landmarks, by a model given as a callable.

N frames, L landmarks, C components x then y, P control points of all shapes in the sheet's order, K the six numbers of
a control point, S shapes. Plate space, pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rotopaint_ai.landmarks.metrics import face_size_F
from rotopaint_ai.landmarks.track import Array, Flags, FrameLandmarks
from rotopaint_ai.sheet import ShapeSpec, Sheet

Numbers = npt.NDArray[np.float32]

# A shape model: landmarks (N,L,2) to control points (N,P,6) in the same space, and the full width of each shape's matte
# (N,S) in the same unit, or None without widths.
PredictShapes = Callable[[Numbers], tuple[Numbers, Numbers | None]]

_DOUBT_SHARE = 0.2  # largest share of a seam's width by which its expected error widens the matte on each side


@dataclass(frozen=True, slots=True, eq=False)
class FrameShapes:
    """All shapes of one frame.

    `expected_error_px_S` combines the expected errors of a shape's landmarks with the residual to the control points
    that should lie on them. `width_px_S` is NaN where unknown.
    """

    frame: int
    points_PK: Array
    expected_error_px_S: Array
    width_px_S: Array
    is_visible_S: Flags


@dataclass(slots=True)
class ShapePredictor:
    """Predicts the shapes of frames. Equal landmarks give exactly equal shapes, in any batch."""

    sheet: Sheet
    model: PredictShapes
    _known: dict[bytes, tuple[Array, Array | None]] = field(default_factory=dict)

    def __call__(self, frames: Sequence[FrameLandmarks]) -> list[FrameShapes]:
        """Shapes of the given frames, in order."""
        keys = [np.ascontiguousarray(frame.points_LC, dtype=np.float32).tobytes() for frame in frames]
        new = {key: frame.points_LC for key, frame in zip(keys, frames) if key not in self._known}
        known = {key: self._known[key] for key in keys if key in self._known}
        if new:
            points, width = self.model(np.stack(list(new.values())).astype(np.float32))
            for row, key in enumerate(new):
                own_width = None if width is None else np.asarray(width[row], dtype=np.float64)
                known[key] = (np.asarray(points[row], dtype=np.float64), own_width)
        self._known = {keys[-1]: known[keys[-1]]} if keys else {}  # a hold may continue in the next call
        return [self._shapes_at(frame, *known[key]) for key, frame in zip(keys, frames)]

    def _shapes_at(self, frame: FrameLandmarks, points_PK: Array, width_S: Array | None) -> FrameShapes:
        return FrameShapes(
            frame.frame,
            points_PK,
            expected_errors(frame, points_PK, self.sheet),
            _known_widths(frame, width_S, self.sheet),
            np.array([_is_visible(frame, shape, self.sheet) for shape in self.sheet.shapes], dtype=bool),
        )


def expected_errors(frame: FrameLandmarks, points_PK: Array, sheet: Sheet) -> Array:
    """Expected error (S,) of each shape's curve in pixels."""
    rows = sheet.point_rows()
    errors = []
    for shape in sheet.shapes:
        landmark_error = float(frame.expected_error_px_L[list(sheet.rows_of(shape))].mean())
        errors.append(float(np.hypot(landmark_error, _residual(frame, points_PK[rows[shape.name]], shape, sheet))))
    return np.array(errors)


def covering_widths(shapes: FrameShapes) -> Array:
    """Full widths (S,) of mattes that cover the seams although their curves err slightly.

    The seam's width, plus on either side the curve's expected error, up to a fifth of the width.
    """
    return np.asarray(shapes.width_px_S + 2 * np.minimum(shapes.expected_error_px_S, _DOUBT_SHARE * shapes.width_px_S))


def _residual(frame: FrameLandmarks, points: Array, shape: ShapeSpec, sheet: Sheet) -> float:
    """Root mean square distance of control points to the landmarks on which they should lie; 0 without any."""
    if not shape.on_landmarks:
        return 0.0
    landmarks = frame.points_LC[[sheet.landmark_row(name) for name in shape.on_landmarks.values()]]
    return float(np.sqrt(((points[list(shape.on_landmarks), :2] - landmarks) ** 2).sum(axis=1).mean()))


def _known_widths(frame: FrameLandmarks, width_S: Array | None, sheet: Sheet) -> Array:
    size = float(face_size_F(frame.points_LC[None])[0])
    usual = np.array([np.nan if shape.width_share is None else shape.width_share * size for shape in sheet.shapes])
    if width_S is None:
        return usual
    return np.where(np.isfinite(width_S) & (width_S > 0), width_S, usual)


def _is_visible(frame: FrameLandmarks, shape: ShapeSpec, sheet: Sheet) -> bool:
    """A shape counts as hidden if every landmark on it (or, without any, every landmark it is predicted from) is
    hidden."""
    rows = [sheet.landmark_row(name) for name in shape.on_landmarks.values()] or list(sheet.rows_of(shape))
    return bool(frame.is_visible_L[rows].any())
