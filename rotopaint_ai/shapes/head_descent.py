"""Steps of a head's bundle adjustment: damped Gauss-Newton steps, each taken only if the head fits better after it.

A head that hardly turns is nearly free in depth: undamped steps swing to and fro there and never settle. Damping grows
after a step that fits worse and falls after one that fits better (Levenberg 1944, Marquardt 1963).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.shapes.facespace import Array, Complex
from rotopaint_ai.shapes.head_bundle import (
    MARKS_WEIGHT,
    Head,
    HeadFacts,
    ObservedCurve,
    ObservedMarks,
    equations_of,
    ties_of,
)
from rotopaint_ai.shapes.head_marks import DEEP
from rotopaint_ai.shapes.rigid_head import LEAST_PX, landmark_noise

LONGEST_STEP = 0.2  # largest step of a point in space
EASED, GROWN = 0.2, 8.0  # factors on the damping after a step that fits better, and worse
LEAST_DAMPING, LARGEST_DAMPING = 1e-7, 1e4
TRIES = 5  # of a step
_ROUNDING = 1e-9  # share of the misfit


def damped_step(head: Head, facts: HeadFacts) -> Head:
    """The head after one step, or where it was if every try fits worse. Raises LinAlgError if there is no solution."""
    equations, of_marks = equations_of(head, facts)
    noise_HL = landmark_noise(_landmarks_off(head, facts), np.maximum(facts.error_px_HL, LEAST_PX))
    size = float((head.cameras.size**2).mean())
    before, damping = _misfit(head, facts, noise_HL, size), head.damping
    for _ in range(TRIES):
        own = of_marks.damped(damping) if of_marks else None
        camera_step, point_step = equations.coupled(own).damped(damping).solved()
        safe = max(1.0, float(abs(point_step).max()) / LONGEST_STEP)
        marks = head.marks.stepped(own.steps(camera_step) / safe) if own else head.marks
        cameras, points = head.cameras.stepped(camera_step / safe), head.points + point_step / safe
        found = replace(head, cameras=cameras, points=points, marks=marks)
        if _misfit(found, facts, noise_HL, size) <= before * (1 + _ROUNDING):
            return replace(found, damping=max(damping * EASED, LEAST_DAMPING))
        damping = min(damping * GROWN, LARGEST_DAMPING)
    return replace(head, damping=damping)


def _misfit(head: Head, facts: HeadFacts, noise_HL: Array, size: float) -> float:
    """Twice the negative logarithm of a head's probability, but for a constant.

    `noise_HL`: of landmarks, pixels. `size`: mean square of the head's sizes, pixels, for the prior depth of marks.
    """
    total = _robust(np.abs(_landmarks_off(head, facts)), 2 * np.maximum(noise_HL, 1), MARKS_WEIGHT / noise_HL**2)
    total += sum(_misfit_of_curve(head, each) for each in facts.seen)
    for tie in ties_of(head, facts.build):
        total += _robust(tie.off, 2 * tie.deviation if tie.is_robust else np.inf, tie.deviation**-2.0)
    total += float((((head.usual - head.points) / head.deviation) ** 2).sum() + (head.cameras.leaning() ** 2).sum())
    return total + (_misfit_of_marks(head, facts.shared, size) if facts.shared else 0.0)


def _landmarks_off(head: Head, facts: HeadFacts) -> Complex:
    return np.asarray(facts.points_HL - head.cameras.see(head.points[: facts.points_HL.shape[1]]))


def _misfit_of_curve(head: Head, seen: ObservedCurve) -> float:
    places = seen.weights @ head.points[head.curves[seen.curve]]
    off = ((seen.at - head.cameras.see(places)) * seen.normal.conj()).real
    return float((seen.across * off**2 / (1 + (off / (2 * seen.far_px)) ** 2)).sum())  # Geman and McClure's loss


def _misfit_of_marks(head: Head, seen: ObservedMarks, size: float) -> float:
    marks, places = seen.marks, head.marks.places
    off = marks.at - head.cameras.see(places)[marks.hold, marks.mark]
    deep = DEEP * size * float(((head.marks.usual_depth - places[:, 2]) ** 2).sum())
    return _robust(np.abs(off), seen.far_px, seen.noise_px**-2.0) + deep / seen.noise_px**2


def _robust(off: NDArray[Any], far: NDArray[Any] | float, weight: NDArray[Any] | float) -> float:
    """The weighted sum of Cauchy's loss (Holland and Welsch 1977) of residuals; of their squares where `far` is
    infinite."""
    is_robust = np.isfinite(far)
    bound = np.where(is_robust, far, 1.0) ** 2
    return float((weight * np.where(is_robust, bound * np.log1p(off**2 / bound), off**2)).sum())
