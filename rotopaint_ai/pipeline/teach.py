"""Teach: a shot's first corrections correct its seams in all other frames, by one head solved from all holds.

People's curves are exact and the run's curves are estimates. Marks on hair, ears and skin that several holds show
determine the head's pose in each hold (`head_solve.py`). A curve drawn once is then known in every hold. Two figures
measure the reliability of the head's curve: the solver's expected error, and the distance from people's curves. The
larger the distance to the present curve is relative to them, the further that moves towards the head's curve. Frames
whose curve stays far from it are reported as doubtful.
H holds, C seams, D numbers of a spline. Plate space, pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.crops import crop_around, is_settled
from rotopaint_ai.errors import UsageError
from rotopaint_ai.inference.models import Models
from rotopaint_ai.landmarks.detect import read
from rotopaint_ai.landmarks.shared_marks import FINE, SharedMarks, features, shared_marks
from rotopaint_ai.pipeline.executor import Progress, Steps
from rotopaint_ai.pipeline.head_solve import (
    TAUGHT,
    ShotObservations,
    SolvedHead,
    build_of,
    confirm_marks,
    know_character,
    mark_picture,
    names_off_seams,
    open_seams,
    solve_head,
)
from rotopaint_ai.pipeline.known_head import FEWEST, KnownHead, head_of_corrections
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import Plate
from rotopaint_ai.seams.placement import SeamLook, look
from rotopaint_ai.shapes.facespace import TOO_FEW, Complex, face_space
from rotopaint_ai.shapes.group_moves import apply_groups_to_keys, remove_groups
from rotopaint_ai.shapes.head_poses import HeadPoses, head_poses
from rotopaint_ai.shapes.refit import Errors, Keys, corrected_shapes, keys_from_splines, refit, splines_of
from rotopaint_ai.shapes.rigid_head import KnownCurve
from rotopaint_ai.shapes.roto import Key, RotoDocument, RotoShape
from rotopaint_ai.shapes.samples import open_curve_distance, spline_points
from rotopaint_ai.sheet import ShapeSpec

Array = NDArray[Any]

LEAST_NOISE_PX = 0.4  # smallest assumed standard deviation of an observed seam
LEAST_READ_PX = 0.5  # smallest assumed standard deviation of a predicted seam
# Chosen by the error of visible seams in uncorrected holds, and by the number that got worse, at 1 to 5 corrected holds
# of training shots of two puppets that the shipped pack never saw, and of shots of the stage.
UNSTEADY_PX = 0.6  # distance between a person's curve and the head's curve if both are right
UNDERRATED = 1.8  # factor on the solver's expected error, because its observations are not independent
STILL = 0.0005  # share of the face: a curve that would move less stays
DOUBTFUL = 0.005  # share of the face: a curve that stays this far from the head's needs a review
USELESS = 0.05  # share of the face: a head that is expected to be further off moves no curve
# Factor on the geometric mean of both curves' expected errors, which is the error of the head's curve when a change is
# judged: where the run expected to be far off, the picture shows little, and the head errs more, too. With one
# corrected hold; with n of them it is divided by the fourth root of n.
BELIEVED = 1.1
GUESSED = 0.0075  # share of the face: the run's expected error counts up to this; beyond, its curve is a guess
KNOWN = 2.0  # further factor if the models know the character, because most of their curves are right
_READS = 2


@dataclass(frozen=True, slots=True)
class TeachResult:
    """The result of Teach.

    New keys of frames without human keys, the expected error of each in pixels, and doubtful frames, where neither the
    models nor the head are reliable. `n_moved` keys differ from the models' own.
    """

    keys: Keys
    errors: Mapping[str, Mapping[int, float]]
    doubtful: Mapping[str, tuple[int, ...]]
    n_moved: int


@dataclass(frozen=True, slots=True, eq=False)
class ReadHold:
    """The models' prediction for a hold's first frame, and its picture."""

    points_L: Complex
    error_px_L: Array
    visible_L: Array
    splines: Mapping[str, Complex]
    width_px: Mapping[str, float]
    face_px: float
    look: SeamLook


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """A corrected seam: its specification, the predicted and the present shape, and the corrected frames.

    Also its observations in each hold (H, D), their standard deviations (H,), and which of them are exact (H,).
    """

    spec: ShapeSpec
    base: RotoShape
    shape: RotoShape
    hand: Sequence[int]
    splines_HD: Complex
    noise_px_H: Array
    exact_H: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ShotReading:
    """The models' predictions for every hold, their pictures, and shared marks; computed once for all Teach calls.

    `hold_of`: the hold of each frame.
    """

    models: Models
    holds: Sequence[ReadHold]
    hold_of: Mapping[int, int]
    heads: HeadPoses
    shared: SharedMarks


def read_shot(
    predicted: RotoDocument, plate: Plate, models: Models, *, progress: Progress = lambda done, total: None
) -> ShotReading:
    """Predict the holds of a shot in which a run found the face.

    `progress` counts holds predicted, searched on the head, and searched for marks. Raises: UsageError if the run found
    no face, PlateError for unreadable frames.
    """
    space = face_space(predicted.landmarks)
    if space is None:
        raise UsageError("the run found no face on this shot; run it again with a crop on the face")
    starts, hold_F = np.unique(space.time_F, return_inverse=True)
    steps = Steps(progress, len(starts) * (2 + len(TAUGHT.looks)))
    holds, found = [], []
    for start in steps.over(starts.tolist()):
        hold = _read_hold(plate, int(start), _guess(predicted, int(start)), models)
        holds.append(hold)
        found.append(features(mark_picture(hold.look, hold.face_px, FINE), FINE))
    points, face_px = np.array([hold.points_L for hold in holds]), np.array([hold.face_px for hold in holds])
    heads = head_poses(points)
    marks = shared_marks(found, points, heads.faces(points), face_px, FINE)
    reading = ShotReading(models, holds, dict(zip(space.frames, hold_F.tolist())), heads, marks)
    reading = replace(reading, shared=_marks_seen_again(reading, predicted, steps))
    steps.finish()
    return reading


def teach(
    reading: ShotReading, predicted: RotoDocument, document: RotoDocument, errors: Errors | None = None
) -> TeachResult:
    """Solve a shot's open seams from the frames that people corrected; other shapes are refitted.

    If no head fits the shot, seams stay, and all their frames are doubtful. `predicted`: the last run's predictions.
    Raises: UsageError if nothing was corrected.
    """
    below = remove_groups(predicted, document), remove_groups(document, document)
    found = teach_below(reading, *below, errors)
    return replace(found, keys=apply_groups_to_keys(found.keys, document))


def teach_below(
    reading: ShotReading, predicted: RotoDocument, document: RotoDocument, errors: Errors | None = None
) -> TeachResult:
    """As `teach`, on shapes with the transforms of people's groups removed."""
    keys = dict(refit(predicted, document, errors))
    if not keys:
        raise UsageError("no shape has a human key where the face was found; correct one such frame first")
    tasks = [task for task in _tasks(reading, predicted, document) if task.exact_H.any()]
    doubtful: dict[str, tuple[int, ...]] = {}
    sizes: dict[str, Mapping[int, float]] = {}
    head = _solved_on_head(reading, tasks, errors or {}) if tasks else {}
    for task in tasks:
        name = task.spec.name
        keys[name], doubtful[name], sizes[name] = _move_to_head(reading, task, head[name])
    return TeachResult(keys, sizes, doubtful, n_moved(keys, predicted))


