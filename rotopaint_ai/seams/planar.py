"""A plane followed through a shot: where a shape that was drawn by hand lies on the frames between and beyond its keys.

Each frame is laid on the keyed one, not on its neighbour, so that nothing drifts along: corners followed from the frame
before say about where (pyramidal Lucas-Kanade, RANSAC), the correlation of the whole region refines it (Evangelidis and
Psarakis, "Parametric Image Alignment Using Enhanced Correlation Coefficient Maximization", PAMI 2008; both OpenCV's).
Between two keys both are followed, towards each other, and blended by how near they are, so that keys are met exactly.

Plate space, pixels; homographies are (3, 3) and map the keyed frame to another; pictures (H, W) are roots of the light.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import PlateError, UsageError
from rotopaint_ai.plates.plate import Plate
from rotopaint_ai.seams.width import root_light
from rotopaint_ai.shapes.manual_keys import human_keys
from rotopaint_ai.shapes.rasterise import cut, matte, union
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoShape, feather_line, feather_rows

Array = NDArray[Any]
Progress = Callable[[int, int], None]
Look = Callable[[int], Array]

SURE: Final = 0.8  # correlation with the keyed frame from which on a frame is taken as found
_UNSURE_WEIGHT = 0.05  # of a way that lost its region, beside one that did not
_MARGIN_PX = 16  # around a region
_LEAST_PX = 64  # a region of fewer pixels shows nothing to follow
_AROUND_PX = 24.0  # width of the strip that stands for an open shape
_HOMOGRAPHY_PX = 2500.0  # regions of fewer pixels get six parameters, not eight
_CORNERS, _CORNER_GAP_PX, _BACK_PX = 200, 4, 1.0
_ROUNDS = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 60, 1e-5)
_BLUR_PX = 5
_MOST_STEP = 0.1  # of a lost region's size, from one frame to the next


@dataclass(frozen=True, slots=True)
class PlanarTrack:
    """Where a shape lies on frames that nobody keyed, and those of them where it may not lie right.

    `feathers`: the rows of its feather line there, as keys have them; empty where it has none.
    """

    points: Mapping[int, Points]
    feathers: Mapping[int, Points]
    doubtful: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupTrack:
    """Where a plane goes from the frame that it was tracked from, by frame, and the frames where it was lost."""

    homographies: Mapping[int, Array]
    doubtful: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Way:
    """From a key through frames, nearest first, towards the next key (None: there is none)."""

    start: int
    frames: tuple[int, ...]
    end: int | None

    def weight(self, frame: int, *, is_sure: bool) -> float:
        """How much it counts at a frame beside the way from the other side."""
        near = 1.0 if self.end is None else abs(self.end - frame) / abs(self.end - self.start)
        return near if is_sure else near * _UNSURE_WEIGHT


@dataclass(frozen=True, slots=True, eq=False)
class _Keyed:
    """The keyed frame, and the region in it (H, W): 255 inside."""

    picture: Array
    mask: Array
    motion: int


def follow_plane(
    shape: RotoShape,
    frames: Sequence[int],
    plate: Plate,
    *,
    away: Sequence[RotoShape] = (),
    progress: Progress = lambda done, total: None,
) -> PlanarTrack:
    """Follow a shape from the keys that a person made, through some frames of a plate.

    `away`: shapes whose inside is not looked at, such as hold-outs; they are taken where they lie at the keys. A frame
    that cannot be read is doubtful, and no place is given for it.
    Raises: UsageError where nobody has keyed the shape on these frames, or its region is too small; PlateError where a
    keyed frame, or all that are to be followed, cannot be read.
    """
    keys = {frame: _with_line(shape, frame) for frame in human_keys(shape) if frame in set(frames)}
    if not keys:
        raise UsageError(f"{shape.name}: set a key by hand on one of these frames; it is followed from there")
    ways, look = _ways_from_keys(sorted(keys), sorted(frames)), _looks_at(plate)
    total, done, found = sum(len(way.frames) for way in ways), 0, dict[int, list[tuple[float, Points, bool]]]()
    for way in ways:
        keyed = _keyed_region((shape,), way.start, look(way.start), away)
        for frame, homography, is_sure in _walk_way(keyed, way, look):
            weight = way.weight(frame, is_sure=is_sure)
            found.setdefault(frame, []).append((weight, moved_by(keys[way.start], homography), is_sure))
            progress(done := done + 1, total)
    if ways and not found:
        look(ways[0].frames[0])  # says why it cannot be read
    wanted = {frame for way in ways for frame in way.frames}
    doubtful = (frame for frame in wanted if not any(is_sure for _, _, is_sure in found.get(frame, ())))
    both, n = {frame: _blended(rows) for frame, rows in sorted(found.items())}, shape.n_points
    return PlanarTrack(
        {frame: each[:n] for frame, each in both.items()},
        {frame: feather_rows(each[:n], each[n:]) if each[n:] else () for frame, each in both.items()},
        tuple(sorted(doubtful)),
    )


def follow_group(
    shapes: Sequence[RotoShape],
    start: int,
    frames: Sequence[int],
    plate: Plate,
    *,
    away: Sequence[RotoShape] = (),
    progress: Progress = lambda done, total: None,
) -> GroupTrack:
    """Follow the plane that lies under all of some shapes together, from one frame through others of a plate.

    `away` as in `follow_plane`. A frame that cannot be read is doubtful, and no homography is given for it.
    Raises: UsageError where the shapes show nothing to follow there; PlateError where `start`, or all frames that are
    to be followed, cannot be read.
    """
    look = _looks_at(plate)
    sides = tuple(f for f in sorted(frames, reverse=True) if f < start), tuple(f for f in sorted(frames) if f > start)
    ways = [_Way(start, side, None) for side in sides if side]
    keyed = _keyed_region(shapes, start, look(start), away)
    found, doubtful, done = {start: np.eye(3)}, {f for way in ways for f in way.frames}, 0
    for way in ways:
        for frame, homography, is_sure in _walk_way(keyed, way, look):
            found[frame] = homography
            doubtful -= {frame} if is_sure else set()
            progress(done := done + 1, sum(len(each.frames) for each in ways))
    if ways and len(found) == 1:
        look(ways[0].frames[0])  # says why it cannot be read
    return GroupTrack(dict(sorted(found.items())), tuple(sorted(doubtful)))


def _with_line(shape: RotoShape, frame: int) -> Points:
    """The points of a shape at a frame; after them those of its feather line, where it has one."""
    points = shape.at(frame)
    return (*points, *feather_line(points, shape.feather_at(frame))) if shape.has_feather_line else points


def moved_by(points: Points, homography: Array) -> Points:
    """Control points, and the ends of their tangents, mapped."""

    def mapped(x: float, y: float) -> tuple[float, float]:
        u, v, w = homography @ (x, y, 1.0)
        return float(u / w), float(v / w)

    def carried(p: ControlPoint) -> ControlPoint:
        x, y = mapped(p.x, p.y)
        ix, iy = mapped(p.x + p.in_dx, p.y + p.in_dy)
        ox, oy = mapped(p.x + p.out_dx, p.y + p.out_dy)
        return ControlPoint(x, y, ix - x, iy - y, ox - x, oy - y)

    return tuple(map(carried, points))


def _ways_from_keys(keys: Sequence[int], frames: Sequence[int]) -> list[_Way]:
    first, last = keys[0], keys[-1]
    ways = [_Way(first, tuple(f for f in reversed(frames) if f < first), None)]
    for a, b in pairwise(keys):
        between = tuple(f for f in frames if a < f < b)
        ways += [_Way(a, between, b), _Way(b, between[::-1], a)]
    ways.append(_Way(last, tuple(f for f in frames if f > last), None))
    return [way for way in ways if way.frames]


def _looks_at(plate: Plate) -> Look:
    @lru_cache(maxsize=2)
    def look_at_frame(frame: int) -> Array:
        read = plate.read(frame, keep_native=False)
        whole = np.zeros((read.height, read.width), np.float32)
        pixels, (x, y) = read.region(0, 0, read.width, read.height)
        whole[y : y + pixels.shape[0], x : x + pixels.shape[1]] = root_light(pixels)
        return whole

    return look_at_frame


def _keyed_region(shapes: Sequence[RotoShape], frame: int, picture: Array, away: Sequence[RotoShape]) -> _Keyed:
    """The region of some shapes together, without those that are `away`."""
    height, width = picture.shape
    theirs = [matte(each if each.closed else _strip(each, frame), frame, width, height) for each in shapes]
    region = cut(union(theirs), [matte(each, frame, width, height) for each in away])
    mask = (region.paste(width, height) > 0.5).astype(np.uint8) * 255
    n_pixels = int(np.count_nonzero(mask))
    if n_pixels < _LEAST_PX:
        names = ", ".join(shape.name for shape in shapes)
        raise UsageError(f"{names}: {n_pixels} pixels at frame {frame} show nothing to follow; draw it larger")
    is_large = any(shape.closed for shape in shapes) and n_pixels >= _HOMOGRAPHY_PX
    return _Keyed(picture, mask, cv2.MOTION_HOMOGRAPHY if is_large else cv2.MOTION_AFFINE)


def _strip(shape: RotoShape, frame: int) -> RotoShape:
    return RotoShape(shape.name, False, "matte", {frame: Key(shape.at(frame))}, width_px=_AROUND_PX)


def _walk_way(keyed: _Keyed, way: _Way, look: Look) -> Iterator[tuple[int, Array, bool]]:
    """Homographies of a way's frames that can be read, and whether the region was found again there.

    Where the surface is lost and what is found instead would throw the region about, it stays where it was last.
    """
    homography, before = np.eye(3), keyed.picture
    for frame in way.frames:
        try:
            now = look(frame)
        except PlateError:
            continue
        guess = _homography_step(before, now, _warped(keyed.mask, homography), keyed.motion) @ homography
        refined, likeness = _refined(keyed, now, guess)
        if likeness >= SURE or _is_likely_step(keyed.mask, homography, refined):
            homography = refined
        before = now
        yield frame, homography, likeness >= SURE


def _is_likely_step(mask: Array, before: Array, now: Array) -> bool:
    """Whether a region's box goes no farther than a share of its own size from one frame to the next."""
    x, y, w, h = cv2.boundingRect(mask)
    corners = np.array([(x, y), (x + w, y), (x + w, y + h), (x, y + h)], float)
    was, is_now = (_mapped_corners(corners, each) for each in (before, now))
    size = float(np.linalg.norm(np.ptp(was, axis=0)))
    off = float(np.linalg.norm(is_now - was, axis=1).max())
    return bool(np.isfinite(off) and off <= _MOST_STEP * size)


