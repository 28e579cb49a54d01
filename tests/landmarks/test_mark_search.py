"""Marks in holds where no feature was matched: found where the picture shows them, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.landmarks.mark_search import ExpectedMarks, search_marks
from rotopaint_ai.landmarks.shared_marks import FINE, MarkPicture, SharedMarks, shared_marks
from rotopaint_ai.landmarks.shared_marks import features as features_in
from tests.landmarks.test_shared_marks import CORNER, FACE, MIDDLE, MOTIONS, moved, picture

Array = np.ndarray[Any, Any]
HOLDS = np.arange(5)
APART = abs(HOLDS[:, None] - HOLDS).astype(float)


def seen(hold: int, seed: int = 1) -> MarkPicture:
    return MarkPicture.of(picture(hold, seed), CORNER, 1.0, 160.0, FINE)


@pytest.fixture(scope="module")
def marks() -> SharedMarks:
    points = np.array([moved(FACE, k) for k in range(5)])
    faces = (points - points.mean(axis=1, keepdims=True)) / np.array(MOTIONS)[:, None]
    return shared_marks([features_in(seen(k), FINE) for k in range(5)], points, faces, np.full(5, 160.0), FINE)


def expected(marks: SharedMarks, off: complex = 0) -> ExpectedMarks:
    """Each mark moved by the head's motion plus the error `off`."""
    first = np.array([(at - MIDDLE - 3 * k) / MOTIONS[k] + MIDDLE for at, k in zip(marks.at, marks.hold)])
    middle = np.array([first[marks.mark == n].mean() for n in range(marks.count)])
    at = np.array([moved(middle, k) for k in range(5)]) + off
    ways = np.array(MOTIONS)[:, None, None] * np.broadcast_to((1, 1j), (5, marks.count, 2))
    return ExpectedMarks(at, ways, np.ones(at.shape))


def without(marks: SharedMarks, hold: int) -> SharedMarks:
    kept = marks.hold != hold
    return replace(marks, mark=marks.mark[kept], hold=marks.hold[kept], at=marks.at[kept])


def test_a_mark_is_found_where_its_surroundings_are_though_expected_a_little_off(marks: SharedMarks) -> None:
    found = search_marks(without(marks, 4), expected(marks, 1.2 - 0.8j), APART, seen)
    again = found.hold == 4
    true = expected(marks).at[4, found.mark[again]]
    assert again.sum() > 0.6 * (marks.hold == 4).sum()
    assert np.median(abs(found.at[again] - true)) < 0.25
    assert np.percentile(abs(found.at[again] - true), 90) < 0.8
    assert (np.diff(found.mark) >= 0).all()


def test_what_was_seen_stays_as_it_was(marks: SharedMarks) -> None:
    found = search_marks(without(marks, 4), expected(marks), APART, seen)
    before = {(m, h): at for m, h, at in zip(marks.mark, marks.hold, marks.at) if h != 4}
    assert all(found.at[(found.mark == m) & (found.hold == h)] == [at] for (m, h), at in before.items())
    assert len({*zip(found.mark.tolist(), found.hold.tolist())}) == len(found.mark)


def test_a_hold_that_shows_something_else_or_the_head_from_behind_has_none(marks: SharedMarks) -> None:
    less = without(marks, 4)
    other = search_marks(less, expected(marks), APART, lambda hold: seen(hold, 2 if hold == 4 else 1))
    assert (other.hold == 4).sum() < 0.05 * marks.count
    away = expected(marks)
    away.facing[4] = 0.1
    assert (search_marks(less, away, APART, seen).hold == 4).sum() == 0


def test_no_marks_stay_none() -> None:
    none = SharedMarks(np.zeros(0, int), np.zeros(0, int), np.zeros(0, complex), 0)
    empty = ExpectedMarks(np.zeros((5, 0), complex), np.zeros((5, 0, 2), complex), np.zeros((5, 0)))
    assert search_marks(none, empty, APART, seen).count == 0
