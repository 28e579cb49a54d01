"""The pixels from which the two-bank fill copies, calculated by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np

from rotopaint_ai.seams.bank_fill import StraightenedSeams, _mirror_rows


def test_matte_pixels_are_reflected_in_the_nearer_rim_two_full_pixels_out() -> None:
    """In the matte lie rows 3 to 8 of column 0, and of column 1 only the curve's own row, 5. Rows are half pixels."""
    hole = np.zeros((11, 2), bool)
    hole[3:9, 0] = hole[5, 1] = True
    across, column = np.array([4.0, 4.5, 5.5, 7.0, 5.0, 5.25]), np.array([0, 0, 0, 0, 1, 1])
    ribbon = SimpleNamespace(across_P=across, centre=5, step=0.5)
    scene = cast(StraightenedSeams, SimpleNamespace(ribbon=ribbon, hole_TS=hole))
    # rims are the first clear rows: 2 and 9, and in column 1 4 and 6; two pixels are four rows; the lower one wins a
    # tie
    wanted = [2 * 2 - 4 - 4, 2 * 2 - 4 - 4.5, 2 * 9 + 4 - 5.5, 2 * 9 + 4 - 7, 2 * 6 + 4 - 5, 2 * 6 + 4 - 5.25]
    assert _mirror_rows(scene, column).tolist() == wanted
