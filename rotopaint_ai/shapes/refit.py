"""Correct a shot from a few human keys: propagate the difference to the predictions to all other frames.

The models' errors follow one of three hypotheses, weighted by a shot's corrections (`_hypothesis_weights`): Biased:
models that never saw the character. The true spline moves from frame to frame as a random walk. The error is an offset
in face space, rotated and scaled with the head, that varies with the face's pose and slowly with time, plus noise as
large as the expected errors. Human keys observe the true spline, predictions the sum. The estimate is the closed-form
Gaussian process posterior (Rasmussen and Williams, "Gaussian Processes for Machine Learning", eq. 2.23), which passes
through the human keys.
Pose-dependent: models trained on the character. A correction holds where the face around the shape looks the same
(`pose_kernel`).
Independent: errors are unrelated, and only the random walk of splines helps.
The frames of a hold share one pose and time, so they move together.
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
    in_direction_of,
    to_carry_on,
    with_model_keys,
)
from rotopaint_ai.shapes.rigid_head import KnownCurve, curves_on_head, is_borne_out
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape
from rotopaint_ai.spreads import SHOT, spread_way

Keys = Mapping[str, Mapping[int, Key]]

Errors = Mapping[str, Mapping[int, float]]  # expected error in pixels by shape and frame

# Chosen by `benchmarks/keys.py` on rendered shots and on validation shots of two puppets of another renderer; in
# units of the squared expected error.
SAME = 0.3  # variance of the error that all frames share
WITH_POSE = 0.3  # variance that grows in proportion to the pose
NEAR_POSE = 0.5  # correlation of similar poses
ALIKE = 0.05  # share of the face's size: poses within this distance count as similar
NEAR_TIME = 0.5  # correlation of frames close in time
CLOSE = 12.0  # time scale of that correlation in frames
OWN = 0.1  # share of the noise in a frame's own prediction
LEAST_PX = 1.0  # smallest error of the models across the curve, if they expect that much
FREE = 10.0  # largest total deviation of a spline from the models' mean, in units of its variance
LEAST_WALK = 0.1  # share of the motion between neighbouring holds that never counts as noise
LEAST_NOISE = 0.05  # share of its square that always counts as noise
WINDOW, MARGIN = 400, 80  # holds solved together, and additional neighbours on each side
BIASED = 0.5  # prior probability that the models share a bias, until a shape has two corrections
BIASED_OWN = 0.05  # share of the error that is then independent per hold
INDEPENDENT = 0.1  # prior probability that errors are independent (`pose_kernel.PRIOR` is the rest)
# share of the head's size by which the rigid head must be closer to the new seam than to the present curve
CONFIRMED = 0.003
FARTHER = 0.2  # the same per unit of pose distance from the nearest corrected hold
HIDDEN = 0.2  # share of the head's size: standard deviation of a hidden landmark
COLUMNS = 3.0  # effective number of independent errors among a shape's points
_EXACT = 1e-4  # variance of a human key, as a share of the noise
_NEGLIGIBLE = 0.005  # hypotheses of smaller weight are left out
_STILL_PX = 0.01  # a key that would move less stays the model's


def refit(predicted: RotoDocument, document: RotoDocument, errors: Errors | None = None) -> Keys:
    """New keys, by shape, for all frames without a human key: the prediction with corrections propagated.

    `errors`: expected errors of the run, 0 at human keys; without them the landmarks' errors apply to all shapes. A key
    that does not move stays the model's; so does one of an open seam that the rigid head does not confirm
    (`shapes/rigid_head.py`). Shapes without corrections, or with rebuilt splines, are left out.
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
    estimates = {task.shape.name: _average_hypotheses(space, task, weights) for task in tasks}
    for task, on_head in _seams_on_head(space, predicted, tasks):
        estimates[task.shape.name] = _confirm_by_head(space, task, estimates[task.shape.name], on_head)
    return {task.shape.name: _new_keys(task, estimates[task.shape.name]) for task in tasks}


def spread(predicted: RotoDocument, document: RotoDocument, frame: int, first: int, last: int) -> Keys:
    """New keys of `first` to `last`, by shape: the correction at `frame`, fading out towards the ends of the range.

    It is applied in face space, rotated and scaled with the head. The artist chooses the range (`propagation_range`
    proposes one); it ends at the next human key.
    """
    space = face_space(predicted.landmarks)
    if space is None:
        return {}
    bounds = frame, first, last
    return {
        shape.name: _spread_shape(space, base, shape, hand, bounds)
        for base, shape, hand in corrected_shapes(predicted, document)
    }


