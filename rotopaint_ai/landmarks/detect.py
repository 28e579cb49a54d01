"""Landmarks from plates: a crop that follows the face, a landmark model, and detection of lost faces.

N crops, L landmarks, C components x then y.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, log
from statistics import median

import numpy as np

from rotopaint_ai.crops import CROP_MARGIN, Box, Crop, CropKeys, crop_around, cut, follow, is_settled
from rotopaint_ai.errors import CropError
from rotopaint_ai.landmarks.holds import HoldFinder
from rotopaint_ai.landmarks.track import Array, Detect, FrameLandmarks, Picture

Display = Callable[[Picture], Picture]
Hand = Mapping[int, tuple[float, float]]

_MAX_PASSES = 3
_SEARCH_STEPS = (-0.5, 0.0, 0.5)
_SEARCH_SCALES = (1.0, 1.6)
_PROPOSE_SHARES = (0.9, 0.55, 0.33)  # crop sides tried by `propose`, as shares of the plate's height
_PROPOSE_BEST = 4
_BATCH = 8
_EVIDENCE = 8  # exposures after which a shot is known to show a face
_MOVES = ((-0.2, 0.0), (0.2, 0.0), (0.0, -0.2), (0.0, 0.2))  # shifts in crop sides ...
_MOVED_SCALE = 1.2  # ... and factor on the side, so that a face stays inside
DOUBT = "the model doubts that this is a face"
_MEMORY = 25  # accepted frames for the typical expected error


@dataclass(frozen=True, slots=True)
class LostLimits:
    """Limits beyond which a face counts as lost. Shares are of the crop's side."""

    error_share: float = 0.12  # median expected error
    error_ratio: float = 4.0  # median expected error over the typical one in this shot ...
    error_floor: float = 0.03  # ... if it is also above this share
    doubt_ratio: float = 2.0  # the same ratio above which a face is also searched around its last position
    visible: float = 0.12  # mean probability of being visible
    outside: float = 0.35  # share of landmarks outside the crop
    off_plate: float = 0.75  # share of landmarks where the plate has no pixels
    smallest: float = 0.25  # longest side of the landmarks' box
    largest: float = 1.6
    instability: float = inf  # median over a shot's first exposures above which it shows no face


FARTHEST = 10  # in crop sides: a point further from the crop's centre is invalid


@dataclass(frozen=True, slots=True, eq=False)
class FaceReading:
    """One prediction of the model, in plate space."""

    crop: Crop
    points_LC: Array
    error_L: Array
    visible_L: Array
    is_finite: bool = True

    @property
    def error_share(self) -> float:
        """Median expected error over the crop's side."""
        return float(np.median(self.error_L)) / self.crop.side

    @property
    def cost(self) -> float:
        """A score that is larger the less this looks like a face: expected error over visibility."""
        return self.error_share / max(float(self.visible_L.mean()), 0.05)


