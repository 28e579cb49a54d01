"""Every shape of every frame on fixed control points, with landmarks; opens no picture."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np

from rotopaint_ai.errors import UsageError
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.revectorise.mean_face import Faces, mean_places
from rotopaint_ai.shapes.revectorise.mirror_partners import frontalise
from rotopaint_ai.shapes.revectorise.raw_curves import Array, Rows
from rotopaint_ai.sheet import ShapeSpec, Sheet, load_sheet
from rotopaint_ai.training.mining.join import JoinedFrame, JoinedTakes
from rotopaint_ai.training.mining.options import MineOptions
from rotopaint_ai.training.mining.plans import ShapePlan, drop_landmarks_beside, plan_by_sheet, plan_group
from rotopaint_ai.training.mining.sheet_proposal import (
    build_sheet,
    choose_own_landmarks,
    cover_bare_points,
    drop_plan_rows,
    keep_drawn,
    reference_rows,
    sheet_places_on,
)
from rotopaint_ai.training.mining.symmetric_groups import SymmetricGroup, align_shapes, collect_shapes, faces_of_frames
from rotopaint_ai.training.mining.takes import FrameTruth, Provenance
from rotopaint_ai.watch import StageProgress, ignore_progress, work_on_each


@dataclass(frozen=True, slots=True)
class MinedTruth:
    """The vectorised frames.

    `shots`: [F] shot number. `names`, `marks`: landmarks of the sheet, [F, L, 3] as x, y and 1 visible or 0 hidden, NaN
    unknown. `distances`: [F, 2] for each plan, see `spline_distances`.
    """

    rows: tuple[JoinedFrame, ...]
    shots: Rows
    names: tuple[str, ...]
    marks: Array
    faces: Faces
    plans: tuple[ShapePlan, ...]
    distances: tuple[Array, ...]
    sheet: Sheet

    def plans_at(self, row: int) -> list[tuple[ShapePlan, int]]:
        """The shapes of a frame, each with the frame's index among those of the shape."""
        found = []
        for plan in self.plans:
            at = int(np.searchsorted(plan.shape.rows, row))
            if at < len(plan.shape.rows) and plan.shape.rows[at] == row:
                found.append((plan, at))
        return found

    def curves(self, row: int) -> dict[str, Array]:
        """The fitted splines of a frame as points (N, 2) along them."""
        return {
            plan.shape.name: bezier.sample(plan.points_FP6[at], plan.shape.closed, per_segment=8)
            for plan, at in self.plans_at(row)
        }

    def extent(self, row: int) -> Array:
        """Points (N, 2) that a crop must contain.

        These are the landmarks; shapes too if there are fewer than three landmarks; and interpolated shapes if
        landmarks are the shapes' own control points.
        """
        points, truth = self.marks[row, :, :2], self.rows[row].truth
        points = points[np.isfinite(points[:, 0])]
        curves = list(self.curves(row).values()) if len(points) < 3 else []
        if not truth.landmarks:
            curves += [bezier.sample(each.points, each.closed, per_segment=8) for each in truth.context.values()]
        return np.concatenate([points, *curves])

    def given(self) -> list[int]:
        """Columns of the landmarks that a source provides, as opposed to control points."""
        return [at for at, name in enumerate(self.names) if any(name in row.truth.landmarks for row in self.rows)]


def vectorise(
    joined: JoinedTakes,
    options: MineOptions,
    *,
    progress: StageProgress = ignore_progress,
    workers: Executor | None = None,
) -> MinedTruth:
    """Every shape on fixed control points, with landmarks; opens no picture."""
    rows, names = joined.rows, list(joined.landmark_names)
    n_rows, sheet = len(rows), None if options.sheet is None else load_sheet(options.sheet)
    if options.sheet is not None:
        rows = (*rows, *reference_rows(options.sheet, rows[0].plate))
    faces, marks = faces_of_frames(rows, names)
    keys = [(row.character, row.shot) for row in rows]
    shots = np.unique([list(dict.fromkeys(keys)).index(key) for key in keys], return_inverse=True)[1].astype(np.intp)
    shapes = collect_shapes(rows, faces, shots)
    if sheet is not None:
        shapes = tuple(shape for shape in shapes if shape.name in sheet.shape_names)
    fixed = {} if sheet is None else {each.name: each.mirror or each.name for each in sheet.landmarks}
    fixed = {name: partner for name, partner in fixed.items() if name in names}
    aligned = align_shapes(shapes, names, marks, faces, fixed=fixed, progress=progress, workers=workers)
    longest_first = sorted(aligned, key=lambda group: -max(member.shape.most_points for member in group.members))
    wanted = [_GroupRequest(group, *_by_sheet(group, sheet, rows, n_rows)) for group in longest_first]
    plan_each = partial(_plan_group, tolerance_px=options.tolerance_px)
    by_group = work_on_each(plan_each, wanted, "fitting splines", progress, workers)
    planned = [plan for plans in by_group for plan in plans]
    if sheet is not None:
        specs = {spec.name: spec for spec in sheet.shapes}
        planned = [keep_drawn(plan, specs[plan.shape.name], rows, n_rows, faces, marks) for plan in planned]
    plans = [drop_plan_rows(plan, n_rows) for plan in planned if plan.shape.rows[0] < n_rows]
    rows, shots, marks, faces = rows[:n_rows], shots[:n_rows], marks[:n_rows], faces.part(slice(n_rows))
    plans.sort(key=lambda plan: [shape.name for shape in shapes].index(plan.shape.name))
    if sheet is None:
        if names:
            plans = [drop_landmarks_beside(plan, names, marks, faces) for plan in plans]
            plans = cover_bare_points(plans, mean_places(_in_face_space(marks, faces)), faces)
        else:
            plans = choose_own_landmarks(plans)
        names, marks = _add_point_landmarks(names, marks, plans, rows)
        title = options.name or "-".join(dict.fromkeys(row.character for row in rows))
        places = _in_face_space(marks, faces)
        mean = mean_places(places)
        sheet = build_sheet(title, plans, names, mean, frontalise(places, mean, names), faces)
    else:
        names, marks = _add_point_landmarks(names, marks, plans, rows)
        marks = _in_sheet_order(marks, names, sheet.landmark_names)
        names = list(sheet.landmark_names)
    distances = tuple(work_on_each(spline_distances, plans, "measuring residuals", progress, workers))
    return MinedTruth(rows, shots, tuple(names), marks, faces, tuple(plans), distances, sheet)


