"""The page of an evaluation: one HTML file that can be mailed, its pictures inside, drawn in the report's own style."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import cv2
from markupsafe import Markup

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.files import write_text
from rotopaint_ai.report.templates import fill_template
from rotopaint_ai.training.data.dataset import Picture
from rotopaint_ai.training.evaluation.gate import GateFigure

Json = Mapping[str, Any]

_SIZE, _RIM = 380.0, 46.0  # of the reliability plot
_JPEG_QUALITY = 88


def write_page(
    path: Path, result: Json, worst: Picture, gate: Sequence[GateFigure] = (), against: Json | None = None
) -> None:
    """Write the page. Raises OSError where the disk refuses."""
    write_text(path, render(result, worst, gate, against))


def render(result: Json, worst: Picture, gate: Sequence[GateFigure] = (), against: Json | None = None) -> str:
    """The whole page as text."""
    return fill_template(
        "rotopaint_ai.training.evaluation",
        "page.html",
        css=Markup(files("rotopaint_ai.report").joinpath("page.css").read_text(encoding="utf-8")),
        result=result,
        nme="nme_interocular" if result.get("nme_interocular") is not None else "nme_face_size",
        against=against,
        gate=gate,
        n_worse=sum(each.is_worse for each in gate),
        plot=_reliability(result["expected_error"]["reliability"]),
        worst=_as_jpeg(worst),
        landmarks=sorted(result["per_landmark"].items(), key=lambda item: -(item[1]["px"]["mean"] or 0.0)),
    )


def _reliability(bins: Sequence[Json]) -> dict[str, list[tuple[Any, ...]]] | None:
    """Where the plot's dots lie, and its ticks as text, x and y; None without a landmark to compare."""
    if not bins:
        return None
    top = max(max(b["expected_px"], b["true_px"]) for b in bins) * 1.05 or 1.0
    span = _SIZE - 2 * _RIM

    def place(x: float, y: float) -> tuple[float, float]:
        return round(_RIM + span * x / top, 1), round(_SIZE - _RIM - span * y / top, 1)

    ticks = [(f"{top * k / 4:.3g}", *place(top * k / 4, top * k / 4)) for k in range(5)]
    return {"dots": [place(b["expected_px"], b["true_px"]) for b in bins], "ticks": ticks}


def _as_jpeg(picture: Picture) -> str:
    """A picture as text for a page."""
    ok, code = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])
    if not ok:
        raise TrainingError("the contact sheet could not be encoded; is there enough memory?")
    return base64.b64encode(code.tobytes()).decode("ascii")
