"""Pictures for the report: which frames get one, and how they are cut.

Once the shot is settled its worst frames are known, and a few ordinary ones are shown beside them. Pictures of other
frames, which an earlier run has left, are removed at the end.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, cut
from rotopaint_ai.files import replacing
from rotopaint_ai.frames import evenly_spread
from rotopaint_ai.pipeline.record_store import FrameRecord
from rotopaint_ai.pipeline.render_frame import PICTURES, Filled
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import Frame

Array = npt.NDArray[Any]

N_WORST = 12
N_LOST = 3
N_SPREAD = 5
_OURS = re.compile(r"(face|before|after)\.-?\d+\.jpg")
FACE_PX = 640
COMPARE_PX = 1400
JPEG_QUALITY = 92


def ordinary_frames(frames: Sequence[int]) -> frozenset[int]:
    """A few frames at even distances, so that the report also shows ordinary ones."""
    chosen = evenly_spread(frames, N_SPREAD + 2)
    return frozenset(chosen[1:-1] if len(chosen) > 2 else chosen)


def choose_worst(records: Iterable[FrameRecord], seams: Container[str]) -> list[int]:
    """Frames for the contact sheet: a few where the face was lost, then the largest expected errors of the seams.

    Among these, the first are those whose seams are badly placed and still seen: the expected error times how visible
    the painted seams are, where 1 is no more than texture.
    """
    records = [record for record in records if record.hold is None]
    lost = sorted(record.frame for record in records if record.status == "lost")[:N_LOST]
    found = [(_error_px(record, seams), record) for record in records if record.status == "done"]
    found.sort(key=lambda item: (-item[0], item[1].frame))
    seen = sorted(
        (-px * max(1.0, record.seam_after or 1.0), record.frame) for px, record in found[: N_WORST - len(lost)]
    )
    return [*lost, *(frame for _, frame in seen)]


def choose_pictured(records: Iterable[FrameRecord], frames: Sequence[int], seams: Container[str]) -> frozenset[int]:
    """Frames that get pictures: the worst of settled records, and a few ordinary ones of all frames."""
    return ordinary_frames(frames) | frozenset(choose_worst(records, seams))


def _error_px(record: FrameRecord, seams: Container[str]) -> float:
    worst = record.worst_shape(seams)
    return worst[1] if worst else 0.0


@dataclass(frozen=True, slots=True)
class Names:
    """Paths of a frame's pictures inside the run's folder."""

    face: str
    before: str
    after: str

    @classmethod
    def of(cls, frame: int) -> Names:
        """The names for a frame."""
        return cls(*(f"{PICTURES}/{kind}.{frame}.jpg" for kind in ("face", "before", "after")))


def draw_pictures(out: Path, frame: Frame, crop: Crop, filled: Filled | None) -> None:
    """Write a frame's face, and its seams before and after where they were filled."""
    names = Names.of(frame.number)
    _write_jpeg(out / names.face, _face_picture(frame, crop))
    if filled is not None:
        before, after = _compared(frame, filled)
        _write_jpeg(out / names.before, before)
        _write_jpeg(out / names.after, after)


def remove_others(out: Path, frames: Iterable[int]) -> None:
    """Remove the pictures that a run has made of all frames but these; files by other names are not ours."""
    keep = {
        out / name for frame in frames for name in (Names.of(frame).face, Names.of(frame).before, Names.of(frame).after)
    }
    for path in (out / PICTURES).glob("*.jpg"):
        if _OURS.fullmatch(path.name) and path not in keep:
            path.unlink(missing_ok=True)


def _face_picture(frame: Frame, crop: Crop) -> Array:
    size = round(min(max(crop.side, 64), FACE_PX))
    margin = 4
    x, y = int(crop.x - crop.side / 2) - margin, int(crop.y - crop.side / 2) - margin
    side = int(crop.side) + 2 * margin + 1
    pixels, origin = frame.region(x, y, side, side)
    if pixels.size == 0:
        return np.zeros((size, size, 3), dtype=np.float32)
    return to_display(cut(pixels, origin, crop, size))


def _compared(frame: Frame, filled: Filled) -> tuple[Array, Array]:
    x, y, width, height = _seam_window(filled, frame)
    before, (x, y) = frame.region(x, y, width, height)
    after = before.copy()
    _paste(after, (x, y), filled)
    return _display_at(before), _display_at(after)


def _seam_window(filled: Filled, frame: Frame) -> tuple[int, int, int, int]:
    """A rectangle around the seams with air around it, not narrower than 4:3 and not wider than 16:9."""
    seams = filled.seams
    rows, columns = np.flatnonzero(seams.matte.any(axis=1)), np.flatnonzero(seams.matte.any(axis=0))
    width, height = 1.5 * (columns[-1] - columns[0] + 1) + 16, 1.5 * (rows[-1] - rows[0] + 1) + 16
    width, height = max(width, height * 4 / 3), max(height, width * 9 / 16)
    width, height = min(round(width), frame.width), min(round(height), frame.height)
    x = round(seams.x + (columns[0] + columns[-1] + 1 - width) / 2)
    y = round(seams.y + (rows[0] + rows[-1] + 1 - height) / 2)
    return min(max(x, 0), frame.width - width), min(max(y, 0), frame.height - height), width, height


def _paste(picture: Array, origin: tuple[int, int], filled: Filled) -> None:
    rows, columns = picture.shape[:2]
    height, width = filled.seams.matte.shape
    x, y = filled.seams.x - origin[0], filled.seams.y - origin[1]
    x0, y0, x1, y1 = max(x, 0), max(y, 0), min(x + width, columns), min(y + height, rows)
    if x0 < x1 and y0 < y1:
        picture[y0:y1, x0:x1] = filled.after[y0 - y : y1 - y, x0 - x : x1 - x]


def _display_at(linear: Array) -> Array:
    scale = COMPARE_PX / max(linear.shape[:2])
    if scale >= 1:
        return to_display(linear)
    return to_display(cv2.resize(linear, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA))


def _write_jpeg(path: Path, display: Array) -> None:
    codes = np.clip(display * 255.0 + 0.5, 0, 255).astype(np.uint8)
    _, data = cv2.imencode(".jpg", codes[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    with replacing(path) as beside:
        beside.write_bytes(data.tobytes())
