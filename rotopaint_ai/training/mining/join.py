"""Merges sources of the same plates: shapes from the roto, landmarks from COCO, pictures from the plate."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from rotopaint_ai.errors import DocumentError, PlateError, UsageError
from rotopaint_ai.frames import summarise
from rotopaint_ai.plates import Plate, open_plate
from rotopaint_ai.plates.kinds import kind_of
from rotopaint_ai.plates.sequence import Listing
from rotopaint_ai.training.mining.sources import NUKE_SUFFIXES, read_source
from rotopaint_ai.training.mining.takes import (
    FrameTruth,
    NoLabelsError,
    Provenance,
    RawShape,
    Take,
    number_stills,
    plate_of,
    rename_takes,
    scale_truth,
    shot_and_character,
)
from rotopaint_ai.watch import StageProgress, ignore_progress, work_in_order

_Part = TypeVar("_Part")
_Reading = list[Take] | DocumentError | NoLabelsError
_NUMBERED_STEM = re.compile(r"^(.*?)[._-]?(\d+)$")


@dataclass(frozen=True, slots=True)
class JoinedFrame:
    """One frame of ground truth."""

    character: str
    shot: str
    frame: int
    plate: Plate
    truth: FrameTruth
    split: str | None = None


@dataclass(frozen=True, slots=True)
class JoinedTakes:
    """All frames of all sources, shot by shot; landmark names in the order of the sources; notes on what was left
    out, and the frames that lie in holes of plates."""

    rows: tuple[JoinedFrame, ...]
    landmark_names: tuple[str, ...]
    notes: tuple[str, ...]
    missing: tuple[tuple[Plate, int], ...] = ()


@dataclass
class _Pictures:
    """Plates opened once, by name and by files, and the plate and frame of each file."""

    plates: dict[str, Plate] = field(default_factory=dict)
    listed: dict[tuple[Path, ...], Plate] = field(default_factory=dict)
    files: dict[Path, tuple[Plate, int]] = field(default_factory=dict)
    stills: dict[Path, Plate] = field(default_factory=dict)

    def open(self, source: str) -> Plate:
        """Open a plate; returns the open one if another name led to the same files."""
        if source not in self.plates:
            plate = open_plate(source)
            paths = tuple(dict.fromkeys(plate.path_of(frame).resolve() for frame in plate.frames))
            self.plates[source] = self.listed.setdefault(paths, plate)
            if not plate.is_movie and self.plates[source] is plate:
                for frame in plate.frames:
                    self.files.setdefault(plate.path_of(frame).resolve(), (plate, frame))
        return self.plates[source]

    def read_as(self, source: str, colourspace: str) -> None:
        """Set a plate's colour space, as chosen by a person, before its frames are read."""
        known, plate = self.open(source), open_plate(source, colourspace=colourspace)
        if plate.colourspace != known.colourspace:
            self.plates = {name: plate if each is known else each for name, each in self.plates.items()}
            self.listed = {files: plate if each is known else each for files, each in self.listed.items()}
            self.files = {path: (plate if each is known else each, n) for path, (each, n) in self.files.items()}

    def find(self, picture: Path, size: tuple[int, int] | None = None) -> tuple[Plate, int] | None:
        """The plate and frame of a picture: its own file, or the same frame of a plate in its folder in another format.

        Stills of different sizes with numbered names in one folder are no sequence: a picture whose `size` differs from
        the sequence's becomes a plate of its own.
        """
        found = self._find(picture.resolve())
        if found is None or size is None or found[0].is_movie or (found[0].width, found[0].height) == size:
            return found
        path = found[0].path_of(found[1])
        own = self.stills.get(path) or open_still(path, found[1])
        if (own.width, own.height) != size:
            return found  # the source's size is wrong; the file decides
        self.stills[path] = own
        return own, found[1]

    def _find(self, path: Path) -> tuple[Plate, int] | None:
        if path in self.files:
            return self.files[path]
        match = _NUMBERED_STEM.match(path.stem)
        for plate in self.plates.values() if match else ():
            frame = int(match[2]) if match else 0
            beside = not plate.is_movie and plate.path_of(plate.frames[0]).resolve().parent == path.parent
            if beside and match and plate.name == match[1] and frame in plate.frames:
                return plate, frame
        if path.is_file():
            self.open(str(path))
        return self.files.get(path)


