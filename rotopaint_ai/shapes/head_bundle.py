"""Bundle adjustment of a shot's rigid head: cameras of all holds, landmarks and seams in space, and face symmetry.

The normal equations of all unknowns, cameras eliminated first by the Schur complement (Triggs, McLauchlan, Hartley and
Fitzgibbon 2000); `shapes/head_descent.py` takes the steps. Outliers get less weight: landmarks by Cauchy weights
(Holland and Welsch 1977), curves by those of Geman and McClure (1987), because a crease beside a seam is no seam.

A face is symmetric, so each side seam constrains the other, which determines depth where a head hardly turns. A seam
that ends on another one ends there in every hold. Both constraints are soft, so a crooked face fits too. Shared marks,
if any were found, constrain cameras far better than landmarks do (`shapes/head_marks.py`).

H holds, L landmarks, C curves, D numbers of a spline (points, then ends of incoming and outgoing tangents), M samples
of a curve, N = L + the sum of D points in space, K shared marks. Complex x + iy in the plate, pixels. Points in space
(N, 3) are in face units, z towards the camera, x across the plane of symmetry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.landmarks.shared_marks import SharedMarks
from rotopaint_ai.shapes.alignment import align_samples
from rotopaint_ai.shapes.facespace import Array, Complex
from rotopaint_ai.shapes.head_cameras import Cameras, ball_depth
from rotopaint_ai.shapes.head_marks import NO_MARKS, NOISE_PX, MarkEquations, Marks3D, first_marks
from rotopaint_ai.shapes.head_poses import HeadPoses
from rotopaint_ai.shapes.rigid_head import (
    ALONE,
    LEAST_PX,
    KnownCurve,
    cameras_by_landmarks,
    curve_in_space,
    landmark_pull,
    landmark_weights,
)
from rotopaint_ai.shapes.samples import basis

# Chosen on training shots of two puppets that the shipped pack never saw and on four rendered shots.
PER_SEGMENT = 8  # samples of each cubic segment
SYMMETRIC = 0.01  # face units: standard deviation of a curve from its mirror image
SYMMETRIC_MARKS = 0.03  # face units: the same for a landmark; models predict landmarks less symmetrically
JOINED = 0.015  # face units: standard deviation of an end from the curve on which it lies
ON_CURVE = 0.06  # share of the head's size: an end closer than this to another curve counts as lying on it
STIFF = 0.02  # face units: standard deviation of a handle's displacement from its point's
BENDING = 0.05  # face units: the same for a point's displacement from its neighbours'
OFF_USUAL = 0.15  # face units: standard deviation of a curve from the mean of its observations
DEEP = 0.3  # face units: standard deviation of a landmark from the sphere that approximates a face
FREE = 10.0  # face units: the same across the view, where landmarks are seen
# face units: standard deviations of points that a pack knows; 0.01 for curves is no better, 0.03 for landmarks is worse
KNOWN_CURVE, KNOWN_MARK = 0.003, 0.01
MARKS_WEIGHT = 4.0  # weight of landmarks relative to observed curves
END = 0.05  # share of the head's size: standard deviation of a curve's end along the curve
LEAST_NOISE_PX = 0.4  # smallest standard deviation of a predicted curve
BIASED = 0.015  # share of the head's size: standard deviation of the error that predicted curves of all holds share
HAND_PX, HAND_END_PX = 0.15, 0.5  # standard deviation of a curve that a person drew, and of its ends
FIRST_DAMPING = 1e-3
_MIRROR = np.array([-1.0, 1.0, 1.0])
_PLACE = np.array([1, 1j])
_ROUNDS_OF_PLANE = 5


@dataclass(frozen=True, slots=True, eq=False)
class HeadBuild:
    """Structure of a face.

    `mirror_L`: the mirror partner of each landmark. `mirrored`: pairs of curves that mirror each other, and whether the
    second one runs in reverse. `joints`: ends (curve, index of its point) that lie on another curve.
    """

    mirror_L: NDArray[np.intp] | None
    mirrored: tuple[tuple[int, int, bool], ...]
    joints: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class ObservedCurve:
    """Observed samples of a curve.

    `weights` (M, D): spline numbers to samples. `at` (H, M): observed positions. `normal`: unit directions in which
    they constrain the curve, with weights `across` (H, M) in 1 / px^2. `far_px`: residual from which a sample is an
    outlier.
    """

    curve: int
    weights: Array
    at: Complex
    normal: Complex
    across: Array
    far_px: Array


@dataclass(frozen=True, slots=True, eq=False)
class ObservedMarks:
    """Shared marks; in pixels, the residual at which an observation's weight is halved and its standard deviation."""

    marks: SharedMarks
    far_px: float
    noise_px: float = NOISE_PX

    def equations(self, head: Head, far_px: float | None = None) -> MarkEquations:
        """The normal equations at a head."""
        far = self.far_px if far_px is None else far_px
        return MarkEquations.of(head.cameras, head.marks, self.marks, far, noise_px=self.noise_px)


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """Cameras, points in space (N, 3), their prior positions and the standard deviations from them (N, 3), the slice of
    each curve, and shared marks.

    `damping`: the share by which the next step grows the diagonal of its equations.
    """

    cameras: Cameras
    points: Array
    usual: Array
    deviation: Array
    curves: tuple[slice, ...]
    marks: Marks3D
    damping: float = FIRST_DAMPING

    def splines(self) -> list[Complex]:
        """Every curve in each hold (H, D)."""
        return [self.cameras.see(self.points[part]) for part in self.curves]


