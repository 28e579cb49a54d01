"""Outliers: points whose position disagrees with the rest of the face, by a Gaussian model of a character's points.

Landmarks and control points, aligned to the mean face, are jointly normal to good approximation. The other points give
the conditional mean of a point (or a whole shape). Its distance from this mean separates outliers from motion, also at
the ends of shots and on twos, where neighbouring frames give no information.
With the precision matrix T of the points, the residual of a block b given all others is inv(T_bb) (T x)_b: Rasmussen
and Williams, "Gaussian Processes for Machine Learning" (2006), appendix A.3, equation A.6 rewritten for the precision.
Letters: F frames, N points (two numbers each).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rotopaint_ai.shapes.revectorise.raw_curves import Array, Bools, Rows
from rotopaint_ai.training.mining.options import LabelIssue
from rotopaint_ai.training.mining.vectorise import MinedTruth

ROTO = "roto"  # all shapes together, where landmarks of another source can contradict them
FEWEST_FRAMES = 16  # fewest frames to fit the model
_FOLDS = 8
# face units: candidates for the noise of a point; the one that predicts best is used
_NOISES = (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2)
_LEAST = 0.016  # face units: a smaller distance is no outlier
_TIMES_P90 = 2.5  # a block is an outlier beyond this many times the 90th percentile of distances
# if a neighbouring frame has this share of the same residual, the pose is unusual rather than the label wrong ...
_SAME = 0.6
_POSE = 2.0  # ... and the limit is this many times as high
_MOST = 4  # most issues in one frame
_PRICE = 6.0  # squared deviations that each additional number of a block must explain
_FAR = 3.0  # frames beyond this many times the 90th percentile are left out of the second fit
_LATE = 0.75  # a shape is late if a shift by one frame reduces its residual to this share
_MOVES = 0.004  # face units: slower shapes cannot be tested for lateness
_FEWEST_MOVES = 6
_MOSTLY = 0.35  # share of moving frames that must agree; on twos at most every other one can
_LAGS = (-1, 0, 1)
_LEAST_SHIFT = 0.006  # face units: with a smaller residual roto may belong to its own frame
_ANOTHER = 0.5  # roto belongs to another frame if it reduces the residual to this share


@dataclass(frozen=True, slots=True)
class PointBlocks:
    """Points of all frames in plate space, NaN where unknown, and the blocks that are tested."""

    plate_FNC: Array
    of: Mapping[str, npt.NDArray[np.intp]]  # a landmark, `shape point k`, or a whole shape: its points
    shapes: tuple[str, ...]


def point_blocks(truth: MinedTruth) -> PointBlocks:
    """The landmarks that a source provides, and every shape's control points."""
    given = truth.given()
    parts = [truth.marks[:, given, :2]]
    of: dict[str, npt.NDArray[np.intp]] = {truth.names[k]: np.array([at]) for at, k in enumerate(given)}
    start = len(given)
    for plan in truth.plans:
        n = plan.points_FP6.shape[1]
        own = np.full((len(truth.rows), n, 2), np.nan)
        own[plan.shape.rows] = plan.points_FP6[..., :2]
        parts.append(own)
        of |= {f"{plan.shape.name} point {k}": np.array([start + k]) for k in range(n)}
        of[plan.shape.name] = np.arange(start, start + n)
        start += n
    shapes = [plan.shape.name for plan in truth.plans]
    if given and len(shapes) > 1:
        of[ROTO] = np.arange(len(given), start)
        shapes.append(ROTO)
    return PointBlocks(np.concatenate(parts, axis=1), of, tuple(shapes))


