"""Plans of shapes: number of control points, their positions on the mean curve, and the fit in every frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.revectorise.control_points import (
    Placement,
    add_points,
    find_corners,
    find_extremes,
    mark_corners,
    merge_places,
    set_point_count,
)
from rotopaint_ai.shapes.revectorise.correspondence import Correspondence
from rotopaint_ai.shapes.revectorise.mean_face import Faces
from rotopaint_ai.shapes.revectorise.raw_curves import N_PLACES, Array, at_shares, reverse_where, share_distance
from rotopaint_ai.shapes.revectorise.spline_fit import PointLayout, fit_curves
from rotopaint_ai.sheet import ShapeSpec
from rotopaint_ai.training.mining.options import TOLERANCE_PX
from rotopaint_ai.training.mining.symmetric_groups import GroupMember, RawShapeTrack, SymmetricGroup

_LEAST_MOST = 12  # largest number of control points even if the artists used fewer
_GENEROUS = 1.0  # largest number of control points per artist's control point
_LARGEST = 48
_ON_LANDMARK = 0.005  # face units: a control point this close to its landmark in half of the frames lies on it


@dataclass(frozen=True, slots=True)
class ShapePlan:
    """How one shape is drawn: control points on its mean curve, their landmarks, and the fit in every frame.

    `points_FP6`: control points in each of the shape's rows, plate space. `twin`: name of the mirror shape, maybe its
    own; None without one.
    """

    shape: RawShapeTrack
    correspondence: Correspondence
    placement: Placement
    on_landmarks: Mapping[int, str]
    points_FP6: Array
    twin: str | None

    def mirror_of(self, point: int) -> tuple[str, int] | None:
        """Shape and control point of the mirror image of a control point."""
        if self.twin is None or self.twin != self.shape.name:
            return None if self.twin is None else (self.twin, point)
        return self.twin, _mirrored_point(point, len(self.placement.shares), self.shape.closed)


def plan_group(group: SymmetricGroup, *, tolerance_px: float, n_points: int | None = None) -> list[ShapePlan]:
    """Plans for a group; twins share positions, so that point k of one mirrors point k of the other.

    `n_points`: number of control points from a sheet; None finds the number that keeps the fit within the tolerance.
    """
    start = find_start(group)
    first = group.members[0]
    closed = first.shape.closed
    correspondences = [member.correspondence.started_at(start) for member in group.members]
    anchors = [
        {name: float(np.mod(share - start, 1.0)) if closed else share for name, share in member.anchors.items()}
        for member in group.members
    ]
    symmetric = group.own_mirror and not anchors[0]
    knots = merge_places(_required_places(group, correspondences[0], anchors[0]), closed)
    most = n_points or _max_points(group, len(knots))
    members = group.members[:1] if group.own_mirror else group.members
    placements = [
        add_points(correspondence, knots, tolerance_px=0.0 if n_points else tolerance_px, most=most, mirrored=symmetric)
        for _, correspondence in zip(members, correspondences)
    ]
    shares = max((placement.shares for placement in placements), key=len)
    shares = shares if n_points is None else set_point_count(shares, n_points, list(anchors[0].values()), closed)
    names = [member.shape.name for member in members]
    return [
        fit_plan(
            member.shape,
            correspondence,
            shares,
            _points_at_landmarks(shares, own, closed),
            _twin_name(group, names, at),
        )
        for at, (member, correspondence, own) in enumerate(zip(members, correspondences, anchors))
    ]


def plan_by_sheet(
    group: SymmetricGroup, at: int, spec: ShapeSpec, known: Mapping[int, float] = MappingProxyType({})
) -> ShapePlan:
    """Plan a member with the control points of a sheet.

    Points lie where they are `known` to lie on the mean curve, else on their landmarks where these lie on the shape;
    the others are spread between them. The spline runs in the direction of the sheet's points.
    """
    member = group.members[at]
    closed = member.shape.closed
    found = dict(known) or {
        point: member.anchors[name] for point, name in spec.on_landmarks.items() if name in member.anchors
    }
    backwards = _runs_backwards(found, closed)
    given = {_mirrored_point(point, spec.n_points, closed): s for point, s in found.items()} if backwards else found
    if not given or (not closed and set(given) <= {0, spec.n_points - 1}):
        plan = plan_group(group, tolerance_px=TOLERANCE_PX, n_points=spec.n_points)[at]
        start, shares = find_start(group), plan.placement.shares
    else:
        start = given[min(given)] if closed else 0.0
        shares = _interpolate_shares(given, start, spec.n_points, closed)
    correspondence = member.correspondence.started_at(start)
    plan = fit_plan(member.shape, correspondence, shares, {}, None)
    points = np.stack([bezier.reverse(row, closed) for row in plan.points_FP6]) if backwards else plan.points_FP6
    first = min(given) if given and closed else 0
    points = np.roll(points, -first if backwards else first, axis=1) if closed else points
    twin = _twin_name(group, [each.shape.name for each in group.members], at)
    return ShapePlan(member.shape, correspondence, plan.placement, dict(spec.on_landmarks), points, twin)


def _mirrored_point(point: int, n_points: int, closed: bool) -> int:
    """The index of a control point when the order is reversed; a closed curve keeps its first point."""
    return (n_points - point) % n_points if closed else n_points - 1 - point


def _runs_backwards(found: Mapping[int, float], closed: bool) -> bool:
    """Whether the positions of ascending points run against the direction of the curve."""
    shares = [found[point] for point in sorted(found)]
    if len(shares) < (3 if closed else 2):
        return False
    if not closed:
        return shares[-1] < shares[0]
    return float(np.mod(np.diff([*shares, shares[0]]), 1.0).sum()) > len(shares) / 2


def _interpolate_shares(given: Mapping[int, float], start: float, n_points: int, closed: bool) -> Array:
    """Positions of all control points as shares from `start`: the given ones, the others evenly between them."""
    points = sorted(given)
    if closed:
        at = np.array([*(point - points[0] for point in points), n_points], dtype=np.float64)
        shares = np.array([*(float(np.mod(given[point] - start, 1.0)) for point in points), 1.0])
    else:
        inner = [point for point in points if 0 < point < n_points - 1]
        at = np.array([0, *inner, n_points - 1], dtype=np.float64)
        shares = np.array([0.0, *(given[point] for point in inner), 1.0])
    return np.asarray(np.interp(np.arange(n_points), at, np.maximum.accumulate(shares)))


def fit_plan(
    shape: RawShapeTrack, correspondence: Correspondence, shares: Array, on: Mapping[int, str], twin: str | None
) -> ShapePlan:
    """Fit every frame of a shape with control points at `shares` of the mean curve."""
    placement = Placement(shares, mark_corners(find_corners(correspondence), shares, shape.closed))
    bends = PointLayout(shape.closed, placement.corners)
    points = fit_curves(correspondence.curves, correspondence.at(shares), bends)
    return ShapePlan(shape, correspondence, placement, on, points, twin)


def find_start(group: SymmetricGroup) -> float:
    """Position of control point 0: on the first landmark; else on the axis at the top, on a corner, or outermost."""
    first = group.members[0]
    if first.anchors or not first.shape.closed:
        return 0.0
    face = _mean_in_face(first)
    if group.own_mirror:
        axis = _axis(group.members[0], group.members[1])
        both = np.mod(np.array([axis, axis + 0.5]), 1.0)
        heights = face[np.mod(np.rint(both * N_PLACES).astype(np.intp), N_PLACES), 1]
        return float(both[heights.argmin()])
    corners = find_corners(first.correspondence)
    if len(corners):
        places = np.mod(np.rint(corners * N_PLACES).astype(np.intp), N_PLACES)
        return float(corners[np.abs(face[places, 0]).argmin()])
    return float(np.abs(face[:-1, 0]).argmin() / N_PLACES)


def _mean_in_face(member: GroupMember) -> Array:
    """The median curve of a member in face space, in correspondence: [N + 1, C]."""
    face = member.shape.face_FMC * (np.array([-1.0, 1.0]) if member.mirrored else 1.0)
    face = reverse_where(face, member.correspondence.backwards, member.shape.closed)
    return np.asarray(np.median(at_shares(face, member.correspondence.shares_FN, member.shape.closed), axis=0))


def _axis(own: GroupMember, image: GroupMember) -> float:
    """Share of the mean curve where a symmetric closed shape crosses the axis; the second crossing is at + 0.5."""
    grid = np.arange(N_PLACES) / N_PLACES
    there = image.correspondence.at(grid)
    turned = image.correspondence.backwards ^ own.correspondence.backwards
    place = np.where(turned[:, None], -there, there)
    shares = own.correspondence.shares_FN
    sums = []
    for row in range(len(place)):
        low = shares[row, 0]
        at = np.interp(low + np.mod(place[row] - low, 1.0), shares[row], np.arange(N_PLACES + 1) / N_PLACES)
        sums.append(np.exp(2j * np.pi * (at + grid)))
    total = np.median(np.real(sums)) + 1j * np.median(np.imag(sums))
    return float(np.mod(np.angle(total) / (2 * np.pi), 1.0) / 2)


def _required_places(
    group: SymmetricGroup, correspondence: Correspondence, anchors: Mapping[str, float]
) -> list[tuple[float, float]]:
    """Positions that need a control point, with their importance: landmarks, start, corners, extremes."""
    first = group.members[0]
    closed = first.shape.closed
    wanted = [(3.0, share) for share in anchors.values()]
    wanted += [(2.0, float(share)) for share in find_corners(correspondence)]
    if anchors:
        return wanted
    if closed:
        face = _mean_in_face(GroupMember(first.shape, first.mirrored, correspondence, {}))
        wanted += [(4.0, 0.0), *((1.0, float(share)) for share in find_extremes(face))]
    if group.own_mirror:
        wanted += [(weight, float(np.mod(1.0 - share, 1.0)) if closed else 1.0 - share) for weight, share in wanted]
        wanted += [(5.0, 0.5)]
    return wanted


def _max_points(group: SymmetricGroup, n_knots: int) -> int:
    artists = max(member.shape.most_points for member in group.members)
    return min(_LARGEST, max(_LEAST_MOST, round(_GENEROUS * artists), n_knots + 2))


def _points_at_landmarks(shares: Array, anchors: Mapping[str, float], closed: bool) -> dict[int, str]:
    """The control point at each landmark on the curve."""
    on = {}
    for name, share in anchors.items():
        away = share_distance(shares, share, closed)
        if away.min() < 1e-6:
            on[int(away.argmin())] = name
    return on


def _twin_name(group: SymmetricGroup, names: Sequence[str], at: int) -> str | None:
    if group.own_mirror:
        return names[0]
    return names[1 - at] if len(names) == 2 else None


def drop_landmarks_beside(plan: ShapePlan, names: Sequence[str], marks: Array, faces: Faces) -> ShapePlan:
    """The plan without landmarks that only run close to the shape: they guide positions, but lie on no control point.

    `marks`: [F, L, 3] landmarks in plate space.
    """
    kept = {}
    for point, name in plan.on_landmarks.items():
        away = plan.points_FP6[:, point, :2] - marks[plan.shape.rows, names.index(name), :2]
        share = np.linalg.norm(away, axis=1) / faces.side_px[plan.shape.rows]
        share = share[np.isfinite(share)]
        if len(share) and np.median(share) <= _ON_LANDMARK and np.quantile(share, 0.9) <= 2 * _ON_LANDMARK:
            kept[point] = name
    return replace(plan, on_landmarks=kept)
