"""Training data from the stage: loose face crops of many characters with exact landmarks and splines.

Every sample is made from its own seed, so a data set is the same on every machine and many workers can make it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rotopaint_ai.files import write_json, write_text
from rotopaint_ai.plates.colour import encode
from rotopaint_ai.sheet import dump_sheet
from rotopaint_ai.stage import anatomy
from rotopaint_ai.stage.face import FaceSurface
from rotopaint_ai.stage.front_objects import draw_objects
from rotopaint_ai.stage.looks import draw_style
from rotopaint_ai.stage.orders import keep_order
from rotopaint_ai.stage.puppet import draw_build, draw_pose
from rotopaint_ai.stage.scene import StageFrame, render, render_fronts, render_looks
from rotopaint_ai.stage.studio import Studio, draw_studio
from rotopaint_ai.stage.view import Camera
from rotopaint_ai.stage.workers import map_in_order

F32 = npt.NDArray[Any]  # float32

SIZE = 320  # side of a stored crop, pixels
POSES = 4  # frames per character
_FOLDED = 0.5  # share of the pictures with other looks that have folds
_TEXELS = 768  # width of a face's paint, for crops of SIZE
_DEFOCUSED = 0.5  # share of the pictures with objects in front that are out of focus
_HEAD = "dataset.json"  # written last


@dataclass(frozen=True, slots=True)
class FaceDatasetOptions:
    """Options of a data set: the number of characters, the first seed, the share of characters for validation.

    `reach`: factor by which heads turn further than in a talking shot (1.4: a third of all turn by 24 degrees of yaw or
    more). `size`: side of a stored crop in pixels. `looks`: number of additional pictures of each frame with other
    looks of its seam; a share `_FOLDED` of them has folds in the face. `fronts`: pictures with objects in front of the
    face, each with `.front.png` and `.skin.png`, the coverage by what stands in front and by skin; no folds.
    `sculpted`: faces are carved more deeply, and the lens blurs what lies out of its focus.
    """

    characters: int
    seed: int = 0
    held_back: float = 0.05
    workers: int = 1
    reach: float = 1.0
    size: int = SIZE
    looks: int = 0
    fronts: bool = False
    sculpted: bool = False


def to_srgb(linear: F32, *, contrast: float = 1.0) -> npt.NDArray[np.uint8]:
    """Linear pixels (H, W, 3) as display pixels: the sRGB curve (IEC 61966-2-1) after a power of `contrast`; clips."""
    return encode(np.clip(linear, 0, 1) ** contrast, "sRGB", dtype=np.uint8)


def sample_pictures(seed: int, pose: int, order: FaceDatasetOptions) -> Iterator[tuple[StageFrame, Studio]]:
    """One frame of a character with its own pose, light and framing, then versions with other looks of its seam."""
    build, size = draw_build(seed, sculpted=order.sculpted), order.size
    rng = np.random.default_rng([seed, pose, 1])
    studio = draw_studio(seed * 1000 + pose, sculpted=order.sculpted)
    shift_px = [size / SIZE * float(rng.normal(0, 8)) for _ in range(2)]
    camera = Camera(
        size, size, size * rng.uniform(0.27, 0.34), (size / 2 + shift_px[0], size / 2 + shift_px[1]), studio.distance
    )
    hidden = rng.random() < 0.12
    shown = draw_pose(rng, reach=order.reach)
    texture = _TEXELS * size // SIZE
    if order.fronts:
        objects = draw_objects(FaceSurface(build, shown), rng)
        defocus = size / SIZE * float(rng.uniform(0.3, 3.0)) if rng.random() < _DEFOCUSED else 0.0
        styles = [draw_style(int(rng.integers(1 << 40))) for _ in range(order.looks + 1)]
        for picture in render_fronts(
            build, shown, studio, camera, styles, objects, defocus_px=defocus, grain_seed=pose, texture=texture
        ):
            yield picture, studio
        return
    yield render(build, shown, studio, camera, grain_seed=pose, hidden=hidden, texture=texture, clean=False), studio
    if not order.looks:
        return
    styles = [draw_style(int(rng.integers(1 << 40))) for _ in range(order.looks)]
    folds = int(rng.integers(1, 1 << 30)) if rng.random() < _FOLDED else 0
    for picture in render_looks(
        build, shown, studio, camera, styles, folds=folds, grain_seed=pose, hidden=hidden, texture=texture
    ):
        yield picture, studio


def _picture_record(picture: StageFrame, name: str, seed: int, pose: int, split: str) -> dict[str, Any]:
    marks = picture.landmarks
    height, width = picture.plate.shape[:2]
    low, high = marks[:, :2].min(0), marks[:, :2].max(0)
    shapes: dict[str, Any] = {}
    for shape in picture.shapes:
        shapes[shape.name] = {"points": np.round(shape.points, 3).tolist()}
        if shape.width_px is not None:
            shapes[shape.name]["width_px"] = round(shape.width_px, 3)
    return {
        "image": f"images/{name}.jpg",
        "width": width,
        "height": height,
        "character": f"s{seed:06d}",
        "shot": f"s{name}",
        "frame": 1001 + pose,
        "split": split,
        "landmarks": {
            n: [round(float(x), 3), round(float(y), 3), int(v)]
            for n, (x, y, v) in zip(anatomy.all_landmark_names(), marks)
        },
        "shapes": shapes,
        "face_box": [round(float(v), 2) for v in (*low, *(high - low))],
        "pixel_scale": 1.0,
    }


def _make_pictures(task: tuple[Path, int, str, FaceDatasetOptions]) -> list[dict[str, Any]]:
    folder, seed, split, order = task
    cv2.setNumThreads(1)
    return [record for pose in range(POSES) for record in _make_pose(folder, seed, pose, split, order)]


def _make_pose(folder: Path, seed: int, pose: int, split: str, order: FaceDatasetOptions) -> list[dict[str, Any]]:
    names = [f"{seed:06d}_{pose}", *(f"{seed:06d}_{pose}_{look}" for look in range(1, order.looks + 1))]
    kept = [folder / f"images/{name}.json" for name in names]
    if all(path.exists() for path in kept):
        return [json.loads(path.read_text()) for path in kept]
    made = []
    for name, path, (picture, studio) in zip(names, kept, sample_pictures(seed, pose, order)):
        pixels = to_srgb(picture.plate, contrast=studio.contrast)[..., ::-1]
        cv2.imwrite(str(folder / f"images/{name}.jpg"), pixels, [cv2.IMWRITE_JPEG_QUALITY, 92])
        for kind, cover in (("front", picture.front), ("skin", picture.skin)):
            if cover is not None:
                cv2.imwrite(str(folder / f"images/{name}.{kind}.png"), np.rint(cover * 255).astype(np.uint8))
        made.append(_picture_record(picture, name, seed, pose, split))
        write_json(path, made[-1], indent=None)
    return made


def _manner(order: FaceDatasetOptions) -> dict[str, float]:
    """The options that all pictures of a data set share."""
    return {name: getattr(order, name) for name in ("reach", "size", "looks", "fronts", "sculpted")}


def make_dataset(
    folder: Path, order: FaceDatasetOptions, *, progress: Callable[[int, int], None] = lambda done, total: None
) -> int:
    """Make or complete a data set at `folder`; returns the number of samples.

    `progress` is called with the numbers of finished and of all characters. Raises: UsageError where pictures in the
    folder were made with other options.
    """
    keep_order(folder, _manner(order), "images/*.json", _manner(FaceDatasetOptions(0)), _HEAD)
    (folder / "images").mkdir(exist_ok=True)
    first_held = round(order.characters * (1 - order.held_back))
    splits = ("train" if k < first_held else "val" for k in range(order.characters))
    tasks = [(folder, order.seed + k, split, order) for k, split in enumerate(splits)]
    records: list[dict[str, Any]] = []
    for k, (task, made) in enumerate(zip(tasks, map_in_order(_make_pictures, tasks, order.workers))):
        records += [{**record, "split": task[2]} for record in made]
        progress(k + 1, len(tasks))
    write_text(folder / "sheet.yaml", dump_sheet(anatomy.puppet_sheet()))
    write_text(folder / "samples.jsonl", "".join(json.dumps(r) + "\n" for r in records))
    write_json(
        folder / _HEAD,
        {
            "format": "rotopaint-dataset",
            "version": 1,
            "name": "puppet stage",
            "licence": "CC0-1.0",
            "characters": order.characters,
            "seed": order.seed,
            **_manner(order),
            "samples": len(records),
        },
    )
    return len(records)