@dataclass(frozen=True, slots=True)
class _FoldedGaussian:
    """Mean and precision of the points (2N numbers) for each fold of frames, estimated from the other folds."""

    fold_F: npt.NDArray[np.intp]
    mean: Array  # [folds, 2N]
    precision: Array  # [folds, 2N, 2N]

    def residual_of(
        self, values_D: Array, fold: int, block: npt.NDArray[np.intp], unknown: Bools
    ) -> tuple[Array, float]:
        """The residual of a block given the others, and its squared Mahalanobis distance."""
        columns = _xy_columns(block)
        precision = self.precision[fold]
        free = np.flatnonzero(unknown & ~np.isin(np.arange(len(unknown)), columns))
        off = values_D - self.mean[fold]
        kept = np.setdiff1d(np.arange(len(unknown)), free)
        at = np.searchsorted(kept, columns)
        if len(free):
            precision = _information_without(precision, kept, free)
        pull = precision[at] @ off[kept]
        residual = np.asarray(np.linalg.solve(precision[np.ix_(at, at)], pull))
        return residual.reshape(-1, 2), float(residual @ pull)


def _information_without(precision: Array, kept: npt.NDArray[np.intp], free: npt.NDArray[np.intp]) -> Array:
    """The precision of `kept` after marginalising `free`: the Schur complement."""
    between = precision[np.ix_(kept, free)]
    inner = np.linalg.solve(precision[np.ix_(free, free)], between.T)
    return np.asarray(precision[np.ix_(kept, kept)] - between @ inner)


