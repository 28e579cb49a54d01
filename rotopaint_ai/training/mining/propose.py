"""A sheet out of the roto itself: how many control points a shape needs, and the landmarks that shapes hang on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from rotopaint_ai.shapes import bezier
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet
from rotopaint_ai.training.data.seam_widths import USUAL_SEAM_SHARE
from rotopaint_ai.training.mining import layout, revectorise, symmetry
from rotopaint_ai.training.mining.faces import Faces
from rotopaint_ai.training.mining.families import Family, Member, Shape
from rotopaint_ai.training.mining.layout import Placement
from rotopaint_ai.training.mining.outline import Array, at_shares
from rotopaint_ai.training.mining.register import N_PLACES, Registration

TOLERANCE_PX = 0.25
_HANG_ON = 8  # landmarks taken from a shape's own control points
_NEAR_POINT, _NEAR_SHAPE = 4, 20  # landmarks that a shape is predicted from, nearest to each point and to the whole
_LEAST_MOST = 12  # control points that a shape may have however few the artists took
_GENEROUS = 1.0  # control points that a shape may have for each that an artist took
_LARGEST = 48
_SITS = 0.005  # face units: a control point this near to its landmark in half of the frames sits on it


@dataclass(frozen=True, slots=True)
class Plan:
    """How one shape is drawn: control points on its mean, the landmark of each, and the fit in every frame.

    `points_FP6`: control points of each row of the shape, plate space. `mirror`: the control point that each one
    becomes in a mirrored picture, of the same shape or of its twin; None where the shape has no mirror image.
    """

    shape: Shape
    registration: Registration
    placement: Placement
    on_landmarks: Mapping[int, str]
    points_FP6: Array
    twin: str | None

    def mirror_of(self, point: int) -> tuple[str, int] | None:
        """Shape and control point that a control point becomes in a mirrored picture."""
        n = len(self.placement.shares)
        if self.twin is None:
            return None
        if self.twin != self.shape.name:
            return self.twin, point
        return self.twin, (n - point) % n if self.shape.closed else n - 1 - point


def plan_family(family: Family, *, tolerance_px: float, n_points: int | None = None) -> list[Plan]:
    """Control points for a family: the same places for twins, so that the mirrored point is the same point.

    `n_points`: as many as a sheet asks for; None finds the number that keeps the fit within the tolerance.
    """
    start = start_of(family)
    first = family.members[0]
    closed = first.shape.closed
    registrations = [member.registration.started_at(start) for member in family.members]
    anchors = [_moved(member.anchors, start, closed) for member in family.members]
    symmetric = family.own_mirror and not anchors[0]
    knots = layout.merged(_wanted(family, registrations[0], anchors[0]), closed)
    most = n_points or _most(family, len(knots))
    members = family.members[:1] if family.own_mirror else family.members
    placements = [
        layout.grow(registration, knots, tolerance_px=0.0 if n_points else tolerance_px, most=most, mirrored=symmetric)
        for _, registration in zip(members, registrations)
    ]
    shares = max((placement.shares for placement in placements), key=len)
    shares = shares if n_points is None else layout.exactly(shares, n_points, list(anchors[0].values()), closed)
    names = [member.shape.name for member in members]
    return [
        fitted(member.shape, registration, shares, _on(shares, own, closed), _twin(family, names, at))
        for at, (member, registration, own) in enumerate(zip(members, registrations, anchors))
    ]


def plan_as_told(family: Family, at: int, spec: ShapeSpec, known: Mapping[int, float] = MappingProxyType({})) -> Plan:
    """A member with the control points that a sheet asks for: where they are `known` to lie on the mean, else on its
    landmarks where these lie on the shape, the others between them. The direction of the spline is the one in which the
    sheet's points follow each other."""
    member = family.members[at]
    closed = member.shape.closed
    found = dict(known) or {
        point: member.anchors[name] for point, name in spec.on_landmarks.items() if name in member.anchors
    }
    backwards = _descends(found, closed)
    told = {_point(point, spec.n_points, closed, backwards): share for point, share in found.items()}
    if not told or (not closed and set(told) <= {0, spec.n_points - 1}):
        plan = plan_family(family, tolerance_px=TOLERANCE_PX, n_points=spec.n_points)[at]
        start, shares = start_of(family), plan.placement.shares
    else:
        start = told[min(told)] if closed else 0.0
        shares = _between(told, start, spec.n_points, closed)
    registration = member.registration.started_at(start)
    plan = fitted(member.shape, registration, shares, {}, None)
    points = np.stack([bezier.reverse(row, closed) for row in plan.points_FP6]) if backwards else plan.points_FP6
    first = min(told) if told and closed else 0
    points = np.roll(points, -first if backwards else first, axis=1) if closed else points
    return Plan(member.shape, registration, plan.placement, dict(spec.on_landmarks), points, _twin_name(family, at))


