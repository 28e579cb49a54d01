"""A seam's ends by the whole shot: where a frame alone found them early or late, they come from the frames that agree.

A printed seam is as long in one frame as in any other, and its ends are points of one rigid head. Once every frame has
gone through, each end is solved from all holds of a stretch of the shot, each weighed by how sure the landmark model is
of it there, people's own keys more than most. A hold whose end lies far off is looked at again: the end moves along the
crease where the plate does not speak against it. Where it does, the frame keeps its end and is called as doubtful as
that is far off. What people keyed never moves.

H holds, L landmarks, K ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import around
from rotopaint_ai.frames import summarise
from rotopaint_ai.jobs import Cancel, Sink, notice
from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.process_frame import Settled
from rotopaint_ai.pipeline.record_store import FrameRecord
from rotopaint_ai.pipeline.shot_seams import look_at, movable_seams, stretches, with_placed
from rotopaint_ai.pipeline.track import DIGITS
from rotopaint_ai.seams.ends import with_ends
from rotopaint_ai.seams.placement import Placed, Seam
from rotopaint_ai.shapes.bezier import evaluate, segments
from rotopaint_ai.shapes.facespace import TOO_FEW, Complex, aligned
from rotopaint_ai.shapes.rigid_head import points_on_head
from rotopaint_ai.shapes.shot_solver import head_poses
from rotopaint_ai.sheet import ShapeSpec, Sheet

Array = npt.NDArray[Any]

AWAY = 0.08  # of the head's size: how far off the shot's an end lies that is looked at; chosen on shots of the stage
UNKNOWN = 0.5  # of the head's size: how far off an end is taken to be where its landmark is hidden
BY_HAND_PX = 3.0  # and a person's: one key may have left an end where the run had put it, two have not
OF_CURVE = 0.15  # of how far an end is off: how far off, in the mean, its curve is

Out = tuple[float, float]  # by how many pixels the first and the last end of a seam ought to lie further out


class _Ends(NamedTuple):
    """Of an exposure as found alone, and people's keys: landmarks off the seams (L,), their expected errors, the ends
    of all seams (K,), ways outwards there of length 1, how far off each may be; NaN where nothing is known."""

    frame: int
    points_L: Complex
    error_px_L: Array
    ends_K: Complex
    ways_K: Complex
    noise_px_K: Array


def with_shot_ends(plan: Plan, records: Iterable[FrameRecord], sink: Sink, cancel: Cancel) -> Iterator[FrameRecord]:
    """Tracked frames, ends of seams that lie far from where their shot has them moved there.

    `records` are gone through twice. Raises CancelledError.
    """
    specs = [spec for spec in movable_seams(plan) if {0, spec.n_points - 1} <= set(spec.on_landmarks)]
    wanted = _wanted_ends(plan, records, specs)
    anew, placed = _placed_anew(plan, records, wanted), dict[int, Mapping[str, Placed]]()
    moved: dict[str, list[int]] = {}
    for record in records:
        first = record.frame if record.hold is None else record.hold
        if not record.landmarks or first not in wanted:
            yield record
            continue
        while first not in placed:
            cancel.check()
            placed |= dict([next(anew)])
        own = plan.work.splines.get(record.frame, {})
        new = {name: each for name, each in placed[first].items() if name not in own}
        for name in new:
            moved.setdefault(name, []).append(record.frame)
        doubt = {name: max(map(abs, out)) * OF_CURVE for name, out in wanted[first].items() if name not in {*new, *own}}
        yield _with_placed(record, new, doubt, plan.pack.sheet)
    if moved:
        where = summarise(sorted({frame for frames in moved.values() for frame in frames}))
        sink(notice(f"{', '.join(sorted(moved))}: ends set by the other frames at {where}", is_warning=False))


# --- what each hold says ----------------------------------------------------------------------------------------------


def _wanted_ends(plan: Plan, records: Iterable[FrameRecord], specs: Sequence[ShapeSpec]) -> dict[int, dict[str, Out]]:
    """By first frame of a hold and seam how its ends ought to move."""
    holds = [_ends_of(record, plan, specs) for record in records if specs and record.hold is None and record.landmarks]
    holds = [hold for hold in holds if np.isfinite(hold.points_L).sum() >= TOO_FEW]
    wanted: dict[int, dict[str, Out]] = {}
    for stretch in stretches(sorted(holds, key=lambda each: each.frame)):
        wanted |= _far_off(stretch, specs)
    return wanted


def _ends_of(record: FrameRecord, plan: Plan, specs: Sequence[ShapeSpec]) -> _Ends:
    sheet = plan.pack.sheet
    settled = plan.work.respected(record.frame, Settled.of(record), sheet)
    rows = np.array([(np.nan,) * 3 if row is None else row for row in settled.landmarks], np.float64)
    off_seams = [name not in _names_on(specs) for name in sheet.landmark_names]
    ends, ways, noise = [], [], []
    for spec in specs:
        points = np.array(settled.shapes[spec.name], np.float64)
        errors = rows[[sheet.landmark_row(spec.on_landmarks[k]) for k in (0, spec.n_points - 1)], 2]
        is_by_hand = settled.errors.get(spec.name) == 0.0
        ends += [complex(*points[k, :2]) for k in (0, -1)]
        ways += _ways_out(points)
        noise += [BY_HAND_PX if is_by_hand else np.nan if spec.name in settled.hidden else error for error in errors]
    at = rows[off_seams, 0] + 1j * rows[off_seams, 1]
    return _Ends(record.frame, at, rows[off_seams, 2], np.array(ends), np.array(ways), np.array(noise))


def _names_on(specs: Iterable[ShapeSpec]) -> set[str]:
    return {name for spec in specs for name in spec.on_landmarks.values()}


def _ways_out(points: Array) -> list[complex]:
    """Directions of length 1 in which a spline would go on past its first and its last point."""
    inner = evaluate(segments(points, False), np.array([0.2, 0.8]))
    ways = [complex(*(points[0, :2] - inner[0, 0])), complex(*(points[-1, :2] - inner[-1, 1]))]
    return [way / max(abs(way), 1e-9) for way in ways]


# --- the shot ---------------------------------------------------------------------------------------------------------


def _far_off(holds: Sequence[_Ends], specs: Sequence[ShapeSpec]) -> dict[int, dict[str, Out]]:
    """By first frame of a hold and seam how its ends ought to move, where one lies far from the shot's."""
    points = np.array([each.points_L for each in holds])
    _, _, whole = aligned(points)
    error = np.array([each.error_px_L for each in holds])
    error = np.where(np.isfinite(error), error, 2 * np.nanmax(error))
    heads = head_poses(whole, np.array([each.frame for each in holds], np.float64))
    size = abs(heads.factor_H)[:, None]
    ends, ways, noise = (np.array([each[k] for each in holds]) for k in (3, 4, 5))
    on_head = points_on_head(heads, whole, error, ends, np.where(np.isfinite(noise), noise, UNKNOWN * size))
    out = ((on_head - ends) * ways.conj()).real
    out = np.where((abs(out) > AWAY * size) & np.isfinite(noise) & (noise > 0) & (noise != BY_HAND_PX), out, 0.0)
    return {
        each.frame: {
            spec.name: (float(row[2 * k]), float(row[2 * k + 1]))
            for k, spec in enumerate(specs)
            if row[2 * k : 2 * k + 2].any()
        }
        for each, row in zip(holds, out)
        if row.any()
    }


