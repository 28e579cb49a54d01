"""Bright gaps between smooth banks are removed; lines that are also bright beside the seam stay."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.seams import bank_fill, cleanplate, glint, visibility

from . import synthetic_seams


def ribbon(bright: float, texture: float) -> tuple[np.ndarray, np.ndarray]:
    """A smooth ribbon of log light with a bright line along its middle, and other lines of another height
    everywhere."""
    far = np.zeros((31, 120), np.float32)
    far[::5] += np.float32(texture)
    far[15] += np.float32(bright)
    hole = np.zeros(far.shape, bool)
    hole[10:21] = True
    return far, hole


def test_a_line_between_smooth_banks_is_found_and_nothing_else() -> None:
    far, hole = ribbon(0.05, 0.001)
    found = glint.lines(far, hole)
    assert found is not None
    assert (found[14:17] == 1.0).all()
    assert not found[:14].any()
    assert not found[17:].any()


@pytest.mark.parametrize(("bright", "texture"), [(0.0, 0.001), (0.0, 0.015), (0.3, 0.1), (-0.3, 0.001)])
def test_lines_like_those_beside_it_and_dark_ones_are_face(bright: float, texture: float) -> None:
    assert glint.lines(*ribbon(bright, texture)) is None


def test_a_bright_gap_in_smooth_skin_cannot_be_seen_any_more() -> None:
    line = synthetic_seams.curve()
    rows, columns = np.mgrid[: synthetic_seams.SIZE[0], : synthetic_seams.SIZE[1]]
    clean = np.stack([0.4 + 0.0006 * rows, 0.3 + 0.0004 * columns, 0.25 + 0.0 * rows], 2).astype(np.float32)
    plate = clean * (2.0 - synthetic_seams.groove(line, depth=0.35, gap=2.0))
    out = cleanplate.fill(plate, synthetic_seams.matte(line, 6.0), [(line, 6.0)], "two-bank")
    before, after = (visibility.score(x, [(line, 5.0)]) for x in (plate, out))
    assert after < 0.15 * before


@pytest.mark.parametrize("wide", [6.0, 0.0])
@pytest.mark.parametrize("place", [(80, 48), (110, 48)])
def test_a_bright_spot_is_removed_where_seams_meet_and_kept_elsewhere(place: tuple[int, int], wide: float) -> None:
    """Two seams cross at (80, 48); three pixels of light, five times the face's, stand there or on one of them.

    The other seam's matte may be hidden: its curve is a short piece in the first one's.
    """
    lines = synthetic_seams.curve(bend=0.0), np.stack([np.full(61, 80.0), np.linspace(15.0, 80.0, 61)], 1)
    clean = np.full((*synthetic_seams.SIZE, 3), 0.3, np.float32)
    gleam = clean.copy()
    gleam[place[1] - 1 : place[1] + 2, place[0] - 1 : place[0] + 2] = 1.5
    holes = np.maximum(synthetic_seams.matte(lines[0], 6.0), synthetic_seams.matte(lines[1], wide) if wide else 0.0)
    scene = bank_fill.straighten(gleam, holes > 0, [(line, 6.0) for line in lines])
    assert scene is not None
    y, x = (
        place[1] * scene.ribbon.size[0] // synthetic_seams.SIZE[0],
        place[0] * scene.ribbon.size[1] // synthetic_seams.SIZE[1],
    )
    fields = np.zeros((*scene.ribbon.size, 4), np.float32)
    fields[..., 3] = scene.ribbon.cover > 0  # paint that keeps the whole plate
    bank_fill._dim_spots(fields, scene)
    light = fields[y, x, :3] + np.log(scene.small[y, x, :3] + scene.floor)
    assert np.exp(light) - scene.floor == pytest.approx(0.3 if place == (80, 48) else 1.5, rel=0.05)


def test_few_clear_pixels_do_not_tell_how_bright_the_face_is() -> None:
    """In a wide matte the nearest clear pixels may lie in shadow; a limit from them would leave a dark square."""
    rgb, hole = np.full((61, 61, 3), 0.5, np.float32), np.ones((61, 61), bool)
    rgb[:, 20:24], hole[:, 20:24] = 0.02, False
    light = np.log(rgb + np.float32(0.01))
    assert not glint.excess(light, rgb, hole, 0.01).any()
    hole[:, 32:] = False
    rgb[:, 32:] = 0.02
    assert glint.excess(light, rgb, hole, 0.01)[30, 25:31].min() > 2.0
