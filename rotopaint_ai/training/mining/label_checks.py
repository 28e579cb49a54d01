"""Frames with suspicious labels, which a person should check before training.

Kinds: `swapped`: left and right have exchanged names. `jumped`: a point or a shape jumps away for one frame. `misfit`:
the fitted spline cannot follow the artist's curve. `twisted`: points started elsewhere or ran backwards (corrected
automatically). `shifted`: the roto fits the plate of another frame. `held`: the roto does not move while the plate
does, or the reverse. `outside`: parts lie outside the plate.
Letters: F frames of one shot in order, L landmarks, C components.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set

import numpy as np

from rotopaint_ai.shapes.revectorise.mean_face import Faces, mirrored_misfit
from rotopaint_ai.shapes.revectorise.mirror_partners import name_pairs
from rotopaint_ai.shapes.revectorise.point_tracks import Twist
from rotopaint_ai.shapes.revectorise.raw_curves import Array, Bools, Rows
from rotopaint_ai.training.mining.mined_samples import Thumb
from rotopaint_ai.training.mining.options import KINDS, LabelIssue
from rotopaint_ai.training.mining.outliers import (
    ROTO,
    find_late_shapes,
    find_outliers,
    find_shifted_roto,
    fit_face_model,
)
from rotopaint_ai.training.mining.plans import ShapePlan
from rotopaint_ai.training.mining.vectorise import MinedTruth
from rotopaint_ai.watch import StageProgress, ignore_progress

_STAGE = "checking labels"
_APART = 0.08  # face units: a swap of closer points cannot be detected
_JUMP = 0.025  # face units: a smaller jump is motion
_BACK = 0.35  # a jump returns: its neighbours are closer to each other than this share of its distance
_OTHERS = 0.35  # only single points jumped if the others move less than this share
_STILL_PX = 0.02  # roto that moves less counts as still
_LAG_GAIN = 0.25  # required gain in correlation with another frame's picture
_AGREES = 0.5
_MOST_LAG = 2  # largest lag in frames


def find_swapped(plans: Sequence[ShapePlan], faces: Faces) -> list[LabelIssue]:
    """Shapes at the position of their mirror partner, and faces that fit better with left and right exchanged."""
    found = []
    whole = np.zeros(len(faces.turn), dtype=bool)
    if faces.partner:
        known = np.isfinite(faces.misfit)
        own = np.where(known, faces.misfit, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        turned = mirrored_misfit(faces)
        whole = (turned < 0.5 * own) & (own > 3 * np.median(own))
        found = [LabelIssue(int(row), "swapped", "face", "left and right exchanged") for row in np.flatnonzero(whole)]
    by_name = {plan.shape.name: plan for plan in plans}
    for plan in plans:
        twin = by_name.get(plan.twin or "")
        if twin is not None and plan.shape.name < twin.shape.name:
            middles = [_middles(each, len(whole)) for each in (plan, twin)]
            names = f"{plan.shape.name}, {twin.shape.name}"
            rows = np.flatnonzero(_are_swapped(*middles) & ~whole)
            found += [LabelIssue(int(row), "swapped", names, "lie at each other's position") for row in rows]
    return found


def _middles(plan: ShapePlan, n_rows: int) -> Array:
    """[F, 2] centre of a shape in face space, NaN in frames without it."""
    middles = np.full((n_rows, 2), np.nan)
    middles[plan.shape.rows] = plan.shape.face_FMC.mean(axis=1)
    return middles


def _are_swapped(here: Array, there: Array) -> Bools:
    """[F] whether two points [F, 2] are each at the other's usual position; NaN means unknown.

    All False if the usual positions are too close to tell.
    """
    usual_here, usual_there = (np.median(places[np.isfinite(places[:, 0])], axis=0) for places in (here, there))
    if np.linalg.norm(usual_here - usual_there) < _APART:
        return np.zeros(len(here), dtype=bool)
    own = np.linalg.norm(here - usual_here, axis=1) + np.linalg.norm(there - usual_there, axis=1)
    other = np.linalg.norm(here - usual_there, axis=1) + np.linalg.norm(there - usual_here, axis=1)
    return np.asarray(other < 0.5 * own)


def find_swapped_landmarks(
    names: Sequence[str], places_FLC: Array, known_swaps: Collection[int] = ()
) -> list[LabelIssue]:
    """Swapped pairs of landmarks, one issue per frame.

    `places_FLC` in face space; `known_swaps`: rows where the whole face is known to be swapped.
    """
    pairs: dict[int, list[str]] = {}
    for one, two in name_pairs(list(names)):
        a, b = places_FLC[:, names.index(one)], places_FLC[:, names.index(two)]
        if np.isfinite(a[:, 0] + b[:, 0]).sum() >= 3:
            for row in np.flatnonzero(_are_swapped(a, b)).tolist():
                pairs.setdefault(row, []).append(f"{one}, {two}")
    return [_swap_issue(row, found) for row, found in pairs.items() if row not in known_swaps]


def _swap_issue(row: int, pairs: Sequence[str]) -> LabelIssue:
    more = f" ... ({len(pairs)} pairs)" if len(pairs) > 2 else ""
    return LabelIssue(row, "swapped", ", ".join(pairs[:2]) + more, "lie at each other's position")


def measure_jumps(places_FNC: Array, frames: Sequence[int]) -> Array:
    """[F, N] distance of each point from the mean of its two neighbouring frames; 0 unless these two agree."""
    out = np.zeros(places_FNC.shape[:2])
    for at in range(1, len(frames) - 1):
        if frames[at] - frames[at - 1] != 1 or frames[at + 1] - frames[at] != 1:
            continue
        before, here, after = places_FNC[at - 1 : at + 2]
        off = np.linalg.norm(here - (before + after) / 2, axis=1)
        apart = np.linalg.norm(after - before, axis=1)
        out[at] = np.where(np.isfinite(off) & (apart < _BACK * off) & (off > _JUMP), off, 0.0)
    return out


def find_jumped(
    about: str, names: Sequence[str], places_FNC: Array, rows: Rows, frames: Sequence[int]
) -> list[LabelIssue]:
    """Single points, or all of them, that jump in one frame of a shot only. `places_FNC` in face space."""
    found = []
    off = measure_jumps(places_FNC, frames)
    for at in np.flatnonzero((off > 0).any(axis=1)).tolist():
        jumped = np.flatnonzero(off[at] > 0).tolist()
        if len(jumped) > 0.6 * off.shape[1]:
            found.append(LabelIssue(int(rows[at]), "jumped", about, "jumps away for one frame"))
            continue
        before, here, after = places_FNC[at - 1 : at + 2]
        rest = np.delete(np.linalg.norm(here - (before + after) / 2, axis=1), jumped)
        typical = float(np.nanmedian(rest)) if len(rest) else 0.0
        alone = [names[k] for k in jumped if typical < _OTHERS * off[at, k]]
        if alone:
            shown = ", ".join(alone[:4]) + (" ..." if len(alone) > 4 else "")
            found.append(LabelIssue(int(rows[at]), "jumped", about, f"{shown}: away for one frame"))
    return found


def find_misfits(plan: ShapePlan, distance_F2: Array, tolerance_px: float) -> list[LabelIssue]:
    """Frames whose spline is much further from the artist's curve than usual for the shape."""
    mean, most = distance_F2.T
    limit = np.maximum(4 * np.median(mean), 2 * tolerance_px)
    peak = np.maximum(4 * np.median(most), 12 * tolerance_px)
    rows = np.flatnonzero((mean > limit) | (most > peak))
    return [
        LabelIssue(
            int(plan.shape.rows[row]),
            "misfit",
            plan.shape.name,
            f"{mean[row]:.2f} px from the artist's curve on average, {most[row]:.1f} px at most: is a point misplaced?",
        )
        for row in rows
    ]


