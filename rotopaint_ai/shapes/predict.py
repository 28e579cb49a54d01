"""From landmarks to roto shapes, by a model that is handed in as a callable.

N frames, L landmarks, C components x then y, P control points of all shapes in the sheet's order, K the six numbers of
a control point, S shapes. Plate space, pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from rotopaint_ai.landmarks.metrics import face_size_F
from rotopaint_ai.landmarks.track import Array, Flags, FrameLandmarks, LandmarkTrack
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, Points, RotoDocument, RotoShape
from rotopaint_ai.sheet import ShapeSpec, Sheet

Numbers = npt.NDArray[np.float32]

# A shape model: landmarks (N,L,2) to control points (N,P,6) in the same space, and the full width of each shape's
# matte (N,S) in the same unit, or None where the model does not know widths.
PredictShapes = Callable[[Numbers], tuple[Numbers, Numbers | None]]

_DOUBT_SHARE = 0.2  # of a seam's width: how much doubt about its place may widen its matte on each side
_WIDTH_QUANTILE = 0.9  # one width serves the whole shot, so it has to cover the frames where the face is large


@dataclass(frozen=True, slots=True, eq=False)
class FrameShapes:
    """All shapes of one frame.

    `expected_error_px_S` joins the expected errors of the landmarks that a shape hangs on with the residual between
    them and the control points that ought to sit on them. `width_px_S` is NaN where nothing is known.
    """

    frame: int
    points_PK: Array
    expected_error_px_S: Array
    width_px_S: Array
    is_visible_S: Flags


@dataclass(slots=True)
class ShapePredictor:
    """Predicts the shapes of frames. Equal landmarks give exactly equal shapes, whatever batch they come in."""

    sheet: Sheet
    model: PredictShapes
    _known: dict[bytes, tuple[Array, Array | None]] = field(default_factory=dict)

    def __call__(self, frames: Sequence[FrameLandmarks]) -> list[FrameShapes]:
        """Shapes of those frames, in their order."""
        keys = [np.ascontiguousarray(frame.points_LC, dtype=np.float32).tobytes() for frame in frames]
        new = {key: frame.points_LC for key, frame in zip(keys, frames) if key not in self._known}
        known = {key: self._known[key] for key in keys if key in self._known}
        if new:
            points, width = self.model(np.stack(list(new.values())).astype(np.float32))
            for row, key in enumerate(new):
                own_width = None if width is None else np.asarray(width[row], dtype=np.float64)
                known[key] = (np.asarray(points[row], dtype=np.float64), own_width)
        self._known = {keys[-1]: known[keys[-1]]} if keys else {}  # a hold may go on in the next call
        return [self._shapes_at(frame, *known[key]) for key, frame in zip(keys, frames)]

    def _shapes_at(self, frame: FrameLandmarks, points_PK: Array, width_S: Array | None) -> FrameShapes:
        return FrameShapes(
            frame.frame,
            points_PK,
            expected_errors(frame, points_PK, self.sheet),
            _known_widths(frame, width_S, self.sheet),
            np.array([_is_visible(frame, shape, self.sheet) for shape in self.sheet.shapes], dtype=bool),
        )


def predict(track: LandmarkTrack, sheet: Sheet, model: PredictShapes) -> list[FrameShapes]:
    """Shapes of every frame of a track in which the face was not lost, in ascending order."""
    return ShapePredictor(sheet, model)([track.frames[frame] for frame in track.numbers if frame not in track.lost])


def expected_errors(frame: FrameLandmarks, points_PK: Array, sheet: Sheet) -> Array:
    """Expected error (S,) of each shape's curve in pixels."""
    rows = sheet.point_rows()
    errors = []
    for shape in sheet.shapes:
        landmark_error = float(frame.expected_error_px_L[list(sheet.rows_of(shape))].mean())
        errors.append(float(np.hypot(landmark_error, _residual(frame, points_PK[rows[shape.name]], shape, sheet))))
    return np.array(errors)


def covering_widths(shapes: FrameShapes) -> Array:
    """Full widths (S,) that mattes need to cover the seams although their curves may be a little off.

    The width of the seam itself, and on either side the curve's expected error, up to a fifth of the width.
    """
    return np.asarray(shapes.width_px_S + 2 * np.minimum(shapes.expected_error_px_S, _DOUBT_SHARE * shapes.width_px_S))


def _residual(frame: FrameLandmarks, points: Array, shape: ShapeSpec, sheet: Sheet) -> float:
    """Root mean square distance of control points to the landmarks they ought to sit on; 0 where there are none."""
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
    """A shape counts as hidden when every landmark that it sits on (or else hangs on) is hidden."""
    rows = [sheet.landmark_row(name) for name in shape.on_landmarks.values()] or list(sheet.rows_of(shape))
    return bool(frame.is_visible_L[rows].any())


