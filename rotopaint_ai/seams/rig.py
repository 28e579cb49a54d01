"""Rig removal: fill the whole area under a matte of any size.

The first source is a clean plate. The second is other frames of the shot that show the area without the rig, in the
same surroundings. The rest is filled smoothly from its rim, or by patches where one texture surrounds the hole. Source
pictures (loans) are aligned by each motion found, of the set or of a head, and matched to the frame's light and grain.

Pictures are scene-linear RGB float32; pixel (0, 0) is the centre of the top-left one. H, W rows and columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams import grain, harmonic_fill
from rotopaint_ai.seams.cleanplate import FAINTEST

Array = NDArray[Any]  # float32
Bools = NDArray[Any]  # bool

SEARCH_PX = 960.0  # longest side of the pictures for motion estimation
STILL_PX = 0.3  # a motion that moves no corner further than this means a locked camera
FEWEST = 12  # least number of points for a motion
MOTIONS = 3  # motions estimated between two frames: of the set, of a head, of a hand
TRUSTED = 0.2  # log light: a frame that differs by less nearby has full weight; at twice that, none
GRAIN = 0.03  # log light: largest difference between two takes of the same surroundings
RIM_PX = 9  # width of the surroundings to which a loan is fitted
TILE_PX = 48  # side of the patches that fill a hole which no source picture shows
TEXTURED = 0.015, 0.25  # least median detail of a texture: log light, and share of the variation of coarse light
REACH = 2.0  # search distance for such patches, as a multiple of the hole's size (at least TILE_PX)
_FLOOR = 0.02  # share of the mean light, as in `cleanplate`
_BENT = 0.3  # log light: a larger difference from the median is another object, not other light
_BAND = 10  # px around the hole whose grain is copied into it
_DETAIL_SIGMAS = 1.5, 4.0  # px: detail is the band between these two blurs
_SMOOTH_RADIUS = 5.0  # px, of the OpenCV inpainting methods


@dataclass(frozen=True, slots=True, eq=False)
class Loan:
    """A source picture aligned to this frame's region: (H, W, 3), and where it is valid (H, W)."""

    rgb: Array
    free: Bools
    is_plate: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RigFill:
    """A region without its rig (H, W, 3), and the share of the hole filled from each kind of source."""

    rgb: Array
    shares: dict[str, float]


class FreePoints:
    """Feature points of a frame outside its rig, detected once and tracked into other frames."""

    def __init__(self, rgb: Array, free: Bools) -> None:
        """rgb (H, W, 3); free (H, W): pixels without rig."""
        height, width = rgb.shape[:2]
        scale = min(1.0, SEARCH_PX / max(height, width))
        self._full = np.array([width, height])
        self._size = max(round(width * scale), 1), max(round(height * scale), 1)
        self._codes = _gray_codes(rgb, self._size)
        mask = np.asarray(cv2.resize(free.astype(np.uint8), self._size, interpolation=cv2.INTER_NEAREST), np.uint8)
        self._points = cv2.goodFeaturesToTrack(self._codes, 800, 0.001, 6, mask=mask)

    def motions_to(self, other: Array) -> list[Array]:
        """Possible motions of the frame into another one (H, W, 3): matrices (2, 3) of pixel centres, the identity
        last.

        Points tracked forward and backward (pyramidal Lucas-Kanade, 1981) agree on an affine motion (RANSAC), the
        remaining points on the next. So a head, which has more points than the blurred set behind it, does not hide the
        set's motion. A motion that moves no corner by STILL_PX is left out.
        """
        at, there = self._track(_gray_codes(other, self._size))
        found: list[Array] = []
        while len(found) < MOTIONS and len(at) >= FEWEST:
            small, agreed = cv2.estimateAffine2D(at, there, method=cv2.RANSAC, ransacReprojThreshold=0.7)
            if small is None or agreed.sum() < FEWEST:
                break
            found.append(self._of_full_size(np.asarray(small, np.float64)))
            at, there = at[agreed[:, 0] == 0], there[agreed[:, 0] == 0]
        return [*(move for move in found if not self._is_still(move)), np.eye(2, 3)]

    def _track(self, other: NDArray[np.uint8]) -> tuple[Array, Array]:
        """Points (N, 2) of the reduced pictures, and their positions in the other one."""
        points = self._points
        if points is None:
            return np.zeros((0, 2), np.float32), np.zeros((0, 2), np.float32)
        track: Any = cv2.calcOpticalFlowPyrLK  # the type stubs do not allow None as the initial guess
        there, ok, _ = track(self._codes, other, points, None, winSize=(21, 21), maxLevel=5)
        back, ok_back, _ = track(other, self._codes, there, None, winSize=(21, 21), maxLevel=5)
        good = (ok[:, 0] == 1) & (ok_back[:, 0] == 1) & (np.abs(points - back).max((1, 2)) < 0.5)
        return points[good, 0], there[good, 0]

    def _of_full_size(self, small: Array) -> Array:
        shrink, half = np.array(self._size) / self._full, np.array([0.5, 0.5])
        turn = small[:, :2] * shrink / shrink[:, None]
        return np.column_stack([turn, (small[:, 2] + half - small[:, :2] @ half) / shrink + turn @ half - half])

    def _is_still(self, move: Array) -> bool:
        corners = np.array([[0, 0], [1, 0], [0, 1], [1, 1]]) * self._full.astype(float)
        return bool(np.abs(corners @ move[:, :2].T + move[:, 2] - corners).max() < STILL_PX)