def list_twisted(plan: ShapePlan, twists: Sequence[Twist]) -> list[LabelIssue]:
    """Frames whose points were reordered."""
    return [
        LabelIssue(
            int(plan.shape.rows[twist.row]),
            "twisted",
            plan.shape.name,
            ("ran backwards" if twist.backwards else f"started {twist.shift} points later") + ", corrected",
        )
        for twist in twists
    ]


def find_outside(row: int, named: Mapping[str, Array], width: int, height: int) -> list[LabelIssue]:
    """Landmarks and shapes of a frame (points (N, 2), plate space) with a part outside the plate."""
    out = [
        name for name, points in named.items() if ((points < -0.5) | (points > np.array([width, height]) + 0.5)).any()
    ]
    if not out:
        return []
    shown = ", ".join(out[:4]) + (" ..." if len(out) > 4 else "")
    return [LabelIssue(row, "outside", shown, "reaches beyond the plate")]


def find_held(rows: Rows, frames: Sequence[int], motion_px: Array, change: Array) -> list[LabelIssue]:
    """Roto that does not move while the picture does, or moves while the picture does not.

    `motion_px`: [F] mean motion of the roto's points since the previous frame. `change`: [F] change of the picture
    under the face. NaN where there is no previous frame.
    """
    known = np.isfinite(motion_px) & np.isfinite(change)
    if known.sum() < 6:
        return []
    still = motion_px < _STILL_PX
    moving = known & ~still
    if not moving.any():
        return []
    calm = float(np.quantile(change[known], 0.05))
    typical = float(np.median(change[moving]))
    quiet = calm + 0.25 * max(typical - calm, 0.0)
    found = []
    for at in np.flatnonzero(known):
        if still[at] and change[at] > max(0.8 * typical, 2.0 * calm):
            found.append(LabelIssue(int(rows[at]), "held", "roto", "does not move while the plate does"))
        elif motion_px[at] > 1.0 and change[at] < quiet and typical > 3 * calm and still[known].any():
            found.append(
                LabelIssue(int(rows[at]), "held", "plate", f"does not move, the roto moves {motion_px[at]:.1f} px")
            )
    return found