def _mapped_corners(corners: Array, homography: Array) -> Array:
    rows = np.c_[corners, np.ones(len(corners))] @ homography.T
    return np.asarray(rows[:, :2] / rows[:, 2:])


def _warped(mask: Array, homography: Array) -> Array:
    height, width = mask.shape
    out: Array = cv2.warpPerspective(mask, homography, (width, height), flags=cv2.INTER_NEAREST)
    return out


def _homography_step(before: Array, now: Array, mask: Array, motion: int) -> Array:
    """From one frame to the next, by corners that are found there and back again."""
    top = max(float(np.percentile(before[mask > 0], 99.0)), 1e-3) if mask.any() else 1.0
    a, b = (np.clip(picture * (255.0 / top), 0, 255).astype(np.uint8) for picture in (before, now))
    corners = cv2.goodFeaturesToTrack(a, _CORNERS, 0.01, _CORNER_GAP_PX, mask=mask)
    if corners is None:
        return np.eye(3)
    there, ok, _ = cv2.calcOpticalFlowPyrLK(a, b, corners, corners.copy())
    back, ok_back, _ = cv2.calcOpticalFlowPyrLK(b, a, there, corners.copy())
    off = np.hypot(*(back - corners).reshape(-1, 2).T)
    good = (ok.ravel() > 0) & (ok_back.ravel() > 0) & (off < _BACK_PX)
    return _homography_of(corners.reshape(-1, 2)[good], there.reshape(-1, 2)[good], motion)