def _gray_codes(rgb: Array, size: tuple[int, int]) -> NDArray[np.uint8]:
    """A picture's luminance, reduced, as 8-bit codes."""
    luma = np.maximum(np.nan_to_num(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA).mean(2)), 0.0)
    white = max(float(np.percentile(luma, 99)), 1e-6)
    return np.asarray(255.0 * np.minimum(luma / white, 1.0) ** (1 / 2.2), np.uint8)


def fill(now: Array, matte: Array, loans: Iterable[Loan]) -> RigFill:
    """A region (H, W, 3) with the area under its matte (H, W) filled; a soft matte mixes the fill with the plate.

    loans: source pictures, aligned by each motion, consumed one by one; clean plates have priority.

    Where the matte is 0 the pixels are those of `now`, bit for bit.
    """
    hole = matte > FAINTEST
    if not hole.any() or hole.all():
        return RigFill(now.copy(), {})
    light = np.nan_to_num(now, nan=0.0, posinf=65504.0, neginf=0.0).astype(np.float32)
    floor = np.float32(_FLOOR * max(float(light[~hole].mean()), 1e-4))
    own = np.log(np.maximum(light, 0.0) + floor)
    near = _ring_around(hole)
    plates, frames = list[_Offer](), list[_Offer]()
    for loan in loans:
        rim = near & loan.free
        if loan.is_plate or rim.sum() >= FEWEST:
            (plates if loan.is_plate else frames).append(_match_loan(own, hole, loan, rim, floor))
    found, by_plate = _fill_by_plates(own, hole, plates)
    left, trust, is_textured = hole & ~by_plate, np.zeros(hole.shape, np.float32), False
    if left.any():
        borrowed, trust = _borrow_from_frames(own, hole, frames)
        trust, is_textured = trust * left, _is_textured(own, hole)
        around = (
            _fill_by_patches(np.where(left[..., None], 0.0, found), left)
            if is_textured
            else _smooth(found, left, floor)
        )
        found = around + trust[..., None] * (borrowed - around)
    _add_grain(light, own, found, hole, hole & (~left | (trust > 0.5)) if is_textured else hole, floor)
    paint = np.exp(found) - floor
    share = np.minimum(matte, 1.0)[..., None]
    out = np.where(hole[..., None], light + share * (paint - light), now).astype(np.float32)
    return RigFill(out, _shares(hole, left, trust > 0.5, is_textured))


def _shares(hole: Bools, left: Bools, trusted: Bools, is_textured: bool) -> dict[str, float]:
    """The share of a hole that each kind of source filled: clean plates, frames, and its surroundings."""
    around = "texture" if is_textured else "smooth"
    counts = {"plate": hole & ~left, "frames": left & trusted, around: left & ~trusted}
    return {name: round(int(part.sum()) / int(hole.sum()), 4) for name, part in counts.items() if part.any()}


_Offer = tuple[Array, Array]  # at the hole's pixels: the loan's difference nearby (P,), and its fitted log light (P, 3)


