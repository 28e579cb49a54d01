"""A shot corrected from a few human keys: the difference to what the models predicted, carried to all its other frames.

How the models are wrong is of three kinds, and a shot's corrections tell which (`_hypothesis_weights`).

Models that never saw the character lean: where a spline truly is moves from frame to frame as a random walk, and by how
much the models are wrong there is a difference in face space, turned and sized with the head, that varies with the pose
of the face and slowly with time, and some noise as large as the models expect it to be. Human keys tell the first
exactly, the models' splines the sum. The best estimate of the first is then closed-form (a Gaussian process, Rasmussen
and Williams, "Gaussian Processes for Machine Learning", eq. 2.23), and goes through the human keys.

Models that learnt the character are wrong pose by pose, and a correction holds where the face looks the same round the
shape (`alike`). Or errors have nothing to do with each other, and all that is known besides the keys is how splines
walk. A hold is one pose at one time, so that all its frames move as one.

Convention: F frames, H holds, N corrected holds, L landmarks, P control points of a shape. Splines and landmarks are
complex numbers x + iy in plate space; a spline is its 3 P points, ends of incoming and ends of outgoing tangents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rotopaint_ai.errors import UsageError
from rotopaint_ai.shapes import pose_kernel, samples
from rotopaint_ai.shapes.facespace import Array, Complex, FaceSpace, Rows, face_space
from rotopaint_ai.shapes.head_poses import HeadPoses, head_poses
from rotopaint_ai.shapes.landmarks_follow import with_landmarks
from rotopaint_ai.shapes.manual_keys import (
    CarriedCorrection,
    carried_keys,
    hand_corrected_frames,
    to_carry_on,
    with_model_keys,
)
from rotopaint_ai.shapes.rigid_head import KnownCurve, curves_on_head, is_borne_out
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape
from rotopaint_ai.spreads import SHOT, spread_way

Keys = Mapping[str, Mapping[int, Key]]

Errors = Mapping[str, Mapping[int, float]]  # expected error in pixels by shape and frame

# Chosen by `benchmarks/keys.py` on shots of the stage and on held-out training shots of two puppets of another
# renderer; in units of the expected error's square.
SAME = 0.3  # variance of the models' error that all frames share
WITH_POSE = 0.3  # that grows in proportion to the pose
NEAR_POSE = 0.5  # correlation of similar poses
ALIKE = 0.05  # share of the face's size: poses within this distance count as similar
NEAR_TIME = 0.5  # correlation of frames close in time
CLOSE = 12.0  # frames
OWN = 0.1  # share of the noise that a frame's own prediction is taken to have
LEAST_PX = 1.0  # least error of the models across the curve, where they expect as much
FREE = 10.0  # largest total deviation of a spline from the models' mean, in units of its variance
LEAST_WALK = 0.1  # share of the motion between neighbouring holds that is never taken for noise
LEAST_NOISE = 0.05  # and of its square that always is
WINDOW, MARGIN = 400, 80  # holds solved together, and neighbours on each side that are used as well
BIASED = 0.5  # prior probability that the models share a bias, until a shape has two corrections
BIASED_OWN = 0.05  # share of its error that is then each hold's own
INDEPENDENT = 0.1  # prior probability that errors are independent (`pose_kernel.PRIOR` is the rest)
BORNE_OUT = 0.003  # share of the head's size by which a rigid head must be nearer to a seam than the present curve
FARTHER = 0.2  # and at the least for each unit of pose from the nearest corrected one
HIDDEN = 0.2  # share of the head's size: deviation of a hidden landmark
COLUMNS = 3.0  # how many independent errors the points of a shape count for
_EXACT = 1e-4  # share of the noise: the deviation of a human key
_NEGLIGIBLE = 0.005  # hypotheses of less weight are left out
_STILL_PX = 0.01  # a key that would move by less stays the model's


def refit(predicted: RotoDocument, document: RotoDocument, errors: Errors | None = None) -> Keys:
    """New keys of all frames that no person has keyed, by shape: the prediction, corrected by what people did.

    `errors` are the expected errors of the run, 0 at human keys; without them those of the landmarks stand for all
    shapes. A key that nothing moves is the model's own, and so is an open seam's where its head does not bear the
    change out (`shapes/rigid_head.py`). Shapes without a correction, or whose spline is not the model's any more, are
    left out.
    """
    space = face_space(predicted.landmarks)
    if space is None:
        return {}
    of_face = {
        frame: float(np.mean([p.expected_error_px for p in row if p is not None] or [1.0]))
        for frame, row in predicted.landmarks.keys.items()
    }
    tasks = [
        _shape_task(space, base, shape, hand, (errors or {}).get(shape.name) or of_face)
        for base, shape, hand in corrected_shapes(predicted, document)
        if not set(hand).isdisjoint(_predicted_frames(space, base, shape))
    ]
    weights = _hypothesis_weights(space, tasks)
    estimates = {task.shape.name: _refitted(space, task, weights) for task in tasks}
    for task, on_head in _seams_on_head(space, predicted, tasks):
        estimates[task.shape.name] = _borne_out(space, task, estimates[task.shape.name], on_head)
    return {task.shape.name: _new_keys(task, estimates[task.shape.name]) for task in tasks}


def spread(predicted: RotoDocument, document: RotoDocument, frame: int, first: int, last: int) -> Keys:
    """New keys of `first` to `last`, by shape: the correction at `frame`, fading out towards the ends of the range.

    It is carried in face space, turned and sized with the head. How far it reaches is the artist's word (`reach` makes
    a proposal by the looks of the face); beyond a human key it does not go.
    """
    space = face_space(predicted.landmarks)
    if space is None:
        return {}
    bounds = frame, first, last
    return {
        shape.name: _spread_shape(space, base, shape, hand, bounds)
        for base, shape, hand in corrected_shapes(predicted, document)
    }


def again(
    predicted: RotoDocument,
    document: RotoDocument,
    before: RotoDocument,
    spreads: Sequence[CarriedCorrection],
    frames: Collection[int] | None,
    errors: Errors | None = None,
) -> RotoDocument:
    """A new run's document with the corrections carried on as they were in the one before it; only `frames`, those of
    the run, change (None: all).

    Landmarks go with the shapes they sit on. `errors`: as in `refit`.
    """
    for each in to_carry_on(before, spreads, frames, predicted):
        reach = None if each is None else (each.frame, each.first, each.last)
        keys = spread_keys(SHOT if each is None else each.way, predicted, document, reach, errors)
        document = with_landmarks(document, with_model_keys(document, carried_keys(keys, each, frames, predicted)))
    return document


def spread_keys(
    way: str,
    predicted: RotoDocument,
    document: RotoDocument,
    reach: tuple[int, int, int] | None,
    errors: Errors | None = None,
) -> Keys:
    """New keys by a way of `spreads.SPREADS`; `reach`: the corrected frame, the first and the last one to change.

    Raises UsageError where there is no such way, or where it needs a reach and has none.
    """
    found = spread_way(way)
    if found.needs == "shot":
        keys: Keys = found.load()(predicted, document, errors)
    elif reach is None:
        raise UsageError(f"{found.label}: has no frames to reach; say the corrected frame, the first and the last one")
    else:
        keys = found.load()(predicted, document, *reach)
    return keys


# --- parts ------------------------------------------------------------------------------------------------------------


def corrected_shapes(
    predicted: RotoDocument, document: RotoDocument
) -> Iterator[tuple[RotoShape, RotoShape, list[int]]]:
    """Shapes that people have corrected, before and after, with the frames where they did; none that they rebuilt."""
    model = {shape.name: shape for shape in predicted.shapes}
    for shape in document.shapes:
        base = model.get(shape.name)
        if base is None or not base.keys:
            continue
        hand = hand_corrected_frames(base, shape, document)
        if hand and (shape.n_points, shape.closed) == (base.n_points, base.closed):
            yield base, shape, hand


@dataclass(frozen=True, slots=True)
class _Task:
    """A shape to be refitted: `predicted_H` (H, 3 P) at its holds, and `corrected` (3 P,) at some of them.

    `hold_F`: the hold of each of `frames`; `rows_H`: the holds' rows of the face space.
    """

    base: RotoShape
    shape: RotoShape
    hand: list[int]
    frames: list[int]
    hold_F: Rows
    rows_H: Rows
    predicted_H: Complex
    error_H: Array
    corrected: Mapping[int, Complex]

    @property
    def at_N(self) -> Rows:
        """The corrected holds."""
        return np.array(sorted(self.corrected), dtype=np.intp)

    @property
    def errors_N(self) -> Complex:
        """The models' errors found at them (N, 3 P)."""
        return np.array([self.corrected[hold] for hold in self.at_N]) - self.predicted_H[self.at_N]

    @property
    def scale_H(self) -> Array:
        """Expected errors, of mean square 1."""
        return np.asarray(self.error_H / np.sqrt((self.error_H**2).mean()))


