"""More observations of marks: each is searched in the other holds, where the head predicts its position.

Features match only between similar views. A head solved from these matches predicts to a few pixels where a mark lies
in every other hold, and how its neighbourhood is foreshortened there. The patch around the mark in the most similar
view is compared there (guided matching, Hartley and Zisserman 2004, section 11.6, by normalised cross-correlation). H
holds, K marks, O observations of marks. Complex x + iy in the plate, pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.landmarks.shared_marks import Complex, MarkPicture, SharedMarks

Array = NDArray[Any]
Pictures = Callable[[int], MarkPicture]  # picture of a hold, by its number

# Chosen on training shots of two puppets that the shipped pack never saw.
HALF = 9  # half the side of a compared patch in picture pixels
AWAY = 5  # largest distance of a mark from its predicted position, pixels of the patch
ALIKE = 0.85  # smallest correlation of a match
FACING = 0.35  # smallest cosine of the angle between surface normal and camera
STEADY_PX = 2.0  # largest error of an observation whose patch is searched in other holds
LARGEST_CHANGE = 2.0  # largest factor of a patch's area from hold to hold


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedMarks:
    """The predicted marks in each hold.

    `at` (H, K): positions in the plate. `ways` (H, K, 2): derivatives along two directions on the surface. `facing` (H,
    K): cosine of the angle between surface normal and camera.
    """

    at: Complex
    ways: Complex
    facing: Array


@dataclass(frozen=True, slots=True, eq=False)
class _Patch:
    """The neighbourhood of a mark in a hold's picture, and the derivatives of picture positions by surface steps (2,
    2)."""

    picture: Array
    motion: Array


def search_marks(
    marks: SharedMarks,
    expected: ExpectedMarks,
    apart_HH: Array,
    pictures: Pictures,
    watched: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> SharedMarks:
    """Marks with additional observations, found where the head predicts them.

    `apart_HH`: the difference of the views of every two holds; `watched` iterates over the holds during the search.
    """
    if not marks.count:
        return marks
    off = abs(marks.at - expected.at[marks.hold, marks.mark])
    patches: dict[tuple[int, int], _Patch] = {}
    steady: list[list[int]] = [[] for _ in range(marks.count)]
    for hold in range(len(apart_HH)):
        seen = pictures(hold)
        for sight in np.flatnonzero((marks.hold == hold) & (off < STEADY_PX)).tolist():
            mark = int(marks.mark[sight])
            patches[hold, mark] = _patch(seen, complex(marks.at[sight]), expected.ways[hold, mark])
            steady[mark].append(hold)
    shows = np.zeros(expected.at.shape, bool)
    shows[marks.hold, marks.mark] = True
    new = [
        (mark, hold, at)
        for hold in watched(range(len(apart_HH)))
        for mark, at in _search_hold(pictures(hold), hold, expected, ~shows[hold], patches, steady, apart_HH[hold])
    ]
    whole = [*zip(marks.mark.tolist(), marks.hold.tolist(), marks.at.tolist()), *new]
    number, hold_of, at = zip(*sorted(whole, key=lambda sight: sight[:2]))
    return SharedMarks(np.array(number), np.array(hold_of), np.array(at), marks.count)


def _patch(seen: MarkPicture, at: complex, ways: Complex) -> _Patch:
    x, y = seen.inside(np.array(at)).tolist()
    side = 2 * HALF + 1
    return _Patch(cv2.getRectSubPix(seen.picture, (side, side), (x, y)), _motion(seen, ways))


def _motion(seen: MarkPicture, ways: Complex) -> Array:
    """The derivatives of picture positions by surface steps (2, 2)."""
    return np.stack([ways.real, ways.imag]) * seen.scale[:, None]


def _search_hold(
    seen: MarkPicture,
    hold: int,
    expected: ExpectedMarks,
    asked_K: NDArray[np.bool_],
    patches: dict[tuple[int, int], _Patch],
    steady: list[list[int]],
    apart_H: Array,
) -> Iterator[tuple[int, complex]]:
    """The requested marks that are found in a hold, and their positions."""
    for mark in np.flatnonzero(asked_K & (expected.facing[hold] > FACING)).tolist():
        if steady[mark]:
            like = patches[min(steady[mark], key=lambda other: apart_H[other]), mark]
            motion = _motion(seen, expected.ways[hold, mark]) @ np.linalg.pinv(like.motion)
            at = _match_patch(seen, expected.at[hold, mark], like.picture, motion)
            if at is not None:
                yield mark, at


def _match_patch(seen: MarkPicture, at: complex, patch: Array, motion: Array) -> complex | None:
    """The position near `at` where a picture matches a patch deformed by `motion` (2, 2); None if there is none."""
    if not 1 / LARGEST_CHANGE < np.linalg.det(motion) < LARGEST_CHANGE:
        return None
    reach = HALF + AWAY
    middle = seen.inside(np.array(at))
    whole = np.concatenate([motion, (middle - motion @ np.full(2, float(reach)))[:, None]], axis=1)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    side = 2 * reach + 1
    window = cv2.warpAffine(seen.picture, whole, (side, side), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    alike = cv2.matchTemplate(window, patch, cv2.TM_CCOEFF_NORMED)
    _, best, _, (x, y) = cv2.minMaxLoc(alike)
    if best < ALIKE or not (0 < x < 2 * AWAY and 0 < y < 2 * AWAY):
        return None
    step = np.array([_summit(*alike[y, x - 1 : x + 2].tolist()), _summit(*alike[y - 1 : y + 2, x].tolist())])
    return complex(seen.plate(middle + motion @ (np.array([x, y]) - AWAY + step)))


def _summit(before: float, at: float, after: float) -> float:
    """The maximum of a parabola through three values, relative to the middle one, which is the largest."""
    return (after - before) / (2 * max(2 * at - before - after, 1e-9))
