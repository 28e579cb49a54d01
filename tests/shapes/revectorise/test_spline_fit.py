"""Splines fitted to raw curves: against closed forms, and against the published re-vectorisation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from rotopaint_ai.exchange.puppet_folder import from_relative_segments
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.revectorise.raw_curves import RawCurves, reverse_where, sample_curves
from rotopaint_ai.shapes.revectorise.spline_fit import PointLayout, fit_curves

Array = npt.NDArray[np.float64]


def _circle(radius: float, n_points: int) -> Array:
    """Control points of a circle about (200, 150); n cubics deviate from the radius by at most 2 (pi / 2n)^6 / 27 of
    it."""
    angle = 2 * np.pi * np.arange(n_points) / n_points
    reach = radius * 4 / 3 * np.tan(np.pi / 2 / n_points)
    tangent = np.stack((-np.sin(angle), np.cos(angle)), axis=1) * reach
    place = np.array([200.0, 150.0]) + radius * np.stack((np.cos(angle), np.sin(angle)), axis=1)
    return np.concatenate((place, -tangent, tangent), axis=1)


def _smooth(n: int) -> npt.NDArray[np.bool_]:
    return np.zeros(n, dtype=bool)


def test_four_points_follow_a_circle_as_well_as_four_cubics_can() -> None:
    raw = sample_curves([_circle(50.0, 9)], True)
    layout = PointLayout(True, _smooth(4), np.inf)
    points = fit_curves(raw, np.array([[0.1, 0.35, 0.6, 0.85]]), layout)[0]
    away = np.hypot(*(bezier.sample(points, True, per_segment=50) - np.array([200.0, 150.0])).T) - 50.0
    assert np.abs(away).max() < 50.0 * 2.8e-4  # the best possible error of four cubics is 2.73e-4 of the radius
    tangents = points[:, 2:4] + points[:, 4:6]
    assert np.abs(tangents).max() < 0.3  # both tangents of a point on one line, equal by symmetry


def test_a_spline_is_found_again_from_its_own_curve() -> None:
    own = np.array(
        [[10.0, 40, -8, 6, 12, -9], [60, 20, -10, -2, 15, 3], [90, 55, 2, -14, -2, 14], [40, 80, 12, 4, -15, -5]]
    )
    raw = sample_curves([own], True, n_samples=4096)
    cubic = bezier.arc_lengths(bezier.flatten(own, True, 0.0005), True)[-1]
    spans = [bezier.length(bezier.from_segments(each[None], False), False) for each in bezier.segments(own, True)]
    shares = np.concatenate(([0.0], np.cumsum(spans)[:-1])) / cubic
    points = fit_curves(raw, shares[None], PointLayout(True, np.ones(4, bool), np.inf))[0]
    assert bezier.curve_distance(points, own, True)[1] < 0.05
    np.testing.assert_allclose(points[:, :2], own[:, :2], atol=0.01)
    np.testing.assert_allclose(
        points[:, 2:], own[:, 2:], atol=1.0
    )  # the curve determines the length of a tangent only loosely


def test_a_corner_keeps_two_directions_and_open_ends_have_one_tangent() -> None:
    own = np.array([[0.0, 0, 0, 0, 20, 0], [60, 0, -20, 0, 0, 20], [60, 60, 0, -20, 0, 0]])
    raw = sample_curves([own], False)
    corner = PointLayout(False, np.array([False, True, False]), np.inf)
    points = fit_curves(raw, np.array([[0.0, 0.5, 1.0]]), corner)[0]
    assert bezier.curve_distance(points, own, False)[1] < 0.15
    assert abs(points[1, 2:4] @ points[1, 4:6]) < 0.02 * np.prod(np.linalg.norm(points[1].reshape(3, 2)[1:], axis=1))
    assert not points[0, 2:4].any()
    assert not points[-1, 4:6].any()


def test_the_hand_s_noise_is_not_followed() -> None:
    rng = np.random.default_rng(3)
    true = _circle(60.0, 24)
    noisy = [true + np.pad(rng.normal(0, 0.4, (24, 2)), ((0, 0), (0, 4))) for _ in range(20)]
    raw = sample_curves(noisy, True)
    shares = np.tile(np.arange(4) / 4, (20, 1))
    points = fit_curves(raw, shares, PointLayout(True, _smooth(4)))
    new = np.mean([bezier.curve_distance(each, true, True)[0] for each in points])
    old = np.mean([bezier.curve_distance(each, true, True)[0] for each in noisy])
    assert new < 0.9 * old


def test_a_curve_is_fitted_alike_among_others_and_alone() -> None:
    """Each fit converges after its own number of steps and is not affected by its neighbours."""
    rng = np.random.default_rng(4)
    noisy = [
        _circle(60.0, 24) + np.pad(rng.normal(0, amount, (24, 2)), ((0, 0), (0, 4))) for amount in (0.0, 0.2, 1.0, 3.0)
    ]
    layout, shares = PointLayout(True, _smooth(6)), np.arange(6)[None] / 6
    together = fit_curves(sample_curves(noisy, True), np.repeat(shares, 4, 0), layout)
    alone = [fit_curves(sample_curves([each], True), shares, layout)[0] for each in noisy]
    np.testing.assert_allclose(together, alone, atol=1e-6)


AUTHORS = ("left_eye", "right_eye", "left_eyebrow", "right_eyebrow", "left_sideburn", "right_sideburn")


def _shares_on(raw: RawCurves, points: Array) -> tuple[RawCurves, Array]:
    """The curve in the direction of the points, and their positions on it, ascending."""
    for _ in range(2):
        away = np.linalg.norm(raw.samples_FMC[0][None] - points[:, None], axis=2)
        place = away.argmin(axis=1) / raw.samples_FMC.shape[1]
        steps = np.mod(np.diff(place, append=place[:1]), 1.0)
        if steps.sum() < 1.5:
            break
        raw = replace(raw, samples_FMC=reverse_where(raw.samples_FMC, np.array([True]), raw.closed))
    return raw, place[0] + np.concatenate(([0.0], np.cumsum(steps[:-1])))


def _one_more(raw: RawCurves, shares: Array) -> float:
    """Mean distance with the best single point inserted in the middle of a segment."""
    ends = np.append(shares[1:], shares[0] + 1)
    layout = PointLayout(True, _smooth(len(shares) + 1), np.inf)
    found = []
    for at in range(len(shares)):
        more = np.insert(shares, at + 1, (shares[at] + ends[at]) / 2)
        points = fit_curves(raw, more[None], layout)[0]
        away = bezier.distance_to_polyline(raw.samples_FMC[0, ::4], bezier.flatten(points, True), True)
        found.append(float(away.mean()))
    return min(found)


@pytest.mark.shared
def test_closer_than_the_authors_on_their_own_points(shared: Path) -> None:
    folder = shared / "data" / "sir_lionel_sample" / "shot0"
    artist = json.loads((folder / "raw_shapes-shot0-frame000.json").read_text(encoding="utf-8"))
    theirs = json.loads((folder / "revec_shapes-shot0-frame000.json").read_text(encoding="utf-8"))
    first = 0
    for name in AUTHORS:
        own = from_relative_segments(artist[name], where=name)
        authors = from_relative_segments(theirs[name], where=name)
        n = len(authors)
        marks = np.array(theirs["points"][first : first + n])
        first += n
        raw, shares = _shares_on(sample_curves([own], True, n_samples=4096), marks)
        points = fit_curves(raw, shares[None], PointLayout(True, _smooth(n), np.inf))[0]
        np.testing.assert_allclose(points[:, :2], marks, atol=0.1)  # the spacing of the samples
        mean, most = bezier.curve_distance(points, own, True, spacing=0.25)
        their_mean, their_most = bezier.curve_distance(authors, own, True, spacing=0.25)
        more = _one_more(raw, shares)
        print(
            f"{name}: {mean:.3f} / {most:.2f} px, authors {their_mean:.3f} / {their_most:.2f}, a point more {more:.3f}"
        )
        assert mean < their_mean
        assert most < their_most
        assert min(mean, more) <= 0.25
