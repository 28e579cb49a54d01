"""The page that a supervisor opens after a run: `report/index.html`, made only from `run.json`.

The page loads nothing from the network; its pictures are beside it in `report/img`.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from rotopaint_ai.files import write_text
from rotopaint_ai.report import charts, pictures, tables
from rotopaint_ai.report.curves import script_safe
from rotopaint_ai.report.page_elements import Json
from rotopaint_ai.report.templates import fill_template
from rotopaint_ai.report.tiles import tiles


def write_report(out: Path, run: Json) -> Path:
    """Write the page for a run with the folder `out`; returns its path. Raises OSError from the disk."""
    path = out / "report" / "index.html"
    write_text(path, render_report(run))
    return path


def render_report(run: Json) -> str:
    """The whole page as HTML text."""
    state, kind = _run_state(run["frames"])
    return fill_template(
        "rotopaint_ai.report",
        "page.html",
        plate=run["plate"],
        pack=run["pack"],
        css=_page_part("page.css"),
        js=_page_part("page.js"),
        subtitle=_page_subtitle(run),
        state=state,
        state_kind=kind,
        tiles=tiles(run),
        compare=pictures.compare(run),
        cards=pictures.cards(run),
        charts=[charts.errors_chart(run), charts.seam_chart(run)],
        timing=tables.timing_table(run["timing"]),
        frames=tables.frames_table(run["frames"], run.get("review", {}), run["errors"].get("unseen", {})),
        exports=tables.exports_table(run),
        command=run["command"],
        versions=", ".join(f"{name} {version}" for name, version in run["versions"].items()),
        hashes=", ".join(f"{name} {digest[:12]}" for name, digest in run["pack"]["files"].items()),
        facts=Markup(script_safe(_page_facts(run))),
    ).lstrip()


def _page_part(name: str) -> Markup:
    return Markup(files("rotopaint_ai.report").joinpath(name).read_text(encoding="utf-8"))


def _run_state(frames: Json) -> tuple[str, str]:
    broken = len(frames["failed"]) + len(frames["missing"])
    if broken:
        return f"{broken} of {frames['total']} frames need attention", "bad"
    if frames["lost"]:
        return f"face not found in {len(frames['lost'])} frames", "some"
    return f"all {frames['total']} frames done", "good"


def _page_subtitle(run: Json) -> str:
    plate = run["plate"]
    words = [
        f"frames {plate['first_frame']}-{plate['last_frame']}",
        f"{plate['width']} x {plate['height']}",
        f"{plate['suffix'].lstrip('.').upper()} {plate['colourspace']}",
        f"model pack {run['pack']['name']}",
        run["finished"],
    ]
    return "  ·  ".join(words)


def _page_facts(run: Json) -> dict[str, Any]:
    return {name: run[name] for name in ("format", "version", "plate", "device", "timing")}
