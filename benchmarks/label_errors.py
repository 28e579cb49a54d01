"""Which label errors `rotopaint mine` finds: recall and precision per kind of error.

    python benchmarks/label_errors.py SOURCE... --plates '{dir}/plate.####.exr' [--seeds 3] [--details] [--json FILE]

Errors are injected into roto that is known to be good, drawn from a seed. Each frame gets at most one error, and its
neighbours none, so that each issue has one cause. An error counts as found when an issue names its shot and
frame (for errors over several frames: its shot, and one of the frames) and its shape or landmark, whatever kind the
issue has; `named` counts those with the right kind. An issue on a frame without an injected error is a false alarm,
unless the original roto has the same issue.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from rotopaint_ai.errors import RotopaintError
from rotopaint_ai.files import write_json
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.revectorise.mirror_partners import name_pairs
from rotopaint_ai.shapes.revectorise.raw_curves import Array
from rotopaint_ai.training.mining.join import JoinedFrame, JoinedTakes, join_sources
from rotopaint_ai.training.mining.label_checks import check_labels
from rotopaint_ai.training.mining.mine import mine_joined
from rotopaint_ai.training.mining.options import KINDS, TOLERANCE_PX, LabelIssue, MineOptions
from rotopaint_ai.training.mining.takes import FrameTruth, RawShape
from rotopaint_ai.training.mining.vectorise import vectorise

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
# The kind of issue that each injected error should get.
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
_APART = 3  # frames between injected errors
_POINT_LEAP = (0.03, 0.1)  # of the face's longest side
_SHAPE_LEAP = (0.04, 0.12)
_STRETCH = (5, 9)  # frames


@dataclass(frozen=True, slots=True)
class InjectedError:
    """One injected error: its kind, shot and frames, and the shapes or landmarks (none: all)."""

    kind: str
    character: str
    shot: str
    frames: tuple[int, ...]
    about: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WrongLabels:
    """Frames with injected errors, and the list of errors."""

    joined: JoinedTakes
    errors: tuple[InjectedError, ...]


def inject_single(joined: JoinedTakes, seed: int, *, per_shot: int = 7, kinds: Sequence[str] = SINGLE) -> WrongLabels:
    """Inject errors into single random frames of each shot, cycling through the kinds."""
    rng = np.random.default_rng(seed)
    rows, errors, turn = list(joined.rows), [], int(rng.integers(len(kinds)))
    for members in _shots(rows):
        for at in _spread(len(members), per_shot, rng):
            kind, turn = kinds[turn % len(kinds)], turn + 1
            row = members[at]
            changed, about = _INJECTORS[kind](rows[row].truth, rng)
            if about is None:
                continue
            rows[row] = replace(rows[row], truth=changed)
            errors.append(InjectedError(kind, rows[row].character, rows[row].shot, (rows[row].frame,), about))
    return WrongLabels(replace(joined, rows=tuple(rows)), tuple(errors))


def inject_stretches(joined: JoinedTakes, seed: int, *, kinds: Sequence[str] = STRETCHES) -> WrongLabels:
    """Inject one error over several frames into each shot except the last, cycling through the kinds."""
    rng = np.random.default_rng(seed)
    rows, errors = list(joined.rows), []
    order = rng.permutation(len(kinds))
    shots = _shots(rows)
    for number, members in enumerate(shots[: max(1, len(shots) - 1)] if len(shots) > 1 else shots):
        kind = kinds[order[number % len(kinds)]]
        errors.append(_inject_stretch(kind, rows, members, rng))
    return WrongLabels(replace(joined, rows=tuple(rows)), tuple(errors))


def _shots(rows: Sequence[JoinedFrame]) -> list[list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for at, row in enumerate(rows):
        found.setdefault((row.character, row.shot), []).append(at)
    return [sorted(members, key=lambda at: rows[at].frame) for members in found.values()]


def _spread(n: int, count: int, rng: np.random.Generator) -> list[int]:
    """At most `count` indices out of n, at least `_APART` from each other."""
    chosen: list[int] = []
    for at in rng.permutation(n).tolist():
        if len(chosen) < count and all(abs(at - other) >= _APART for other in chosen):
            chosen.append(at)
    return sorted(chosen)


# --- single frames ----------------------------------------------------------------------------------------------------

_Injector = Callable[[FrameTruth, np.random.Generator], tuple[FrameTruth, "tuple[str, ...] | None"]]


def _face_side(truth: FrameTruth) -> float:
    clouds = [shape.points[:, :2] for shape in truth.shapes.values()]
    clouds += [np.array([mark[:2] for mark in truth.landmarks.values()])] if truth.landmarks else []
    return float(np.ptp(np.concatenate(clouds), axis=0).max())


def _swap_shapes(truth: FrameTruth, rng: np.random.Generator) -> tuple[FrameTruth, tuple[str, ...] | None]:
    pairs = name_pairs(list(truth.shapes))
    if not pairs:
        return truth, None
    one, other = pairs[int(rng.integers(len(pairs)))]
    shapes = {**truth.shapes, one: truth.shapes[other], other: truth.shapes[one]}
    return replace(truth, shapes=shapes), (one, other)


def _swap_face(truth: FrameTruth, rng: np.random.Generator) -> tuple[FrameTruth, tuple[str, ...] | None]:
    shapes, landmarks = dict(truth.shapes), dict(truth.landmarks)
    pairs = name_pairs(list(shapes)), name_pairs(list(landmarks))
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


def _pick(names: Sequence[str], rng: np.random.Generator) -> str | None:
    return str(names[int(rng.integers(len(names)))]) if names else None


def _jump_point(truth: FrameTruth, rng: np.random.Generator) -> tuple[FrameTruth, tuple[str, ...] | None]:
    name = _pick(list(truth.shapes), rng)
    if name is None:
        return truth, None
    points = truth.shapes[name].points.copy()
    points[int(rng.integers(len(points))), :2] += _leap(truth, _POINT_LEAP, rng)
    return _changed(truth, name, points), (name,)


def _jump_shape(truth: FrameTruth, rng: np.random.Generator) -> tuple[FrameTruth, tuple[str, ...] | None]:
    name = _pick(list(truth.shapes), rng)
    if name is None:
        return truth, None
    points = truth.shapes[name].points.copy()
    points[:, :2] += _leap(truth, _SHAPE_LEAP, rng)
    return _changed(truth, name, points), (name,)


def _jump_landmark(truth: FrameTruth, rng: np.random.Generator) -> tuple[FrameTruth, tuple[str, ...] | None]:
    name = _pick(list(truth.landmarks), rng)
    if name is None:
        return truth, None
    x, y, seen = truth.landmarks[name]
    dx, dy = _leap(truth, _POINT_LEAP, rng)
    return replace(truth, landmarks={**truth.landmarks, name: (x + dx, y + dy, seen)}), (name,)


def _twist(truth: FrameTruth, rng: np.random.Generator) -> tuple[FrameTruth, tuple[str, ...] | None]:
    name = _pick([name for name, shape in truth.shapes.items() if shape.closed and len(shape.points) > 2], rng)
    if name is None:
        return truth, None
    points = truth.shapes[name].points
    return _changed(truth, name, np.roll(points, int(rng.integers(1, len(points))), axis=0)), (name,)


def _reverse(truth: FrameTruth, rng: np.random.Generator) -> tuple[FrameTruth, tuple[str, ...] | None]:
    name = _pick(list(truth.shapes), rng)
    if name is None:
        return truth, None
    shape = truth.shapes[name]
    return _changed(truth, name, bezier.reverse(shape.points, shape.closed)), (name,)


_INJECTORS: Final[Mapping[str, _Injector]] = {
    "swapped shapes": _swap_shapes,
    "swapped face": _swap_face,
    "jumped point": _jump_point,
    "jumped shape": _jump_shape,
    "jumped landmark": _jump_landmark,
    "twisted": _twist,
    "reversed": _reverse,
}


# --- stretches --------------------------------------------------------------------------------------------------------


def _inject_stretch(
    kind: str, rows: list[JoinedFrame], members: Sequence[int], rng: np.random.Generator
) -> InjectedError:
    """Change some or all frames of a shot in place; returns the error."""
    whole = kind in ("shifted shot", "shifted shape")
    length = len(members) if whole else int(rng.integers(*_STRETCH))
    first = 0 if whole else int(rng.integers(1, max(2, len(members) - length - 1)))
    chosen = range(first, min(first + length, len(members)))
    old = [rows[row].truth for row in members]
    step = int(rng.choice((-1, 1)))
    name = _pick(sorted(old[0].shapes), rng) if kind == "shifted shape" else None
    for at in chosen:
        source = first if kind == "held stretch" else min(max(at - step, 0), len(members) - 1)
        rows[members[at]] = replace(rows[members[at]], truth=_with_roto_of(old[at], old[source], name))
    row = rows[members[0]]
    frames = tuple(rows[members[at]].frame for at in chosen)
    return InjectedError(kind, row.character, row.shot, frames, () if name is None else (name,))


def _with_roto_of(own: FrameTruth, other: FrameTruth, name: str | None) -> FrameTruth:
    """A frame with the roto of another frame, or with one of its shapes.

    Landmarks stay those of the frame, because they are drawn separately from the roto."""
    if name is None:
        return replace(own, shapes=other.shapes)
    return replace(own, shapes={**own.shapes, name: other.shapes[name]} if name in other.shapes else own.shapes)


# --- scoring ----------------------------------------------------------------------------------------------------------

Named = tuple[str, int, LabelIssue]  # shot, frame, issue

_EVERYTHING = ("face", "roto", "landmarks", "plate")  # the subject of an issue that concerns everything


@dataclass
class _Tally:
    """Counts over all seeds."""

    injected: int = 0
    found: int = 0
    named: int = 0


def score(sources: Sequence[Path], plates: str | None, *, seeds: int = 3, details: bool = False) -> dict[str, Any]:
    """Inject errors into roto that is known to be good, mine it, and score the issues. Raises as `mine`."""
    good = join_sources(sources, plates)
    unchanged = {_key(each) for each in _issues(good)}
    tallies = {kind: _Tally() for kind in (*SINGLE, *STRETCHES)}
    alarms: dict[str, int] = dict.fromkeys(KINDS, 0)
    right: dict[str, int] = dict.fromkeys(KINDS, 0)
    log: list[str] = []
    for seed in range(seeds):
        for injected in (inject_single(good, seed), inject_stretches(good, seed)):
            new = [each for each in _issues(injected.joined) if _key(each) not in unchanged]
            _count(injected, new, tallies, right, alarms, log)
    found, all_ = sum(t.found for t in tallies.values()), sum(t.injected for t in tallies.values())
    true, false = sum(right.values()), sum(alarms.values())
    result: dict[str, Any] = {
        "benchmark": "mine",
        "frames": len(good.rows),
        "seeds": seeds,
        "recall": _share(found, all_),
        "precision": _share(true, true + false),
        "errors": {
            kind: {"injected": t.injected, "recall": _share(t.found, t.injected), "named": _share(t.named, t.injected)}
            for kind, t in tallies.items()
            if t.injected
        },
        "issues": {
            kind: {
                "right": right[kind],
                "false": alarms[kind],
                "precision": _share(right[kind], right[kind] + alarms[kind]),
            }
            for kind in KINDS
            if right[kind] + alarms[kind]
        },
        "in_the_good_roto": len(unchanged),
    }
    return {**result, "details": log} if details else result


def _issues(joined: JoinedTakes) -> tuple[Named, ...]:
    with tempfile.TemporaryDirectory() as scratch:
        return mine_joined(joined, MineOptions((), Path(scratch), val=("none",))).issues


def issues_without_pictures(joined: JoinedTakes) -> tuple[Named, ...]:
    """Issues that can be found without the plate: all except timing against the picture."""
    truth = vectorise(joined, MineOptions((), Path()))
    return tuple(
        (joined.rows[each.row].shot, joined.rows[each.row].frame, each)
        for each in check_labels(truth, {}, TOLERANCE_PX)
        if each.kind != "outside"
    )


def _key(each: Named) -> tuple[str, int, str, str]:
    return each[0], each[1], each[2].kind, each[2].about


def _count(
    injected: WrongLabels,
    new: Sequence[Named],
    tallies: dict[str, _Tally],
    right: dict[str, int],
    alarms: dict[str, int],
    log: list[str],
) -> None:
    for error in injected.errors:
        hits = [each for each in new if _hits(error, each)]
        tally = tallies[error.kind]
        tally.injected += 1
        tally.found += bool(hits)
        tally.named += any(each[2].kind == CALLED[error.kind] for each in hits)
        if not hits:
            log.append(f"missed: {error.kind} {error.shot} {error.frames[0]} {' '.join(error.about)}")
    for each in new:
        is_right = any(_touches(error, each) for error in injected.errors)
        (right if is_right else alarms)[each[2].kind] += 1
        if not is_right:
            log.append(f"false: {each[0]} {each[1]} {each[2].kind}: {each[2].about}: {each[2].text}")


def _hits(error: InjectedError, each: Named) -> bool:
    """Whether an issue matches an error: its place, and one of its shapes or landmarks."""
    about = each[2].about
    words = {word.strip() for word in about.split(",")} | set(each[2].text.replace(":", ",").split(", "))
    named = not error.about or about in _EVERYTHING[:2] or bool(words & set(error.about))
    return _touches(error, each) and named


def _touches(error: InjectedError, each: Named) -> bool:
    """Whether an issue is at the place of an error; one frame outside the ends of a range counts too."""
    shot, frame, issue = each
    if shot != error.shot:
        return False
    if len(error.frames) == 1:
        return frame == error.frames[0]
    whole = issue.kind == "shifted" and error.kind.startswith("shifted")
    return whole or error.frames[0] - 1 <= frame <= error.frames[-1] + 1


def _share(count: int, total: int) -> float | None:
    return round(count / total, 3) if total else None


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path, help="finished roto that is known to be good, as 'mine'")
    parser.add_argument("--plates", help="plates of the roto, as for 'mine'")
    parser.add_argument("--seeds", type=int, default=3, help="number of repetitions with other seeds (3)")
    parser.add_argument("--details", action="store_true", help="list every missed error and every false alarm")
    parser.add_argument("--json", type=Path, help="write the result to a file")
    options = parser.parse_args()
    try:
        result = score(options.sources, options.plates, seeds=max(1, options.seeds), details=options.details)
    except RotopaintError as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        write_json(options.json, result)
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