def _twin_name(family: Family, at: int) -> str | None:
    return _twin(family, [member.shape.name for member in family.members], at)


def _point(point: int, n_points: int, closed: bool, backwards: bool) -> int:
    if not backwards:
        return point
    return (n_points - point) % n_points if closed else n_points - 1 - point


def _descends(found: Mapping[int, float], closed: bool) -> bool:
    """Whether the landmarks of ascending points follow each other against the direction of the curve."""
    shares = [found[point] for point in sorted(found)]
    if len(shares) < (3 if closed else 2):
        return False
    if not closed:
        return shares[-1] < shares[0]
    return float(np.mod(np.diff([*shares, shares[0]]), 1.0).sum()) > len(shares) / 2


def _between(told: Mapping[int, float], start: float, n_points: int, closed: bool) -> Array:
    """Shares, counted from `start`, of all control points: those told, the others evenly between them."""
    points = sorted(told)
    if closed:
        at = np.array([*(point - points[0] for point in points), n_points], dtype=np.float64)
        shares = np.array([*(float(np.mod(told[point] - start, 1.0)) for point in points), 1.0])
    else:
        inner = [point for point in points if 0 < point < n_points - 1]
        at = np.array([0, *inner, n_points - 1], dtype=np.float64)
        shares = np.array([0.0, *(told[point] for point in inner), 1.0])
    return np.asarray(np.interp(np.arange(n_points), at, np.maximum.accumulate(shares)))


def fitted(shape: Shape, registration: Registration, shares: Array, on: Mapping[int, str], twin: str | None) -> Plan:
    """Fit every frame of a shape with control points at shares of the mean."""
    placement = Placement(shares, layout.turns_at(registration, shares))
    bends = revectorise.Layout(shape.closed, placement.corners)
    points = revectorise.fit(registration.curves, registration.at(shares), bends)
    return Plan(shape, registration, placement, on, points, twin)


def start_of(family: Family) -> float:
    """Where control point 0 goes: on the first landmark; else on the axis at the top, on a corner, or outermost."""
    first = family.members[0]
    if first.anchors or not first.shape.closed:
        return 0.0
    face = _mean_in_face(first)
    if family.own_mirror:
        axis = _axis(family.members[0], family.members[1])
        both = np.mod(np.array([axis, axis + 0.5]), 1.0)
        heights = face[np.mod(np.rint(both * N_PLACES).astype(np.intp), N_PLACES), 1]
        return float(both[heights.argmin()])
    corners = layout.corners_on(first.registration)
    if len(corners):
        places = np.mod(np.rint(corners * N_PLACES).astype(np.intp), N_PLACES)
        return float(corners[np.abs(face[places, 0]).argmin()])
    return float(np.abs(face[:-1, 0]).argmin() / N_PLACES)


def _mean_in_face(member: Member) -> Array:
    """The median curve of a member in face space, as registered: [N + 1, C]."""
    face = member.shape.face_FMC * (np.array([-1.0, 1.0]) if member.mirrored else 1.0)
    backwards = member.registration.backwards
    back = np.roll(face[:, ::-1], 1, axis=1) if member.shape.closed else face[:, ::-1]
    face = np.where(backwards[:, None, None], back, face)
    return np.asarray(np.median(at_shares(face, member.registration.shares_FN, member.shape.closed), axis=0))


