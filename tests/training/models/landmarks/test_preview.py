"""The preview of a training: splines of what is found and of the truth over held-out crops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np

from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.data.memory import load_pictures
from rotopaint_ai.training.evaluation.contact_sheets import FOUND, TRUE
from rotopaint_ai.training.models.landmarks.config import load_pack_config
from rotopaint_ai.training.models.landmarks.task import Splines, build_net, write_preview

SMALL = ("input_size=64", "small_size=64", "widths=[8, 8, 16, 16, 16]", "neck=16", "fine=8", "window=5")


def _has(picture: np.ndarray, colour: tuple[int, int, int]) -> bool:
    return bool((np.abs(picture.astype(int) - colour).max(axis=2) < 40).any())


def test_splines_are_drawn_where_landmarks_are(faces: Path, tmp_path: Path) -> None:
    data = read_dataset(faces)
    splines = Splines.of(data.sheet, data.truth)
    assert splines is not None
    blank = np.zeros((96, 96, 3), np.uint8)
    splines.draw(blank, data.truth.landmarks[0], TRUE)
    seam = data.truth.points[0, data.sheet.point_rows()["seam"], :2]
    for x, y in seam:
        assert blank[round(float(y)) - 2 : round(float(y)) + 2, round(float(x)) - 2 : round(float(x)) + 2].any()
    recipe = load_pack_config(None, SMALL)
    memory = load_pictures(data.subset(np.arange(4)), side_px=64, margin=recipe.crop_margin)
    path = tmp_path / "preview.png"
    write_preview(path, build_net(recipe, 4), memory, np.arange(4), recipe, splines)
    drawn = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
    assert drawn.shape == (64, 256, 3)
    assert _has(drawn, FOUND)
    assert _has(drawn, TRUE)


def test_without_shapes_only_points_are_drawn(faces: Path) -> None:
    data = read_dataset(faces)
    assert Splines.of(replace(data.sheet, shapes=()), data.truth) is None
    unknown = replace(data.truth, points=np.full_like(data.truth.points, np.nan))
    assert Splines.of(data.sheet, unknown) is None
