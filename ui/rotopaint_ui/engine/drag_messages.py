"""Messages of a landmark drag to the live engine, and the splines made from its answer. No Qt.

The engine says how the models' splines move between two sets of landmarks; that motion is added to the splines as they
stand, so that what was snapped to the crease or corrected by hand keeps its place relative to them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from rotopaint_ai.shapes.roto import ControlPoint, Landmark, LandmarkKeys, Points
from rotopaint_ai.similarity import similarity_of
from rotopaint_ui.session.correction_edits import LandmarkDrag

_POINT = struct.Struct("<6d")
MarkRow = Sequence[Landmark | None]


def fill_hidden(question: LandmarkDrag) -> tuple[list[list[float]], list[list[float]]]:
    """Positions of all landmarks before and after a drag; hidden ones are interpolated from other frames."""
    marks = question.document.landmarks
    hidden = [index for index, mark in enumerate(question.before) if mark is None]
    guess = _guess_places(marks, question.frame, question.before, hidden)
    before = [_place_of_mark(mark, guess.get(k)) for k, mark in enumerate(question.before)]
    after = [_place_of_mark(mark, guess.get(k)) for k, mark in enumerate(question.after)]
    return before, after


def splines_after_drag(question: LandmarkDrag, answer: Mapping[str, Any], block: bytes) -> dict[str, Points]:
    """The splines of the frame after the drag. A human key follows only a landmark that sits on it."""
    offsets = list(_POINT.iter_unpack(block))
    sits = set(answer["sits"])
    moved: dict[str, Points] = {}
    for shape in question.document.shapes:
        span = answer["shapes"].get(shape.name)
        points = shape.at(question.frame)
        if span is None or span[1] - span[0] != len(points):
            continue
        key = shape.keys.get(question.frame)
        if key is None or key.source != "human" or shape.name in sits:
            rows = zip(points, offsets[span[0] : span[1]])
            moved[shape.name] = tuple(ControlPoint(*(a + b for a, b in zip(p, by))) for p, by in rows)
    return moved


def _place_of_mark(mark: Landmark | None, guess: tuple[float, float] | None) -> list[float]:
    if mark is not None:
        return [mark.x, mark.y]
    return list(guess or (0.0, 0.0))


def _guess_places(
    marks: LandmarkKeys, frame: int, here: MarkRow, hidden: Sequence[int]
) -> dict[int, tuple[float, float]]:
    """Likely positions of hidden landmarks: those of the nearest frame that shows them, moved with the head."""
    guess: dict[int, tuple[float, float]] = {}
    near = sorted(marks.keys, key=lambda each: (abs(each - frame), each))
    for index in hidden:
        other = next((marks.keys[each] for each in near if marks.keys[each][index] is not None), None)
        known = other[index] if other is not None else None
        if other is not None and known is not None:
            pairs = [(complex(p.x, p.y), complex(q.x, q.y)) for p, q in zip(other, here) if p and q]
            factor, shift = similarity_of(pairs)
            z = factor * complex(known.x, known.y) + shift
            guess[index] = z.real, z.imag
    return guess
