"""Move seam splines onto the visible crease.

A landmark model predicts a seam to within a few pixels; the plate shows its exact position. The plate is straightened
into a strip along the predicted curve. A small network (`Evidence`, given by the caller) finds the seam in the strip;
without it, a search finds a thin dark line nearby. One smooth path through the strip moves each position of the curve.
A fit to the plate's own pixels corrects the last fraction of a pixel.

The strip's resolution depends only on the size of the face: ALONG positions and ACROSS offsets per longest side of the
face. All seams of a frame lie in one row, separated by GAP columns of zeros. A network trained on finer strips searches
again along its first result, at each of its zooms.

Dimensions: T positions along the curve, S pairs of them, D offsets across it, P control points. Plate space, pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.crops import Crop, cut
from rotopaint_ai.seams.path import (
    BY_SHOT,
    N_OFFSETS,
    NEAR,
    OFFSETS,
    OffsetEstimate,
    StripReading,
    likely_offsets,
    slide,
    smooth_path,
)
from rotopaint_ai.shapes.bezier import arc_lengths, evaluate, segments
from rotopaint_ai.shapes.fit import fit_segments

Array = NDArray[Any]

ALONG = 80  # positions per longest side of the face
ACROSS = 160  # offsets per longest side of the face
BEYOND = 8  # positions by which the strip extends past either end
GAP = 8
MULTIPLE = 8
ZOOMS = (1, 2)  # resolutions of the strips, as multiples of the lowest, in the order of the searches
COARSE_PICTURE_PX = 208  # picture side for the first search: a crop of 1.3 faces has one pixel a step
PICTURE_PX = COARSE_PICTURE_PX * ZOOMS[-1]  # and for the last

LARGEST_PX = 1024  # larger pictures are halved
BRIGHTEST = 4096.0  # scene-linear luminance is clipped to this

PER_SEGMENT = 24  # samples of each cubic of the curve, before even spacing
STILL = 0.2  # share of the expected error that remains where the seam is visible: it may be another crease
UNSEEN = 0.8  # share of the expected error that remains where the seam is invisible
LEAST_SEEN = 0.5  # a curve with a smaller visible share is not moved
UNSEEN_THIRD = 0.3  # least invisible share of a third of a seam to report it, and its least lead over the other two
FINE_PX = 2.0  # largest move of a position in the final fit, and at most half a step of the strip
COARSE_PX = 2.5  # pixels a step: finer strips locate the seam better than the darkest line nearby
BLIND_PX = 3.0  # search range for a crease without a network
CLEAR = 2.5  # evidence without a network, in deviations of the strip's noise, above which a position counts as visible
STRONG = 8.0  # such evidence is scaled down to at most this
_NOISE = 1.4826  # median absolute deviation to standard deviation of a normal distribution
_NORMAL_PLACES = 3.0  # positions over which normals are smoothed


class Evidence(Protocol):
    """A network that finds seams in strips, and may describe the whole crop first: a strip alone does not show what the
    groove in it belongs to."""

    @property
    def zooms(self) -> tuple[int, ...]:
        """The resolutions of its strips, some of ZOOMS, in the order of the searches."""
        ...

    def features(self, picture: Array, /) -> Array | None:
        """The features (h, w, F) of a crop's picture (PICTURE_PX, PICTURE_PX, 3), at any resolution; None for a network
        of strips alone."""
        ...

    def __call__(self, strips: Array, /) -> Array:
        """Strips float32 (1, T, D, 3 + F), T a multiple of MULTIPLE, to logits (1, T / 2, D + 1): the seam at each
        offset, and last `not visible here`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SeamLook:
    """A frame's pictures that are kept to place seams later.

    `grey` (h, w) float16: square root of luminance, its top-left corner at `x`, `y` in the plate, with `scale` pixels
    per plate pixel (1 for faces up to a thousand pixels). `picture` (PICTURE_PX, PICTURE_PX, 3) uint8: display-referred
    colours of `crop`; `features` (h, w, F): what the seam network makes of it.
    """

    grey: Array
    x: int
    y: int
    scale: float
    picture: Array
    crop: Crop
    features: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Seam:
    """A predicted open seam: control points (P, 6), full width and expected error, both in pixels."""

    points: Array
    width_px: float
    expected_error_px: float


