"""Clone strokes: manual touch-up of the painted seam, stored as strokes and never as pixels.

Standard library only, so that the project file can store them. Plate space, pixels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rotopaint_ai.errors import UsageError
from rotopaint_ai.files import file_bytes

MOST_RADIUS_PX = 500.0
MOST_POINTS = 20_000
PLATE: Literal["plate"] = "plate"
CLEAN: Literal["clean"] = "clean"
StrokeSource = int | Literal["plate", "clean"] | None


@dataclass(frozen=True, slots=True)
class Stroke:
    """The path of a soft round brush along `points` (x, y) that copies pixels from an offset of (dx, dy).

    Offsets are whole pixels, so that grain is copied unchanged. The brush is opaque inside `hardness` of the radius and
    fades out up to the radius. `source` is the picture that is copied. None: the frame as painted so far. A number: the
    plate of that frame. `plate` and `clean`: this frame's plate, or its clean plate without strokes.
    """

    points: tuple[tuple[float, float], ...]
    dx: int
    dy: int
    radius_px: float = 8.0
    hardness: float = 0.5
    opacity: float = 1.0
    source: StrokeSource = None

    def __post_init__(self) -> None:
        numbers = [value for point in self.points for value in point]
        if not 1 <= len(self.points) <= MOST_POINTS or not all(map(math.isfinite, numbers)):
            raise UsageError(f"clone stroke: {len(self.points)} points; wanted 1 to {MOST_POINTS:,} places")
        if not 0 < self.radius_px <= MOST_RADIUS_PX:
            raise UsageError(
                f"clone stroke: radius {self.radius_px:g} px; wanted 0 to {MOST_RADIUS_PX:g}, not 0 itself"
            )
        if not (0 <= self.hardness <= 1 and 0 <= self.opacity <= 1):
            raise UsageError("clone stroke: hardness and opacity are shares from 0 to 1")
        if self.source not in (None, PLATE, CLEAN) and type(self.source) is not int:
            raise UsageError(f"clone stroke: source is {self.source!r}; wanted a frame, plate, clean or null")


Strokes = tuple[Stroke, ...]


def to_json(stroke: Stroke) -> dict[str, Any]:
    """A stroke as JSON values."""
    return asdict(stroke)


def from_json(value: Any) -> Stroke:
    """Check a decoded stroke. Raises UsageError in one line."""
    try:
        points = tuple((float(x), float(y)) for x, y in value["points"])
        shares = {name: float(value[name]) for name in ("radius_px", "hardness", "opacity") if name in value}
        return Stroke(points, int(value["dx"]), int(value["dy"]), **shares, source=value.get("source"))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"clone stroke: wanted points, dx and dy ({error!r})") from error


def dumps(strokes: Mapping[int, Strokes]) -> str:
    """Strokes by frame as text."""
    rows = {str(frame): [to_json(stroke) for stroke in row] for frame, row in sorted(strokes.items())}
    return json.dumps(rows, allow_nan=False) + "\n"


def read(path: Path) -> dict[int, Strokes]:
    """Strokes by frame from a file that `dumps` wrote. Raises UsageError naming the file."""
    try:
        value = json.loads(file_bytes(path))
        return {int(frame): tuple(map(from_json, rows)) for frame, rows in value.items()}
    except OSError as error:
        raise UsageError(f"--touchup {path}: cannot be read ({error.strerror}); check the path") from error
    except (ValueError, AttributeError, TypeError, UsageError) as error:
        raise UsageError(f"--touchup {path}: cannot be read ({error}); wanted strokes by frame") from error
