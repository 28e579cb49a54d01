"""Pictures on the page: before and after, and the worst frames with their splines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from rotopaint_ai.report.page_elements import Json, shape_colours


def compare(run: Json) -> dict[str, Any] | None:
    """Plate and clean plate with a slider between them; None for a run without pictures of both."""
    pictures = [picture for picture in run["pictures"] if picture.get("after")]
    if not pictures:
        return None
    first = next((p for p in pictures if p["frame"] == run["compare_frame"]), pictures[0])
    wide, high = first["compare_size"]
    chips = [_chip(picture) for picture in sorted(pictures, key=lambda p: int(p["frame"]))]
    return {"first": _chip(first), "chips": chips, "wide": wide, "high": high}


def _chip(picture: Json) -> dict[str, Any]:
    words = _compare_words(picture)
    return {"frame": picture["frame"], "before": picture["before"], "after": picture["after"], "words": words}


def _compare_words(picture: Json) -> str:
    pair = picture.get("seam")
    if not pair or pair[0] is None or pair[1] is None:
        return f"frame {picture['frame']}"
    return f"frame {picture['frame']}: seam visibility {pair[0]:.2f} before, {pair[1]:.2f} after"


def cards(run: Json) -> list[dict[str, Any]]:
    """The frames with the worst seams, with splines drawn over them."""
    colour = shape_colours(run["shapes"])
    return [_picture_card(picture, run["shapes"], colour) for picture in run["pictures"] if picture["worst"]]


def _picture_card(picture: Json, shapes: Json, colour: Mapping[str, str]) -> dict[str, Any]:
    error, shape = picture["error_px"], picture["worst_shape"]
    figure = "lost" if error is None else f"{error:.2f} px"
    words = "no face found here; place landmarks by hand" if error is None else f"worst: {shape}{_least_seen(picture)}"
    x, y, side, _ = picture["window"]
    paths = [
        {
            "name": name,
            "kind": "seam" if shapes[name]["role"] == "seam" else "matte",
            "colour": colour[name],
            "d": spline_path(points, closed=shapes[name]["closed"]),
        }
        for name, points in picture["shapes"].items()
    ]
    return {
        "frame": picture["frame"],
        "title": f"frame {picture['frame']}: {figure}, {words}",
        "figure": figure,
        "words": words,
        "face": picture["face"],
        "window": f"{x:g} {y:g} {side:g} {side:g}",
        "paths": paths,
    }


def _least_seen(picture: Json) -> str:
    """The place along the worst seam where it was least visible; empty for runs without these figures."""
    return f", least visible in its {picture['unseen']}" if picture.get("unseen") else ""


def spline_path(points: Sequence[Sequence[float]], *, closed: bool) -> str:
    """A Bezier spline of `[x, y, in_dx, in_dy, out_dx, out_dy]` rows as SVG path data, in the same pixels."""
    if not points:
        return ""
    ends = [*pairwise(points), *([(points[-1], points[0])] if closed else [])]
    cubics = (f"C{_svg_point(a, 4)} {_svg_point(b, 2)} {_svg_point(b)}" for a, b in ends)
    return f"M{_svg_point(points[0])}{''.join(cubics)}"


def _svg_point(point: Sequence[float], tangent: int | None = None) -> str:
    dx, dy = (0.0, 0.0) if tangent is None else (point[tangent], point[tangent + 1])
    return f"{point[0] + dx:.2f} {point[1] + dy:.2f}"
