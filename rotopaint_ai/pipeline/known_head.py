"""A character's rigid head as its keyed frames show it: landmarks and open seams in space, `head.json` of its pack.

A pack that was trained on a character has seen its prints from many sides. A new shot then asks for cameras alone, and
a seam that hardly shows lies where the others put it. H holds, L landmarks, D numbers of a spline, complex x + iy in
pixels. Points in space are in face units, as in `shapes/head_bundle.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotopaint_ai.errors import PackError, UsageError
from rotopaint_ai.files import file_bytes, write_json
from rotopaint_ai.inference.pack import HEAD, Pack
from rotopaint_ai.pipeline.head_solve import (
    ShotObservations,
    SolvedHead,
    build_of,
    names_off_seams,
    open_seams,
    solve_head,
)
from rotopaint_ai.shapes.facespace import Array, Complex
from rotopaint_ai.shapes.head_bundle import Head, curves_by_marks, observe_curves
from rotopaint_ai.shapes.head_descent import damped_step
from rotopaint_ai.shapes.head_poses import head_poses
from rotopaint_ai.shapes.rigid_head import HAND_PX, KnownCurve
from rotopaint_ai.shapes.samples import open_curve_distance
from rotopaint_ai.sheet import ShapeSpec, Sheet
from rotopaint_ai.value_checks import check_format

FORMAT, VERSION = "rotopaint-head", 1
FEWEST = 12  # holds
FARTHEST = 5.0  # face units: largest coordinate of a point; a face reaches to 2 or 3, and cameras stand at 12
TURNED = 0.15  # radians: least spread of the keyed holds' rotations; depth is unknown where a head hardly turns
LEAST_TURNED = 0.1  # the same for a head that a shot's corrections give, beside which nothing better is known
MISFIT = 0.02  # share of the head's size: largest mean distance of a seam from the head's; else its print is not rigid
INFERRED = 0.5  # share of the head's size: expected error of a landmark that nobody keyed
_STEPS = 12
_DIGITS = 5
_LIMIT_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class KnownHead:
    """Landmarks in space (3,), how far each moves on the head (standard deviation), and open seams in space (D, 3)."""

    landmarks: Mapping[str, Array]
    motion: Mapping[str, float]
    seams: Mapping[str, Array]

    def of_sheet(self, specs: Sequence[ShapeSpec], sheet: Sheet) -> tuple[Array, Array] | None:
        """Points in space (N, 3), landmarks off these seams and then the seams, and the landmarks' motion (L,).

        None where the head lacks one of them.
        """
        names = names_off_seams(specs, sheet)
        has_seams = all(len(self.seams.get(spec.name, ())) == 3 * spec.n_points for spec in specs)
        if not (specs and has_seams and self.landmarks.keys() >= set(names)):
            return None
        marks = np.array([self.landmarks[name] for name in names]).reshape(-1, 3)
        points = np.concatenate([marks, *(self.seams[spec.name] for spec in specs)])
        return points, np.array([self.motion[name] for name in names])

    def write(self, path: Path) -> None:
        """Write the head to a file."""
        rows = {name: [*at.tolist(), self.motion[name]] for name, at in self.landmarks.items()}
        marks = {name: np.round(row, _DIGITS).tolist() for name, row in rows.items()}
        seams = {name: np.round(at, _DIGITS).tolist() for name, at in self.seams.items()}
        write_json(path, {"format": FORMAT, "version": VERSION, "landmarks": marks, "seams": seams})


def read_head(pack: Pack) -> KnownHead | None:
    """The head of a pack; None where it has none. Raises PackError where its file holds anything else."""
    path = pack.folder / HEAD
    if not path.is_file():
        return None
    try:
        content = json.loads(file_bytes(path, _LIMIT_BYTES))
        check_format(content, FORMAT, VERSION, error=PackError)
        marks = {str(name): _numbers(row, 4)[0] for name, row in content["landmarks"].items()}
        seams = {str(name): _numbers(rows, 3) for name, rows in content["seams"].items()}
    except PackError as error:
        raise PackError(f"{path}: {error}") from None
    except (OSError, TypeError, ValueError, KeyError, AttributeError, RecursionError):
        wanted = "four numbers for a landmark and three for each number of a seam's spline"
        raise PackError(f"{path}: is no head; wanted {wanted}; train the pack again, or remove the file") from None
    places = {name: row[:3] for name, row in marks.items()}
    return KnownHead(places, {name: float(abs(row[3])) for name, row in marks.items()}, seams)


def _numbers(rows: Any, n: int) -> Array:
    found = np.array(rows, np.float64).reshape(-1, n)
    if not len(found) or not (abs(found) < FARTHEST).all():
        raise ValueError
    return found


def fit_known_head(
    sheet: Sheet, points_HL: Complex, is_keyed_HL: NDArray[np.bool_], splines: Mapping[str, Complex]
) -> KnownHead | None:
    """The head of keyed holds: all landmarks of the sheet, keyed or inferred, and the splines (H, D) of its open seams.

    None where it cannot be known: few holds, a head that does not turn, seams that lie on nothing rigid.
    """
    specs = [spec for spec in open_seams(sheet) if spec.name in splines]
    off = [sheet.landmark_row(name) for name in names_off_seams(specs, sheet)]
    if not specs or len(points_HL) < FEWEST:
        return None
    heads, n_holds = head_poses(points_HL[:, off]), len(points_HL)
    exact, ends, noise = np.ones(n_holds, bool), np.ones((n_holds, 2), bool), np.full(n_holds, HAND_PX)
    known = [KnownCurve(splines[spec.name], noise, exact, ends) for spec in specs]
    points, is_keyed, size = points_HL[:, off], is_keyed_HL[:, off], np.abs(heads.factor_H)
    error = np.where(is_keyed, HAND_PX, INFERRED * size[:, None])
    shot = ShotObservations(heads, points, error, known, size, np.zeros((n_holds, len(specs)), bool))
    try:
        with ThreadPoolExecutor(1) as pool:
            found = solve_head(shot, build_of(specs, sheet, shot), lambda hold: None, None, pool)
        head, facts = found.head, found.facts
        for _ in range(_STEPS):
            head = damped_step(head, replace(facts, seen=observe_curves(known, size, head.splines())))
        pairs = zip(curves_by_marks(head, facts, [np.inf] * _STEPS), known)  # so that no curve draws its camera along
        apart = [np.mean([open_curve_distance(*each) for each in zip(a, b.splines_HD)] / size) for a, b in pairs]
        spread = head.cameras.spread()
    except np.linalg.LinAlgError:
        return None
    if not (max(apart) <= MISFIT and spread >= TURNED and (abs(head.points) < FARTHEST).all()):
        return None
    return _head_with_motion(sheet, specs, head, points, is_keyed, float(max(apart)))


def head_of_corrections(sheet: Sheet, solved: SolvedHead) -> KnownHead:
    """The head that was solved from a shot's corrections, all open seams of the sheet among its curves.

    Landmarks stand as the models see them, so that it serves the pack that saw them. Raises UsageError where it is of
    no use for other shots.
    """
    head, specs, points = solved.head, open_seams(sheet), solved.facts.points_HL
    if head.cameras.spread() < LEAST_TURNED or not (abs(head.points) < FARTHEST).all():
        raise UsageError("the head hardly turns in this shot; take one in which it is seen from several sides")
    return _head_with_motion(sheet, specs, head, points, np.ones(points.shape, bool), MISFIT)


def _head_with_motion(
    sheet: Sheet, specs: Sequence[ShapeSpec], head: Head, points_HL: Complex, counts_HL: NDArray[np.bool_], apart: float
) -> KnownHead:
    """A solved head, with the root mean square distance from it of the landmarks that count."""
    names, size = names_off_seams(specs, sheet), head.cameras.size[:, None]
    off_head = abs(points_HL - head.cameras.see(head.points[: len(names)])) / size
    miss = np.sqrt((off_head**2 * counts_HL).sum(axis=0) / np.maximum(counts_HL.sum(axis=0), 1))
    marks, motion = dict(zip(names, head.points)), dict(zip(names, miss.tolist()))
    seams = {spec.name: head.points[part] for spec, part in zip(specs, head.curves)}
    for spec in specs:
        marks |= {name: seams[spec.name][point] for point, name in spec.on_landmarks.items()}
        motion |= dict.fromkeys(spec.on_landmarks.values(), apart)
    return KnownHead(marks, motion, seams)
