"""Where a shot's seams end: what its holds agree on.

A seam fades out on smooth skin, so a hold alone often mistakes its end: an outline or a wrinkle goes on from there, or
a strand of hair hides it. On a rigid, symmetric head all holds, and both sides, show the same end. Each hold that shows
one clearly has a vote; the more the skin there faces the camera, the heavier.

H holds, S pairs of positions along a strip, D numbers of a spline, complex x + iy in the plate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams.path import invisible
from rotopaint_ai.seams.placement import (
    ACROSS,
    ALONG,
    CurvePlaces,
    Evidence,
    SeamLook,
    move_places,
    places_along,
    read_strips,
)
from rotopaint_ai.shapes.facespace import Complex
from rotopaint_ai.shapes.head_bundle import Head, HeadBuild
from rotopaint_ai.shapes.samples import point_numbers, spline_points

Array = NDArray[Any]

# Chosen on eight training shots of two characters that no pack had seen and on six rendered shots.
PAST = 12  # positions past either end that are looked at
WITHIN = 0.7  # share of the curve that is looked at
FURTHEST = 0.4  # and within which its end may lie: an end that moves takes its half of the curve along
CLEAR, CLEAR_PAIRS = 0.65, 4  # mean probability on either side of an end that is seen clearly, over so many pairs
# Factor on the odds that a seam is not visible: the network has learned seams so faint that it sees some past an end.
# Without it ends lie up to 24 px too far out, with 20 as far in. Chosen on the same shots.
HIDDEN_TIMES = 4.5
LEAST_FACING, FULL_FACING = 0.2, 0.7  # cosines of the angle to the camera at which a vote counts nothing, and fully
FEWEST_VOTES, LEAST_WEIGHT = 3, 1.5  # that move an end


@dataclass(frozen=True, slots=True, eq=False)
class CurveInHold:
    """A seam's positions in a hold, and the probability (S,) that it is not visible at each pair of them, by which its
    ends are judged."""

    places: CurvePlaces
    hidden: Array


def read_ends(
    curves: Mapping[str, Complex], seen: SeamLook | None, face_px: float, evidence: Evidence
) -> dict[str, CurveInHold]:
    """A hold's seams (D,) by name, as its picture shows them along their curves and past their ends; without those that
    are too short."""
    if seen is None:
        return {}
    ribbons = {name: places_along(point_numbers(each), face_px / ALONG, PAST) for name, each in curves.items()}
    known = {name: each for name, each in ribbons.items() if each is not None}
    read = read_strips(list(known.values()), seen, face_px / ACROSS, evidence) if known else []
    return {name: CurveInHold(places, _past_end(invisible(each))) for (name, places), each in zip(known.items(), read)}


def _past_end(hidden: Array) -> Array:
    """The probability (S,) that a seam has ended, of a network's that it is not visible."""
    odds = HIDDEN_TIMES * hidden
    return np.asarray(odds / (odds + 1.0 - hidden))


def seen_end(at: Array, hidden: Array, n_segments: int) -> float | None:
    """Where a seam ends, in segments (positive: within the curve); None where that is not seen clearly.

    `at` (S,): distance of each pair from the curve's end, in segments, negative past it, ascending.
    """
    inside = at < WITHIN * n_segments
    at, hidden = at[inside], hidden[inside]
    likely = np.clip(hidden, 0.03, 0.97)
    is_past = np.concatenate([[0.0], np.cumsum(np.log(likely))])
    is_seam = np.concatenate([np.cumsum(np.log(1 - likely)[::-1])[::-1], [0.0]])
    cut = int((is_past + is_seam).argmax())
    if not 2 <= cut <= len(at) - CLEAR_PAIRS:
        return None
    before, after = hidden[max(0, cut - CLEAR_PAIRS) : cut].mean(), hidden[cut : cut + CLEAR_PAIRS].mean()
    end = float(at[cut - 1 : cut + 1].mean())
    return end if before > CLEAR and after < 1 - CLEAR and end < FURTHEST * n_segments else None


def agreed_end(votes: Sequence[float | None], facing_H: Array) -> float:
    """The weighted median of the holds' votes on an end; 0 where too few hold one."""
    weight = np.clip((facing_H - LEAST_FACING) / (FULL_FACING - LEAST_FACING), 0, 1)
    pairs = sorted((vote, float(each)) for vote, each in zip(votes, weight) if vote is not None and each > 0)
    if len(pairs) < FEWEST_VOTES or sum(each for _, each in pairs) < LEAST_WEIGHT:
        return 0.0
    total = np.cumsum([each for _, each in pairs])
    return pairs[int(np.searchsorted(total, total[-1] / 2))][0]


def with_agreed_ends(
    head: Head,
    names: Sequence[str],
    build: HeadBuild,
    curves: Sequence[Mapping[str, Complex]],
    found: Sequence[Mapping[str, CurveInHold]],
) -> list[dict[str, Complex]]:
    """Each hold's curves on a head, with their ends where the holds agree that they are.

    `names`: the head's seams in order. Ends that lie on another curve stay, and those that mirror each other are one.
    `found`: each hold's `read_ends`.
    """
    moved = [dict(each) for each in curves]
    moves = np.zeros((len(names), 2))
    for ends in _same_ends(len(names), build):
        votes, facing = zip(*(_votes(head, names[curve], curve, end, curves, found) for curve, end in ends))
        moves[tuple(zip(*ends))] = agreed_end([*chain.from_iterable(votes)], np.concatenate(facing))
    for name, (first, last) in zip(names, moves.tolist()):
        for hold, reading in zip(moved, found):
            if (first or last) and (row := reading.get(name)) is not None:
                points = move_places(point_numbers(hold[name]), row.places, np.zeros(len(row.hidden)), (first, -last))
                hold[name] = spline_points(points)
    return moved


def _same_ends(n_curves: int, build: HeadBuild) -> list[list[tuple[int, int]]]:
    """The free ends (curve, 0 or 1), each with its mirror image."""
    joined = {(curve, int(point > 0)) for curve, point, _ in build.joints}
    image = {(a, end): (b, end ^ is_reversed) for a, b, is_reversed in build.mirrored for end in (0, 1)}
    free = [(curve, end) for curve in range(n_curves) for end in (0, 1) if (curve, end) not in joined]
    others = {end: image[end] for end in free if end in image and image[end] in free and image[end] > end}
    return [[end, others[end]] if end in others else [end] for end in free if end not in others.values()]


def _votes(
    head: Head,
    name: str,
    curve: int,
    end: int,
    curves: Sequence[Mapping[str, Complex]],
    found: Sequence[Mapping[str, CurveInHold]],
) -> tuple[list[float | None], Array]:
    """The holds' votes on an end, and how far it faces each camera (H,)."""
    n = len(curves[0][name]) // 3
    rows = [each.get(name) for each in found]
    points = head.points[head.curves[curve]][[n - 1 if end else 0]]
    return [None if row is None else _vote(row, n - 1, end) for row in rows], head.cameras.facing(points)[:, 0]


def _vote(row: CurveInHold, n_segments: int, end: int) -> float | None:
    at = row.places.pairs.at
    return (
        seen_end(n_segments - at[::-1], row.hidden[::-1], n_segments) if end else seen_end(at, row.hidden, n_segments)
    )
