"""Curves over the frames: expected errors, visibility of the seams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from rotopaint_ai.report.curves import Chart, Curve, draw
from rotopaint_ai.report.page_elements import FigureSection, Json, shape_colours

_BY_HAND = "#8fa3b8"  # seams that are in no sheet


def errors_chart(run: Json) -> FigureSection | None:
    """The expected error of every shape over the frames."""
    names, rows = run["errors"]["shapes"], _by_frame(run["errors"]["by_frame"])
    if not rows:
        return None
    colour, frames = shape_colours(run["shapes"]), sorted(rows)
    curves = [
        Curve(
            name,
            colour[name],
            [rows[frame][column] if rows[frame] else None for frame in frames],
            dim=run["shapes"][name]["role"] != "seam",
        )
        for column, name in enumerate(names)
    ]
    chart = Chart(
        "Expected error per shape",
        "px",
        frames,
        curves,
        _held_bands(run),
        _marked_frames(run),
        (2.0, "2 px: worth a look"),
    )
    return FigureSection(
        "Expected error per shape",
        "The error that the models expect, in pixels of the plate. Grey bars under the curves are holds, red marks "
        "are frames that failed, are missing or lost the face. Click a name to hide its curve.",
        Markup(draw(chart)),
    )


def seam_chart(run: Json) -> FigureSection | None:
    """The visibility of the seams, before and after painting."""
    rows = _by_frame(run["seam"]["by_frame"])
    frames = sorted(rows)
    if not any(pair[0] is not None for pair in rows.values()):
        return None
    curves = [Curve("before", "#f2a541", [rows[frame][0] for frame in frames])]
    if any(pair[1] is not None for pair in rows.values()):
        curves.append(Curve("after", "#43c7b4", [rows[frame][1] for frame in frames]))
        curves += _each_seam(run, frames)
    chart = Chart("Seam visibility", "", frames, curves, _held_bands(run), _marked_frames(run))
    return FigureSection("Seam visibility", run["seam"]["meaning"] + _painted_lead(run["seam"]), Markup(draw(chart)))


def _each_seam(run: Json, frames: Sequence[int]) -> list[Curve]:
    """The visibility of each seam after painting; empty for runs without these figures."""
    colour, curves = shape_colours(run["shapes"]), []
    for name, table in run["seam"].get("by_seam", {}).items():
        after = {frame: pair[1] for frame, pair in _by_frame(table).items() if len(pair) > 1}
        values = [after.get(frame) for frame in frames]
        curves.append(Curve(f"{name}, after", colour.get(name, _BY_HAND), values, dim=True))
    return curves


def _painted_lead(seam: Json) -> str:
    """The share of the seams that each fill painted, and their flicker; empty for runs without these figures."""
    words = []
    if shares := seam.get("filled_by"):
        words.append("Painted by " + ", ".join(f"{name} {share:.0%}" for name, share in shares.items()) + ".")
    pair = seam.get("flicker", {})
    if pair.get("before") is not None:
        after = f", {pair['after']:.3f} after" if pair.get("after") is not None else ""
        words.append(f"Contrast of the seams changes by {pair['before']:.3f} (log light) per frame before{after}.")
    return "".join(f" {word}" for word in words)


def _by_frame(table: Json) -> dict[int, Any]:
    return {int(frame): row for frame, row in table.items()}


def _held_bands(run: Json) -> list[tuple[int, int]]:
    return [(first, last) for first, last in run["frames"]["held"]]


def _marked_frames(run: Json) -> dict[int, str]:
    frames = run["frames"]
    marks = {int(frame): "failed" for frame in frames["failed"]}
    return {**marks, **dict.fromkeys(frames["missing"], "missing"), **dict.fromkeys(frames["lost"], "face lost")}
