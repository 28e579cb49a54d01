"""A shot corrected from a few human keys: the difference to what the models said, carried to all its other frames.

The difference between a person's spline and the model's is taken in face space, that is turned and sized with the head,
and is taken to vary smoothly with the pose of the face and with time. Its best estimate at every other frame is then
closed-form (a Gaussian process, Rasmussen and Williams, "Gaussian Processes for Machine Learning", eq. 2.25) and goes
through the human keys exactly. A hold is one pose at one time, so that all its frames move as one.

Convention: F frames, N corrected ones, L landmarks, P control points of a shape. Splines and landmarks are complex
numbers x + iy in plate space; a spline is its 3 P points, ends of incoming and ends of outgoing tangents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes import poses
from rotopaint_ai.shapes.human import with_keys
from rotopaint_ai.shapes.roto import ControlPoint, Key, LandmarkKeys, RotoDocument, RotoShape

Complex = NDArray[np.complex128]
Array = NDArray[np.float64]
Keys = Mapping[str, Mapping[int, Key]]

SAME = 1.0  # variance of a difference that all frames share, in units of the whole
WITH_POSE = 1.0  # that grows in proportion to the pose
NEAR_POSE = 1.0  # of poses alike
ALIKE = 0.05  # of the face's size: how far poses may differ and still be alike
NEAR_TIME = 0.5  # of frames close in time
CLOSE = 4.0  # frames
_EXACT = 1e-6
_STILL_PX = 0.01  # a key that would move by less stays the model's
_TOO_FEW = 3  # landmarks that a similarity needs
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class FaceSpace:
    """Where the head is at every frame, and what its face looks like there.

    `factor_F`: size and turn of the head as one complex number; `look_FL`: landmarks less the mean face, in units of
    the face's size; `time_F`: the frame, of a hold its first one.
    """

    frames: tuple[int, ...]
    factor_F: Complex
    look_FL: Complex
    time_F: Array

    def rows(self, frames: Sequence[int]) -> NDArray[np.intp]:
        """Rows of frames; of one without landmarks that of the nearest frame with some."""
        known = np.array(self.frames)
        after = np.clip(np.searchsorted(known, frames), 0, len(known) - 1)
        before = np.maximum(after - 1, 0)
        nearer = np.abs(known[before] - frames) < np.abs(known[after] - frames)
        return np.asarray(np.where(nearer, before, after), dtype=np.intp)

    def kernel(self, a: NDArray[np.intp], b: NDArray[np.intp]) -> Array:
        """How much the differences at rows `a` and `b` have to do with each other (len a, len b)."""
        x, y = self.look_FL[a], self.look_FL[b]
        shared = np.real(x @ y.conj().T)
        apart = (abs(x) ** 2).sum(1)[:, None] + (abs(y) ** 2).sum(1)[None] - 2 * shared
        spread = max(float((abs(self.look_FL) ** 2).sum(1).mean()), 1e-12)
        lag = self.time_F[a][:, None] - self.time_F[b][None]
        return np.asarray(
            SAME
            + WITH_POSE * shared / spread
            + NEAR_POSE * np.exp(-np.maximum(apart, 0.0) / (2 * ALIKE**2))
            + NEAR_TIME * np.exp(-(lag**2) / (2 * CLOSE**2))
        )


def face_space(landmarks: LandmarkKeys) -> FaceSpace | None:
    """The face space of a shot; None where no frame has landmarks enough."""
    rows = {frame: row for frame, row in sorted(landmarks.keys.items()) if sum(p is not None for p in row) >= _TOO_FEW}
    if not rows:
        return None
    points = np.array([[complex(p.x, p.y) if p else complex("nan") for p in row] for row in rows.values()])
    factor, look = _aligned(points)
    return FaceSpace(tuple(rows), factor, look / np.sqrt(look.shape[1]), _hold_starts(tuple(rows), points))


def refit(predicted: RotoDocument, document: RotoDocument, names: Sequence[str] | None = None) -> Keys:
    """New keys of all frames that no person has keyed, by shape: what the models said, corrected by what people did.

    A key that nothing moves is the model's own. Shapes without a correction, or whose spline is not the model's any
    more, are left out.
    """
    space = face_space(predicted.landmarks)
    if space is None:
        return {}
    return _each(predicted, document, names, lambda base, shape, hand: _refitted(space, base, shape, hand))


def spread(predicted: RotoDocument, document: RotoDocument, frame: int, first: int, last: int) -> Keys:
    """New keys of `first` to `last`, by shape: the correction at `frame`, fading out towards the ends of the range.

    It is full where the face looks as it does at `frame`; beyond a human key it does not reach.
    """
    space = face_space(predicted.landmarks)
    if space is None:
        return {}
    bounds = frame, first, last
    return _each(predicted, document, None, lambda base, shape, hand: _spread(space, base, shape, hand, bounds))


def again(
    predicted: RotoDocument, document: RotoDocument, before: RotoDocument, spreads: Sequence[tuple[int, int, int]]
) -> RotoDocument:
    """A new run's document with the corrections carried on as they were in the one before it.

    Each spread (frame, first, last) is made again, and the whole shot is refitted where it had been.
    """
    covered = {frame for _, first, last in spreads for frame in range(first, last + 1)}
    followed = {f for shape in before.shapes for f, key in shape.keys.items() if key.source == "propagated"}
    if followed - covered:
        document = with_keys(document, refit(predicted, document))
    for frame, first, last in spreads:
        document = with_keys(document, spread(predicted, document, frame, first, last))
    return document


def corrected_frames(predicted: RotoShape, shape: RotoShape, document: RotoDocument) -> list[int]:
    """Frames where a person's hand is in a shape: human keys, and keys that followed a landmark placed by hand."""
    found = [frame for frame, key in shape.keys.items() if key.source == "human"]
    for frame in document.landmarks.hand:
        key = shape.keys.get(frame)
        if key is not None and key.source == "model" and key != predicted.keys.get(frame):
            found.append(frame)
    return sorted(found)


