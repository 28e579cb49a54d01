"""COCO keypoints of single pictures: the landmarks of one face each.

The module `coco` reads such files as the frames of one shot. In this module every picture keeps its own file and size.
Boxes, outlines and categories without keypoints are ignored. Standard library only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.files import file_bytes

_KEYPOINTS: Final = "keypoints"
Json = Mapping[str, Any]
Marks = dict[str, tuple[float, float, float]]


@dataclass(frozen=True, slots=True)
class MarkedFace:
    """A picture's file name, its stated size, and the landmarks marked on its face: x, y, and 1 for visible (COCO's 2)
    or 0 for hidden (COCO's 1)."""

    file_name: str
    size: tuple[int, int] | None
    landmarks: Marks
    is_test: bool


@dataclass(frozen=True, slots=True)
class Keypoints:
    """The landmark names, the marked faces by number of their annotation, and the count of faces without any mark."""

    names: tuple[str, ...]
    faces: Mapping[int, MarkedFace]
    n_empty: int


def read_keypoints(path: Path) -> Keypoints:
    """Read a file. Raises DocumentError, also where a picture has two faces or categories differ in landmarks."""
    try:
        return _faces_of_content(path, json.loads(file_bytes(path).decode("utf-8-sig")))
    except (
        OSError,
        UnicodeDecodeError,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        OverflowError,
    ) as error:
        reason = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise DocumentError(
            f"{path.name}: is not a COCO keypoint file ({reason}); wanted images, annotations, categories"
        ) from error


def _faces_of_content(path: Path, content: Any) -> Keypoints:
    names = _keypoint_names(path, content["categories"])
    pictures = {image["id"]: image for image in content["images"]}
    marked = [annotation for annotation in content["annotations"] if annotation.get(_KEYPOINTS)]
    faces: dict[int, MarkedFace] = {}
    seen: set[Any] = set()
    for row, annotation in enumerate(marked):
        image = pictures.get(annotation["image_id"])
        if image is None:
            raise ValueError(f"annotation {annotation.get('id', row)} is of image {annotation['image_id']}, not listed")
        landmarks = _read_marks(path, annotation, row, names)
        if landmarks and annotation["image_id"] in seen:
            raise DocumentError(
                f"{path.name}: {image['file_name']} is annotated twice; wanted one face a picture: keep one, or "
                "crop the faces apart"
            )
        if landmarks:
            seen.add(annotation["image_id"])
            is_test = image.get("split") == "test"
            faces[row] = MarkedFace(str(image["file_name"]), _stated_size(image), landmarks, is_test)
    return Keypoints(names, faces, len(marked) - len(faces))


def _keypoint_names(path: Path, categories: Any) -> tuple[str, ...]:
    """The landmark names. Raises: DocumentError where categories differ; KeyError where no category has names."""
    layouts = {tuple(str(name) for name in each[_KEYPOINTS]) for each in categories if each.get(_KEYPOINTS)}
    if len(layouts) > 1:
        raise DocumentError(f"{path.name}: holds several keypoint categories; wanted one face layout per file")
    if not layouts:
        raise KeyError(_KEYPOINTS)
    return layouts.pop()


def _read_marks(path: Path, annotation: Json, row: int, names: tuple[str, ...]) -> Marks:
    numbers = [float(value) for value in annotation[_KEYPOINTS]]
    if len(numbers) != 3 * len(names):
        raise DocumentError(
            f"{path.name}: annotation {annotation.get('id', row)} has {len(numbers) / 3:g} keypoints; the category "
            f"names {len(names)}"
        )
    points = zip(names, numbers[::3], numbers[1::3], numbers[2::3], strict=True)
    known = ((name, x, y, v) for name, x, y, v in points if v > 0 and all(map(math.isfinite, (x, y, v))))
    return {name: (x, y, float(v >= 2)) for name, x, y, v in known}


def _stated_size(image: Json) -> tuple[int, int] | None:
    """Width and height of a picture as stated in the file."""
    return (int(image["width"]), int(image["height"])) if image.get("width") and image.get("height") else None
