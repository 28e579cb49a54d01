"""How wide a run's seams are over the whole shot: as its document says it, so that mattes and paint are the document's.

A frame's width follows the face's size and how sure the curve is. Where it hardly changes, a seam has one width for the
whole shot; else each frame keeps its own, and the document holds them key by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rotopaint_ai.pipeline.record_store import FrameRecord

SHARE = 0.9  # of the frames that one width covers
ALIKE = 1.25  # widths of which all but a tenth differ by no more than this many times are one width
_OUTLIERS = 0.05  # at either end


@dataclass(frozen=True, slots=True, eq=False)
class ShotWidths:
    """Settled frames with the shot's widths, by the seam's name; they can be gone through again and again."""

    records: Iterable[FrameRecord]
    of_shot: Mapping[str, float]

    def __iter__(self) -> Iterator[FrameRecord]:
        for record in self.records:
            own = {name: self.of_shot.get(name, width) for name, width in record.widths.items()}
            yield replace(record, widths=own) if own != record.widths else record


def with_shot_widths(records: Iterable[FrameRecord]) -> ShotWidths:
    """Settled frames whose seams are as wide as the shot has them; `records` are gone through once for that."""
    widths: dict[str, list[float]] = {}
    for record in records:
        for name, width in record.widths.items():
            widths.setdefault(name, []).append(width)
    return ShotWidths(records, {name: usual_width(each) for name, each in widths.items() if is_one_width(each)})


def usual_width(widths: Sequence[float]) -> float:
    """The width that covers nine of ten frames."""
    return round(_ranked(widths, SHARE), 3)


def is_one_width(widths: Sequence[float]) -> bool:
    """Whether a seam's widths in the frames of a shot differ so little that one will do."""
    return _ranked(widths, 1.0 - _OUTLIERS) <= ALIKE * _ranked(widths, _OUTLIERS)


def _ranked(widths: Sequence[float], share: float) -> float:
    return sorted(widths)[min(len(widths) - 1, int(share * len(widths)))]