def head_of_shot(
    reading: ShotReading, predicted: RotoDocument, document: RotoDocument, errors: Errors | None = None
) -> KnownHead:
    """The rigid head that a shot's corrections give, for the character's next shots.

    Seams that nobody corrected count as the run has them. The rest as in `teach`. Raises: UsageError if no seam was
    corrected, or if the shot does not show the head.
    """
    predicted, document = remove_groups(predicted, document), remove_groups(document, document)
    sheet, shapes = reading.models.pack.sheet, {shape.name: shape for shape in predicted.shapes}
    corrected = {task.spec.name: task for task in _tasks(reading, predicted, document) if task.exact_H.any()}
    specs, n_holds = open_seams(sheet), len(reading.holds)
    if n_holds < FEWEST:
        raise UsageError(f"the shot has {n_holds} poses; wanted {FEWEST} or more, to know the head in space")
    if not corrected:
        raise UsageError("no seam was corrected where the face was found; correct one pose, or more")
    if any(spec.name not in shapes or shapes[spec.name].n_points != spec.n_points for spec in specs):
        raise UsageError("the run has not all seams of the pack; run the shot with that pack, and correct it there")
    tasks = [corrected.get(spec.name) or _task_as_run(reading, spec, shapes[spec.name]) for spec in specs]
    curves = [_curve_of_task(reading, task, (errors or {}).get(task.spec.name, {})) for task in tasks]
    try:
        found = _head_of(reading, specs, curves)
    except np.linalg.LinAlgError:
        raise UsageError("no head fits the shot's seams; look its corrections over") from None
    return head_of_corrections(sheet, found)


