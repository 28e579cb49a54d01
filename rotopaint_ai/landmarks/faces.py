"""Faces on whole plates, for the rough crop: a detector's boxes in plate space, and the choice of the face.

F faces, S side of a mask, P keypoints; boxes are x0, y0, x1, y1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.crops import Crop, CropKeys
from rotopaint_ai.landmarks.track import Picture

Array = npt.NDArray[Any]
Display = Callable[[Picture], Picture]

SURE = 0.75  # score from which a detection counts as a face; chosen on rendered validation plates
GREY = np.float32(115 / 255)  # fills the detector's picture outside the plate
ROOM = 1.3  # side of a mask's rectangle over the box's
CLOSER = 0.6  # window size as a share of the plate's sides; windows are searched if the whole plate shows no face
MARGIN = 1.12  # crop side over the longest side of a face's box
_SAME = 1.5  # in sides: largest distance between the same face in two frames
_SAME_SIZE = 2.2


class FaceDetector(Protocol):
    """A detector: display-referred pictures (N, H, W, 3) of its own size to faces.

    Returns boxes (N, F, 4), scores (N, F), masks (N, F, S, S) and keypoints (N, F, P, 2), in picture pixels; a score of
    0 is no face.
    """

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of its input."""

    def __call__(self, pictures: Picture) -> tuple[Array, Array, Array, Array]: ...


@dataclass(frozen=True, slots=True, eq=False)
class DetectedFace:
    """One face: box, score from 0 to 1, mask over `room`, keypoints (eyes, nose, corners of the mouth)."""

    box: tuple[float, float, float, float]
    score: float
    mask: Array
    points: Array

    @property
    def room(self) -> tuple[float, float, float, float]:
        """The rectangle that the mask fills."""
        x0, y0, x1, y1 = self.box
        dx, dy = (ROOM - 1) / 2 * (x1 - x0), (ROOM - 1) / 2 * (y1 - y0)
        return x0 - dx, y0 - dy, x1 + dx, y1 + dy

    @property
    def side(self) -> float:
        """The box's longer side."""
        return max(self.box[2] - self.box[0], self.box[3] - self.box[1])

    @property
    def weight(self) -> float:
        """Area times score: the intended face is large and certain."""
        return (self.box[2] - self.box[0]) * (self.box[3] - self.box[1]) * self.score

    def crop(self) -> Crop:
        """The rough crop round the face."""
        x0, y0, x1, y1 = self.box
        return Crop((x0 + x1) / 2, (y0 + y1) / 2, max(self.side * MARGIN, 4.0))

    def moved(self, x: float, y: float) -> DetectedFace:
        """The same face with the origin elsewhere."""
        x0, y0, x1, y1 = self.box
        return DetectedFace((x0 + x, y0 + y, x1 + x, y1 + y), self.score, self.mask, self.points + (x, y))


@dataclass(frozen=True, slots=True, eq=False)
class FaceTrack:
    """The face of a shot: its box in each frame where it was found, and a note for the user.

    `is_doubtful`: there was another face, or it was not found in every searched frame.
    """

    found: Mapping[int, DetectedFace]
    note: str
    is_doubtful: bool

    def keys(self) -> CropKeys:
        """Crops to start from, and to search from where the face gets lost; none of them drawn by a person."""
        first = min(self.found)
        return CropKeys(
            {frame: face.crop() for frame, face in self.found.items()}, hints=frozenset(self.found) - {first}
        )


def letterbox(picture: Array, width: int, height: int) -> tuple[Picture, float]:
    """A picture (H, W, 3) scaled into the top-left corner of `width` x `height`, and the scale factor.

    Area averaging where it shrinks.
    """
    scale = min(width / picture.shape[1], height / picture.shape[0])
    inside = (max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale)))
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    whole = np.full((height, width, 3), GREY, np.float32)
    whole[: inside[1], : inside[0]] = cv2.resize(np.ascontiguousarray(picture, np.float32), inside, interpolation=how)
    return whole, scale


def faces_of(rows: Sequence[Array], scale: float, *, lowest: float = SURE) -> list[DetectedFace]:
    """The faces of one picture from boxes (F, 4), scores (F,), masks and keypoints, divided by `scale`.

    A box half covered by one with a higher score is dropped.
    """
    boxes, scores, masks, points = rows
    found = []
    for box, score, mask, places in zip(boxes, scores, masks, points):
        if score >= lowest and np.isfinite(box).all() and (box[2:] - box[:2]).min() >= 1:
            x0, y0, x1, y1 = (float(v) / scale for v in box)
            found.append(DetectedFace((x0, y0, x1, y1), float(score), mask, np.asarray(places, float) / scale))
    return drop_overlapping(found)


