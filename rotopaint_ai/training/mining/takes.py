"""Takes: the labelled frames of sources, with facts that sources leave out and names that differ between them.

A take contains frames of one plate with the shapes and landmarks that somebody keyed there, in plate space.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import document
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.revectorise.raw_curves import Array
from rotopaint_ai.sheet import Role

_PLACEHOLDER: Final = re.compile(r"\{\w*\}")
SHORTEST_PX = 2.0  # a shorter curve is a dot, no shape
# Folder names that describe the content, not the shot.
_GENERIC: Final = re.compile(
    r"(plates?|bg|fg|scans?|src|sources?|images?|img|frames?|footage|inputs?|raw|main|renders?|undist\w*|exr|jpe?g|png|"
    r"dpx|tiff?|v\d+|\d{3,5}x\d{3,5})",
    re.IGNORECASE,
)
_Value = TypeVar("_Value")


class NoLabelsError(UsageError):
    """A valid source without labels; among several sources it may be left out."""


class Provenance(IntEnum):
    """Where a label comes from. Of two sources the higher value wins.

    ACCEPTED: placed by a model, accepted by a person. FINAL: finished roto. CORRECTED: corrected by hand.
    """

    ACCEPTED = 0
    FINAL = 1
    CORRECTED = 2


@dataclass(frozen=True, slots=True)
class RawShape:
    """A shape at one frame as the artist drew it: control points (P, 6) in plate space.

    `is_on_sheet`: its control points are those of the pack that predicted it.
    """

    points: Array
    closed: bool
    role: Role = "matte"
    width_px: float | None = None
    feather_px: float = 0.0
    provenance: Provenance = Provenance.FINAL
    is_on_sheet: bool = False


@dataclass(frozen=True, slots=True)
class FrameTruth:
    """The labels of one frame.

    `landmarks`: x, y, and 1 visible or 0 hidden. `provenances`: of landmarks that are not finished roto. `picture`: the
    frame's own file, if any. `size`: width and height according to the source. `is_cut_out`: the picture has an alpha
    channel around the face and needs a background. `is_test`: a test frame of the source. `context`: interpolated
    shapes; they locate the face but are no ground truth.
    """

    shapes: Mapping[str, RawShape] = field(default_factory=dict)
    landmarks: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    picture: Path | None = None
    size: tuple[int, int] | None = None
    is_cut_out: bool = False
    is_test: bool = False
    provenances: Mapping[str, Provenance] = field(default_factory=dict)
    context: Mapping[str, RawShape] = field(default_factory=dict)

    def provenance_of(self, landmark: str) -> Provenance:
        """The provenance of a landmark."""
        return self.provenances.get(landmark, Provenance.FINAL)


@dataclass(frozen=True, slots=True)
class Take:
    """Frames of one plate from one source.

    `plate`: argument of `open_plate`; None if each frame names its own picture. `shot`, `character`: if the source
    names them. `split`: if the source assigns one. `size`: width and height of the plate it was drawn on, if the source
    states one for all frames. `colourspace`: of the plate, if a person may have chosen it. `notes`: what was left out.
    `counts_from_first`: frame 0 is the plate's first frame.
    """

    source: Path
    frames: Mapping[int, FrameTruth]
    plate: str | None = None
    size: tuple[int, int] | None = None
    colourspace: str | None = None
    shot: str | None = None
    character: str | None = None
    split: str | None = None
    landmark_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    counts_from_first: bool = False


def plate_of(path: Path, plates: str | None) -> str:
    """The plate of a source: `{dir}` is its folder, `{stem}` its name without suffixes."""
    if plates is None:
        raise UsageError(f"{path.name}: its plates are unknown; give --plates, e.g. '{{dir}}/plate.####.exr'")
    unknown = [name for name in _PLACEHOLDER.findall(plates) if name not in ("{dir}", "{stem}")]
    if unknown and not Path(plates).parent.is_dir():
        raise UsageError(f"--plates {plates}: {unknown[0]} is not known; wanted {{dir}} or {{stem}}")
    stem = path.name[: -len(document.SUFFIX)] if path.name.lower().endswith(document.SUFFIX) else path.stem
    return plates.replace("{dir}", str(path.parent)).replace("{stem}", stem)


def is_curve(points: Array, closed: bool) -> bool:
    """Whether control points form a curve rather than a dot."""
    return len(points) >= 2 and bool(np.isfinite(points).all()) and bezier.length(points, closed) > SHORTEST_PX


def shot_and_character(folder: Path) -> tuple[str, str]:
    """Shot and character of a plate's folder: the last two folder names that are not generic, such as "plates"."""
    names = [name for name in folder.parts if name != folder.anchor]
    while len(names) > 1 and _GENERIC.fullmatch(names[-1]):
        names.pop()
    return (names[-1] if names else ""), (names[-2] if len(names) > 1 else "")


