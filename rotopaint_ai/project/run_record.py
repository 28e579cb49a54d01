"""A run's figures per frame, for the timeline and the inspector: from `run.json`, or from events while it runs."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from rotopaint_ai.errors import DocumentError, ProjectError
from rotopaint_ai.files import file_bytes

FORMAT = "rotopaint-run"
MOST_FRAME = 1_000_000_000  # on both sides of 0; a timeline computes with these as floats
_WRONG = (ArithmeticError, ValueError, LookupError, TypeError, AttributeError, RecursionError)  # raised by wrong values
Spans = tuple[tuple[int, int], ...]
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The figures of a run per frame, and its holds as spans of frames.

    Per frame: the expected error of each shape in pixels, whether the face was lost or the frame failed, the seam
    visibility, and for a seam its least visible third, where one third stands out."""

    errors: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    lost: frozenset[int] = frozenset()
    failed: Mapping[int, str] = field(default_factory=dict)
    held: Spans = ()
    seam: Mapping[int, tuple[float | None, float | None]] = field(default_factory=dict)
    device: str = ""
    ms_per_frame: float | None = None
    unseen: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def error_at(self, frame: int, shape: str | None = None) -> float | None:
        """The expected error at a frame, of one shape or the largest; infinite where lost, None where unknown."""
        if frame in self.lost or frame in self.failed:
            return float("inf")
        errors = self.errors.get(frame)
        if not errors:
            return None
        return errors.get(shape) if shape is not None else max(errors.values())

    def errors_by_shape(self) -> dict[str, dict[int, float]]:
        """Expected errors in pixels by shape and frame."""
        table: dict[str, dict[int, float]] = {}
        for frame, row in self.errors.items():
            for name, error in row.items():
                table.setdefault(name, {})[frame] = float(error)
        return table

    def with_errors(self, changed: Mapping[str, Mapping[int, float]]) -> RunRecord:
        """The record with new expected errors for some shapes and frames."""
        rows = {frame: dict(row) for frame, row in self.errors.items()}
        unseen = {frame: dict(row) for frame, row in self.unseen.items()}
        for name, by_frame in changed.items():
            for frame, error in by_frame.items():
                rows.setdefault(frame, {})[name] = error
                unseen.get(frame, {}).pop(name, None)  # it described the old place of the curve
        return replace(self, errors=rows, unseen=unseen)

    def error_left(
        self, frame: int, keyed: Mapping[str, frozenset[int]], among: Collection[str] | None = None
    ) -> float | None:
        """The largest expected error at a frame, of the shapes that have no human key in the frame's hold.

        `keyed`: for every shape the frames where a person has keyed it. `among`: the shapes that count; None: all.
        Infinite where the face was lost and a shape is left; None where no shape is left or no error is known.
        """
        if among is not None:
            keyed = {name: frames for name, frames in keyed.items() if name in among}
        first, last = self.hold_of(frame)
        by_hand = {name for name, at in keyed.items() if any(first <= each <= last for each in at)}
        if frame in self.lost or frame in self.failed:
            return None if by_hand and len(by_hand) == len(keyed) else float("inf")
        errors = self.errors.get(frame, {}).items()
        left = [error for name, error in errors if name not in by_hand and (among is None or name in among)]
        return max(left, default=None)

    def hold_of(self, frame: int) -> tuple[int, int]:
        """First and last frame of the hold that a frame belongs to; the frame itself where it is in no hold."""
        for first, last in self.held:
            if first <= frame <= last:
                return first, last
        return frame, frame

    def worst(
        self,
        frames: Iterable[int],
        *,
        settled: frozenset[int] = frozenset(),
        keyed: Mapping[str, frozenset[int]] = MappingProxyType({}),
        among: Collection[str] | None = None,
        novelty: Callable[[int], float] = lambda frame: 1.0,
    ) -> list[int]:
        """Frames by falling expected error, lost and failed frames first; of a hold the first frame only.

        `settled` frames, which a person has accepted, are left out. `keyed` and `among`: as in `error_left`. `novelty`:
        a weight above 0 for each hold's error. It is low where a similar pose was corrected before.
        """
        found: dict[int, float] = {}
        accepted = sorted(settled)
        for frame in frames:
            first, last = self.hold_of(frame)
            error = self.error_left(frame, keyed, among)
            if error is not None and not _any_within(accepted, first, last):
                found[first] = max(error, found.get(first, 0.0))
        weighed = {frame: error * novelty(frame) for frame, error in found.items()}
        return sorted(weighed, key=lambda frame: (-weighed[frame], frame))

    def joined(self, before: RunRecord, frames: Collection[int]) -> RunRecord:
        """This record for `frames`, and an earlier record for all other frames."""

        def others(old: Mapping[int, V], new: Mapping[int, V]) -> dict[int, V]:
            return dict(sorted({**{f: value for f, value in old.items() if f not in frames}, **new}.items()))

        return replace(
            self,
            errors=others(before.errors, self.errors),
            lost=frozenset(frame for frame in before.lost if frame not in frames) | self.lost,
            failed=others(before.failed, self.failed),
            held=_joined_spans(before.held, self.held, frames),
            seam=others(before.seam, self.seam),
            unseen=others(before.unseen, self.unseen),
        )

    def with_seam(self, frame: int, before: float, after: float) -> RunRecord:
        """The record with a frame's new seam visibility, before and after painting."""
        return replace(self, seam={**self.seam, frame: (before, after)})

    def with_frame(self, facts: Mapping[str, Any]) -> RunRecord:
        """The record after one `frame` event."""
        frame, status = int(facts["frame"]), facts.get("status", "done")
        lost = self.lost - {frame} | ({frame} if status == "lost" else frozenset())
        failed = {number: text for number, text in self.failed.items() if number != frame}
        if status == "failed":
            failed[frame] = str(facts.get("message") or "failed")
        errors = {**self.errors, frame: dict(facts.get("expected_error_px") or {})}
        unseen = {**self.unseen, frame: dict(facts.get("unseen") or {})}
        return replace(self, lost=lost, failed=failed, errors=errors, unseen=unseen)


