"""Marks on a head that several holds of a shot show: hairs, freckles, brush strokes, corners of eyes.

Scale-invariant features (SIFT, Lowe 2004; compared by the roots of their descriptors, Arandjelovic and Zisserman 2012)
are detected in each hold and matched between holds of similar views, near the position that the landmarks' motion
predicts. Features matched in three or more holds form a mark.
H holds, L landmarks, O observations of marks. Complex x + iy in the plate, pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Complex = NDArray[Any]
Numbers = NDArray[np.intp]

# Chosen on training shots of two puppets that the shipped pack never saw and on four rendered shots.
LARGEST_GROWTH = 2.0  # largest enlargement of smaller faces
LEAST_CONTRAST = 0.01
STRAIGHTEST = 12  # SIFT's edge threshold
AWAY = 0.12  # share of the face: largest distance of a mark from the position predicted by landmarks
CLEARLY = 0.8  # largest ratio of best to second best match distance
ALIKE = 0.35  # largest squared distance of matched descriptors
AS_LARGE = 1.5  # largest ratio of sizes of matched features
FEWEST_MATCHES = 8
FEWEST_HOLDS = 3
_ROUNDS = 4
_PLACE = np.array([1, 1j])


class Detail(NamedTuple):
    """How finely marks are looked for: the size of a face in pixels, the most features of a hold, and the number of
    holds of the most similar views that each one is matched with."""

    face_px: int
    most: int
    nearest: int = 8


FINE = Detail(560, 1200)
COARSE = Detail(420, 800)  # half the time
QUICK = Detail(220, 300, 5)  # a quarter of that


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Positions (K,), the roots of their descriptors (K, 128), and their sizes in pixels (K,)."""

    at: Complex
    descriptor: Array
    size: Array


@dataclass(frozen=True, slots=True, eq=False)
class SharedMarks:
    """Observations of `count` marks, ordered by mark: mark, hold and position (O,)."""

    mark: Numbers
    hold: Numbers
    at: Complex
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class MarkPicture:
    """A hold's picture (h, w) uint8 for feature detection.

    `corner`: its top-left corner in the plate. `scale`: its pixels per plate pixel along x and y (2,).
    """

    picture: Array
    corner: complex
    scale: Array

    @classmethod
    def of(cls, grey: Array, corner: complex, scale: float, face_px: float, detail: Detail) -> MarkPicture:
        """From a picture with `scale` pixels per plate pixel, in which a face is `face_px` plate pixels large."""
        growth = min(detail.face_px / (face_px * scale), LARGEST_GROWTH)
        bright = max(float(np.percentile(grey, 99.5)), 1e-6)
        picture = np.clip(grey.astype(np.float32) / bright * 255, 0, 255).astype(np.uint8)
        way = cv2.INTER_AREA if growth < 1 else cv2.INTER_CUBIC
        grown = cv2.resize(picture, None, fx=growth, fy=growth, interpolation=way)
        return cls(grown, corner, np.array(grown.shape[::-1]) / grey.shape[::-1] * scale)  # with the rounded size

    def plate(self, pixels: Array) -> Complex:
        """Plate positions of picture positions (., 2), whose pixel centres are integers."""
        return np.asarray(self.corner + ((pixels + 0.5) / self.scale) @ _PLACE)

    def inside(self, at: Complex) -> Array:
        """Picture positions (., 2) of plate positions."""
        off = np.asarray(at) - self.corner
        return np.stack([off.real, off.imag], axis=-1) * self.scale - 0.5


def features(seen: MarkPicture, detail: Detail) -> Features:
    """Features of a hold's picture."""
    sift = cv2.SIFT.create(nfeatures=detail.most, contrastThreshold=LEAST_CONTRAST, edgeThreshold=STRAIGHTEST)
    found, descriptor = sift.detectAndCompute(seen.picture, None)
    if not found:
        return Features(np.zeros(0, complex), np.zeros((0, 128)), np.zeros(0))
    root = np.sqrt(descriptor / np.maximum(descriptor.sum(axis=1, keepdims=True), 1e-9))
    size = np.array([each.size for each in found]) / float(seen.scale.mean())
    return Features(seen.plate(np.array([each.pt for each in found])), root, size)


def shared_marks(
    found: Sequence[Features],
    points_HL: Complex,
    faces_HL: Complex,
    face_px_H: Array,
    detail: Detail,
    each: Callable[..., Iterable[Numbers]] = map,
) -> SharedMarks:
    """Marks that holds share.

    `points_HL`: landmarks in the plate. `faces_HL`: the same without the pose of the head, for the similarity of views.
    `each` calls a function for every two holds that are matched, as `map` does.
    """
    first = np.cumsum([0, *(len(one.at) for one in found)])

    def match(a: int, b: int) -> Numbers:
        motion, away_px = _affine_motion(points_HL[a], points_HL[b]), AWAY * float(face_px_H[b])
        return np.asarray(_match_features(found[a], found[b], motion, away_px) + [first[a], first[b]])

    pairs = np.array(_alike_holds(faces_HL, detail.nearest), np.intp).reshape(-1, 2)
    ties = [np.zeros((0, 2), np.intp), *each(match, *pairs.T)]
    hold = np.repeat(np.arange(len(found)), np.diff(first))
    return _marks_of_ties(
        _components(int(first[-1]), np.concatenate(ties)), hold, np.concatenate([one.at for one in found])
    )


