"""A seam's ends move along its crease where the plate does not speak against it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from rotopaint_ai.crops import Crop
from rotopaint_ai.seams.ends import lengthened, with_ends
from rotopaint_ai.seams.path import N_OFFSETS
from rotopaint_ai.seams.placement import Evidence, Seam, look

from .made_up import Sees

Array = npt.NDArray[Any]

FACE_PX = 240.0
LINE = np.array([[x, 150.0, -15.0, 0.0, 15.0, 0.0] for x in (90.0, 135.0, 180.0)])  # straight, 90 px long
SEAM = Seam(LINE, 6.0, 5.0)
FACE = Crop(150.0, 150.0, 300.0)
GRAIN = np.random.default_rng(1).uniform(0.3, 0.5, (300, 300, 3)).astype(np.float32)
PLATE = look(GRAIN, 0, 0, FACE, lambda rgb: rgb)


def shows(odds: float) -> Evidence:
    """A network to which every place shows the seam in the middle by such log odds, but those at the strip's ends."""

    def says(strip: Array) -> Array:
        logits = np.full((1, strip.shape[1] // 2, N_OFFSETS + 1), -30.0, np.float32)
        logits[..., N_OFFSETS // 2 - 1 : N_OFFSETS // 2 + 1] = odds - np.log(2)
        logits[..., -1] = 0
        n = int(strip[0].any(axis=(1, 2)).sum()) // 2  # zeros follow
        logits[:, [*range(4), *range(n - 4, logits.shape[1])], -1] = odds + 5
        return logits

    return Sees(says)


@pytest.mark.parametrize(("first", "last"), [(0, 40), (25, 0), (30, 10), (-12, 0), (0, -20), (-10, 35)])
def test_a_straight_seam_ends_as_much_further_out_as_asked(first: float, last: float) -> None:
    ends = lengthened(LINE, (first, last), FACE_PX)[[0, -1], :2]
    np.testing.assert_allclose(ends, [(90 - first, 150), (180 + last, 150)], atol=0.2)


def test_no_more_than_a_part_is_cut_off() -> None:
    assert np.ptp(lengthened(LINE, (0, -80), FACE_PX)[:, 0]) == pytest.approx(0.7 * 90, abs=0.5)


@pytest.mark.parametrize(
    ("odds", "out", "ends"),
    [
        (3.0, (0.0, 40.0), (90, 220)),  # the seam is seen there: added
        (0.5, (0.0, 40.0), None),  # nothing is: not added
        (3.0, (-20.0, 0.0), (110, 180)),  # seen, but not clearly: cut off
        (7.0, (-20.0, 0.0), None),  # clearly the seam: not cut off
        (7.0, (-20.0, 40.0), (90, 220)),  # each end for itself
    ],
)
def test_the_plate_has_the_last_word(odds: float, out: tuple[float, float], ends: tuple[float, float] | None) -> None:
    found = with_ends(SEAM, out, PLATE, FACE_PX, shows(odds))
    if ends is None:
        assert found is None
    else:
        assert found is not None
        np.testing.assert_allclose(found.points[[0, -1], 0], ends, atol=1.0)
