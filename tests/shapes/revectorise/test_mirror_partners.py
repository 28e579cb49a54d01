"""Landmark names that are mirror partners."""

from __future__ import annotations

import numpy as np

from rotopaint_ai.shapes.revectorise.mirror_partners import other_side, partners


def test_names_tell_left_from_right() -> None:
    names = ["brow_left_1", "brow_right_1", "L_eye", "R_eye", "eyeLeft", "eyeRight", "upright_left"]
    assert other_side("brow_left_1", names) == "brow_right_1"
    assert other_side("R_eye", names) == "L_eye"
    assert other_side("eyeLeft", names) == "eyeRight"
    assert other_side("upright_left", names) is None


def test_places_tell_what_names_do_not() -> None:
    names = ["jaw_0", "jaw_1", "jaw_2", "nose"]
    places = np.array([[-0.4, 0.1], [0.0, 0.5], [0.41, 0.12], [0.01, 0.0]])
    assert partners(names, places) == {"jaw_0": "jaw_2", "jaw_2": "jaw_0", "jaw_1": "jaw_1", "nose": "nose"}
