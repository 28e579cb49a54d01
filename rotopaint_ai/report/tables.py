"""Rows of the page's tables: times, frames that are not ordinary ones, exported files."""

from __future__ import annotations

from typing import Any

from rotopaint_ai.frames import summarise
from rotopaint_ai.report.parts import Json

STAGE_COLOURS = ("#6aa7ff", "#9b8cff", "#43c7b4", "#7ed37f", "#ffc24d", "#ff8a5c", "#e88bff", "#b7c4d9", "#59d0f2")


def timing(timing: Json) -> dict[str, Any]:
    """Where the time went: a line, and a row for every stage."""
    stages = timing["stages"]
    total = sum(stage["mean_ms"] for stage in stages.values()) or 1.0
    rows = [
        {
            "name": name,
            "colour": colour,
            "percent": 100 * stage["mean_ms"] / total,
            "mean": f"{stage['mean_ms']:.1f}",
            "median": f"{stage['median_ms']:.1f}",
            "share": f"{stage['mean_ms'] / total:.0%}",
        }
        for (name, stage), colour in zip(stages.items(), STAGE_COLOURS * 2)
    ]
    lead = f"{timing['ms_per_frame']:.1f} ms per frame by the clock on {timing['threads']} threads"
    if timing["work_ratio"] is not None:
        lead += f"; all stages together are {timing['work_ratio']:.2f} times reading and writing the plate alone"
    return {"lead": f"{lead}.", "stages": rows}


def frames(frames: Json) -> list[dict[str, str]]:
    """Frames that failed, are missing, lost the face, or are held."""
    rows = [_row("failed", "bad", str(frame), message) for frame, message in frames["failed"].items()]
    if frames["missing"]:
        text = "not on disk; render or copy them, then run again with --resume"
        rows.append(_row("missing", "bad", summarise(frames["missing"]), text))
    if frames["lost"]:
        text = "no face found; mattes are empty there and the clean plate is the plate"
        rows.append(_row("lost", "some", summarise(frames["lost"]), text))
    if frames["held"]:
        spans = ", ".join(f"{first}-{last}" for first, last in frames["held"])
        rows.append(_row("held", "", spans, "the same exposure again: identical points in every frame of a hold"))
    return rows


def _row(kind: str, tone: str, frames: str, text: str) -> dict[str, str]:
    return {"kind": kind, "tone": tone, "frames": frames, "text": text}


def exports(run: Json) -> list[dict[str, str]]:
    """Every file that was asked for, and what reading it back gave."""
    return [
        {
            "format": item["format"],
            "file": item["path"] or item.get("error", ""),
            "checked": _checked(item),
            "tone": "bad" if item.get("error") else "good" if item.get("max_distance_px") is not None else "",
            "matte": f"{item.get('matte_difference', 0.0):.2%}",
            "keys": str(item.get("n_keys", "")),
            "loses": item.get("loses") or "nothing",
        }
        for item in run["exports"]
    ]


def _checked(item: Json) -> str:
    if item.get("error"):
        return "not written"
    distance = item.get("max_distance_px")
    return "not measured" if distance is None else f"{distance:.4f} px"