def find_lag(motion_px: Array, change: Array) -> int:
    """How many frames the roto's motion is late: 0 unless another lag correlates much better.

    Both must vary over the shot; gaps are left out.
    """
    scores: dict[int, float] = {}
    for lag in range(-_MOST_LAG, _MOST_LAG + 1):
        a = motion_px[max(0, lag) : len(motion_px) + min(0, lag)]
        b = change[max(0, -lag) : len(change) + min(0, -lag)]
        known = np.isfinite(a) & np.isfinite(b)
        if known.sum() < 8 or a[known].std() < 1e-6 or b[known].std() < 1e-9:
            return 0
        scores[lag] = float(np.corrcoef(np.sqrt(a[known]), np.sqrt(b[known]))[0, 1])
    best = max(scores, key=lambda lag: scores[lag])
    clear = scores[best] > _AGREES and scores[best] > scores[0] + _LAG_GAIN
    return best if clear else 0


def find_lag_to_landmarks(curves_FMC: Array, marks_FAC: Array, frames: Sequence[int]) -> int:
    """How many frames a shape is late relative to the landmarks on it: 0 unless clear. Any common units."""
    scores: dict[int, float] = {}
    at = {frame: row for row, frame in enumerate(frames)}
    for lag in (-1, 0, 1):
        away = []
        for frame, row in at.items():
            other = at.get(frame - lag)
            if other is None:
                continue
            off = np.linalg.norm(curves_FMC[row][None] - marks_FAC[other][:, None], axis=2).min(axis=1)
            away.append(np.nanmean(off) if np.isfinite(off).any() else np.nan)
        known = np.array(away)[np.isfinite(away)]
        if len(known) < 6:
            return 0
        scores[lag] = float(known.mean())
    best = min(scores, key=lambda lag: scores[lag])
    return best if scores[best] < 0.5 * scores[0] else 0


def check_labels(
    truth: MinedTruth, thumbs: Mapping[int, Thumb], tolerance_px: float, *, progress: StageProgress = ignore_progress
) -> list[LabelIssue]:
    """Label issues, frame by frame. `thumbs`: the plate under the face, cut at a fixed square per shot."""
    faces, everywhere = truth.faces, np.arange(len(truth.rows))
    places = faces.to_face(truth.marks[..., :2], everywhere)
    given = truth.given()
    names = [truth.names[at] for at in given]
    found = find_swapped(truth.plans, faces)
    found += find_swapped_landmarks(names, places[:, given], {each.row for each in found if each.about == "face"})
    swapped = {each.row for each in found}
    for plan, distance in zip(truth.plans, truth.distances):
        found += find_misfits(plan, distance, tolerance_px) + list_twisted(plan, plan.shape.twists)
    shots = np.unique(truth.shots)
    progress(_STAGE, 0, 2 * len(shots))  # fitting the face model takes about as long as all shots
    face = fit_face_model(truth, swapped)
    found += find_outliers(face, truth, swapped) if face else []
    for done, shot in enumerate(shots):
        progress(_STAGE, len(shots) + done, 2 * len(shots))
        rows = np.flatnonzero(truth.shots == shot)
        frames = [truth.rows[row].frame for row in rows]
        if given:
            found += find_jumped(
                "landmarks", names, _in_faces(truth, truth.marks[rows][:, given, :2], rows), rows, frames
            )
        found += _find_shape_jumps(truth, rows)
        wrong = {each.row for each in found}
        late = find_late_shapes(face, truth, rows, wrong) if face else []
        if face and not any(each.about == ROTO for each in late):
            late += find_shifted_roto(face, truth, rows, swapped)
        found += late
        found += _check_timing(truth, thumbs, rows, frames, wrong)
        for row in rows:
            marks = {name: at for name, at in zip(truth.names, truth.marks[row, :, None, :2]) if np.isfinite(at).all()}
            named = {**truth.curves(int(row)), **marks}
            plate = truth.rows[row].plate
            found += find_outside(int(row), named, plate.width, plate.height)
    progress(_STAGE, 2 * len(shots), 2 * len(shots))
    return sorted(set(found), key=lambda each: (each.row, KINDS.index(each.kind), each.about))


