"""Seams move to the crease nearby, and stay where none is visible."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from rotopaint_ai.crops import Crop
from rotopaint_ai.seams.path import N_OFFSETS, OFFSETS, StripReading, slide, smooth_path
from rotopaint_ai.seams.placement import (
    ACROSS,
    ALONG,
    MULTIPLE,
    PICTURE_PX,
    CurvePlaces,
    Evidence,
    PlacedSeam,
    Seam,
    SeamLook,
    _parabola_top,
    look,
    place,
    places_along,
    read_strips,
    unseen_third,
)
from rotopaint_ai.shapes.bezier import curve_distance, flatten

from .synthetic_seams import Sees

Array = npt.NDArray[Any]

FACE_PX = 240.0
CREASE = np.array(
    [
        [60.0, 150.0, 0.0, 0.0, 25.0, 18.0],
        [150.0, 165.0, -30.0, 8.0, 30.0, -8.0],
        [240.0, 140.0, -25.0, 15.0, 0.0, 0.0],
    ]
)


def moved(points: Array, dx: float, dy: float) -> Array:
    return points + (dx, dy, 0, 0, 0, 0)


def shaded(size: int = 300) -> Array:
    y, x = np.mgrid[0:size, 0:size].astype(np.float32) / size
    grain = np.random.default_rng(3).normal(0, 0.003, (size, size))
    return (0.35 + 0.15 * x - 0.1 * y**2 + grain).astype(np.float32)


def drawn(grey: Array, points: Array, *, depth: float = 0.12, width_px: float = 2.5) -> Array:
    """A dark line with a Gaussian profile along a spline, in pixel-centre coordinates."""
    line = flatten(points, False)
    y, x = np.mgrid[0 : grey.shape[0], 0 : grey.shape[1]] + 0.5
    away = np.full(grey.shape, np.inf)
    for a, b in zip(line[:-1:4], line[4::4]):
        along = np.clip(((x - a[0]) * (b - a)[0] + (y - a[1]) * (b - a)[1]) / ((b - a) ** 2).sum(), 0, 1)
        away = np.minimum(away, np.hypot(x - a[0] - along * (b - a)[0], y - a[1] - along * (b - a)[1]))
    return np.asarray(grey - depth * np.exp(-0.5 * (away / (width_px / 2)) ** 2), dtype=np.float32)


def seen(grey: Array, evidence: Evidence | None = None) -> SeamLook:
    rgb = np.repeat(grey[..., None], 3, axis=2)
    return look(rgb, 0, 0, Crop(150, 150, 300), lambda linear: np.sqrt(np.clip(linear, 0, 1)), evidence)


@pytest.mark.parametrize(
    ("ends", "unseen", "said"),
    [
        (((0, 0), (90, 10)), (0.9, 0.1, 0.2), "left third"),
        (((90, 10), (0, 0)), (0.9, 0.1, 0.2), "right third"),
        (((0, 0), (10, 90)), (0.0, 0.1, 0.5), "lower third"),
        (((10, 90), (0, 0)), (0.0, 0.1, 0.5), "upper third"),
        (((0, 0), (10, 90)), (0.0, 0.7, 0.2), "middle third"),
        (((0, 0), (10, 90)), (0.0, 0.25, 0.5), ""),  # two thirds are hardly visible
        (((0, 0), (10, 90)), (0.0, 0.0, 0.2), ""),
        (((0, 0), (10, 90)), (), ""),  # not measured
    ],
)
def test_the_third_that_is_least_seen_is_named_as_the_picture_shows_it(
    ends: tuple[tuple[float, float], ...], unseen: tuple[float, ...], said: str
) -> None:
    points = np.array([(*end, 0, 0, 0, 0) for end in ends], float)
    assert unseen_third(PlacedSeam(points, 0.8, 0.0, 1.0, unseen)) == said


def placed(grey: Array, points: Array, evidence: Evidence | None = None, error: float = 2.0) -> PlacedSeam:
    return place([Seam(points, 6.0, error)], seen(grey, evidence), FACE_PX, evidence)[0]


def _at_line(rows: Array) -> Array:
    """The dark offsets of each position, as a network would output them."""
    light = rows.mean(axis=3)[:, 0::2] + rows.mean(axis=3)[:, 1::2]
    dark = np.median(light, axis=2, keepdims=True) - light
    seam = np.where(dark > 2, 3 * dark, -20.0)
    return np.concatenate([seam, np.full((*dark.shape[:2], 1), 5.0)], axis=2).astype(np.float32)


def _nothing(rows: Array) -> Array:
    logits = np.zeros((1, rows.shape[1] // 2, N_OFFSETS + 1), np.float32)
    logits[..., -1] = 9.0
    return logits


at_line, nothing, in_zooms = Sees(_at_line), Sees(_nothing), Sees(_at_line, (1, 2))


def test_the_top_between_offsets_is_that_of_the_parabola() -> None:
    """Parabolas with tops at 0.3 and -0.45 of a step from the middle of five; at the rim the offset itself."""
    offsets = np.array([-4.0, -2.0, 0.0, 2.0, 4.0])
    rows = -((np.arange(5) - 2 - np.array([[0.3], [-0.45], [2.2]])) ** 2)
    found = _parabola_top(rows, np.array([2, 2, 4]), offsets, 2.0)
    assert found == pytest.approx([0.6, -0.9, 4.0])


@pytest.mark.parametrize("dy", [-2.0, 0.0, 1.5])
def test_a_near_line_is_found_without_a_network(dy: float) -> None:
    grey = drawn(shaded(), CREASE)
    found = placed(grey, moved(CREASE, 0.0, dy))
    assert curve_distance(found.points, CREASE, False)[0] < 0.3
    assert found.seen > 0.8
    assert found.expected_error_px < 2.0


def test_a_stronger_line_farther_away_is_not_taken() -> None:
    grey = drawn(drawn(shaded(), CREASE), moved(CREASE, 0, 11.0), depth=0.25)
    assert curve_distance(placed(grey, moved(CREASE, 0, 1.5)).points, CREASE, False)[0] < 0.3


@pytest.mark.parametrize("evidence", [None, nothing])
def test_without_evidence_a_seam_does_not_move(evidence: Evidence | None) -> None:
    points = moved(CREASE, 0, 2.0)
    flat = np.full((300, 300), 0.4, np.float32)
    found = placed(flat, points, evidence)
    assert np.array_equal(found.points, points)
    assert (found.moved_px, found.expected_error_px) == (0.0, 2.0)


def test_a_network_reaches_farther_and_the_plate_settles_the_rest() -> None:
    grey = drawn(shaded(), CREASE)
    found = placed(grey, moved(CREASE, 1.0, 9.0), at_line, error=9.0)
    assert curve_distance(found.points, CREASE, False)[0] < 0.5
    assert found.moved_px == pytest.approx(9.0, abs=1.0)
    assert found.expected_error_px < 4.5


def test_features_of_the_crop_show_what_a_strip_does_not() -> None:
    """A network whose fifth feature alone shows the seam, in a flat picture."""
    ridge = -drawn(np.zeros((300, 300), np.float32), CREASE, depth=1.0)

    def describe(picture: Array) -> Array:
        assert picture.shape == (PICTURE_PX, PICTURE_PX, 3)
        small = cv2.resize(ridge, (200, 200), interpolation=cv2.INTER_AREA)
        return np.stack([np.zeros_like(small)] * 4 + [small], axis=2).astype(np.float16)

    def says(rows: Array) -> Array:
        assert rows.shape[3] == 3 + 5
        return _at_line(np.repeat(-10 * rows[..., 7:], 3, axis=3))

    found = placed(np.full((300, 300), 0.4, np.float32), moved(CREASE, 1.0, 7.0), Sees(says, (1, 2), describe), 7.0)
    assert curve_distance(found.points, CREASE, False)[0] < 0.7
    assert found.seen == 1.0


def test_a_second_finer_look_settles_what_the_first_left() -> None:
    grey = drawn(shaded(), CREASE)
    off = [
        curve_distance(placed(grey, moved(CREASE, 1.0, 9.0), sees, error=9.0).points, CREASE, False)[0]
        for sees in (at_line, in_zooms)
    ]
    assert off[1] < 0.6 * off[0]


def test_the_end_of_a_seam_is_looked_for_past_its_prediction() -> None:
    grey = drawn(shaded(), CREASE)
    short = CREASE.copy()
    short[2] = [222.0, 149.0, -22.0, 10.0, 0.0, 0.0]
    found = placed(grey, moved(short, 0, 3.0), at_line, error=6.0)
    assert np.linalg.norm(found.points[2, :2] - CREASE[2, :2]) < 8 < np.linalg.norm(short[2, :2] - CREASE[2, :2])


def test_ends_slide_to_where_places_stop_being_seen() -> None:
    seen_to = np.array([0.0] * 20 + [1.0] * 4)
    assert slide(seen_to, 4, 4.0) == 0
    assert slide(np.array([0.0] * 22 + [1.0] * 2), 4, 4.0) == 2
    assert slide(np.array([0.0] * 17 + [1.0] * 7), 4, 4.0) == 0  # too little is visible up to there
    assert slide(np.array([0.0] * 19 + [1.0] * 5), 4, 4.0) == -1
    assert slide(np.ones(24), 4, 4.0) == 0
    guess = np.array([0.0] * 20 + [0.45] * 2 + [1.0] * 2)
    assert (slide(guess, 4, 4.0), slide(guess, 4, 0.5)) == (2, 0)  # a confident prediction is not overruled by a guess


def test_seams_in_one_row_do_not_mix() -> None:
    grey = drawn(shaded(), CREASE)
    seams = [Seam(moved(CREASE, 0, 6.0), 6.0, 6.0), Seam(moved(CREASE, 0, -5.0), 6.0, 6.0)]
    both = place(seams, seen(grey), FACE_PX, at_line)
    alone = [place([seam], seen(grey), FACE_PX, at_line)[0] for seam in seams]
    for one, other in zip(both, alone):
        assert np.allclose(one.points, other.points, atol=1e-6)


def test_strips_fit_the_network() -> None:
    shapes = []

    def evidence(rows: Array) -> Array:
        shapes.append(rows.shape)
        return nothing(rows)

    place([Seam(CREASE, 6.0, 3.0)] * 3, seen(shaded()), FACE_PX, Sees(evidence))
    assert len(set(shapes)) == 1
    assert (shapes[0][0], shapes[0][1] % MULTIPLE, *shapes[0][2:]) == (1, 0, N_OFFSETS, 3)


def test_a_seam_too_short_to_judge_stays() -> None:
    points = np.array([[100.0, 100, 0, 0, 1, 0], [104.0, 100, -1, 0, 0, 0]])
    assert np.array_equal(placed(shaded(), points, at_line).points, points)


def test_a_path_follows_the_evidence_smoothly() -> None:
    true = 6 * np.sin(np.linspace(0, 3, 40))
    logits = np.concatenate([-0.5 * (OFFSETS - true[:, None]) ** 2, np.full((40, 1), -4.0)], axis=1)
    logits[17, :-1] = logits[17, ::-1][1:]  # one wrong position
    path = smooth_path(StripReading(logits, np.zeros(40)), 5.0)
    assert np.abs(path.moves - true).max() < 0.7
    assert path.seen > 0.9
    assert path.mean_error < 1.0


def test_ribbon_spaces_places_evenly_and_pairs_them() -> None:
    places = places_along(CREASE, FACE_PX / ALONG)
    assert isinstance(places, CurvePlaces)
    step = np.linalg.norm(np.diff(places.centre, axis=0), axis=1)
    assert len(places.at) % 2 == 0
    assert np.ptp(step) < 0.05 * step.mean()
    assert np.allclose(np.linalg.norm(places.pairs.normal, axis=1), 1)
    assert len(places.pairs.at) == len(places.at) // 2


def test_a_curve_turns_at_its_corner_alone() -> None:
    """A right angle whose normals point to the left, so that their angle goes from 180 to -90 degrees there."""
    angle = np.array([[0.0, 0, 0, 0, 0, 20], [0.0, 60, 0, -20, 20, 0], [60.0, 60, -20, 0, 0, 0]])
    places = places_along(angle, 2.0)
    assert places is not None
    assert places.turn.sum() == pytest.approx(np.pi / 2, rel=0.1)
    assert places.turn[np.linalg.norm(places.centre - (0, 60), axis=1) > 25].max() < 0.01
    (strip,) = read_strips([places], seen(shaded()), 1.0, Sees(at_line))
    assert strip.turn == pytest.approx(places.pairs.turn)
    assert strip.turn.max() > 0.1


def test_a_large_plate_is_looked_at_in_half() -> None:
    rgb = cv2.resize(np.repeat(drawn(shaded(), CREASE)[..., None], 3, axis=2), (1200, 1200))
    kept = look(rgb, 7, -3, Crop(607, 597, 1200), lambda linear: linear)
    assert kept.grey.shape == (600, 600)
    assert (kept.scale, kept.grey.dtype) == (0.5, np.float16)
    big = CREASE * 4 + (7, -3, 0, 0, 0, 0)
    found = place([Seam(moved(big, 0, 2.5), 20.0, 2.5)], kept, FACE_PX * 4)[0]
    assert curve_distance(found.points, big, False)[0] < 1.0


def test_offsets_are_shares_of_the_face() -> None:
    assert len(OFFSETS) == N_OFFSETS
    assert OFFSETS.mean() == 0
    assert OFFSETS[-1] / ACROSS == pytest.approx(0.122, abs=0.001)
