"""Drawings as resvg, and where they are installed librsvg and Inkscape, render them, beside the mattes that we draw."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.format_matrix import EYE, SEAM
from rotopaint_ai.exchange import svg
from rotopaint_ai.shapes.rasterise import matte
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

Host = Callable[[str, Path], bytes]

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


def _resvg(text: str, folder: Path) -> bytes:
    module = pytest.importorskip("resvg_py")
    return bytes(module.svg_to_bytes(svg_string=text, skip_system_fonts=True))


def _librsvg(text: str, folder: Path) -> bytes:
    return _by_program(text, folder, "rsvg-convert", "-o", "a.png", "a.svg")


def _inkscape(text: str, folder: Path) -> bytes:
    return _by_program(text, folder, "inkscape", "--export-type=png", "--export-filename=a.png", "a.svg")


def _by_program(text: str, folder: Path, *words: str) -> bytes:
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} here")
    (folder / "a.svg").write_text(text, encoding="utf-8")
    home = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    subprocess.run(words, cwd=folder, env=home, check=True, capture_output=True, timeout=120)
    return (folder / "a.png").read_bytes()


def _host_alpha(host: Host, document: RotoDocument, frame: int, folder: Path) -> NDArray[np.float64]:
    """The coverage as a host draws it; the drawing's shapes are half transparent."""
    png = host(svg.dumps(document, frames=[frame]), folder)
    picture = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED)
    return np.minimum(np.asarray(picture[..., 3], np.float64) / 127.5, 1.0)


@pytest.mark.parametrize("host", [_resvg, _librsvg, _inkscape], ids=lambda host: host.__name__.strip("_"))
@pytest.mark.parametrize("name", SHAPES)
def test_others_draw_the_mattes_that_we_draw(name: str, host: Host, tmp_path: Path) -> None:
    document = RotoDocument(200, 120, 1, 5, shapes=(SHAPES[name],))
    for frame in (1, 3, 5) if host is _resvg else (3,):  # Inkscape takes seconds to start
        theirs, ours = (
            _host_alpha(host, document, frame, tmp_path),
            matte(SHAPES[name], frame, 200, 120).paste(200, 120),
        )
        most = 0.1 if SHAPES[name].width_px == 1.0 else 0.006  # hairlines are drawn in ways of their own
        assert abs(theirs.sum() / ours.sum() - 1) < most, f"{theirs.sum():.1f} px, ours {ours.sum():.1f} px"
        assert abs(theirs - ours).max() < (0.4 if "corners" in name else 0.2)  # at a hard edge about as many pixels


def test_a_hidden_shape_is_not_drawn(tmp_path: Path) -> None:
    shape = replace(SHAPES["closed"], visible={3: False})
    assert not _host_alpha(_resvg, RotoDocument(200, 120, 1, 5, shapes=(shape,)), 3, tmp_path).any()