def _alike_holds(faces_HL: Complex, nearest: int) -> list[tuple[int, int]]:
    """Pairs of holds to match: those of the most similar views, and neighbours in time."""
    n = len(faces_HL)
    apart = np.array([(abs(faces_HL - each) ** 2).mean(axis=1) for each in faces_HL])
    near = [(a, b) for a in range(n) for b in np.argsort(apart[a], kind="stable")[: nearest + 1].tolist() if a != b]
    return sorted({(min(pair), max(pair)) for pair in [*near, *((a, a + 1) for a in range(n - 1))]})


def _affine_motion(one: Complex, other: Complex) -> Array:
    """The affine motion (3, 2) between two sets of positions; outliers get low weight."""
    table, to = np.stack([one.real, one.imag, np.ones(len(one))], axis=1), np.stack([other.real, other.imag], axis=1)
    weight = np.ones((len(one), 1))
    motion: Array = np.zeros((3, 2))
    for _ in range(_ROUNDS):
        motion = np.linalg.lstsq(table * weight, to * weight, rcond=None)[0]
        off = np.linalg.norm(table @ motion - to, axis=1, keepdims=True)
        weight = 1 / np.sqrt(1 + (off / (2 * np.median(off) + 1e-6)) ** 2)
    return motion


def _move_places(at: Complex, motion: Array) -> Complex:
    return np.asarray(np.stack([at.real, at.imag, np.ones(len(at))], axis=1) @ motion @ np.array([1, 1j]))


def _match_features(one: Features, other: Features, motion: Array, away_px: float) -> Numbers:
    """Indices of features that are each other's clearly best match (P, 2) and move consistently."""
    none = np.zeros((0, 2), np.intp)
    if min(len(one.at), len(other.at)) < FEWEST_MATCHES:
        return none
    moved = _move_places(one.at, motion)
    is_far = _differences(moved.real, other.at.real) ** 2 + _differences(moved.imag, other.at.imag) ** 2 > away_px**2
    is_far |= abs(_differences(np.log(one.size), np.log(other.size))) > np.log(AS_LARGE)
    apart = 2 - 2 * one.descriptor @ other.descriptor.T
    apart[is_far] = np.inf
    back_apart = np.ascontiguousarray(apart.T)
    (there, is_clear), (back, is_clear_back) = _best_matches(apart), _best_matches(back_apart)
    a = np.flatnonzero(is_clear & is_clear_back[there] & (back[there] == np.arange(len(there))))
    if len(a) < FEWEST_MATCHES:
        return none
    b = there[a]
    off = abs(_move_places(one.at[a], _affine_motion(one.at[a], other.at[b])) - other.at[b])
    together = off < max(3 * float(np.median(off)), 2.0)
    return np.stack([a[together], b[together]], axis=1)


def _differences(one: Array, other: Array) -> Array:
    """The differences of every two numbers, in single precision."""
    return np.asarray(np.subtract.outer(one.astype(np.float32), other.astype(np.float32)))


def _best_matches(apart: Array) -> tuple[Numbers, NDArray[np.bool_]]:
    """The nearest column of each row, and whether it is near and clearly nearer than the second. Changes `apart`."""
    rows, nearest = np.arange(len(apart)), apart.argmin(axis=1)
    best = apart[rows, nearest]
    apart[rows, nearest] = np.inf
    return nearest, (best < ALIKE) & (best < CLEARLY**2 * apart.min(axis=1))


def _components(n: int, ties: Numbers) -> Numbers:
    """Connected components of n nodes: the smallest node of each one's component (n,)."""
    least, (one, other) = np.arange(n), ties.T
    while True:
        before = least.copy()
        np.minimum.at(least, one, before[other])
        np.minimum.at(least, other, before[one])
        least = least[least]
        if (least == before).all():
            return least


def _marks_of_ties(component: Numbers, hold: Numbers, at: Complex) -> SharedMarks:
    """Components as marks, without features that a hold shows twice, and without components of too few holds."""
    kept = list(_marks_once_per_hold(component, hold))
    mark = np.repeat(np.arange(len(kept)), [len(each) for each in kept])
    rows = np.concatenate([np.zeros(0, np.intp), *kept])
    return SharedMarks(mark, hold[rows], at[rows], len(kept))


def _marks_once_per_hold(component: Numbers, hold: Numbers) -> Iterator[Numbers]:
    order = np.argsort(component, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(component[order])) + 1):
        if len(rows) < FEWEST_HOLDS:  # most features are found once
            continue
        holds, counts = np.unique(hold[rows], return_counts=True)
        once = rows[np.isin(hold[rows], holds[counts == 1])]
        if len(once) >= max(FEWEST_HOLDS, 0.8 * len(holds)):
            yield once
