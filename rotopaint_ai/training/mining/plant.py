"""Label errors planted into good roto, to measure which of them `mine` finds.

Each frame gets at most one error, and its neighbours none, so that a finding can be laid to its cause. Everything is
drawn from a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from rotopaint_ai.shapes import bezier
from rotopaint_ai.training.mining import symmetry
from rotopaint_ai.training.mining.join import Joined, Row
from rotopaint_ai.training.mining.outline import Array
from rotopaint_ai.training.mining.sources import FrameTruth, RawShape

Shapes = Mapping[str, RawShape]

SINGLE: Final = (
    "swapped shapes",
    "swapped face",
    "jumped point",
    "jumped shape",
    "jumped landmark",
    "twisted",
    "reversed",
)
STRETCHES: Final = ("shifted shot", "shifted shape", "shifted stretch", "held stretch")
# Which kind of finding each planted error ought to be called.
CALLED: Final = {
    "swapped shapes": "swapped",
    "swapped face": "swapped",
    "jumped point": "jumped",
    "jumped shape": "jumped",
    "jumped landmark": "jumped",
    "twisted": "twisted",
    "reversed": "twisted",
    "shifted shot": "shifted",
    "shifted shape": "shifted",
    "shifted stretch": "shifted",
    "held stretch": "held",
}
_APART = 3  # frames between planted errors
_POINT_LEAP = (0.03, 0.1)  # of the face's longest side
_SHAPE_LEAP = (0.04, 0.12)
_STRETCH = (5, 9)  # frames


@dataclass(frozen=True, slots=True)
class PlantedError:
    """One error: what was done, in which frames of which shot, to which shapes or landmarks (none: all)."""

    kind: str
    character: str
    shot: str
    frames: tuple[int, ...]
    about: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Planted:
    """Frames with errors in them, and the list of errors."""

    joined: Joined
    errors: tuple[PlantedError, ...]


def plant_single(joined: Joined, seed: int, *, per_shot: int = 7, kinds: Sequence[str] = SINGLE) -> Planted:
    """Errors of single frames, the kinds in turn, at frames drawn from each shot."""
    rng = np.random.default_rng(seed)
    rows, errors, turn = list(joined.rows), [], int(rng.integers(len(kinds)))
    for members in _shots(rows):
        for at in _drawn(len(members), per_shot, rng):
            kind, turn = kinds[turn % len(kinds)], turn + 1
            row = members[at]
            changed, about = _HANDS[kind](rows[row].truth, rng)
            if about is None:
                continue
            rows[row] = replace(rows[row], truth=changed)
            errors.append(PlantedError(kind, rows[row].character, rows[row].shot, (rows[row].frame,), about))
    return Planted(replace(joined, rows=tuple(rows)), tuple(errors))


def plant_stretches(joined: Joined, seed: int, *, kinds: Sequence[str] = STRETCHES) -> Planted:
    """One error that lasts, of each kind in turn, in each shot but the last, which stays good."""
    rng = np.random.default_rng(seed)
    rows, errors = list(joined.rows), []
    order = rng.permutation(len(kinds))
    shots = _shots(rows)
    for number, members in enumerate(shots[: max(1, len(shots) - 1)] if len(shots) > 1 else shots):
        kind = kinds[order[number % len(kinds)]]
        errors.append(_stretched(kind, rows, members, rng))
    return Planted(replace(joined, rows=tuple(rows)), tuple(errors))


def _shots(rows: Sequence[Row]) -> list[list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for at, row in enumerate(rows):
        found.setdefault((row.character, row.shot), []).append(at)
    return [sorted(members, key=lambda at: rows[at].frame) for members in found.values()]


def _drawn(n: int, count: int, rng: np.random.Generator) -> list[int]:
    """At most `count` places out of n, `_APART` from each other."""
    chosen: list[int] = []
    for at in rng.permutation(n).tolist():
        if len(chosen) < count and all(abs(at - other) >= _APART for other in chosen):
            chosen.append(at)
    return sorted(chosen)


# --- single frames ----------------------------------------------------------------------------------------------------

_Hand = Callable[[FrameTruth, np.random.Generator], tuple[FrameTruth, "tuple[str, ...] | None"]]


def _face_side(truth: FrameTruth) -> float:
    clouds = [shape.points[:, :2] for shape in truth.shapes.values()]
    clouds += [np.array([mark[:2] for mark in truth.landmarks.values()])] if truth.landmarks else []
    return float(np.ptp(np.concatenate(clouds), axis=0).max())


def _swap_shapes(truth: FrameTruth, rng: np.random.Generator) -> tuple[FrameTruth, tuple[str, ...] | None]:
    pairs = symmetry.name_pairs(list(truth.shapes))
    if not pairs:
        return truth, None
    one, other = pairs[int(rng.integers(len(pairs)))]
    shapes = {**truth.shapes, one: truth.shapes[other], other: truth.shapes[one]}
    return replace(truth, shapes=shapes), (one, other)


def _swap_face(truth: FrameTruth, rng: np.random.Generator) -> tuple[FrameTruth, tuple[str, ...] | None]:
    shapes, landmarks = dict(truth.shapes), dict(truth.landmarks)
    pairs = symmetry.name_pairs(list(shapes)), symmetry.name_pairs(list(landmarks))
    for one, other in pairs[0]:
        shapes[one], shapes[other] = truth.shapes[other], truth.shapes[one]
    for one, other in pairs[1]:
        landmarks[one], landmarks[other] = truth.landmarks[other], truth.landmarks[one]
    return replace(truth, shapes=shapes, landmarks=landmarks), () if pairs[0] or pairs[1] else None


def _leap(truth: FrameTruth, span: tuple[float, float], rng: np.random.Generator) -> Array:
    size, angle = rng.uniform(*span) * _face_side(truth), rng.uniform(0, 2 * np.pi)
    return np.array([np.cos(angle), np.sin(angle)]) * size


def _changed(truth: FrameTruth, name: str, points: Array) -> FrameTruth:
    return replace(truth, shapes={**truth.shapes, name: replace(truth.shapes[name], points=points)})


def _any(names: Sequence[str], rng: np.random.Generator) -> str | None:
    return str(names[int(rng.integers(len(names)))]) if names else None


def _jump_point(truth: FrameTruth, rng: np.random.Generator) -> tuple[FrameTruth, tuple[str, ...] | None]:
    name = _any(list(truth.shapes), rng)
    if name is None:
        return truth, None
    points = truth.shapes[name].points.copy()
    points[int(rng.integers(len(points))), :2] += _leap(truth, _POINT_LEAP, rng)
    return _changed(truth, name, points), (name,)


def _jump_shape(truth: FrameTruth, rng: np.random.Generator) -> tuple[FrameTruth, tuple[str, ...] | None]:
    name = _any(list(truth.shapes), rng)
    if name is None:
        return truth, None
    points = truth.shapes[name].points.copy()
    points[:, :2] += _leap(truth, _SHAPE_LEAP, rng)
    return _changed(truth, name, points), (name,)


def _jump_landmark(truth: FrameTruth, rng: np.random.Generator) -> tuple[FrameTruth, tuple[str, ...] | None]:
    name = _any(list(truth.landmarks), rng)
    if name is None:
        return truth, None
    x, y, seen = truth.landmarks[name]
    dx, dy = _leap(truth, _POINT_LEAP, rng)
    return replace(truth, landmarks={**truth.landmarks, name: (x + dx, y + dy, seen)}), (name,)


def _twist(truth: FrameTruth, rng: np.random.Generator) -> tuple[FrameTruth, tuple[str, ...] | None]:
    name = _any([name for name, shape in truth.shapes.items() if shape.closed and len(shape.points) > 2], rng)
    if name is None:
        return truth, None
    points = truth.shapes[name].points
    return _changed(truth, name, np.roll(points, int(rng.integers(1, len(points))), axis=0)), (name,)


def _reverse(truth: FrameTruth, rng: np.random.Generator) -> tuple[FrameTruth, tuple[str, ...] | None]:
    name = _any(list(truth.shapes), rng)
    if name is None:
        return truth, None
    shape = truth.shapes[name]
    return _changed(truth, name, bezier.reverse(shape.points, shape.closed)), (name,)


_HANDS: Final[Mapping[str, _Hand]] = {
    "swapped shapes": _swap_shapes,
    "swapped face": _swap_face,
    "jumped point": _jump_point,
    "jumped shape": _jump_shape,
    "jumped landmark": _jump_landmark,
    "twisted": _twist,
    "reversed": _reverse,
}


# --- stretches --------------------------------------------------------------------------------------------------------


def _stretched(kind: str, rows: list[Row], members: Sequence[int], rng: np.random.Generator) -> PlantedError:
    """Change some or all frames of a shot in place and say which."""
    whole = kind in ("shifted shot", "shifted shape")
    length = len(members) if whole else int(rng.integers(*_STRETCH))
    first = 0 if whole else int(rng.integers(1, max(2, len(members) - length - 1)))
    chosen = range(first, min(first + length, len(members)))
    old = [rows[row].truth for row in members]
    step = int(rng.choice((-1, 1)))
    name = _any(sorted(old[0].shapes), rng) if kind == "shifted shape" else None
    for at in chosen:
        source = first if kind == "held stretch" else min(max(at - step, 0), len(members) - 1)
        rows[members[at]] = replace(rows[members[at]], truth=_from(old[at], old[source], name))
    row = rows[members[0]]
    frames = tuple(rows[members[at]].frame for at in chosen)
    return PlantedError(kind, row.character, row.shot, frames, () if name is None else (name,))


def _from(own: FrameTruth, other: FrameTruth, name: str | None) -> FrameTruth:
    """A frame with the roto of another, or one shape of it; landmarks stay where the frame is, as they are drawn apart
    from the roto."""
    if name is None:
        return replace(own, shapes=other.shapes)
    return replace(own, shapes={**own.shapes, name: other.shapes[name]} if name in other.shapes else own.shapes)
