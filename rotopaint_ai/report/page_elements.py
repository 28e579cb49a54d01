"""Elements that several parts of the page share: a section with a figure, and a colour for every shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FigureSection:
    """A part of the page: its title, an explanation in one line, and a figure."""

    title: str
    lead: str
    figure: Markup


SEAM_COLOURS = ("#ff8a5c", "#ffc24d", "#ff6b8b", "#f4e06d", "#ff9f80", "#e88bff")
MATTE_COLOURS = (
    "#6aa7ff",
    "#43c7b4",
    "#9b8cff",
    "#7ed37f",
    "#59d0f2",
    "#b7c4d9",
    "#5f9ea0",
    "#c0a5f5",
    "#8fd6b0",
    "#88a2e8",
)


def shape_colours(shapes: Json) -> dict[str, str]:
    """A colour per shape: warm for seams, cool for the others, the same on the whole page."""
    seams = [name for name, facts in shapes.items() if facts["role"] == "seam"]
    others = [name for name in shapes if name not in seams]
    return {
        name: palette[row % len(palette)]
        for names, palette in ((seams, SEAM_COLOURS), (others, MATTE_COLOURS))
        for row, name in enumerate(names)
    }