def join_sources(
    sources: Sequence[Path],
    plates: str | None,
    *,
    character: str | None = None,
    renames: Mapping[str, str] = MappingProxyType({}),
    interpolated: bool = False,
    progress: StageProgress = ignore_progress,
    workers: Executor | None = None,
) -> JoinedTakes:
    """Read sources and match them with their plates. Raises UsageError, DocumentError, PlateError.

    Frames without a picture are left out and listed in the notes. `renames`: new names of shapes and landmarks by their
    names in the sources. `interpolated`: frames between keys count as ground truth too.
    """
    pictures = _Pictures()
    notes: list[str] = []
    found: dict[tuple[int, int], JoinedFrame] = {}
    names: dict[str, None] = {}
    read = partial(_first_reading, plates=plates, interpolated=interpolated)
    readings = work_in_order(read, sources, "reading roto", progress, workers)
    takes = _all_takes(zip(sources, readings), plates, interpolated, pictures, notes)
    takes.sort(key=lambda take: take.plate is None)  # first the sources with a plate, because the plate names the shots
    takes = rename_takes(takes, renames)
    for take in takes:
        if take.plate is not None and take.colourspace is not None:
            pictures.read_as(take.plate, take.colourspace)
    missing: list[tuple[Plate, int]] = []
    for take in takes:
        names.update(dict.fromkeys(take.landmark_names))
        notes += [f"{take.source.name}: {note}" for note in take.notes]
        missing += _add_take(take, pictures, found, notes, character)
    if not found:
        reason = f" ({notes[-1]})" if notes else ""
        raise UsageError(
            f"no frame with both roto and a picture was found{reason}; check --plates and the frame numbers"
        )
    numbered = _extend_test_shots(_rename_shots(_number_stills(list(found.values()))))
    rows = sorted(numbered, key=lambda row: (row.character, row.shot, row.frame))
    seen = {name for row in rows for name in row.truth.landmarks}
    return JoinedTakes(tuple(rows), tuple(name for name in names if name in seen), tuple(notes), tuple(missing))


def open_still(path: Path, frame: int) -> Plate:
    """One picture as a separate plate, even if numbered files lie next to it. Raises PlateError."""
    listing = Listing(path.parent, path.stem, path.suffix, 0, {frame: path})
    return Plate(listing, kind_of(path), None, None)


def _all_takes(
    readings: Iterable[tuple[Path, _Reading]],
    plates: str | None,
    interpolated: bool,
    pictures: _Pictures,
    notes: list[str],
) -> list[Take]:
    """The takes of all sources. Sources without labels, such as some projects of a show, are left out."""
    takes: list[Take] = []
    nothing: list[NoLabelsError] = []
    for source, reading in readings:
        try:
            takes += _takes(source, reading, plates, interpolated, pictures)
        except NoLabelsError as error:
            nothing.append(error)
    if nothing and not takes:
        raise nothing[0]
    notes += [f"left out: {error}" for error in nothing]
    return takes


def _first_reading(source: Path, plates: str | None, interpolated: bool) -> _Reading:
    """A source read without its plates, or the error."""
    try:
        return read_source(source, plates, interpolated=interpolated)
    except (DocumentError, NoLabelsError) as error:
        return error


def _takes(source: Path, reading: _Reading, plates: str | None, interpolated: bool, pictures: _Pictures) -> list[Take]:
    if isinstance(reading, NoLabelsError) or (isinstance(reading, DocumentError) and plates is None):
        raise reading
    takes = [] if isinstance(reading, Exception) else reading
    if takes and not _gives_other_sizes(takes, pictures):
        return takes
    plate = pictures.open(plate_of(source, plates))  # a script may state no size or several; the plate's decides
    try:
        return read_source(source, plates, size=(plate.width, plate.height), interpolated=interpolated)
    except DocumentError:
        if not takes:
            raise
        return takes