def _xy_columns(block: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    return np.stack((2 * block, 2 * block + 1), axis=1).ravel()


def _fit_folds(values_FD: Array, weights_F: Array, fold_F: npt.NDArray[np.intp], noise: float) -> _FoldedGaussian:
    means, precisions = [], []
    for fold in range(_FOLDS):
        weight = np.where(fold_F == fold, 0.0, weights_F)
        weight = weight / max(weight.sum(), 1e-9)
        mean = weight @ values_FD
        off = values_FD - mean
        covariance = (off * weight[:, None]).T @ off + np.eye(values_FD.shape[1]) * noise**2
        means.append(mean)
        precisions.append(np.linalg.inv(covariance))
    return _FoldedGaussian(fold_F, np.stack(means), np.stack(precisions))


def _leave_one_out(model: _FoldedGaussian, values_FD: Array) -> Array:
    """[F, N] distance of each single point from its conditional mean given all others."""
    out = np.empty((len(values_FD), values_FD.shape[1] // 2))
    for fold in range(_FOLDS):
        rows = np.flatnonzero(model.fold_F == fold)
        precision = model.precision[fold]
        pull = (values_FD[rows] - model.mean[fold]) @ precision
        pairs = np.arange(out.shape[1])
        own = precision.reshape(len(pairs), 2, len(pairs), 2)[pairs, :, pairs, :]
        residual = np.linalg.solve(own, pull.reshape(len(rows), -1, 2)[..., None])[..., 0]
        out[rows] = np.linalg.norm(residual, axis=2)
    return out


@dataclass(frozen=True, slots=True)
class LabelModel:
    """A character's points and the model fitted to them."""

    blocks: PointBlocks
    values_FD: Array
    unknown_FD: Bools
    model: _FoldedGaussian
    p90: Mapping[str, float]  # for each block: the 90th percentile of its distance, face units

    def off(self, row: int, name: str, unknown_D: Bools) -> tuple[float, float]:
        """Root mean square residual of a block in face units, and how much better the frame is explained without it.

        The gain is reduced by the price of the block's numbers.
        """
        fold, block = int(self.model.fold_F[row]), self.blocks.of[name]
        residual, gain = self.model.residual_of(self.values_FD[row], fold, block, unknown_D)
        return float(np.sqrt((residual**2).sum(axis=1).mean())), gain - _PRICE * 2 * len(block)


def fit_face_model(truth: MinedTruth, left_out: set[int]) -> LabelModel | None:
    """The model of a character's points, from frames without known errors; None if there are too few."""
    own = point_blocks(truth)
    n = own.plate_FNC.shape[1]
    good = np.array([row not in left_out for row in range(len(truth.rows))])
    if good.sum() < FEWEST_FRAMES or n < 4:
        return None
    places = truth.faces.to_face(own.plate_FNC, np.arange(len(truth.rows)))
    values = places.reshape(len(truth.rows), 2 * n)
    unknown = ~np.isfinite(values)
    values = np.where(unknown, np.nanmedian(np.where(good[:, None], values, np.nan), axis=0), values)
    values = np.nan_to_num(values)
    fold = np.random.default_rng(0).permutation(len(values)) % _FOLDS
    weights = good.astype(np.float64)
    models = {noise: _fit_folds(values, weights, fold, noise) for noise in _NOISES}
    noise = min(_NOISES, key=lambda each: float(np.median(_leave_one_out(models[each], values)[good])))
    model = models[noise]
    away = _leave_one_out(model, values)
    far = (away / np.maximum(np.quantile(away[good], 0.9, axis=0), 1e-6)).max(axis=1) > _FAR
    if (good & ~far).sum() >= FEWEST_FRAMES:
        model = _fit_folds(values, weights * ~far, fold, noise)
    face = LabelModel(own, values, unknown, model, {})
    return LabelModel(own, values, unknown, model, _p90(face, np.flatnonzero(good)))


def _p90(face: LabelModel, rows: npt.NDArray[np.intp]) -> dict[str, float]:
    away = _leave_one_out(face.model, face.values_FD)[rows]
    p90 = {}
    for name, block in face.blocks.of.items():
        if len(block) == 1:
            p90[name] = float(np.quantile(away[:, block[0]], 0.9))
            continue
        offs = [face.off(int(row), name, face.unknown_FD[row])[0] for row in rows]
        p90[name] = float(np.quantile(offs, 0.9))
    return p90


def find_outliers(face: LabelModel, truth: MinedTruth, left_out: set[int]) -> list[LabelIssue]:
    """Outliers of all frames, found greedily: the block whose removal explains a frame best, then the next."""
    away = _leave_one_out(face.model, face.values_FD)
    single = {int(block[0]): face.p90[name] for name, block in face.blocks.of.items() if len(block) == 1}
    p90_N = np.array([single[at] for at in range(away.shape[1])])
    pose_z_F = np.maximum(1.0, np.quantile(away / np.maximum(p90_N, 1e-6), 0.75, axis=1))
    candidates = np.flatnonzero((away > np.maximum(_LEAST, _TIMES_P90 * p90_N)).any(axis=1))
    found = []
    for row in candidates.tolist():
        if row not in left_out:
            found += _outliers_of(face, truth, row, float(pose_z_F[row]))
    return found


def _outliers_of(face: LabelModel, truth: MinedTruth, row: int, pose_z: float) -> list[LabelIssue]:
    """Outliers of one frame; `pose_z`: how unusual its pose is, which raises all limits."""
    unknown = face.unknown_FD[row].copy()
    found: dict[str, LabelIssue] = {}
    for _ in range(_MOST):
        best = _best_block(face, row, unknown, pose_z)
        if best is None:
            break
        name, off, score = best
        if score > (_POSE if _is_residual_shared(face, truth, row, name) else 1.0):
            about = name.split(" point ")[0]
            what = "" if about == name else f"point {name.rsplit(' ', 1)[1]}: "
            px = off * float(truth.faces.side_px[row])
            text = f"{what}{px:.1f} px from the position that the rest of the face predicts"
            found.setdefault(about, LabelIssue(row, "jumped", about, text))
        unknown[_xy_columns(face.blocks.of[name])] = True
    return list(found.values())


def _best_block(face: LabelModel, row: int, unknown: Bools, pose_z: float) -> tuple[str, float, float] | None:
    """The outlying block whose removal explains a frame best: its name, distance, and distance over the limit."""
    best: tuple[float, str, float, float] | None = None
    for name, block in face.blocks.of.items():
        if unknown[_xy_columns(block)].all():
            continue
        off, gain = face.off(row, name, unknown)
        score = off / max(_LEAST, _TIMES_P90 * pose_z * face.p90[name])
        if score > 1 and (best is None or gain > best[0]):
            best = gain, name, off, score
    return None if best is None else best[1:]


def _is_residual_shared(face: LabelModel, truth: MinedTruth, row: int, name: str) -> bool:
    """Whether a neighbouring frame, of another exposure, has a similar residual."""
    here = _residual_of(face, row, name)
    for other in (row - 1, row + 1):
        if not 0 <= other < len(truth.rows) or truth.shots[other] != truth.shots[row]:
            continue
        there = _residual_of(face, other, name)
        if float((here * there).sum()) > _SAME * float((here**2).sum()):
            return True
    return False


def _residual_of(face: LabelModel, row: int, name: str) -> Array:
    fold = int(face.model.fold_F[row])
    return face.model.residual_of(face.values_FD[row], fold, face.blocks.of[name], face.unknown_FD[row])[0]


def find_late_shapes(face: LabelModel, truth: MinedTruth, rows: Rows, left_out: set[int]) -> list[LabelIssue]:
    """Shapes of one shot that fit the rest of the face better one frame earlier or later."""
    frames = {truth.rows[row].frame: int(row) for row in rows if int(row) not in left_out}
    found = []
    for name in face.blocks.shapes:
        lag = _lag(face, truth, frames, name)
        if lag:
            text = f"whole shot: {abs(lag)} frame {'late' if lag > 0 else 'early'} relative to the rest of the face"
            found.append(LabelIssue(int(rows[0]), "shifted", name, text))
    return found


def _lag(face: LabelModel, truth: MinedTruth, frames: Mapping[int, int], name: str) -> int:
    scores: dict[int, list[float]] = {lag: [] for lag in _LAGS}
    for frame in frames:
        fits = _lagged_residuals(face, truth, frames, frame, name)
        for lag, off in fits.items():
            scores[lag].append(off)
    if len(scores[0]) < _FEWEST_MOVES:
        return 0
    means = {lag: float(np.mean(values)) for lag, values in scores.items()}
    best = min(means, key=lambda lag: means[lag])
    closer = float(np.mean(np.array(scores[best]) < np.array(scores[0])))
    # If this frame's shape appears in the next frame, it is one frame late.
    return best if best and means[best] < _LATE * means[0] and closer > _MOSTLY else 0


def _lagged_residuals(
    face: LabelModel, truth: MinedTruth, frames: Mapping[int, int], frame: int, name: str
) -> dict[int, float]:
    """The residual of a shape taken from this frame, the one before and the one after.

    Empty if one of them is missing or the shape does not move.
    """
    row, block = frames[frame], face.blocks.of[name]
    others = [frames[frame + lag] for lag in _LAGS if frame + lag in frames]
    shapes = face.blocks.plate_FNC[others][:, block]
    if len(others) < len(_LAGS) or not np.isfinite(shapes).all():
        return {}
    placed = truth.faces.to_face(shapes, np.full(len(others), row))
    if np.abs(np.diff(placed, axis=0)).max() < _MOVES:
        return {}
    offs = {}
    for lag, shape in zip(_LAGS, placed):
        values = face.values_FD[row].copy()
        values[_xy_columns(block)] = shape.ravel()
        residual, _ = face.model.residual_of(values, int(face.model.fold_F[row]), block, face.unknown_FD[row])
        offs[lag] = float(np.sqrt((residual**2).sum(axis=1).mean()))
    return offs


def find_shifted_roto(face: LabelModel, truth: MinedTruth, rows: Rows, left_out: set[int]) -> list[LabelIssue]:
    """Frames of a shot whose whole roto fits its landmarks much better one frame earlier or later."""
    if ROTO not in face.blocks.of:
        return []
    frames = {truth.rows[row].frame: int(row) for row in rows if int(row) not in left_out}
    found = []
    for frame, row in frames.items():
        fits = _lagged_residuals(face, truth, frames, frame, ROTO)
        limit = max(_LEAST_SHIFT, _TIMES_P90 * face.p90[ROTO])
        best = min(fits, key=lambda lag: fits[lag], default=0)
        if best and fits[0] > limit and fits[best] < _ANOTHER * fits[0]:
            text = f"fits frame {frame - best} better than this one, by its landmarks"
            found.append(LabelIssue(row, "shifted", ROTO, text))
    return found
