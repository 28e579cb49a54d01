"""What a hold's picture shows: where marks are looked for in it, and how far off a seam that it shows may be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from rotopaint_ai.crops import Crop
from rotopaint_ai.landmarks.shared_marks import FACE_PX
from rotopaint_ai.pipeline import head_solve
from rotopaint_ai.pipeline.head_solve import SHARP, mark_picture
from rotopaint_ai.seams.placement import SeamLook, Sighting
from rotopaint_ai.shapes.samples import spline_points


def look(crop: Crop) -> SeamLook:
    """A ramp from left to right, 60 x 40 pixels with two per plate pixel, whose corner is at (100, 200)."""
    grey = np.tile(np.linspace(0, 1, 60, dtype=np.float16), (40, 1))
    return SeamLook(grey, 100, 200, 2.0, np.zeros((8, 8, 3), np.uint8), crop)


def test_marks_are_looked_for_in_the_crop() -> None:
    found = mark_picture(look(Crop(115.0, 208.0, 10.0)), FACE_PX / 2)  # a face that is as large as is wanted
    assert found.corner == 110 + 203j
    assert found.picture.shape == (20, 20)
    np.testing.assert_allclose(found.scale, [2.0, 2.0])
    ramp = np.linspace(0, 1, 60)[20:40]
    np.testing.assert_allclose(found.picture[0], 255 * ramp / ramp[-1], atol=2)


@pytest.mark.parametrize(
    ("x", "y", "shape"), [(115.0, 900.0, (1, 20)), (900.0, 208.0, (20, 1)), (90.0, 190.0, (20, 20))]
)
def test_a_crop_outside_the_look_has_the_nearest_of_its_pixels(x: float, y: float, shape: tuple[int, int]) -> None:
    assert mark_picture(look(Crop(x, y, 10.0)), FACE_PX / 2).picture.shape == shape


def test_observations_are_weighted_by_deviation_and_visibility() -> None:
    """A straight line of 30 px that is seen 2 px beside its position, in a face of 1,000 px."""
    line = spline_points(np.array([[0.0, 0, 0, 0, 10, 0], [30.0, 0, -10, 0, 0, 0]]))[None]
    at = np.linspace(0, 1, 5)
    seen = Sighting(at, np.full(5, 2.0), np.full(5, 0.8), np.ones(5))
    shot = cast(Any, SimpleNamespace(face_px_H=np.array([1000.0])))
    (found,) = head_solve._seen_curves(shot, [line], [[seen]])
    np.testing.assert_allclose(found.far_px, np.hypot(0.8, SHARP * 1000))
    np.testing.assert_allclose(np.abs(found.at.imag), 2.0)
