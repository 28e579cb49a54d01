"""The same anatomy in every frame: whatever the artist's start, direction and number of points."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.revectorise.correspondence import find_correspondence
from rotopaint_ai.shapes.revectorise.point_tracks import find_tracks
from rotopaint_ai.shapes.revectorise.raw_curves import N_PLACES, RawCurves, sample_curves, shares_at

from . import conftest as hero

Array = npt.NDArray[np.float64]


def _raw(name: str, shot: int, **how: object) -> list[Array]:
    return [hero.drawn(name, frame, shot, **how) for frame in hero.FRAMES]


def _slide(curves: RawCurves, shares_FN: Array, name: str, shots: list[int], frames: list[int]) -> Array:
    """The distance in px of each true point of a shape from its interpolation between its registered neighbours."""
    places = []
    for row, (shot, frame) in enumerate(zip(shots, frames)):
        true = hero.outline(name, np.arange(8) / 8 + 0.05, frame, shot)
        away = np.linalg.norm(curves.samples_FMC[row][None] - true[:, None], axis=2)
        m = curves.samples_FMC.shape[1]
        share = away.argmin(axis=1) / (m if curves.closed else m - 1)
        low = shares_FN[row, 0]
        share = low + np.mod(share - low, 1.0) if curves.closed else share
        places.append(np.interp(share, shares_FN[row], np.arange(N_PLACES + 1) / N_PLACES))
    turned = np.exp(2j * np.pi * np.array(places))
    middle = np.angle(np.median(turned.real, axis=0) + 1j * np.median(turned.imag, axis=0))
    off = np.mod(np.angle(turned) - middle + np.pi, 2 * np.pi) - np.pi
    return np.asarray(np.abs(off) / (2 * np.pi) * curves.lengths[:, None])


def _both_shots(name: str) -> tuple[list[Array], Array, list[int], list[int]]:
    first = _raw(name, 1, n_points=9)
    second = _raw(name, 2, n_points=11, start=0.37, backwards=True)
    shots = [1] * len(first) + [2] * len(second)
    return [*first, *second], np.array(shots), shots, [*hero.FRAMES, *hero.FRAMES]


def test_places_agree_over_starts_directions_and_counts() -> None:
    raw, shot_rows, shots, frames = _both_shots("mouth")
    found = find_tracks(raw, True, shot_rows, np.ones(len(raw), complex))
    curves = sample_curves(found.raw, True, groups=found.groups)
    face = curves.samples_FMC / 160.0
    stepped = find_correspondence(curves, face, np.zeros((len(raw), 0, 2)), groups=found.groups)
    assert stepped.backwards[:10].all() != stepped.backwards[10:].all()
    slide = _slide(stepped.curves, stepped.shares_FN, "mouth", shots, frames)
    assert np.median(slide) < 0.6
    assert np.quantile(slide, 0.95) < 2.5  # on a curve about 110 px long whose height changes threefold


def test_landmarks_on_the_curve_are_met() -> None:
    raw, shot_rows, shots, frames = _both_shots("mouth")
    found = find_tracks(raw, True, shot_rows, np.ones(len(raw), complex))
    curves = sample_curves(found.raw, True, groups=found.groups)
    marks = np.array([hero.outline("mouth", np.array([0.0, 0.25, 0.5, 0.75]), f, s) for s, f in zip(shots, frames)])
    marks[3, 2] = np.nan  # hidden in one frame: its track fills the gap
    stepped = find_correspondence(curves, curves.samples_FMC / 160.0, marks / 160.0, groups=found.groups)
    assert np.isfinite(stepped.anchor_shares).all()
    at = stepped.curves.at(stepped.at(stepped.anchor_shares))
    away = np.linalg.norm(at - marks, axis=2)
    assert np.nanmax(away) < 0.25
    true = hero.outline("mouth", np.array([0.5]), frames[3], shots[3])[0]
    assert np.linalg.norm(at[3, 2] - true) < 1.0


def test_points_put_in_another_order_are_put_back() -> None:
    raw = _raw("mouth", 1, n_points=9)
    raw[4] = np.roll(raw[4], 3, axis=0)
    raw[6] = bezier.reverse(raw[6], True)
    found = find_tracks(raw, True, np.zeros(10, np.intp), np.ones(10, complex))
    assert set(found.groups) == {0}
    assert [(twist.row, twist.backwards) for twist in found.twists] == [(4, False), (6, True)]
    np.testing.assert_allclose(found.raw[4], _raw("mouth", 1, n_points=9)[4])
    np.testing.assert_allclose(found.raw[6], _raw("mouth", 1, n_points=9)[6])


def test_inconsistent_points_make_no_track() -> None:
    rng = np.random.default_rng(1)
    raw = [hero.drawn("mouth", frame, 1, n_points=9, start=float(rng.random())) for frame in hero.FRAMES]
    tilted = [points @ np.kron(np.eye(3), _turn(rng.uniform(0, 6.3))) for points in raw]
    found = find_tracks(tilted, True, np.zeros(10, np.intp), np.ones(10, complex))
    assert len(set(found.groups)) == 10


def _turn(angle: float) -> Array:
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def test_shares_beyond_a_turn_carry_over() -> None:
    grid = np.arange(N_PLACES + 1)[None] / N_PLACES + 0.25
    np.testing.assert_allclose(shares_at(grid, np.array([-0.5, 0.0, 0.5, 1.5])), [[-0.25, 0.25, 0.75, 1.75]])
