"""How wide a seam's damage is, measured from its banks.

Dimensions: T rows across, S columns along.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.seams.ribbon import resample
from rotopaint_ai.seams.visibility import profiles, tone_of

Array = NDArray[Any]  # float32

REACH_PX = 16.0  # a seam is looked for this far on either side of its curve
STATIONS = 12  # stretches of the seam that are measured each on its own
_BANKS = 0.6  # rows beyond this share of the reach are bank
_ALONG_SIGMA = 4.0  # px: what does not run on along the seam is texture
_SHARE = 0.08  # of the deepest place: less than this is no damage any more
_NOISE = 4.0  # deviations of the banks' own roughness that damage stands above
_RIM_PX = 1.0  # added on either side, for what a lens spreads


def measured(rgb: NDArray[np.floating], line: NDArray[np.floating], *, reach_px: float = REACH_PX) -> Array:
    """Full width (STATIONS,), pixels, of a matte about a curve that covers the damage at each stretch of it.

    rgb: (H, W, 3) scene-linear; line (N, 2) in the crop's own pixels, corner origin. At each stretch the light across
    the curve is compared with what its two banks make of it, and the damage ends where the difference falls below a
    share of its peak and below the banks' own roughness. NaN where no seam shows, or where the stretch leaves the crop.
    """
    reach = int(np.ceil(reach_px))
    profile_TS, inside_TS = profiles(tone_of(rgb), resample(line), reach)
    whole = np.asarray(inside_TS.all(0))
    smooth = cv2.GaussianBlur(profile_TS, (0, 0), sigmaX=_ALONG_SIGMA, sigmaY=0.6)
    found = np.full(STATIONS, np.nan, np.float32)
    for k, (first, end) in enumerate(pairwise(np.linspace(0, profile_TS.shape[1], STATIONS + 1).astype(int))):
        usable = whole[first:end]
        if usable.sum() >= 4:
            found[k] = _width(np.median(smooth[:, first:end][:, usable], axis=1))
    return found


def of_shape(rgb: NDArray[np.floating], line: NDArray[np.floating]) -> float | None:
    """One width for a whole seam: it covers nine of ten stretches; None where no seam shows."""
    widths = measured(rgb, line)
    widths = widths[np.isfinite(widths)]
    return float(np.percentile(widths, 90)) if len(widths) >= 2 else None


def _width(profile_T: Array) -> float:
    reach = len(profile_T) // 2
    across = np.arange(-reach, reach + 1)
    bank = np.abs(across) > _BANKS * reach
    slope, level = np.polyfit(across[bank], profile_T[bank], 1)
    apart = np.abs(profile_T - (slope * across + level))
    rough = 1.4826 * float(np.median(apart[bank]))
    core = ~bank
    peak = float(apart[core].max())
    if peak < max(_NOISE * rough, 0.01):
        return float("nan")
    damaged = core & (apart > max(_SHARE * peak, 2.0 * rough))
    return 2.0 * (float(np.abs(across[damaged]).max()) + 0.5 + _RIM_PX)
