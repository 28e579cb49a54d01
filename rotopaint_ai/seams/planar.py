"""Planar tracking: the position of a hand-drawn shape on the frames between and beyond its keys.

Each frame is registered to the keyed frame, not to its neighbour, so that errors do not add up (`plane_fit`). Corners
tracked from the previous frame, or a template search, give the initial guess. Each position has an expected error.
Frames on which the surface is not visible get no position: the shape holds there, or moves linearly to its next key.
Between two keys, tracks from both are blended by distance and expected error, so that the result meets both keys.

Plate space, pixels; homographies are (3, 3) and map the keyed frame to another; pictures (H, W) are square roots of
light.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import PlateError, UsageError
from rotopaint_ai.plates.plate import Plate
from rotopaint_ai.seams.groove_width import root_light
from rotopaint_ai.seams.plane_fit import KeyedPlane, PlaneFit
from rotopaint_ai.shapes.edit_transform import map_point
from rotopaint_ai.shapes.manual_keys import manual_keys
from rotopaint_ai.shapes.rasterise import matte, subtract_mattes, union
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoShape, feather_line, feather_rows

Array = NDArray[Any]
Progress = Callable[[int, int], None]
ReadPicture = Callable[[int], Array]

SURE_PX: Final = 1.5  # largest expected error of a position that counts as found
_LEAST_PX = 64  # fewer pixels than this are too small a region to track
_AROUND_PX = 24.0  # width of the tracked strip along an open shape
_HOMOGRAPHY_PX = 2500.0  # regions of fewer pixels get an affine map (6 parameters), not a homography (8)
_LEAST_SEARCHED_PX = 8
_CORNERS, _CORNER_GAP_PX, _BACK_PX = 200, 4, 1.0
# search range around the last position: at least this, and this share of the region's size
_SEARCH_PX, _SEARCH_SHARE = 24, 0.5


@dataclass(frozen=True, slots=True)
class PlanarTrack:
    """The positions of a shape on unkeyed frames with a visible surface; `lost` are the other unkeyed frames.

    `feathers`: its feather line on these frames, as in keys; empty where it has none. `unsure`: the expected error in
    pixels on frames where it is above `SURE_PX`.
    """

    points: Mapping[int, Points]
    feathers: Mapping[int, Points]
    lost: tuple[int, ...]
    unsure: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class GroupTrack:
    """Homographies of a plane by frame, from the frame where tracking began; `lost`, `unsure` as in `PlanarTrack`."""

    homographies: Mapping[int, Array]
    lost: tuple[int, ...]
    unsure: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class _TrackSpan:
    """Frames to track from a key, nearest first, up to the next key (None without one)."""

    start: int
    frames: tuple[int, ...]
    end: int | None

    def weight(self, frame: int, expected_px: float) -> float:
        """The track's weight at a frame when blended with the track from the other key: larger near its key and with a
        small error."""
        near = 1.0 if self.end is None else abs(self.end - frame) / abs(self.end - self.start)
        return near / (SURE_PX**2 + expected_px**2)


@dataclass(frozen=True, slots=True, eq=False)
class _Keyed:
    """The keyed frame, its region (H, W, 255 inside), and its plane."""

    picture: Array
    mask: Array
    plane: KeyedPlane


class _Position(NamedTuple):
    """The position of a shape according to one track."""

    weight: float
    points: Points
    expected_px: float


def follow_plane(
    shape: RotoShape,
    frames: Sequence[int],
    plate: Plate,
    *,
    away: Sequence[RotoShape] = (),
    progress: Progress = lambda done, total: None,
) -> PlanarTrack:
    """Track a shape from its hand-made keys over some frames of a plate.

    `away`: shapes whose inside is excluded, such as hold-outs, at their position on the key frame. An unreadable frame
    is lost.

    Raises: UsageError where the shape has no hand-made key on these frames, or its region is too small; PlateError
    where a keyed frame, or every frame to track, is unreadable.
    """
    keys = {frame: _with_feather(shape, frame) for frame in manual_keys(shape) if frame in set(frames)}
    if not keys:
        raise UsageError(f"{shape.name}: set a key by hand on one of these frames; it is followed from there")
    spans, look = _spans_from_keys(sorted(keys), sorted(frames)), _looks_at(plate)
    total, done, found = sum(len(span.frames) for span in spans), 0, dict[int, list[_Position]]()
    for span in spans:
        keyed = _keyed_region((shape,), span.start, look(span.start), away)
        for frame, fit in _track_span(keyed, span, look):
            if fit is not None:
                weight, points = span.weight(frame, fit.expected_px), move_by(keys[span.start], fit.pose.homography)
                found.setdefault(frame, []).append(_Position(weight, points, fit.expected_px))
            progress(done := done + 1, total)
    if spans and not done:
        look(spans[0].frames[0])  # raises the reason why it is unreadable
    wanted = {frame for span in spans for frame in span.frames}
    both, n = {frame: _blend(positions) for frame, positions in sorted(found.items())}, shape.n_points
    return PlanarTrack(
        {frame: each.points[:n] for frame, each in both.items()},
        {frame: _feathers(each.points, n) for frame, each in both.items()},
        tuple(sorted(wanted - both.keys())),
        {frame: each.expected_px for frame, each in both.items() if each.expected_px > SURE_PX},
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
    """Track the common plane of several shapes, from one frame over other frames of a plate.

    `away` as in `follow_plane`. An unreadable frame is lost, and has no homography.

    Raises: UsageError where the shapes have too little to track there; PlateError where `start`, or every frame to
    track, is unreadable.
    """
    look = _looks_at(plate)
    sides = tuple(f for f in sorted(frames, reverse=True) if f < start), tuple(f for f in sorted(frames) if f > start)
    spans = [_TrackSpan(start, side, None) for side in sides if side]
    keyed = _keyed_region(shapes, start, look(start), away)
    found, unsure, done = {start: np.eye(3)}, dict[int, float](), 0
    for span in spans:
        for frame, fit in _track_span(keyed, span, look):
            if fit is not None:
                found[frame] = fit.pose.homography
                unsure |= {frame: fit.expected_px} if fit.expected_px > SURE_PX else {}
            progress(done := done + 1, sum(len(each.frames) for each in spans))
    if spans and not done:
        look(spans[0].frames[0])  # raises the reason why it is unreadable
    lost = {frame for span in spans for frame in span.frames} - found.keys()
    return GroupTrack(dict(sorted(found.items())), tuple(sorted(lost)), dict(sorted(unsure.items())))


def _with_feather(shape: RotoShape, frame: int) -> Points:
    """The points of a shape at a frame, followed by those of its feather line, where it has one."""
    points = shape.at(frame)
    return (*points, *feather_line(points, shape.feather_at(frame))) if shape.has_feather_line else points


def move_by(points: Points, homography: Array) -> Points:
    """Control points with both tangents, mapped by a homography (3, 3) of plate space."""

    def map_xy(x: float, y: float) -> tuple[float, float]:
        u, v, w = homography @ (x, y, 1.0)
        return float(u / w), float(v / w)

    return tuple(map_point(point, map_xy) for point in points)


def _spans_from_keys(keys: Sequence[int], frames: Sequence[int]) -> list[_TrackSpan]:
    first, last = keys[0], keys[-1]
    spans = [_TrackSpan(first, tuple(f for f in reversed(frames) if f < first), None)]
    for a, b in pairwise(keys):
        between = tuple(f for f in frames if a < f < b)
        spans += [_TrackSpan(a, between, b), _TrackSpan(b, between[::-1], a)]
    spans.append(_TrackSpan(last, tuple(f for f in frames if f > last), None))
    return [span for span in spans if span.frames]


def _looks_at(plate: Plate) -> ReadPicture:
    @lru_cache(maxsize=2)
    def look_at_frame(frame: int) -> Array:
        read = plate.read(frame, keep_native=False)
        whole = np.zeros((read.height, read.width), np.float32)
        pixels, (x, y) = read.region(0, 0, read.width, read.height)
        whole[y : y + pixels.shape[0], x : x + pixels.shape[1]] = root_light(pixels)
        return whole

    return look_at_frame


def _keyed_region(shapes: Sequence[RotoShape], frame: int, picture: Array, away: Sequence[RotoShape]) -> _Keyed:
    """The joint region of some shapes, without the shapes in `away`."""
    height, width = picture.shape
    theirs = [matte(each if each.closed else _strip(each, frame), frame, width, height) for each in shapes]
    region = subtract_mattes(union(theirs), [matte(each, frame, width, height) for each in away])
    mask = (region.paste(width, height) > 0.5).astype(np.uint8) * 255
    n_pixels = int(np.count_nonzero(mask))
    if n_pixels < _LEAST_PX:
        names = ", ".join(shape.name for shape in shapes)
        raise UsageError(f"{names}: {n_pixels} pixels at frame {frame} show nothing to follow; draw it larger")
    is_large = any(shape.closed for shape in shapes) and n_pixels >= _HOMOGRAPHY_PX
    return _Keyed(picture, mask, KeyedPlane(picture, mask, 8 if is_large else 6))


def _strip(shape: RotoShape, frame: int) -> RotoShape:
    return RotoShape(shape.name, False, "matte", {frame: Key(shape.at(frame))}, width_px=_AROUND_PX)


def _track_span(keyed: _Keyed, span: _TrackSpan, look: ReadPicture) -> Iterator[tuple[int, PlaneFit | None]]:
    """The plane's fit on each readable frame of a track; None where it is not visible, and the last pose is kept."""
    pose, before = keyed.plane.keyed_pose(), keyed.picture
    for frame in span.frames:
        try:
            now = look(frame)
        except PlateError:
            continue
        prior = keyed.plane.later(pose)
        fit = keyed.plane.locate(now, prior, _guesses(keyed, before, now, pose.homography))
        is_seen = keyed.plane.is_seen(fit)
        pose, before = fit.pose if is_seen else prior, now
        yield frame, fit if is_seen else None


