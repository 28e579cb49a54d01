"""Sources of the same plates put together: shapes from the roto, landmarks from COCO, pictures from the plate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rotopaint_ai.errors import DocumentError, PlateError, UsageError
from rotopaint_ai.frames import summarise
from rotopaint_ai.plates import Plate, open_plate
from rotopaint_ai.plates.kinds import kind_of
from rotopaint_ai.plates.sequence import Listing
from rotopaint_ai.training.mining.sources import FrameTruth, Take, plate_of, read_source

_NUMBERED = re.compile(r"^(.*?)[._-]?(\d+)$")


@dataclass(frozen=True, slots=True)
class Row:
    """One frame to learn from."""

    character: str
    shot: str
    frame: int
    plate: Plate
    truth: FrameTruth
    split: str | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """All frames of all sources, shot by shot; names of landmarks in their sources' order; what was left out."""

    rows: tuple[Row, ...]
    landmark_names: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass
class _Pictures:
    """Plates opened once, and where each file of theirs belongs."""

    plates: dict[str, Plate] = field(default_factory=dict)
    files: dict[Path, tuple[Plate, int]] = field(default_factory=dict)
    stills: dict[Path, Plate] = field(default_factory=dict)

    def open(self, source: str) -> Plate:
        if source not in self.plates:
            plate = open_plate(source)
            self.plates[source] = plate
            if not plate.is_movie:
                for frame in plate.frames:
                    self.files.setdefault(plate.path_of(frame).resolve(), (plate, frame))
        return self.plates[source]

    def find(self, picture: Path, size: tuple[int, int] | None = None) -> tuple[Plate, int] | None:
        """The plate that holds a picture: its own file, or the same frame of a plate beside it in another format.

        Stills of many sizes that lie in one folder under numbered names are no sequence: a picture whose `size` is not
        its neighbours' is a plate of its own.
        """
        found = self._find(picture.resolve())
        if found is None or size is None or found[0].is_movie or (found[0].width, found[0].height) == size:
            return found
        path = found[0].path_of(found[1])
        own = self.stills.get(path) or still(path, found[1])
        if (own.width, own.height) != size:
            return found  # the source is mistaken: the plate knows better
        self.stills[path] = own
        return own, found[1]

    def _find(self, path: Path) -> tuple[Plate, int] | None:
        if path in self.files:
            return self.files[path]
        match = _NUMBERED.match(path.stem)
        for plate in self.plates.values() if match else ():
            frame = int(match[2]) if match else 0
            beside = not plate.is_movie and plate.path_of(plate.frames[0]).resolve().parent == path.parent
            if beside and match and plate.name == match[1] and frame in plate.frames:
                return plate, frame
        if path.is_file():
            self.open(str(path))
        return self.files.get(path)


def join(sources: Sequence[Path], plates: str | None, *, character: str | None = None) -> Joined:
    """Read sources and lay them on their plates. Raises UsageError, DocumentError, PlateError.

    Frames without a picture are left out and named in the notes.
    """
    pictures = _Pictures()
    notes: list[str] = []
    found: dict[tuple[int, int], Row] = {}
    names: dict[str, None] = {}
    takes = [take for source in sources for take in _takes(source, plates, pictures)]
    takes.sort(key=lambda take: take.plate is None)  # the plate of a roto names its shots
    for take in takes:
        names.update(dict.fromkeys(take.landmark_names))
        notes += [f"{take.source.name}: {note}" for note in take.notes]
        _lay(take, pictures, found, notes, character)
    if not found:
        said = f" ({notes[-1]})" if notes else ""
        raise UsageError(f"no frame with both roto and a picture was found{said}; check --plates and the frame numbers")
    rows = sorted(found.values(), key=lambda row: (row.character, row.shot, row.frame))
    seen = {name for row in rows for name in row.truth.landmarks}
    return Joined(tuple(_distinct(rows)), tuple(name for name in names if name in seen), tuple(notes))


def still(path: Path, frame: int) -> Plate:
    """One picture as a plate of its own, whatever numbered files lie beside it. Raises PlateError."""
    listing = Listing(path.parent, path.stem, path.suffix, 0, {frame: path})
    return Plate(listing, kind_of(path), None, None)


def _takes(source: Path, plates: str | None, pictures: _Pictures) -> list[Take]:
    try:
        return read_source(source, plates)
    except DocumentError:
        if plates is None:
            raise
        plate = pictures.open(plate_of(source, plates))  # a script that does not tell its size: the plate does
        return read_source(source, plates, size=(plate.width, plate.height))


def _lay(
    take: Take, pictures: _Pictures, found: dict[tuple[int, int], Row], notes: list[str], character: str | None
) -> None:
    without: list[str] = []
    for number, truth in take.frames.items():
        try:
            place = _place(take, number, truth, pictures)
        except PlateError as error:
            notes.append(f"{take.source.name}: {error}")
            continue
        if place is None:
            without.append(str(truth.picture.name if truth.picture else number))
            continue
        plate, frame = place
        key = (id(plate), frame)
        if key in found:
            found[key] = _merged(found[key], truth, take, notes)
        else:
            folder = _folder(plate)
            found[key] = Row(
                character or take.character or folder.parent.name or "character",
                take.shot or (plate.name if plate.is_movie else folder.name) or plate.name,
                frame,
                plate,
                truth,
                take.split,
            )
    if without:
        shown = summarise(map(int, without)) if all(text.isdigit() for text in without) else ", ".join(without[:5])
        notes.append(f"{take.source.name}: {len(without)} frames have no picture and were left out ({shown})")


def _place(take: Take, number: int, truth: FrameTruth, pictures: _Pictures) -> tuple[Plate, int] | None:
    if take.plate is None:
        return pictures.find(truth.picture, truth.size) if truth.picture else None
    plate = pictures.open(take.plate)
    return (plate, number) if number in plate.frames else None


def _folder(plate: Plate) -> Path:
    return plate.path_of(plate.frames[0]).resolve().parent


def _merged(row: Row, truth: FrameTruth, take: Take, notes: list[str]) -> Row:
    again = set(row.truth.shapes) & set(truth.shapes)
    if again:
        said = f"{take.source.name}: shapes {', '.join(sorted(again))} of {row.shot} come from here"
        if said not in notes:
            notes.append(said)
    merged = FrameTruth(
        {**row.truth.shapes, **truth.shapes},
        {**row.truth.landmarks, **truth.landmarks},
        row.truth.picture,
        row.truth.size,
        row.truth.is_cut_out,
    )
    return replace(row, truth=merged, split=row.split or take.split)


def _distinct(rows: Iterable[Row]) -> list[Row]:
    """Two plates of one character must not share a shot's name, except single pictures that lie side by side."""
    owners: dict[tuple[str, str], list[int]] = {}
    out = []
    for row in rows:
        if len(row.plate.frames) == 1 and row.truth.picture is not None:
            out.append(row)
            continue
        plates = owners.setdefault((row.character, row.shot), [])
        if id(row.plate) not in plates:
            plates.append(id(row.plate))
        at = plates.index(id(row.plate))
        out.append(row if at == 0 else replace(row, shot=f"{row.shot}_{at + 1}"))
    return out
