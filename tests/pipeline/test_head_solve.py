"""What a hold's picture shows: where marks are looked for in it, and how far off a seam that it shows may be."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from rotopaint_ai.crops import Crop
from rotopaint_ai.landmarks.shared_marks import FINE, SharedMarks
from rotopaint_ai.pipeline import head_solve
from rotopaint_ai.pipeline.head_solve import (
    DIFFUSE,
    SHARP,
    ShotObservations,
    mark_picture,
    solve_cameras,
    solve_new_head,
)
from rotopaint_ai.seams.placement import SeamLook, Sighting
from rotopaint_ai.shapes.head_bundle import HeadBuild
from rotopaint_ai.shapes.head_cameras import Cameras, rotations
from rotopaint_ai.shapes.head_poses import head_poses
from rotopaint_ai.shapes.rigid_head import KnownCurve
from rotopaint_ai.shapes.samples import spline_points


def look(crop: Crop) -> SeamLook:
    """A ramp from left to right, 60 x 40 pixels with two per plate pixel, whose corner is at (100, 200)."""
    grey = np.tile(np.linspace(0, 1, 60, dtype=np.float16), (40, 1))
    return SeamLook(grey, 100, 200, 2.0, np.zeros((8, 8, 3), np.uint8), crop)


def test_marks_are_looked_for_in_the_crop() -> None:
    found = mark_picture(look(Crop(115.0, 208.0, 10.0)), FINE.face_px / 2, FINE)  # a face that is as large as is wanted
    assert found.corner == 110 + 203j
    assert found.picture.shape == (20, 20)
    np.testing.assert_allclose(found.scale, [2.0, 2.0])
    ramp = np.linspace(0, 1, 60)[20:40]
    np.testing.assert_allclose(found.picture[0], 255 * ramp / ramp[-1], atol=2)


@pytest.mark.parametrize(
    ("x", "y", "shape"), [(115.0, 900.0, (1, 20)), (900.0, 208.0, (20, 1)), (90.0, 190.0, (20, 20))]
)
def test_a_crop_outside_the_look_has_the_nearest_of_its_pixels(x: float, y: float, shape: tuple[int, int]) -> None:
    assert mark_picture(look(Crop(x, y, 10.0)), FINE.face_px / 2, FINE).picture.shape == shape


def test_observations_are_weighted_by_deviation_and_visibility() -> None:
    """A straight line of 30 px that is seen 2 px beside its position, in a face of 1,000 px."""
    line = spline_points(np.array([[0.0, 0, 0, 0, 10, 0], [30.0, 0, -10, 0, 0, 0]]))[None]
    at = np.linspace(0, 1, 5)
    seen = Sighting(at, np.full(5, 2.0), np.full(5, 0.8), np.ones(5))
    shot = cast(Any, SimpleNamespace(face_px_H=np.array([1000.0])))
    (found,) = head_solve._seen_curves(shot, [line], [[seen]])
    np.testing.assert_allclose(found.far_px, np.hypot(0.8, SHARP * 1000))
    np.testing.assert_allclose(np.abs(found.at.imag), 2.0)


def test_a_guess_errs_alike_along_its_curve_and_weighs_less_than_its_deviation_says() -> None:
    at, sharp_px = np.linspace(0, 1, 5), 0.3
    deviations = np.array([0.1, DIFFUSE * sharp_px, 8.0])
    found = [Sighting(at, np.zeros(5), np.full(5, each), np.ones(5)) for each in deviations]
    _, weights, far = zip(*(head_solve._at_places(each, at, sharp_px) for each in found))
    clear, guess, wild = np.array(weights)[:, 2] * np.array(far)[:, 2] ** 2
    assert guess < 0.6 * clear
    assert wild < 0.02 * clear


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("is_known", [True, False])
def test_marks_that_holds_share_tie_the_cameras_together(
    is_known: bool, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Landmarks and curves of every other hold are wrong alike; where a picture is missing nothing corrects them."""
    n_holds, draw = 12, np.random.default_rng(5)
    k = np.arange(n_holds)
    turn = rotations(np.stack([0.2 * np.cos(k), 0.3 * np.sin(k), 0.0 * k], axis=1))
    cameras = Cameras(np.full(n_holds, 80.0), turn, draw.uniform(190, 210, (n_holds, 2)))
    head = draw.uniform((-1, -1, -0.6), (1, 1, 0), (16, 3))
    seam = np.array([(x, 0.4, -0.3) for x in (-0.8, 0.0, 0.8, -0.9, -0.1, 0.7, -0.7, 0.1, 0.9)])
    spots = cameras.see(draw.uniform((-1, -1, -0.6), (1, 1, 0), (80, 3)))
    mark, hold = np.nonzero(draw.random((80, n_holds)) < 0.5)
    wrong = np.where(k % 2 == 0, 0.0, 4.0)[:, None]
    true = cameras.see(seam)
    known = KnownCurve.of(true + wrong, np.full(n_holds, 3.0), np.zeros(n_holds, bool), true + wrong)
    points = cameras.see(head) + wrong
    shot = ShotObservations(
        head_poses(points),
        points,
        np.full(points.shape, 4.0),
        [known],
        np.full(n_holds, 200.0),
        np.zeros((n_holds, 1), bool),
    )
    monkeypatch.setattr(head_solve, "shared_marks", lambda *found: SharedMarks(mark, hold, spots[hold, mark], 80))
    monkeypatch.setattr(head_solve, "sight", lambda seams, *how: [None] * len(seams))
    seen = lambda hold: look(Crop(115.0, 208.0, 10.0)) if is_read or hold else None  # noqa: E731
    evidence = cast(Any, SimpleNamespace(zooms=(1, 2)))
    with ThreadPoolExecutor(1) as pool:
        if is_known:
            found = solve_cameras(shot, np.concatenate([head, seam]), np.zeros(16), seen, evidence, pool)
        else:
            found = solve_new_head(shot, HeadBuild(None, (), ()), seen, evidence, pool)
    off = abs(found.head.splines()[0] - true).mean(axis=1)
    assert (np.ptp(off) < (1.5 if is_known else 2.5)) == is_read
    assert (np.ptp(off) > 3) != is_read
    assert (found.facts.shared is not None) == is_read
