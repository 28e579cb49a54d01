"""A run's records as one document: landmarks and shapes of all frames, stored as arrays until they are used."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isnan, nan
from typing import Generic, TypeVar

from rotopaint_ai.pipeline.plan import Plan
from rotopaint_ai.pipeline.record_store import FrameRecord
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape, StrokeWidth

SHARE = 0.9  # quantile of the frames whose seam one width must cover


def build_document(records: Iterable[FrameRecord], plan: Plan) -> RotoDocument:
    """Landmarks and shapes of all frames whose face was found, reduced where the job asks for it.

    A seam has one width for the whole shot; in frames where it was painted with another width, its keys have that
    width. A shape is hidden in frames where the face was lost.
    """
    names = [spec.name for spec in plan.pack.sheet.shapes]
    landmarks, keys = PackedLandmarks(), {name: PackedKeys() for name in names}
    widths: dict[str, dict[int, float]] = {name: {} for name in names}
    hidden: dict[str, set[int]] = {name: set() for name in names}
    for record in records:
        for name in names if record.status == "lost" else record.hidden:
            hidden[name].add(record.frame)
        if not record.shapes:
            continue
        landmarks.put(record.frame, record.landmarks or ())
        for name, rows in record.shapes.items():
            keys[name].put(record.frame, rows, is_carried=name in record.carried)
            if name in record.widths:
                widths[name][record.frame] = record.widths[name]
    usual = {name: usual_width(list(each.values())) if each else None for name, each in widths.items()}
    for spec in plan.pack.sheet.shapes:
        for frame, width in widths[spec.name].items():
            if width != usual[spec.name] and not spec.closed:
                keys[spec.name].widen(frame, width / 2, spec.feather_px)
    return RotoDocument(
        width=plan.plate.width,
        height=plan.plate.height,
        first_frame=min([*plan.frames, *plan.missing]),
        last_frame=max([*plan.frames, *plan.missing]),
        pixel_aspect=plan.plate.pixel_aspect,
        fps=plan.plate.fps,
        landmarks=LandmarkKeys(plan.pack.sheet.landmark_names, landmarks),
        shapes=tuple(
            RotoShape(
                name=spec.name,
                closed=spec.closed,
                role=spec.role,
                keys=keys[spec.name],
                width_px=usual[spec.name] if not spec.closed else None,
                feather_px=spec.feather_px,
                taper=spec.taper,
                visible=dict.fromkeys(sorted(hidden[spec.name]), False),
            )
            for spec in plan.pack.sheet.shapes
        ),
    )


def usual_width(widths: Sequence[float]) -> float:
    """The 90 % quantile of some widths."""
    return round(value_at_share(widths, SHARE), 3)


def value_at_share(widths: Sequence[float], share: float) -> float:
    """The width at a share, 0 to 1, of the sorted widths, in their own unit; not interpolated."""
    return sorted(widths)[min(len(widths) - 1, int(share * len(widths)))]


def n_keys(document: RotoDocument) -> int:
    """The number of keys of all shapes."""
    return sum(len(shape.keys) for shape in document.shapes)


V = TypeVar("V")
Row = Sequence[float]
_UNSEEN = (nan, nan, nan)


class PackedValues(Mapping[int, V], Generic[V]):
    """Values by frame, in ascending order; each is built from an array when it is used."""

    def __init__(self, make: Callable[[list[float]], V]) -> None:
        self._make = make
        self._numbers = array("d")
        self._ends = array("q", [0])  # where the numbers of each row end, after the first
        self._row: dict[int, int] = {}
        self._last: tuple[int, V] | None = None

    def add(self, frame: int, numbers: Sequence[float]) -> None:
        """Store the numbers of a frame; numbers equal to the previous call's share its row."""
        added = array("d", numbers)
        if len(self._ends) < 2 or added != self._numbers[self._ends[-2] :]:  # one with NaN equals none
            self._numbers.extend(added)
            self._ends.append(len(self._numbers))
        self._row[frame] = len(self._ends) - 2

    def __getitem__(self, frame: int) -> V:
        row = self._row[frame]
        last = self._last
        if last is None or last[0] != row:
            last = row, self._make(self._numbers[self._ends[row] : self._ends[row + 1]].tolist())
            self._last = last
        return last[1]

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._row))

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, frame: object) -> bool:
        return frame in self._row


class PackedKeys(PackedValues[Key]):
    """A shape's keys as rows of six numbers, followed by half a width and a feather where a key has its own."""

    def __init__(self) -> None:
        super().__init__(_key_of_numbers)
        self._carried: set[int] = set()

    def put(self, frame: int, rows: Sequence[Row], *, is_carried: bool = False) -> None:
        """Store the key of a frame, marked if a correction of another frame was carried over to it."""
        self.add(frame, [number for row in rows for number in row])
        if is_carried:
            self._carried.add(frame)

    def __getitem__(self, frame: int) -> Key:
        key = super().__getitem__(frame)
        return replace(key, source="propagated") if frame in self._carried else key

    def widen(self, frame: int, half_px: float, feather_px: float) -> None:
        """Set the width of a frame's key."""
        rows = [number for point in self[frame].points for number in point]
        self.add(frame, [*rows, half_px, feather_px])


class PackedLandmarks(PackedValues[tuple[Landmark | None, ...]]):
    """Landmarks as rows of three numbers; None for a hidden one."""

    def __init__(self) -> None:
        super().__init__(_landmark_row_of)

    def put(self, frame: int, rows: Sequence[Row | None]) -> None:
        """Store the landmarks of a frame; None is a landmark that was not found."""
        self.add(frame, [number for row in rows for number in (Landmark(*row) if row else _UNSEEN)])


def _key_of_numbers(numbers: list[float]) -> Key:
    n_points = len(numbers) // 6
    half_and_feather = numbers[6 * n_points :]
    widths = (StrokeWidth(half_and_feather[0], *half_and_feather),) * n_points if half_and_feather else ()
    return Key(tuple(ControlPoint(*numbers[at : at + 6]) for at in range(0, 6 * n_points, 6)), widths=widths)


def _landmark_row_of(numbers: list[float]) -> tuple[Landmark | None, ...]:
    rows = (numbers[at : at + 3] for at in range(0, len(numbers), 3))
    return tuple(None if isnan(row[0]) else Landmark(*row) for row in rows)
