"""How each seam is to be painted away: method, grain and strength, for all seams or for each by name."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rotopaint_ai import fills
from rotopaint_ai.errors import UsageError

_FIELDS = ("method", "grain", "strength")


@dataclass(frozen=True, slots=True)
class Paint:
    """One seam's paint: method, the share of grain that stays (0 smooth), and how much of the paint shows."""

    method: str = fills.DEFAULT
    grain: float = 1.0
    strength: float = 1.0


@dataclass(frozen=True, slots=True)
class Paints:
    """The paint of every seam: `by_name` where it is set, else `every`."""

    every: Paint = Paint()
    by_name: Mapping[str, Paint] = field(default_factory=dict)

    def of(self, seam: str) -> Paint:
        """A seam's paint."""
        return self.by_name.get(seam, self.every)

    def methods(self, seams: Iterable[str]) -> set[str]:
        """The methods that these seams want."""
        return {self.of(seam).method for seam in seams}


AUTO = Paints()


def read_settings(path: Path, every: Paint) -> Paints:
    """Settings from a JSON file, `{"<seam>": {"method": ..., "grain": 0..1, "strength": 0..1}, ...}`.

    What a seam does not say is as in `every`. Raises: UsageError naming the seam and the field.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"--settings {path}: cannot be read ({error}); wanted a JSON file") from error
    if not isinstance(value, dict):
        raise UsageError(f'--settings {path}: wanted an object such as {{"nose_seam": {{"grain": 0.5}}}}')
    return Paints(
        every, {name: _paint_of_row(f"--settings {path}: '{name}'", row, every) for name, row in value.items()}
    )


def _paint_of_row(where: str, row: Any, every: Paint) -> Paint:
    if not isinstance(row, dict):
        raise UsageError(f"{where}: wanted an object with {', '.join(_FIELDS)}")
    if unknown := sorted(set(row) - set(_FIELDS)):
        raise UsageError(f"{where}: unknown field '{unknown[0]}'; known are {', '.join(_FIELDS)}")
    method = row.get("method", every.method)
    if method not in fills.names():
        raise UsageError(f"{where}: method {method!r}; wanted one of {', '.join(fills.names())}")
    shares = [_share_of(where, name, row.get(name, getattr(every, name))) for name in ("grain", "strength")]
    return Paint(method, *shares)


def _share_of(where: str, name: str, value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
        or not 0 <= value <= 1
    ):
        raise UsageError(f"{where}: {name} is {value!r}; wanted a share from 0 to 1")
    return float(value)
