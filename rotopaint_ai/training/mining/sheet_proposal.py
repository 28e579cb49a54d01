"""A sheet out of the roto itself: the landmarks that shapes hang on, and the specification of each shape.

A shape is predicted from its landmarks. Where the nearest one is a fifth of the face away, as on the upper half of an
outline round the face, it is predicted badly however well they are found: control points there become landmarks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet
from rotopaint_ai.training.data.seam_widths import USUAL_SEAM_SHARE
from rotopaint_ai.training.mining.curves import Array
from rotopaint_ai.training.mining.faces import Faces, partners
from rotopaint_ai.training.mining.plans import ShapePlan
from rotopaint_ai.training.mining.symmetric_groups import RawShapeTrack

_MOST_OWN = 8  # landmarks taken from a shape's own control points
_NEAR_POINT, _NEAR_SHAPE = 4, 20  # landmarks that a shape is predicted from, nearest to each point and to the whole
FAR_FROM_LANDMARKS = 0.085  # face units: further than this from every landmark a control point wants one of its own


def choose_own_landmarks(plans: Sequence[ShapePlan]) -> list[ShapePlan]:
    """Plans whose landmarks are chosen among their own control points: `<shape>_<point>`."""
    out = []
    for plan in plans:
        on = {point: f"{plan.shape.name}_{point}" for point in _landmark_points(plan)}
        out.append(replace(plan, on_landmarks=on))
    return out


def _landmark_points(plan: ShapePlan) -> list[int]:
    """Control points that make good landmarks: corners and ends first, then the ones furthest from those chosen."""
    shares, closed = plan.placement.shares, plan.shape.closed
    n = len(shares)
    chosen = set(np.flatnonzero(plan.placement.corners).tolist()) | ({0} if closed else {0, n - 1})
    while len(chosen) < min(n, _MOST_OWN):
        away = np.abs(shares[:, None] - shares[sorted(chosen)])
        away = np.minimum(away, 1 - away) if closed else away
        chosen.add(int(away.min(axis=1).argmax()))
        if plan.twin == plan.shape.name:
            chosen |= {image[1] for point in chosen if (image := plan.mirror_of(point))}
    return sorted(chosen)


def build_sheet(
    name: str, plans: Sequence[ShapePlan], landmark_names: Sequence[str], places: Array, frontal: Array, faces: Faces
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
    partner = partners(landmark_names, frontal, fixed=fixed)
    landmarks = tuple(LandmarkSpec(each, None if partner[each] == each else partner[each]) for each in landmark_names)
    return Sheet(name, landmarks, tuple(_shape_spec(plan, landmark_names, places, faces) for plan in plans))


def _width_share(shape: RawShapeTrack, known: Array) -> float | None:
    """Usual width of an open shape as a share of the face; seams of unknown width get that of the stage's seams."""
    if shape.closed:
        return None
    usual = USUAL_SEAM_SHARE if shape.role == "seam" else None
    return float(np.round(np.median(known), 5)) if len(known) else usual


def _shape_spec(plan: ShapePlan, names: Sequence[str], places: Array, faces: Faces) -> ShapeSpec:
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


def _from_landmarks(plan: ShapePlan, names: Sequence[str], places: Array, faces: Faces) -> tuple[str, ...]:
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


def cover_bare_points(plans: Sequence[ShapePlan], places: Array, faces: Faces) -> list[ShapePlan]:
    """Plans with landmarks `<shape>_p<point>` of their own where they are bare, the barest point first, with its mirror
    image. `places`: [L, 2] of the landmarks on the mean face, NaN where unknown."""
    points = {plan.shape.name: _on_mean(plan, faces) for plan in plans}
    by_name = {plan.shape.name: plan for plan in plans}
    near = {name: _distances(own, places[np.isfinite(places).all(axis=1)]) for name, own in points.items()}
    added: dict[str, dict[int, str]] = {name: {} for name in by_name}
    while (worst := max(near, key=lambda name: float(near[name].max()), default=None)) is not None:
        at = int(near[worst].argmax())
        if near[worst][at] <= FAR_FROM_LANDMARKS:
            break
        for name, point in _with_image(by_name, worst, at):
            if point not in by_name[name].on_landmarks:
                added[name][point] = own_name(name, point)
            for other in near:
                near[other] = np.minimum(near[other], _distances(points[other], points[name][point][None]))
    return [replace(plan, on_landmarks={**plan.on_landmarks, **added[plan.shape.name]}) for plan in plans]


def own_name(shape: str, point: int) -> str:
    """The landmark that a bare control point becomes; sources name theirs `<shape>_<number>` themselves."""
    return f"{shape}_p{point}"


def _with_image(plans: dict[str, ShapePlan], name: str, point: int) -> list[tuple[str, int]]:
    image = plans[name].mirror_of(point)
    return [(name, point)] if image is None or image[0] not in plans else [(name, point), image]


def _on_mean(plan: ShapePlan, faces: Faces) -> Array:
    return np.asarray(np.median(faces.to_face(plan.points_FP6[..., :2], plan.shape.rows), axis=0))


def _distances(points: Array, places: Array) -> Array:
    if not len(places):
        return np.full(len(points), np.inf)
    return np.asarray(np.linalg.norm(points[:, None] - places, axis=2).min(axis=1))
