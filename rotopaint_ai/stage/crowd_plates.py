"""Whole plates to train the face detector: several puppets or none, near and far, turned away, behind other objects.

Every plate is made from its own seed. The truth of a face is its outline (a polygon that includes hidden parts, as
shapes do), its bounding box and five landmarks; `seen` is the share of the face that nothing covers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.files import write_json, write_text
from rotopaint_ai.shapes.bezier import flatten
from rotopaint_ai.stage import anatomy
from rotopaint_ai.stage.face_dataset import to_srgb
from rotopaint_ai.stage.puppet import draw_build, draw_pose
from rotopaint_ai.stage.scene import CutOut, cut_out
from rotopaint_ai.stage.studio import Studio, backdrop, develop, draw_studio
from rotopaint_ai.stage.view import Camera
from rotopaint_ai.stage.workers import map_in_order

F32 = npt.NDArray[Any]  # float32
Array = npt.NDArray[Any]

WIDTH, HEIGHT = 512, 288
POINTS = ("pupil_right", "pupil_left", "nose_tip", "mouth_outer_0", "mouth_outer_4")
FORMAT = "rotopaint-plates"

_NO_FACE = 0.08  # share of plates without any puppet
_AWAY = 0.1  # share of puppets that turn their back
_HAND = 0.15  # share of puppets with something in front of the face
_FACE_HEIGHTS = 1.9  # head units from chin to forehead, approximately


@dataclass(frozen=True, slots=True)
class PlateFace:
    """One face: outline (P, 2), landmarks (5, 3) as x, y, seen, and the share that is on the plate and uncovered."""

    outline: Array
    points: Array
    seen: float


def draw_plate(seed: int) -> tuple[npt.NDArray[np.uint8], list[PlateFace]]:
    """A display-referred plate (H, W, 3) and its faces, far faces first."""
    rng = np.random.default_rng([seed, 0x91A7E])
    studio = draw_studio(seed)
    scales = _scales(rng)
    image = backdrop(studio, HEIGHT, WIDTH, pixels_per_unit=float(rng.uniform(30, 110)))
    found: list[tuple[CutOut, bool]] = []
    covered: list[F32] = []
    for k, scale in enumerate(scales):
        puppet, is_face = _puppet(seed * 8 + k, float(scale), studio, rng, k, len(scales))
        image = image * (1 - puppet.alpha[..., None]) + puppet.light
        found.append((puppet, is_face))
        covered.append(puppet.alpha)
    pixels = develop(image, studio, rng, pixel_scale=1.0)
    faces = [_plate_face(puppet, covered[k + 1 :]) for k, (puppet, is_face) in enumerate(found) if is_face]
    return to_srgb(pixels, contrast=studio.contrast), faces


def _scales(rng: np.random.Generator) -> Array:
    """Pixels per head unit of each puppet, far puppets first."""
    if rng.random() < _NO_FACE:
        return np.zeros(0)
    n = int(rng.choice([1, 2, 3], p=[0.55, 0.3, 0.15]))
    nearest = float(np.exp(rng.uniform(np.log(22), np.log(HEIGHT / _FACE_HEIGHTS))))
    others = nearest * np.exp(-rng.exponential(0.6, n - 1))
    return np.asarray(np.sort(np.maximum(np.append(others, nearest), 14.0)))


def _puppet(seed: int, scale: float, studio: Studio, rng: np.random.Generator, k: int, n: int) -> tuple[CutOut, bool]:
    slot = WIDTH / n
    x = (k + 0.5) * slot if n > 1 else WIDTH / 2
    centre = (x + float(rng.normal(0, 0.28 * slot)), HEIGHT * 0.5 + float(rng.normal(0, 0.16 * HEIGHT)))
    camera = Camera(WIDTH, HEIGHT, scale, centre, studio.distance)
    pose = draw_pose(rng)
    is_away = rng.random() < _AWAY
    if is_away:
        pose = replace(pose, yaw=float(np.pi + rng.uniform(-0.7, 0.7)))
    elif rng.random() < 0.15:
        pose = replace(pose, yaw=float(rng.choice([-1, 1]) * rng.uniform(0.7, 1.1)))
    texture = int(np.clip(scale * 14, 256, 768))
    hidden = rng.random() < _HAND
    return cut_out(draw_build(seed), pose, studio, camera, hidden=hidden, texture=texture), not is_away


def _plate_face(puppet: CutOut, nearer: Sequence[F32]) -> PlateFace:
    outline = next(shape for shape in puppet.shapes if shape.name == "face_outline")
    polygon = flatten(outline.points, True, 0.3)
    names = anatomy.all_landmark_names()
    points = puppet.landmarks[[names.index(name) for name in POINTS]]
    return PlateFace(polygon, points, _share_in_sight(polygon, puppet, nearer))


def _share_in_sight(polygon: Array, puppet: CutOut, nearer: Sequence[F32]) -> float:
    """The visible share of a face: on the plate, not behind nearer puppets and, by its landmarks, not behind a hand."""
    whole = abs(float(cv2.contourArea(polygon.astype(np.float32))))
    inside = np.zeros((HEIGHT, WIDTH), np.uint8)
    cv2.fillPoly(inside, [np.round(polygon).astype(np.int32)], 1)
    bare = inside.astype(np.float32)
    for alpha in nearer:
        bare = bare * (1 - alpha)
    own = float((puppet.landmarks[:, 2] > 0).mean())
    return float(np.clip(bare.sum() / max(whole, 1.0), 0, 1)) if own > 0.15 else 0.0


def _plate_record(name: str, seed: int, split: str, faces: Sequence[PlateFace]) -> dict[str, Any]:
    return {
        "image": name,
        "width": WIDTH,
        "height": HEIGHT,
        "seed": seed,
        "split": split,
        "faces": [
            {
                "outline": np.round(face.outline, 2).tolist(),
                "points": np.round(face.points, 2).tolist(),
                "seen": round(face.seen, 3),
            }
            for face in faces
        ],
    }


def _make_plate(task: tuple[Path, int, str]) -> dict[str, Any]:
    folder, seed, split = task
    cv2.setNumThreads(1)
    name = f"images/{seed:06d}.jpg"
    kept = folder / f"images/{seed:06d}.json"
    if kept.exists():
        return {**json.loads(kept.read_text(encoding="utf-8")), "split": split}
    pixels, faces = draw_plate(seed)
    cv2.imwrite(str(folder / name), pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 92])
    record = _plate_record(name, seed, split, faces)
    write_json(kept, record, indent=None)
    return record


def make_plates(
    folder: Path,
    count: int,
    *,
    seed: int = 0,
    held_back: float = 0.1,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Make or complete a data set of plates at `folder`; returns the number of faces in them."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    first_held = round(count * (1 - held_back))
    tasks = [(folder, seed + k, "train" if k < first_held else "val") for k in range(count)]
    records = []
    for made in map_in_order(_make_plate, tasks, workers):
        records.append(made)
        progress(len(records), count)
    write_text(folder / "plates.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    faces = sum(len(record["faces"]) for record in records)
    about = {"name": "puppet stage plates", "licence": "CC0-1.0", "points": list(POINTS), "seed": seed}
    write_json(folder / "dataset.json", {"format": FORMAT, "version": 1, **about, "plates": count, "faces": faces})
    return faces