def _predicted_frames(space: FaceSpace, base: RotoShape, shape: RotoShape) -> list[int]:
    """Frames of which the models predicted something: where the face was lost, no key tells how wrong they are."""
    return sorted({*base.keys, *(shape.keys.keys() & set(space.frames))})


def _shape_task(
    space: FaceSpace, base: RotoShape, shape: RotoShape, hand: list[int], errors: Mapping[int, float]
) -> _Task:
    frames = _predicted_frames(space, base, shape)
    starts, hold_F = np.unique(space.time_F[space.rows(frames)], return_inverse=True)
    first = [frames[int(np.argmax(hold_F == hold))] for hold in range(len(starts))]
    keyed = {int(hold_F[frames.index(frame)]): frame for frame in hand if frame in frames}
    true = dict(zip(keyed, splines_of(shape, list(keyed.values()))))
    known_errors = {frame: error for frame, error in errors.items() if error > 0}  # 0: a run found a person's key there
    usual = float(np.median(list(known_errors.values()) or [1.0]))
    error_H = np.array([known_errors.get(frame, usual) for frame in first])
    return _Task(base, shape, hand, frames, hold_F, space.rows(first), splines_of(base, first), error_H, true)


def _hypothesis_weights(space: FaceSpace, tasks: Sequence[_Task]) -> Array:
    """Weights, of sum 1, of each hypothesis: biased, independent, and each of `pose_kernel.OWN`.

    By Bayes' rule, from how alike the errors are that were found so far, those of all shapes together.
    """
    log = np.log([BIASED, INDEPENDENT, *pose_kernel.PRIOR])
    for task in tasks:
        own = task.scale_H[task.at_N] ** 2
        sized = np.sqrt(np.outer(own, own)) * _kernel(space, task.rows_H[task.at_N])
        among = _pose_covariance(space, task)[task.at_N]
        views = [
            pose_kernel.with_own(sized, BIASED_OWN * own),
            np.diag(own).astype(complex),
            *(pose_kernel.with_own(among, share * own) for share in pose_kernel.OWN),
        ]
        log -= COLUMNS * np.array([pose_kernel.surprise(view, task.errors_N) for view in views])
    weight = np.exp(log - log.max())
    return np.asarray(weight / weight.sum())