# --- frames -----------------------------------------------------------------------------------------------------------


def _placed_anew(
    plan: Plan, records: Iterable[FrameRecord], wanted: Mapping[int, Mapping[str, Out]]
) -> Iterator[tuple[int, Mapping[str, Placed]]]:
    """First frames of holds and their seams with ends moved; frames are looked at side by side, a few ahead."""
    ahead: deque[tuple[int, Future[Mapping[str, Placed]]]] = deque()
    with ThreadPoolExecutor(plan.threads) as pool:
        for record in records:
            if record.frame not in wanted:
                continue
            ahead.append((record.frame, pool.submit(_with_moved_ends, plan, record, wanted[record.frame])))
            if len(ahead) > plan.threads:
                frame, found = ahead.popleft()
                yield frame, found.result()
        for frame, found in ahead:
            yield frame, found.result()


def _with_moved_ends(plan: Plan, record: FrameRecord, outs: Mapping[str, Out]) -> dict[str, Placed]:
    """Seams of a frame with their ends moved, where the plate does not speak against it."""
    assert plan.models.find_seams is not None
    found, seen = Settled.of(record), look_at(plan, record)
    if seen is None:
        return {}
    marks = np.array([row[:2] for row in found.landmarks if row is not None], np.float64)
    face_px = around(marks, margin=1.0).side
    placed = {}
    for name, out in outs.items():
        seam = Seam(np.array(found.shapes[name], np.float64), found.widths.get(name, 0.0), found.errors[name])
        placed[name] = with_ends(seam, out, seen, face_px, plan.models.find_seams)
    return {name: each for name, each in placed.items() if each is not None}


def _with_placed(
    record: FrameRecord, placed: Mapping[str, Placed], doubt: Mapping[str, float], sheet: Sheet
) -> FrameRecord:
    """A frame with some seams placed anew, and others more doubtful."""
    now = with_placed(record, placed, sheet)
    doubt = {**doubt, **{name: each.expected_error_px for name, each in placed.items()}}
    return replace(
        now, errors={name: max(px, round(doubt.get(name, 0.0), DIGITS)) for name, px in record.errors.items()}
    )
