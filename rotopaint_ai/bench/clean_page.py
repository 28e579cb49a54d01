"""The HTML page of `rotopaint bench clean`: tables, and 4 x pictures before and after, with raised contrast."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.bench.clean_cases import Case, Sight, codes
from rotopaint_ai.bench.clean_left import LeftWindow
from rotopaint_ai.report.templates import fill_template

Array = NDArray[Any]

ZOOM = 4
HALF = (60, 40)  # half width and half height of the pictures, px
WORST, NEAR = 10, 26  # number of windows shown, and half their side, px
GRADE = 3.0  # contrast gain around the local mean

_COLUMNS = (
    ("psnr_db", "PSNR dB", "{:.2f}"),
    ("ssim", "SSIM", "{:.4f}"),
    ("gradient_error", "gradient error", "{:.2f}"),
    ("grain_error_db", "grain dB", "{:.2f}"),
    ("flicker_over_clean", "flicker", "{:.2f}"),
    ("changed_outside", "changed outside", "{:d}"),
    ("visibility", "visibility", "{:.2f}"),
    ("left_over_quarter", "left > 1/4", "{:.1%}"),
    ("left_over_half", "left > 1/2", "{:.1%}"),
    ("left_worst", "worst window", "{:.2f}"),
    ("ms", "ms", "{:.1f}"),
)


@dataclass(frozen=True, slots=True)
class ReportPictures:
    """Pictures of one case: (title, PNG bytes) in the order of the page."""

    case: str
    pictures: tuple[tuple[str, bytes], ...]


def picture_of(sight: Sight, lights: Mapping[str, Array]) -> tuple[tuple[str, bytes], ...]:
    """4 x pictures of the most visible part of the seam: plate, each of `lights`, clean frame.

    Each is shown plain and with raised contrast.
    """
    window = _worst_window(sight)
    named = {"plate": sight.plate, **lights, "clean": sight.clean}
    exposure = 0.7 / max(float(np.percentile(sight.clean[window], 99)), 1e-4)
    return tuple((name, _png(light[window] * np.float32(min(1.0, exposure)))) for name, light in named.items())


def worst_pictures(case: Case, lights: Sequence[Array], windows: Sequence[LeftWindow]) -> tuple[tuple[str, bytes], ...]:
    """4 x pictures of the WORST windows, where most of the seam remains: plate, filled and clean side by side."""
    made = []
    for window in sorted(windows, key=lambda each: -each.left)[:WORST]:
        at = next(k for k, sight in enumerate(case.sights) if sight.frame == window.frame)
        sight = case.sights[at]
        height, width = sight.hole.shape
        left = int(np.clip(window.x - NEAR, 0, max(0, width - 2 * NEAR)))
        top = int(np.clip(window.y - NEAR, 0, max(0, height - 2 * NEAR)))
        part = slice(top, top + 2 * NEAR), slice(left, left + 2 * NEAR)
        row = np.concatenate([light[part] for light in (sight.plate, lights[at], sight.clean)], 1)
        x, y = sight.origin[0] + window.x, sight.origin[1] + window.y
        made.append((f"frame {window.frame} at {x:.0f}, {y:.0f}: {window.left:.2f} left", _png(row)))
    return tuple(made)


def _worst_window(sight: Sight) -> tuple[slice, slice]:
    """The window in which the plate differs most from the clean frame."""
    apart = np.abs(sight.plate - sight.clean).sum(2) * (sight.hole > 0)
    size = (2 * HALF[0] + 1, 2 * HALF[1] + 1)
    box = cv2.boxFilter(apart.astype(np.float32), -1, size, borderType=cv2.BORDER_CONSTANT)
    y, x = np.unravel_index(int(box.argmax()), box.shape)
    height, width = box.shape
    left = int(np.clip(x - HALF[0], 0, max(0, width - 2 * HALF[0])))
    top = int(np.clip(y - HALF[1], 0, max(0, height - 2 * HALF[1])))
    return slice(top, top + 2 * HALF[1]), slice(left, left + 2 * HALF[0])


def _png(light: Array) -> bytes:
    """The picture as PNG: plain above, with raised contrast below."""
    plain = codes(light).astype(np.float32)
    mean = cv2.GaussianBlur(plain, (0, 0), 20.0)
    graded = np.clip(128 + GRADE * (plain - mean), 0, 255)
    both = np.concatenate([plain, graded]).astype(np.uint8)
    large = cv2.resize(both, None, fx=ZOOM, fy=ZOOM, interpolation=cv2.INTER_NEAREST)
    return bytes(cv2.imencode(".png", np.ascontiguousarray(large[..., ::-1]))[1])


def render_comparison(result: Mapping[str, Any], shown: Sequence[ReportPictures]) -> str:
    """The page as HTML text that loads nothing from other files."""
    pictures = {each.case: each.pictures for each in shown}
    return fill_template(
        "rotopaint_ai.bench",
        "clean.html",
        titles=[title for _, title, _ in _COLUMNS],
        speed=result["speed"],
        cases=[_case_section(case, pictures.get(case["case"], ())) for case in result["cases"]],
        refused=result["refused"],
    )


def _case_section(case: Mapping[str, Any], pictures: Sequence[tuple[str, bytes]]) -> dict[str, Any]:
    """What the template shows of one case."""
    methods = case["methods"]
    best = max(methods, key=lambda name: methods[name]["psnr_db"] if name != "untouched" else 0.0)
    return {
        "name": case["case"],
        "n_frames": case["frames"],
        "verdict": case["verdict"],
        "rows": [_score_row(name, scores, name == best) for name, scores in methods.items()],
        "pictures": [(title, base64.b64encode(png).decode("ascii")) for title, png in pictures],
    }


def _score_row(method: str, scores: Mapping[str, Any], is_best: bool) -> dict[str, Any]:
    """A row of the table; a dash where a figure is missing."""
    return {
        "method": method,
        "is_best": is_best,
        "cells": [form.format(scores[key]) if scores.get(key) is not None else "-" for key, _, form in _COLUMNS],
        "painted_by": ", ".join(f"{name} {share:.0%}" for name, share in scores.get("chosen", {}).items()),
    }
