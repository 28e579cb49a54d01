"""A shot taught by a few corrections."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from rotopaint_ai.crops import crop_around
from rotopaint_ai.errors import UsageError
from rotopaint_ai.landmarks.shared_marks import SharedMarks
from rotopaint_ai.pipeline import teach as teaching
from rotopaint_ai.pipeline.executor import Steps
from rotopaint_ai.pipeline.teach import ReadHold, ShotReading, TeachResult, share_of_the_way, teach
from rotopaint_ai.seams.placement import look
from rotopaint_ai.shapes.bezier import as_points
from rotopaint_ai.shapes.head_cameras import Cameras, rotations
from rotopaint_ai.shapes.head_poses import head_poses
from rotopaint_ai.shapes.refit import splines_of
from rotopaint_ai.shapes.roto import Key, Landmark, LandmarkKeys, RotoDocument, RotoShape
from rotopaint_ai.shapes.samples import open_curve_distance, point_numbers, spline_points
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet

FRAMES = range(1001, 1013)
NAMES = tuple(f"p{k}" for k in range(24))
SHEET = Sheet(
    "face",
    tuple(map(LandmarkSpec, NAMES)),
    (ShapeSpec("seam", closed=False, role="seam", n_points=3, width_share=0.03),),
)
DRAW = np.random.default_rng(5)
HEAD = np.concatenate([DRAW.uniform((-1, -1.2), (1, 1.2), (24, 2)), DRAW.uniform(-0.5, 0.2, (24, 1))], axis=1)
SPOTS = np.concatenate([DRAW.uniform((-1, -1.2), (1, 1.2), (60, 2)), DRAW.uniform(-0.5, 0.2, (60, 1))], axis=1)
CURVE = np.array([(-0.7, 0.2, -0.2), (0, 0.35, 0), (0.7, 0.2, -0.2)])
CURVE = np.concatenate([CURVE, CURVE - (0.25, 0, 0), CURVE + (0.25, 0, 0)])
ROWS = np.arange(12)
TURN = rotations(np.stack([0.15 * np.cos(0.8 * ROWS), 0.3 * np.sin(0.6 * ROWS), 0 * ROWS], axis=1))
HEADS = Cameras(np.full(12, 60.0), TURN, np.stack([100 + 2.5 * ROWS, np.full(12, 100.0)], axis=1))
BLANK = np.full((200, 240, 3), 0.5, np.float32)


def marks_of(spots: np.ndarray[Any, Any]) -> SharedMarks:
    seen = HEADS.see(spots)
    mark, hold = (each.ravel() for each in np.mgrid[: len(spots), :12])
    return SharedMarks(mark, hold, seen[hold, mark], len(spots))


def true_curve(frame: int, off: complex = 0) -> np.ndarray[Any, Any]:
    return point_numbers(HEADS.see(CURVE)[frame - 1001] + off)


def shot(off: dict[int, complex]) -> tuple[ShotReading, RotoDocument]:
    """A shot whose models have these errors (`off`) by frame, and their predictions."""
    holds, marks, keys = [], {}, {}
    for row, frame in enumerate(FRAMES):
        points, said = HEADS.see(HEAD)[row], true_curve(frame, off.get(frame, 0))
        points = points + DRAW.normal(0, 1.5, (24, 2)) @ (1, 1j)
        at = np.stack([points.real, points.imag], 1)
        seen = look(BLANK, 0, 0, crop_around(at, margin=1.3), lambda rgb: rgb)
        face = crop_around(at, margin=1.0).side
        holds.append(
            ReadHold(points, np.full(24, 2.0), np.ones(24), {"seam": spline_points(said)}, {"seam": 4.0}, face, seen)
        )
        marks[frame], keys[frame] = tuple(Landmark(float(x), float(y), 2.0) for x, y in at), Key(as_points(said))
    models = cast(Any, SimpleNamespace(pack=SimpleNamespace(sheet=SHEET), find_seams=None))
    heads = head_poses(np.array([hold.points_L for hold in holds]))
    reading = ShotReading(models, holds, {frame: row for row, frame in enumerate(FRAMES)}, heads, marks_of(SPOTS))
    shape = RotoShape("seam", False, "seam", keys, width_px=4.0)
    return reading, RotoDocument(240, 200, 1001, 1012, landmarks=LandmarkKeys(NAMES, marks), shapes=(shape,))


def corrected(document: RotoDocument, *frames: int) -> RotoDocument:
    (shape,) = document.shapes
    keys = {frame: Key(as_points(true_curve(frame)), "human") for frame in frames}
    return RotoDocument(
        240, 200, 1001, 1012, landmarks=document.landmarks, shapes=(shape.with_keys({**shape.keys, **keys}),)
    )


def error(taught: TeachResult, document: RotoDocument, frame: int) -> float:
    (shape,) = document.shapes
    shape = shape.with_keys({**shape.keys, **taught.keys["seam"]})
    return open_curve_distance(splines_of(shape, [frame])[0], spline_points(true_curve(frame)))


def test_three_corrections_put_the_other_frames_right() -> None:
    reading, said = shot(dict.fromkeys(FRAMES, 3 + 9j))
    document = corrected(said, 1002, 1004, 1009)
    taught = teach(reading, said, document, {"seam": dict.fromkeys(FRAMES, 9.0)})
    others = [frame for frame in FRAMES if frame not in (1002, 1004, 1009)]
    assert max(error(taught, document, frame) for frame in others) < 1.0
    assert max(taught.errors["seam"][frame] for frame in others) < 3.0
    assert set(taught.keys["seam"]) == set(others)
    assert taught.n_moved == 9
    assert {key.source for key in taught.keys["seam"].values()} == {"propagated"}


def test_without_marks_that_holds_share_it_is_less_sure() -> None:
    reading, said = shot(dict.fromkeys(FRAMES, 3 + 9j))
    document, errors = corrected(said, 1002, 1004, 1009), {"seam": dict.fromkeys(FRAMES, 9.0)}
    with_marks = teach(reading, said, document, errors).errors["seam"]
    none = SharedMarks(np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0, complex), 0)
    without = teach(replace(reading, shared=none), said, document, errors).errors["seam"]
    assert min(without.values()) > max(with_marks.values())


def test_a_frame_that_was_wrong_alone_hardly_moves_the_others() -> None:
    """The corrected frame was 12 px off; all others are right already."""
    reading, said = shot({1006: 2 + 12j})
    taught = teach(reading, said, corrected(said, 1006))
    assert max(error(taught, said, frame) for frame in FRAMES if frame != 1006) < 0.5


def test_corrections_that_contradict_each_other_hardly_move_the_others() -> None:
    """Corrections lie 14 px off the truth, to either side by turns; other frames move less than a quarter of that."""
    reading, said = shot({})
    (shape,) = said.shapes
    odd = {f: Key(as_points(true_curve(f, 14j * (-1) ** f)), "human") for f in (1003, 1004, 1009)}
    document = replace(said, shapes=(shape.with_keys({**shape.keys, **odd}),))
    taught = teach(reading, said, document)
    assert max(error(taught, said, frame) for frame in FRAMES if frame not in odd) < 14 / 4
    assert max(taught.errors["seam"].values()) > 3


@pytest.mark.parametrize(
    ("change", "off", "share"),
    [(0.0, 0.0, 0.0), (1.0, 2.0, 0.0), (2.0, 1.0, 0.75), (3.0, 0.0, 1.0), (3.0, np.inf, 0.0)],
)
def test_the_better_known_curve_draws_the_present_one_by_a_share(change: float, off: float, share: float) -> None:
    assert share_of_the_way(change, off) == pytest.approx(share)


def test_a_share_of_the_way_is_nearer_than_staying_or_going_all_of_it() -> None:
    draw = np.random.default_rng(4)
    present, better = (draw.normal(0, spread, (2000, 2)) @ (1, 1j) for spread in (1.5, 1.0))
    change = abs(better - present)
    shares = np.array([share_of_the_way(each, 1.0) for each in change])
    moved = present + shares * (better - present)
    assert np.mean(abs(moved) ** 2) < min(np.mean(abs(present) ** 2), np.mean(abs(better) ** 2))


def test_a_shot_that_no_head_fits_is_left_as_it_is_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **named: object) -> None:
        raise np.linalg.LinAlgError("no finite step")

    reading, said = shot(dict.fromkeys(FRAMES, 3 + 9j))
    monkeypatch.setattr("rotopaint_ai.pipeline.teach.solve_head", fail)
    taught = teach(reading, said, corrected(said, 1002))
    assert taught.n_moved == 0
    assert taught.doubtful["seam"] == tuple(frame for frame in FRAMES if frame != 1002)
    assert np.isfinite(list(taught.errors["seam"].values())).all()


@pytest.mark.parametrize("n_holds", [1, 2, 3])
def test_a_shot_of_a_few_holds_can_be_taught(n_holds: int) -> None:
    reading, said = shot(dict.fromkeys(FRAMES, 3 + 9j))
    first = {frame: min(row, n_holds - 1) for row, frame in enumerate(FRAMES)}
    marks = reading.shared
    kept = marks.hold < n_holds
    shared = SharedMarks(marks.mark[kept], marks.hold[kept], marks.at[kept], marks.count)
    short = replace(reading, holds=reading.holds[:n_holds], hold_of=first, shared=shared)
    short = replace(short, heads=head_poses(np.array([hold.points_L for hold in short.holds])))
    taught = teach(short, said, corrected(said, 1001))
    assert 1001 not in taught.keys["seam"]
    assert np.isfinite(list(taught.errors["seam"].values())).all()


def test_a_shot_whose_every_frame_is_keyed_is_left_as_it_is() -> None:
    reading, said = shot(dict.fromkeys(FRAMES, 1 + 4j))
    taught = teach(reading, said, corrected(said, *FRAMES))
    assert taught.keys["seam"] == {}
    assert taught.n_moved == 0


def test_without_a_correction_there_is_nothing_to_learn() -> None:
    reading, said = shot({})
    with pytest.raises(UsageError, match="no shape has a human key"):
        teach(reading, said, said)


@pytest.mark.parametrize(("n_points", "asked"), [(3, ["seam"]), (4, [])])
def test_marks_are_looked_for_again_by_seams_that_have_the_packs_points(
    n_points: int, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drawn curve with another number of points does not tell where the pack's points are."""
    reading, document = shot({})
    reading = replace(reading, shared=marks_of(SPOTS))
    (seam,) = document.shapes
    drawn = {frame: Key((*key.points, *key.points[-1:])[:n_points]) for frame, key in seam.keys.items()}
    found: list[list[str]] = []

    def watch(reading: Any, specs: Any, *rest: Any) -> Any:
        found.append([spec.name for spec in specs])
        raise np.linalg.LinAlgError

    monkeypatch.setattr(teaching, "_head_of", watch)
    document = replace(document, shapes=(replace(seam, keys=drawn),))
    assert teaching._marks_seen_again(reading, document, Steps(lambda *done: None, 1)) is reading.shared
    assert found == [asked]