def first_head(
    heads: HeadPoses,
    points_HL: Complex,
    error_px_HL: Array,
    known: Sequence[KnownCurve],
    build: HeadBuild,
    shared: SharedMarks | None = None,
) -> Head:
    """The initial head: cameras from landmarks alone, curves at the mean of their observations, x across the face."""
    cameras, marks = cameras_by_landmarks(heads, points_HL, error_px_HL)
    curves = [curve_in_space(cameras, heads, each.splines_HD) for each in known]
    ends = np.cumsum([len(marks), *map(len, curves)]).tolist()
    points, n_marks = np.concatenate([marks, *curves]), len(marks)
    deviation = np.full(points.shape, OFF_USUAL)
    deviation[:n_marks] = FREE, FREE, DEEP
    head = Head(cameras, points, points, deviation, tuple(slice(a, b) for a, b in pairwise(ends)), NO_MARKS)
    if build.mirror_L is not None:
        head = _across_plane(head, *_symmetry_plane(marks, build.mirror_L))
    usual = head.points.copy()
    usual[:n_marks, 2] = ball_depth(usual[:n_marks, :2] @ _PLACE)
    return replace(head, usual=usual, marks=first_marks(head.cameras, heads, shared) if shared else NO_MARKS)


def known_head(
    heads: HeadPoses,
    points_HL: Complex,
    error_px_HL: Array,
    points: Array,
    curves: Sequence[slice],
    shared: SharedMarks | None = None,
) -> Head:
    """The initial head of a character whose points in space (N, 3) are known: cameras from landmarks alone."""
    cameras, marks = cameras_by_landmarks(heads, points_HL, error_px_HL)
    known = points[: len(marks)]
    cameras = cameras.reframed(*_similarity(known, marks))
    for _ in range(ALONE):
        cameras = cameras.moved(landmark_pull(cameras, known, points_HL, np.maximum(error_px_HL, LEAST_PX)))
    deviation = np.full(points.shape, KNOWN_CURVE)
    deviation[: len(marks)] = KNOWN_MARK
    marks_in_space = first_marks(cameras, heads, shared) if shared else NO_MARKS
    return Head(cameras, points, points, deviation, tuple(curves), marks_in_space)