def _homography_of(a: Array, b: Array, motion: int) -> Array:
    """What moves places (N, 2) to others; with few of them no more than they can bear: an affine map, or a shift."""
    if len(a) >= 12 and motion == cv2.MOTION_HOMOGRAPHY:
        found, _ = cv2.findHomography(a, b, cv2.RANSAC, 2.0)
        if found is not None:
            return np.asarray(found)
    if len(a) >= 6:
        affine, _ = cv2.estimateAffine2D(a, b, method=cv2.RANSAC, ransacReprojThreshold=2.0)
        if affine is not None:
            return np.vstack([affine, (0.0, 0.0, 1.0)])
    shift = np.median(b - a, axis=0) if len(a) else (0.0, 0.0)
    return np.array([[1.0, 0.0, shift[0]], [0.0, 1.0, shift[1]], [0.0, 0.0, 1.0]])


def _refined(keyed: _Keyed, now: Array, guess: Array) -> tuple[Array, float]:
    """The homography that lays the region on a frame best, from near it, and the correlation there; else the guess, 0.

    OpenCV's mask is that of the picture which is warped: so the keyed frame is laid on `now`.
    """
    x0, y0, x1, y1 = _box(_warped(keyed.mask, guess))
    if min(x1 - x0, y1 - y0) < 8:
        return guess, 0.0
    to_plate = np.array([[1.0, 0.0, x0], [0.0, 1.0, y0], [0.0, 0.0, 1.0]])
    start = np.linalg.inv(guess) @ to_plate
    start /= start[2, 2]
    is_affine = keyed.motion == cv2.MOTION_AFFINE
    warp: Any = np.asarray(start[:2] if is_affine else start, np.float32)
    try:
        likeness, warp = cv2.findTransformECC(
            now[y0:y1, x0:x1], keyed.picture, warp, keyed.motion, _ROUNDS, keyed.mask, _BLUR_PX
        )
        whole = np.vstack([warp, (0.0, 0.0, 1.0)]) if is_affine else np.asarray(warp, float)
        found = to_plate @ np.linalg.inv(whole)
    except (cv2.error, np.linalg.LinAlgError):
        return guess, 0.0
    return found / found[2, 2], float(likeness)


def _box(mask: Array) -> tuple[int, int, int, int]:
    x, y, w, h = cv2.boundingRect(mask)
    height, width = mask.shape
    return (
        max(x - _MARGIN_PX, 0),
        max(y - _MARGIN_PX, 0),
        min(x + w + _MARGIN_PX, width),
        min(y + h + _MARGIN_PX, height),
    )


def _blended(rows: Sequence[tuple[float, Points, bool]]) -> Points:
    weights = np.array([weight for weight, _, _ in rows])
    stacked = np.array([points for _, points, _ in rows])
    mean = np.tensordot(weights / weights.sum(), stacked, axes=1)
    return tuple(ControlPoint(*map(float, row)) for row in mean)
