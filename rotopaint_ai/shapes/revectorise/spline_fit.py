"""Bezier splines with given control points fitted to raw curves of many frames by one least-squares method.

Letters: F frames, P control points, G segments between them, S samples in a segment, C components, K unknowns.
Unknowns: the length of every tangent; one direction at a smooth point, two at a corner; and the distance of a point
from the raw curve, with a penalty. The distance to the raw curve is minimised, so a wobble of the artist's hand between
two control points becomes a curve through its middle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rotopaint_ai.shapes.revectorise.raw_curves import Array, Bools, RawCurves

N_PER_SEGMENT = 24
_ALONG = 0.05  # weight of errors along the curve, which do not change the shape, relative to errors across it
_THIRD = 0.006  # weight that draws a tangent to a third of its segment; defines the tangents of straight segments
_STEPS = 24
_SETTLED = 1e-3  # relative cost reduction below which a step is invisible
_SHORTEST, _LONGEST = 0.02, 0.8  # tangent lengths as shares of their segment; longer ones overshoot between samples
_FRAMES_AT_ONCE = 48
# Unknowns of a segment: displacement, out-length and out-angle of its first point; displacement, in-length and in-angle
# of its last.
_LEAVE, _OUT, _IN, _OUT_ANGLE, _IN_ANGLE = range(5)


@dataclass(frozen=True, slots=True)
class PointLayout:
    """How control points may bend; corners have two tangent directions.

    `leave_price`: pixels of error that are worth one pixel of a control point's displacement from the raw curve;
    infinite keeps it on the curve.
    """

    closed: bool
    corners_P: Bools
    leave_price: float = 0.25

    @property
    def n_points(self) -> int:
        """Control points of the spline."""
        return len(self.corners_P)


def fit_curves(curves: RawCurves, shares_FP: Array, layout: PointLayout) -> Array:
    """Control points (F, P, 6) at positions [F, P] of the raw curves, with fitted tangents.

    `shares_FP` ascends along each row; a closed row spans less than one turn. An open spline's first incoming and last
    outgoing tangent are zero.
    Source: Levenberg-Marquardt on the distance across the curve, foot points updated by a Newton step per iteration
    ("tangent distance minimisation", Wang, Pottmann & Liu 2006, with a small weight along the curve as damping).
    """
    parts = [
        _Problem.of(curves.rows(slice(at, at + _FRAMES_AT_ONCE)), shares_FP[at : at + _FRAMES_AT_ONCE], layout).solve()
        for at in range(0, len(curves), _FRAMES_AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, layout.n_points, 6))


def _unit(vectors: Array) -> Array:
    size = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(size, 1e-12))


def _normals_of(vectors: Array) -> Array:
    return np.stack((-vectors[..., 1], vectors[..., 0]), axis=-1)


def _direction(angles: Array) -> Array:
    return np.stack((np.cos(angles), np.sin(angles)), axis=-1)


@dataclass(frozen=True)
class _Problem:
    layout: PointLayout
    targets: Array  # [F, G, S, C] samples of the raw curve
    normals: Array  # [F, G, S, C] across it
    weights: Array  # [F, G] of a segment's samples
    spans: Array  # [F, G] arc length of each segment, px
    places: Array  # [F, P, C] on the raw curve
    across: Array  # [F, P, C] normal there
    start: Array  # [F, 5, P] initial unknowns
    columns: npt.NDArray[np.intp]  # [5, P] index of each one among the K unknowns
    n_unknowns: int

    @classmethod
    def of(cls, curves: RawCurves, shares: Array, layout: PointLayout) -> _Problem:
        closed = layout.closed
        ends = np.concatenate((shares[:, 1:], shares[:, :1] + 1.0), axis=1) if closed else shares[:, 1:]
        begins = shares if closed else shares[:, :-1]
        inside = (np.arange(N_PER_SEGMENT) + 0.5) / N_PER_SEGMENT
        at = begins[..., None] + (ends - begins)[..., None] * inside
        f, g = begins.shape
        half = (ends - begins)[..., None] * (0.25 / N_PER_SEGMENT)
        flat = (f, g * N_PER_SEGMENT)
        targets = curves.at(at.reshape(flat)).reshape(f, g, -1, 2)
        step = curves.at((at + half).reshape(flat)) - curves.at((at - half).reshape(flat))
        spans = np.maximum((ends - begins) * curves.lengths[:, None], 1e-3)
        weights = np.sqrt(spans / spans.mean(axis=1, keepdims=True))
        leaving = curves.at(begins + 0.08 * (ends - begins)) - curves.at(begins)
        arriving = curves.at(ends) - curves.at(ends - 0.08 * (ends - begins))
        if closed:
            arriving = np.roll(arriving, 1, axis=1)
        else:
            leaving = np.concatenate((leaving, arriving[:, -1:]), axis=1)
            arriving = np.concatenate((leaving[:, :1], arriving), axis=1)
        smooth = _unit(_unit(leaving) + _unit(arriving))
        corner = layout.corners_P[:, None]
        out_way, in_way = np.where(corner, leaving, smooth), np.where(corner, arriving, smooth)
        after, before = _spans_at_points(spans, closed)
        start = np.stack(
            (
                np.zeros_like(after),
                after / 3,
                before / 3,
                np.arctan2(out_way[..., 1], out_way[..., 0]),
                np.arctan2(in_way[..., 1], in_way[..., 0]),
            ),
            axis=1,
        )
        columns, n_unknowns = _columns(layout)
        return cls(
            layout,
            targets,
            _normals_of(_unit(step.reshape(f, g, -1, 2))),
            weights,
            spans,
            curves.at(shares),
            _normals_of(smooth),
            start,
            columns,
            n_unknowns,
        )

    def solve(self) -> Array:
        """Levenberg-Marquardt with separate damping per frame; converged frames are left out."""
        found, rows, part = self.start.copy(), np.arange(len(self.start)), self
        state = self.start.copy()
        feet = np.broadcast_to((np.arange(N_PER_SEGMENT) + 0.5) / N_PER_SEGMENT, self.targets.shape[:3]).copy()
        feet = self._feet(state, feet)
        cost, gradient, hessian = self._normal_equations(state, feet)
        damping = np.full(len(state), 1e-3)
        eye = np.arange(self.n_unknowns)
        for _ in range(_STEPS):
            damped = hessian.copy()
            damped[:, eye, eye] *= 1.0 + damping[:, None]
            damped[:, eye, eye] += 1e-9
            move = np.asarray(-np.linalg.solve(damped, gradient[..., None])[..., 0], dtype=np.float64)
            trial = part._apply_step_to_state(state, move)
            trial_feet = part._feet(trial, feet)
            new_cost, new_gradient, new_hessian = part._normal_equations(trial, trial_feet)
            better = new_cost <= cost
            state = np.where(better[:, None, None], trial, state)
            feet = np.where(better[:, None, None], trial_feet, feet)
            gradient = np.where(better[:, None], new_gradient, gradient)
            hessian = np.where(better[:, None, None], new_hessian, hessian)
            unsettled = ~((better & (cost - new_cost < _SETTLED * cost)) | (damping > 1e6))
            cost = np.where(better, new_cost, cost)
            damping = np.clip(np.where(better, damping / 4, damping * 6), 1e-9, 1e9)
            found[rows] = state
            if not unsettled.any():
                break
            if not unsettled.all():
                part = part._for_frames(unsettled)
                rows, state, feet, damping = rows[unsettled], state[unsettled], feet[unsettled], damping[unsettled]
                cost, gradient, hessian = cost[unsettled], gradient[unsettled], hessian[unsettled]
        return self._points_of_state(found)

    def _for_frames(self, chosen: Bools) -> _Problem:
        """The same for some of the frames."""
        own = ("targets", "normals", "weights", "spans", "places", "across", "start")
        return replace(self, **{name: getattr(self, name)[chosen] for name in own})

    def _apply_step_to_state(self, state: Array, move: Array) -> Array:
        moved = state.copy()
        for kind in range(5):
            used = self.columns[kind] >= 0
            moved[:, kind, used] += move[:, self.columns[kind, used]]
        after, before = _spans_at_points(self.spans, self.layout.closed)
        moved[:, _OUT] = np.clip(moved[:, _OUT], _SHORTEST * after, _LONGEST * after)
        moved[:, _IN] = np.clip(moved[:, _IN], _SHORTEST * before, _LONGEST * before)
        return moved

    def _segments(self, state: Array) -> tuple[Array, Array, Array]:
        """Cubics [F, G, 4, C] and the unit directions of their first and last tangents [F, G, C]."""
        points = self.places + state[:, _LEAVE, :, None] * self.across
        out_way, in_way = _direction(state[:, _OUT_ANGLE]), _direction(state[:, _IN_ANGLE])
        out_handle = points + state[:, _OUT, :, None] * out_way
        in_handle = points - state[:, _IN, :, None] * in_way
        first, last = self._ends()
        cubics = np.stack((points[:, first], out_handle[:, first], in_handle[:, last], points[:, last]), axis=2)
        return cubics, out_way[:, first], in_way[:, last]

    def _ends(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        first = np.arange(self.targets.shape[1])
        return first, (first + 1) % self.layout.n_points

    def _feet(self, state: Array, feet: Array) -> Array:
        cubics, _, _ = self._segments(state)
        for _ in range(2):
            gap = _points_at(cubics, feet) - self.targets
            speed, bend = _speed(cubics, feet), _bend(cubics, feet)
            slope = (speed * speed).sum(-1)
            curved = slope + (gap * bend).sum(-1)
            slope = np.maximum(np.where(curved > 0.3 * slope, curved, slope), 1e-9)
            step = np.clip((gap * speed).sum(-1) / slope, -0.1, 0.1)
            feet = np.clip(feet - step, 0.0, 1.0)
        return np.maximum.accumulate(feet, axis=2)

    def _normal_equations(self, state: Array, feet: Array) -> tuple[Array, Array, Array]:
        cubics, out_way, in_way = self._segments(state)
        gap = _points_at(cubics, feet) - self.targets
        t = feet
        b = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
        first, last = self._ends()
        moves = np.stack(  # [F, G, S, 6, C]
            (
                (b[0] + b[1])[..., None] * self.across[:, first, None],
                b[1][..., None] * out_way[:, :, None],
                b[1][..., None] * (state[:, _OUT, first, None] * _normals_of(out_way))[:, :, None],
                (b[2] + b[3])[..., None] * self.across[:, last, None],
                -b[2][..., None] * in_way[:, :, None],
                -b[2][..., None] * (state[:, _IN, last, None] * _normals_of(in_way))[:, :, None],
            ),
            axis=3,
        )
        frame = np.stack((self.normals, _ALONG * _normals_of(self.normals)), axis=-2)  # [F, G, S, 2, C]
        frame = frame * (self.weights / np.sqrt(N_PER_SEGMENT))[:, :, None, None, None]
        errors = np.einsum("fgskc,fgsc->fgsk", frame, gap)
        jacobian = np.einsum("fgskc,fgsuc->fgsku", frame, moves)
        f, g = errors.shape[:2]
        errors, jacobian = errors.reshape(f, g, -1), jacobian.reshape(f, g, -1, 6)
        blocks = np.swapaxes(jacobian, 2, 3) @ jacobian
        pulls = (np.swapaxes(jacobian, 2, 3) @ errors[..., None])[..., 0]
        return self._assemble(state, (errors**2).sum(axis=(1, 2)), pulls, blocks)

    def _assemble(self, state: Array, cost: Array, pulls: Array, blocks: Array) -> tuple[Array, Array, Array]:
        k = self.n_unknowns
        gradient, hessian = np.zeros((len(state), k + 1)), np.zeros((len(state), k + 1, k + 1))
        first, last = self._ends()
        c = self.columns
        rows = np.stack(
            (c[_LEAVE, first], c[_OUT, first], c[_OUT_ANGLE, first], c[_LEAVE, last], c[_IN, last], c[_IN_ANGLE, last]),
            axis=1,
        )
        rows = np.where(rows < 0, k, rows)  # the last row collects what is not free
        for g, row in enumerate(rows):
            gradient[:, row] += pulls[:, g]
            hessian[:, row[:, None], row[None, :]] += blocks[:, g]
        cost = cost + self._prices(state, gradient, hessian)
        return cost, gradient[:, :k], hessian[:, :k, :k]

    def _prices(self, state: Array, gradient: Array, hessian: Array) -> Array:
        """Add the penalties on displacement and tangent lengths to the equations; returns their sum."""
        after, before = _spans_at_points(self.spans, self.layout.closed)
        total = np.zeros(len(state))
        for kind, wanted, price in (
            (_LEAVE, np.zeros_like(after), self.layout.leave_price),
            (_OUT, after / 3, _THIRD),
            (_IN, before / 3, _THIRD),
        ):
            used = self.columns[kind] >= 0
            column = self.columns[kind, used]
            off = (state[:, kind] - wanted)[:, used] * price
            gradient[:, column] += off * price
            hessian[:, column, column] += price**2
            total += (off**2).sum(axis=1)
        return total

    def _points_of_state(self, state: Array) -> Array:
        points = np.empty((*state.shape[::2], 6))
        points[..., :2] = self.places + state[:, _LEAVE, :, None] * self.across
        points[..., 2:4] = -state[:, _IN, :, None] * _direction(state[:, _IN_ANGLE])
        points[..., 4:6] = state[:, _OUT, :, None] * _direction(state[:, _OUT_ANGLE])
        if not self.layout.closed:
            points[:, 0, 2:4] = 0.0
            points[:, -1, 4:6] = 0.0
        return points


def _columns(layout: PointLayout) -> tuple[npt.NDArray[np.intp], int]:
    """Index of each unknown of each point; -1 if it is not free."""
    n = layout.n_points
    columns = np.full((5, n), -1, dtype=np.intp)
    count = 0
    for point in range(n):
        if np.isfinite(layout.leave_price):
            columns[_LEAVE, point], count = count, count + 1
        columns[[_OUT, _IN, _OUT_ANGLE], point] = (count, count + 1, count + 2)
        columns[_IN_ANGLE, point] = count + 3 if layout.corners_P[point] else count + 2
        count += 4 if layout.corners_P[point] else 3
    return columns, count


def _spans_at_points(spans_FG: Array, closed: bool) -> tuple[Array, Array]:
    """Length of the segments after and before each point; at the ends of an open curve both are the same segment."""
    if closed:
        return spans_FG, np.roll(spans_FG, 1, axis=1)
    return (
        np.concatenate((spans_FG, spans_FG[:, -1:]), axis=1),
        np.concatenate((spans_FG[:, :1], spans_FG), axis=1),
    )


def _points_at(cubics: Array, t: Array) -> Array:
    t = t[..., None]
    p = [cubics[:, :, None, i] for i in range(4)]
    return np.asarray((1 - t) ** 3 * p[0] + 3 * t * (1 - t) ** 2 * p[1] + 3 * t * t * (1 - t) * p[2] + t**3 * p[3])


def _speed(cubics: Array, t: Array) -> Array:
    t = t[..., None]
    d = [3 * (cubics[:, :, None, i + 1] - cubics[:, :, None, i]) for i in range(3)]
    return np.asarray((1 - t) ** 2 * d[0] + 2 * t * (1 - t) * d[1] + t * t * d[2])


def _bend(cubics: Array, t: Array) -> Array:
    t = t[..., None]
    d = [cubics[:, :, None, i + 1] - cubics[:, :, None, i] for i in range(3)]
    return np.asarray(6 * ((1 - t) * (d[1] - d[0]) + t * (d[2] - d[1])))
