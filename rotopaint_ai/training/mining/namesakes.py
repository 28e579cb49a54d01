"""Shapes that some shots lack: left out there, or drawn under another name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rotopaint_ai.training.mining.join import Row
from rotopaint_ai.training.mining.outline import Array
from rotopaint_ai.training.mining.truth import Truth

_SAME = 0.03  # face units: two shapes whose usual places lie this near to each other everywhere are one
_MOST = 8  # shapes named in one line


def notes(truth: Truth, rows: Sequence[Row]) -> list[str]:
    """A line for each shape that looks like another one of other shots, and one for those that shots lack."""
    shots = {name: _shots(truth, name) for name in truth.sheet.shape_names}
    drawn = set().union(*shots.values())
    partial = {name: found for name, found in shots.items() if found and found != drawn}
    places = {plan.shape.name: _usual(plan.shape.face_FMC) for plan in truth.plans}
    closed = {plan.shape.name: plan.shape.closed for plan in truth.plans}
    said, alike = [], set()
    for one, two in _pairs(list(partial)):
        if closed[one] == closed[two] and not shots[one] & shots[two] and _apart(places[one], places[two]) < _SAME:
            alike |= {one, two}
            where = (_names(truth, shots[one]), _names(truth, shots[two]))
            said.append(
                f"'{two}' of {where[1]} lies where '{one}' of {where[0]} does: if it is the same shape, mine again "
                f"with --rename '{two}={one}'"
            )
    lacking = [f"{name} ({_names(truth, drawn - found)})" for name, found in partial.items() if name not in alike]
    if lacking:
        said.append(f"shapes that shots lack: {_listed(lacking)}; they are learnt from the other shots")
    return [*said, *_beside_sheet(truth, rows)]


def _beside_sheet(truth: Truth, rows: Sequence[Row]) -> list[str]:
    """Shapes and landmarks that the sources have and the sheet has not, and the other way round."""
    drawn = dict.fromkeys(name for row in rows for name in row.truth.shapes)
    unknown = [name for name in drawn if name not in truth.sheet.shape_names]
    absent = [name for name in truth.sheet.shape_names if name not in drawn]
    said = []
    if unknown:
        said.append(f"shapes that the sheet does not name were left out: {_listed(unknown)}; map them by --rename")
    if absent:
        said.append(f"shapes of the sheet that no source has: {_listed(absent)}")
    given = dict.fromkeys(name for row in rows for name in row.truth.landmarks)
    known = [name for name, column in zip(truth.names, truth.marks.transpose(1, 0, 2)) if np.isfinite(column).any()]
    unknown = [name for name in given if name not in truth.sheet.landmark_names]
    absent = [name for name in truth.sheet.landmark_names if name not in known]
    if unknown:
        said.append(f"landmarks that the sheet does not name were left out: {_listed(unknown)}; map them by --rename")
    if absent:
        said.append(f"landmarks of the sheet that no source has: {_listed(absent)}; they cannot be learnt from this")
    return said


def _shots(truth: Truth, name: str) -> frozenset[int]:
    return frozenset(
        int(truth.shots[row]) for plan in truth.plans if plan.shape.name == name for row in plan.shape.rows
    )


def _names(truth: Truth, shots: frozenset[int] | set[int]) -> str:
    by_number: Mapping[int, str] = {int(n): row.shot for n, row in zip(truth.shots, truth.rows)}
    return _listed([by_number[number] for number in sorted(shots)])


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


def _pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(one, two) for at, one in enumerate(names) for two in names[at + 1 :]]


def _usual(face_FMC: Array) -> Array:
    """The samples [M, 2] of the frame whose extent is the most usual."""
    extent = np.concatenate((face_FMC.min(axis=1), face_FMC.max(axis=1)), axis=1)
    row = int(np.abs(extent - np.median(extent, axis=0)).sum(axis=1).argmin())
    return np.asarray(face_FMC[row, ::4])


def _apart(one: Array, two: Array) -> float:
    """Mean distance of two sampled curves, the larger of both directions."""
    away = np.linalg.norm(one[:, None] - two[None], axis=2)
    return float(max(away.min(axis=0).mean(), away.min(axis=1).mean()))