def _fill_by_plates(own: Array, hole: Bools, plates: Sequence[_Offer]) -> tuple[Array, Bools]:
    """Log light with each pixel of the hole from the clean plate that differs least around it, and where one had a
    value."""
    found, by_plate = own.copy(), np.zeros(hole.shape, bool)
    if plates:
        off, fitted = (np.stack(each) for each in zip(*plates))
        by_plate[hole] = is_filled = np.isfinite(off.min(0))
        found[by_plate] = fitted[off.argmin(0), np.arange(len(is_filled))][is_filled]
    return found, by_plate


def _borrow_from_frames(own: Array, hole: Bools, frames: Sequence[_Offer]) -> tuple[Array, Array]:
    """Log light of the hole from other frames, and its weight (H, W) from 0 to 1.

    At each pixel the median of the frames that differ least nearby.
    """
    borrowed, trust = own.copy(), np.zeros(hole.shape, np.float32)
    if not frames:
        return borrowed, trust
    off, fitted = (np.stack(each) for each in zip(*frames))
    rows, columns = np.nonzero(hole)
    least = off.min(0)
    good = (off <= np.maximum(1.5 * least, GRAIN)) & (off < 2 * TRUSTED)
    known = good.any(0)
    stack = np.where(good[..., None], fitted, np.nan)[:, known]
    borrowed[rows[known], columns[known]] = np.nanmedian(stack, axis=0)
    trust[rows[known], columns[known]] = np.clip(2.0 - least[known] / TRUSTED, 0.0, 1.0)
    return borrowed, trust


def _match_loan(own: Array, hole: Bools, loan: Loan, rim: Bools, floor: np.float32) -> _Offer:
    """A loan at the hole's pixels, fitted to this frame's light; its difference is infinite where it is not valid."""
    theirs = _log_of(loan, floor)
    beside = _difference_nearby(own - theirs, hole, rim) if rim.any() else np.zeros(hole.shape, np.float32)
    return np.where(loan.free, beside, np.inf)[hole], _fit_light(own, hole, theirs, rim)[hole]


def _ring_around(hole: Bools) -> Bools:
    """Pixels near a hole, but not in it."""
    near = cv2.dilate(hole.astype(np.uint8), np.ones((2 * RIM_PX + 1,) * 2, np.uint8)).astype(bool)
    return np.asarray(near & ~hole)


def _log_of(loan: Loan, floor: np.float32) -> Array:
    light = np.nan_to_num(loan.rgb, posinf=65504.0)
    return np.asarray(np.log(np.maximum(light, 0.0) + floor), np.float32)


def _difference_nearby(apart: Array, hole: Bools, rim: Bools) -> Array:
    """A loan's difference near each pixel (H, W), log light, after subtracting the median difference at its rim."""
    off = np.abs(apart - np.median(apart[rim], axis=0)).mean(2, keepdims=True)
    smooth = _mean_nearby(np.repeat(off, 3, 2), rim)
    return np.asarray(harmonic_fill.fill(smooth, hole, rim)[..., 0])


def _fit_light(own: Array, hole: Bools, theirs: Array, rim: Bools) -> Array:
    """A loan's log light corrected to this frame's light, by their difference at the rim of the hole."""
    if rim.sum() < FEWEST:
        return theirs
    apart = own - theirs
    usual = np.median(apart[rim], axis=0)
    known = rim & (np.abs(apart - usual).max(2) < _BENT)
    if not known.any():
        return np.asarray(theirs + usual, np.float32)
    wanted = np.where(known[..., None], apart, usual).astype(np.float32)
    smooth = harmonic_fill.fill(_mean_nearby(wanted, known), hole | (rim & ~known), known)
    return np.asarray(theirs + np.where(hole[..., None], smooth, 0.0), np.float32)


def _is_textured(own: Array, hole: Bools) -> bool:
    """Whether one texture surrounds a hole: detail coarser than grain, and little else.

    Between several objects, patches of one would end up in another; a smooth fill is better there.
    """
    ring = cv2.dilate(hole.astype(np.uint8), np.ones((TILE_PX + 1,) * 2, np.uint8)).astype(bool) & ~hole
    clear = (~hole).astype(np.float32)
    fine, coarse = (
        cv2.GaussianBlur(own * clear[..., None], (0, 0), sigma)
        / np.maximum(cv2.GaussianBlur(clear, (0, 0), sigma), 1e-3)[..., None]
        for sigma in _DETAIL_SIGMAS
    )
    detail, level = float(np.median(np.abs(fine - coarse).mean(2)[ring])), coarse.mean(2)[ring]
    return detail > max(TEXTURED[0], TEXTURED[1] * float(np.abs(level - np.median(level)).mean()))


