"""A synthetic character: two eyes, a mouth and a seam with known motion, drawn by two artists on small plates."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from rotopaint_ai.exchange import document
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.roto import Key, RotoDocument, RotoShape

Array = npt.NDArray[np.float64]
WIDTH, HEIGHT = 240, 180
FRAMES = range(1001, 1011)


def pose(frame: int, shot: int) -> tuple[float, float, float]:
    """Shift x, shift y and mouth opening of a frame: everything moves on ones."""
    t = frame - 1001
    return 2.5 * t - 8.0 * shot, 1.5 * np.sin(t), 0.5 + 0.5 * np.sin(0.9 * t + shot)


def outline(name: str, share: Array, frame: int, shot: int) -> Array:
    """Points of a shape at parameters from 0 to 1: the same parameter is the same anatomy in every frame."""
    dx, dy, opening = pose(frame, shot)
    angle = 2 * np.pi * share
    if name == "seam":
        points = np.stack((90 + 60 * share, 100 + 12 * np.sin(np.pi * share)), axis=-1)
    elif name == "mouth":
        tall = 5 + 9 * opening
        points = np.stack((120 - 24 * np.cos(angle), 128 - tall * np.sin(angle) + 3 * np.cos(2 * angle)), axis=-1)
    else:
        side = -1 if name == "eye_right" else 1
        points = np.stack(
            (120 + side * (34 - 16 * np.cos(angle)), 78 - 10 * np.sin(angle) - 3 * np.cos(angle)), axis=-1
        )
    return np.asarray(points + np.array([dx, dy]))


def drawn(name: str, frame: int, shot: int, *, n_points: int, start: float = 0.0, backwards: bool = False) -> Array:
    """Control points (P, 6) as an artist would set them: cubic Hermite tangents of the true outline."""
    closed = name != "seam"
    steps = np.arange(n_points) / (n_points if closed else n_points - 1)
    share = steps + start
    h = 1e-4
    inside = np.clip(share, h, 1 - h) if not closed else share
    slope = (outline(name, inside + h, frame, shot) - outline(name, inside - h, frame, shot)) / (2 * h)
    reach = slope * (steps[1] - steps[0]) / 3
    points = np.concatenate((outline(name, share, frame, shot), -reach, reach), axis=1)
    return bezier.reverse(points, closed) if backwards else points


SHAPES = ("eye_right", "eye_left", "mouth", "seam")
MARKS = {
    "eye_right_inner": ("eye_right", 0.0),
    "eye_right_outer": ("eye_right", 0.5),
    "eye_right_top": ("eye_right", 0.25),
    "eye_left_inner": ("eye_left", 0.0),
    "eye_left_outer": ("eye_left", 0.5),
    "eye_left_top": ("eye_left", 0.25),
    "mouth_0": ("mouth", 0.0),
    "mouth_1": ("mouth", 0.25),
    "mouth_2": ("mouth", 0.5),
    "mouth_3": ("mouth", 0.75),
    "seam_0": ("seam", 0.0),
    "seam_1": ("seam", 1.0),
}


@dataclass(frozen=True)
class Character:
    """Two shots on disk: `shot1` and `shot2`, each with plates and `roto.roto.json`, and `marks.coco.json` for both."""

    folder: Path

    def roto(self, shot: int) -> Path:
        """The finished roto of a shot."""
        return self.folder / f"shot{shot}" / "roto.roto.json"

    @property
    def coco(self) -> Path:
        """Landmarks of both shots."""
        return self.folder / "marks.coco.json"

    @property
    def plates(self) -> str:
        """The plates' pattern for a roto."""
        return "{dir}/plate.####.png"

    def edit(self, shot: int, name: str, frame: int, points: Array) -> None:
        """Replace a shape's control points in one frame."""
        roto = document.read(self.roto(shot))
        shapes = tuple(
            shape.with_keys({**shape.keys, frame: Key(bezier.as_points(points), "human")})
            if shape.name == name
            else shape
            for shape in roto.shapes
        )
        document.write(
            self.roto(shot),
            RotoDocument(WIDTH, HEIGHT, roto.first_frame, roto.last_frame, landmarks=roto.landmarks, shapes=shapes),
        )


def picture(frame: int, shot: int) -> npt.NDArray[np.uint8]:
    """A plate: soft stripes behind, the shapes filled or stroked."""
    x = np.arange(WIDTH)
    canvas = np.repeat((90 + 30 * np.sin(x / 9.0))[None, :, None], HEIGHT, axis=0).repeat(3, axis=2).astype(np.uint8)
    for number, name in enumerate(SHAPES):
        points = np.rint(outline(name, np.linspace(0, 1, 60), frame, shot) * 16).astype(np.int32)
        colour = (40 + 50 * number, 200 - 40 * number, 120)
        if name == "seam":
            cv2.polylines(canvas, [points], False, colour, 2, cv2.LINE_AA, 4)
        else:
            cv2.fillPoly(canvas, [points], colour, cv2.LINE_AA, 4)
    return canvas


@pytest.fixture
def character(tmp_path: Path) -> Character:
    """The synthetic character, written anew for each test."""
    return write_character(tmp_path / "hero")


@pytest.fixture(scope="session")
def unedited(tmp_path_factory: pytest.TempPathFactory) -> Character:
    """The synthetic character, for tests that do not change it."""
    return write_character(tmp_path_factory.mktemp("unedited") / "hero")


def write_character(hero: Path) -> Character:
    """Both shots with their plates, roto and landmarks."""
    images, annotations = [], []
    for shot in (1, 2):
        folder = hero / f"shot{shot}"
        folder.mkdir(parents=True)
        shapes = []
        for number, name in enumerate(SHAPES):
            closed = name != "seam"
            n_points, start = (8 + number, 0.0) if shot == 1 else (9 + number, 0.37 if closed else 0.0)
            backwards = shot == 2 and name == "mouth"
            keys = {
                frame: Key(
                    bezier.as_points(drawn(name, frame, shot, n_points=n_points, start=start, backwards=backwards)),
                    "human",
                )
                for frame in FRAMES
            }
            width = None if closed else 4.0
            shapes.append(RotoShape(name, closed, "matte" if closed else "seam", keys, width_px=width))
        document.write(
            folder / "roto.roto.json", RotoDocument(WIDTH, HEIGHT, FRAMES[0], FRAMES[-1], shapes=tuple(shapes))
        )
        for frame in FRAMES:
            cv2.imwrite(str(folder / f"plate.{frame}.png"), picture(frame, shot))
            row = len(images) + 1
            images.append({"id": row, "file_name": f"shot{shot}/plate.{frame}.png", "width": WIDTH, "height": HEIGHT})
            numbers: list[float] = []
            for name, (shape, share) in MARKS.items():
                x, y = outline(shape, np.array([share]), frame, shot)[0]
                seen = 0 if (name, frame) == ("mouth_3", 1004) else 1 if name == "eye_left_top" else 2
                numbers += [float(x), float(y), seen] if seen else [0, 0, 0]
            annotations.append({"id": row, "image_id": row, "category_id": 1, "keypoints": numbers})
    content = {
        "images": images,
        "annotations": annotations,
        "categories": [{"id": 1, "name": "face", "keypoints": list(MARKS)}],
    }
    (hero / "marks.coco.json").write_text(json.dumps(content), encoding="utf-8")
    return Character(hero)