def parse_renames(texts: Sequence[str]) -> dict[str, str]:
    """Parse `OLD=NEW` texts. Raises UsageError."""
    found: dict[str, str] = {}
    for text in texts:
        old, equals, new = (part.strip() for part in text.partition("="))
        if not equals or not old or not new:
            raise UsageError(f"--rename {text}: wanted OLD=NEW, such as L_brow=brow_left")
        found[old] = new
    return found


def rename_takes(takes: Sequence[Take], renames: Mapping[str, str]) -> list[Take]:
    """Takes with renamed shapes and landmarks; shapes that differ only by their layer or node get one name.

    Raises: UsageError for a name that no source has, or that would occur twice in one frame.
    """
    names = [{*_shape_names(take), *take.landmark_names} for take in takes]
    known = set().union(*names)
    for old in renames:
        if old not in known:
            raise UsageError(f"--rename {old}: no such shape or landmark; there are {', '.join(sorted(known)[:30])}")
    own = ({old: new for old, new in renames.items() if old in known} for known in names)
    return _drop_paths([_rename_take(take, renamed) for take, renamed in zip(takes, own)])


def _shape_names(take: Take) -> list[str]:
    return list(dict.fromkeys(name for frame in take.frames.values() for name in frame.shapes))


def _rename_take(take: Take, names: Mapping[str, str]) -> Take:
    if not names:
        return take

    def renamed(content: Mapping[str, _Value]) -> dict[str, _Value]:
        found = {names.get(name, name): value for name, value in content.items()}
        if len(found) < len(content):
            twice = next(name for name, n in Counter(names.get(each, each) for each in content).items() if n > 1)
            raise UsageError(
                f"--rename: {take.source.name} would have '{twice}' twice in one frame; choose another name"
            )
        return found

    frames = {
        number: replace(
            frame,
            shapes=renamed(frame.shapes),
            landmarks=renamed(frame.landmarks),
            provenances=renamed(frame.provenances),
            context=renamed(frame.context),
        )
        for number, frame in take.frames.items()
    }
    return replace(take, frames=frames, landmark_names=tuple(names.get(name, name) for name in take.landmark_names))


def _drop_paths(takes: Sequence[Take]) -> list[Take]:
    """Give `face/brow_left` of one artist and `brow_left` of another the same name, the first one used.

    This needs a last part that is unique within its source, no other source with the longer name, and no source of the
    same plate with the shorter one.
    """
    first: dict[str, str] = {}
    users: dict[str, int] = Counter(name for take in takes for name in _shape_names(take))
    out = []
    for take in takes:
        own = _shape_names(take)
        last = Counter(map(_last_part, own))
        names: dict[str, str] = {}
        for name in own:
            known = first.setdefault(_last_part(name), name) if last[_last_part(name)] == 1 else name
            beside = (_shape_names(other) for other in takes if other is not take and other.plate == take.plate)
            if known != name and users[name] == 1 and not any(known in shapes for shapes in (own, *beside)):
                names[name] = known
        notes = tuple(f"{old} is renamed to {new}, its name in other sources" for old, new in names.items())
        out.append(replace(_rename_take(take, names), notes=(*take.notes, *notes)))
    return out


def _last_part(name: str) -> str:
    return name.rpartition("/")[2]


def scale_truth(truth: FrameTruth, factors: tuple[float, float]) -> FrameTruth:
    """Labels scaled by `factors` (x, y) to a plate of another size."""
    x, y = factors
    mean = (x + y) / 2

    def scaled(shape: RawShape) -> RawShape:
        return replace(
            shape,
            points=shape.points * [x, y, x, y, x, y],
            width_px=None if shape.width_px is None else shape.width_px * mean,
            feather_px=shape.feather_px * mean,
        )

    shapes, context = ({name: scaled(each) for name, each in own.items()} for own in (truth.shapes, truth.context))
    marks = {name: (at_x * x, at_y * y, seen) for name, (at_x, at_y, seen) in truth.landmarks.items()}
    return replace(truth, shapes=shapes, landmarks=marks, context=context)


def number_stills(stills: Sequence[tuple[str, str, int, str]]) -> list[int]:
    """Frame numbers of single pictures, given as (character, shot, number in the file name, file name).

    Pictures of one shot keep the numbers of their names. If two numbers are equal, all pictures of the shot are
    numbered in order of their names.
    """
    shots: dict[tuple[str, str], list[int]] = defaultdict(list)
    for at, (character, shot, _, _) in enumerate(stills):
        shots[(character, shot)].append(at)
    numbers = [number for _, _, number, _ in stills]
    for rows in shots.values():
        if len({numbers[at] for at in rows}) < len(rows):
            for count, at in enumerate(sorted(rows, key=lambda at: stills[at][3]), start=1):
                numbers[at] = count
    return numbers
