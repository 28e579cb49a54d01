"""Tables on the page: times, frames that are not ordinary ones, exported files."""

from __future__ import annotations

from html import escape

from rotopaint_ai.frames import summarise
from rotopaint_ai.report.parts import Json, section, table

STAGE_COLOURS = ("#6aa7ff", "#9b8cff", "#43c7b4", "#7ed37f", "#ffc24d", "#ff8a5c", "#e88bff", "#b7c4d9", "#59d0f2")


def timing(timing: Json) -> str:
    """Where the time went."""
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
    drawn = table(("Stage", "mean ms", "median ms", "share of the work"), rows, numbers=(1, 2, 3))
    lead = f"{timing['ms_per_frame']:.1f} ms per frame by the clock on {timing['threads']} threads"
    if timing["work_ratio"] is not None:
        lead += f"; all stages together are {timing['work_ratio']:.2f} times reading and writing the plate alone"
    return section("Timing", f"{lead}.", f'<div class="bars">{bars}</div>{drawn}')


def frames(frames: Json) -> str:
    """Frames that failed, are missing, lost the face, or are held."""
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
    return section("Frames", "Everything that is not an ordinary frame.", table(("", "Frames", "What it means"), rows))


def exports(run: Json) -> str:
    """Every file that was written, and what reading it back gave."""
    rows = [
        (
            escape(item["format"]),
            escape(item["path"] or item["error"]),
            _checked(item),
            f"{item.get('matte_difference', 0.0):.2%}",
            str(item.get("n_keys", "")),
            escape(item.get("loses") or "nothing"),
        )
        for item in run["exports"]
    ]
    lead = "Every file was read back, drawn and compared with the shapes before it was called written."
    head = ("Format", "File", "Largest distance", "Largest matte difference", "Keys", "What it loses")
    return section("Exports", lead, table(head, rows, numbers=(3, 4), whole=(0, 1, 2)))


def _checked(item: Json) -> str:
    if item.get("error"):
        return '<span class="pill bad">not written</span>'
    distance = item.get("max_distance_px")
    if distance is None:
        return '<span class="pill">not measured</span>'
    return f'<span class="pill good">{distance:.4f} px</span>'