@dataclass(frozen=True, slots=True, eq=False)
class PlacedSeam:
    """A seam after the search: control points (P, 6), visible share of the curve, mean move and expected error in
    pixels.

    `unseen`: the invisible share of each third of the seam, from its first point; empty where it was not measured.
    """

    points: Array
    seen: float
    moved_px: float
    expected_error_px: float
    unseen: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class CurvePlaces:
    """Positions on a curve: centres and unit normals (T, 2), and parameters (T,) counted in segments."""

    centre: Array
    normal: Array
    at: Array

    @property
    def pairs(self) -> CurvePlaces:
        """One position for every two, between them."""
        centre, normal, at = ((v[0::2] + v[1::2]) / 2 for v in (self.centre, self.normal, self.at))
        return CurvePlaces(centre, normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-9), at)

    @property
    def turn(self) -> Array:
        """The angle (T,) in radians by which the curve turns at each position, from one to the next on average, to
        either side."""
        angle = np.unwrap(np.arctan2(self.normal[:, 1], self.normal[:, 0]))
        return cast(Array, np.abs(np.gradient(angle)))

    def points_at(self, offsets_D: Array) -> Array:
        """Points (T, D, 2) at these offsets along the normal of each position."""
        return np.asarray(self.centre[:, None] + self.normal[:, None] * offsets_D[:, None])


def unseen_third(placed: PlacedSeam) -> str:
    """Name of a seam's least visible third as seen in the picture, such as `upper third`; empty where no third stands
    out.

    On validation shots the curve's largest error lay in this third in three of four cases: 4.2 px, elsewhere 0.8 px.
    """
    thirds = placed.unseen or (0.0, 0.0, 0.0)
    *_, other, most = sorted(thirds)
    if most < UNSEEN_THIRD or most - other < UNSEEN_THIRD:
        return ""
    at, run = thirds.index(most), placed.points[-1, :2] - placed.points[0, :2]
    low, high = ("left", "right") if abs(run[0]) > abs(run[1]) else ("upper", "lower")
    ways = (low, "middle", high) if run[np.abs(run).argmax()] > 0 else (high, "middle", low)
    return f"{ways[at]} third"


def picture_for(zoom: int, picture: Array) -> Array:
    """The picture of a crop (PICTURE_PX, PICTURE_PX, 3) at the resolution of a zoom: one pixel a step in a crop of 1.3
    faces."""
    side = COARSE_PICTURE_PX * zoom
    if side == len(picture):
        return picture
    return np.asarray(cv2.resize(picture, (side, side), interpolation=cv2.INTER_AREA))


