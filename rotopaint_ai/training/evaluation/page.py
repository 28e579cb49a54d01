"""The page of an evaluation: one HTML file that can be mailed, its pictures inside, drawn in the report's own style."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import write_text
from rotopaint_ai.training.data.dataset import Picture
from rotopaint_ai.training.evaluation.gate import GateFigure

Json = Mapping[str, Any]

_SIZE, _RIM = 380.0, 46.0  # of the reliability plot
_JPEG_QUALITY = 88
_EXTRA_CSS = """
.plot{width:100%;max-width:420px;height:auto;display:block}
.plot .ideal{stroke:var(--soft);stroke-dasharray:4 5}
.plot .line{fill:none;stroke:var(--amber);stroke-width:2}
.plot circle{fill:var(--amber)}
.two{display:flex;flex-wrap:wrap;gap:30px;align-items:flex-start}
.two>*{flex:1 1 320px}
img.wide{width:100%;border-radius:8px;display:block}
.scroll{overflow-x:auto}
"""


def write_page(
    path: Path, result: Json, worst: Picture, gate: Sequence[GateFigure] = (), against: Json | None = None
) -> None:
    """Write the page. Raises OSError where the disk refuses."""
    write_text(path, render(result, worst, gate, against))


def render(result: Json, worst: Picture, gate: Sequence[GateFigure] = (), against: Json | None = None) -> str:
    """The whole page as text."""
    css = files("rotopaint_ai.report").joinpath("page.css").read_text(encoding="utf-8")
    name = escape(str(result["pack"]))
    state, kind = _state(gate, against)
    pill = f'<div class="state {kind}">{escape(state)}</div>' if state else ""
    title = f"<h1>{name} on {escape(str(result['dataset']))}</h1>"
    head = f'<header><div>{title}<p class="sub">{_subtitle(result)}</p></div>{pill}</header>'
    parts = (
        _figure_tiles(result),
        _gate(gate, result, against),
        _shape_table(result),
        _shot_table(result),
        _believable(result),
    )
    body = f"{head}<main>{''.join(parts)}{_embedded_sheet(worst)}{_landmark_table(result)}</main>"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name} - RotoPaint evaluation</title>'
        f"<style>{css}{_EXTRA_CSS}</style></head><body>{body}</body></html>\n"
    )


def _subtitle(result: Json) -> str:
    missing = result["missing"]
    lacks = f"; the pack lacks {escape(', '.join(missing[:6]))}{' ...' if len(missing) > 6 else ''}" if missing else ""
    shots = f"{len(result['per_shot'])} shot{'' if len(result['per_shot']) == 1 else 's'}"
    learned = (
        "; the pack has learned from some of them, its figures flatter it" if result.get("has_learned_them") else ""
    )
    doubts = "".join(f"; {escape(doubt)}" for doubt in result["doubts"])
    return f"{result['n_samples']} samples ({', '.join(result['splits'])}), {shots}{lacks}{learned}{doubts}"


def _state(gate: Sequence[GateFigure], against: Json | None) -> tuple[str, str]:
    if against is None:
        return "", ""
    worse = sum(each.is_worse for each in gate)
    if worse:
        return f"worse than {against['pack']} on {worse} of {len(gate)} figures", "bad"
    return f"not worse than {against['pack']}", "good"


def _figure_tiles(result: Json) -> str:
    marks, seams, doubt = result["landmarks_px"], result["seams"], result["expected_error"]
    nme = "nme_interocular" if result.get("nme_interocular") is not None else "nme_face_size"
    tiles = (
        ("Landmarks", _px(marks["mean"]), f"95 % within {_px(marks['p95'])}"),
        ("NME", _number(result[nme], "%"), nme.removeprefix("nme_").replace("_", " ")),
        ("Seam curves", _px(seams["px"]["mean"]), f"within 1.5 px on {_share(seams.get('frames_within_1.5_px'))}"),
        (
            "Other shapes",
            _px(result["other_shapes"]["px"]["mean"]),
            f"IoU {_number(result['other_shapes']['matte_iou'])}",
        ),
        (
            "Jitter",
            _px(result["motion"]["moving_px"]["steadied"]),
            f"in holds {_px(result['motion']['in_holds_px']['steadied'])}",
        ),
        (
            "Expected error",
            _number(doubt["rank_correlation_of_frames"]),
            "rank correlation of frames",
        ),
        ("Time", _number(result["ms_per_frame"], "ms"), "both models, one frame"),
    )
    cells = "".join(f'<div class="tile"><span>{a}</span><b>{b}</b><small>{c}</small></div>' for a, b, c in tiles)
    return f'<section class="tiles">{cells}</section>'


def _gate(gate: Sequence[GateFigure], result: Json, against: Json | None) -> str:
    if against is None:
        return ""
    rows = [
        (escape(c.where), escape(c.figure), _number(c.new), _number(c.old), _number(c.limit), _pill(c.is_worse))
        for c in gate
    ]
    head = ("where", "figure", str(result["pack"]), str(against["pack"]), "limit", "")
    return _section("Gate", "Broken limits first.", _html_table(head, rows))


def _pill(is_worse: bool) -> str:
    return '<span class="pill bad">worse</span>' if is_worse else '<span class="pill good">kept</span>'


def _shape_table(result: Json) -> str:
    head = (
        "shape",
        "mean px",
        "95 %",
        "max",
        "within 1.5 px",
        "matte IoU",
        "F 1 px",
        "F 2 px",
        "F 3 px",
        "doubt ranks",
    )
    rows = [
        (
            escape(name),
            *(_number(f["px"][key]) for key in ("mean", "p95", "max")),
            _share(f.get("frames_within_1.5_px")),
            _number(f["matte_iou"]),
            *(_number(f["boundary_f"][f"{px}_px"]) for px in (1, 2, 3)),
            _number(f.get("rank_correlation_of_frames")),
        )
        for name, f in result["per_shape"].items()
    ]
    lead = "Symmetric mean distance between found and true curves in plate pixels; mattes by area and by boundary."
    return _section("Shapes", lead, _html_table(head, rows)) if rows else ""


def _shot_table(result: Json) -> str:
    head = ("shot", "samples", "landmarks px", "95 %", "curves px", "doubt ranks")
    rows = []
    for name, shot in result["per_shot"].items():
        curves = [s["mean"] for s in shot["shapes_px"].values() if s["mean"] is not None]
        rows.append(
            (
                escape(name),
                str(shot["n_samples"]),
                _number(shot["landmarks_px"]["mean"]),
                _number(shot["landmarks_px"]["p95"]),
                _number(float(np.mean(curves)) if curves else None),
                _number(shot["rank_correlation_of_frames"]),
            )
        )
    return _section("Shots", "", _html_table(head, rows))


def _believable(result: Json) -> str:
    doubt = result["expected_error"]
    facts = [
        ("mean true error", _px(doubt["mean_true_px"])),
        ("mean expected error", _px(doubt["mean_expected_px"])),
        ("rank correlation, landmarks", _number(doubt["rank_correlation"])),
        ("... that flawless expectations would reach", _number(doubt["rank_correlation_at_best"])),
        ("rank correlation, frames", _number(doubt["rank_correlation_of_frames"])),
        ("frames worse than 2 px", str(doubt["frames_worse_than_2_px"])),
        ("of them in the tenth shown first", _share(doubt["of_them_in_worst_tenth_shown"])),
        ("of those that fit into a tenth", _share(doubt["of_those_that_fit"])),
    ]
    words = _html_table(("", ""), [(escape(name), value) for name, value in facts])
    plot = _reliability(doubt["reliability"])
    lead = "Each dot is a tenth of the landmarks: what was expected and what came; right on the dashed line."
    return _section("Can expected errors be believed?", lead, f'<div class="two">{plot}<div>{words}</div></div>')


def _reliability(bins: Sequence[Json]) -> str:
    if not bins:
        return "<p>no landmark to compare</p>"
    top = max(max(b["expected_px"], b["true_px"]) for b in bins) * 1.05 or 1.0
    span = _SIZE - 2 * _RIM

    def place(x: float, y: float) -> tuple[float, float]:
        return _RIM + span * x / top, _SIZE - _RIM - span * y / top

    dots = [place(b["expected_px"], b["true_px"]) for b in bins]
    ticks = "".join(
        f'<text class="tick" x="{place(v, 0)[0]:.1f}" y="{_SIZE - _RIM + 18:g}" text-anchor="middle">{v:.3g}</text>'
        f'<text class="tick" x="{_RIM - 8:g}" y="{place(0, v)[1] + 4:.1f}" text-anchor="end">{v:.3g}</text>'
        f'<line class="grid" x1="{_RIM:g}" x2="{_SIZE - _RIM:g}" y1="{place(0, v)[1]:.1f}" y2="{place(0, v)[1]:.1f}"/>'
        for v in (top * k / 4 for k in range(5))
    )
    (x0, y0), (x1, y1) = place(0, 0), place(top, top)
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in dots)
    circles = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in dots)
    return (
        f'<svg class="plot" viewBox="0 0 {_SIZE:g} {_SIZE:g}" role="img" aria-label="reliability plot">{ticks}'
        f'<line class="ideal" x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"/><path class="line" d="{line}"/>'
        f'{circles}<text class="tick" x="{_SIZE / 2:g}" y="{_SIZE - 8:g}" text-anchor="middle">expected px</text>'
        f'<text class="tick" x="{_RIM:g}" y="{_RIM - 14:g}" text-anchor="middle">true px</text></svg>'
    )


def _embedded_sheet(picture: Picture) -> str:
    ok, code = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])
    if not ok:
        raise TrainingError("the contact sheet could not be encoded; is there enough memory?")
    data = base64.b64encode(code.tobytes()).decode("ascii")
    image = f'<img class="wide" alt="worst samples" src="data:image/jpeg;base64,{data}">'
    return _section("Worst samples", "Green found, red true; landmark error in percent of the face decides.", image)


def _landmark_table(result: Json) -> str:
    head = ("landmark", "mean px", "median", "95 %", "max", "mean % of the face")
    ordered = sorted(result["per_landmark"].items(), key=lambda item: -(item[1]["px"]["mean"] or 0.0))
    rows = [
        (
            escape(name),
            *(_number(f["px"][key]) for key in ("mean", "median", "p95", "max")),
            _number(f["percent"]["mean"]),
        )
        for name, f in ordered
    ]
    return _section("Landmarks", "Worst first.", _html_table(head, rows))


def _section(title: str, lead: str, body: str) -> str:
    return f'<section><h2>{escape(title)}</h2><p class="lead">{escape(lead)}</p>{body}</section>'


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(_table_cell("th", at, escape(word)) for at, word in enumerate(head))
    body = "".join(f"<tr>{''.join(_table_cell('td', at, cell) for at, cell in enumerate(row))}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{top}</tr>{body}</table></div>'


def _table_cell(kind: str, at: int, text: str) -> str:
    return f"<{kind}>{text}</{kind}>" if at == 0 else f'<{kind} class="n">{text}</{kind}>'


def _number(value: float | None, unit: str = "") -> str:
    if value is None:
        return "-"
    text = f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    return f"{text} <em>{unit}</em>" if unit else text


def _px(value: float | None) -> str:
    return _number(value, "px")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
