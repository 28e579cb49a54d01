"""Samples of two curves side by side, also where the curves fold."""

from __future__ import annotations

import numpy as np

from rotopaint_ai.shapes.alignment import align_samples


def fold(tip: float, n: int) -> np.ndarray[tuple[int], np.dtype[np.complex128]]:
    """A curve that runs up to a tip and down again, one pixel beside itself."""
    up = np.linspace(0, tip, n)
    return np.concatenate([1j * up, 1 + 1j * up[::-1]])


def test_a_curve_lies_beside_itself() -> None:
    curve = fold(20.0, 30)[None]
    np.testing.assert_array_equal(align_samples(curve, curve)[0], np.arange(60))


def test_each_hold_is_aligned_by_itself() -> None:
    one = np.stack([fold(20.0, 30), fold(12.0, 30)])
    other = np.stack([fold(14.0, 30), fold(19.0, 30)])
    both = align_samples(one, other)
    for k in range(2):
        np.testing.assert_array_equal(both[k], align_samples(one[k : k + 1], other[k : k + 1])[0])


def test_a_fold_that_reaches_further_draws_the_tip() -> None:
    short, far = fold(10.0, 40), fold(14.0, 40)
    near = align_samples(short[None], far[None])[0]
    assert far[near[39:41]].imag.min() > 11.5  # in the middle of what lies beyond; the nearest samples are at 10
    nearest = abs(short[:, None] - far).argmin(axis=1)
    assert far[nearest].imag.max() < 10.5


def test_the_other_side_of_a_fold_is_no_neighbour() -> None:
    """Half a pixel to the side, the nearest samples of the way up are those of the way down."""
    curve, moved = fold(20.0, 40), fold(20.0, 40) + 0.8
    near = align_samples(curve[None], moved[None])[0]
    assert near[:36].max() < 40
    assert near[44:].min() >= 40
    assert (np.diff(near) >= 0).all()


def test_ends_of_the_other_curve_are_free() -> None:
    line, longer = (np.arange(*ends).astype(np.complex128) / 2 for ends in ((0, 21), (-10, 31)))
    np.testing.assert_array_equal(align_samples(line[None], longer[None])[0], np.arange(10, 31))
    beside = align_samples(longer[None], line[None])[0]
    np.testing.assert_array_equal(beside[[0, 9, 31, 40]], [0, 0, 20, 20])