def _similarity(one: Array, other: Array) -> tuple[float, Array, Array]:
    """Scale, rotation and origin that bring points (M, 3) nearest to others, far ones with less weight (Umeyama
    1991)."""
    weight = np.ones(len(one))
    for _ in range(_ROUNDS_OF_PLANE):
        weight = weight / weight.sum()
        middle, to = weight @ one, weight @ other
        away, wanted = one - middle, other - to
        left, sizes, right = np.linalg.svd((wanted * weight[:, None]).T @ away)
        sign = np.array([1.0, 1.0, np.sign(np.linalg.det(left @ right))])
        turn = np.asarray((left * sign) @ right, np.float64)
        scale = float(sizes @ sign / (weight @ (away**2).sum(axis=1)))
        weight = 1 / (1 + (np.linalg.norm(wanted - scale * away @ turn.T, axis=1) / 0.1) ** 2)
    return scale, turn, np.asarray(to - scale * turn @ middle)


def joints_of(splines_CHD: Sequence[Complex], size_H: Array) -> tuple[tuple[int, int, int], ...]:
    """Ends of curves (curve, index of its point) that lie on another curve in most holds."""
    found = []
    for a, splines in enumerate(splines_CHD):
        for b, others in enumerate(splines_CHD):
            if a != b:
                places = others @ basis(others.shape[1] // 3, False, PER_SEGMENT).T
                for end in (0, splines.shape[1] // 3 - 1):
                    apart = abs(splines[:, end, None] - places).min(axis=1) / size_H
                    found += [(a, end, b)] if np.median(apart) < ON_CURVE else []
    return tuple(found)


def observe_curves(known: Sequence[KnownCurve], size_H: Array, on_head: Sequence[Complex]) -> list[ObservedCurve]:
    """Observations of curves, drawn or predicted: each curve across its direction, and its ends along it.

    A sample of the head's curve (H, D) is compared with the observed sample beside it in the order of both curves,
    because samples have no identity along a curve.
    """
    parts = zip(known, on_head)
    return [
        each
        for k, (one, at) in enumerate(parts)
        for each in (_observe_across(k, one, size_H, at), _observe_ends(k, one, size_H))
    ]


def _observe_across(curve: int, known: KnownCurve, size_H: Array, on_head: Complex) -> ObservedCurve:
    """Samples of a curve across its direction.

    Beside curves that people drew, n predicted ones of standard deviation s weigh together as s^2 / n + b^2, where b is
    the error that they share: models that misplace a seam in one hold misplace it in all.
    """
    weights = basis(known.splines_HD.shape[1] // 3, False, PER_SEGMENT)
    places, exact = known.splines_HD @ weights.T, known.exact_H[:, None]
    wanted = on_head @ weights.T
    near = align_samples(wanted, places)
    at, normal = (np.take_along_axis(each, near, axis=1) for each in (places, curve_normals(places)))
    along = abs(((wanted - at) * normal.conj()).imag)
    is_beside = along <= abs(np.diff(places, axis=1)).max(axis=1, keepdims=True)  # not beyond an end
    noise, shared = np.maximum(known.noise_px_H, LEAST_NOISE_PX)[:, None], BIASED * size_H[:, None] * exact.any()
    variance = np.where(exact, HAND_PX**2, (2 * noise) ** 2 + np.count_nonzero(~exact) * shared**2)
    far = np.where(exact, np.inf, np.maximum(noise, shared))
    across = is_beside * PER_SEGMENT / (at.shape[1] * variance)
    return ObservedCurve(curve, weights, at, normal, across, np.broadcast_to(far, at.shape))


def _observe_ends(curve: int, known: KnownCurve, size_H: Array) -> ObservedCurve:
    """Ends of a curve, constrained along the curve, not across it; ends that a person placed are exact."""
    n = known.splines_HD.shape[1] // 3
    weights, at = np.eye(3 * n)[[0, n - 1]], known.splines_HD[:, [0, n - 1]]
    way = at - known.splines_HD[:, [2 * n, 2 * n - 1]]
    noise = np.maximum(np.where(known.exact_H, 0.0, known.noise_px_H), END * size_H)[:, None]
    across = np.where(known.exact_ends_HE, HAND_END_PX, noise) ** -2.0
    far = np.where(known.exact_ends_HE, np.inf, noise)
    return ObservedCurve(curve, weights, at, way / np.maximum(abs(way), 1e-9), across, far)


def curve_normals(at_HM: Complex) -> Complex:
    """Unit normals of curves at their samples."""
    way = np.gradient(at_HM, axis=1)
    return np.asarray(1j * way / np.maximum(abs(way), 1e-9))


# --- equations --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class HeadFacts:
    """All observations of a head: landmarks (H, L) with expected errors, curves, face structure, and shared marks."""

    points_HL: Complex
    error_px_HL: Array
    seen: Sequence[ObservedCurve]
    build: HeadBuild
    shared: ObservedMarks | None = None


def curves_by_marks(head: Head, facts: HeadFacts, far_px: Sequence[float]) -> list[Complex]:
    """Every curve in each hold (H, D), seen by cameras fitted to landmarks and shared marks alone.

    Thus no observed curve affects a camera. `far_px`: for each step, the residual at which an observation's weight is
    halved.
    """
    cameras, error, n_marks = head.cameras, np.maximum(facts.error_px_HL, LEAST_PX), facts.points_HL.shape[1]
    for far in far_px:
        pulls = [landmark_pull(cameras, head.points[:n_marks], facts.points_HL, error)]
        if facts.shared is not None:
            pulls.append(facts.shared.equations(replace(head, cameras=cameras), far).pull(len(error)))
        cameras = cameras.moved(*pulls)
    return replace(head, cameras=cameras).splines()


def curve_deviations(head: Head, facts: HeadFacts) -> Array:
    """Standard deviation of each curve across its direction in each hold (H, C), mean over its samples, pixels.

    The inverse of the normal equations is the covariance of cameras and points, if observations err as assumed (Triggs
    and others 2000, section 9). Raises LinAlgError if it does not exist.
    """
    equations, of_marks = equations_of(head, facts)
    covariance = np.asarray(np.linalg.inv(equations.coupled(of_marks).dense_matrix()), np.float64)
    return np.stack([_curve_deviation(head, part, covariance) for part in head.curves], axis=1)


def _curve_deviation(head: Head, part: slice, covariance: Array) -> Array:
    weights = basis((part.stop - part.start) // 3, False, PER_SEGMENT)
    places, n_holds = weights @ head.points[part], len(head.cameras.size)
    by_camera, by_place = head.cameras.slopes_along(places, curve_normals(head.cameras.see(places)))
    own = 6 * n_holds + 3 * part.start + np.arange(3 * (part.stop - part.start))
    deviation = np.zeros(n_holds)
    for hold in range(n_holds):
        by_points = (weights[:, :, None] * by_place[hold][:, None]).reshape(len(weights), -1)
        slopes, at = np.concatenate([by_camera[hold], by_points], axis=1), np.r_[6 * hold : 6 * hold + 6, own]
        variance = np.einsum("mi,mi->m", slopes @ covariance[np.ix_(at, at)], slopes)
        deviation[hold] = np.sqrt(np.maximum(variance, 0.0)).mean()
    return deviation


def equations_of(head: Head, facts: HeadFacts) -> tuple[HeadEquations, MarkEquations | None]:
    """The equations of cameras and points, and those of shared marks, which are to be eliminated."""
    equations = HeadEquations(*head.cameras.usual_pose(), *_prior_of_points(head))
    _add_landmarks(equations, head, facts.points_HL, np.maximum(facts.error_px_HL, LEAST_PX))
    for each in facts.seen:
        _add_curve(equations, head, each)
    for tie in ties_of(head, facts.build):
        _add_tie(equations, tie)
    return equations, facts.shared.equations(head) if facts.shared else None


@dataclass(slots=True, eq=False)
class HeadEquations:
    """Normal equations of steps: cameras (H, 6, 6) and (H, 6), points (N, 3, N, 3) and (N, 3), both (H, 6, N, 3).

    Coupled cameras form one block (1, 6 H, 6 H).
    """

    cameras: Array
    camera_pull: Array
    points: Array
    point_pull: Array
    both: Array

    def coupled(self, of_marks: MarkEquations | None) -> HeadEquations:
        """The equations with marks eliminated, which couples the cameras."""
        if of_marks is None:
            return self
        between, pull = of_marks.eliminated(len(self.camera_pull))
        m = self.camera_pull.size
        together = (_block_diagonal(self.cameras) + between).reshape(1, m, m)
        return replace(self, cameras=together, camera_pull=self.camera_pull + pull)

    def damped(self, damping: float) -> HeadEquations:
        """The equations with their diagonal, as it is once marks are eliminated, grown by a share."""
        n = self.point_pull.size
        points = self.points.reshape(n, n) * (1 + damping * np.eye(n))
        cameras = self.cameras * (1 + damping * np.eye(self.cameras.shape[-1]))
        return replace(self, cameras=cameras, points=points.reshape(self.points.shape))

    def solved(self) -> tuple[Array, Array]:
        """Steps of cameras (H, 6) and points (N, 3); cameras are eliminated first, block by block."""
        n, (blocks, size, _) = self.point_pull.size, self.cameras.shape
        both = self.both.reshape(blocks, size, n)
        root = np.linalg.inv(np.linalg.cholesky(self.cameras + 1e-9 * np.eye(size)))
        rows, pull = (root @ both).reshape(-1, n), (root @ self.camera_pull.reshape(blocks, size, 1)).ravel()
        whole = self.points.reshape(n, n) - rows.T @ rows
        step = np.linalg.solve(whole, self.point_pull.ravel() - rows.T @ pull)
        cameras = root.transpose(0, 2, 1) @ (pull - rows @ step).reshape(blocks, size, 1)
        if not (np.isfinite(step).all() and np.isfinite(cameras).all()):
            raise np.linalg.LinAlgError("no finite step")
        return np.asarray(cameras.reshape(-1, 6)), np.asarray(step.reshape(-1, 3), np.float64)

    def dense_matrix(self) -> Array:
        """The matrix of cameras and points together (6 H + 3 N, 6 H + 3 N)."""
        m, n = self.camera_pull.size, self.point_pull.size
        cameras, both = _block_diagonal(self.cameras).reshape(m, m) + 1e-9 * np.eye(m), self.both.reshape(m, n)
        return np.block([[cameras, both], [both.T, self.points.reshape(n, n)]])

    def add_places(
        self, part: slice, weights: Array | None, slopes: tuple[Array, Array], bind: Array, off: Array
    ) -> None:
        """Add observations of positions, each along one direction: weights `bind` (H, M) and residuals `off` (H, M).

        `part`: the points. `weights` (M, n): points to positions; None if each position is a point.
        """
        by_camera, by_place = slopes
        to_camera, by_hold = bind[..., None] * by_camera, by_place.transpose(1, 2, 0)
        to_place = by_hold * bind.T[:, None]
        self.cameras += by_camera.transpose(0, 2, 1) @ to_camera
        self.camera_pull += (off[:, None] @ to_camera)[:, 0]
        own, own_pull = to_place @ by_hold.transpose(0, 2, 1), (to_place @ off.T[..., None])[..., 0]
        both = (to_camera[..., None] * by_place[..., None, :]).reshape(*bind.shape, -1).transpose(0, 2, 1)
        if weights is None:
            at = np.arange(part.start, part.stop)
            self.points[at, :, at] += own
        else:
            m, n = weights.shape
            table = (weights.T @ (own.reshape(m, 9, 1) * weights[:, None]).reshape(m, -1)).reshape(n, 3, 3, n)
            self.points[part, :, part] += table.transpose(0, 1, 3, 2)
            both, own_pull = both @ weights, weights.T @ own_pull
        self.both[:, :, part] += both.reshape(len(bind), 6, 3, -1).transpose(0, 1, 3, 2)
        self.point_pull[part] += own_pull


def _prior_of_points(head: Head) -> tuple[Array, Array, Array]:
    """Prior equations of the points, and zeros for points with cameras."""
    n, bound = len(head.points), head.deviation**-2.0
    whole = np.zeros((n, 3, n, 3))
    whole.reshape(-1)[:: 3 * n + 1] = bound.ravel() + 1e-6
    return whole, bound * (head.usual - head.points), np.zeros((len(head.cameras.size), 6, n, 3))


def _add_landmarks(equations: HeadEquations, head: Head, points_HL: Complex, error_px_HL: Array) -> None:
    part = slice(0, points_HL.shape[1])
    off = points_HL - head.cameras.see(head.points[part])
    weight = MARKS_WEIGHT * landmark_weights(off, error_px_HL)
    for way in (1.0, 1j):
        slopes = head.cameras.slopes_along(head.points[part], np.full(off.shape, way))
        equations.add_places(part, None, slopes, weight, (off * np.conj(way)).real)


def _add_curve(equations: HeadEquations, head: Head, seen: ObservedCurve) -> None:
    part = head.curves[seen.curve]
    places = seen.weights @ head.points[part]
    off = ((seen.at - head.cameras.see(places)) * seen.normal.conj()).real
    across = seen.across / (1 + (off / (2 * seen.far_px)) ** 2) ** 2
    equations.add_places(part, seen.weights, head.cameras.slopes_along(places, seen.normal), across, off)


def _block_diagonal(blocks: Array) -> Array:
    """Blocks (B, n, n) as a matrix (B, n, B, n)."""
    n_blocks, n, _ = blocks.shape
    whole, at = np.zeros((n_blocks, n, n_blocks, n)), np.arange(n_blocks)
    whole[at, :, at] = blocks
    return whole


# --- how a face is built ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class HeadTie:
    """Soft constraints: weighted sums of a few points that should be zero in x, y and z.

    `numbers`: the points' indices. `shares` (T, K, 3): weight of each coordinate. `off` (T, 3): the present sums.
    `deviation`: their standard deviation. A robust constraint gets less weight when it is far off.
    """

    numbers: NDArray[np.intp]
    shares: Array
    off: Array
    deviation: float
    is_robust: bool = True


def ties_of(head: Head, build: HeadBuild) -> Iterator[HeadTie]:
    """What a head must keep, in its own unit and axes: its symmetry, joints of curves, and stiffness of each curve."""
    if build.mirror_L is not None:
        pairs = [(i, j) for i, j in enumerate(build.mirror_L.tolist()) if i <= j]
        yield _mirror_tie(head, pairs, SYMMETRIC_MARKS)
        for a, b, is_reversed in build.mirrored:
            yield _mirror_tie(head, _mirrored_numbers(head.curves[a], head.curves[b], is_reversed), SYMMETRIC)
    for curve, end, other in build.joints:
        yield _joint_tie(head, head.curves[curve].start + end, head.curves[other])
    for part in head.curves:
        yield from _stiff_ties(head, part)


def _mirror_tie(head: Head, pairs: Sequence[tuple[int, int]], deviation: float) -> HeadTie:
    numbers = np.array(pairs)
    shares = np.broadcast_to(np.stack([np.ones(3), -_MIRROR]), (*numbers.shape, 3))
    return HeadTie(numbers, shares, _sums(head.points, numbers, shares), deviation)


def _mirrored_numbers(one: slice, other: slice, is_reversed: bool) -> list[tuple[int, int]]:
    """Index pairs of a spline's numbers and its mirror image's; each pair once if a spline is its own image."""
    n = (one.stop - one.start) // 3
    k = np.arange(3 * n)
    image = np.concatenate([k[:n][::-1], k[2 * n :][::-1], k[n : 2 * n][::-1]]) if is_reversed else k
    pairs = [(one.start + i, other.start + j) for i, j in zip(k.tolist(), image.tolist())]
    return [(i, j) for i, j in pairs if one != other or i <= j]


def _joint_tie(head: Head, end: int, curve: slice) -> HeadTie:
    weights = basis((curve.stop - curve.start) // 3, False, PER_SEGMENT)
    near = weights[int(np.linalg.norm(weights @ head.points[curve] - head.points[end], axis=1).argmin())]
    (known,) = near.nonzero()
    numbers = np.concatenate([[end], curve.start + known])[None]
    shares = np.concatenate([[1.0], -near[known]])[None, :, None] * np.ones(3)
    return HeadTie(numbers, shares, _sums(head.points, numbers, shares), JOINED)


def _stiff_ties(head: Head, curve: slice) -> Iterator[HeadTie]:
    """Regularisation: curves keep their bends, and handles their offsets from points, where little is observed."""
    n = (curve.stop - curve.start) // 3
    at = curve.start + np.arange(n)
    handles = np.stack([np.arange(curve.start + n, curve.stop), np.concatenate([at, at])], axis=1)
    bends = np.stack([at[:-2], at[1:-1], at[2:]], axis=1)
    for numbers, share, deviation in ((handles, (1, -1), STIFF), (bends, (1, -2, 1), BENDING)):
        shares = np.broadcast_to(np.array(share, float)[:, None], (*numbers.shape, 3))
        yield HeadTie(numbers, shares, _sums(head.points - head.usual, numbers, shares), deviation, is_robust=False)


def _sums(points: Array, numbers: NDArray[np.intp], shares: Array) -> Array:
    return np.asarray((points[numbers] * shares).sum(axis=1))


def _add_tie(equations: HeadEquations, tie: HeadTie) -> None:
    weight = np.full(tie.off.shape, tie.deviation**-2)
    if tie.is_robust:
        weight = weight / (1 + (tie.off / (2 * tie.deviation)) ** 2)
    heavy, axis = tie.shares * weight[:, None], np.arange(3)
    np.subtract.at(equations.point_pull, tie.numbers, heavy * tie.off[:, None])
    one, other = tie.numbers[:, :, None, None], tie.numbers[:, None, :, None]
    np.add.at(equations.points, (one, axis, other, axis), heavy[:, :, None] * tie.shares[:, None])


def _symmetry_plane(marks: Array, mirror_L: NDArray[np.intp]) -> tuple[Array, float]:
    """Normal (3,) and distance of the plane that maps landmarks to their mirror partners."""
    pairs = np.array([(i, j) for i, j in enumerate(mirror_L.tolist()) if i < j])
    one, other = marks[pairs[:, 0]], marks[pairs[:, 1]]
    middle, weight = (one + other) / 2, np.ones(len(one))
    for _ in range(_ROUNDS_OF_PLANE):
        normal = np.linalg.svd((one - other) * weight[:, None])[2][0]
        distance = float(np.average(middle @ normal, weights=weight))
        image = other - 2 * (other @ normal - distance)[:, None] * normal
        weight = 1 / (1 + (np.linalg.norm(image - one, axis=1) / 0.1) ** 2)
    return normal * np.sign(normal[0]), distance * float(np.sign(normal[0]))


def _across_plane(head: Head, normal: Array, distance: float) -> Head:
    """The head with x along a plane's normal and the origin on the plane."""
    z = np.array([0.0, 0.0, 1.0]) - normal[2] * normal
    z = z / np.linalg.norm(z)
    axes, middle = np.stack([normal, np.cross(z, normal), z]), normal * distance
    return replace(head, cameras=head.cameras.reframed(1.0, axes.T, middle), points=(head.points - middle) @ axes.T)
