"""Where a shot's seams show as creases in its pictures, and the shot solved from them as one rigid head.

H holds, D numbers of a spline, M places of a curve. Plate space, pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rotopaint_ai.seams.path import smooth_path
from rotopaint_ai.seams.placement import ACROSS, ALONG, Evidence, SeamLook, places_along, read_strips
from rotopaint_ai.shapes.facespace import Array, Complex
from rotopaint_ai.shapes.rigid_solver import RigidShot, SeenCurve, solve_rigid
from rotopaint_ai.shapes.samples import basis, basis_at
from rotopaint_ai.shapes.shot_solver import HeadPoses

# Chosen on training shots of two puppets that the shipped pack never saw, by the mean error of visible seams.
DOUBTS = (0.03, 0.015)  # of the head's size: how far off a seam is looked for at the least, look by look
SHOWS = 0.5  # probability from which on a place of a seam is taken to be seen
LEAST_SHOWN = 0.15  # share of a curve below which nothing of it is
CREASE_PX = 0.6  # how far off a crease may be, where a curve has twelve places
HAND_PX = 0.3  # and a person's curve
HAND_ALONG_PX = 4.0  # and its points along it, where one is as good as another
HAND_END_PX = 0.5  # and its ends
UNSEEN_PX = 9.0  # how far off a curve is called of which nothing shows
_PER_SEGMENT = 8


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """A look at a hold, and the longest side of the box round its face's landmarks in pixels."""

    seen: SeamLook
    face_px: float


@dataclass(frozen=True, slots=True, eq=False)
class SolvedShot:
    """A shot solved, and how far each curve lies off its crease in each hold, mean pixels: `off_px` (curve, hold)."""

    rigid: RigidShot
    off_px: Array


def solve_shot(
    heads: HeadPoses,
    points_HL: Complex,
    error_px_HL: Array,
    said: Sequence[Complex],
    exact: Sequence[Mapping[int, Complex]],
    looks: Sequence[Look],
    evidence: Evidence,
) -> SolvedShot:
    """All seams of a shot from the models' splines (H, D), a person's in some holds, and what the pictures show."""
    n = len(looks)
    seen = [
        [_by_hand(hand[h]) if h in hand else _nothing(each.shape[1]) for h in range(n)]
        for each, hand in zip(said, exact)
    ]
    shot = solve_rigid(heads, points_HL, error_px_HL, said, seen)
    for least in DOUBTS:
        for h, look in enumerate(looks):
            curves = [shot.spline(h, c) for c in range(len(said))]
            doubt = [max(least * float(abs(heads.factor_H[h])), shot.deviation_px(h, c)) for c in range(len(said))]
            for c, item in enumerate(creases(look, curves, doubt, evidence)):
                if h not in exact[c]:
                    seen[c][h] = item
        shot = solve_rigid(heads, points_HL, error_px_HL, said, seen, shot)
    off = [[_off(item, shot.spline(h, c)) for h, item in enumerate(row)] for c, row in enumerate(seen)]
    return SolvedShot(shot, np.array(off))


def creases(look: Look, curves: Sequence[Complex], doubt_px: Sequence[float], evidence: Evidence) -> list[SeenCurve]:
    """Where each of a hold's curves (D,) shows, looked for as far off as it may be."""
    step = look.face_px / ACROSS
    found = [_nothing(len(each)) for each in curves]
    ribbons = [places_along(_numbers(each), look.face_px / ALONG) for each in curves]
    known = {k: ribbon for k, ribbon in enumerate(ribbons) if ribbon is not None}
    if not known:
        return found
    for (k, ribbon), logits in zip(known.items(), read_strips(list(known.values()), look.seen, step, evidence)):
        path, pairs = smooth_path(logits, doubt_px[k] / step), ribbon.pairs
        shown = path.hidden < SHOWS
        if shown.mean() >= LEAST_SHOWN:
            normal = (pairs.normal @ (1, 1j))[shown]
            at = (pairs.centre @ (1, 1j))[shown] + normal * (path.moves * step)[shown]
            off = CREASE_PX * np.sqrt(max(len(logits) / 12, 1)) / (1 - path.hidden[shown])
            weights = basis_at(len(curves[k]) // 3, pairs.at[shown])
            found[k] = SeenCurve(weights, at, normal, off, np.full(len(at), np.inf), False)
    return found


def _by_hand(spline: Complex) -> SeenCurve:
    weights = basis(len(spline) // 3, False, _PER_SEGMENT)
    at = weights @ spline
    way = np.gradient(at)
    m = len(at)
    along = np.full(m, HAND_ALONG_PX * np.sqrt(m / 4))
    along[[0, -1]] = HAND_END_PX
    across = np.full(m, HAND_PX * np.sqrt(m / 8))
    return SeenCurve(weights, at, 1j * way / np.maximum(abs(way), 1e-9), across, along, True)


def _nothing(n_numbers: int) -> SeenCurve:
    none = np.zeros(0)
    return SeenCurve(np.zeros((0, n_numbers)), none.astype(complex), none.astype(complex), none, none, False)


def _off(item: SeenCurve, spline: Complex) -> float:
    if not len(item.at):
        return UNSEEN_PX
    return float(abs(np.real((item.at - item.weights @ spline) * item.normal.conj())).mean())


def _numbers(spline: Complex) -> Array:
    at, back, out = spline.reshape(3, -1)
    back, out = back - at, out - at
    return np.stack([at.real, at.imag, back.real, back.imag, out.real, out.imag], axis=1)
