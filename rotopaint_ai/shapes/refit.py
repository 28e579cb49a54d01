"""A shot corrected from a few human keys: the difference to what the models said, carried to all its other frames.

Two things are unknown: where a spline truly is at every frame, and by how much the models are wrong there. The first
moves from frame to frame as a random walk; the second is a difference in face space, turned and sized with the head,
that varies with the pose of the face and slowly with time, and some noise as large as the models expect it to be. Human
keys tell the first exactly, the models' splines the sum. The best estimate of the first is then closed-form (a Gaussian
process, Rasmussen and Williams, "Gaussian Processes for Machine Learning", eq. 2.23), and goes through the human keys.
A hold is one pose at one time, so that all its frames move as one.

Convention: F frames, H holds, N corrected holds, L landmarks, P control points of a shape. Splines and landmarks are
complex numbers x + iy in plate space; a spline is its 3 P points, ends of incoming and ends of outgoing tangents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes import poses
from rotopaint_ai.shapes.human import Carried, corrected_frames, to_carry_on, with_keys, within
from rotopaint_ai.shapes.roto import ControlPoint, Key, LandmarkKeys, RotoDocument, RotoShape

Complex = NDArray[np.complex128]
Array = NDArray[np.float64]
Keys = Mapping[str, Mapping[int, Key]]

Errors = Mapping[str, Mapping[int, float]]  # expected error in pixels by shape and frame

# Chosen on rendered shots of `rotopaint_ai.stage` alone (benchmarks/keys.py), in units of the expected error's square.
SAME = 0.3  # variance of the models' error that all frames share
WITH_POSE = 0.3  # that grows in proportion to the pose
NEAR_POSE = 0.5  # of poses alike
ALIKE = 0.05  # of the face's size: how far poses may differ and still be alike
NEAR_TIME = 0.5  # of frames close in time
CLOSE = 12.0  # frames
OWN = 0.1  # share of the noise that a frame's own prediction is taken to have
LEAST_PX = 1.0  # error of the models across the curve, where they expect as much, that is reckoned with at the least
FREE = 10.0  # how far from the models' mean a spline may be altogether, in units of its own variance
LEAST_WALK = 0.1  # share of the motion between neighbouring holds that is never taken for noise
LEAST_NOISE = 0.05  # and of its square that always is
WINDOW, MARGIN = 400, 80  # holds solved together, and those beside them that have a say
_EXACT = 1e-4  # of the noise: what a human key may be off
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

    def kernel(self, rows: NDArray[np.intp]) -> Complex:
        """How much the models' errors at rows have to do with each other (len rows, len rows), turned with the head."""
        look, time = self.look_FL[rows], self.time_F[rows]
        shared = np.real(look @ look.conj().T)
        square = np.diag(shared)
        apart = np.maximum(square[:, None] + square[None] - 2 * shared, 0.0)
        spread = max(float((abs(self.look_FL) ** 2).sum(1).mean()), 1e-12)
        lag = abs(time[:, None] - time[None])
        turn = self.factor_F[rows] / abs(self.factor_F).mean()
        alike = (
            SAME
            + WITH_POSE * shared / spread
            + NEAR_POSE * np.exp(-apart / (2 * ALIKE**2))
            + NEAR_TIME * np.exp(-lag / CLOSE)
        )
        return np.asarray(turn[:, None] * turn[None].conj() * alike)


def face_space(landmarks: LandmarkKeys) -> FaceSpace | None:
    """The face space of a shot; None where no frame has landmarks enough."""
    rows = {frame: row for frame, row in sorted(landmarks.keys.items()) if sum(p is not None for p in row) >= _TOO_FEW}
    if not rows:
        return None
    points = np.array([[complex(p.x, p.y) if p else complex("nan") for p in row] for row in rows.values()])
    factor, look = _aligned(points)
    return FaceSpace(tuple(rows), factor, look / np.sqrt(look.shape[1]), _hold_starts(tuple(rows), points))