def _joined_spans(old: Spans, new: Spans, frames: Collection[int]) -> Spans:
    """The new holds, and the earlier holds that contain none of these frames."""
    done = sorted(frames)
    kept = (span for span in old if not _any_within(done, *span))
    return tuple(sorted({*kept, *new}))


def _any_within(ordered: Sequence[int], first: int, last: int) -> bool:
    """Whether one of the ascending numbers lies in a span; the time does not depend on the span's length."""
    at = bisect_left(ordered, first)
    return at < len(ordered) and ordered[at] <= last


def read(path: Path) -> RunRecord:
    """Read a `run.json`. Raises DocumentError for any other file."""
    try:
        run = json.loads(file_bytes(path))
        if run["format"] != FORMAT:
            raise ValueError(f"format is {run['format']!r}")
        return _record_from_json(run)
    except (OSError, *_WRONG) as error:
        raise DocumentError(f"{path.name}: is not a record of a run ({error}); press Run again") from error


def _record_from_json(run: Mapping[str, Any]) -> RunRecord:
    frames, names = run["frames"], run["errors"]["shapes"]
    errors = {
        _frame(frame): {str(name): _finite(value) for name, value in zip(names, values) if value is not None}
        for frame, values in run["errors"]["by_frame"].items()
        if values is not None
    }
    seam = {
        _frame(frame): (_known_number(pair[0]), _known_number(pair[1]))
        for frame, pair in (run.get("seam") or {}).get("by_frame", {}).items()
    }
    device = run["device"]
    return RunRecord(
        errors=errors,
        lost=frozenset(_frame(frame) for frame in frames["lost"]),
        failed={_frame(frame): str(text) for frame, text in frames["failed"].items()},
        held=tuple((_frame(first), _frame(last)) for first, last in frames["held"]),
        seam=seam,
        device=str(device.get("note") or device.get("used") or ""),
        ms_per_frame=_finite(run["timing"]["ms_per_frame"]),
        unseen=_unseen(run["errors"].get("unseen", {})),
    )


def _frame(value: Any) -> int:
    number = int(value)
    if abs(number) > MOST_FRAME:
        raise ValueError(f"frame {str(number)[:20]} lies beyond {MOST_FRAME}")
    return number


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a valid figure of a run")
    return number


def _known_number(value: Any) -> float | None:
    return None if value is None else _finite(value)


def to_json(run: RunRecord) -> dict[str, Any]:
    """A record as JSON values, for the project file."""
    return {
        "errors": {str(frame): dict(errors) for frame, errors in run.errors.items()},
        "lost": sorted(run.lost),
        "failed": {str(frame): text for frame, text in run.failed.items()},
        "held": [list(span) for span in run.held],
        "seam": {str(frame): list(pair) for frame, pair in run.seam.items()},
        "device": run.device,
        "ms_per_frame": run.ms_per_frame,
        "unseen": {str(frame): dict(row) for frame, row in run.unseen.items() if row},
    }


def from_json(value: Mapping[str, Any]) -> RunRecord:
    """The record from the values of `to_json`. Raises ProjectError where the values are wrong."""
    try:
        return RunRecord(
            errors={_frame(frame): _errors(errors) for frame, errors in value["errors"].items()},
            lost=frozenset(_frame(frame) for frame in value["lost"]),
            failed={_frame(frame): str(text) for frame, text in value["failed"].items()},
            held=tuple((_frame(first), _frame(last)) for first, last in value["held"]),
            seam={
                _frame(frame): (_known_number(before), _known_number(after))
                for frame, (before, after) in value["seam"].items()
            },
            device=str(value["device"]),
            ms_per_frame=_known_number(value["ms_per_frame"]),
            unseen=_unseen(value.get("unseen", {})),
        )
    except _WRONG as error:
        raise ProjectError(f"the project's record of its run cannot be read ({error}); restore the project") from error


def _unseen(rows: Mapping[str, Any]) -> dict[int, dict[str, str]]:
    return {_frame(frame): {str(name): str(third) for name, third in row.items()} for frame, row in rows.items()}


def _errors(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: _finite(error) for name, error in row.items()}