def _guesses(keyed: _Keyed, before: Array, now: Array, last: Array) -> Iterator[Array]:
    """Guesses at the plane's homography: by corners tracked from the previous frame, then by a template search."""
    region = _warp_mask(keyed.mask, last)
    yield _homography_step(before, now, region, keyed.plane.n) @ last
    if min(cv2.boundingRect(region)[2:]) >= _LEAST_SEARCHED_PX:
        yield _search_shift(keyed, now, region, last) @ last


def _search_shift(keyed: _Keyed, now: Array, region: Array, last: Array) -> Array:
    """The shift of a region (H, W) to the nearby position that looks most like the keyed region."""
    (x, y, w, h), (height, width) = cv2.boundingRect(region), now.shape
    reach = int(max(_SEARCH_PX, _SEARCH_SHARE * max(w, h)))
    left, top = max(x - reach, 0), max(y - reach, 0)
    around = now[top : min(y + h + reach, height), left : min(x + w + reach, width)]
    was = cv2.warpPerspective(keyed.picture, last, (width, height))[y : y + h, x : x + w]
    weight = (region[y : y + h, x : x + w] > 0).astype(np.float32)
    alike = cv2.matchTemplate(around, was, cv2.TM_CCOEFF_NORMED, mask=weight)
    _, _, _, (column, row) = cv2.minMaxLoc(np.where(np.isfinite(alike), alike, -1.0))
    return np.array([[1.0, 0.0, left + column - x], [0.0, 1.0, top + row - y], [0.0, 0.0, 1.0]])