# --- parts ------------------------------------------------------------------------------------------------------------

Correct = Callable[[RotoShape, RotoShape, list[int]], dict[int, Key]]


def _each(predicted: RotoDocument, document: RotoDocument, names: Sequence[str] | None, correct: Correct) -> Keys:
    model = {shape.name: shape for shape in predicted.shapes}
    new: dict[str, dict[int, Key]] = {}
    for shape in document.shapes:
        base = model.get(shape.name)
        if base is None or not base.keys or (names is not None and shape.name not in names):
            continue
        hand = corrected_frames(base, shape, document)
        if hand and (shape.n_points, shape.closed) == (base.n_points, base.closed):
            new[shape.name] = correct(base, shape, hand)
    return new


def _refitted(space: FaceSpace, base: RotoShape, shape: RotoShape, hand: list[int]) -> dict[int, Key]:
    frames = [frame for frame in sorted({*base.keys, *shape.keys}) if frame not in set(hand)]
    if not frames:
        return {}
    at, of = space.rows(frames), space.rows(hand)
    wrong = (_splines(shape, hand) - _splines(base, hand)) / space.factor_F[of][:, None]
    among = space.kernel(of, of)
    weights = np.linalg.solve(among + _EXACT * np.trace(among) * np.eye(len(of)), space.kernel(of, at)).T
    moved = (weights @ wrong) * space.factor_F[at][:, None]
    return _moved_keys(base, shape, frames, _splines(base, frames) + moved)


def _spread(
    space: FaceSpace, base: RotoShape, shape: RotoShape, hand: list[int], bounds: tuple[int, int, int]
) -> dict[int, Key]:
    frame, first, last = bounds
    if frame not in hand:
        return {}
    low = max([first, *(each + 1 for each in hand if each < frame)])
    high = min([last, *(each - 1 for each in hand if each > frame)])
    frames = [each for each in sorted({*base.keys, *shape.keys}) if low <= each <= high and each != frame]
    if not frames:
        return {}
    at, of = space.rows(frames), space.rows([frame])
    factor = space.factor_F[at][:, None]
    here = (_splines(shape, [frame]) - _splines(base, [frame])) / space.factor_F[of][:, None]
    before = (_splines(shape, frames) - _splines(base, frames)) / factor
    apart = (abs(space.look_FL[at] - space.look_FL[of]) ** 2).sum(1)
    share = np.exp(-apart / (2 * (2 * ALIKE) ** 2)) * _fade(space.time_F[at], space.time_F[of][0], low, high)
    blended = before + share[:, None] * (here - before)
    return _moved_keys(base, shape, frames, _splines(base, frames) + blended * factor)


