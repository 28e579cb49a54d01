"""An exposure sheet of face kits: which printed piece a frame wears. No Qt.

A CSV with a heading: one column of frame numbers (called frame, else the first), each other column a part of the face.

    frame,brow,mouth
    1001,B12,M03
    1003,,M07

An empty cell continues the piece above it, as on a paper exposure sheet.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from rotopaint_ai.errors import UsageError

Exposures = Mapping[str, Mapping[int, str]]  # by part of the face: the frames where a piece is put on


def read_xsheet(path: Path) -> Exposures:
    """The exposure sheet in a file. Raises: UsageError, one line, where the file is none."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = [row for row in csv.reader(stream) if any(cell.strip() for cell in row)]
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError(f"{path.name}: cannot be read as CSV ({error})") from error
    if len(rows) < 2 or len(rows[0]) < 2:
        raise UsageError(f"{path.name}: wanted a heading such as frame,brow,mouth and a row for each exposure")
    parts = [cell.strip() for cell in rows[0]]
    at = next((column for column, name in enumerate(parts) if name.lower() == "frame"), 0)
    found: dict[str, dict[int, str]] = {name: {} for column, name in enumerate(parts) if column != at and name}
    for number, row in enumerate(rows[1:], start=2):
        frame = _frame_of(path, number, row, at)
        for name, cell in zip(parts, row):
            if name in found and cell.strip():
                found[name][frame] = cell.strip()
    return {name: dict(sorted(pieces.items())) for name, pieces in found.items() if pieces}


def pieces_at(sheet: Exposures, frame: int) -> dict[str, str]:
    """The pieces that a frame wears, by part of the face; a part before its first row has none."""
    worn = {}
    for part, pieces in sheet.items():
        last = max((each for each in pieces if each <= frame), default=None)
        if last is not None:
            worn[part] = pieces[last]
    return worn


def _frame_of(path: Path, number: int, row: Sequence[str], at: int) -> int:
    cell = row[at].strip() if at < len(row) else ""
    try:
        return int(cell)
    except ValueError:
        raise UsageError(f"{path.name}: row {number} has '{cell}' for its frame; wanted a number") from None
