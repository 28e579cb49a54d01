"""Paint settings of each seam: method, grain, strength and hold-out, for all seams or for each by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rotopaint_ai import fills
from rotopaint_ai.errors import UsageError
from rotopaint_ai.value_checks import check


@dataclass(frozen=True, slots=True)
class Paint:
    """One seam's paint: method, the share of its grain that remains (0: smooth), and the opacity of the paint.

    `hold_out`: what stands in front of the seam is held out of its paint.
    """

    method: str = fills.DEFAULT
    grain: float = 1.0
    strength: float = 1.0
    hold_out: bool = True


@dataclass(frozen=True, slots=True)
class PaintTable:
    """The paint of every seam: `by_name` where it is set, else `every`."""

    every: Paint = Paint()
    by_name: Mapping[str, Paint] = field(default_factory=dict)

    def of(self, seam: str) -> Paint:
        """A seam's paint."""
        return self.by_name.get(seam, self.every)


AUTO = PaintTable()


@dataclass(frozen=True, slots=True)
class PaintRow:
    """A seam's row in a settings file; absent fields are None."""

    method: str | None = None
    grain: float | None = None
    strength: float | None = None
    hold_out: bool | None = None


def read_settings(path: Path, every: Paint) -> PaintTable:
    """Settings from a JSON file: `{"<seam>": {"method": ..., "grain": 0..1, "strength": 0..1, "hold_out": true}, ...}`.

    Absent fields take the values of `every`. Raises: UsageError naming the seam and the field.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"--settings {path}: cannot be read ({error}); wanted a JSON file") from error
    try:
        rows = check(value, dict[str, object], error=UsageError)
        return PaintTable(every, {name: _paint_of(name, row, every) for name, row in rows.items()})
    except UsageError as error:
        raise UsageError(f"--settings {path}: {error}") from error


def _paint_of(name: str, content: object, every: Paint) -> Paint:
    row = check({name: content}, dict[str, PaintRow], error=UsageError)[name]
    if row.method is not None and fills.current(row.method) not in fills.names():
        raise UsageError(f"{name}: method is {row.method!r}; wanted one of {', '.join(fills.names())}")
    given = {part: value for part, value in asdict(row).items() if value is not None}
    for part, value in given.items():
        if part in ("grain", "strength") and not 0 <= value <= 1:
            raise UsageError(f"{name}: {part} is {value!r}; wanted a share from 0 to 1")
    return replace(every, **given)
