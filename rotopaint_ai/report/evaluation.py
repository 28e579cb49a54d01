"""The page of a pack's evaluation: one HTML file that can be mailed, in the style of the report."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from markupsafe import Markup

from rotopaint_ai.files import write_text
from rotopaint_ai.report.templates import fill_template

Json = Mapping[str, Any]

_SIZE, _RIM = 380.0, 46.0  # size of the reliability plot


class PackFigure(Protocol):
    """A figure of the new pack and of the old pack, as in `training.evaluation.gate`."""

    @property
    def is_worse(self) -> bool:
        """Whether the new figure exceeds its limit."""


def write_page(
    path: Path, result: Json, worst_jpeg: bytes, gate: Sequence[PackFigure] = (), against: Json | None = None
) -> None:
    """Write the page for the result of `evaluate --json`; `worst_jpeg`: a picture of the worst samples.

    Raises: OSError where the disk reports an error."""
    text = fill_template(
        "rotopaint_ai.report",
        "evaluation.html",
        css=Markup(files("rotopaint_ai.report").joinpath("page.css").read_text(encoding="utf-8")),
        result=result,
        nme="nme_interocular" if result.get("nme_interocular") is not None else "nme_face_size",
        against=against,
        gate=gate,
        n_worse=sum(each.is_worse for each in gate),
        plot=_reliability(result["expected_error"]["reliability"]),
        worst=base64.b64encode(worst_jpeg).decode("ascii"),
        landmarks=sorted(result["per_landmark"].items(), key=lambda item: -(item[1]["px"]["mean"] or 0.0)),
    )
    write_text(path, text)


def _reliability(bins: Sequence[Json]) -> dict[str, list[tuple[Any, ...]]] | None:
    """The dots of the plot, and its tick labels on x and y; None without a landmark to compare."""
    if not bins:
        return None
    top = max(max(b["expected_px"], b["true_px"]) for b in bins) * 1.05 or 1.0
    span = _SIZE - 2 * _RIM

    def place(x: float, y: float) -> tuple[float, float]:
        return round(_RIM + span * x / top, 1), round(_SIZE - _RIM - span * y / top, 1)

    ticks = [(f"{top * k / 4:.3g}", *place(top * k / 4, top * k / 4)) for k in range(5)]
    return {"dots": [place(b["expected_px"], b["true_px"]) for b in bins], "ticks": ticks}
