"""The figures at the top of the page, one tile each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from rotopaint_ai.report.page_elements import Json

_UNIT = Markup("{} <em>{}</em>")


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure in large type, its name above and a few words below."""

    name: str
    value: Markup | str
    words: str


def tiles(run: Json) -> list[Tile]:
    """The figures at the top of the page."""
    frames, timing = run["frames"], run["timing"]
    return [
        Tile("Frames done", _UNIT.format(frames["done"], f"of {frames['total']}"), _frames_words(frames)),
        *_error_tile(run),
        *_seam_tile(run["seam"]),
        Tile(
            "Time",
            _UNIT.format(f"{timing['ms_per_frame']:.0f}", "ms/frame"),
            f"{_duration_text(timing['wall_s'])} in all",
        ),
        Tile("Device", run["device"]["used"].upper(), run["device"]["note"]),
    ]


def _frames_words(frames: Json) -> str:
    words = [f"{len(frames[kind])} {kind}" for kind in ("failed", "missing", "lost") if frames[kind]]
    held = sum(last - first + 1 for first, last in frames["held"])
    return ", ".join([*words, *([f"{held} in holds"] if held else [])]) or "none missing, none failed"


def errors_of_frames(run: Json) -> tuple[str, dict[int, float]]:
    """The kind of shape that rates a run's frames, and the largest expected error of that kind at each, pixels.

    Seams where there are any, else all shapes. Frames where none is known are left out.
    """
    names = run["errors"]["shapes"]
    seams = [column for column, name in enumerate(names) if run["shapes"][name]["role"] == "seam"]
    rows = {int(frame): row for frame, row in run["errors"]["by_frame"].items() if row}
    known = {f: [row[i] for i in seams or range(len(names)) if row[i] is not None] for f, row in rows.items()}
    return "seam" if seams else "shape", {frame: max(errors) for frame, errors in known.items() if errors}


def _error_tile(run: Json) -> list[Tile]:
    kind, errors = errors_of_frames(run)
    worst = list(errors.values())
    if not worst:
        return []
    words = f"worst {kind} of a frame; 95 % of frames below {_percentile(worst, 0.95):.2f} px"
    return [Tile("Expected error", _UNIT.format(f"{median(worst):.2f}", "px"), words)]


def _seam_tile(seam: Json) -> list[Tile]:
    pairs = [pair for pair in seam["by_frame"].values() if pair[0] is not None]
    if not pairs:
        return []
    before = sum(pair[0] for pair in pairs) / len(pairs)
    cleaned = [pair[1] for pair in pairs if pair[1] is not None]
    if not cleaned:
        return [Tile("Seam visibility", f"{before:.2f}", "clean plates were not requested")]
    after = sum(cleaned) / len(cleaned)
    less = f"{1 - after / before:.0%} less visible" if before > 0 else "nothing to remove"
    value = _UNIT.format(f"{before:.2f}", "\u2192") + f" {after:.2f}"
    return [Tile("Seam visibility", value, f"{less}, mean of {len(pairs)} frames")]


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def _duration_text(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 90 else f"{seconds / 60:.1f} min"