def refit(predicted: RotoDocument, document: RotoDocument, errors: Errors | None = None) -> Keys:
    """New keys of all frames that no person has keyed, by shape: what the models said, corrected by what people did.

    `errors` are the expected errors of the run; without them those of the landmarks stand for all shapes. A key that
    nothing moves is the model's own. Shapes without a correction, or whose spline is not the model's any more, are
    left out.
    """
    space = face_space(predicted.landmarks)
    if space is None:
        return {}
    of_face = {
        frame: float(np.mean([p.expected_error_px for p in row if p is not None] or [1.0]))
        for frame, row in predicted.landmarks.keys.items()
    }

    def correct(base: RotoShape, shape: RotoShape, hand: list[int]) -> dict[int, Key]:
        return _refitted(space, base, shape, hand, (errors or {}).get(shape.name) or of_face)

    return _each(predicted, document, correct)


def spread(predicted: RotoDocument, document: RotoDocument, frame: int, first: int, last: int) -> Keys:
    """New keys of `first` to `last`, by shape: the correction at `frame`, fading out towards the ends of the range.

    It is carried in face space, turned and sized with the head. How far it reaches is the artist's word (`reach` makes
    a proposal by the looks of the face); beyond a human key it does not go.
    """
    space = face_space(predicted.landmarks)
    if space is None:
        return {}
    bounds = frame, first, last
    return _each(predicted, document, lambda base, shape, hand: _spread(space, base, shape, hand, bounds))


def again(
    predicted: RotoDocument,
    document: RotoDocument,
    before: RotoDocument,
    spreads: Sequence[Carried],
    frames: Collection[int],
) -> RotoDocument:
    """A new run's document with the corrections carried on as they were in the one before it; only `frames` change."""
    for each in to_carry_on(before, spreads, frames):
        keys = (
            refit(predicted, document)
            if each is None
            else spread(predicted, document, each.frame, each.first, each.last)
        )
        document = with_keys(document, within(keys, frames))
    return document


# --- parts ------------------------------------------------------------------------------------------------------------

Correct = Callable[[RotoShape, RotoShape, list[int]], dict[int, Key]]


def _each(predicted: RotoDocument, document: RotoDocument, correct: Correct) -> Keys:
    model = {shape.name: shape for shape in predicted.shapes}
    new: dict[str, dict[int, Key]] = {}
    for shape in document.shapes:
        base = model.get(shape.name)
        if base is None or not base.keys:
            continue
        hand = corrected_frames(base, shape, document)
        if hand and (shape.n_points, shape.closed) == (base.n_points, base.closed):
            new[shape.name] = correct(base, shape, hand)
    return new


def _refitted(
    space: FaceSpace, base: RotoShape, shape: RotoShape, hand: list[int], errors: Mapping[int, float]
) -> dict[int, Key]:
    frames = sorted({*base.keys, *shape.keys})
    time = space.time_F[space.rows(frames)]
    starts, hold_F = np.unique(time, return_inverse=True)
    first = [frames[int(np.argmax(hold_F == hold))] for hold in range(len(starts))]
    said = _splines(base, first)
    keyed = {int(hold_F[frames.index(frame)]): frame for frame in hand}
    true = dict(zip(keyed, _splines(shape, list(keyed.values()))))
    usual = float(np.median(list(errors.values()) or [1.0]))
    error_H = np.maximum([errors.get(frame, usual) for frame in first], 1e-3)
    estimate = _estimated(space, space.rows(first), said, error_H, true)
    others = [frame for frame in frames if frame not in set(hand)]
    rows = hold_F[np.searchsorted(frames, others)]
    return _moved_keys(base, shape, others, estimate[rows]) if others else {}


def _estimated(
    space: FaceSpace, rows: NDArray[np.intp], said: Complex, error_H: Array, true: Mapping[int, Complex]
) -> Complex:
    """Where a spline truly is at every hold, (H, 3 P), from what the models said of it and what people know of some.

    A long shot is solved in overlapping windows, each with the keys nearest to it.
    """
    estimate = said.copy()
    for start in range(0, len(rows), WINDOW):
        low, high = max(start - MARGIN, 0), min(start + WINDOW + MARGIN, len(rows))
        outside = sorted((hold for hold in true if not low <= hold < high), key=lambda hold: abs(hold - start))
        holds = np.array(sorted({*range(low, high), *outside[:MARGIN]}), dtype=np.intp)
        known = {int(np.searchsorted(holds, hold)): true[hold] for hold in true if hold in set(holds.tolist())}
        if known:
            part = _posterior(space, rows[holds], said[holds], error_H[holds], known)
            inner = slice(start, min(start + WINDOW, len(rows)))
            estimate[inner] = part[np.searchsorted(holds, np.arange(inner.start, inner.stop))]
    return estimate


