"""How many planted label errors `mine` finds: recall and precision per kind of error.

An error counts as found when a finding names its shot and frame (for errors that last: its shot, and a frame of the
stretch) and its shape or landmark, whatever the finding is called; `named` counts those called by the right kind. A
finding on a frame that has no planted error is a false alarm, unless the untouched roto gives it as well.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rotopaint_ai.training.mining import check
from rotopaint_ai.training.mining.join import Joined, join
from rotopaint_ai.training.mining.mine import MineOrder, mine_joined, vectorise
from rotopaint_ai.training.mining.plant import (
    CALLED,
    SINGLE,
    STRETCHES,
    Planted,
    PlantedError,
    plant_single,
    plant_stretches,
)
from rotopaint_ai.training.mining.propose import TOLERANCE_PX
from rotopaint_ai.training.mining.suspicious import KINDS, Finding

Named = tuple[str, int, Finding]  # shot, frame, finding

_SPEECH = ("face", "roto", "landmarks", "plate")  # what a finding says it is about when it is about everything


@dataclass
class _Tally:
    """Counts over all seeds."""

    planted: int = 0
    found: int = 0
    named: int = 0


def score(sources: Sequence[Path], plates: str | None, *, seeds: int = 3, details: bool = False) -> dict[str, Any]:
    """Plant errors into roto that is known to be good and mine it. Raises as `mine`."""
    good = join(sources, plates)
    usual = {_key(each) for each in _findings(good)}
    tallies = {kind: _Tally() for kind in (*SINGLE, *STRETCHES)}
    alarms: dict[str, int] = dict.fromkeys(KINDS, 0)
    right: dict[str, int] = dict.fromkeys(KINDS, 0)
    said: list[str] = []
    for seed in range(seeds):
        for planted in (plant_single(good, seed), plant_stretches(good, seed)):
            new = [each for each in _findings(planted.joined) if _key(each) not in usual]
            _count(planted, new, tallies, right, alarms, said)
    found, all_ = sum(t.found for t in tallies.values()), sum(t.planted for t in tallies.values())
    true, false = sum(right.values()), sum(alarms.values())
    result: dict[str, Any] = {
        "benchmark": "mine",
        "frames": len(good.rows),
        "seeds": seeds,
        "recall": _share(found, all_),
        "precision": _share(true, true + false),
        "errors": {
            kind: {"planted": t.planted, "recall": _share(t.found, t.planted), "named": _share(t.named, t.planted)}
            for kind, t in tallies.items()
            if t.planted
        },
        "findings": {
            kind: {
                "right": right[kind],
                "false": alarms[kind],
                "precision": _share(right[kind], right[kind] + alarms[kind]),
            }
            for kind in KINDS
            if right[kind] + alarms[kind]
        },
        "in_the_good_roto": len(usual),
    }
    return {**result, "details": said} if details else result


def _findings(joined: Joined) -> tuple[Named, ...]:
    with tempfile.TemporaryDirectory() as scratch:
        return mine_joined(joined, MineOrder((), Path(scratch), val=("none",))).findings


def findings_without_pictures(joined: Joined) -> tuple[Named, ...]:
    """Findings that need no plate to be read: all but those of timing against the picture."""
    truth = vectorise(joined, MineOrder((), Path()))
    return tuple(
        (joined.rows[each.row].shot, joined.rows[each.row].frame, each)
        for each in check.findings(truth, {}, TOLERANCE_PX)
        if each.kind != "outside"
    )


def _key(each: Named) -> tuple[str, int, str, str]:
    return each[0], each[1], each[2].kind, each[2].about


def _count(
    planted: Planted,
    new: Sequence[Named],
    tallies: dict[str, _Tally],
    right: dict[str, int],
    alarms: dict[str, int],
    said: list[str],
) -> None:
    for error in planted.errors:
        hits = [each for each in new if _hits(error, each)]
        tally = tallies[error.kind]
        tally.planted += 1
        tally.found += bool(hits)
        tally.named += any(each[2].kind == CALLED[error.kind] for each in hits)
        if not hits:
            said.append(f"missed: {error.kind} {error.shot} {error.frames[0]} {' '.join(error.about)}")
    for each in new:
        is_right = any(_touches(error, each) for error in planted.errors)
        (right if is_right else alarms)[each[2].kind] += 1
        if not is_right:
            said.append(f"false: {each[0]} {each[1]} {each[2].kind}: {each[2].about}: {each[2].text}")


def _hits(error: PlantedError, each: Named) -> bool:
    """Whether a finding is about an error: its place, and one of its shapes or landmarks."""
    about = each[2].about
    words = {word.strip() for word in about.split(",")} | set(each[2].text.replace(":", ",").split(", "))
    named = not error.about or about in _SPEECH[:2] or bool(words & set(error.about))
    return _touches(error, each) and named


def _touches(error: PlantedError, each: Named) -> bool:
    """Whether a finding stands where an error is; one frame beside a stretch's ends is near enough."""
    shot, frame, finding = each
    if shot != error.shot:
        return False
    if len(error.frames) == 1:
        return frame == error.frames[0]
    whole = finding.kind == "shifted" and error.kind.startswith("shifted")
    return whole or error.frames[0] - 1 <= frame <= error.frames[-1] + 1


def _share(count: int, total: int) -> float | None:
    return round(count / total, 3) if total else None