@dataclass(slots=True)
class Follower:
    """Tracks a face frame by frame; frames must come in ascending order.

    `detect`: the landmark model. `size_px`: side of its crop. `display`: converts scene-linear RGB to what the model
    was trained on. `keys`: boxes drawn by hand; one decides at its frame, and in between the search starts there when
    the face is lost.
    """

    detect: Detect
    size_px: int
    keys: CropKeys
    display: Display
    margin: float = CROP_MARGIN
    limits: LostLimits = field(default_factory=LostLimits)
    holds: HoldFinder | None = field(default_factory=HoldFinder)
    _previous: FrameLandmarks | None = None
    _usual: deque[float] = field(default_factory=lambda: deque(maxlen=_MEMORY))
    _instabilities: deque[float] = field(default_factory=lambda: deque(maxlen=_EVIDENCE))
    _is_a_face: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether the next exposure will also be predicted in shifted crops (`jitter_crops`)."""
        return self.limits.instability < inf and not self._is_a_face

    def step(
        self, frame: int, rgb: Picture, origin: tuple[int, int] = (0, 0), hand: Hand | None = None
    ) -> FrameLandmarks:
        """Landmarks of the next frame, from its pixels (H, W, 3) with the data window at `origin`; `hand` places
        landmarks (by row) by hand."""
        held_from = self._held_from(frame, rgb, origin)
        if held_from != frame and self._previous is not None and self._previous.crop is not None:
            reading = self._read_crop(rgb, origin, self._previous.crop)  # the same crop: only the noise differs
            reason = self._previous.lost
        else:
            reading, reason, is_followed = self._find_face(frame, rgb, origin)
            reason = reason or self._off_plate(reading, rgb, origin)
            reason = reason or self._unstable(reading, rgb, origin, is_followed=is_followed)
            if self.holds is not None:
                self.holds.start(rgb, origin, reading.crop)
        landmarks = FrameLandmarks(
            frame=frame,
            points_LC=reading.points_LC,
            expected_error_px_L=reading.error_L,
            visible_L=reading.visible_L,
            hand_L=np.zeros(len(reading.points_LC), dtype=bool),
            held_from=held_from,
            crop=reading.crop,
            lost=reason,
        ).with_hand(hand or {})
        self._remember_error(landmarks, reading)
        return landmarks

    def _held_from(self, frame: int, rgb: Picture, origin: tuple[int, int]) -> int:
        if self.holds is None or self._previous is None or self.keys.is_key(frame):
            return frame
        return self._previous.held_from if self.holds.is_repeat(rgb, origin) else frame

    def _remember_error(self, landmarks: FrameLandmarks, reading: FaceReading) -> None:
        self._previous = landmarks
        if landmarks.lost is None:
            self._usual.append(reading.error_share)

    def _find_face(self, frame: int, rgb: Picture, origin: tuple[int, int]) -> tuple[FaceReading, str | None, bool]:
        """The prediction, the reason if it is no face, and whether it is consistent with the previous exposure."""
        previous = self._previous
        if previous is None or previous.crop is None or previous.lost is not None or self.keys.is_key(frame):
            reading = self._read_settled(rgb, origin, self.keys.at(frame))
            expected = None
        else:
            expected = follow(previous.crop, previous.points_LC, margin=self.margin)
            reading = self._read_settled(rgb, origin, expected, is_rough=False)
        is_followed = self._lost(reading) is None and not (expected is not None and _has_jumped(reading, expected))
        if is_followed and not (expected is not None and self._is_doubted(reading)):
            return reading, None, expected is not None
        best = self._search(rgb, origin, [reading, self._read_settled(rgb, origin, self.keys.at(frame))], expected)
        return best, self._lost(best), is_followed and expected is not None and not _has_jumped(best, expected)

    def _search(
        self, rgb: Picture, origin: tuple[int, int], readings: list[FaceReading], expected: Crop | None
    ) -> FaceReading:
        """The best of these predictions and of one in crops around the face's last position."""
        best = min(readings, key=self._rank)
        if self._lost(best) is None:
            best = self._read_settled(rgb, origin, crop_around(best.points_LC, margin=self.margin))
        if expected is None:
            return best
        rough = min(self._read_all(rgb, origin, _crops_around(expected)), key=lambda reading: reading.cost)
        found = self._read_settled(rgb, origin, crop_around(rough.points_LC, margin=self.margin))
        return min(best, found, key=self._rank)

    def _is_doubted(self, reading: FaceReading) -> bool:
        """Whether a reading that is not lost is unusual: after a cut the head may be elsewhere."""
        return bool(self._usual) and reading.error_share > self.limits.doubt_ratio * median(self._usual)

    def _rank(self, reading: FaceReading) -> tuple[bool, float]:
        """Smaller for a reading that looks more like a face."""
        return self._lost(reading) is not None, reading.cost

    def _read_settled(self, rgb: Picture, origin: tuple[int, int], crop: Crop, *, is_rough: bool = True) -> FaceReading:
        """Predict in a crop, then in the crop around the found landmarks, until it converges.

        While tracking (`is_rough` false) the crop is one frame behind by design; only a large difference is repeated.
        """
        for _ in range(_MAX_PASSES):
            reading = self._read_crop(rgb, origin, crop)
            wanted = crop_around(reading.points_LC, margin=self.margin)
            is_rough = is_rough or _is_far(crop, wanted)
            if not is_rough or is_settled(crop, wanted):
                break
            crop = wanted
        return reading

    def _read_crop(self, rgb: Picture, origin: tuple[int, int], crop: Crop) -> FaceReading:
        return self._read_all(rgb, origin, [crop])[0]

    def _read_all(self, rgb: Picture, origin: tuple[int, int], crops: Sequence[Crop]) -> list[FaceReading]:
        return read(rgb, origin, crops, detect=self.detect, size_px=self.size_px, display=self.display)

    def _lost(self, reading: FaceReading) -> str | None:
        limits, share = self.limits, reading.error_share
        usual = median(self._usual) if self._usual else 0.0
        if not reading.is_finite:
            return "the model gave no finite landmarks near the crop"
        if share > limits.error_share or (usual and share > max(limits.error_ratio * usual, limits.error_floor)):
            return f"expected error is {share:.0%} of the crop (usual here: {usual:.1%})"
        if float(reading.visible_L.mean()) < limits.visible:
            return f"only {float(reading.visible_L.mean()):.0%} of the landmarks can be seen"
        return self._misshapen(reading)

    def _unstable(
        self, reading: FaceReading, rgb: Picture, origin: tuple[int, int], *, is_followed: bool
    ) -> str | None:
        """The reason if a shot's exposures so far look like no face; None once enough of them looked like one.

        A face found anew, after a cut or after being lost, is tested by itself.
        """
        limit = self.limits.instability
        if limit == inf or (self._is_a_face and is_followed):
            return None
        share = instability([reading, *self._read_all(rgb, origin, jitter_crops(reading.crop))])
        if not self._is_a_face:
            self._instabilities.append(share)
            share = max(median(self._instabilities), 0.0 if is_followed else share)
        if share > limit:
            why = f"landmarks follow the crop by {share:.1%} of it, a face's by less than {limit:.1%}"
            return f"{DOUBT} ({why})"
        n_faces = sum(each <= limit for each in self._instabilities)  # more than half: no later median can exceed it
        self._is_a_face = self._is_a_face or n_faces > _EVIDENCE // 2 or len(self._instabilities) == _EVIDENCE
        return None

    def _off_plate(self, reading: FaceReading, rgb: Picture, origin: tuple[int, int]) -> str | None:
        height, width = rgb.shape[:2]
        inside = reading.points_LC - np.asarray(origin)
        share = float(((inside < 0) | (inside > (width, height))).any(axis=1).mean())
        return f"{share:.0%} of the landmarks lie outside the plate" if share > self.limits.off_plate else None

    def _misshapen(self, reading: FaceReading) -> str | None:
        inside = reading.crop.to_crop(reading.points_LC, 1.0)
        outside = float(((inside < 0) | (inside > 1)).any(axis=1).mean())
        size = float((inside.max(axis=0) - inside.min(axis=0)).max())
        if outside > self.limits.outside:
            return f"{outside:.0%} of the landmarks lie outside the crop"
        if not self.limits.smallest < size < self.limits.largest:
            return f"the landmarks span {size:.0%} of the crop"
        return None


