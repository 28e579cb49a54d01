"""Widths from the banks, of seams whose width is known."""

from __future__ import annotations

import numpy as np
import pytest

from rotopaint_ai.seams import width

from . import made_up

LINE = made_up.curve()


@pytest.mark.parametrize("gap", [0.8, 1.5, 2.5])
def test_the_width_of_a_groove_follows_its_profile(gap: float) -> None:
    plate = made_up.face(seed=1) * made_up.groove(LINE, depth=0.6, gap=gap)
    depth = -np.log(1 - 0.6)
    level = width._SHARE * depth  # of the log light, whose profile is known
    wanted = 2 * (gap * np.sqrt(2 * np.log(0.6 / (1 - np.exp(-level)))) + 0.5 + width._RIM_PX)
    found = width.measured(plate, LINE)
    assert np.nanmedian(found) == pytest.approx(wanted, abs=2.2)
    assert np.isfinite(found).mean() > 0.7


def test_wider_grooves_are_wider() -> None:
    found = [width.of_shape(made_up.face() * made_up.groove(LINE, depth=0.6, gap=g), LINE) for g in (0.7, 1.4, 2.8)]
    assert found[0] is not None
    assert found[0] < found[1] < found[2]


def test_no_seam_has_no_width_and_exposure_drops_out() -> None:
    smooth = np.full((96, 160, 3), 0.4, np.float32) * (1 + np.arange(160) / 300.0)[None, :, None].astype(np.float32)
    assert width.of_shape(smooth, LINE) is None
    plate = made_up.face() * made_up.groove(LINE, depth=0.6)
    assert width.of_shape(plate * 16.0, LINE) == pytest.approx(width.of_shape(plate, LINE))


def test_stretches_off_the_crop_are_not_measured() -> None:
    plate = made_up.face() * made_up.groove(LINE, depth=0.6)
    found = width.measured(plate, LINE + (70.0, 0.0))
    assert np.isnan(found[-3:]).all()
