"""De-jitter: average the landmarks of each exposure, and fuse them with those of neighbouring exposures.

The unit is the exposure: the run of frames that repeat it (see `holds`). All its frames get exactly the same landmarks.
Two exposures on either side are aligned to it by the similarity between their landmarks. Remaining differences beyond
the expected noise are real motion: a new mouth, a turned head, a blink. This motion is measured around each landmark
and reduces the neighbour's weight there, above a limit to zero, so that nothing lags behind a face swap.

The published system uses optical flow instead (WACV 2021, "A Learning-Based Approach to Parametric Rotoscoping of
Multi-Shape Systems"). On rendered puppets (same face, moving camera, 192-pixel face pictures) its errors are larger. In
the median, OpenCV's DIS flow errs by 1.5 to 3.5 plate pixels, and pyramidal Lucas-Kanade by 0.4 to 0.8 where its
forward-backward check passes. The landmarks' own similarity errs by 0.3 to 0.6 at a landmark noise of 1 pixel, in a
tenth of the time. Painted, softly lit faces have little texture, and the background moves differently from the face.

Streaming: memory and delay are bounded by LATENCY_FRAMES.

E exposures, L landmarks, C components x then y. Plate space, pixels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from rotopaint_ai.landmarks.track import Array, Flags, FrameLandmarks
from rotopaint_ai.similarity import fit_similarity

LATENCY_FRAMES = 12  # largest delay of a frame in frames
WINDOW = 2  # exposures on either side

_N_NEAR = 8  # neighbouring landmarks over which real motion is measured
_CUT = 4.0  # ratio of motion variance to noise variance above which a neighbour is ignored
_OUTLIER = 3.0  # distance in units of joint noise above which a single aligned landmark is ignored
_LEAST_ERROR_PX = 0.05
_MEMORY = 48  # pairs of exposures for the noise estimate
_NOISE_QUANTILE = 0.25  # the quieter pairs contain only noise
_NOISE_LIMITS = (0.15, 1.0)
# For Gaussian noise of standard deviation s in x and y the mean error is 1.25 s; the mean squared distance is then 2
# s^2 = 1.27 error^2, and its median is 0.69 of its mean.
_SQUARE_OF_MEAN = 1.27
_MEDIAN_OF_MEAN = 0.69


@dataclass(slots=True, eq=False)
class _Exposure:
    """Frames that repeat one exposure, and their fused landmarks."""

    members: list[FrameLandmarks]
    fused: FrameLandmarks | None = None
    n_given: int = 0  # members that were output
    _mean: FrameLandmarks | None = None

    @property
    def held_from(self) -> int:
        return self.members[0].held_from

    @property
    def is_lost(self) -> bool:
        return self.members[0].lost is not None

    def add(self, member: FrameLandmarks) -> None:
        """Add another frame of this exposure."""
        self.members.append(member)
        self._mean = None

    @property
    def mean(self) -> FrameLandmarks:
        """The members' mean; a landmark that a person placed keeps its first hand-placed position."""
        if self._mean is None:
            self._mean = self._mean_landmarks()
        return self._mean

    def _mean_landmarks(self) -> FrameLandmarks:
        hand: dict[int, tuple[float, float]] = {}
        for member in self.members:
            hand = {**_hand_rows(member), **hand}
        first = self.members[0]
        if len(self.members) == 1:
            return first
        mean = replace(
            first,
            points_LC=np.mean([member.points_LC for member in self.members], axis=0),
            expected_error_px_L=np.mean([member.expected_error_px_L for member in self.members], axis=0),
            visible_L=np.mean([member.visible_L for member in self.members], axis=0),
        )
        return mean.with_hand(hand)


