"""Pictures with known faces, from what there is: plates of the stage, face crops of a data set, shots with their roto.

A face's truth is its outline: the shape `face_outline` where there is one, else the hull of its landmarks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.exchange import document
from rotopaint_ai.plates.colour import to_display
from rotopaint_ai.plates.plate import open_plate
from rotopaint_ai.shapes.bezier import flatten
from rotopaint_ai.stage.crowd_plates import FORMAT, POINTS
from rotopaint_ai.training.data.dataset import read_dataset, read_picture

Array = npt.NDArray[Any]
Picture = npt.NDArray[np.uint8]

OUTLINE = "face_outline"
SEEN = 0.35  # share of a face that has to show for it to count
_TOLERANCE_PX = 0.3
_LONGEST = 640  # pictures are kept no longer than this


@dataclass(frozen=True, slots=True)
class Face:
    """Outline (P, 2), keypoints (5, 3) as x, y, seen (NaN unknown), and the share of the face that shows."""

    outline: Array
    points: Array
    seen: float

    @property
    def box(self) -> Array:
        """x0, y0, x1, y1 of the outline."""
        return np.concatenate((self.outline.min(0), self.outline.max(0)))

    def scaled(self, factor: float) -> Face:
        """The face in a picture `factor` times as large."""
        points = self.points * np.array([factor, factor, 1.0])
        return Face(self.outline * factor, points, self.seen)


@dataclass(frozen=True, slots=True)
class DetectionScene:
    """A picture (H, W, 3), 8-bit RGB for display, and its faces; `split` as in data sets."""

    picture: Picture
    faces: tuple[Face, ...]
    split: str
    name: str

    def arrays(self) -> Iterator[Array]:
        """What tells it from another."""
        yield self.picture
        for face in self.faces:
            yield from (face.outline, face.points, np.array([face.seen]))


def read_scenes(sources: Sequence[str | Path], *, check: Callable[[], None] = lambda: None) -> list[DetectionScene]:
    """Scenes of folders: plates of the stage, data sets, shots with a `truth.roto.json`.

    Raises: TrainingError on anything else, and where there is nothing in them.
    """
    found: list[DetectionScene] = []
    for source in sources:
        for scene in _scenes(Path(source)):
            found.append(_limited(scene))
            check()
    if not found:
        raise TrainingError(f"{', '.join(map(str, sources))}: no pictures of faces; wanted plates, a data set or shots")
    return found


def _scenes(folder: Path) -> Iterator[DetectionScene]:
    if (folder / "plates.jsonl").is_file():
        return _plates(folder)
    if (folder / "truth.roto.json").is_file():
        return _shot(folder)
    return _crops(folder)


def _plates(folder: Path) -> Iterator[DetectionScene]:
    try:
        head = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrainingError(f"{folder}/dataset.json: cannot be read ({error}); make the plates again") from error
    found = head.get("format") if isinstance(head, dict) else None
    if found != FORMAT:
        raise TrainingError(f"{folder}: format {found!r}; wanted '{FORMAT}', made by the stage")
    for number, line in enumerate((folder / "plates.jsonl").read_text(encoding="utf-8").splitlines(), 1):
        try:
            record = json.loads(line)
            faces = tuple(
                Face(np.array(f["outline"], float), np.array(f["points"], float), float(f["seen"]))
                for f in record["faces"]
            )
            name, split = str(record["image"]), str(record["split"])
        except (ValueError, KeyError, TypeError) as error:
            raise TrainingError(
                f"{folder / 'plates.jsonl'}: line {number}: {error!r}; make the plates again"
            ) from error
        yield DetectionScene(read_picture(folder / name), faces, split, name)


def _crops(folder: Path) -> Iterator[DetectionScene]:
    data = read_dataset(folder)
    rows = data.sheet.point_rows().get(OUTLINE)
    marks = [data.sheet.landmark_names.index(n) if n in data.sheet.landmark_names else None for n in POINTS]
    for k, sample in enumerate(data.samples):
        landmarks, visible = data.truth.landmarks[k], data.truth.visible[k]
        control = None if rows is None else data.truth.points[k, rows]
        outline = _outline(control, landmarks)
        if outline is not None:
            points = np.array([_point(landmarks, visible, row) for row in marks])
            yield DetectionScene(data.picture(k), (Face(outline, points, 1.0),), sample.split, sample.image)


def _outline(control: Array | None, landmarks: Array) -> Array | None:
    if control is not None and np.isfinite(control).all():
        return flatten(control.astype(float), True, _TOLERANCE_PX)
    known = landmarks[np.isfinite(landmarks).all(axis=1)]
    return None if len(known) < 5 else np.asarray(cv2.convexHull(known.astype(np.float32))[:, 0], float)


def _point(landmarks: Array, visible: Array, row: int | None) -> tuple[float, float, float]:
    return (np.nan,) * 3 if row is None else (*map(float, landmarks[row]), float(visible[row]))  # type: ignore[return-value]


def _shot(folder: Path) -> Iterator[DetectionScene]:
    roto = document.read(folder / "truth.roto.json")
    shape = next((shape for shape in roto.shapes if shape.name == OUTLINE), None)
    if shape is None:
        raise TrainingError(f"{folder / 'truth.roto.json'}: no shape '{OUTLINE}'; wanted one round the face")
    names = roto.landmarks.names if roto.landmarks is not None else ()
    with open_plate(str(_plate_of(folder))) as plate:
        for frame in sorted(set(plate.frames) & set(shape.keys)):
            marks = roto.landmarks.keys.get(frame, ()) if roto.landmarks is not None else ()
            placed = {name: mark for name, mark in zip(names, marks) if mark is not None}
            points = [(placed[n].x, placed[n].y, 1.0) if n in placed else (np.nan,) * 3 for n in POINTS]
            control = np.array([[p.x, p.y, p.in_dx, p.in_dy, p.out_dx, p.out_dy] for p in shape.keys[frame].points])
            outline = flatten(control, True, _TOLERANCE_PX)
            shown = np.rint(np.clip(to_display(plate.read(frame, keep_native=False).rgb), 0, 1) * 255).astype(np.uint8)
            faces = (Face(outline, np.array(points, float), 1.0),)
            yield DetectionScene(shown, faces, split_of(folder), f"{folder.name}.{frame}")


def split_of(shot: Path) -> str:
    """Shots whose folder begins with `test` are only judged on."""
    return "test" if shot.name.startswith("test") else "train"


def _plate_of(folder: Path) -> Path:
    for suffix in ("exr", "png", "jpg"):
        if any(folder.glob(f"plate.*.{suffix}")):
            return folder / f"plate.####.{suffix}"
    raise TrainingError(f"{folder}: no plate.####.exr, .png or .jpg beside its truth")


def _limited(scene: DetectionScene) -> DetectionScene:
    factor = min(1.0, _LONGEST / max(scene.picture.shape[:2]))
    if factor == 1.0:
        return scene
    size = (round(scene.picture.shape[1] * factor), round(scene.picture.shape[0] * factor))
    picture = np.asarray(cv2.resize(scene.picture, size, interpolation=cv2.INTER_AREA), np.uint8)
    return DetectionScene(picture, tuple(face.scaled(factor) for face in scene.faces), scene.split, scene.name)