def _seams_on_head(
    space: FaceSpace, predicted: RotoDocument, tasks: Sequence[_Task]
) -> Iterator[tuple[_Task, Complex]]:
    """Open seams, and where a rigid head has each in all holds of its task (H, 3 P)."""
    seams = [task for task in tasks if task.base.role == "seam" and not task.base.closed]
    if not seams:
        return
    starts, first = np.unique(space.time_F, return_index=True)
    heads = head_poses(space.whole_FL[first])
    frames = [space.frames[row] for row in first]
    rows = [np.searchsorted(starts, space.time_F[task.rows_H]) for task in seams]
    known = [_curve_of_task(task, frames, row) for task, row in zip(seams, rows)]
    found = curves_on_head(heads, space.whole_FL[first], _landmark_errors(predicted, frames, heads), known)
    yield from ((task, on_head[row]) for task, on_head, row in zip(seams, found, rows))


def _curve_of_task(task: _Task, frames: Sequence[int], rows: Rows) -> KnownCurve:
    """Observations of a seam in the shot's holds, which begin at `frames`; `rows`: those of the task."""
    before, exact = splines_of(task.base, frames), np.zeros(len(frames), bool)
    splines = before.copy()
    noise = np.full(len(frames), float(task.error_H.max()))
    noise[rows] = task.error_H
    for hold, spline in task.corrected.items():
        splines[rows[hold]], exact[rows[hold]] = spline, True
    return KnownCurve.of(splines, noise, exact, before)


