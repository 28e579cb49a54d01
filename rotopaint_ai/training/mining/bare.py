"""Parts of shapes that no landmark is near: control points there become landmarks themselves.

A shape is told by its landmarks; where the nearest one is a fifth of the face away, as on the upper half of an outline
round the face, it is told badly however well they are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rotopaint_ai.training.mining.faces import Faces
from rotopaint_ai.training.mining.outline import Array
from rotopaint_ai.training.mining.propose import Plan

FAR = 0.085  # face units: further than this from every landmark a control point wants one of its own


def covered(plans: Sequence[Plan], places: Array, faces: Faces) -> list[Plan]:
    """Plans with landmarks `<shape>_p<point>` of their own where they are bare, the barest point first, with its mirror
    image. `places`: [L, 2] of the landmarks on the mean face, NaN where unknown."""
    points = {plan.shape.name: _on_mean(plan, faces) for plan in plans}
    by_name = {plan.shape.name: plan for plan in plans}
    near = {name: _distances(own, places[np.isfinite(places).all(axis=1)]) for name, own in points.items()}
    added: dict[str, dict[int, str]] = {name: {} for name in by_name}
    while (worst := max(near, key=lambda name: float(near[name].max()), default=None)) is not None:
        at = int(near[worst].argmax())
        if near[worst][at] <= FAR:
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


def _with_image(plans: dict[str, Plan], name: str, point: int) -> list[tuple[str, int]]:
    image = plans[name].mirror_of(point)
    return [(name, point)] if image is None or image[0] not in plans else [(name, point), image]


def _on_mean(plan: Plan, faces: Faces) -> Array:
    return np.asarray(np.median(faces.to_face(plan.points_FP6[..., :2], plan.shape.rows), axis=0))


def _distances(points: Array, places: Array) -> Array:
    if not len(places):
        return np.full(len(points), np.inf)
    return np.asarray(np.linalg.norm(points[:, None] - places, axis=2).min(axis=1))