@dataclass(slots=True)
class Dejitter:
    """Push frames in ascending order; returns fused frames, in order, as they become ready.

    `window`: number of exposures fused on either side; with 0 only holds are averaged.
    """

    window: int = WINDOW
    _exposures: list[_Exposure] = field(default_factory=list)
    _noise: deque[float] = field(default_factory=lambda: deque(maxlen=_MEMORY))

    def push(self, landmarks: FrameLandmarks) -> list[FrameLandmarks]:
        """Add a frame; returns the frames that are ready."""
        if self._exposures and self._exposures[-1].held_from == landmarks.held_from:
            self._record_noise(self._exposures[-1].members[0], landmarks)
            self._exposures[-1].add(landmarks)
        else:
            self._begin_exposure(landmarks)
        return list(self._ready())

    def flush(self) -> list[FrameLandmarks]:
        """End of the sequence: returns all remaining frames."""
        ready: list[FrameLandmarks] = []
        for index in range(len(self._exposures)):
            ready += self._output(index)
        self._exposures.clear()
        return ready

    def _begin_exposure(self, landmarks: FrameLandmarks) -> None:
        if self._exposures:
            self._record_noise(self._exposures[-1].mean, landmarks)
        self._exposures.append(_Exposure([landmarks]))

    def _record_noise(self, before: FrameLandmarks, now: FrameLandmarks) -> None:
        if self.window > 0 and before.lost is None and now.lost is None:
            self._noise.append(_Pair.of(before, now).noise())

    def _ready(self) -> Iterator[FrameLandmarks]:
        for index, exposure in enumerate(self._exposures):
            is_surrounded = len(self._exposures) - 1 - index > self.window  # the last neighbour is complete too
            if exposure.fused is None and not is_surrounded and self._n_waiting() <= LATENCY_FRAMES:
                break
            yield from self._output(index)
        waiting = (row for row, item in enumerate(self._exposures) if item.n_given < len(item.members))
        first = next(waiting, len(self._exposures) - 1)
        del self._exposures[: max(0, first - self.window)]

    def _n_waiting(self) -> int:
        return sum(len(exposure.members) - exposure.n_given for exposure in self._exposures)

    def _output(self, index: int) -> list[FrameLandmarks]:
        exposure = self._exposures[index]
        if exposure.fused is None:
            exposure.fused = self._fuse(index)
        waiting = exposure.members[exposure.n_given :]
        exposure.n_given = len(exposure.members)
        return [_with_value(member, exposure.fused) for member in waiting]

    def _fuse(self, index: int) -> FrameLandmarks:
        own = self._exposures[index].mean
        errors = np.maximum(own.expected_error_px_L, _LEAST_ERROR_PX)
        weights = 1 / errors**2
        points, error = own.points_LC * weights[:, None], errors * weights
        for neighbour in self._neighbours(index):
            weight, carried = _Pair.of(own, neighbour).weigh(self._noise_scale())
            weights = weights + weight
            points, error = points + carried * weight[:, None], error + neighbour.expected_error_px_L * weight
        is_hand = own.hand_L
        return replace(
            own,
            points_LC=np.where(is_hand[:, None], own.points_LC, points / weights[:, None]),
            expected_error_px_L=np.where(is_hand, 0.0, error / weights),
        )

    def _neighbours(self, index: int) -> Iterator[FrameLandmarks]:
        if self._exposures[index].is_lost:
            return
        low = max(0, index - self.window)
        for other in range(low, min(index + self.window + 1, len(self._exposures))):
            if other != index and not self._exposures[other].is_lost:
                yield self._exposures[other].mean

    def _noise_scale(self) -> float:
        """Size of the landmark noise relative to the expected errors, from the quieter pairs."""
        if not self._noise:
            return _NOISE_LIMITS[1]
        return float(np.clip(np.quantile(self._noise, _NOISE_QUANTILE), *_NOISE_LIMITS))


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """An exposure and a neighbour whose landmarks are aligned to it."""

    own: FrameLandmarks
    carried_LC: Array
    square_L: Array  # squared distance between own and aligned landmark
    variance_L: Array  # expected value of that square from the expected errors
    usable_L: Flags

    @classmethod
    def of(cls, own: FrameLandmarks, other: FrameLandmarks) -> _Pair:
        variance = _SQUARE_OF_MEAN * (_bound_errors(own) ** 2 + _bound_errors(other) ** 2)
        usable = own.is_visible_L & other.is_visible_L
        weight = np.where(usable, 1 / variance, 0.0) if usable.sum() >= 3 else 1 / variance
        carried = _apply(_similarity(other.points_LC, own.points_LC, weight), other.points_LC)
        return cls(own, carried, ((carried - own.points_LC) ** 2).sum(axis=1), variance, usable)

    def noise(self) -> float:
        """Typical difference relative to the expected one: near 1 for pure noise, larger with real motion."""
        if not self.usable_L.any():
            return _NOISE_LIMITS[1]
        return float(np.sqrt(np.median((self.square_L / self.variance_L)[self.usable_L]) / _MEDIAN_OF_MEAN))

    def weigh(self, noise_scale: float) -> tuple[Array, Array]:
        """Weight of each aligned landmark, relative to an own weight of 1 / error^2, and the aligned landmarks.

        Real motion is the excess of the squared distances around a landmark over noise: the between-study variance of
        DerSimonian and Laird, "Meta-analysis in clinical trials" (1986), computed locally.
        """
        noise = self.variance_L * noise_scale**2
        near = _nearest_rows(self.own.points_LC, self.usable_L)
        noise_near = noise[near].mean(axis=1)
        motion = np.maximum(self.square_L[near].mean(axis=1) - noise_near, 0.0)
        counts = self.usable_L & (motion <= _CUT * noise_near) & (self.square_L <= _OUTLIER**2 * noise)
        own_variance = _bound_errors(self.own) ** 2
        error = self.variance_L / _SQUARE_OF_MEAN - own_variance + motion / (noise_scale**2 * _SQUARE_OF_MEAN)
        return np.where(counts, 1 / error, 0.0), self.carried_LC