def repeat_propagations(
    predicted: RotoDocument,
    document: RotoDocument,
    before: RotoDocument,
    spreads: Sequence[CarriedCorrection],
    frames: Collection[int] | None,
    errors: Errors | None = None,
) -> RotoDocument:
    """A new run's document with the propagations of the document before it repeated; only `frames` (None: all) change.

    Landmarks move with their shapes. `errors`: as in `refit`.
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
    """New keys by a method of `spreads.SPREADS`; `reach`: the corrected frame, the first and the last one to change.

    Raises UsageError for an unknown method, or if it needs a reach and has none.
    """
    found = spread_way(way)
    if found.needs == "shot":
        keys: Keys = found.load()(predicted, document, errors)
    elif reach is None:
        raise UsageError(f"{found.label}: needs a range; give the corrected frame, the first and the last one")
    else:
        keys = found.load()(predicted, document, *reach)
    return keys


# --- parts ------------------------------------------------------------------------------------------------------------


def corrected_shapes(
    predicted: RotoDocument, document: RotoDocument
) -> Iterator[tuple[RotoShape, RotoShape, list[int]]]:
    """Shapes that people corrected, before and after, with the corrected frames; without shapes that they rebuilt."""
    model = {shape.name: shape for shape in predicted.shapes}
    for shape in document.shapes:
        base = model.get(shape.name)
        if base is None or not base.keys:
            continue
        hand = hand_corrected_frames(base, shape, document)
        if hand and (shape.n_points, shape.closed) == (base.n_points, base.closed):
            yield base, in_direction_of(base, shape), hand


@dataclass(frozen=True, slots=True)
class _Task:
    """A shape to refit: `predicted_H` (H, 3 P) in its holds, and `corrected` (3 P,) in some of them.

    `hold_F`: the hold of each of `frames`. `rows_H`: the holds' rows in the face space.
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
        """The models' errors in the corrected holds (N, 3 P)."""
        return np.array([self.corrected[hold] for hold in self.at_N]) - self.predicted_H[self.at_N]

    @property
    def scale_H(self) -> Array:
        """Expected errors, scaled to mean square 1."""
        return np.asarray(self.error_H / np.sqrt((self.error_H**2).mean()))


def _predicted_frames(space: FaceSpace, base: RotoShape, shape: RotoShape) -> list[int]:
    """Frames with predictions: where the face was lost, no key shows the models' error."""
    return sorted({*base.keys, *(shape.keys.keys() & set(space.frames))})


def _shape_task(
    space: FaceSpace, base: RotoShape, shape: RotoShape, hand: list[int], errors: Mapping[int, float]
) -> _Task:
    frames = _predicted_frames(space, base, shape)
    starts, hold_F = np.unique(space.time_F[space.rows(frames)], return_inverse=True)
    first = [frames[int(np.argmax(hold_F == hold))] for hold in range(len(starts))]
    keyed = {int(hold_F[frames.index(frame)]): frame for frame in hand if frame in frames}
    true = dict(zip(keyed, splines_of(shape, list(keyed.values()))))
    known_errors = {frame: error for frame, error in errors.items() if error > 0}  # 0: the run found a human key there
    usual = float(np.median(list(known_errors.values()) or [1.0]))
    error_H = np.array([known_errors.get(frame, usual) for frame in first])
    return _Task(base, shape, hand, frames, hold_F, space.rows(first), splines_of(base, first), error_H, true)


def _hypothesis_weights(space: FaceSpace, tasks: Sequence[_Task]) -> Array:
    """Weights, summing to 1, of the hypotheses: biased, independent, and each of `pose_kernel.OWN`.

    By Bayes' rule from the errors found so far, over all shapes together.
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
    """Open seams, and the rigid head's curve of each in all holds of its task (H, 3 P)."""
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
    """Observations of a seam in the shot's holds, which begin at `frames`; `rows`: the task's holds among them."""
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


def _confirm_by_head(space: FaceSpace, task: _Task, estimate: Complex, on_head: Complex) -> Complex:
    """The estimate in holds that a person corrected or the head confirms, else the prediction."""
    look_HL = space.look_FL[task.rows_H]
    far_H = np.sqrt((abs(look_HL[:, None] - look_HL[task.at_N]) ** 2).sum(axis=2)).min(axis=1)
    least = np.maximum(CONFIRMED, FARTHER * far_H) * abs(space.factor_F[task.rows_H])
    keep = np.array([is_borne_out(*each) for each in zip(estimate, task.predicted_H, on_head, least.tolist())])
    keep[task.at_N] = True
    return np.where(keep[:, None], estimate, task.predicted_H)