def _warp_mask(mask: Array, homography: Array) -> Array:
    height, width = mask.shape
    out: Array = cv2.warpPerspective(mask, homography, (width, height), flags=cv2.INTER_NEAREST)
    return out


def _homography_step(before: Array, now: Array, mask: Array, n: int) -> Array:
    """The homography from one frame to the next, by corners that pass a forward-backward check."""
    top = max(float(np.percentile(before[mask > 0], 99.0)), 1e-3) if mask.any() else 1.0
    a, b = (np.clip(picture * (255.0 / top), 0, 255).astype(np.uint8) for picture in (before, now))
    corners = cv2.goodFeaturesToTrack(a, _CORNERS, 0.01, _CORNER_GAP_PX, mask=mask)
    if corners is None:
        return np.eye(3)
    there, ok, _ = cv2.calcOpticalFlowPyrLK(a, b, corners, corners.copy())
    back, ok_back, _ = cv2.calcOpticalFlowPyrLK(b, a, there, corners.copy())
    off = np.hypot(*(back - corners).reshape(-1, 2).T)
    good = (ok.ravel() > 0) & (ok_back.ravel() > 0) & (off < _BACK_PX)
    return _homography_of(corners.reshape(-1, 2)[good], there.reshape(-1, 2)[good], n)


def _homography_of(a: Array, b: Array, n: int) -> Array:
    """The homography that maps points (N, 2) to others; an affine map or a shift where the points are few."""
    if len(a) >= 12 and n == 8:
        found, _ = cv2.findHomography(a, b, cv2.RANSAC, 2.0)
        if found is not None:
            return np.asarray(found)
    if len(a) >= 6:
        affine, _ = cv2.estimateAffine2D(a, b, method=cv2.RANSAC, ransacReprojThreshold=2.0)
        if affine is not None:
            return np.vstack([affine, (0.0, 0.0, 1.0)])
    shift = np.median(b - a, axis=0) if len(a) else (0.0, 0.0)
    return np.array([[1.0, 0.0, shift[0]], [0.0, 1.0, shift[1]], [0.0, 0.0, 1.0]])


def _blend(positions: Sequence[_Position]) -> _Position:
    """The weighted mean of the positions from both keys."""
    weights = np.array([position.weight for position in positions])
    shares = weights / weights.sum()
    mean = np.tensordot(shares, np.array([position.points for position in positions]), axes=1)
    expected_px = float(np.linalg.norm(shares * [position.expected_px for position in positions]))
    return _Position(float(weights.sum()), tuple(ControlPoint(*map(float, row)) for row in mean), expected_px)


def _feathers(points: Points, n: int) -> Points:
    """The feather rows of the points that `_with_feather` appended after the first n."""
    return feather_rows(points[:n], points[n:]) if points[n:] else ()
