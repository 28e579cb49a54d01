"""The tables of the page: times, frames with remarks, exported files. To add a column, add a row to a tuple here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rotopaint_ai.frames import summarise
from rotopaint_ai.report.page_elements import Json

STAGE_COLOURS = ("#6aa7ff", "#9b8cff", "#43c7b4", "#7ed37f", "#ffc24d", "#ff8a5c", "#e88bff", "#b7c4d9", "#59d0f2")


@dataclass(frozen=True, slots=True)
class Cell:
    """The content of a cell: plain text, text on a pill of a tone, or text after a dot of a colour."""

    text: str
    tone: str | None = None
    colour: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head, a function for the cell of a row, and the style: `n` numbers at the right, `w` no wrap."""

    head: str
    cell: Callable[[Json], Cell | str]
    kind: Literal["", "n", "w"] = ""


STAGES = (
    Column("Stage", lambda stage: Cell(stage["name"], colour=stage["colour"])),
    Column("mean ms", lambda stage: f"{stage['mean_ms']:.1f}", "n"),
    Column("median ms", lambda stage: f"{stage['median_ms']:.1f}", "n"),
    Column("share of the work", lambda stage: f"{stage['share']:.0%}", "n"),
)
FRAMES = (
    Column("", lambda row: Cell(row["kind"], tone=row["tone"])),
    Column("Frames", lambda row: str(row["frames"])),
    Column("What it means", lambda row: str(row["text"])),
)
EXPORTS = (
    Column("Format", lambda item: str(item["format"]), "w"),
    Column("File", lambda item: str(item["path"] or item.get("error", "")), "w"),
    Column("Largest distance", lambda item: Cell(*_describe_read_back(item)), "w"),
    Column("Largest matte difference", lambda item: f"{item.get('matte_difference', 0.0):.2%}", "n"),
    Column("Keys", lambda item: str(item.get("n_keys", "")), "n"),
    Column("What it loses", lambda item: str(item.get("loses") or "nothing")),
)


@dataclass(frozen=True, slots=True)
class Table:
    """Columns, and rows with a cell for each column."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]

    @classmethod
    def of_rows(cls, columns: Sequence[Column], rows: Sequence[Json]) -> Table:
        """The table of some rows."""
        cells = [[column.cell(row) for column in columns] for row in rows]
        return cls(columns, [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in cells])


def timing_table(timing: Json) -> dict[str, Any]:
    """The time of each stage: a summary line, the stages as parts of a bar, and a table."""
    total = sum(stage["mean_ms"] for stage in timing["stages"].values()) or 1.0
    stages = [
        {**stage, "name": name, "colour": colour, "share": stage["mean_ms"] / total}
        for (name, stage), colour in zip(timing["stages"].items(), STAGE_COLOURS * 2)
    ]
    lead = f"{timing['ms_per_frame']:.1f} ms per frame of wall time on {timing['threads']} threads"
    if timing["work_ratio"] is not None:
        lead += (
            f"; all stages together take {timing['work_ratio']:.2f} times as long as only reading and writing the plate"
        )
    return {"lead": f"{lead}.", "stages": stages, "table": Table.of_rows(STAGES, stages)}


def frames_table(frames: Json, review: Json, unseen: Json) -> Table | None:
    """Frames with remarks; None without any.

    They failed, are missing, lost the face, hardly show a third of a seam, are held, or have a review or a note."""
    rows = [_frames_row("failed", "bad", str(frame), message) for frame, message in frames["failed"].items()]
    if frames["missing"]:
        text = "not on disk; render or copy them, then run again with --resume"
        rows.append(_frames_row("missing", "bad", summarise(frames["missing"]), text))
    if frames["lost"]:
        text = "no face found; mattes are empty there and the clean plate is the plate"
        rows.append(_frames_row("lost", "some", summarise(frames["lost"]), text))
    for place, numbers in unseen_places(unseen).items():
        text = f"{place}: the seam is least visible there, so its curve may be off"
        rows.append(_frames_row("look here", "some", numbers, text))
    if frames["held"]:
        spans = ", ".join(f"{first}-{last}" for first, last in frames["held"])
        rows.append(
            _frames_row(
                "held", "", spans, "the same exposure repeated: the points are identical in all frames of a hold"
            )
        )
    rows += _review_rows(review)
    return Table.of_rows(FRAMES, rows) if rows else None


def unseen_places(unseen: Json) -> dict[str, str]:
    """The least visible thirds of seams with their frames, most frames first.

    For example `{"seam_left, upper third": "1012-1016"}`."""
    found: dict[str, list[int]] = {}
    for frame, row in unseen.items():
        for name, third in row.items():
            found.setdefault(f"{name}, {third}", []).append(int(frame))
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return {place: summarise(sorted(frames)) for place, frames in ordered}


_MARKED = {"rejected": ("bad", "rejected in review"), "needs work": ("some", "marked as needing work")}


def _review_rows(review: Json) -> list[dict[str, str]]:
    """Frames that people rejected or marked as needing work, and frames with notes: a row for each kind."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for frame, mark in review.get("marks", {}).items():
        if mark in _MARKED:
            found.setdefault((mark, *_MARKED[mark]), []).append(int(frame))
    for frame, note in review.get("notes", {}).items():
        found.setdefault(("note", "", note), []).append(int(frame))
    return [_frames_row(kind, tone, summarise(sorted(row)), text) for (kind, tone, text), row in found.items()]


def _frames_row(kind: str, tone: str, frames: str, text: str) -> dict[str, str]:
    return {"kind": kind, "tone": tone, "frames": frames, "text": text}


def exports_table(run: Json) -> Table:
    """Every exported file, and the result of reading it back."""
    return Table.of_rows(EXPORTS, run["exports"])


def _describe_read_back(item: Json) -> tuple[str, str]:
    """The result of reading a file back as text, and the tone of its cell."""
    if item.get("error"):
        return "not written", "bad"
    distance = item.get("max_distance_px")
    return ("not measured", "") if distance is None else (f"{distance:.4f} px", "good")
