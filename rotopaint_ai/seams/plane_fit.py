"""Find the plane of a keyed region on another frame, with its expected error.

Gauss-Newton on the picture with its local mean removed, with the keyed frame's gradients ("inverse compositional",
Baker and Matthews, "Lucas-Kanade 20 Years On", IJCV 56 (2004), 3.2). Gain and offset are fitted, and occluders get
little weight (Tukey's biweight). The last pose is a prior whose covariance grows with each frame, as in a Kalman
filter. A motion that the picture does not determine, along a stripe or on plain skin, keeps its last value and a large
variance. Gradients no larger than noise carry no information.

Pictures are (H, W) square roots of light. A plane's coordinates run from -1 to 1 over the region. The parameters (6 or
8,) are the moves that they cause at its edge, in plate pixels: shift x, two slopes of x, shift y, two slopes of y,
perspective.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LEAST_LIKENESS: Final = 0.7  # least correlation of the detail for a visible region
LEAST_SEEN: Final = 0.6  # least unoccluded share of a visible region
LOST_SHARE: Final = 0.05  # share of a region's width plus height: a plane with a larger expected error is lost
# blur in pixels, and the divisor of the region's diagonal that gives the sigma of the local mean
_SCALES: Final = ((3.0, 10.0), (1.1, 24.0))
_STEP_PX, _STEP_SHARE, _SLOPE_SHARE, _BEND_SHARE = 10.0, 0.25, 0.05, 0.02  # standard deviations of one frame's step
_KEYED_PX = 1e-3  # standard deviation at the keyed frame itself
_LEAST_NOISE = 1e-3  # noise of 8-bit pictures and of resampling
_NOISE_GRADIENT = 0.24  # variance of Sobel gradients, relative to that of white noise after the finer blur
_TUKEY, _ROUNDS, _DONE_PX, _MOST_PX = 4.685, 20, 0.02, 10.0
_MOST_PIXELS = 6_000  # pixels of a region that a fit samples
_MARGIN_PX = 16


@dataclass(frozen=True, slots=True, eq=False)
class PlanePose:
    """A homography (3, 3) from the keyed frame, and the covariance of its parameters, (n, n) square pixels."""

    homography: Array
    covariance: Array


@dataclass(frozen=True, slots=True, eq=False)
class PlaneFit:
    """A pose; the correlation of the detail there, the unoccluded share, the edge's expected error in pixels."""

    pose: PlanePose
    likeness: float
    seen: float
    expected_px: float

    @property
    def merit(self) -> float:
        """A score that grows with the share of the region that looks like the keyed one."""
        return self.likeness * self.seen


@dataclass(frozen=True, slots=True, eq=False)
class _Detail:
    """The keyed region at one scale: sampled rows and columns, values (P,), and gradients times basis (P, n)."""

    blur_px: float
    mean_px: float
    every: int
    rows: Array
    columns: Array
    values: Array
    slopes: Array
    bases: tuple[Array, Array]