def look(
    rgb: Array, x: int, y: int, crop: Crop, display: Callable[[Array], Array], evidence: Evidence | None = None
) -> SeamLook:
    """Pictures of scene-linear pixels (h, w, 3) whose top-left pixel is at `x`, `y`; they should contain the crop.

    `evidence`: the network that will look for seams in them.
    """
    picture = np.rint(np.clip(display(cut(rgb, (x, y), crop, PICTURE_PX)), 0, 1) * 255).astype(np.uint8)
    grey, scale = cv2.cvtColor(np.ascontiguousarray(rgb, dtype=np.float32), cv2.COLOR_RGB2GRAY), 1.0
    while max(grey.shape) > LARGEST_PX:
        height, width = (size // 2 * 2 for size in grey.shape)
        grey, scale = (
            cv2.resize(grey[:height, :width], (width // 2, height // 2), interpolation=cv2.INTER_AREA),
            scale / 2,
        )
    grey = np.sqrt(np.clip(np.nan_to_num(grey), 0.0, BRIGHTEST)).astype(np.float16)
    return SeamLook(grey, x, y, scale, picture, crop, None if evidence is None else evidence.features(picture))


def place(
    seams: Sequence[Seam],
    seen: SeamLook,
    face_px: float,
    evidence: Evidence | None = None,
    *,
    is_near: bool = False,
) -> list[PlacedSeam]:
    """Move open seams onto nearby creases. `face_px`: longest side of the bounding box of the face's landmarks.

    Invisible positions follow their visible neighbours along the curve. A curve with too small a visible share is not
    moved. `is_near`: search only at the finest zoom, for seams that the whole shot has placed.
    """
    if evidence is None:
        return [_place_blind(seam, seen) for seam in seams]
    found = [PlacedSeam(seam.points, 0.0, 0.0, seam.expected_error_px) for seam in seams]
    weight = BY_SHOT if is_near else NEAR
    for zoom in evidence.zooms[-1:] if is_near else evidence.zooms:
        found = _search_again(found, seams, seen, face_px, evidence, (zoom, weight))
    step_px = face_px / (ACROSS * evidence.zooms[-1])
    return [_refine(seam, item, seen, step_px) for seam, item in zip(seams, found)]


@dataclass(frozen=True, slots=True, eq=False)
class Sighting:
    """The likely position of a seam relative to a curve, each (S,): the parameter `at` of each position, counted in
    segments; mean and deviation of its offset along the normal in pixels; the probability that the seam is visible
    there."""

    at: Array
    offset_px: Array
    deviation_px: Array
    seen: Array


def sight(
    curves: Sequence[Array], seen: SeamLook, face_px: float, evidence: Evidence, spread_px: float, zoom: int
) -> list[Sighting | None]:
    """Each seam's likely position near its curve (P, 6), given a deviation of `spread_px`; None for a curve that is too
    short."""
    step = face_px / zoom / ACROSS
    ribbons = [places_along(points, face_px / zoom / ALONG) for points in curves]
    known = [each for each in ribbons if each is not None]
    read = read_strips(known, seen, step, evidence, zoom) if known else []
    found = iter(likely_offsets(read, spread_px / step))
    return [None if each is None else _sighting(each.pairs, next(found), step) for each in ribbons]


def _sighting(places: CurvePlaces, found: OffsetEstimate, step: float) -> Sighting:
    return Sighting(places.at, found.mean * step, found.deviation * step, found.seen)


def _search_again(
    before: Sequence[PlacedSeam],
    seams: Sequence[Seam],
    seen: SeamLook,
    face_px: float,
    evidence: Evidence,
    how: tuple[int, float],
) -> list[PlacedSeam]:
    """All seams moved once, by the network's output near their position; unmoved where too little is visible.

    `how`: the zoom, and the weight of their position.
    """
    zoom, weight = how
    zoomed_px = face_px / zoom
    ribbons = [places_along(item.points, zoomed_px / ALONG, BEYOND) for item in before]
    rows = [row for row, item in enumerate(ribbons) if item is not None]
    found = list(before)
    if not rows:
        return found
    known = [item for item in ribbons if item is not None]
    for row, places, strip in zip(rows, known, read_strips(known, seen, zoomed_px / ACROSS, evidence, zoom)):
        moved = _move_seam(seams[row], before[row], places, strip, zoomed_px, weight)
        found[row] = before[row] if moved is None else moved
    return found


def _move_seam(
    seam: Seam, before: PlacedSeam, places: CurvePlaces, strip: StripReading, face_px: float, weight: float
) -> PlacedSeam | None:
    """A seam moved onto the path through its strip, whose face side is `face_px`; None where too little is visible."""
    step, error, blind = face_px / ACROSS, before.expected_error_px, seam.expected_error_px
    path = smooth_path(strip, error / step, BEYOND // 2, weight)
    if path.seen < LEAST_SEEN:
        return None
    per_pair = 2 * (places.at[-1] - places.at[0]) / (len(places.at) - 1)
    spread = 1.25 * error / (2 * face_px / ALONG)
    first, last = (slide(hidden, BEYOND // 2, spread) for hidden in (path.hidden[::-1], path.hidden))
    points = move_places(before.points, places, path.moves * step, (-first * per_pair, last * per_pair))
    error = path.seen * (path.mean_error * step + STILL * blind) + (1 - path.seen) * UNSEEN * blind
    moved_px = float(np.linalg.norm(points[:, :2] - seam.points[:, :2], axis=1).mean())
    own = path.hidden[BEYOND // 2 : len(path.hidden) - BEYOND // 2]
    return PlacedSeam(points, path.seen, moved_px, error, tuple(float(part.mean()) for part in np.array_split(own, 3)))


def places_along(points: Array, spacing: float, beyond: int = 0) -> CurvePlaces | None:
    """An even number of positions about `spacing` apart along a curve, extended straight by `beyond` positions at each
    end.

    None for a curve of fewer than eight positions, or of too many for a seam.
    """
    line, u = _dense(points)
    length = arc_lengths(line, False)
    n = 2 * round(length[-1] / spacing / 2)
    if not 8 <= n <= 1024:
        return None
    where = np.linspace(0, length[-1], n)
    x, y, at = (_beyond(np.interp(where, length, values), beyond) for values in (line[:, 0], line[:, 1], u))
    dx, dy = (_smooth_along(np.gradient(v), _NORMAL_PLACES) for v in (x, y))
    norm = np.maximum(np.hypot(dx, dy), 1e-9)
    return CurvePlaces(np.stack([x, y], 1), np.stack([-dy, dx], 1) / norm[:, None], at)


def _dense(points: Array) -> tuple[Array, Array]:
    """PER_SEGMENT samples (M, 2) of each cubic, and their parameters (M,) counted in segments."""
    cubics = segments(points, False)
    t = np.linspace(0, 1, PER_SEGMENT, endpoint=False)
    line = np.concatenate([evaluate(cubics, t).reshape(-1, 2), np.asarray(points)[-1:, :2]])
    return line, np.arange(len(line)) / PER_SEGMENT


def _beyond(values: Array, count: int) -> Array:
    """A row of numbers extrapolated linearly at both ends, by the slope of its last four steps."""
    more = np.arange(1, count + 1)
    before = values[0] - (values[4] - values[0]) / 4 * more[::-1]
    after = values[-1] + (values[-1] - values[-5]) / 4 * more
    return np.concatenate([before, values, after])


def read_at(picture: Array, at_TDC: Array) -> Array:
    """Bilinear samples (T, D) or (T, D, colours) of a picture; (0, 0) is the centre of its first pixel.

    Outside the picture its edge is repeated.
    """
    maps = at_TDC.astype(np.float32)
    read = cv2.remap(picture, maps[..., 0], maps[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return cast(Array, read)


def strips(
    ribbons: Sequence[CurvePlaces], picture: Array, crop: Crop, step: float, features: Array | None = None
) -> tuple[Array, list[slice]]:
    """All seams' strips in one row (1, T, D, 3 + F), and the pairs of positions of each.

    `picture` (h, h, 3) and `features` (g, g, F) show the crop. Colours have mean 0 and deviation 1 in each strip.
    """
    parts: list[Array] = []
    rows: list[slice] = []
    start, n_channels = 0, 3
    if features is not None:
        features, n_channels = features.astype(np.float32), 3 + features.shape[2]
    corner = np.array([crop.x - crop.side / 2, crop.y - crop.side / 2])
    for item in ribbons:
        at = (item.points_at(OFFSETS * step) - corner) / crop.side
        strip = read_at(picture, at * len(picture) - 0.5).astype(np.float32)
        strip -= strip.mean(axis=(0, 1))
        strip = strip / (strip.std() + 1e-3 * 255)
        if features is not None:
            strip = np.concatenate([strip, _features_at(features, at)], axis=2)
        parts += [strip, np.zeros((GAP, N_OFFSETS, n_channels), np.float32)]
        rows.append(slice(start // 2, (start + len(strip)) // 2))
        start += len(strip) + GAP
    parts.append(np.zeros((-start % MULTIPLE, N_OFFSETS, n_channels), np.float32))
    return np.concatenate(parts)[None], rows


def _features_at(features: Array, at_TDC: Array) -> Array:
    """Features (T, D, F) at shares of the crop, which fade to 0 outside it."""
    maps = (at_TDC * features.shape[1::-1] - 0.5).astype(np.float32)
    four_each = np.split(features, range(4, features.shape[2], 4), axis=2)  # of more, OpenCV 5 rounds places to 1/32 px
    read = [cv2.remap(part, maps[..., 0], maps[..., 1], cv2.INTER_LINEAR) for part in four_each]
    return np.concatenate([each.reshape(*at_TDC.shape[:2], -1) for each in read], axis=2)


def read_strips(
    ribbons: Sequence[CurvePlaces], seen: SeamLook, step: float, evidence: Evidence, zoom: int = 1
) -> list[StripReading]:
    """The network's reading of each seam's strip; offsets are `step` pixels apart."""
    row, pairs = strips(ribbons, picture_for(zoom, seen.picture), seen.crop, step, seen.features)
    logits = evidence(row)[0]
    return [StripReading(logits[part], places.pairs.turn) for places, part in zip(ribbons, pairs)]


def _refine(seam: Seam, found: PlacedSeam, seen: SeamLook, step_px: float) -> PlacedSeam:
    """A seam that the network moved, refined onto the dark line nearby where a step of the strip is many pixels.

    The darkest line is not always the seam's middle: under light from one side it is the shadow of a bank. On
    validation shots of two characters with steps of 1.3 px this refinement made seams worse, 0.58 -> 0.67 and 0.61 ->
    0.66 px.
    """
    if step_px < COARSE_PX or found.seen < LEAST_SEEN:
        return found
    fine = _fine(found.points, seen, seam.width_px, min(FINE_PX, step_px / 2))
    return found if fine is None else replace(found, points=fine[0])


def _place_blind(seam: Seam, seen: SeamLook) -> PlacedSeam:
    """A seam moved onto the nearest dark line, without a network."""
    fine = _fine(seam.points, seen, seam.width_px, min(BLIND_PX, 2 * seam.expected_error_px))
    if fine is None:
        return PlacedSeam(seam.points, 0.0, 0.0, seam.expected_error_px)
    return PlacedSeam(*fine, (1 - 0.5 * fine[1]) * seam.expected_error_px)


def _fine(points: Array, seen: SeamLook, width_px: float, reach: float) -> tuple[Array, float, float] | None:
    """Points moved onto the thin dark line within `reach`, the share of the curve where it is visible, and the mean
    move."""
    step = max(0.4, width_px / 14)
    places = places_along(points, 4 * step)
    if places is None:
        return None
    half = int(np.ceil((reach + 1.5 * width_px) / step))  # wide enough to separate the line from its surroundings
    offsets = np.arange(-half, half + 1) * step
    evidence = _evidence(_plate_along(seen, places, offsets), width_px / step)
    inside = np.abs(offsets) <= reach + 1e-6
    worth = np.where(inside, evidence - 1.5 * np.abs(offsets) / reach, -np.inf)
    path = _best_path(worth)
    strength = evidence[np.arange(len(path)), path]
    share = float((strength > CLEAR).mean())
    if share < LEAST_SEEN:
        return None
    weight = np.clip(strength - 1.0, 0.02, 4.0)
    sigma = max(2.0, 0.5 * width_px / step)
    moves = _smooth_along(_parabola_top(evidence, path, offsets, step) * weight, sigma) / _smooth_along(weight, sigma)
    return move_places(points, places, moves), share, float(np.abs(moves).mean())


def _plate_along(seen: SeamLook, places: CurvePlaces, offsets: Array) -> Array:
    """The plate along the curve's normals: (T, D)."""
    at = (places.points_at(offsets) - (seen.x, seen.y)) * seen.scale - 0.5
    low = np.maximum(np.floor(at.min(axis=(0, 1))).astype(int) - 1, 0)
    high = np.maximum(np.ceil(at.max(axis=(0, 1))).astype(int) + 2, low + 1)
    low = np.minimum(low, np.array(seen.grey.shape[::-1]) - 1)
    grey = seen.grey[low[1] : high[1], low[0] : high[0]].astype(np.float32)
    return read_at(grey, at - low)


def _evidence(strip: Array, width: float) -> Array:
    """Likeness of each sample to the middle of a thin dark line, in deviations of the strip: (T, D).

    The second derivative across the strip at two widths (Lindeberg 1998, ridge detection with scale-normalised
    derivatives), averaged along it.
    """
    best = np.full(strip.shape, -np.inf)
    for sigma in (max(1.2, 0.10 * width), max(2.0, 0.2 * width)):
        smooth = cv2.GaussianBlur(strip, (0, 0), sigmaX=sigma, sigmaY=1.2, borderType=cv2.BORDER_REPLICATE)
        bend = np.zeros_like(smooth)
        bend[:, 1:-1] = smooth[:, 2:] + smooth[:, :-2] - 2 * smooth[:, 1:-1]
        bend *= sigma**1.5
        spread = float(np.median(np.abs(bend - np.median(bend)))) * _NOISE
        best = np.maximum(best, bend / max(spread, 1e-6))
    most = np.maximum(best.max(axis=1, keepdims=True), STRONG)  # scaled, not clipped, so that a peak stays a peak
    return cast(Array, np.maximum(best * (STRONG / most), -2.0))


def _best_path(worth: Array) -> NDArray[np.intp]:
    """Index of the offset (T,) at each position: the path with the largest total worth, moving at most one step
    sideways per position at a cost (Viterbi 1967)."""
    total, back = worth[0].copy(), np.zeros(worth.shape, np.int8)
    sideways = np.full((3, worth.shape[1]), -np.inf)
    columns = np.arange(worth.shape[1])
    for row in range(1, len(worth)):
        sideways[0, 1:] = total[:-1] - 2.0
        sideways[1] = total
        sideways[2, :-1] = total[1:] - 2.0
        choice = sideways.argmax(axis=0)
        back[row] = choice - 1
        total = sideways[choice, columns] + worth[row]
    path = np.zeros(len(worth), np.intp)
    path[-1] = total.argmax()
    for row in range(len(worth) - 1, 0, -1):
        path[row - 1] = path[row] + back[row, path[row]]
    return path


def _parabola_top(evidence: Array, path: NDArray[np.intp], offsets: Array, step: float) -> Array:
    """The path's offsets (T,) in pixels, refined by a parabola through each peak and its neighbours."""
    rows = np.arange(len(path))
    inner = np.clip(path, 1, evidence.shape[1] - 2)
    low, mid, high = (evidence[rows, inner + k] for k in (-1, 0, 1))
    bend = low + high - 2 * mid
    peak = (bend < -1e-6) & (inner == path)
    shift = np.where(peak, 0.5 * (low - high) / np.where(peak, bend, 1.0), 0.0)
    return np.asarray(offsets[path] + np.clip(shift, -0.5, 0.5) * step)


def _smooth_along(values: Array, sigma: float) -> Array:
    """A row of numbers smoothed by a Gaussian, its ends repeated."""
    row = np.ascontiguousarray(values, dtype=np.float64)[None]
    return cast(Array, cv2.GaussianBlur(row, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE)[0])


def move_places(points: Array, places: CurvePlaces, moves: Array, ends: tuple[float, float] = (0.0, 0.0)) -> Array:
    """The spline with its positions (all, or the pairs of them) moved along their normals.

    `ends`: by how many segments the first and last point slide along the curve; the slide fades to zero at the middle.
    """
    if len(moves) != len(places.at):
        places = places.pairs
    n = len(points) - 1
    line, u = _dense(points)
    to = u + ends[0] * np.maximum(0, 1 - 2 * u / n) + ends[1] * np.maximum(0, 2 * u / n - 1)
    outside = (places.at < 0) | (places.at > n)
    known, at = np.concatenate([u, places.at[outside]]), np.concatenate([line, places.centre[outside]])
    order = np.argsort(known)
    shift = places.normal * moves[:, None]
    shifted = np.stack(
        [np.interp(to, known[order], at[order, k]) + np.interp(to, places.at, shift[:, k]) for k in (0, 1)], 1
    )
    pieces = np.stack([shifted[k * PER_SEGMENT : (k + 1) * PER_SEGMENT + 1] for k in range(n)])
    return fit_segments(pieces, closed=False)