def _smooth(log: Array, hole: Bools, floor: np.float32) -> Array:
    """Log light with the hole filled from its rim: the mean of three fills, whose errors differ.

    Telea's fast marching continues edges straight, Navier-Stokes (Bertalmio et al., 2001) continues them curved, and
    pull-push is best in wide holes. They work on gamma-encoded light.
    """
    root = (np.maximum(np.exp(log) - floor, 0.0) ** (1 / 2.2)).astype(np.float32)
    parts = [inpaint_hole(root, hole, _SMOOTH_RADIUS, how) for how in (cv2.INPAINT_TELEA, cv2.INPAINT_NS)]
    parts.append(harmonic_fill.fill(root, hole, ~hole)[hole])
    out = log.copy()
    out[hole] = np.log((np.maximum(sum(parts), 0.0) / len(parts)) ** 2.2 + floor)
    return out


def _mean_nearby(values: Array, known: Bools) -> Array:
    """Values averaged over the known ones nearby, which removes grain."""
    weight = cv2.GaussianBlur(known.astype(np.float32), (0, 0), 3.0)[..., None]
    total = cv2.GaussianBlur(values * known[..., None].astype(np.float32), (0, 0), 3.0)
    return np.where(known[..., None], total / np.maximum(weight, 1e-3), values).astype(np.float32)


def _fill_by_patches(log: Array, hole: Bools) -> Array:
    """Log light with the hole filled by patches of the picture around it, from its rim inwards, each blended in.

    Each patch is the one that agrees best with the known pixels around it (Efros, Freeman, "Image quilting", 2001). The
    difference at its rim is spread over it (Perez et al., 2003).
    """
    out, left = log.copy(), hole.copy()
    source = ~hole
    for y, x in _tile_corners(hole):
        rows, columns = slice(y, min(y + TILE_PX, len(hole))), slice(x, min(x + TILE_PX, hole.shape[1]))
        _fill_tile(out, left, source, hole, rows, columns)
        left[rows, columns] = False
    return out


def _tile_corners(hole: Bools) -> list[tuple[int, int]]:
    """Corners of the hole's tiles, those nearest to its rim first."""
    away = cv2.distanceTransform(np.pad(hole, 1).astype(np.uint8), cv2.DIST_L2, 5)[1:-1, 1:-1]
    found = []
    for y in range(0, hole.shape[0], TILE_PX):
        for x in range(0, hole.shape[1], TILE_PX):
            part = hole[y : y + TILE_PX, x : x + TILE_PX]
            if part.any():
                found.append((float(away[y : y + TILE_PX, x : x + TILE_PX][part].mean()), y, x))
    return [(y, x) for _, y, x in sorted(found)]


def _fill_tile(out: Array, left: Bools, source: Bools, hole: Bools, rows: slice, columns: slice) -> None:
    """Fill one tile of `out`, in place, with light between the minimum and the maximum of the known pixels around it.

    Without this limit, the spread differences of neighbouring patches would add up.
    """
    height, width = left.shape
    around = _grow_span(rows, RIM_PX, height), _grow_span(columns, RIM_PX, width)
    wanted = np.zeros_like(left)
    wanted[rows, columns] = left[rows, columns]
    wanted, known = wanted[around], ~left[around]
    reach = _search_reach(hole)
    window = _grow_span(rows, reach, height), _grow_span(columns, reach, width)
    best = _best_place(out[window], source[window], out[around], known)
    if best is not None:
        y, x = window[0].start + best[0], window[1].start + best[1]
        piece = out[y : y + wanted.shape[0], x : x + wanted.shape[1]].copy()
    else:
        piece = np.zeros_like(out[around])
    if known.any():
        piece += harmonic_fill.fill(_mean_nearby(out[around] - piece, known), wanted, known)
        piece = np.clip(piece, out[around][known].min(0), out[around][known].max(0))
    out[around] = np.where(wanted[..., None], piece, out[around])


def _search_reach(hole: Bools) -> int:
    _, _, width, height = cv2.boundingRect(hole.astype(np.uint8))
    return int(REACH * max(TILE_PX, min(width, height)))


