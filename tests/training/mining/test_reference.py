"""A sheet's control points keep the positions that they have in the sheet's original data set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from rotopaint_ai.exchange import document
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.roto import Key
from rotopaint_ai.training.data.dataset import Dataset, read_dataset
from rotopaint_ai.training.mining.mine import mine
from rotopaint_ai.training.mining.options import MineOptions

from .conftest import Character, drawn


def _turned_round(character: Character) -> None:
    """The second shot's mouth redrawn: other points, another start, the opposite direction."""
    roto = document.read(character.roto(2))
    keys = {
        frame: Key(bezier.as_points(drawn("mouth", frame, 2, n_points=9, start=0.37, backwards=True)), "human")
        for frame in range(roto.first_frame, roto.last_frame + 1)
    }
    shapes = tuple(shape.with_keys(keys) if shape.name == "mouth" else shape for shape in roto.shapes)
    document.write(character.roto(2), replace(roto, shapes=shapes))


def _plate_points(data: Dataset, name: str) -> dict[int, np.ndarray]:
    """Control points of a shape in the second shot by frame, in plate pixels relative to the face."""
    slot = data.sheet.point_rows()[name]
    found = {}
    for row, sample in enumerate(data.samples):
        if sample.shot == "shot2":
            points = data.truth.points[row, slot, :2].astype(np.float64) / sample.pixel_scale
            found[sample.frame] = points - points.mean(axis=0)
    return found


def test_a_shot_mined_later_with_the_sheet_has_the_same_points(character: Character, tmp_path: Path) -> None:
    order = MineOptions((character.roto(1),), tmp_path / "one", plates=character.plates)
    mine(order)
    both = MineOptions((character.roto(1), character.roto(2)), tmp_path / "both", plates=character.plates)
    sheet = tmp_path / "one" / "sheet.yaml"
    mine(replace(both, sheet=sheet))
    _turned_round(character)
    mine(MineOptions((character.roto(2),), tmp_path / "later", plates=character.plates, sheet=sheet))
    for name in ("mouth", "eye_left", "seam"):
        first, later = (_plate_points(read_dataset(tmp_path / each), name) for each in ("both", "later"))
        off = [np.linalg.norm(first[frame] - later[frame], axis=1).max() for frame in later]
        assert np.median(off) < 1.5, name
