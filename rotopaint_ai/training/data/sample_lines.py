"""The lines of a data set's `samples.jsonl`: a picture and its truth each (`dataset` has the form)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.sheet import Sheet

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)


@dataclass(frozen=True, slots=True)
class ShapeTruth:
    """A shape's control points (P, 6) in the picture, and the seam's full width across where it is known."""

    points: Sequence[Sequence[float]]
    width_px: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of `samples.jsonl`: a picture and its truth. `pixel_scale`: picture pixels per plate pixel."""

    image: str
    width: int
    height: int
    character: str
    shot: str
    frame: int
    split: Split
    landmarks: Mapping[str, tuple[float, float, float]]
    shapes: Mapping[str, ShapeTruth] = field(default_factory=dict)
    face_box: tuple[float, float, float, float] | None = None
    pixel_scale: float = 1.0

    def line(self) -> str:
        """The sample as one line of JSON, coordinates rounded to a thousandth of a pixel."""
        shapes = {name: _shape_content(shape) for name, shape in self.shapes.items()}
        content = {
            **{name: getattr(self, name) for name in ("image", "width", "height", "character", "shot", "frame")},
            "split": self.split,
            "landmarks": {name: [round(v, 3) for v in point] for name, point in self.landmarks.items()},
            "shapes": shapes,
            "face_box": None if self.face_box is None else [round(v, 3) for v in self.face_box],
            "pixel_scale": self.pixel_scale,
        }
        return json.dumps(content, allow_nan=False)


def _shape_content(shape: ShapeTruth) -> dict[str, Any]:
    points = [[round(float(v), 3) for v in point] for point in shape.points]
    return {"points": points} if shape.width_px is None else {"points": points, "width_px": round(shape.width_px, 4)}


def parse_samples(text: str, where: str, sheet: Sheet) -> tuple[Sample, ...]:
    checker = _Checker(frozenset(sheet.landmark_names), {shape.name: shape.n_points for shape in sheet.shapes})
    samples = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            samples.append(checker.sample(json.loads(line)))
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            reason = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
            raise TrainingError(f"{where} line {number}: {reason}; mend the line or mine the data set again") from error
    if not samples:
        raise TrainingError(f"{where}: no samples; mine the data set again")
    return tuple(samples)


@dataclass(frozen=True, slots=True)
class _Checker:
    """Turns decoded lines into samples; raises ValueError, KeyError or TypeError saying what is wrong."""

    landmarks: frozenset[str]
    shapes: Mapping[str, int]

    def sample(self, content: Any) -> Sample:
        if not isinstance(content, dict):
            raise ValueError("wanted a JSON object")
        image = str(content["image"])
        if Path(image).is_absolute() or ".." in Path(image).parts:
            raise ValueError(f"image '{image}' lies outside the data set")
        if content["split"] not in SPLITS:
            raise ValueError(f"split is {content['split']!r}; wanted one of {', '.join(SPLITS)}")
        landmarks = {name: self._point(name, p) for name, p in content["landmarks"].items() if p is not None}
        if len(landmarks) < 2:
            raise ValueError(f"{len(landmarks)} landmarks known; wanted at least 2")
        box = content.get("face_box")
        return Sample(
            image=image,
            width=int(content["width"]),
            height=int(content["height"]),
            character=str(content.get("character", "")),
            shot=str(content.get("shot", "")),
            frame=int(content.get("frame", 0)),
            split=content["split"],
            landmarks=landmarks,
            shapes={name: self._shape(name, shape) for name, shape in (content.get("shapes") or {}).items() if shape},
            face_box=None if box is None else cast(Any, tuple(_numbers(box, 4, "face_box"))),
            pixel_scale=_numbers([content.get("pixel_scale", 1.0)], 1, "pixel_scale")[0],
        )

    def _point(self, name: str, point: Any) -> tuple[float, float, float]:
        if name not in self.landmarks:
            raise ValueError(f"landmark '{name}' is not in the sheet")
        x, y, visible = _numbers(point, 3, f"landmark '{name}'")
        return x, y, visible

    def _shape(self, name: str, shape: Any) -> ShapeTruth:
        if name not in self.shapes:
            raise ValueError(f"shape '{name}' is not in the sheet")
        points = shape["points"]
        if len(points) != self.shapes[name]:
            raise ValueError(f"shape '{name}' has {len(points)} points; the sheet says {self.shapes[name]}")
        width = shape.get("width_px")
        return ShapeTruth(
            tuple(tuple(_numbers(point, 6, f"shape '{name}'")) for point in points),
            None if width is None else _numbers([width], 1, f"shape '{name}' width_px")[0],
        )


def _numbers(values: Any, count: int, where: str) -> list[float]:
    if not isinstance(values, (list, tuple)) or len(values) != count:
        raise ValueError(f"{where}: wanted {count} numbers")
    numbers = [float(value) for value in values]
    if not all(math.isfinite(number) for number in numbers):
        raise ValueError(f"{where}: holds a number that is not finite")
    return numbers
