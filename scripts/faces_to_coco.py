"""Convert face sets with one `landmarks.csv` per folder to COCO keypoints, which `rotopaint mine` reads.

    python scripts/faces_to_coco.py SET_FOLDER... --out DIR [--test-share 0.3] [--seed 1]

Each SET_FOLDER holds `images/` and `landmarks.csv` with the columns image, group, box_x, box_y, box_w, box_h and
x0, y0, x1, y1, ... in pixels, (0, 0) the centre of the top-left pixel. DIR gets `train.coco.json` and `test.coco.json`
and the pictures as DIR/SET/GROUP/face.NNNN.jpg. `mine` takes a group as a shot, and no group is in both files. Sets of
68 points in the iBUG order get names with left and right (the person's own), so that training can mirror pictures. Any
other set gets the names `point_000` and so on, and `mine` finds their mirror partners by position.

Faces are numbered in steps of ten, because neighbours are not consecutive frames of a shot.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_STEP = 10


def _sided(part: str, count: int) -> tuple[list[str], list[str]]:
    """The names of a series on the person's right, outermost first, then of its mirror image, outermost last."""
    right = [f"{part}_right_{row}" for row in range(count)]
    return right, [name.replace("right", "left") for name in reversed(right)]


def ibug_names() -> tuple[str, ...]:
    """Names of the 68 points of iBUG / 300-W in their order."""
    jaw, brow, base = _sided("jaw", 8), _sided("brow", 5), _sided("nose_base", 2)
    eye = ("outer", "upper_outer", "upper_inner", "inner", "lower_inner", "lower_outer")
    other = ("inner", "upper_inner", "upper_outer", "outer", "lower_outer", "lower_inner")
    top, bottom = _sided("lip_top", 2), _sided("lip_bottom", 2)
    return (
        *(*jaw[0], "chin", *jaw[1]),
        *(*brow[0], *brow[1]),
        *(f"nose_bridge_{row}" for row in range(4)),
        *(*base[0], "nose_base", *base[1]),
        *(f"eye_right_{place}" for place in eye),
        *(f"eye_left_{place}" for place in other),
        *("mouth_right", *top[0], "lip_top", *top[1], "mouth_left", *reversed(bottom[1]), "lip_bottom"),
        *reversed(bottom[0]),
        *("inner_right", "inner_top_right", "inner_top", "inner_top_left"),
        *("inner_left", "inner_bottom_left", "inner_bottom", "inner_bottom_right"),
    )


@dataclass(frozen=True, slots=True)
class Face:
    """One row of a set: its picture, its group, its points (P, 2) and box x, y, w, h with the origin at the corner."""

    folder: str
    group: str
    picture: Path
    size: tuple[int, int]
    points: tuple[tuple[float, float], ...]
    box: tuple[float, float, float, float]


def read_set(folder: Path) -> list[Face]:
    """The faces of a set. Raises ValueError, which names the wrong line."""
    faces = []
    with (folder / "landmarks.csv").open(newline="", encoding="utf-8") as stream:
        for number, row in enumerate(csv.DictReader(stream), start=2):
            try:
                faces.append(_face(folder, row))
            except (KeyError, ValueError) as error:
                raise ValueError(f"{folder / 'landmarks.csv'} line {number}: {error}; correct the row") from error
    return faces


def _face(folder: Path, row: dict[str, str]) -> Face:
    count = sum(name[:1] == "x" and name[1:].isdigit() for name in row)
    points = tuple((float(row[f"x{k}"]) + 0.5, float(row[f"y{k}"]) + 0.5) for k in range(count))
    x, y, w, h = (float(row[f"box_{name}"]) for name in "xywh")
    size = int(row["width"]), int(row["height"])
    picture = folder / "images" / row["image"]
    return Face(folder.name, row["group"], picture, size, points, (x + 0.5, y + 0.5, w, h))


def split_by_group(faces: Sequence[Face], share: float, seed: int) -> tuple[list[Face], list[Face]]:
    """Training faces and test faces: whole groups are drawn for the test until its share is reached."""
    groups = sorted({(face.folder, face.group) for face in faces})
    order = np.random.default_rng(seed).permutation(len(groups))
    held: set[tuple[str, str]] = set()
    for at in order:
        if sum((face.folder, face.group) in held for face in faces) >= share * len(faces):
            break
        held.add(groups[at])
    return (
        [face for face in faces if (face.folder, face.group) not in held],
        [face for face in faces if (face.folder, face.group) in held],
    )


def write_coco(faces: Iterable[Face], path: Path) -> dict[str, Face]:
    """Write pictures beside `path` and the keypoints into it; returns the faces by their new file names."""
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    named: dict[str, Face] = {}
    for row, face in enumerate(faces, start=1):
        group = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in face.group)
        name = f"{face.folder}/{group}/face.{row * _STEP:04d}{face.picture.suffix}"
        (path.parent / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(face.picture, path.parent / name)
        images.append({"id": row, "file_name": name, "width": face.size[0], "height": face.size[1]})
        numbers = [value for x, y in face.points for value in (round(x, 3), round(y, 3), 2)]
        annotations.append({"id": row, "image_id": row, "category_id": 1, "keypoints": numbers, "bbox": [*face.box]})
        named[name] = face
    count = len(next(iter(named.values())).points)
    names = ibug_names() if count == 68 else tuple(f"point_{k:03d}" for k in range(count))
    category = {"id": 1, "name": "face", "keypoints": list(names)}
    content = {"images": images, "annotations": annotations, "categories": [category]}
    path.write_text(json.dumps(content), encoding="utf-8")
    return named


def main() -> int:
    """Read the sets, split them and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--test-share", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faces = [face for folder in options.sets for face in read_set(folder)]
    options.out.mkdir(parents=True, exist_ok=True)
    sides = split_by_group(faces, options.test_share, options.seed)
    for name, side in zip(("train", "test"), sides):
        write_coco(side, options.out / f"{name}.coco.json")
        groups = len({(face.folder, face.group) for face in side})
        sys.stdout.write(f"{options.out / name}.coco.json: {len(side)} faces of {groups} groups\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