def _grow_span(span: slice, by: int, size: int) -> slice:
    return slice(max(0, span.start - by), min(size, span.stop + by))


def _best_place(picture: Array, source: Bools, wanted: Array, known: Bools) -> tuple[int, int] | None:
    """Row and column of the window outside the hole that is most similar to the known pixels; None without any."""
    height, width = known.shape
    if height > source.shape[0] or width > source.shape[1] or not known.any():
        return None
    free = cv2.boxFilter(source.astype(np.float32), -1, (width, height), anchor=(0, 0), borderType=cv2.BORDER_ISOLATED)
    free = free[: source.shape[0] - height + 1, : source.shape[1] - width + 1] > 1 - 0.5 / (width * height)
    if not free.any():
        return None
    mask = np.repeat(known[..., None].astype(np.float32), 3, 2)
    apart = cv2.matchTemplate(picture, wanted, cv2.TM_SQDIFF, mask=mask)
    row, column = np.unravel_index(int(np.where(free, apart, np.inf).argmin()), apart.shape)
    return int(row), int(column)


def inpaint_hole(rgb: Array, hole: Bools, radius: float, how: int) -> Array:
    """One of cv2.inpaint's methods on float pictures: colours (P, 3) of the hole's pixels, row by row.

    OpenCV supports only 8 bits here. So it fills an 8-bit copy that spans the range of the plate around the hole, and a
    second 8-bit copy of the remainders. Nothing is clipped, and the error is below 1/50000 of that range.
    """
    near = cv2.dilate(hole.astype(np.uint8), np.ones((17, 17), np.uint8)) > 0
    rim = rgb[near & ~hole]
    if not len(rim):
        return rgb[hole]
    low, high = float(rim.min()), float(rim.max())
    spread = np.clip((rgb - low) / max(high - low, 1e-8), 0.0, 1.0) * 255.0
    coarse = np.floor(spread)
    fine = (spread - coarse) * 255.0
    mask = hole.astype(np.uint8)
    filled = [
        cv2.inpaint(np.round(part).astype(np.uint8), mask, radius, how).astype(np.float32) for part in (coarse, fine)
    ]
    out: Array = ((filled[0] + filled[1] / 255.0) / 255.0 * (high - low) + low)[hole]
    return out


def _add_grain(light: Array, own: Array, found: Array, hole: Bools, borrowed: Bools, floor: np.float32) -> None:
    """Add the grain that the filled light lacks, in place: medians and clean plates have less grain than the frame."""
    rows, columns = np.nonzero(borrowed)
    beside = cv2.dilate(hole.astype(np.uint8), np.ones((2 * _BAND + 1,) * 2, np.uint8)).astype(bool) & ~hole
    if not len(rows) or not beside.any():
        return
    keep = _fine_detail(found, borrowed) / max(_fine_detail(own, beside), 1e-6)
    places = _grain_sources(hole, rows, columns)
    paint = np.ascontiguousarray(found[rows, columns].T)
    grain.add(light, hole, paint, *places, np.full(len(rows), keep, np.float32), floor)
    found[rows, columns] = paint.T


def _fine_detail(log: Array, where: Bools) -> float:
    """Median amplitude of detail finer than the 3 x 3 neighbourhood."""
    fine = np.abs(log - cv2.GaussianBlur(log, (3, 3), 0.0)).mean(2)
    return float(np.median(fine[where]))


def _grain_sources(hole: Bools, rows: Array, columns: Array) -> tuple[Array, Array]:
    """A grain source for each pixel of the hole, in a band around it: x and y, corner origin, as `grain.add` takes
    them."""
    away, labels = cv2.distanceTransformWithLabels(
        hole.astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
    )
    at = np.zeros((int(labels.max()) + 1, 2), np.float32)
    edge = np.argwhere(~hole)
    at[labels[~hole]] = edge
    rim = at[labels[rows, columns]]
    out = rim - np.stack([rows, columns], 1)
    out /= np.maximum(np.hypot(*out.T), 1e-6)[:, None]
    to = rim + out * (1.0 + np.mod(away[rows, columns], _BAND))[:, None]
    return (to[:, 1] + 0.5).astype(np.float32), (to[:, 0] + 0.5).astype(np.float32)