def _axis(own: Member, image: Member) -> float:
    """Share of the mean at which a closed shape that mirrors itself crosses the axis (the other crossing is half
    on)."""
    grid = np.arange(N_PLACES) / N_PLACES
    there = image.registration.at(grid)
    turned = image.registration.backwards ^ own.registration.backwards
    place = np.where(turned[:, None], -there, there)
    shares = own.registration.shares_FN
    sums = []
    for row in range(len(place)):
        low = shares[row, 0]
        at = np.interp(low + np.mod(place[row] - low, 1.0), shares[row], np.arange(N_PLACES + 1) / N_PLACES)
        sums.append(np.exp(2j * np.pi * (at + grid)))
    total = np.median(np.real(sums)) + 1j * np.median(np.imag(sums))
    return float(np.mod(np.angle(total) / (2 * np.pi), 1.0) / 2)


def _moved(anchors: Mapping[str, float], start: float, closed: bool) -> dict[str, float]:
    return {name: float(np.mod(share - start, 1.0)) if closed else share for name, share in anchors.items()}


def _wanted(family: Family, registration: Registration, anchors: Mapping[str, float]) -> list[tuple[float, float]]:
    """Places that a control point has to have, with their importance: landmarks, the start, corners, extremes."""
    first = family.members[0]
    closed = first.shape.closed
    wanted = [(3.0, share) for share in anchors.values()]
    wanted += [(2.0, float(share)) for share in layout.corners_on(registration)]
    if anchors:
        return wanted
    if closed:
        face = _mean_in_face(Member(first.shape, first.mirrored, registration, {}))
        wanted += [(4.0, 0.0), *((1.0, float(share)) for share in layout.extremes_on(face))]
    if family.own_mirror:
        wanted += [(weight, float(np.mod(1.0 - share, 1.0)) if closed else 1.0 - share) for weight, share in wanted]
        wanted += [(5.0, 0.5)]
    return wanted


def _most(family: Family, n_knots: int) -> int:
    artists = max(member.shape.most_points for member in family.members)
    return min(_LARGEST, max(_LEAST_MOST, round(_GENEROUS * artists), n_knots + 2))


def _on(shares: Array, anchors: Mapping[str, float], closed: bool) -> dict[int, str]:
    """The control point nearest to each landmark on the curve."""
    on = {}
    for name, share in anchors.items():
        away = np.abs(shares - share)
        away = np.minimum(away, 1 - away) if closed else away
        if away.min() < 1e-6:
            on[int(away.argmin())] = name
    return on


def _twin(family: Family, names: Sequence[str], at: int) -> str | None:
    if family.own_mirror:
        return names[0]
    return names[1 - at] if len(names) == 2 else None


def sitting(plan: Plan, names: Sequence[str], marks: Array, faces: Faces) -> Plan:
    """The plan without landmarks that only run beside the shape: they told where its places are, but no control point
    sits on them. `marks`: [F, L, 3] landmarks in plate space."""
    kept = {}
    for point, name in plan.on_landmarks.items():
        away = plan.points_FP6[:, point, :2] - marks[plan.shape.rows, names.index(name), :2]
        share = np.linalg.norm(away, axis=1) / faces.side_px[plan.shape.rows]
        share = share[np.isfinite(share)]
        if len(share) and np.median(share) <= _SITS and np.quantile(share, 0.9) <= 2 * _SITS:
            kept[point] = name
    return replace(plan, on_landmarks=kept)


# --- the sheet --------------------------------------------------------------------------------------------------------


def with_own_landmarks(plans: Sequence[Plan]) -> list[Plan]:
    """Plans whose landmarks are chosen among their own control points: `<shape>_<point>`."""
    out = []
    for plan in plans:
        on = {point: f"{plan.shape.name}_{point}" for point in _hang_on(plan)}
        out.append(replace(plan, on_landmarks=on))
    return out


