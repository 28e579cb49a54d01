"""The widths of a shot's seams, for painting and for the document.

A pack that was trained on the character predicts its seams' widths. Other packs give all seams a usual width; each seam
is then measured on the plates where it is visible (`seams/groove_width.py`), in up to MOST_HOLDS holds. Seams that
mirror each other are cut alike and have the mean of both, because one on an outline is measured too wide, and one in
shadow too narrow. As a seam is cut once, its matte has one width as a share of the face in the whole shot: the measured
width, plus DOUBT times the curve's expected error on each side.

Where a seam's width in pixels hardly changes between frames, the document has one for the whole shot; otherwise each
key has its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.crops import crop_around
from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.pipeline.head_solve import know_character, mirror_pairs
from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.process_frame import TrackedFrame
from rotopaint_ai.pipeline.record_store import FrameRecord, PointRow
from rotopaint_ai.pipeline.run_document import usual_width, value_at_share
from rotopaint_ai.pipeline.shot_seams import look_at, movable_seams
from rotopaint_ai.seams import groove_width
from rotopaint_ai.seams.matte import FLATNESS_PX
from rotopaint_ai.shapes import bezier

Array = NDArray[Any]

ALIKE = 1.25  # widths of which all but a tenth differ by no more than this many times are one width
MOST_HOLDS = 16
# Chosen on four training shots and six of the stage.
DOUBT = 0.6  # factor on the third quartile of the curves' expected errors
_OUTLIERS = 0.05  # at either end


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredWidths:
    """Settled frames with their seams' measured widths; can be iterated more than once.

    `shares`: the measured full widths, as shares of the face's size. `known_px`: widths that a project has for frames
    outside the run; they come before the measured ones.
    """

    records: Iterable[FrameRecord]
    shares: Mapping[str, float]
    known_px: Mapping[str, float]

    def __iter__(self) -> Iterator[FrameRecord]:
        for record in self.records:
            yield replace(record, widths={**record.widths, **self._own(record)}) if record.landmarks else record

    def _own(self, record: FrameRecord) -> dict[str, float]:
        face_px = _face_px(record.landmarks or ())
        found = {name: round(share * face_px, 3) for name, share in self.shares.items()}
        return {name: px for name, px in {**found, **self.known_px}.items() if name in record.widths}


def with_measured_widths(plan: Plan, records: Iterable[FrameRecord]) -> MeasuredWidths:
    """Settled frames with measured widths of the open seams that the pack's network may place; `records` is iterated
    twice."""
    names = [spec.name for spec in movable_seams(plan)]
    if not plan.has_whole_shot:
        return MeasuredWidths(records, {}, _known_widths(plan, names))
    frames = [record.frame for record in records if record.hold is None and record.landmarks] if names else []
    chosen = frozenset(evenly_spread(frames, MOST_HOLDS))
    holds = [record for record in records if record.frame in chosen] if chosen else []
    return MeasuredWidths(records, _measure_widths(plan, names, holds) if holds and not _is_known(holds) else {}, {})


def _known_widths(plan: Plan, names: Sequence[str]) -> dict[str, float]:
    shapes = plan.work.document.shapes if plan.work.document is not None else ()
    return {shape.name: shape.width_px for shape in shapes if shape.name in names and shape.width_px is not None}


def _is_known(holds: Sequence[FrameRecord]) -> bool:
    """Whether the pack was trained on the character."""
    marks = [record.landmarks or () for record in holds]
    errors = np.array([[np.nan if row is None else row[2] for row in each] for each in marks])
    return know_character(errors, np.array([_face_px(each) for each in marks]))


def _face_px(marks: Sequence[PointRow | None]) -> float:
    """Longest side of the box round a face's landmarks."""
    return crop_around(np.array([row[:2] for row in marks if row is not None]), margin=1.0).side


def _measure_widths(plan: Plan, names: Sequence[str], holds: Sequence[FrameRecord]) -> dict[str, float]:
    """Each seam's full matte width as a share of the face, from all places of the holds where it is visible; others are
    left out."""
    with ThreadPoolExecutor(plan.threads) as pool:
        looks = list(pool.map(partial(_seen_widths, plan, names), holds))
    places = {name: [look[name] for look in looks if name in look] for name in names}
    grooves = {name: float(np.median(np.concatenate(rows))) for name, rows in places.items() if rows}
    specs = [spec for spec in movable_seams(plan) if spec.name in grooves]
    for a, b, _ in mirror_pairs(specs, plan.pack.sheet):
        one, other = specs[a].name, specs[b].name
        grooves[one] = grooves[other] = float(np.sqrt(grooves[one] * grooves[other]))
    return {name: width + 2 * DOUBT * _usual_error(name, holds) for name, width in grooves.items()}


def _usual_error(name: str, holds: Sequence[FrameRecord]) -> float:
    """The 75 % quantile of a seam's expected errors, as a share of the face."""
    shares = [hold.errors.get(name, 0.0) / _face_px(hold.landmarks or ()) for hold in holds]
    return float(np.quantile(shares, 0.75))


def _seen_widths(plan: Plan, names: Sequence[str], hold: FrameRecord) -> dict[str, Array]:
    """Full widths at the places of each seam that is visible in a hold, as shares of the face."""
    seen = look_at(plan, hold)
    if seen is None:
        return {}
    own = plan.work.apply_overrides(hold.frame, TrackedFrame.of(hold), plan.pack.sheet)
    grey, face_px = seen.grey.astype(np.float32), _face_px(hold.landmarks or ())
    found = {}
    for name in names:
        line = bezier.flatten(bezier.as_array(own.shapes[name]), False, FLATNESS_PX)
        at = (line - (seen.x, seen.y)) * seen.scale
        full = None if name in own.hidden else groove_width.visible_widths(grey, at, face_px * seen.scale)
        if full is not None:
            found[name] = full / (face_px * seen.scale)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class ShotWidths:
    """Settled frames with the shot's widths, by the seam's name; can be iterated more than once."""

    records: Iterable[FrameRecord]
    of_shot: Mapping[str, float]

    def __iter__(self) -> Iterator[FrameRecord]:
        for record in self.records:
            own = {name: self.of_shot.get(name, width) for name, width in record.widths.items()}
            yield replace(record, widths=own) if own != record.widths else record


def with_shot_widths(records: Iterable[FrameRecord]) -> ShotWidths:
    """Settled frames whose seams have the shot's widths; `records` is iterated once to find them."""
    widths: dict[str, list[float]] = {}
    for record in records:
        for name, width_px in record.widths.items():
            widths.setdefault(name, []).append(width_px)
    return ShotWidths(records, {name: usual_width(each) for name, each in widths.items() if is_one_width(each)})


def is_one_width(widths: Sequence[float]) -> bool:
    """Whether a seam's widths over a shot differ so little that one width is enough."""
    return value_at_share(widths, 1.0 - _OUTLIERS) <= ALIKE * value_at_share(widths, _OUTLIERS)
