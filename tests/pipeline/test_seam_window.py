"""The part of a frame that is shown before and after, by hand on made-up mattes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from rotopaint_ai.pipeline.render_frame import Seams, _seam_window

WIDTH, HEIGHT = 1920, 1080


def window(x: int, y: int, rows: slice, columns: slice) -> tuple[int, int, int, int]:
    matte = np.zeros((1000, 1000), np.float32)
    matte[rows, columns] = 1
    seams = Seams(x, y, np.zeros((1000, 1000, 3), np.float32), matte, (), ())
    return _seam_window(cast(Any, SimpleNamespace(seams=seams)), cast(Any, SimpleNamespace(width=WIDTH, height=HEIGHT)))


@pytest.mark.parametrize(
    ("rows", "columns", "wanted"),
    [
        # 20 by 12 px of seams around (370, 546): half as much again and 16 px of air
        (slice(40, 52), slice(60, 80), (347, 529, 46, 34)),
        # 100 px wide and 2 high: not wider than 16:9 (166 px, so 93 high)
        (slice(40, 42), slice(0, 100), (267, 494, 166, 93)),
        # 2 px wide and 100 high: not narrower than 4:3 (166 px high, so 221 wide)
        (slice(0, 100), slice(60, 62), (250, 467, 221, 166)),
    ],
)
def test_the_seams_stand_in_the_middle_with_air_around_them(
    rows: slice, columns: slice, wanted: tuple[int, int, int, int]
) -> None:
    assert window(300, 500, rows, columns) == pytest.approx(wanted, abs=1)


def test_at_an_edge_the_window_stays_in_the_frame() -> None:
    assert window(0, 0, slice(0, 12), slice(0, 20))[:2] == (0, 0)
    assert window(WIDTH - 20, HEIGHT - 12, slice(0, 12), slice(0, 20)) == (WIDTH - 46, HEIGHT - 34, 46, 34)
    assert window(0, 0, slice(0, 1000), slice(0, 1000)) == (0, 0, WIDTH, HEIGHT)