def _hang_on(plan: Plan) -> list[int]:
    """Control points that make good landmarks: corners and ends first, then the ones furthest from those chosen."""
    shares, closed = plan.placement.shares, plan.shape.closed
    n = len(shares)
    chosen = set(np.flatnonzero(plan.placement.corners).tolist()) | ({0} if closed else {0, n - 1})
    while len(chosen) < min(n, _HANG_ON):
        away = np.abs(shares[:, None] - shares[sorted(chosen)])
        away = np.minimum(away, 1 - away) if closed else away
        chosen.add(int(away.min(axis=1).argmax()))
        if plan.twin == plan.shape.name:
            chosen |= {image[1] for point in chosen if (image := plan.mirror_of(point))}
    return sorted(chosen)


def build_sheet(
    name: str, plans: Sequence[Plan], landmark_names: Sequence[str], places: Array, frontal: Array, faces: Faces
) -> Sheet:
    """The sheet of some plans. `places`, `frontal`: (L, 2) of the landmarks on the mean face and on one that looks
    straight ahead, NaN where unknown."""
    fixed: dict[str, str] = {}
    twins = {plan.shape.name: plan for plan in plans}
    for plan in plans:
        for point, landmark in plan.on_landmarks.items():
            image = plan.mirror_of(point)
            own = (f"{plan.shape.name}_{point}", f"{plan.shape.name}_p{point}")
            if image and image[1] in twins[image[0]].on_landmarks and landmark in own:
                fixed[landmark] = twins[image[0]].on_landmarks[image[1]]
    partner = symmetry.partners(landmark_names, frontal, fixed=fixed)
    landmarks = tuple(LandmarkSpec(each, None if partner[each] == each else partner[each]) for each in landmark_names)
    return Sheet(name, landmarks, tuple(_spec(plan, landmark_names, places, faces) for plan in plans))


def _width_share(shape: Shape, known: Array) -> float | None:
    """Usual width of an open shape as a share of the face; seams of unknown width get that of the stage's seams."""
    if shape.closed:
        return None
    usual = USUAL_SEAM_SHARE if shape.role == "seam" else None
    return float(np.round(np.median(known), 5)) if len(known) else usual


def _spec(plan: Plan, names: Sequence[str], places: Array, faces: Faces) -> ShapeSpec:
    shape = plan.shape
    widths = shape.width_px / faces.side_px[shape.rows]
    known = widths[np.isfinite(widths) & (widths > 0)]
    return ShapeSpec(
        shape.name,
        shape.closed,
        len(plan.placement.shares),
        shape.role,
        dict(plan.on_landmarks),
        _from_landmarks(plan, names, places, faces),
        width_share=_width_share(shape, known),
        feather_px=shape.feather_px,
    )


def _from_landmarks(plan: Plan, names: Sequence[str], places: Array, faces: Faces) -> tuple[str, ...]:
    """Landmarks on the shape, those nearest to it on the mean face, and those nearest to each of its control points.

    Held-out shots of rendered puppets with 0.7 px of noise on the landmarks: 0.69 px mean with about 20 of 64, 0.73
    with only the 3 nearest to each point, 0.72 with all of them.
    """
    points = np.median(faces.to_face(plan.points_FP6[..., :2], plan.shape.rows), axis=0)
    known = np.flatnonzero(np.isfinite(places).all(axis=1))
    away = np.linalg.norm(points[:, None] - places[known], axis=2)
    near = {int(known[column]) for row in np.argsort(away, axis=1, kind="stable")[:, :_NEAR_POINT] for column in row}
    near |= {int(known[column]) for column in np.argsort(away.min(axis=0), kind="stable")[:_NEAR_SHAPE]}
    on = set(plan.on_landmarks.values())
    return tuple(name for row, name in enumerate(names) if name in on or row in near)