def _landmark_errors(predicted: RotoDocument, frames: Sequence[int], heads: HeadPoses) -> Array:
    """Expected errors of landmarks (H, L), large where they are hidden."""
    table = [[np.nan if p is None else p.expected_error_px for p in predicted.landmarks.keys[f]] for f in frames]
    return np.where(np.isnan(table), HIDDEN * abs(heads.factor_H)[:, None], table)


def _borne_out(space: FaceSpace, task: _Task, estimate: Complex, on_head: Complex) -> Complex:
    """The estimate where a person drew or the head confirms it, else the prediction."""
    look_HL = space.look_FL[task.rows_H]
    far_H = np.sqrt((abs(look_HL[:, None] - look_HL[task.at_N]) ** 2).sum(axis=2)).min(axis=1)
    least = np.maximum(BORNE_OUT, FARTHER * far_H) * abs(space.factor_F[task.rows_H])
    keep = np.array([is_borne_out(*each) for each in zip(estimate, task.predicted_H, on_head, least.tolist())])
    keep[task.at_N] = True
    return np.where(keep[:, None], estimate, task.predicted_H)


def _new_keys(task: _Task, estimate: Complex) -> dict[int, Key]:
    others = [frame for frame in task.frames if frame not in set(task.hand)]
    rows = task.hold_F[np.searchsorted(task.frames, others)]
    return moved_keys(task.base, task.shape, others, estimate[rows]) if others else {}


def _refitted(space: FaceSpace, task: _Task, weights: Array) -> Complex:
    """Splines (H, 3 P) by all hypotheses on the models' errors, each by its weight."""
    estimate = task.predicted_H.copy()
    for weight, is_biased in zip(weights, (True, False)):
        estimate += weight * (_by_walk(space, task, is_biased) - task.predicted_H) if weight > _NEGLIGIBLE else 0
    across, own = _pose_covariance(space, task), task.scale_H[task.at_N] ** 2
    for weight, share in zip(weights[2:], pose_kernel.OWN):
        among = pose_kernel.with_own(across[task.at_N], share * own)
        estimate += weight * (across @ np.linalg.solve(among, task.errors_N))
    return estimate


def _pose_covariance(space: FaceSpace, task: _Task) -> Complex:
    """Covariance (H, N) of errors that are the same where the face looks the same round the shape."""
    turn = space.factor_F[task.rows_H] / abs(space.factor_F).mean()
    likeness = pose_kernel.likeness(space, task.rows_H, task.predicted_H, task.at_N)
    return pose_kernel.kernel(likeness, turn, task.scale_H, task.at_N)