def _posterior(
    space: FaceSpace, rows: NDArray[np.intp], said: Complex, error_H: Array, known: Mapping[int, Complex]
) -> Complex:
    """The Gaussian process itself: mean of the true splines given the models' at all holds and people's at some."""
    at, mean = np.array(list(known), dtype=np.intp), said.mean(axis=0)
    time = space.time_F[rows]
    walk, noise = _motion(said, time, error_H)
    variance = max(float((abs(said - mean) ** 2).mean()), noise)
    truth = walk * np.minimum(time[:, None], time[None]) - walk * time.min() + FREE * variance
    found = np.array(list(known.values()))
    scale = error_H / np.sqrt((error_H**2).mean())
    least = min(LEAST_PX**2, float((error_H**2).mean()))
    size = max(least, float((_across(said[at], found) / scale[at] ** 2).max()))
    of_said = truth + size * np.outer(scale, scale) * space.kernel(rows) + np.diag(OWN * noise * scale**2)
    whole = np.block([[of_said, truth[:, at]], [truth[at], truth[np.ix_(at, at)]]])
    whole += _EXACT * noise * np.eye(len(whole))
    observed = np.concatenate([said, found]) - mean
    both = np.concatenate([truth, truth[:, at]], axis=1)
    return np.asarray(both @ np.linalg.solve(whole, observed) + mean)


def _across(said: Complex, found: Complex) -> Array:
    """Mean squared error across the curve of splines (N, 3 P), one for each: along it points may lie anywhere.

    How wrong the models are is learned from this alone. What they expect of themselves is often several times too much,
    and would let a single key pull frames far away from what is said rightly of them.
    """
    n = said.shape[1] // 3
    way = said[:, 2 * n :] - said[:, n : 2 * n]
    normal = 1j * way / np.maximum(abs(way), 1e-9)
    return np.asarray((np.real((found - said)[:, :n] * normal.conj()) ** 2).mean(axis=1))


def _motion(said: Complex, time: Array, error_H: Array) -> tuple[float, float]:
    """How far a spline walks in a frame and how noisy the models are, as variances, from the models' splines alone.

    A walk grows with the lag, noise does not: one lag tells their sum, two lags the walk. Noise is never more than what
    the models expect, so that a blink stays a blink.
    """
    if len(said) < 4:
        return 1.0, max(float((error_H**2).mean()), 1e-6)
    step = float(np.median(np.diff(time)))
    near = max(float((abs(said[1:] - said[:-1]) ** 2).mean()), 1e-6)
    far = float((abs(said[2:] - said[:-2]) ** 2).mean())
    noise = (near - max(far - near, LEAST_WALK * near)) / 2
    noise = min(max(noise, LEAST_NOISE * near), float((error_H**2).mean()))
    return max(near - 2 * noise, LEAST_WALK * near) / step, max(noise, 1e-6)


def _spread(
    space: FaceSpace, base: RotoShape, shape: RotoShape, hand: list[int], bounds: tuple[int, int, int]
) -> dict[int, Key]:
    frame, first, last = bounds
    if frame not in hand:
        return {}
    same = space.time_F[space.rows(hand)] == space.time_F[space.rows([frame])]
    low = max([first, *(each + 1 for each, is_held in zip(hand, same) if each < frame and not is_held)])
    high = min([last, *(each - 1 for each, is_held in zip(hand, same) if each > frame and not is_held)])
    frames = [each for each in sorted({*base.keys, *shape.keys}) if low <= each <= high and each not in hand]
    if not frames:
        return {}
    at, of = space.rows(frames), space.rows([frame])
    factor = space.factor_F[at][:, None]
    here = (_splines(shape, [frame]) - _splines(base, [frame])) / space.factor_F[of][:, None]
    before = (_splines(shape, frames) - _splines(base, frames)) / factor
    share = _fade(space.time_F[at], space.time_F[of][0], low, high)
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
