"""Drawings as resvg renders them, beside the mattes that we draw: `pip install resvg-py` for these tests."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from rotopaint_ai.exchange import svg
from rotopaint_ai.exchange.format_matrix import EYE, SEAM
from rotopaint_ai.shapes.rasterise import matte
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

resvg = pytest.importorskip("resvg_py")

_CORNER = (ControlPoint(30, 100), ControlPoint(60, 20), ControlPoint(75, 100), ControlPoint(150, 30))
_BOW = (ControlPoint(40, 20), ControlPoint(150, 100), ControlPoint(150, 20), ControlPoint(40, 100))  # crosses itself


def _shape(points: tuple[ControlPoint, ...], width_px: float | None = None) -> RotoShape:
    there = tuple(point._replace(x=point.x + 7.3, y=point.y + 2.1) for point in points)
    return RotoShape("a", width_px is None, keys={1: Key(points), 5: Key(there)}, width_px=width_px)


SHAPES = {
    "closed": _shape(EYE),
    "closed, crossing itself": _shape(_BOW),
    "stroke": _shape(SEAM, 5.0),
    "stroke of a pixel": _shape(SEAM, 1.0),
    "stroke with corners": _shape(_CORNER, 9.0),
}


def rendered(document: RotoDocument, frame: int) -> NDArray[np.float64]:
    """The coverage that resvg draws; the drawing's shapes are half transparent."""
    png = bytes(resvg.svg_to_bytes(svg_string=svg.dumps(document, frames=[frame]), skip_system_fonts=True))
    picture = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED)
    return np.minimum(np.asarray(picture[..., 3], np.float64) / 127.5, 1.0)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("frame", [1, 3, 5])
def test_resvg_draws_the_mattes_that_we_draw(name: str, frame: int) -> None:
    document = RotoDocument(200, 120, 1, 5, shapes=(SHAPES[name],))
    theirs, ours = rendered(document, frame), matte(SHAPES[name], frame, 200, 120).paste(200, 120)
    most = 0.1 if SHAPES[name].width_px == 1.0 else 0.003  # resvg draws hairlines its own way
    assert abs(theirs.sum() / ours.sum() - 1) < most, f"{theirs.sum():.1f} px, ours {ours.sum():.1f} px"
    assert abs(theirs - ours).max() < (0.4 if "corners" in name else 0.2)  # at a hard edge about as many pixels


def test_a_hidden_shape_is_not_drawn() -> None:
    shape = replace(SHAPES["closed"], visible={3: False})
    assert not rendered(RotoDocument(200, 120, 1, 5, shapes=(shape,)), 3).any()