def find_faces(
    rgb: Picture, origin: tuple[int, int], find: FaceDetector, display: Display, *, closer: bool = True
) -> list[DetectedFace]:
    """Faces of a frame (scene-linear (H, W, 3), its corner at `origin`) in plate space, largest weight first.

    If the whole frame shows none and `closer` is set, overlapping windows are searched for small faces.
    """
    found = _look_for_faces(rgb, [(0, 0, rgb.shape[1], rgb.shape[0])], find, display)
    if not found and closer:
        found = drop_overlapping(_look_for_faces(rgb, search_windows(rgb.shape[1], rgb.shape[0]), find, display))
    return sorted((face.moved(*origin) for face in found), key=lambda face: -face.weight)


def _look_for_faces(
    rgb: Picture, places: Sequence[tuple[int, int, int, int]], find: FaceDetector, display: Display
) -> list[DetectedFace]:
    width, height = find.size
    found: list[DetectedFace] = []
    for x, y, w, h in places:
        light, scale = letterbox(np.asarray(rgb[y : y + h, x : x + w], np.float32), width, height)
        inside = round(h * scale), round(w * scale)
        light[: inside[0], : inside[1]] = np.clip(display(np.ascontiguousarray(light[: inside[0], : inside[1]])), 0, 1)
        rows = [part[0] for part in find(light[None])]
        found += [face.moved(x, y) for face in faces_of(rows, scale)]
    return found


def search_windows(width: int, height: int) -> list[tuple[int, int, int, int]]:
    """Overlapping windows x, y, w, h over a frame, `CLOSER` of its sides."""
    w, h = ceil(width * CLOSER), ceil(height * CLOSER)
    return [(x, y, w, h) for y in (0, height - h) for x in (0, width - w)]


def drop_overlapping(faces: Sequence[DetectedFace]) -> list[DetectedFace]:
    """Faces without those half covered by one with a higher score."""
    kept: list[DetectedFace] = []
    for face in sorted(faces, key=lambda face: -face.score):
        if all(_overlap(face.box, other.box) < 0.5 for other in kept):
            kept.append(face)
    return kept


def _overlap(a: Sequence[float], b: Sequence[float]) -> float:
    """Overlap of two boxes as a share of the smaller one."""
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    least = min((a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1]))
    return max(w, 0.0) * max(h, 0.0) / max(least, 1e-9)


def follow_face(seen: Mapping[int, Sequence[DetectedFace]]) -> FaceTrack | None:
    """The chosen face over the searched frames; None if there is none.

    It is the face with the largest weight in the first frame with a face, then the nearest face of similar size.
    """
    frames = [frame for frame in sorted(seen) if seen[frame]]
    if not frames:
        return None
    chosen = {frames[0]: max(seen[frames[0]], key=lambda face: face.weight)}
    last = chosen[frames[0]]
    for frame in frames[1:]:
        near = [face for face in seen[frame] if _is_like(face, last)]
        if near:
            last = min(near, key=lambda face: _away(face, last))
            chosen[frame] = last
    is_doubtful = len(chosen) < len(seen) or any(len(faces) > 1 for faces in seen.values())
    return FaceTrack(chosen, _choice_note(chosen, seen), is_doubtful)


def _is_like(face: DetectedFace, last: DetectedFace) -> bool:
    return _away(face, last) < _SAME * last.side and 1 / _SAME_SIZE < face.side / last.side < _SAME_SIZE


def _away(face: DetectedFace, last: DetectedFace) -> float:
    a, b = face.crop(), last.crop()
    return float(np.hypot(a.x - b.x, a.y - b.y))


def _choice_note(chosen: Mapping[int, DetectedFace], seen: Mapping[int, Sequence[DetectedFace]]) -> str:
    first = min(chosen)
    face, others = chosen[first], len(seen[first]) - 1
    crop = face.crop()
    box = f"{crop.x - crop.side / 2:.0f},{crop.y - crop.side / 2:.0f},{crop.side:.0f},{crop.side:.0f}"
    which = f", the largest of {others + 1} faces" if others else ""
    return (
        f"crop 'auto': took {first}:{box} (sure by {face.score:.0%}{which}), found in {len(chosen)} of {len(seen)} "
        "frames looked at; draw a box with --crop where another face is meant"
    )
