"""The published puppet data set ("A Learning-Based Approach to Parametric Rotoscoping of Multi-Shape Systems", 2021).

    shotN/image-shotN-frameNNN.png    raw_shapes-..., revec_shapes-...   artists' shapes; 43 points
    test/image-test-frameNNN.png      shapes-test-frameNNN.json          eyes and brows; 28 points in another order
    CG/image-CG-frameNNN.png (RGBA)   points-CG-frameNNN.json            45 points, (0, 0) where one is hidden

Points at the same place of the face have the same name in all three layouts, according to the data set's own reader.
Left and right are those of the picture. Needs numpy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.files import file_bytes
from rotopaint_ai.shapes import bezier

Array = npt.NDArray[np.float64]
_SEAMS: list[str | None] = ["left_seam_middle", "nose_seam_middle", "right_seam_middle"]
CG_FOLDER, TEST_FOLDER, _POINTS = "CG", "test", "points"
_FILE = re.compile(r"^(raw_shapes|revec_shapes|shapes|points)-(.+)-frame(\d+)\.json$")
_WITH_SHAPES = ("raw_shapes", "shapes")  # the artist's shapes; those that the authors derived from them are not mined
_WITH_POINTS = ("revec_shapes", "shapes", "points")


def _ring(name: str, order: Sequence[int]) -> list[str | None]:
    return [f"{name}_{at}" for at in order]


_EYES = [*_ring("left_eye", range(6)), *_ring("right_eye", range(6))]
_BROWS = [*_ring("left_eyebrow", range(8)), *_ring("right_eyebrow", range(8))]
_SIDEBURNS = [*_ring("left_sideburn", range(6)), *_ring("right_sideburn", range(6))]
SHOT: Final = (*_EYES, *_BROWS, *_SIDEBURNS, *_SEAMS)
# In the test frames the right half runs in the other direction, from the outer corner.
TEST: Final = (
    *_ring("left_eye", range(6)),
    *_ring("left_eyebrow", range(8)),
    *_ring("right_eye", (3, 2, 1, 0, 5, 4)),
    *_ring("right_eyebrow", (4, 3, 2, 1, 0, 7, 6, 5)),
)
# The outer seams end on the sideburns. The twelve points around the sideburns do not exist in the shots.
CG: Final = ("left_sideburn_3", *_SEAMS, "right_sideburn_0", *_EYES, *_BROWS, *[None] * 12)
LAYOUTS: Final[Mapping[int, tuple[str | None, ...]]] = {len(names): names for names in (SHOT, TEST, CG)}
NAMES: Final = tuple(name for name in SHOT if name is not None)


@dataclass(frozen=True, slots=True)
class PuppetFrame:
    """A frame's picture, the artist's shapes (control points (P, 6), and whether they are closed), landmarks by name.

    `is_cut_out`: the picture's alpha marks the face.
    """

    picture: Path
    shapes: Mapping[str, tuple[Array, bool]]
    landmarks: Mapping[str, tuple[float, float, float]]
    is_cut_out: bool


def puppet_frames(shot: Path) -> dict[int, PuppetFrame]:
    """The frames of a shot's folder, by number. Raises DocumentError."""
    parts: dict[int, dict[str, Path]] = {}
    for path in sorted(shot.iterdir()):
        match = _FILE.match(path.name)
        if match:
            parts.setdefault(int(match[3]), {})[match[1]] = path
    return {number: _puppet_frame(files, is_cut_out=shot.name == CG_FOLDER) for number, files in sorted(parts.items())}


def _puppet_frame(files: Mapping[str, Path], *, is_cut_out: bool) -> PuppetFrame:
    first = next(iter(files.values()))
    picture = first.with_name("image-" + first.name.split("-", 1)[1]).with_suffix(".png")
    shapes = next((_frame_shapes(files[kind]) for kind in _WITH_SHAPES if kind in files), {})
    points = next((_frame_points(files[kind]) for kind in _WITH_POINTS if kind in files), {})
    return PuppetFrame(picture, shapes, points, is_cut_out)


def _frame_shapes(path: Path) -> dict[str, tuple[Array, bool]]:
    named = ((name, cubics) for name, cubics in _json_object(path).items() if name != _POINTS)
    return {
        name: (from_relative_segments(cubics, where=f"{path.name}: {name}"), not name.endswith("seam"))
        for name, cubics in named
    }


def from_relative_segments(cubics: Any, *, where: str) -> Array:
    """Control points of `[[p0x, t0x, p3x, t3x], [p0y, t0y, p3y, t3y]]` segments, tangents relative to their own point.

    The curve is closed if its last point equals its first. Raises DocumentError.
    """
    try:
        table = np.asarray(cubics, dtype=np.float64).reshape(-1, 2, 4)
    except (ValueError, TypeError) as error:
        raise DocumentError(f"{where}: is not a list of cubic segments [[4 numbers], [4 numbers]]") from error
    if not len(table) or not np.isfinite(table).all():
        raise DocumentError(f"{where}: holds no segments, or numbers that are not finite")
    p0, t0, p3, t3 = (table[:, :, i] for i in range(4))
    closed = len(table) > 1 and bool(np.allclose(p3[-1], p0[0], atol=1e-3))
    return bezier.from_segments(np.stack((p0, p0 + t0, p3 + t3, p3), axis=1), closed)


def _frame_points(path: Path) -> dict[str, tuple[float, float, float]]:
    """Landmarks by name, without hidden ones and without those that the shots lack."""
    points = _json_object(path).get(_POINTS, [])
    try:
        table = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    except (ValueError, TypeError) as error:
        raise DocumentError(f"{path.name}: points are not a list of [x, y]") from error
    names = LAYOUTS.get(len(table), SHOT[: len(table)])
    if len(names) != len(table):
        raise DocumentError(
            f"{path.name}: has {len(table)} points; wanted {len(SHOT)} (a shot), {len(TEST)} (test) or {len(CG)} (CG)"
        )
    known = np.isfinite(table).all(axis=1) & (table != 0).any(axis=1)
    return {name: (float(x), float(y), 1.0) for name, (x, y), is_known in zip(names, table, known) if name and is_known}


def _json_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(file_bytes(path))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise DocumentError(f"{path.name}: is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise DocumentError(f"{path.name}: wanted named shapes, found {type(content).__name__}")
    return content
