"""The figures at the top of the page, one tile each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from statistics import median

from rotopaint_ai.report.parts import Json


def tiles(run: Json) -> str:
    """The figures at the top of the page."""
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
