"""Scores of a filled frame against the clean frame, inside the true seam's region.

Figures use display values: the sRGB curve times 255. For float plates the curve continues above 1, so that clamped
light counts as an error.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.bench import clean_left
from rotopaint_ai.bench.clean_cases import Case, Sight, codes
from rotopaint_ai.seams import visibility
from rotopaint_ai.seams.ribbon import resample, sample_normals

Array = NDArray[Any]

_ACROSS = np.arange(-1.5, 1.6, 0.5)  # distance from the curve in px at which the grain of the fill is measured
_HIGH = 0.15  # cycles per pixel above which the spectrum is grain, not shading


def display_values(light: Array, is_8_bit: bool) -> Array:
    """Light as display values (H, W, 3): 8-bit codes, or the same curve without rounding and clipping."""
    if is_8_bit:
        return codes(light).astype(np.float32)
    v = np.asarray(light, np.float32)
    curve = 1.055 * np.maximum(v, 0.0031308) ** (1 / 2.4) - 0.055
    return np.asarray(255.0 * np.where(v <= 0.0031308, 12.92 * v, curve), np.float32)


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one method on one case, against the clean frames.

    left_over_quarter, left_over_half: shares of the windows in which more than a quarter, or half, of the seam remains
    (see `clean_left`).
    """

    psnr_db: float
    ssim: float
    gradient_error: float
    grain_error_db: float
    flicker_over_clean: float | None
    changed_outside: int
    visibility: float
    left_over_quarter: float
    left_over_half: float
    left_worst: float | None


def score_case(case: Case, lights: Sequence[Array]) -> Scores:
    """Score the filled frames of a case (H, W, 3 each, scene-linear)."""
    made = [display_values(light, case.is_8_bit) for light in lights]
    true = [display_values(sight.clean, case.is_8_bit) for sight in case.sights]
    regions = [sight.hole > 0 for sight in case.sights]
    squared = [float(np.mean((a[r] - b[r]) ** 2)) for a, b, r in zip(made, true, regions)]
    left = left_windows(case, lights)
    still = flicker_of(true, case.sights) if case.is_sequence else float("nan")
    return Scores(
        psnr_db=float(10 * np.log10(255**2 / max(float(np.mean(squared)), 1e-12))),
        ssim=statistics.fmean(ssim(a, b, r) for a, b, r in zip(made, true, regions)),
        gradient_error=statistics.fmean(gradient_error(a, b, r) for a, b, r in zip(made, true, regions)),
        grain_error_db=grain_error(made, true, case.sights),
        flicker_over_clean=flicker_of(made, case.sights) / still if np.isfinite(still) and still > 0 else None,
        changed_outside=sum(_n_changed_outside(light, sight) for light, sight in zip(lights, case.sights)),
        visibility=statistics.fmean(visibility.score(x, s.curves) for x, s in zip(lights, case.sights)),
        left_over_quarter=clean_left.share_above(left, clean_left.SEEN),
        left_over_half=clean_left.share_above(left, clean_left.PLAIN),
        left_worst=max((window.left for window in left), default=None),
    )


def left_windows(case: Case, lights: Sequence[Array]) -> list[clean_left.LeftWindow]:
    """The windows along the seam for all filled frames of a case, each with the share that remains."""
    found: list[clean_left.LeftWindow] = []
    for sight, light in zip(case.sights, lights):
        found += clean_left.seam_windows(
            sight, *(display_values(v, case.is_8_bit) for v in (light, sight.plate, sight.clean))
        )
    return found


def _n_changed_outside(light: Array, sight: Sight) -> int:
    outside = sight.hole == 0
    if sight.own_matte is not None:
        outside &= sight.own_matte == 0
    return int((light != sight.plate)[outside].sum())


def ssim(a: Array, b: Array, region: Array) -> float:
    """Structural similarity of the luma, averaged over a region.

    Source: Wang, Bovik, Sheikh, Simoncelli, "Image quality assessment" (2004), equation 13, Gaussian window of 1.5 px.
    """
    x, y = (image.mean(2) for image in (a, b))
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2

    def blur(v: Array) -> Array:
        return np.asarray(cv2.GaussianBlur(v, (11, 11), 1.5))

    mx, my = blur(x), blur(y)
    vx, vy, vxy = blur(x * x) - mx * mx, blur(y * y) - my * my, blur(x * y) - mx * my
    value = (2 * mx * my + c1) * (2 * vxy + c2) / ((mx * mx + my * my + c1) * (vx + vy + c2))
    return float(value[region].mean())


def gradient_error(a: Array, b: Array, region: Array) -> float:
    """Mean length of the difference of the two lumas' gradients in a region, in display values per pixel."""
    difference = (a - b).mean(2)
    x, y = (cv2.Scharr(difference, cv2.CV_32F, *axis, scale=1 / 32) for axis in ((1, 0), (0, 1)))
    return float(np.hypot(x, y)[region].mean())


def grain_error(made: Sequence[Array], true: Sequence[Array], sights: Sequence[Sight]) -> float:
    """The difference of the grain spectra of fill and clean frame along the seam: mean |dB| over high frequencies."""
    pairs = [(spectrum(a, s), spectrum(b, s)) for a, b, s in zip(made, true, sights)]
    both = [(p, q) for p, q in pairs if p is not None and q is not None]
    if not both:
        return float("nan")
    got, wanted = (np.mean([pair[k] for pair in both], axis=0) for k in (0, 1))
    return float(np.mean(np.abs(10 * np.log10((got + 1e-3) / (wanted + 1e-3)))))


def spectrum(image: Array, sight: Sight) -> Array | None:
    """Power of the luma along the seams at high frequencies, 16 bands; None where no seam is long enough."""
    parts = [
        part for line, _ in sight.curves if (part := _high_frequencies(image, sight, np.asarray(line))) is not None
    ]
    return np.mean(parts, axis=0) if parts else None


def _high_frequencies(image: Array, sight: Sight, line: Array) -> Array | None:
    x, y = sample_normals(resample(line), _ACROSS)
    inside = cv2.remap(sight.hole, x, y, cv2.INTER_NEAREST, borderValue=0).all(0)
    n = int(inside.sum())
    if n < 48:
        return None
    strip = cv2.remap(image.mean(2), x, y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)[:, inside]
    windows = [strip[:, k : k + 32] for k in range(0, n - 31, 16)]
    level = [(window - window.mean(1, keepdims=True)) * np.hanning(32) for window in windows]
    power = np.mean(np.abs(np.fft.rfft(np.stack(level), axis=2)) ** 2, (0, 1))
    return np.asarray(power[np.fft.rfftfreq(32) >= _HIGH])


def flicker_of(frames: Sequence[Array], sights: Sequence[Sight]) -> float:
    """Mean absolute change between consecutive frames, where both are in the region."""
    changes = []
    for k in range(len(frames) - 1):
        first, second = sights[k], sights[k + 1]
        x0, y0 = (max(first.origin[c], second.origin[c]) for c in (0, 1))
        x1, y1 = (min(s.origin[c] + s.hole.shape[1 - c] for s in (first, second)) for c in (0, 1))
        parts = [
            v[y0 - s.origin[1] : y1 - s.origin[1], x0 - s.origin[0] : x1 - s.origin[0]]
            for image, s in ((frames[k], first), (frames[k + 1], second))
            for v in (image, s.hole)
        ]
        both = (parts[1] > 0) & (parts[3] > 0) if y1 > y0 and x1 > x0 else np.zeros((0, 0), bool)
        if both.any():
            changes.append(float(np.abs(parts[0] - parts[2])[both].mean()))
    return statistics.fmean(changes) if changes else float("nan")