def _gives_other_sizes(takes: Iterable[Take], pictures: _Pictures) -> bool:
    """Whether a Nuke script was read with another size than its plate's; scripts may state several."""
    scripts = (take for take in takes if take.plate is not None and take.source.suffix.lower() in NUKE_SUFFIXES)
    return any(
        take.size != (pictures.open(str(take.plate)).width, pictures.open(str(take.plate)).height) for take in scripts
    )


def _add_take(
    take: Take, pictures: _Pictures, found: dict[tuple[int, int], JoinedFrame], notes: list[str], character: str | None
) -> list[tuple[Plate, int]]:
    """Add a take's frames to those found; returns its frames that lie in holes of its plate."""
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
        truth = _scale_to_plate(take, truth, plate, notes)
        key = (id(plate), frame)
        if key in found:
            found[key] = _merge(found[key], truth, take, notes)
        else:
            shot, owner = shot_and_character(_folder(plate))
            if plate.is_movie:
                shot, owner = plate.name, shot
            found[key] = JoinedFrame(
                character or take.character or owner or "character",
                take.shot or shot or plate.name,
                frame,
                plate,
                truth,
                "test" if truth.is_test else take.split,
            )
    if without:
        shown = summarise(map(int, without)) if all(text.isdigit() for text in without) else ", ".join(without[:5])
        own = None if take.plate is None else pictures.open(take.plate)
        have = "" if own is None else f"; the plate has {summarise(own.frames)}"
        notes.append(f"{take.source.name}: {len(without)} frames have no picture and were left out ({shown}){have}")
        if own is not None:
            numbers = [int(text) for text in without if text.isdigit()]
            return [(own, number) for number in numbers if own.frames[0] < number < own.frames[-1]]
    return []


def _place(take: Take, number: int, truth: FrameTruth, pictures: _Pictures) -> tuple[Plate, int] | None:
    if take.plate is None:
        return pictures.find(truth.picture, truth.size) if truth.picture else None
    plate = pictures.open(take.plate)
    number += plate.frames[0] if take.counts_from_first else 0
    return (plate, number) if number in plate.frames else None


def _folder(plate: Plate) -> Path:
    """The folder of a plate, without resolving links, because their targets may have other names."""
    return Path(os.path.abspath(plate.path_of(plate.frames[0]))).parent


def _scale_to_plate(take: Take, truth: FrameTruth, plate: Plate, notes: list[str]) -> FrameTruth:
    """Labels scaled from a plate of another size.

    If the source states the picture's size and the aspect ratio differs (a rotated photograph), points stay as they
    are.
    Raises: DocumentError if roto was drawn on a plate of another aspect ratio.
    """
    size = truth.size or take.size
    if size is None or size == (plate.width, plate.height):
        return truth
    x, y = plate.width / size[0], plate.height / size[1]
    was, now = f"{size[0]} x {size[1]}", f"{plate.width} x {plate.height}"
    is_proxy = abs(x / y - 1) <= 2.0 / min(*size, plate.width, plate.height)
    if not is_proxy and truth.size is None:
        raise DocumentError(
            f"{take.source.name}: drawn on {was}, but {plate.name} is {now}, which has another aspect ratio; give the "
            "plates that it was drawn on"
        )
    handling = f"it was drawn on {was} and is scaled" if is_proxy else f"not {was}; points are used unscaled"
    if (note := f"{take.source.name}: plate '{plate.name}' is {now}, {handling}") not in notes:
        notes.append(note)
    return scale_truth(truth, (x, y)) if is_proxy else truth


def _merge(row: JoinedFrame, truth: FrameTruth, take: Take, notes: list[str]) -> JoinedFrame:
    old = row.truth
    shapes = _merge_by_provenance(
        old.shapes, truth.shapes, lambda name: (old.shapes[name].provenance, truth.shapes[name].provenance)
    )
    notes += [note for note in _conflict_notes(row, truth, shapes, take) if note not in notes]
    marks = _merge_by_provenance(
        old.landmarks, truth.landmarks, lambda name: (old.provenance_of(name), truth.provenance_of(name))
    )
    merged = replace(
        old,
        shapes={name: _add_width(shape, old.shapes.get(name)) for name, shape in shapes.items()},
        landmarks=marks,
        is_test=old.is_test or truth.is_test,
        provenances={
            name: max(each.provenance_of(name) for each in (old, truth) if name in each.landmarks) for name in marks
        },
        context={name: each for name, each in {**old.context, **truth.context}.items() if name not in shapes},
    )
    return replace(row, truth=merged, split="test" if merged.is_test else row.split or take.split)


