"""Pictures on the page: before and after, and the worst frames with their splines."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

from rotopaint_ai.report.parts import Json, colours


def compare(run: Json) -> str:
    """Plate and clean plate under one slider; nothing for a run without pictures of both."""
    pictures = [picture for picture in run["pictures"] if picture.get("after")]
    if not pictures:
        return ""
    first = next((p for p in pictures if p["frame"] == run["compare_frame"]), pictures[0])
    chips = "".join(_chip(p, chosen=p is first) for p in sorted(pictures, key=lambda p: int(p["frame"])))
    zooms = "".join(
        f'<button type="button" data-zoom="{z}" aria-pressed="{"true" if z == 1 else "false"}">{z}&times;</button>'
        for z in (1, 2, 4)
    )
    wide, high = first["compare_size"]
    return (
        '<section class="compare"><h2>Before and after</h2>'
        '<p class="lead">Move the pointer across the picture: plate on the left, clean plate on the right.</p>'
        f'<div class="row">{chips}<span class="gap"></span>{zooms}</div>'
        f'<div class="wipe" style="--ratio:{wide}/{high}" data-centre="[0.5,0.5]"><div class="zoom">'
        f'<img class="before" alt="plate" src="{escape(first["before"])}">'
        f'<img class="after" alt="clean plate" src="{escape(first["after"])}"></div>'
        '<span class="bar"></span><span class="tag" style="left:10px">plate</span>'
        '<span class="tag" style="right:10px">clean</span></div>'
        f'<p class="cap words" style="margin-top:10px">{escape(_compare_words(first))}</p></section>'
    )


def _chip(picture: Json, *, chosen: bool) -> str:
    pressed = "true" if chosen else "false"
    data = {"before": picture["before"], "after": picture["after"], "words": _compare_words(picture)}
    attributes = "".join(f' data-{name}="{escape(text)}"' for name, text in data.items())
    return f'<button type="button" aria-pressed="{pressed}"{attributes}>{picture["frame"]}</button>'


def _compare_words(picture: Json) -> str:
    pair = picture.get("seam")
    if not pair or pair[0] is None or pair[1] is None:
        return f"frame {picture['frame']}"
    return f"frame {picture['frame']}: seam visibility {pair[0]:.2f} before, {pair[1]:.2f} after"


def sheet(run: Json) -> str:
    """The frames with the largest expected error, their splines over them."""
    cards = [_card(picture, run) for picture in run["pictures"] if picture["worst"]]
    if not cards:
        return ""
    return (
        '<section><div class="row" style="margin:0"><h2>Worst frames</h2><span class="gap"></span>'
        '<button type="button" data-splines>splines (S)</button></div>'
        '<p class="lead">Largest expected error first: look here before anywhere else. Click to open large, '
        "arrow keys step.</p>"
        f'<div class="sheet">{"".join(cards)}</div></section>'
    )


def _card(picture: Json, run: Json) -> str:
    error, shape = picture["error_px"], picture["worst_shape"]
    figure = "lost" if error is None else f"{error:.2f} px"
    words = "no face found here; place landmarks by hand" if error is None else f"worst: {shape}"
    title = f"frame {picture['frame']}: {figure}, {words}"
    x, y, side, _ = picture["window"]
    paths = "".join(_path(name, points, run) for name, points in picture["shapes"].items())
    return (
        f'<button type="button" class="card" data-words="{escape(title)}"><span class="pic">'
        f'<img loading="lazy" alt="{escape(title)}" src="{escape(picture["face"])}">'
        f'<svg viewBox="{x:g} {y:g} {side:g} {side:g}">{paths}</svg></span>'
        f'<span class="words"><b>{picture["frame"]}</b><i>{figure}</i><small>{escape(words)}</small></span></button>'
    )


def _path(name: str, points: Sequence[Sequence[float]], run: Json) -> str:
    facts = run["shapes"][name]
    kind = "seam" if facts["role"] == "seam" else "matte"
    d = spline_path(points, closed=facts["closed"])
    return f'<path class="{kind}" stroke="{colours(run["shapes"])[name]}" d="{d}"><title>{escape(name)}</title></path>'


def spline_path(points: Sequence[Sequence[float]], *, closed: bool) -> str:
    """A Bezier spline of `[x, y, in_dx, in_dy, out_dx, out_dy]` rows as SVG path data, in the same pixels."""
    if not points:
        return ""
    ends = [*pairwise(points), *([(points[-1], points[0])] if closed else [])]
    cubics = (f"C{_xy(a, 4)} {_xy(b, 2)} {_xy(b)}" for a, b in ends)
    return f"M{_xy(points[0])}{''.join(cubics)}"


def _xy(point: Sequence[float], tangent: int | None = None) -> str:
    dx, dy = (0.0, 0.0) if tangent is None else (point[tangent], point[tangent + 1])
    return f"{point[0] + dx:.2f} {point[1] + dy:.2f}"