class KeyedPlane:
    """A region of the keyed frame; `mask` (H, W) is not 0 inside. `n`: 6 parameters for an affine map, 8 for a
    homography."""

    def __init__(self, picture: Array, mask: Array, n: int) -> None:
        x, y, w, h = cv2.boundingRect(mask)
        height, width = mask.shape
        left, top = max(x - _MARGIN_PX, 0), max(y - _MARGIN_PX, 0)
        right, bottom = min(x + w + _MARGIN_PX, width), min(y + h + _MARGIN_PX, height)
        self.n, self._size, self._radius = n, (w, h), max(w, h, 2) / 2
        self._corner, self._shape = (left, top), (right - left, bottom - top)
        self._inside = (mask[top:bottom, left:right] > 0).astype(np.float32)
        self._unit = np.array([[self._radius, 0, x + w / 2], [0, self._radius, y + h / 2], [0, 0, 1.0]])
        region = picture[top:bottom, left:right]
        self._details = tuple(self._detail_at(region, blur, share) for blur, share in _SCALES)
        self._edge = self._edge_bases()

    def keyed_pose(self) -> PlanePose:
        """The pose at the keyed frame."""
        return PlanePose(np.eye(3), np.eye(self.n) * _KEYED_PX**2)

    def later(self, pose: PlanePose) -> PlanePose:
        """The same pose one frame later, with a larger covariance."""
        radius = self._radius
        shift = max(_STEP_PX, _STEP_SHARE * radius)
        slope, bend = _SLOPE_SHARE * radius, _BEND_SHARE * radius
        steps = np.array([shift, slope, slope, shift, slope, slope, bend, bend])[: self.n]
        return PlanePose(pose.homography, pose.covariance + np.diag(steps**2))

    def locate(self, now: Array, prior: PlanePose, guesses: Iterable[Array]) -> PlaneFit:
        """The best fit on a frame over some guesses, tried in order until one fits beyond doubt."""
        best: PlaneFit | None = None
        for guess in guesses:
            found = self._fit_from(now, prior, guess)
            best = found if best is None or found.merit > best.merit else best
            if best.likeness > 0.9 and best.seen > 0.75:
                break
        assert best is not None
        return best

    def is_seen(self, fit: PlaneFit) -> bool:
        """Whether the region is visible, with an expected error small compared with its size."""
        is_like = fit.likeness >= LEAST_LIKENESS and fit.seen >= LEAST_SEEN
        return is_like and fit.expected_px < LOST_SHARE * sum(self._size)

    # --- one guess

    def _fit_from(self, now: Array, prior: PlanePose, guess: Array) -> PlaneFit:
        homography, trust = guess, np.linalg.inv(prior.covariance)
        for detail in self._details:
            homography = self._descend(detail, now, prior, trust, homography)
        if not np.isfinite(homography).all():
            return PlaneFit(prior, 0.0, 0.0, np.inf)
        _, weights, noise, likeness = _differences(detail, self._pixels(detail, now, homography))
        information = _information(detail, weights, noise) + trust
        pose = PlanePose(homography, np.linalg.inv(information))
        return PlaneFit(pose, likeness, float(weights.mean()), self._expected_px(pose.covariance))

    def _descend(self, detail: _Detail, now: Array, prior: PlanePose, trust: Array, homography: Array) -> Array:
        """Gauss-Newton at one scale; the prior pulls towards the last pose, weighted by its precision."""
        back, most = np.linalg.inv(prior.homography), min(_MOST_PX, self._radius / 4)
        for _ in range(_ROUNDS):
            if not np.isfinite(homography).all():
                break
            off, weights, noise, _ = _differences(detail, self._pixels(detail, now, homography))
            slopes = detail.slopes * (weights / _variance(detail, noise))[:, None]
            moved = self._parameters(back @ homography)
            step = np.linalg.solve(slopes.T @ detail.slopes + trust, slopes.T @ off + trust @ moved)
            step = np.clip(step, -most, most)
            homography = homography @ self._unit @ np.linalg.inv(self._unit @ self._increment(step))
            homography = homography / homography[2, 2]
            if np.abs(step).max() < _DONE_PX:
                break
        return homography

    def _increment(self, step: Array) -> Array:
        """The map of the plane's own coordinates by a step of its parameters."""
        p = np.zeros(8)
        p[: self.n] = step / self._radius
        return np.array([[1 + p[1], p[2], p[0]], [p[4], 1 + p[5], p[3]], [p[6], p[7], 1.0]])

    def _parameters(self, homography: Array) -> Array:
        """The parameters of a homography of the keyed frame onto itself."""
        m = np.linalg.inv(self._unit) @ homography @ self._unit
        m = m / m[2, 2]
        rows = (m[0, 2], m[0, 0] - 1, m[0, 1], m[1, 2], m[1, 0], m[1, 1] - 1, m[2, 0], m[2, 1])
        return np.asarray(np.array(rows)[: self.n] * self._radius)

    def _expected_px(self, covariance: Array) -> float:
        """The largest standard deviation, in any direction, of a point on the region's edge."""
        spread = self._edge @ covariance @ self._edge.transpose(0, 2, 1)
        return float(np.sqrt(np.linalg.eigvalsh(spread)[:, -1].max()))

    # --- pictures

    def _pixels(self, detail: _Detail, now: Array, homography: Array) -> Array:
        """The region's pixels (P,) on a frame, resampled by a pose."""
        to_plate = np.array([[1.0, 0, self._corner[0]], [0, 1.0, self._corner[1]], [0, 0, 1.0]])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        warped = cv2.warpPerspective(
            now, homography @ to_plate, self._shape, flags=flags, borderMode=cv2.BORDER_REPLICATE
        )
        return self._without_shading(warped, detail.blur_px, detail.mean_px)[detail.rows, detail.columns]

    def _without_shading(self, region: Array, blur_px: float, mean_px: float) -> Array:
        """A region's crop minus its local mean; pixels outside the region do not count."""
        fine = cv2.GaussianBlur(region, (0, 0), blur_px)
        weight = cv2.GaussianBlur(self._inside, (0, 0), mean_px) + 1e-6
        return np.asarray(fine - cv2.GaussianBlur(fine * self._inside, (0, 0), mean_px) / weight, np.float64)

    def _detail_at(self, region: Array, blur_px: float, share: float) -> _Detail:
        mean_px = max(float(np.hypot(*self._size)) / share, 3 * blur_px)
        values = self._without_shading(region, blur_px, mean_px)
        across, down = (cv2.Sobel(values, cv2.CV_64F, *order, ksize=3) / 8 for order in ((1, 0), (0, 1)))
        rows, columns = np.nonzero(self._inside)
        every = max(len(rows) // _MOST_PIXELS, 1)
        rows, columns = rows[::every], columns[::every]
        bases = self._bases(columns + 0.5, rows + 0.5)
        slopes = across[rows, columns, None] * bases[0] + down[rows, columns, None] * bases[1]
        return _Detail(blur_px, mean_px, every, rows, columns, values[rows, columns], slopes, bases)

    def _bases(self, x: Array, y: Array) -> tuple[Array, Array]:
        """How much each parameter moves points of the crop, (P, n) to the right and down."""
        left, top = self._corner
        u, v = ((x + left - self._unit[0, 2]) / self._radius, (y + top - self._unit[1, 2]) / self._radius)
        one, none = np.ones_like(u), np.zeros_like(u)
        right = (one, u, v, none, none, none, -u * u, -u * v)[: self.n]
        down = (none, none, none, one, u, v, -u * v, -v * v)[: self.n]
        return np.stack(right, 1), np.stack(down, 1)

    def _edge_bases(self) -> Array:
        """(E, 2, n): how much each parameter moves points on the region's edge."""
        lines, _ = cv2.findContours(self._inside.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        edge = np.concatenate(lines)[::4, 0] + 0.5
        return np.stack(self._bases(edge[:, 0], edge[:, 1]), 1)


def _differences(detail: _Detail, pixels: Array) -> tuple[Array, Array, float, float]:
    """Pixels minus the keyed ones, after fitting gain and offset: differences, weights, their noise, and the
    correlation."""
    keyed, weights = detail.values, np.ones_like(pixels)
    for _ in range(4):
        total = max(float(weights.sum()), 1e-9)
        a = keyed - float(weights @ keyed) / total
        b = pixels - float(weights @ pixels) / total
        both, own, theirs = (float(weights @ each) for each in (a * b, a * a, b * b))
        off = b / min(max(both / max(own, 1e-12), 0.3), 3.0) - a
        noise = max(1.4826 * float(np.median(np.abs(off))), _LEAST_NOISE)
        share = off / (_TUKEY * noise)
        weights = np.where(np.abs(share) < 1, (1 - share**2) ** 2, 0.0)
    return off, weights, noise, both / max((own * theirs) ** 0.5, 1e-12)


def _variance(detail: _Detail, noise: float) -> float:
    """Noise variance of a sampled pixel, times the number of sampled pixels that the blur correlates."""
    return float(noise**2 * max(4 * np.pi * detail.blur_px**2 / detail.every, 1.0))


def _information(detail: _Detail, weights: Array, noise: float) -> Array:
    """Information matrix (n, n) of the parameters: that of the gradients minus the expected part of the noise."""
    measured = (detail.slopes * weights[:, None]).T @ detail.slopes
    from_noise = sum((each * weights[:, None]).T @ each for each in detail.bases) * (noise**2 * _NOISE_GRADIENT)
    values, vectors = np.linalg.eigh(measured - from_noise)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T / _variance(detail, noise))