def read(
    rgb: Picture, origin: tuple[int, int], crops: Sequence[Crop], *, detect: Detect, size_px: int, display: Display
) -> list[FaceReading]:
    """The model's prediction for each crop of a frame, in plate space.

    rgb: scene-linear pixels (H, W, 3) of a data window whose top left is the plate pixel `origin`. size_px: the side of
    the model's input.
    """
    return read_pictures([display(cut(rgb, origin, crop, size_px)) for crop in crops], crops, detect, size_px)


def read_pictures(
    pictures: Sequence[Picture], crops: Sequence[Crop], detect: Detect, size_px: int
) -> list[FaceReading]:
    """The model's prediction for pictures (size_px, size_px, 3), display-referred, cut from a frame, in plate space."""
    points, errors, visible = detect(np.ascontiguousarray(np.stack(pictures), dtype=np.float32))
    return [
        _reading(crop, np.asarray(points[row]), np.asarray(errors[row]), np.asarray(visible[row]), size_px)
        for row, crop in enumerate(crops)
    ]


def _reading(crop: Crop, points: Picture, errors: Picture, visible: Picture, size_px: int) -> FaceReading:
    """A model's output in plate space; non-finite or far values become the crop's centre, hidden, with a maximal
    error."""
    is_near = are_near(crop.to_plate(points, size_px), crop)
    is_finite = bool(is_near and np.isfinite(errors).all() and np.isfinite(visible).all())
    if not is_finite:
        points, errors, visible = np.full_like(points, size_px / 2), np.full_like(errors, size_px), visible * 0
    return FaceReading(
        crop,
        crop.to_plate(points, size_px),
        np.asarray(errors, dtype=np.float64) * (crop.side / size_px),
        np.nan_to_num(np.asarray(visible, dtype=np.float64)),
        is_finite,
    )