def _bound_errors(landmarks: FrameLandmarks) -> Array:
    return np.maximum(landmarks.expected_error_px_L, _LEAST_ERROR_PX)


def _nearest_rows(points: Array, usable_L: Flags) -> Array:
    """Rows (L, K) of the landmarks nearest to each one, itself included, hidden ones last."""
    distance = ((points[:, None] - points[None]) ** 2).sum(axis=2) + np.where(usable_L, 0.0, 1e12)
    n_near = min(_N_NEAR, max(1, int(usable_L.sum())))
    return np.asarray(np.argpartition(distance, n_near - 1, axis=1)[:, :n_near])


def _similarity(source: Array, target: Array, weight_L: Array) -> Array:
    """Weighted similarity (2, 3) from `source` to `target`, refitted once without outliers."""
    over = _fit_similarity(source, target, weight_L)
    distance = np.linalg.norm(_apply(over, source) - target, axis=1)
    return _fit_similarity(source, target, weight_L * (distance <= 2.5 * np.median(distance[weight_L > 0]) + 1e-6))


def _fit_similarity(source: Array, target: Array, weight_L: Array) -> Array:
    turn, shift = fit_similarity(source @ np.array([1, 1j]), target @ np.array([1, 1j]), weight_L)
    return np.array([[turn.real, -turn.imag, shift.real], [turn.imag, turn.real, shift.imag]])


def _apply(over: Array, points: Array) -> Array:
    return np.asarray(points @ over[:, :2].T + over[:, 2])


def _hand_rows(member: FrameLandmarks) -> dict[int, tuple[float, float]]:
    """Landmarks of a frame that a person placed, by row."""
    return {
        int(row): (float(member.points_LC[row, 0]), float(member.points_LC[row, 1]))
        for row in np.flatnonzero(member.hand_L)
    }


def _with_value(member: FrameLandmarks, value: FrameLandmarks) -> FrameLandmarks:
    """A frame with its exposure's landmarks; those that a person placed in this frame stay."""
    return replace(
        member,
        points_LC=value.points_LC.copy(),
        expected_error_px_L=value.expected_error_px_L.copy(),
        visible_L=value.visible_L.copy(),
    ).with_hand(_hand_rows(member))