def _find_shape_jumps(truth: MinedTruth, rows: Rows) -> list[LabelIssue]:
    """Jumps of the artists' own points, which show more than those of the fitted splines."""
    found = []
    for plan in truth.plans:
        shape = plan.shape
        inside = np.flatnonzero(np.isin(shape.rows, rows))
        for group in np.unique(shape.groups[inside]):
            own = inside[shape.groups[inside] == group]
            if len(own) < 3:
                continue
            points = np.stack([shape.raw[at][:, :2] for at in own])
            places = _in_faces(truth, points, shape.rows[own])
            frames = [truth.rows[row].frame for row in shape.rows[own]]
            names = [f"point {k}" for k in range(points.shape[1])]
            found += find_jumped(shape.name, names, places, shape.rows[own], frames)
    return found


def _check_timing(
    truth: MinedTruth, thumbs: Mapping[int, Thumb], rows: Rows, frames: Sequence[int], known: Set[int]
) -> list[LabelIssue]:
    """Roto that is held or shifted relative to its plate; frames next to a known issue are no evidence of a hold."""
    motion = np.full(len(rows), np.nan)
    change = np.full(len(rows), np.nan)
    curves = [truth.curves(int(row)) for row in rows]
    for at in range(1, len(rows)):
        if frames[at] != frames[at - 1] + 1:
            continue
        shared = [name for name in curves[at] if name in curves[at - 1]]
        if shared:
            steps = [np.linalg.norm(curves[at][name] - curves[at - 1][name], axis=1).mean() for name in shared]
            motion[at] = float(np.mean(steps))
        if rows[at] in thumbs and rows[at - 1] in thumbs:
            change[at] = float(np.abs(thumbs[int(rows[at])] - thumbs[int(rows[at - 1])]).mean())
    found = _find_late(truth, rows)
    lag = find_lag(motion, change)
    if lag:
        frames_text = "1 frame" if abs(lag) == 1 else f"{abs(lag)} frames"
        text = f"whole shot: the roto's motion is {frames_text} {'late' if lag > 0 else 'early'}"
        found.append(LabelIssue(int(rows[0]), "shifted", "roto", text))
    if found:
        return found
    held = find_held(rows, frames, motion, change)
    return [each for each in held if not {each.row, each.row - 1} & known]


def _find_late(truth: MinedTruth, rows: Rows) -> list[LabelIssue]:
    """Shapes of a shot that are a frame late or early relative to the landmarks on them."""
    found = []
    for plan in truth.plans:
        on = [truth.names.index(name) for name in plan.on_landmarks.values() if name in truth.names]
        given = [k for k in on if any(truth.names[k] in truth.rows[row].truth.landmarks for row in rows)]
        inside = np.flatnonzero(np.isin(plan.shape.rows, rows))
        if len(given) < 2:
            continue
        own = plan.shape.rows[inside]
        numbers = [truth.rows[row].frame for row in own]
        curves = plan.shape.curves.samples_FMC[inside, ::8]
        late = find_lag_to_landmarks(curves, truth.marks[own][:, given, :2], numbers)
        if late:
            text = f"whole shot: {abs(late)} frame {'late' if late > 0 else 'early'} relative to its landmarks"
            found.append(LabelIssue(int(own[0]), "shifted", plan.shape.name, text))
    return found


def _in_faces(truth: MinedTruth, points: Array, rows: Rows) -> Array:
    """Plate points in face units without alignment, because a wrong alignment could hide a jump."""
    return np.asarray(points / float(np.median(truth.faces.side_px[rows])))
