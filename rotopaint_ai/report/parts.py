"""What the parts of the page share: sections, tables, and a colour for every shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import count
from typing import Any

Json = Mapping[str, Any]

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


def section(title: str, lead: str, body: str) -> str:
    """A part of the page: its title, a line that says what it shows, and its body, which is HTML."""
    return f'<section><h2>{escape(title)}</h2><p class="lead">{escape(lead)}</p>{body}</section>'


def table(
    head: Iterable[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = (), whole: Sequence[int] = ()
) -> str:
    """A table; cells of the columns `numbers` stand to the right, those of `whole` do not break."""
    kind = {**dict.fromkeys(whole, ' class="w"'), **dict.fromkeys(numbers, ' class="n"')}

    def row(cells: Iterable[str], tag: str) -> str:
        kinds = (kind.get(column, "") for column in count())
        return "<tr>" + "".join(f"<{tag}{kind}>{cell}</{tag}>" for cell, kind in zip(cells, kinds)) + "</tr>"

    return f"<table>{row(head, 'th')}{''.join(row(cells, 'td') for cells in rows)}</table>"


def colours(shapes: Json) -> dict[str, str]:
    """A colour per shape: warm for seams, cool for the others, the same on the whole page."""
    seams = [name for name, facts in shapes.items() if facts["role"] == "seam"]
    others = [name for name in shapes if name not in seams]
    return {
        name: palette[row % len(palette)]
        for names, palette in ((seams, SEAM_COLOURS), (others, MATTE_COLOURS))
        for row, name in enumerate(names)
    }