def _conflict_notes(row: JoinedFrame, new: FrameTruth, kept: Mapping[str, RawShape], take: Take) -> list[str]:
    """A note for each frame that two sources label: whose shapes are used. Unchanged model shapes are not mentioned."""
    old = row.truth.shapes
    both = sorted(old.keys() & new.shapes.keys())
    here = [n for n in both if kept[n] is new.shapes[n] and old[n].provenance != Provenance.ACCEPTED]
    there = [n for n in both if kept[n] is old[n] and new.shapes[n].provenance != Provenance.ACCEPTED]
    texts = {"come from here": here, "come from a project where a person corrected them": there}
    return [f"{take.source.name}: shapes {', '.join(own)} of {row.shot} {text}" for text, own in texts.items() if own]


def _merge_by_provenance(
    old: Mapping[str, _Part], new: Mapping[str, _Part], provenances: Callable[[str], tuple[Provenance, Provenance]]
) -> dict[str, _Part]:
    """Merge two sources of a frame: each item from the source of higher provenance, or from the later of equals."""
    beaten = {name for name in old.keys() & new.keys() if provenances(name)[0] > provenances(name)[1]}
    return {**old, **{name: value for name, value in new.items() if name not in beaten}}


def _add_width(shape: RawShape, other: RawShape | None) -> RawShape:
    """A shape with another source's width, if it has no width."""
    return shape if other is None or shape.width_px is not None else replace(shape, width_px=other.width_px)


def _extend_test_shots(rows: Sequence[JoinedFrame]) -> list[JoinedFrame]:
    """If a source marks frames of a shot as test, the whole shot becomes test; single pictures keep their own split."""
    tests = {(row.character, row.shot) for row in rows if row.split == "test" and not _is_single_picture(row)}
    return [replace(row, split="test") if (row.character, row.shot) in tests else row for row in rows]


def _is_single_picture(row: JoinedFrame) -> bool:
    """Whether the frame is a single picture that its source names."""
    return len(row.plate.frames) == 1 and row.truth.picture is not None


def _number_stills(rows: list[JoinedFrame]) -> list[JoinedFrame]:
    """Number the single pictures of a shot anew if their names have no numbers or equal ones."""
    at = [place for place, row in enumerate(rows) if _is_single_picture(row)]
    stills = [rows[place] for place in at]
    paths = [row.plate.path_of(row.frame) for row in stills]
    numbers = number_stills([(row.character, row.shot, row.frame, str(path)) for row, path in zip(stills, paths)])
    for place, row, path, number in zip(at, stills, paths, numbers):
        if number != row.frame:
            rows[place] = replace(row, plate=open_still(path, number), frame=number)
    return rows


def _rename_shots(rows: Sequence[JoinedFrame]) -> list[JoinedFrame]:
    """Give plates of one character distinct shot names: their own names if these differ, else numbers.

    Single pictures of one folder may share a shot.
    """
    owners: dict[tuple[str, str], dict[int, str]] = {}
    for row in rows:
        if not _is_single_picture(row):
            owners.setdefault((row.character, row.shot), {}).setdefault(id(row.plate), row.plate.name)
    return [row if _is_single_picture(row) else _rename_shot(row, owners[(row.character, row.shot)]) for row in rows]


def _rename_shot(row: JoinedFrame, plates: Mapping[int, str]) -> JoinedFrame:
    if len(plates) == 1:
        return row
    if len(set(plates.values())) == len(plates):
        return replace(row, shot=plates[id(row.plate)])
    at = list(plates).index(id(row.plate))
    return row if at == 0 else replace(row, shot=f"{row.shot}_{at + 1}")