def _kernel(space: FaceSpace, rows: Rows) -> Complex:
    """Covariance of the errors of biased models between rows (len rows, len rows), turned with the head."""
    look, time = space.look_FL[rows], space.time_F[rows]
    shared = np.real(look @ look.conj().T)
    square = np.diag(shared)
    apart = np.maximum(square[:, None] + square[None] - 2 * shared, 0.0)
    spread = max(float((abs(space.look_FL) ** 2).sum(1).mean()), 1e-12)
    lag = abs(time[:, None] - time[None])
    turn = space.factor_F[rows] / abs(space.factor_F).mean()
    together = (
        SAME
        + WITH_POSE * shared / spread
        + NEAR_POSE * np.exp(-apart / (2 * ALIKE**2))
        + NEAR_TIME * np.exp(-lag / CLOSE)
    )
    return np.asarray(turn[:, None] * turn[None].conj() * together)


def _by_walk(space: FaceSpace, task: _Task, is_biased: bool) -> Complex:
    """The true spline of every hold (H, 3 P), if the models are biased and splines move as a random walk.

    A long shot is solved in overlapping windows, each with the keys nearest to it.
    """
    estimate = task.predicted_H.copy()
    for start in range(0, len(task.predicted_H), WINDOW):
        holds, inner = _solved_window(task, start)
        known = {
            int(np.searchsorted(holds, hold)): task.corrected[hold]
            for hold in task.corrected
            if hold in set(holds.tolist())
        }
        if known:
            part = _gaussian_process(
                space, task.rows_H[holds], task.predicted_H[holds], task.error_H[holds], known, is_biased
            )
            estimate[inner] = part[np.searchsorted(holds, np.arange(inner.start, inner.stop))]
    return estimate


def _solved_window(task: _Task, start: int) -> tuple[Rows, slice]:
    """Holds that are solved together, and those of them that it is done for."""
    n = len(task.predicted_H)
    low, high = max(start - MARGIN, 0), min(start + WINDOW + MARGIN, n)
    outside = sorted((hold for hold in task.corrected if not low <= hold < high), key=lambda hold: abs(hold - start))
    return np.array(sorted({*range(low, high), *outside[:MARGIN]}), dtype=np.intp), slice(start, min(start + WINDOW, n))


def _gaussian_process(
    space: FaceSpace, rows: Rows, predicted_H: Complex, error_H: Array, known: Mapping[int, Complex], is_biased: bool
) -> Complex:
    """The Gaussian process itself: mean of the true splines given the models' at all holds and people's at some."""
    at, mean = np.array(list(known), dtype=np.intp), predicted_H.mean(axis=0)
    time = space.time_F[rows]
    walk, noise = _walk_and_noise(predicted_H, time, error_H)
    variance = max(float((abs(predicted_H - mean) ** 2).mean()), noise)
    truth = walk * np.minimum(time[:, None], time[None]) - walk * time.min() + FREE * variance
    found = np.array(list(known.values()))
    scale = error_H / np.sqrt((error_H**2).mean())
    least = min(LEAST_PX**2, float((error_H**2).mean()))
    wrong = _squared_error_across(predicted_H[at], found) / scale[at] ** 2
    size = max(least, float(wrong.max() if is_biased else wrong.mean()))
    together = _kernel(space, rows) if is_biased else np.eye(len(rows))
    predicted_covariance = truth + size * np.outer(scale, scale) * together + np.diag(OWN * noise * scale**2)
    whole = np.block([[predicted_covariance, truth[:, at]], [truth[at], truth[np.ix_(at, at)]]])
    whole += _EXACT * noise * np.eye(len(whole))
    observed = np.concatenate([predicted_H, found]) - mean
    both = np.concatenate([truth, truth[:, at]], axis=1)
    return np.asarray(both @ np.linalg.solve(whole, observed) + mean)


