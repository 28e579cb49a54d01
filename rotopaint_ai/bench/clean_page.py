"""The HTML page of `rotopaint bench clean`: tables, and 4 x pictures before and after, with raised contrast."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.bench.clean_cases import Case, Sight, codes
from rotopaint_ai.bench.clean_left import LeftWindow

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
    by_case = {each.case: each for each in shown}
    parts = [_case_section(case, by_case.get(case["case"])) for case in result["cases"]]
    speed = _speed_section(result["speed"])
    refused = "".join(f"<li>{escape(n)}: {escape(w)}</li>" for n, w in result["refused"].items())
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Clean plates</title><style>"
        "body{padding:24px;background:#16181d;color:#d6dae2;font:14px system-ui,sans-serif}"
        " .row{display:flex;flex-wrap:wrap;gap:10px} figure{margin:0} img{max-width:480px}"
        "td,th{padding:3px 10px;text-align:right} td:first-child,th:first-child{text-align:left} .best{font-weight:700}"
        f"</style><body><h1>Clean plates against their peers</h1>{speed}{''.join(parts)}"
        f"<h2>Not measured</h2><ul>{refused or '<li>none</li>'}</ul></body></html>\n"
    )


def _case_section(case: Mapping[str, Any], shown: ReportPictures | None) -> str:
    heads = "".join(f"<th>{title}</th>" for _, title, _ in _COLUMNS)
    best = max(case["methods"], key=lambda name: case["methods"][name]["psnr_db"] if name != "untouched" else 0.0)
    rows = "".join(_score_row(name, scores, name == best) for name, scores in case["methods"].items())
    figures = "".join(
        f"<figure><img alt='{escape(name)}' src='data:image/png;base64,{base64.b64encode(png).decode()}'>"
        f"<figcaption>{escape(name)}</figcaption></figure>"
        for name, png in (shown.pictures if shown else ())
    )
    return (
        f"<h2>{escape(case['case'])}</h2><p>{case['frames']} frames; {escape(case['verdict'])}</p>"
        f"<table><tr><th>method</th>{heads}<th>painted by</th></tr>{rows}</table><div class=row>{figures}</div>"
    )


def _score_row(name: str, scores: Mapping[str, Any], is_best: bool) -> str:
    cells = "".join(
        f"<td>{form.format(scores[key]) if scores.get(key) is not None else '-'}</td>" for key, _, form in _COLUMNS
    )
    chosen = ", ".join(f"{method} {share:.0%}" for method, share in scores.get("chosen", {}).items())
    return f"<tr{' class=best' if is_best else ''}><td>{escape(name)}</td>{cells}<td>{escape(chosen)}</td></tr>"


def _speed_section(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = "".join(
        f"<tr><td>{row['size']}</td><td>{row['telea_ms']:.1f}</td>"
        + "".join(
            f"<td>{v['ms']:.1f} ({v['telea_over_it']:.2f} x, worst {v['least']:.2f})</td>"
            for v in row["methods"].values()
        )
        + "</tr>"
        for row in rows
    )
    names = "".join(f"<th>{escape(name)}</th>" for name in (rows[0]["methods"] if rows else ()))
    return (
        "<h2>Speed</h2><p>Processor milliseconds per frame on one thread, mean over cases, and how many times as "
        f"fast as OpenCV's Telea on the same crop and matte.</p><table><tr><th>size</th><th>Telea</th>{names}</tr>"
        f"{lines}</table>"
    )