def to_document(
    track: LandmarkTrack,
    shapes: Sequence[FrameShapes],
    sheet: Sheet,
    *,
    width: int,
    height: int,
    first_frame: int,
    last_frame: int,
    pixel_aspect: float = 1.0,
    fps: float = 24.0,
    keep: RotoDocument | None = None,
) -> RotoDocument:
    """The roto document of a shot.

    Every key has the source `model`. Hidden landmarks stand as None (those placed by hand never are); lost frames get
    no keys, so that shapes go on linearly from the frames around them. What a person did in `keep` stays exactly as it
    is: human keys, hand landmarks, widths, feathers and tapers of shapes that are there, shapes that the sheet lacks.
    """
    predicted = tuple(_shape_of_spec(spec, shapes, sheet) for spec in sheet.shapes)
    document = RotoDocument(
        width=width,
        height=height,
        first_frame=first_frame,
        last_frame=last_frame,
        pixel_aspect=pixel_aspect,
        fps=fps,
        landmarks=landmark_keys(track),
        shapes=predicted,
    )
    return document if keep is None else _with_human_work(document, keep)


def landmark_keys(track: LandmarkTrack) -> LandmarkKeys:
    """A track as the document keeps it: hidden landmarks as None, lost frames left out."""
    frames = [track.frames[number] for number in track.numbers if number not in track.lost]
    return LandmarkKeys(
        names=track.names,
        keys={frame.frame: _landmark_row(frame) for frame in frames},
        hand={
            frame.frame: frozenset(name for name, by_hand in zip(track.names, frame.hand_L) if by_hand)
            for frame in frames
            if frame.hand_L.any()
        },
    )


def to_points(points: Array) -> Points:
    """Control points (n, 6) as the document keeps them."""
    return tuple(ControlPoint(*row) for row in points.tolist())


def _landmark_row(frame: FrameLandmarks) -> tuple[Landmark | None, ...]:
    rows = zip(frame.points_LC.tolist(), frame.expected_error_px_L.tolist(), frame.is_visible_L | frame.hand_L)
    return tuple(Landmark(x, y, error) if is_visible else None for (x, y), error, is_visible in rows)


def _shape_of_spec(spec: ShapeSpec, shapes: Sequence[FrameShapes], sheet: Sheet) -> RotoShape:
    rows, column = sheet.point_rows()[spec.name], sheet.shape_names.index(spec.name)
    widths = np.array([frame.width_px_S[column] for frame in shapes])
    has_width = not spec.closed and bool(np.isfinite(widths).any())
    return RotoShape(
        name=spec.name,
        closed=spec.closed,
        role=spec.role,
        keys={frame.frame: Key(to_points(frame.points_PK[rows])) for frame in shapes},
        width_px=float(np.nanquantile(widths, _WIDTH_QUANTILE)) if has_width else None,
        feather_px=spec.feather_px,
        taper=spec.taper,
        visible={frame.frame: False for frame in shapes if not frame.is_visible_S[column]},
    )


def _with_human_work(document: RotoDocument, keep: RotoDocument) -> RotoDocument:
    old = {shape.name: shape for shape in keep.shapes}
    merged = [_with_human_keys(shape, old[shape.name]) if shape.name in old else shape for shape in document.shapes]
    added = [shape for shape in keep.shapes if shape.name not in {item.name for item in document.shapes}]
    landmarks = _merged_landmarks(document.landmarks, keep.landmarks)
    return replace(document, shapes=(*merged, *added), landmarks=landmarks)


def _with_human_keys(new: RotoShape, old: RotoShape) -> RotoShape:
    human = {frame: key for frame, key in old.keys.items() if key.source == "human"}
    is_other_spline = any(len(key.points) != new.n_points for key in human.values()) or new.closed != old.closed
    if human and new.keys and is_other_spline:
        return old  # a person rebuilt the spline: it is theirs
    return replace(
        new,
        keys={**new.keys, **human},
        width_px=old.width_px if old.width_px is not None else new.width_px,
        feather_px=old.feather_px,
        taper=old.taper,
        visible={**new.visible, **{frame: old.is_visible(frame) for frame in human}},
    )


def _merged_landmarks(new: LandmarkKeys, old: LandmarkKeys) -> LandmarkKeys:
    keys: dict[int, tuple[Landmark | None, ...]] = dict(new.keys)
    hand: dict[int, frozenset[str]] = dict(new.hand)
    for frame, names in old.hand.items():
        placed: Mapping[str, Landmark | None] = dict(zip(old.names, old.keys.get(frame, ())))
        known = {name for name in names if name in placed and name in new.names}
        row = keys.get(frame, tuple(None for _ in new.names))
        keys[frame] = tuple(placed[name] if name in known else at for name, at in zip(new.names, row))
        hand[frame] = hand.get(frame, frozenset()) | known
    return LandmarkKeys(new.names, keys, hand)