def are_near(points_PC: Array, crop: Crop) -> bool:
    """Whether points (P, 2) in plate space are finite and within `FARTHEST` sides of a crop's centre."""
    return bool(
        np.isfinite(points_PC).all() and np.abs(points_PC - (crop.x, crop.y)).max(initial=0) <= FARTHEST * crop.side
    )


def jitter_crops(crop: Crop) -> list[Crop]:
    """Shifted and larger crops in plate space: a real face is predicted at the same position in each of them."""
    side = crop.side * _MOVED_SCALE
    return [Crop(crop.x + dx * crop.side, crop.y + dy * crop.side, side) for dx, dy in _MOVES]


def instability(readings: Sequence[FaceReading]) -> float:
    """Spread of predictions of one frame, as a share of the first one's crop.

    The median over landmarks of the mean distance from their mean position. Without a face, landmarks follow the crop.
    """
    points_NLC = np.stack([reading.points_LC for reading in readings])
    apart_NL = np.linalg.norm(points_NLC - points_NLC.mean(axis=0), axis=2)
    return float(np.median(apart_NL.mean(axis=0))) / readings[0].crop.side


def propose(
    rgb: Picture,
    origin: tuple[int, int],
    *,
    width: int,
    height: int,
    detect: Detect,
    size_px: int,
    display: Display,
    margin: float = CROP_MARGIN,
) -> Box:
    """A box around the face with the smallest expected error, searched on a grid over the plate; in plate pixels.

    rgb, origin, size_px: as for `read`; width, height: the plate's, in pixels.
    For `--crop auto`: a proposal to check, not a face detector. Raises CropError if nothing looks like a face.
    """
    follower = Follower(detect, size_px, CropKeys(), display, margin=margin, holds=None)
    crops = _crop_grid(width, height)
    rough = [
        reading
        for start in range(0, len(crops), _BATCH)
        for reading in follower._read_all(rgb, origin, crops[start : start + _BATCH])
    ]
    best = sorted(rough, key=lambda reading: reading.cost)[:_PROPOSE_BEST]
    settled = [follower._read_settled(rgb, origin, crop_around(reading.points_LC, margin=margin)) for reading in best]
    faces = [reading for reading in settled if follower._lost(reading) is None and _is_on(reading, width, height)]
    if not faces:
        raise CropError("crop 'auto': nothing on the plate looks like this model's face; draw a box: --crop X,Y,W,H")
    crop = crop_around(min(faces, key=lambda reading: reading.cost).points_LC, margin=1.0)
    return Box(crop.x - crop.side / 2, crop.y - crop.side / 2, crop.side, crop.side)


def _crop_grid(width: int, height: int) -> list[Crop]:
    crops: list[Crop] = []
    for share in _PROPOSE_SHARES:
        side = share * min(width, height)
        columns = max(1, round((width - side) / (side / 2)) + 1)
        rows = max(1, round((height - side) / (side / 2)) + 1)
        crops += [
            Crop(float(x), float(y), side)
            for y in np.linspace(side / 2, height - side / 2, rows)
            for x in np.linspace(side / 2, width - side / 2, columns)
        ]
    return crops


def _crops_around(crop: Crop) -> list[Crop]:
    return [
        Crop(crop.x + dx * crop.side, crop.y + dy * crop.side, crop.side * scale)
        for scale in _SEARCH_SCALES
        for dx in _SEARCH_STEPS
        for dy in _SEARCH_STEPS
    ]


def _is_on(reading: FaceReading, width: int, height: int) -> bool:
    x, y = reading.points_LC.mean(axis=0)
    return bool(0 <= x <= width and 0 <= y <= height)


def _is_far(crop: Crop, wanted: Crop) -> bool:
    moved = max(abs(crop.x - wanted.x), abs(crop.y - wanted.y)) / crop.side
    return moved > 0.08 or abs(log(wanted.side / crop.side)) > 0.2


def _has_jumped(reading: FaceReading, expected: Crop) -> bool:
    now = crop_around(reading.points_LC)
    moved = max(abs(now.x - expected.x), abs(now.y - expected.y)) / expected.side
    return moved > 0.4 or abs(log(now.side / expected.side)) > log(1.6)
