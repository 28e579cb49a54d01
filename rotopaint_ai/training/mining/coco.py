"""COCO keypoints as they come: pictures with the landmarks of one face each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.training.mining.sources import FrameTruth, Take

_KEYPOINTS: Final = "keypoints"

Json = Mapping[str, Any]


def read_coco(path: Path) -> Take:
    """The landmarks of a COCO keypoint file, one frame per picture; faces of which nothing is marked are left out.

    Boxes, outlines and categories without keypoints, which such files hold as well, say nothing of landmarks. Raises:
    DocumentError.
    """
    try:
        return _take(path, json.loads(path.read_text(encoding="utf-8-sig")))
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        said = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise DocumentError(
            f"{path.name}: is no COCO keypoint file ({said}); wanted images, annotations, categories"
        ) from error


def _take(path: Path, content: Any) -> Take:
    names = _names(path, content["categories"])
    pictures = {image["id"]: image for image in content["images"]}
    marked = [annotation for annotation in content["annotations"] if annotation.get(_KEYPOINTS)]
    frames: dict[int, FrameTruth] = {}
    seen: set[Any] = set()
    for row, annotation in enumerate(marked):
        image = pictures.get(annotation["image_id"])
        if image is None:
            raise ValueError(f"annotation {annotation.get('id', row)} is of image {annotation['image_id']}, not listed")
        landmarks = _landmarks(path, annotation, row, names)
        if not landmarks:
            continue
        if annotation["image_id"] in seen:
            raise DocumentError(
                f"{path.name}: {image['file_name']} is annotated twice; wanted one face a picture: keep one, or "
                "crop the faces apart"
            )
        seen.add(annotation["image_id"])
        frames[row] = FrameTruth(
            landmarks=landmarks,
            picture=path.parent / str(image["file_name"]),
            size=_size(image),
            is_test=image.get("split") == "test",
        )
    empty = len(marked) - len(frames)
    notes = (f"{empty} faces without a single marked keypoint were left out",) if empty else ()
    return Take(path, frames, landmark_names=names, notes=notes)


def _names(path: Path, categories: Any) -> tuple[str, ...]:
    """The landmarks' names. Raises: DocumentError where categories name other ones; KeyError where none does."""
    layouts = {tuple(str(name) for name in each[_KEYPOINTS]) for each in categories if each.get(_KEYPOINTS)}
    if len(layouts) > 1:
        raise DocumentError(f"{path.name}: holds several keypoint categories; wanted one face layout a file")
    if not layouts:
        raise KeyError(_KEYPOINTS)
    return layouts.pop()


def _landmarks(path: Path, annotation: Json, row: int, names: tuple[str, ...]) -> dict[str, tuple[float, float, float]]:
    """What is marked of a face: x, y, and 1 seen (COCO's 2) or 0 hidden (COCO's 1)."""
    numbers = np.asarray(annotation[_KEYPOINTS], dtype=np.float64).reshape(-1, 3)
    if len(numbers) != len(names):
        raise DocumentError(
            f"{path.name}: annotation {annotation.get('id', row)} has {len(numbers)} keypoints; the category names "
            f"{len(names)}"
        )
    known = (numbers[:, 2] > 0) & np.isfinite(numbers).all(axis=1)
    return {
        name: (float(x), float(y), float(v >= 2))
        for name, (x, y, v), is_known in zip(names, numbers, known)
        if is_known
    }


def _size(image: Json) -> tuple[int, int] | None:
    """Width and height that the file says a picture has."""
    return (int(image["width"]), int(image["height"])) if image.get("width") and image.get("height") else None
