"""Curves over frames as SVG text; the page's script adds the values under the pointer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

WIDTH, HEIGHT = 1120.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 16.0, 14.0, 30.0


@dataclass(frozen=True, slots=True)
class Curve:
    """A named line over the chart's frames; None where there is no value. `dim` lines are drawn fainter."""

    name: str
    colour: str
    values: Sequence[float | None]
    dim: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves over frames, with bands of frames to shade (held) and frames to mark (failed, lost)."""

    name: str
    unit: str
    frames: Sequence[int]
    curves: Sequence[Curve]
    bands: Sequence[tuple[int, int]] = ()
    marks: Mapping[int, str] | None = None
    limit: tuple[float, str] | None = None

    @cached_property  # cached: used at every point, and computing it each time took seconds for 2,000 frames
    def top(self) -> float:
        """The value at the chart's upper edge: a round number above every value."""
        values = [v for curve in self.curves for v in curve.values if v is not None]
        if self.limit is not None:
            values.append(self.limit[0] * 1.1)
        return nice_ceiling(max(values, default=1.0))


def nice_ceiling(value: float) -> float:
    """The next 1, 2, 3, 4, 5, 6 or 8 times a power of ten at or above a value (1 for values that are not positive)."""
    if not value > 0 or math.isinf(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 3, 4, 5, 6, 8, 10) if step * power >= value * (1 - 1e-9))


def draw(chart: Chart) -> str:
    """The chart as one SVG element followed by its values as JSON."""
    curves = "".join(_curve_path(chart, curve) for curve in chart.curves)
    body = f'{_grid_lines(chart)}{_band_rects(chart)}{_limit(chart)}{curves}{_mark_paths(chart)}<g class="pointer"></g>'
    svg = f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{escape(chart.name)}">{body}</svg>'
    return f'<figure class="chart">{_legend(chart)}{svg}{_value_labels(chart)}</figure>'


def x_at(chart: Chart, frame: float) -> float:
    """Horizontal place of a frame in the SVG's units."""
    first, last = chart.frames[0], chart.frames[-1]
    return LEFT + (WIDTH - LEFT - RIGHT) * ((frame - first) / (last - first) if last > first else 0.5)


def y_of(chart: Chart, value: float) -> float:
    """Vertical place of a value in the SVG's units."""
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / chart.top)


def _grid_lines(chart: Chart) -> str:
    lines = []
    for quarter in range(5):
        value = chart.top * quarter / 4
        y = y_of(chart, value)
        lines.append(f'<line class="grid" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(f'<text class="tick" x="{LEFT - 8:g}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for frame in _ticks(chart.frames[0], chart.frames[-1]):
        x = x_at(chart, frame)
        lines.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 8:g}" text-anchor="middle">{frame}</text>')
    return "".join(lines)


def _ticks(first: int, last: int) -> list[int]:
    step = max(1, int(nice_ceiling((last - first) / 10))) if last > first else 1
    inner = [f for f in range(-(-first // step) * step, last + 1, step) if min(f - first, last - f) > step * 0.6]
    return [first, *inner, *([last] if last > first else [])]


def _band_rects(chart: Chart) -> str:
    half = (x_at(chart, chart.frames[0] + 1) - x_at(chart, chart.frames[0])) / 2 if len(chart.frames) > 1 else 0
    return "".join(
        f'<rect class="hold" x="{x_at(chart, a) - half:.1f}" width="{x_at(chart, b) - x_at(chart, a) + 2 * half:.1f}"'
        f' y="{HEIGHT - BOTTOM:g}" height="4"><title>held {a}-{b}</title></rect>'
        for a, b in chart.bands
    )


def _limit(chart: Chart) -> str:
    if chart.limit is None:
        return ""
    y = y_of(chart, chart.limit[0])
    return (
        f'<line class="limit" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" x="{WIDTH - RIGHT:g}" y="{y - 5:.1f}" text-anchor="end">{escape(chart.limit[1])}</text>'
    )


def _curve_path(chart: Chart, curve: Curve) -> str:
    runs: list[list[str]] = [[]]
    before: int | None = None
    for frame, value in zip(chart.frames, curve.values):
        if value is None or (before is not None and frame - before > 1):
            runs.append([])
        if value is not None:
            runs[-1].append(f"{x_at(chart, frame):.1f} {y_of(chart, value):.1f}")
        before = frame
    path = "".join("M" + "L".join(run if len(run) > 1 else run * 2) for run in runs if run)
    kind = "curve dim" if curve.dim else "curve"
    return f'<path class="{kind}" data-curve="{escape(curve.name)}" stroke="{curve.colour}" d="{path}"/>'


def _mark_paths(chart: Chart) -> str:
    return "".join(
        f'<path class="mark" d="M{x_at(chart, frame):.1f} {HEIGHT - BOTTOM:g}l-5 -9h10z"><title>{frame}: {escape(text)}'
        "</title></path>"
        for frame, text in (chart.marks or {}).items()
    )


def _legend(chart: Chart) -> str:
    items = "".join(
        f'<button type="button" class="key" data-curve="{escape(curve.name)}">'
        f'<i style="background:{curve.colour}"></i>{escape(curve.name)}</button>'
        for curve in chart.curves
    )
    return f"<figcaption>{items}</figcaption>"


def _value_labels(chart: Chart) -> str:
    content = {
        "unit": chart.unit,
        "frames": list(chart.frames),
        "top": chart.top,
        "plot": [LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM],
        "marks": {str(frame): text for frame, text in (chart.marks or {}).items()},
        "curves": [
            [c.name, c.colour, [None if v is None else float(f"{v:.4g}") for v in c.values]] for c in chart.curves
        ],
    }
    return f'<script type="application/json">{script_safe(content)}</script>'


def script_safe(content: object) -> str:
    """JSON text that is safe inside a script element."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