def _fade(time: Array, centre: float, first: int, last: int) -> Array:
    """1 around the centre, falling smoothly to nothing just beyond the ends; flat for the nearer half of the way."""
    reach = np.where(time < centre, centre - first + 1, last + 1 - centre)
    way = np.clip(np.abs(time - centre) / np.maximum(reach, 1), 0, 1)
    u = np.clip(2 * way - 1, 0, 1)
    return np.asarray(1 - u * u * (3 - 2 * u))


def _moved_keys(base: RotoShape, shape: RotoShape, frames: Sequence[int], splines: Complex) -> dict[int, Key]:
    """Keys of splines; where one lies on the model's, the model's key itself."""
    still = abs(splines - _splines(base, frames)).max(axis=1) < _STILL_PX
    new: dict[int, Key] = {}
    for frame, row, is_still in zip(frames, splines, still):
        model, old = base.keys.get(frame), shape.keys.get(frame)
        if is_still and model is not None:
            new[frame] = model
        else:
            kind = (old or model or Key(())).interpolation
            new[frame] = Key(_points(row), "propagated", kind)
    return new


def _splines(shape: RotoShape, frames: Sequence[int]) -> Complex:
    """Points, ends of incoming and of outgoing tangents (F, 3 P) at frames."""
    rows = poses.rows(shape, frames).reshape(len(frames), -1, 3, 2)
    xy = rows[..., 0] + 1j * rows[..., 1]
    return np.asarray(np.concatenate([xy[..., 0], xy[..., 0] + xy[..., 1], xy[..., 0] + xy[..., 2]], axis=1))


def _points(spline: Complex) -> tuple[ControlPoint, ...]:
    at, back, out = spline.reshape(3, -1)
    back, out = back - at, out - at
    columns = np.round(np.stack([at.real, at.imag, back.real, back.imag, out.real, out.imag], axis=1), 4)
    return tuple(ControlPoint(*row) for row in columns.tolist())


def _aligned(points_FL: Complex) -> tuple[Complex, Complex]:
    """Similarity of the head at each frame (its factor), and landmarks less the mean face, hidden ones 0.

    The mean face has root mean square radius 1. Generalised Procrustes analysis by turns: faces to the mean, mean of
    the faces (Gower 1975).
    """
    seen = ~np.isnan(points_FL)
    first = points_FL[int(seen.sum(1).argmax())]
    mean = np.where(np.isnan(first), np.nanmean(first), first)
    for _ in range(_ROUNDS):
        mean = (mean - mean.mean()) / max(np.sqrt((abs(mean) ** 2).mean()), 1e-9)
        factor, faces = _to_mean(points_FL, seen, mean)
        count = seen.sum(0)
        mean = np.where(count > 0, np.where(seen, faces, 0).sum(0) / np.maximum(count, 1), mean)
    return factor, np.where(seen, faces - mean, 0)


def _to_mean(points_FL: Complex, seen: NDArray[np.bool_], mean_L: Complex) -> tuple[Complex, Complex]:
    """Each frame's similarity z = factor * mean + shift by least squares, and its landmarks undone of it."""
    count = seen.sum(1)[:, None]
    z, m = np.where(seen, points_FL, 0), np.where(seen, mean_L[None], 0)
    z_mean, m_mean = z.sum(1, keepdims=True) / count, m.sum(1, keepdims=True) / count
    z_c, m_c = np.where(seen, z - z_mean, 0), np.where(seen, m - m_mean, 0)
    factor = (m_c.conj() * z_c).sum(1) / np.maximum((abs(m_c) ** 2).sum(1), 1e-12)
    factor = np.where(abs(factor) > 1e-9, factor, 1)
    return factor, (z - z_mean) / factor[:, None] + m_mean


def _hold_starts(frames: tuple[int, ...], points_FL: Complex) -> Array:
    """For each frame the first one of its hold: landmarks that repeat exactly."""
    same = (points_FL[1:] == points_FL[:-1]) | (np.isnan(points_FL[1:]) & np.isnan(points_FL[:-1]))
    starts = [frames[0]]
    for frame, is_held in zip(frames[1:], same.all(axis=1)):
        starts.append(starts[-1] if is_held else frame)
    return np.array(starts, dtype=np.float64)
