"""Landmarks that are only numbered control points are compared where the numbers mean the same."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet
from rotopaint_ai.training.data.dataset import Dataset, Truth
from rotopaint_ai.training.evaluation.predictions import _match


def _sheet(
    on: Mapping[int, str], n_points: int, marks: tuple[str, ...] = ("eye", "nose", "chin"), name: str = "face"
) -> Sheet:
    names = dict.fromkeys((*marks, *on.values()))
    shape = ShapeSpec(name, True, n_points, "matte", dict(on), tuple(names))
    return Sheet("pip", tuple(LandmarkSpec(name) for name in names), (shape,))


def _data(sheet: Sheet) -> Dataset:
    truth = Truth(*(np.zeros((0, 1, 2), np.float32) for _ in Truth.__dataclass_fields__))
    return Dataset("pip", "none", sheet, (), (), truth)


def test_numbered_points_of_another_layout_are_not_compared() -> None:
    ours = _sheet({4: "face_p4", 0: "eye"}, 22)
    assert _match(ours, _data(ours), "pack").missing == ()
    assert _match(ours, _data(_sheet({4: "face_p4", 0: "eye"}, 20)), "pack").missing == ("face_p4",)
    assert _match(ours, _data(_sheet({4: "face_p4", 1: "eye"}, 22)), "pack").missing == ("face_p4",)


def test_landmarks_of_a_source_are_compared_with_or_without_shapes_on_them() -> None:
    ours = _sheet({0: "face_0", 3: "face_3"}, 22)
    assert _match(ours, _data(_sheet({0: "face_0", 2: "face_3"}, 12)), "pack").missing == ()


def test_a_set_of_numbered_points_alone_wants_the_packs_own_layout() -> None:
    own = {point: f"face_{point}" for point in (0, 3, 6)}
    ours = _sheet(own, 8, marks=())
    assert _match(ours, _data(ours), "pack").missing == ()
    assert _match(ours, _data(_sheet(own, 9, marks=())), "pack").missing == tuple(own.values())


def test_what_shares_neither_landmarks_nor_shapes_is_refused() -> None:
    other = _sheet({0: "mask_0"}, 9, marks=(), name="mask")
    with pytest.raises(TrainingError, match=r"no shape and 0 landmarks in common .*mine --sheet DATASET/sheet\.yaml"):
        _match(_sheet({0: "face_0"}, 8, marks=()), _data(other), "pack")
