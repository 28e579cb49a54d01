"""The page that a supervisor opens after a run: `report/index.html`, made from `run.json` alone.

No script, style, font or picture comes from elsewhere; pictures lie beside the page in `report/img`.
"""

from __future__ import annotations

from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from rotopaint_ai.files import write_text
from rotopaint_ai.report import charts, pictures, tables, tiles
from rotopaint_ai.report.curves import script_safe
from rotopaint_ai.report.parts import Json


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
        "tiles": tiles.tiles(run),
        "compare": pictures.compare(run),
        "sheet": pictures.sheet(run),
        "errors": charts.errors(run),
        "seam": charts.seam(run),
        "opinion": charts.opinion(run),
        "timing": tables.timing(run["timing"]),
        "frames": tables.frames(run["frames"]),
        "exports": tables.exports(run),
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