def n_moved(keys: Keys, predicted: RotoDocument) -> int:
    """The number of keys that differ from the models' own."""
    before = {shape.name: shape.keys for shape in predicted.shapes}
    return sum(key != before[name].get(frame) for name, row in keys.items() for frame, key in row.items())


# --- predictions of each hold -----------------------------------------------------------------------------------------


def _guess(document: RotoDocument, frame: int) -> Array:
    return np.array([(mark.x, mark.y) for mark in document.landmarks.keys[frame] if mark is not None])


def _read_hold(plate: Plate, number: int, guess: Array, models: Models) -> ReadHold:
    """The models' prediction for a frame near known landmarks, and the picture of its face."""
    pack, frame = models.pack, plate.read(number, keep_native=False)
    crop = crop_around(guess, margin=pack.crop_margin)
    side = int(2 * crop.side)
    rgb, origin = frame.region(int(crop.x) - side // 2, int(crop.y) - side // 2, side, side)
    for _ in range(_READS):
        found = read(rgb, origin, [crop], detect=models.detect, size_px=pack.input_size, display=to_display)[0]
        wanted = crop_around(found.points_LC, margin=pack.crop_margin)
        if is_settled(crop, wanted):
            break
        crop = wanted
    points, width = models.predict_shapes(found.points_LC[None].astype(np.float32))
    rows = pack.sheet.point_rows()
    widths = np.full(len(rows), np.nan) if width is None else width[0]
    face = crop_around(found.points_LC, margin=1.0).side
    return ReadHold(
        found.points_LC @ np.array([1, 1j]),
        found.error_L,
        found.visible_L,
        {name: spline_points(points[0, span].astype(np.float64)) for name, span in rows.items()},
        {name: float(w) if np.isfinite(w) else 0.02 * face for name, w in zip(rows, widths)},
        face,
        look(rgb, *origin, crop, to_display, models.find_seams),
    )


def _tasks(reading: ShotReading, predicted: RotoDocument, document: RotoDocument) -> list[_Task]:
    """The open seams that people corrected."""
    specs = {spec.name: spec for spec in open_seams(reading.models.pack.sheet)}
    return [
        _seam_task(reading, specs[base.name], base, shape, hand)
        for base, shape, hand in corrected_shapes(predicted, document)
        if base.name in specs and base.n_points == specs[base.name].n_points
    ]


def _seam_task(reading: ShotReading, spec: ShapeSpec, base: RotoShape, shape: RotoShape, hand: list[int]) -> _Task:
    splines = np.array([hold.splines[spec.name] for hold in reading.holds])
    exact = np.zeros(len(reading.holds), bool)
    for frame in hand:
        if frame in reading.hold_of:
            row = reading.hold_of[frame]
            splines[row], exact[row] = splines_of(shape, [frame])[0], True
    marks = list(reading.models.pack.sheet.rows_of(spec))
    noise = np.array([max(float(hold.error_px_L[marks].mean()), LEAST_READ_PX) for hold in reading.holds])
    return _Task(spec, base, shape, hand, splines, noise, exact)


def _task_as_run(reading: ShotReading, spec: ShapeSpec, shape: RotoShape) -> _Task:
    """A seam that nobody corrected."""
    return _seam_task(reading, spec, shape, shape, [])


# --- the shot as a whole ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _OnHead:
    """A seam's curve on the head in each hold (H, D), its expected error there and that of the run's curve (H,),
    pixels."""

    splines_HD: Complex
    error_px_H: Array
    run_error_px_H: Array


def _solved_on_head(reading: ShotReading, tasks: Sequence[_Task], errors: Errors) -> Mapping[str, _OnHead]:
    """Corrected seams on the head solved from all holds, people's curves and shared marks; infinite errors if no head
    fits."""
    known = {task.spec.name: _curve_of_task(reading, task, errors.get(task.spec.name, {})) for task in tasks}
    specs = [spec for spec in open_seams(reading.models.pack.sheet) if spec.name in known]
    curves = [known[spec.name] for spec in specs]
    try:
        found = _head_of(reading, specs, curves)
        rows = zip(specs, curves, found.head.splines(), found.by_marks(), found.deviations_px().T)
    except np.linalg.LinAlgError:
        unknown = np.full(len(reading.holds), np.inf)
        return {task.spec.name: _OnHead(task.splines_HD, unknown, unknown) for task in tasks}
    return {
        spec.name: _OnHead(splines, UNDERRATED * np.hypot(off_H, _error_of_marks(each, by_marks)), each.noise_px_H)
        for spec, each, splines, by_marks, off_H in rows
    }


def _head_of(
    reading: ShotReading,
    specs: Sequence[ShapeSpec],
    curves: Sequence[KnownCurve],
    watched: Callable[[Iterable[Any]], Iterable[Any]] = iter,
) -> SolvedHead:
    """One head from seams and pictures; `watched` iterates over the pictures. Raises LinAlgError if none fits."""
    sheet, holds = reading.models.pack.sheet, reading.holds
    off = [sheet.landmark_row(name) for name in names_off_seams(specs, sheet)]
    if len(off) < TOO_FEW:
        raise np.linalg.LinAlgError("too few landmarks off the seams")
    points, error = (np.array(rows)[:, off] for rows in zip(*((hold.points_L, hold.error_px_L) for hold in holds)))
    face_px, hidden = np.array([hold.face_px for hold in holds]), np.zeros((len(holds), len(specs)), bool)
    shot = ShotObservations(head_poses(points), points, error, curves, face_px, hidden)
    build, evidence = build_of(specs, sheet, shot), reading.models.find_seams
    with ThreadPoolExecutor(1) as pool:
        return solve_head(shot, build, lambda hold: holds[hold].look, evidence, pool, watched, reading.shared)


def _marks_seen_again(reading: ShotReading, predicted: RotoDocument, steps: Steps) -> SharedMarks:
    """Shared marks in every hold, searched where the head (from the run's curves and the picture) predicts them."""
    if not reading.shared.count:
        return reading.shared
    shapes = {shape.name: shape for shape in predicted.shapes}
    specs = [s for s in open_seams(reading.models.pack.sheet) if s.name in shapes and shapes[s.name].keys]
    specs = [spec for spec in specs if shapes[spec.name].n_points == spec.n_points]
    tasks = [_task_as_run(reading, spec, shapes[spec.name]) for spec in specs]
    try:
        found = _head_of(reading, specs, [_curve_of_task(reading, task, {}) for task in tasks], steps.over)
    except np.linalg.LinAlgError:
        return reading.shared
    pictures = lambda hold: mark_picture(reading.holds[hold].look, reading.holds[hold].face_px, FINE)  # noqa: E731
    return confirm_marks(found, reading.shared, pictures, steps.over)


def _error_of_marks(known: KnownCurve, on_head: Complex) -> float:
    """The root mean square distance of the head's curves from people's, in pixels, less the unsteadiness of a hand."""
    pairs = zip(known.splines_HD[known.exact_H], on_head[known.exact_H])
    missed = np.sqrt(np.mean([open_curve_distance(drawn, found) ** 2 for drawn, found in pairs]))
    return max(float(missed) - UNSTEADY_PX, 0.0)


def _curve_of_task(reading: ShotReading, task: _Task, errors: Mapping[int, float]) -> KnownCurve:
    """Observations of a seam: the run's with expected errors, and people's corrections."""
    first = {row: frame for frame, row in sorted(reading.hold_of.items(), reverse=True)}
    frames = [first[row] for row in range(len(reading.holds))]
    noise = [errors.get(frame) or own for frame, own in zip(frames, task.noise_px_H.tolist())]  # 0: a human key
    models = splines_of(task.base, frames)
    return KnownCurve.of(
        np.where(task.exact_H[:, None], task.splines_HD, models), np.array(noise), task.exact_H, models
    )


def _move_to_head(
    reading: ShotReading, task: _Task, head: _OnHead
) -> tuple[dict[int, Key], tuple[int, ...], dict[int, float]]:
    """New keys of a seam's frames, the doubtful frames, and the expected error of each key."""
    error, face_px = (np.array(each) for each in zip(*((hold.error_px_L, hold.face_px) for hold in reading.holds)))
    believed = BELIEVED / np.count_nonzero(task.exact_H) ** 0.25
    believed *= KNOWN if know_character(error, face_px) else 1.0

    def decide(row: int, spline: Complex) -> _Decision:
        off = float(head.error_px_H[row])
        change = open_curve_distance(spline, head.splines_HD[row])
        if not np.isfinite(off):
            return spline, max(change, LEAST_NOISE_PX), True
        run_error = min(float(head.run_error_px_H[row]), GUESSED * float(face_px[row]))
        share = share_of_the_way(change, believed * np.sqrt(off * run_error))
        if off > USELESS * face_px[row] or share * change <= STILL * face_px[row]:
            share = 0.0
        left = (1 - share) * change
        moved = spline + share * (head.splines_HD[row] - spline)
        return moved, max(float(np.hypot(off, left)), LEAST_NOISE_PX), left > DOUBTFUL * float(face_px[row])

    return _decide_frames(reading, task, decide)


def share_of_the_way(change: float, off: float) -> float:
    """The share, 0 to 1, to move from a curve to a better known one `change` away with error `off`; pixels.

    The squared change is the sum of both squared errors; what exceeds `off` is the present curve's own error.
    Source: the positive-part estimator of James and Stein, after Efron and Morris (1973), for one distance.
    """
    return max(0.0, 1.0 - (off / change) ** 2) if change > 0 else 0.0


_Decision = tuple[Complex, float, bool]  # a curve, its expected error, and whether it needs a review


def _decide_frames(
    reading: ShotReading, task: _Task, decide: Callable[[int, Complex], _Decision]
) -> tuple[dict[int, Key], tuple[int, ...], dict[int, float]]:
    """Keys, doubtful frames and expected errors of a seam's predicted frames without human keys.

    `decide` gets a hold and its present curve. All frames of a corrected hold get the drawn curve.
    """
    hand = set(task.hand)
    frames = [frame for frame in sorted(task.base.keys) if frame in reading.hold_of and frame not in hand]
    splines = splines_of(task.base, frames)
    doubtful: list[int] = []
    sizes: dict[int, float] = {}
    for k, frame in enumerate(frames):
        row = reading.hold_of[frame]
        drawn = task.splines_HD[row], LEAST_NOISE_PX, False
        splines[k], sizes[frame], is_doubtful = drawn if task.exact_H[row] else decide(row, splines[k])
        if is_doubtful:
            doubtful.append(frame)
    return keys_from_splines(task.base, task.shape, frames, splines), tuple(doubtful), sizes


# --- parts ------------------------------------------------------------------------------------------------------------
