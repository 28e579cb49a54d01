"""What sources leave unsaid or say differently: which shot a plate is, and which shapes are one and the same."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from rotopaint_ai.errors import UsageError
from rotopaint_ai.training.mining.sources import FrameTruth, Take

# Folders that say what lies in them, not which shot it is.
_GENERIC: Final = re.compile(
    r"(plates?|bg|fg|scans?|src|sources?|images?|img|frames?|footage|inputs?|raw|main|renders?|undist\w*|exr|jpe?g|png|"
    r"dpx|tiff?|v\d+|\d{3,5}x\d{3,5})",
    re.IGNORECASE,
)
_Value = TypeVar("_Value")


def shot_and_character(folder: Path) -> tuple[str, str]:
    """Names of the shot and the character whose plates lie in a folder: the last two that do not just say "plates"."""
    names = [name for name in folder.parts if name != folder.anchor]
    while len(names) > 1 and _GENERIC.fullmatch(names[-1]):
        names.pop()
    return (names[-1] if names else ""), (names[-2] if len(names) > 1 else "")


def renames_of(texts: Sequence[str]) -> dict[str, str]:
    """Read `OLD=NEW` texts. Raises UsageError."""
    found: dict[str, str] = {}
    for text in texts:
        old, equals, new = (part.strip() for part in text.partition("="))
        if not equals or not old or not new:
            raise UsageError(f"--rename {text}: wanted OLD=NEW, such as L_brow=brow_left")
        found[old] = new
    return found


def renamed(takes: Sequence[Take], renames: Mapping[str, str]) -> list[Take]:
    """Takes with the names of shapes and landmarks changed as a person asked for, and shapes that only layers or nodes
    tell apart called alike.

    Raises: UsageError for a name that no source has, or that would stand twice in one frame.
    """
    known = {name for take in takes for name in (*_shapes(take), *take.landmark_names)}
    for old in renames:
        if old not in known:
            raise UsageError(f"--rename {old}: no such shape or landmark; there are {', '.join(sorted(known)[:30])}")
    told = [_changed(take, {old: new for old, new in renames.items() if _has(take, old)}) for take in takes]
    return _without_paths(told)


def _has(take: Take, name: str) -> bool:
    return name in take.landmark_names or name in _shapes(take)


def _shapes(take: Take) -> list[str]:
    return list(dict.fromkeys(name for frame in take.frames.values() for name in frame.shapes))


def _changed(take: Take, names: Mapping[str, str]) -> Take:
    if not names:
        return take

    def moved(content: Mapping[str, _Value]) -> dict[str, _Value]:
        found = {names.get(name, name): value for name, value in content.items()}
        if len(found) < len(content):
            twice = next(name for name, n in Counter(names.get(each, each) for each in content).items() if n > 1)
            raise UsageError(f"--rename: {take.source.name} would have '{twice}' twice in one frame; name another")
        return found

    frames = {
        number: replace(frame, shapes=moved(frame.shapes), landmarks=moved(frame.landmarks), words=moved(frame.words))
        for number, frame in take.frames.items()
    }
    return replace(take, frames=frames, landmark_names=tuple(names.get(name, name) for name in take.landmark_names))


def _without_paths(takes: Sequence[Take]) -> list[Take]:
    """One artist's `face/brow_left` and another's `brow_left` are one shape: the name that came first stands.

    Only where the last part tells the shapes of a source apart, no other source uses the longer name, and none of the
    same plate uses the shorter one.
    """
    first: dict[str, str] = {}
    users: dict[str, int] = Counter(name for take in takes for name in _shapes(take))
    out = []
    for take in takes:
        own = _shapes(take)
        last = Counter(map(_last, own))
        names: dict[str, str] = {}
        for name in own:
            known = first.setdefault(_last(name), name) if last[_last(name)] == 1 else name
            beside = (_shapes(other) for other in takes if other is not take and other.plate == take.plate)
            if known != name and users[name] == 1 and not any(known in shapes for shapes in (own, *beside)):
                names[name] = known
        said = tuple(f"{old} is taken for {new}, as it is called elsewhere" for old, new in names.items())
        out.append(replace(_changed(take, names), notes=(*take.notes, *said)))
    return out


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def scaled(truth: FrameTruth, factors: tuple[float, float]) -> FrameTruth:
    """What was drawn on a plate of another size, on one that is `factors` (x, y) times as large."""
    x, y = factors
    mean = (x + y) / 2
    shapes = {
        name: replace(
            shape,
            points=shape.points * [x, y, x, y, x, y],
            width_px=None if shape.width_px is None else shape.width_px * mean,
            feather_px=shape.feather_px * mean,
        )
        for name, shape in truth.shapes.items()
    }
    marks = {name: (at_x * x, at_y * y, seen) for name, (at_x, at_y, seen) in truth.landmarks.items()}
    return replace(truth, shapes=shapes, landmarks=marks)


def numbered(stills: Sequence[tuple[str, str, int, str]]) -> list[int]:
    """Frame numbers of single pictures, given as (character, shot, number in the name, file name).

    Pictures of one shot keep the numbers in their names; where two have the same, or none, all of that shot are counted
    in the order of their names.
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