def _squared_error_across(predicted_H: Complex, found: Complex) -> Array:
    """Mean squared error across the curve of splines (N, 3 P), one for each: along it points may lie anywhere.

    How wrong the models are is learned from this alone. What they expect of themselves is often several times too much,
    and would let a single key pull frames far away from what is predicted rightly of them.
    """
    n = predicted_H.shape[1] // 3
    way = predicted_H[:, 2 * n :] - predicted_H[:, n : 2 * n]
    normal = 1j * way / np.maximum(abs(way), 1e-9)
    return np.asarray((np.real((found - predicted_H)[:, :n] * normal.conj()) ** 2).mean(axis=1))


def _walk_and_noise(predicted_H: Complex, time: Array, error_H: Array) -> tuple[float, float]:
    """The variances of a spline's motion per frame and of the models' noise, estimated from the models' splines.

    A walk grows with the lag, noise does not: one lag tells their sum, two lags the walk. Noise is never more than what
    the models expect, so that a blink stays a blink.
    """
    if len(predicted_H) < 4:
        return 1.0, max(float((error_H**2).mean()), 1e-6)
    step = float(np.median(np.diff(time)))
    near = max(float((abs(predicted_H[1:] - predicted_H[:-1]) ** 2).mean()), 1e-6)
    far = float((abs(predicted_H[2:] - predicted_H[:-2]) ** 2).mean())
    noise = (near - max(far - near, LEAST_WALK * near)) / 2
    noise = min(max(noise, LEAST_NOISE * near), float((error_H**2).mean()))
    return max(near - 2 * noise, LEAST_WALK * near) / step, max(noise, 1e-6)


def _spread_shape(
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
    here = (splines_of(shape, [frame]) - splines_of(base, [frame])) / space.factor_F[of][:, None]
    before = (splines_of(shape, frames) - splines_of(base, frames)) / factor
    share = _fade_weight(space.time_F[at], space.time_F[of][0], low, high)
    blended = before + share[:, None] * (here - before)
    return moved_keys(base, shape, frames, splines_of(base, frames) + blended * factor)


def _fade_weight(time: Array, centre: float, first: int, last: int) -> Array:
    """1 around the centre, falling smoothly to nothing just beyond the ends; flat for the nearer half of the way."""
    reach = np.where(time < centre, centre - first + 1, last + 1 - centre)
    way = np.clip(np.abs(time - centre) / np.maximum(reach, 1), 0, 1)
    u = np.clip(2 * way - 1, 0, 1)
    return np.asarray(1 - u * u * (3 - 2 * u))


def moved_keys(base: RotoShape, shape: RotoShape, frames: Sequence[int], splines: Complex) -> dict[int, Key]:
    """Keys of splines; where a spline equals the model's, the model's key itself."""
    still = abs(splines - splines_of(base, frames)).max(axis=1) < _STILL_PX
    new: dict[int, Key] = {}
    for frame, row, is_still in zip(frames, splines, still):
        model, old = base.keys.get(frame), shape.keys.get(frame)
        if is_still and model is not None:
            new[frame] = model
        else:
            kind = (old or model or Key(())).interpolation
            new[frame] = Key(points_from(row), "propagated", kind, shape.feather_at(frame), shape.widths_at(frame))
    return new


def splines_of(shape: RotoShape, frames: Sequence[int]) -> Complex:
    """Points, ends of incoming and of outgoing tangents (F, 3 P) at frames."""
    numbers = samples.rows(shape, frames)
    rows = numbers.reshape(len(frames), numbers.shape[1] // 6, 3, 2)
    xy = rows[..., 0] + 1j * rows[..., 1]
    return np.asarray(np.concatenate([xy[..., 0], xy[..., 0] + xy[..., 1], xy[..., 0] + xy[..., 2]], axis=1))


def points_from(spline: Complex) -> tuple[ControlPoint, ...]:
    at, back, out = spline.reshape(3, -1)
    back, out = back - at, out - at
    columns = np.round(np.stack([at.real, at.imag, back.real, back.imag, out.real, out.imag], axis=1), 4)
    return tuple(ControlPoint(*row) for row in columns.tolist())
