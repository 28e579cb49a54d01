"""The page that a supervisor opens after a run: `report/index.html`, made from `run.json` alone.

No script, style, font or picture comes from elsewhere; pictures lie beside the page in `report/img`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import count, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from rotopaint_ai.files import write_text
from rotopaint_ai.frames import summarise
from rotopaint_ai.report.curves import Chart, Curve, draw, script_safe

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
STAGE_COLOURS = ("#6aa7ff", "#9b8cff", "#43c7b4", "#7ed37f", "#ffc24d", "#ff8a5c", "#e88bff", "#b7c4d9", "#59d0f2")


def write_report(out: Path, run: Json) -> Path:
    """Write the page for a run whose folder is `out`; returns its path. Raises OSError where the disk refuses."""
    path = out / "report" / "index.html"
    write_text(path, render(run))
    return path


def render(run: Json) -> str:
    """The whole page as text."""
    plate, (state, kind) = run["plate"], _state(run["frames"])
    slots = {
        "title": escape(f"{plate['name']} - RotoPaint report"),
        "css": _part("page.css"),
        "js": _part("page.js"),
        "name": escape(plate["name"]),
        "subtitle": escape(_subtitle(run)),
        "state": escape(state),
        "state_kind": kind,
        "tiles": _tiles(run),
        "compare": _compare(run),
        "sheet": _sheet(run),
        "errors": _errors(run),
        "seam": _seam(run),
        "opinion": _opinion(run),
        "timing": _timing(run["timing"]),
        "frames": _frames(run["frames"]),
        "exports": _exports(run),
        "footer": _footer(run),
    }
    page = _part("page.html")
    head, *rest = page.split("{{")
    return head + "".join(slots[name] + text for name, _, text in (part.partition("}}") for part in rest))


def _part(name: str) -> str:
    return files("rotopaint_ai.report").joinpath(name).read_text(encoding="utf-8")


def _state(frames: Json) -> tuple[str, str]:
    broken = len(frames["failed"]) + len(frames["missing"])
    if broken:
        return f"{broken} of {frames['total']} frames need attention", "bad"
    if frames["lost"]:
        return f"face not found in {len(frames['lost'])} frames", "some"
    return f"all {frames['total']} frames done", "good"


def _subtitle(run: Json) -> str:
    plate = run["plate"]
    words = [
        f"frames {plate['first_frame']}-{plate['last_frame']}",
        f"{plate['width']} x {plate['height']}",
        f"{plate['suffix'].lstrip('.').upper()} {plate['colourspace']}",
        f"model pack {run['pack']['name']}",
        run["finished"],
    ]
    return "  ·  ".join(words)


# Tiles


def _tiles(run: Json) -> str:
    frames, timing = run["frames"], run["timing"]
    tiles = [
        _tile("Frames done", f"{frames['done']} <em>of {frames['total']}</em>", _frames_words(frames)),
        *_error_tile(run["errors"]),
        *_seam_tile(run["seam"]),
        _tile("Time", f"{timing['ms_per_frame']:.0f} <em>ms/frame</em>", f"{_seconds(timing['wall_s'])} in all"),
        _tile("Device", escape(run["device"]["used"].upper()), run["device"]["note"]),
    ]
    return "".join(tiles)


def _tile(name: str, value: str, words: str) -> str:
    return f'<div class="tile"><span>{escape(name)}</span><b>{value}</b><small>{escape(words)}</small></div>'


def _frames_words(frames: Json) -> str:
    words = [f"{len(frames[kind])} {kind}" for kind in ("failed", "missing", "lost") if frames[kind]]
    held = sum(last - first + 1 for first, last in frames["held"])
    return ", ".join([*words, *([f"{held} in holds"] if held else [])]) or "none missing, none failed"


def _error_tile(errors: Json) -> list[str]:
    worst = [max(row) for row in errors["by_frame"].values() if row]
    if not worst:
        return []
    words = f"worst shape of a frame; 95 % of frames below {_percentile(worst, 0.95):.2f} px"
    return [_tile("Expected error", f"{median(worst):.2f} <em>px</em>", words)]


def _seam_tile(seam: Json) -> list[str]:
    pairs = [pair for pair in seam["by_frame"].values() if pair[0] is not None]
    if not pairs:
        return []
    before = sum(pair[0] for pair in pairs) / len(pairs)
    cleaned = [pair[1] for pair in pairs if pair[1] is not None]
    if not cleaned:
        return [_tile("Seam visibility", f"{before:.2f}", "clean plates were not asked for")]
    after = sum(cleaned) / len(cleaned)
    less = f"{1 - after / before:.0%} less visible" if before > 0 else "nothing to remove"
    return [
        _tile("Seam visibility", f"{before:.2f} <em>&rarr;</em> {after:.2f}", f"{less}, mean of {len(pairs)} frames")
    ]


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


# Pictures


def _compare(run: Json) -> str:
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


def _sheet(run: Json) -> str:
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


def colours(shapes: Json) -> dict[str, str]:
    """A colour per shape: warm for seams, cool for the others, the same on the whole page."""
    seams = [name for name, facts in shapes.items() if facts["role"] == "seam"]
    others = [name for name in shapes if name not in seams]
    return {
        name: palette[row % len(palette)]
        for names, palette in ((seams, SEAM_COLOURS), (others, MATTE_COLOURS))
        for row, name in enumerate(names)
    }


# Curves


def _errors(run: Json) -> str:
    names, rows = run["errors"]["shapes"], _by_frame(run["errors"]["by_frame"])
    if not rows:
        return ""
    colour, frames = colours(run["shapes"]), sorted(rows)
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
        "Expected error per shape", "px", frames, curves, _bands(run), _marks(run), (2.0, "2 px: worth a look")
    )
    return _section(
        "Expected error per shape",
        "What the models expect to be wrong, in pixels of the plate. Grey bars under the curves are holds, red marks "
        "are frames that failed, are missing or lost the face. Click a name to hide its curve.",
        draw(chart),
    )


def _seam(run: Json) -> str:
    rows = _by_frame(run["seam"]["by_frame"])
    frames = sorted(rows)
    if not any(pair[0] is not None for pair in rows.values()):
        return ""
    curves = [Curve("before", "#f2a541", [rows[frame][0] for frame in frames])]
    if any(pair[1] is not None for pair in rows.values()):
        curves.append(Curve("after", "#43c7b4", [rows[frame][1] for frame in frames]))
    chart = Chart("Seam visibility", "", frames, curves, _bands(run), _marks(run))
    return _section("Seam visibility", run["seam"]["meaning"] + _painted(run["seam"]), draw(chart))


def _opinion(run: Json) -> str:
    """How far a second network agrees with the seam mattes; nothing for packs without one."""
    opinion = run.get("second_opinion")
    if not opinion:
        return ""
    rows = _by_frame(opinion["by_frame"])
    frames, limit = sorted(rows), float(opinion["limit"])
    curve = Curve("agreement", "#59d0f2", [rows[frame] for frame in frames])
    chart = Chart("Second opinion", "", frames, [curve], _bands(run), _marks(run), (limit, "below: look here"))
    doubtful = summarise(opinion["doubtful"])
    lead = "How far a network that sees seams agrees with the seam mattes, 1 in full; it changes none of them. "
    return _section("Second opinion", lead + f"They part at: {doubtful}.", draw(chart))


def _painted(seam: Json) -> str:
    """Who painted how much of the seams, and how they flicker; nothing for runs that did not say."""
    words = []
    if shares := seam.get("filled_by"):
        words.append("Painted by " + ", ".join(f"{name} {share:.0%}" for name, share in shares.items()) + ".")
    pair = seam.get("flicker", {})
    if pair.get("before") is not None:
        after = f", {pair['after']:.3f} after" if pair.get("after") is not None else ""
        words.append(f"Contrast of the seams changes by {pair['before']:.3f} (log light) a frame before{after}.")
    return "".join(f" {word}" for word in words)


def _by_frame(table: Json) -> dict[int, Any]:
    return {int(frame): row for frame, row in table.items()}


def _bands(run: Json) -> list[tuple[int, int]]:
    return [(first, last) for first, last in run["frames"]["held"]]


def _marks(run: Json) -> dict[int, str]:
    frames = run["frames"]
    marks = {int(frame): "failed" for frame in frames["failed"]}
    return {**marks, **dict.fromkeys(frames["missing"], "missing"), **dict.fromkeys(frames["lost"], "face lost")}


def _section(title: str, lead: str, body: str) -> str:
    return f'<section><h2>{escape(title)}</h2><p class="lead">{escape(lead)}</p>{body}</section>'


# Tables


def _timing(timing: Json) -> str:
    stages = timing["stages"]
    total = sum(stage["mean_ms"] for stage in stages.values()) or 1.0
    colour = dict(zip(stages, STAGE_COLOURS * 2))
    bars = "".join(
        f'<i style="width:{100 * s["mean_ms"] / total:.2f}%;background:{colour[n]}" title="{escape(n)}"></i>'
        for n, s in stages.items()
    )
    rows = [
        (
            f'<span class="dot" style="background:{colour[name]}"></span>{escape(name)}',
            f"{stage['mean_ms']:.1f}",
            f"{stage['median_ms']:.1f}",
            f"{stage['mean_ms'] / total:.0%}",
        )
        for name, stage in stages.items()
    ]
    table = _table(("Stage", "mean ms", "median ms", "share of the work"), rows, numbers=(1, 2, 3))
    lead = f"{timing['ms_per_frame']:.1f} ms per frame by the clock on {timing['threads']} threads"
    if timing["work_ratio"] is not None:
        lead += f"; all stages together are {timing['work_ratio']:.2f} times reading and writing the plate alone"
    return _section("Timing", f"{lead}.", f'<div class="bars">{bars}</div>{table}')


def _frames(frames: Json) -> str:
    rows: list[tuple[str, ...]] = []
    for frame, message in frames["failed"].items():
        rows.append(('<span class="pill bad">failed</span>', escape(str(frame)), escape(message)))
    if frames["missing"]:
        text = "not on disk; render or copy them, then run again with --resume"
        rows.append(('<span class="pill bad">missing</span>', escape(summarise(frames["missing"])), text))
    if frames["lost"]:
        text = "no face found; mattes are empty there and the clean plate is the plate"
        rows.append(('<span class="pill some">lost</span>', escape(summarise(frames["lost"])), text))
    if frames["held"]:
        spans = ", ".join(f"{first}-{last}" for first, last in frames["held"])
        text = "the same exposure again: identical points in every frame of a hold"
        rows.append(('<span class="pill">held</span>', escape(spans), text))
    if not rows:
        return ""
    return _section(
        "Frames", "Everything that is not an ordinary frame.", _table(("", "Frames", "What it means"), rows)
    )


def _exports(run: Json) -> str:
    rows = [
        (
            escape(item["format"]),
            escape(item["path"]),
            _checked(item),
            f"{item.get('matte_difference', 0.0):.2%}",
            str(item.get("n_keys", "")),
            escape(item.get("loses") or "nothing"),
        )
        for item in run["exports"]
    ]
    lead = "Every file was read back, drawn and compared with the shapes before it was called written."
    head = ("Format", "File", "Largest distance", "Largest matte difference", "Keys", "What it loses")
    return _section("Exports", lead, _table(head, rows, numbers=(3, 4), whole=(0, 1, 2)))


def _checked(item: Json) -> str:
    distance = item.get("max_distance_px")
    if distance is None:
        return '<span class="pill">not measured</span>'
    return f'<span class="pill good">{distance:.4f} px</span>'


def _table(
    head: Iterable[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = (), whole: Sequence[int] = ()
) -> str:
    """A table; cells of the columns `numbers` stand to the right, those of `whole` do not break."""
    kind = {**dict.fromkeys(whole, ' class="w"'), **dict.fromkeys(numbers, ' class="n"')}

    def row(cells: Iterable[str], tag: str) -> str:
        kinds = (kind.get(column, "") for column in count())
        return "<tr>" + "".join(f"<{tag}{kind}>{cell}</{tag}>" for cell, kind in zip(cells, kinds)) + "</tr>"

    return f"<table>{row(head, 'th')}{''.join(row(cells, 'td') for cells in rows)}</table>"


def _footer(run: Json) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    hashes = ", ".join(f"{name} {digest[:12]}" for name, digest in run["pack"]["files"].items())
    lines = [
        f"<code>{escape(run['command'])}</code>",
        escape(versions),
        f"Plate fingerprint <code>{escape(run['plate']['fingerprint'])}</code>. Pack {escape(run['pack']['name'])}: "
        f"<code>{escape(hashes)}</code>.",
    ]
    return "<br>".join(lines) + f'<script type="application/json" id="run">{script_safe(_facts(run))}</script>'


def _facts(run: Json) -> dict[str, Any]:
    return {name: run[name] for name in ("format", "version", "plate", "device", "timing")}