def _new_keys(task: _Task, estimate: Complex) -> dict[int, Key]:
    others = [frame for frame in task.frames if frame not in set(task.hand)]
    rows = task.hold_F[np.searchsorted(task.frames, others)]
    return keys_from_splines(task.base, task.shape, others, estimate[rows]) if others else {}


def _average_hypotheses(space: FaceSpace, task: _Task, weights: Array) -> Complex:
    """Splines (H, 3 P) averaged over all hypotheses by their weights."""
    estimate = task.predicted_H.copy()
    for weight, is_biased in zip(weights, (True, False)):
        estimate += weight * (_by_walk(space, task, is_biased) - task.predicted_H) if weight > _NEGLIGIBLE else 0
    across, own = _pose_covariance(space, task), task.scale_H[task.at_N] ** 2
    for weight, share in zip(weights[2:], pose_kernel.OWN):
        among = pose_kernel.with_own(across[task.at_N], share * own)
        estimate += weight * (across @ np.linalg.solve(among, task.errors_N))
    return estimate


def _pose_covariance(space: FaceSpace, task: _Task) -> Complex:
    """Covariance (H, N) of pose-dependent errors."""
    turn = space.factor_F[task.rows_H] / abs(space.factor_F).mean()
    likeness = pose_kernel.likeness(space, task.rows_H, task.predicted_H, task.at_N)
    return pose_kernel.kernel(likeness, turn, task.scale_H, task.at_N)


def _kernel(space: FaceSpace, rows: Rows) -> Complex:
    """Covariance of the errors of biased models between rows (len rows, len rows), rotated with the head."""
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
    """The true spline of every hold (H, 3 P), for a random walk with biased or independent errors.

    A long shot is solved in overlapping windows, each with the nearest keys.
    """
    estimate = task.predicted_H.copy()
    for start in range(0, len(task.predicted_H), WINDOW):
        holds, inner = _solve_window(task, start)
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


def _solve_window(task: _Task, start: int) -> tuple[Rows, slice]:
    """The holds of one window, and the slice of holds that it is solved for."""
    n = len(task.predicted_H)
    low, high = max(start - MARGIN, 0), min(start + WINDOW + MARGIN, n)
    outside = sorted((hold for hold in task.corrected if not low <= hold < high), key=lambda hold: abs(hold - start))
    return np.array(sorted({*range(low, high), *outside[:MARGIN]}), dtype=np.intp), slice(start, min(start + WINDOW, n))


def _gaussian_process(
    space: FaceSpace, rows: Rows, predicted_H: Complex, error_H: Array, known: Mapping[int, Complex], is_biased: bool
) -> Complex:
    """Posterior mean of the true splines, given predictions in all holds and human keys in some."""
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
    """The mean squared error of each spline (N, 3 P), measured across the curve. Positions along it are arbitrary.

    The size of the models' error comes from this alone. Expected errors are often several times too large, and would
    let a single key move well-predicted frames far away.
    """
    n = predicted_H.shape[1] // 3
    way = predicted_H[:, 2 * n :] - predicted_H[:, n : 2 * n]
    normal = 1j * way / np.maximum(abs(way), 1e-9)
    return np.asarray((np.real((found - predicted_H)[:, :n] * normal.conj()) ** 2).mean(axis=1))


def _walk_and_noise(predicted_H: Complex, time: Array, error_H: Array) -> tuple[float, float]:
    """The variances of a spline's motion per frame and of the models' noise, estimated from the predicted splines.

    A walk grows with the lag, noise does not: one lag gives their sum, two lags the walk. Noise is never larger than
    the expected error, so that a blink stays a blink.
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
    return keys_from_splines(base, shape, frames, splines_of(base, frames) + blended * factor)


def _fade_weight(time: Array, centre: float, first: int, last: int) -> Array:
    """Weight 1 around the centre, falling smoothly to 0 just beyond the ends; constant over the nearer half."""
    reach = np.where(time < centre, centre - first + 1, last + 1 - centre)
    way = np.clip(np.abs(time - centre) / np.maximum(reach, 1), 0, 1)
    u = np.clip(2 * way - 1, 0, 1)
    return np.asarray(1 - u * u * (3 - 2 * u))


def keys_from_splines(base: RotoShape, shape: RotoShape, frames: Sequence[int], splines: Complex) -> dict[int, Key]:
    """Keys from splines; the model's own key where the spline equals the model's."""
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
