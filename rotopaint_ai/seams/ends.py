"""A seam's ends moved along its crease, where the plate does not speak against it.

The seam network sees the sides of a crease well and its ends badly: what it says of them leans on where the strip ends
that it is shown. So where a seam ends the shot decides (`shapes/rigid_head.py`), and here the network is asked, in a
strip that goes on far past both ends, about no more than the piece that would be added or cut off.

S pairs of places along a curve. Plate space, pixels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams.placement import (
    ACROSS,
    ALONG,
    Evidence,
    Placed,
    Seam,
    SeamLook,
    place,
    places_along,
    read_strips,
    respaced,
)

Array = NDArray[Any]

# Log odds that a seam is to be seen rather than nothing, in the mean of a piece. On 12 shots of the stage, of 138 ends
# told by the rest of their shot: with less than 1.5, 10 of 14 added pieces were wrong, and of the others 11 of 58; with
# more than 5, 4 of 7 pieces to be cut off were the seam's, and of the others 19 of 59.
THERE = 1.5  # from which on a piece may be added
CLEAR = 5.0  # up to which one may be cut off
PAST = 24  # places that the strip goes on past both ends
MOST = 0.3  # of a seam's length that is cut off at one end
LOOKS = 2  # an added piece goes straight on, and the crease may not
SURE = 0.01  # of the face: how far off a curve may be across its way whose ends alone were wrong


def with_ends(
    seam: Seam, out_px: tuple[float, float], look: SeamLook, face_px: float, evidence: Evidence
) -> Placed | None:
    """A seam whose first and last end lie further out by so many pixels (negative: further in), seen in the plate anew.

    None where the plate speaks against both, or the curve is too short to tell.
    """
    allowed = _borne_out(seam, out_px, look, face_px, evidence)
    if not any(allowed):
        return None
    longer = lengthened(seam.points, allowed, face_px)
    placed = Placed(longer, 0.0, 0.0, seam.expected_error_px)
    for _ in range(LOOKS):
        start = replace(seam, points=placed.points, expected_error_px=SURE * face_px)
        (placed,) = place([start], look, face_px, evidence)
    return placed


def lengthened(points: Array, out_px: tuple[float, float], face_px: float) -> Array:
    """Control points (P, 6) with the first and last end `out_px` further along the curve, straight on past it."""
    spacing = face_px / ALONG
    places = places_along(points, spacing, 4 + int(max(*out_px, 0.0) / spacing))
    if places is None:
        return points
    n = len(points) - 1
    per_px = n / float(
        np.linalg.norm(np.diff(places.centre[(places.at >= 0) & (places.at <= n)], axis=0), axis=1).sum()
    )
    first, last = (max(px * per_px, -MOST * n) for px in out_px)
    return respaced(points, places, np.zeros(len(places.at)), (-first, last))


def _borne_out(
    seam: Seam, out_px: tuple[float, float], look: SeamLook, face_px: float, evidence: Evidence
) -> tuple[float, float]:
    """The moves that the plate does not speak against, 0 in place of the others."""
    longest = lengthened(seam.points, (max(out_px[0], 0.0), max(out_px[1], 0.0)), face_px)
    places = places_along(longest, face_px / ALONG, PAST)
    if places is None:
        return 0.0, 0.0
    logits = read_strips([places], look, face_px / ACROSS, evidence)[0].astype(np.float64)
    there = np.logaddexp.reduce(logits[:, :-1], axis=1) - logits[:, -1]
    own, pair_px = there[PAST // 2 : -(PAST // 2)], 2 * face_px / ALONG
    first, last = (max(1, round(abs(px) / pair_px)) for px in out_px)
    odds = float(own[:first].mean()), float(own[-last:].mean())
    return _unless_denied(out_px[0], odds[0]), _unless_denied(out_px[1], odds[1])


def _unless_denied(out_px: float, odds: float) -> float:
    """A move whose piece shows the seam by such odds; 0 where the plate speaks against it."""
    return out_px if (odds >= THERE if out_px > 0 else odds <= CLEAR) else 0.0