@dataclass(frozen=True, slots=True)
class _GroupRequest:
    """A group to plan, with the sheet's shape and the known point positions of each member."""

    group: SymmetricGroup
    specs: tuple[ShapeSpec, ...] = ()
    known: tuple[dict[int, float], ...] = ()


def _by_sheet(
    group: SymmetricGroup, sheet: Sheet | None, rows: Sequence[JoinedFrame], first: int
) -> tuple[tuple[ShapeSpec, ...], tuple[dict[int, float], ...]]:
    """The sheet's shapes and known point positions for a group; rows from `first` on are the sheet's own frames."""
    if sheet is None:
        return (), ()
    by_name = {spec.name: spec for spec in sheet.shapes}
    specs = tuple(by_name[member.shape.name] for member in group.members)
    for member, spec in zip(group.members, specs):
        if member.shape.closed != spec.closed:
            raise UsageError(
                f"shape '{spec.name}': {'closed' if member.shape.closed else 'open'} in the roto, "
                f"{'closed' if spec.closed else 'open'} in the sheet; rename it or correct the sheet"
            )
    specs = specs[:1] if group.own_mirror else specs
    known = (sheet_places_on(member, rows, spec.n_points, first) for member, spec in zip(group.members, specs))
    return specs, tuple(known)


def _plan_group(wanted: _GroupRequest, tolerance_px: float) -> list[ShapePlan]:
    if not wanted.specs:
        return plan_group(wanted.group, tolerance_px=tolerance_px)
    return [
        plan_by_sheet(wanted.group, at, spec, known) for at, (spec, known) in enumerate(zip(wanted.specs, wanted.known))
    ]


def _add_point_landmarks(
    names: Sequence[str], marks: Array, plans: Sequence[ShapePlan], rows: Sequence[JoinedFrame]
) -> tuple[list[str], Array]:
    """Add the landmarks that are control points and that no source provides."""
    names, columns = list(names), [_fill_landmarks(names, marks, plans, rows)]
    for plan in plans:
        for point, name in plan.on_landmarks.items():
            if name in names:
                continue
            column = np.full((len(marks), 1, 3), np.nan)
            column[plan.shape.rows, 0, :2] = plan.points_FP6[:, point, :2]
            column[plan.shape.rows, 0, 2] = 1.0
            names.append(name)
            columns.append(column)
    return names, np.concatenate(columns, axis=1)


def _fill_landmarks(
    names: Sequence[str], marks: Array, plans: Sequence[ShapePlan], rows: Sequence[JoinedFrame]
) -> Array:
    """Set landmarks from finished control points where only a model placed them, or where there are none."""
    out, nobody = marks.copy(), _without_landmarks(rows)
    for plan in plans:
        for point, name in plan.on_landmarks.items() if names else ():
            at = [
                place
                for place, row in enumerate(plan.shape.rows)
                if row in nobody or _is_accepted(rows[row].truth, name, plan.shape.name)
            ]
            if at and name in names:
                out[plan.shape.rows[at], names.index(name), :2] = plan.points_FP6[at, point, :2]
                out[plan.shape.rows[at], names.index(name), 2] = 1.0
    return out


def _without_landmarks(rows: Sequence[JoinedFrame]) -> set[int]:
    """Frames without landmarks, if only corrected projects provide landmarks."""
    marked = [row.truth for row in rows if row.truth.landmarks]
    if any(truth.provenance_of(name) == Provenance.FINAL for truth in marked for name in truth.landmarks):
        return set()
    return {at for at, row in enumerate(rows) if not row.truth.landmarks}


def _is_accepted(truth: FrameTruth, landmark: str, shape: str) -> bool:
    """Whether a landmark that a model placed and a person accepted lies on a finished shape, which is more reliable."""
    known = landmark in truth.landmarks and truth.provenance_of(landmark) == Provenance.ACCEPTED
    return known and truth.shapes[shape].provenance == Provenance.FINAL


def _in_sheet_order(marks: Array, names: Sequence[str], wanted: Sequence[str]) -> Array:
    out = np.full((len(marks), len(wanted), 3), np.nan)
    for at, name in enumerate(wanted):
        if name in names:
            out[:, at] = marks[:, names.index(name)]
    return out


def _in_face_space(marks: Array, faces: Faces) -> Array:
    """[F, L, 2] landmarks of all frames on the mean face."""
    return faces.to_face(marks[..., :2], np.arange(len(marks)))


def spline_distances(plan: ShapePlan) -> Array:
    """[F, 2] mean and largest distance in pixels between raw curves and their fitted splines, both directions."""
    pairs = zip(plan.shape.raw, plan.points_FP6)
    found = [bezier.curve_distance(own, new, plan.shape.closed) for own, new in pairs]
    return np.array(found, dtype=np.float64).reshape(-1, 2)
