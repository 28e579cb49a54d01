"""The curves of a race as SVG: validation error over processor seconds, both on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

WIDTH, HEIGHT, RIM = 860.0, 460.0, 64.0
COLOURS = {"ours": "#1f6fd6", "cold": "#1b998b", "stock": "#d9480f"}
TITLES = {"ours": "rotopaint train", "cold": "the same from nothing", "stock": "stock PyTorch"}
_FIRST_S = 1.0  # earlier points are drawn here

Point = tuple[float, float]


def svg(content: Mapping[str, Any]) -> str:
    """The SVG text for the result of `race.run`."""
    curves = {name: _curve_points(side["curve"]) for name, side in content["sides"].items()}
    frame = _Frame.around([point for points in curves.values() for point in points])
    lines = "".join(_line(name, points, frame) for name, points in curves.items())
    title = escape(f"{content['data']}: {content['train_samples']} training samples, one thread each")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" font-family="sans-serif" '
        f'font-size="13"><rect width="100%" height="100%" fill="#ffffff"/>{frame.axes()}{lines}'
        f'<text x="{RIM:g}" y="28" font-size="15" fill="#222222">{title}</text></svg>\n'
    )


def _curve_points(curve: Sequence[Mapping[str, Any]]) -> list[Point]:
    return [(max(seen["cpu_s"], _FIRST_S), max(seen["percent"], 1e-3)) for seen in curve]


class _Frame:
    """Maps seconds and percent to pixels of the picture."""

    def __init__(self, low: Point, high: Point) -> None:
        self.low, self.high = low, high

    @classmethod
    def around(cls, points: Sequence[Point]) -> _Frame:
        """The frame that just encloses all points."""
        xs, ys = zip(*points) if points else ((1.0, 10.0), (1.0, 10.0))
        return cls((min(xs), min(ys) / 1.15), (max(max(xs), min(xs) * 2), max(ys) * 1.15))

    def place(self, point: Point) -> Point:
        """The position of a point in picture pixels."""
        x, y = (math.log(value / low) / math.log(high / low) for value, low, high in zip(point, self.low, self.high))
        return RIM + x * (WIDTH - 2 * RIM), HEIGHT - RIM - y * (HEIGHT - 2 * RIM)

    def axes(self) -> str:
        """Grid lines and labels at 1, 2, 5, 10, 20, 50 and so on."""
        marks = []
        for value in _tick_values(self.low[0], self.high[0]):
            x = self.place((value, self.low[1]))[0]
            marks.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{RIM:g}" y2="{HEIGHT - RIM:g}" stroke="#e4e4e4"/>')
            marks.append(_svg_text(x, HEIGHT - RIM + 20, f"{value:g} s", "middle"))
        for value in _tick_values(self.low[1], self.high[1]):
            y = self.place((self.low[0], value))[1]
            marks.append(f'<line x1="{RIM:g}" x2="{WIDTH - RIM:g}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e4e4e4"/>')
            marks.append(_svg_text(RIM - 8, y + 4, f"{value:g} %", "end"))
        marks.append(_svg_text(WIDTH / 2, HEIGHT - 16, "processor time of training", "middle"))
        marks.append(
            _svg_text(RIM, RIM - 14, "mean error of visible landmarks on validation frames, of the face", "start")
        )
        return "".join(marks)


def _tick_values(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [m * 10.0**d for d in decades for m in (1, 2, 5) if low <= m * 10.0**d <= high]


def _svg_text(x: float, y: float, words: str, anchor: str, colour: str = "#666666") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


def _line(name: str, points: Sequence[Point], frame: _Frame) -> str:
    colour = COLOURS.get(name, "#555555")
    spots = [frame.place(point) for point in points]
    if not spots:
        return ""
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in spots)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}"/>' for x, y in spots)
    x, y = spots[-1]
    label = _svg_text(x - 6, y + 18, TITLES.get(name, name), "end", colour)
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}{label}'
