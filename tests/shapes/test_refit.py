"""Corrections propagated through a shot: exact at human keys, equal in holds, rotated and scaled with the head."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rotopaint_ai.shapes.facespace import FaceSpace
from rotopaint_ai.shapes.propagation_range import propose
from rotopaint_ai.shapes.refit import _confirm_by_head, _Task, keys_from_splines, refit, splines_of, spread
from rotopaint_ai.shapes.roto import (
    ControlPoint,
    Key,
    Landmark,
    LandmarkKeys,
    Points,
    RotoDocument,
    RotoShape,
    hold_starts,
)

FACE = [(-40, -30), (40, -30), (0, 0), (-25, 40), (25, 40), (0, 60), (-50, 10), (50, 12)]
SEAM = [(-45, 0, 0, 0, 10, 4), (-5, 3, -10, 0, 10, 0), (40, -2, -12, 3, 0, 0)]
FRAMES = range(1001, 1041)


def turn(frame: int) -> complex:
    """The head grows, turns and moves over the shot, on twos."""
    k = (frame - 1001) // 2
    return (1 + 0.02 * k) * complex(math.cos(0.03 * k), math.sin(0.03 * k))


def smile(frame: int) -> float:
    k = (frame - 1001) // 2
    return 12.0 * math.sin(k / 3)


def placed(frame: int, x: float, y: float) -> complex:
    return turn(frame) * complex(x, y) + complex(300 + 3 * ((frame - 1001) // 2), 200)


def point(frame: int, row: tuple[float, ...], wrong: complex = 0) -> ControlPoint:
    at = placed(frame, row[0], row[1]) + turn(frame) * wrong
    back, out = turn(frame) * complex(row[2], row[3]), turn(frame) * complex(row[4], row[5])
    return ControlPoint(at.real, at.imag, back.real, back.imag, out.real, out.imag)


def shot(wrong: complex = 0, per_smile: complex = 0) -> RotoDocument:
    """A shot whose predictions have a constant error in face space, plus one proportional to the smile."""
    rows = {}
    for frame in FRAMES:
        face = [placed(frame, x, y + (smile(frame) if y > 30 else 0)) for x, y in FACE]
        rows[frame] = tuple(Landmark(round(z.real, 4), round(z.imag, 4), 1.0) for z in face)
    keys = {f: Key(tuple(point(f, row, wrong + per_smile * smile(f)) for row in SEAM)) for f in FRAMES}
    names = tuple(f"l{k}" for k in range(len(FACE)))
    return RotoDocument(
        640, 480, 1001, 1040, landmarks=LandmarkKeys(names, rows), shapes=(RotoShape("seam", False, "matte", keys),)
    )


TRUE = shot().shapes[0]


def keyed(document: RotoDocument, *frames: int) -> RotoDocument:
    shape = document.shapes[0]
    human = {frame: Key(TRUE.keys[frame].points, "human") for frame in frames}
    return replace(document, shapes=(shape.with_keys(dict(sorted({**shape.keys, **human}.items()))),))


def apart(points: Points, frame: int) -> float:
    return max(math.hypot(p.x - q.x, p.y - q.y) for p, q in zip(points, TRUE.keys[frame].points))


def as_seam(document: RotoDocument) -> RotoDocument:
    """The same for a printed seam, which a rigid head has to confirm."""
    return replace(document, shapes=(replace(document.shapes[0], role="seam"),))


def test_a_seam_moves_where_corrections_and_its_rigid_head_agree() -> None:
    model = as_seam(shot(wrong=9j))
    keys = refit(model, keyed(model, 1005, 1019, 1033), {"seam": dict.fromkeys(FRAMES, 6.0)})["seam"]
    left = [apart(key.points, f) for f, key in keys.items()]
    assert min(apart(model.shapes[0].keys[f].points, f) for f in keys) > 8.5
    assert np.mean(left) < 2.5


def test_a_human_key_from_the_seams_other_end_corrects_the_same() -> None:
    model = shot(wrong=9j)
    once = keyed(model, 1005, 1033)
    keys = dict(once.shapes[0].keys)
    turned = replace(once, shapes=(once.shapes[0].with_keys({**keys, 1005: keys[1005].reversed()}),))
    assert turned != once
    assert refit(model, turned) == refit(model, once)
    assert spread(model, turned, 1005, 1001, 1010) == spread(model, once, 1005, 1001, 1010)


def level(height: float) -> np.ndarray[Any, Any]:
    """A straight horizontal seam (3 points and their tangents), so that distances are differences of heights."""
    at = np.array([0, 30, 60]) + 1j * height
    return np.concatenate([at, at - [0, 9, 9], at + [9, 9, 0]])


@pytest.mark.parametrize(("head_px", "moves"), [(20.0, True), (28.5, True), (29.5, False)])
def test_a_seam_of_another_pose_than_the_corrected_one_needs_a_surer_head(head_px: float, moves: bool) -> None:
    # 4 px from the present curve, 1.1 from the head's, and a fifth of a pose half a head away
    look = np.array([[0, 0], [0.5, 0]], complex)
    space = FaceSpace((1, 2), np.full(2, head_px + 0j), look, np.array([1.0, 2.0]), look, look)
    rows = np.arange(2)
    shape = RotoShape("seam", False, "seam", {})
    said, found, on_head = (np.array([level(height)] * 2) for height in (0.0, 4.0, 2.9))
    task = _Task(shape, shape, [1], [1, 2], rows, rows, said, np.ones(2), {0: found[0]})
    put = _confirm_by_head(space, task, found, on_head)
    assert put[0] == pytest.approx(found[0])  # hand-drawn
    assert put[1] == pytest.approx(found[1] if moves else said[1])


def test_a_seam_without_evidence_from_its_head_stays_as_predicted() -> None:
    """Independent noise of every pose: a matte is smoothed through its keys, a seam keeps its position in the
    picture."""
    model = shot()
    draw = np.random.default_rng(2)
    off = np.repeat(draw.normal(0, 1.0, 20), 2)
    noisy = {f: Key(tuple(point(f, row, 1j * off[k]) for row in SEAM)) for k, f in enumerate(FRAMES)}
    model = replace(model, shapes=(model.shapes[0].with_keys(noisy),))
    expected = {"seam": dict.fromkeys(FRAMES, 1.0)}
    as_matte = refit(model, keyed(model, 1011, 1031), expected)["seam"]
    assert any(key != noisy[f] for f, key in as_matte.items())
    model = as_seam(model)
    found = refit(model, keyed(model, 1011, 1031), expected)["seam"]
    worse = [f for f, key in found.items() if apart(key.points, f) > apart(noisy[f].points, f) + 0.1]
    assert not worse


def test_one_key_mends_the_frames_near_it_and_part_of_the_rest() -> None:
    model = shot(wrong=4 + 2j)
    keys = refit(model, keyed(model, 1011))["seam"]
    assert 1011 not in keys
    wrong = {f: apart(model.shapes[0].keys[f].points, f) for f in keys}
    left = {f: apart(key.points, f) for f, key in keys.items()}
    assert min(wrong.values()) > 4
    assert max(left[f] for f in (1009, 1012, 1013)) < 1.0
    assert np.mean(list(left.values())) < 0.8 * np.mean(list(wrong.values()))


def test_three_keys_correct_an_error_that_depends_on_the_pose() -> None:
    model = shot(wrong=4 + 2j, per_smile=0.25j)
    keys = refit(model, keyed(model, 1005, 1013, 1033))["seam"]
    before = np.mean([apart(model.shapes[0].keys[f].points, f) for f in keys])
    after = np.mean([apart(key.points, f) for f, key in keys.items()])
    assert before > 5
    assert after < 0.2 * before


def test_one_key_pulls_nothing_far_away_whatever_the_models_expect_of_themselves() -> None:
    """A head with large motion, splines within half a pixel, and models with an expected error of fourteen pixels."""
    draw = np.random.default_rng(5)
    jumps = np.repeat(draw.normal(0, 60, (20, 2)), 2, axis=0)
    off = np.repeat(draw.normal(0, 0.5, (20, 2)), 2, axis=0)

    def move(points: Points, by: np.ndarray) -> Points:
        return tuple(p._replace(x=p.x + by[0], y=p.y + by[1]) for p in points)

    true = shot()
    marks = {
        f: tuple(m and Landmark(m.x + jumps[k][0], m.y + jumps[k][1], 14.0) for m in true.landmarks.keys[f])
        for k, f in enumerate(FRAMES)
    }
    right = {f: Key(move(TRUE.keys[f].points, jumps[k])) for k, f in enumerate(FRAMES)}
    said = TRUE.with_keys({f: Key(move(right[f].points, off[k])) for k, f in enumerate(FRAMES)})
    model = replace(true, landmarks=replace(true.landmarks, keys=marks), shapes=(said,))
    worst = max(FRAMES, key=lambda f: math.hypot(*off[f - 1001]))
    hand = replace(right[worst], source="human")
    fixed = refit(model, replace(model, shapes=(said.with_keys({**said.keys, worst: hand}),)))["seam"]
    left = [math.hypot(a.x - b.x, a.y - b.y) for f, key in fixed.items() for a, b in zip(key.points, right[f].points)]
    assert max(left) < 1.5 * max(np.hypot(*off.T))


def test_a_known_key_gains_no_weight_from_its_zero_error() -> None:
    document = shot(wrong=3 + 2j)
    expected = dict.fromkeys(FRAMES, 1.0)
    once = refit(document, keyed(document, 1011), {"seam": expected})["seam"]
    again = refit(document, keyed(document, 1011), {"seam": {**expected, 1011: 0.0}})["seam"]
    assert again.keys() == once.keys()
    assert max(apart(again[f].points, f) for f in again) < 2 * max(apart(once[f].points, f) for f in once)


def test_frames_of_a_hold_move_as_one() -> None:
    model = shot(wrong=4 + 2j, per_smile=0.25j)
    keys = refit(model, keyed(model, 1005, 1021))["seam"]
    moved = keyed(model, 1005)
    for first in range(1001, 1041, 2):
        if first not in (1005, 1021):
            assert keys[first].points == keys[first + 1].points
    near = spread(model, moved, 1005, 1001, 1012)["seam"]
    assert near[1001].points == near[1002].points


def test_a_spread_from_a_hold_keyed_throughout_continues_beyond_it() -> None:
    model = shot(wrong=5)
    new = spread(model, keyed(model, 1021, 1022), 1021, 1021, 1030)["seam"]
    assert set(new) == set(range(1023, 1031))
    assert apart(new[1023].points, 1023) < 0.5


def test_human_keys_are_never_among_the_new_ones() -> None:
    model = shot(wrong=3)
    document = keyed(model, 1003, 1020, 1040)
    assert {1003, 1020, 1040}.isdisjoint(refit(model, document)["seam"])
    new = spread(model, document, 1020, 1001, 1040)["seam"]
    assert min(new) == 1004
    assert max(new) == 1039
    assert 1020 not in new


def test_what_nothing_moves_stays_the_models_own_key() -> None:
    model = shot()
    new = spread(model, keyed(model, 1010), 1010, 1001, 1020)["seam"]
    assert all(key is model.shapes[0].keys[f] for f, key in new.items())
    quiet = refit(model, keyed(model, 1010), {"seam": dict.fromkeys(FRAMES, 0.001)})["seam"]
    assert max(apart(key.points, f) for f, key in quiet.items()) < 0.02


def test_moved_keys_go_on_as_the_keys_in_their_place_did() -> None:
    """First the interpolation of the shape's own key, then of the model's; linear where neither has a key."""
    row = (ControlPoint(0, 0), ControlPoint(40, 0))
    model = RotoShape("s", False, "seam", {1: Key(row, interpolation="ease"), 5: Key(row, interpolation="ease")})
    own = RotoShape("s", False, "seam", {1: Key(row, interpolation="hold"), 9: Key(row)})
    found = keys_from_splines(model, own, [1, 5, 7], splines_of(model, [1, 5, 7]) + 3)
    assert [(frame, key.interpolation) for frame, key in found.items()] == [(1, "hold"), (5, "ease"), (7, "linear")]
    assert {key.points for key in found.values()} == {(ControlPoint(3, 0), ControlPoint(43, 0))}


def test_a_blink_stays_a_blink() -> None:
    """Opening and closing from hold to hold is motion where the models' expected error is small."""
    model = shot()
    shape = model.shapes[0]
    wink = {
        f: tuple(p._replace(y=p.y + (12 if f in (1019, 1020) else 0)) for p in k.points) for f, k in shape.keys.items()
    }
    blinking = replace(shape, keys={f: Key(points) for f, points in wink.items()})
    shifted = {f: Key(tuple(p._replace(x=p.x + 3) for p in wink[f]), "human") for f in (1005,)}
    model = replace(model, shapes=(blinking,))
    document = replace(model, shapes=(blinking.with_keys({**blinking.keys, **shifted}),))
    new = refit(model, document, {"seam": dict.fromkeys(FRAMES, 0.5)})["seam"]
    depth = new[1019].points[1].y - (new[1017].points[1].y + new[1021].points[1].y) / 2
    said = wink[1019][1].y - (wink[1017][1].y + wink[1021][1].y) / 2
    assert depth == pytest.approx(said, rel=0.1)


def test_noise_between_frames_is_smoothed_once_a_person_has_keyed() -> None:
    """Noise of 2 px on every hold of a still head: the estimate is closer to the truth than the model."""
    draw = np.random.default_rng(4)
    model = shot()
    shape = model.shapes[0]
    still = shape.keys[1001].points
    off = {first: draw.normal(0, 2, (3, 2)) for first in range(1001, 1041, 2)}
    noisy = {
        f: Key(tuple(p._replace(x=p.x + d[0], y=p.y + d[1]) for p, d in zip(still, off[f - (f + 1) % 2])))
        for f in FRAMES
    }
    model = replace(model, shapes=(shape.with_keys(noisy),))
    human = {f: Key(still, "human") for f in (1001, 1021, 1039)}
    document = replace(model, shapes=(shape.with_keys({**noisy, **human}),))
    new = refit(model, document, {"seam": dict.fromkeys(FRAMES, 2.5)})["seam"]
    distance = {f: max(math.hypot(p.x - q.x, p.y - q.y) for p, q in zip(key.points, still)) for f, key in new.items()}
    before = [max(math.hypot(p.x - q.x, p.y - q.y) for p, q in zip(noisy[f].points, still)) for f in new]
    assert np.mean(list(distance.values())) < 0.7 * np.mean(before)


def test_a_spread_fades_out_towards_its_ends_and_leaves_the_rest() -> None:
    model = shot(wrong=5)
    new = spread(model, keyed(model, 1021), 1021, 1011, 1031)["seam"]
    assert set(new) == set(range(1011, 1032)) - {1021}
    assert apart(new[1022].points, 1022) < 0.01
    still_wrong = [apart(new[f].points, f) for f in (1023, 1027, 1029, 1031)]
    assert still_wrong == sorted(still_wrong)
    assert still_wrong[-1] > 0.8 * apart(model.shapes[0].keys[1031].points, 1031)


def test_a_spread_leaves_what_already_lies_as_its_key_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shift that is constant in a still face, and scales with the head on the plate, spreads to equal keys."""
    monkeypatch.setitem(globals(), "smile", lambda frame: 0.0)
    model, shape = shot(), shot(wrong=5 + 2j).shapes[0]
    edited = shape.with_keys({**shape.keys, 1021: replace(shape.keys[1021], source="human")})
    new = spread(model, replace(model, shapes=(edited,)), 1021, 1011, 1031)["seam"]
    for frame, key in new.items():
        np.testing.assert_allclose(key.points, shape.keys[frame].points, rtol=0, atol=1e-3)


def test_a_dragged_landmarks_frame_counts_as_corrected() -> None:
    model = shot(wrong=4)
    document = keyed(model, 1011)
    shape = document.shapes[0]
    followed = {**shape.keys, 1011: replace(shape.keys[1011], source="model")}
    marks = replace(document.landmarks, hand={1011: frozenset({"l0"})})
    document = replace(document, landmarks=marks, shapes=(shape.with_keys(followed),))
    assert apart(refit(model, document)["seam"][1009].points, 1009) < 1.0
    assert apart(model.shapes[0].keys[1009].points, 1009) > 4


def test_keys_where_the_face_was_lost_pull_nothing_beside_them() -> None:
    lost = range(1015, 1020)
    model = shot()
    shape, marks = model.shapes[0], model.landmarks
    model = replace(
        model,
        landmarks=replace(marks, keys={frame: row for frame, row in marks.keys.items() if frame not in lost}),
        shapes=(shape.with_keys({frame: key for frame, key in shape.keys.items() if frame not in lost}),),
    )
    assert refit(model, keyed(model, *lost)) == {}
    new = refit(model, keyed(model, *lost, 1001))["seam"]
    assert not set(new) & {*lost, 1001}
    assert max(apart(key.points, frame) for frame, key in new.items()) < 0.1


def test_a_spline_that_a_person_rebuilt_is_left_alone() -> None:
    model = shot(wrong=4)
    rebuilt = RotoShape("seam", False, "seam", {1001: Key((ControlPoint(0, 0), ControlPoint(1, 1)), "human")})
    assert refit(model, replace(model, shapes=(rebuilt,))) == {}


def test_a_shot_without_landmarks_gives_nothing() -> None:
    model = replace(shot(), landmarks=LandmarkKeys())
    assert refit(model, keyed(model, 1001)) == {}


def test_a_hold_is_neighbours_whose_landmarks_lie_exactly_alike() -> None:
    a, b, hidden = Landmark(1.0, 2.0, 0.5), Landmark(3.0, 4.0), None
    rows = {
        1009: (a, b),  # like 1001, but no neighbour
        1002: (a._replace(expected_error_px=0.0), b),
        1001: (a, b),
        1004: (a, hidden),
        1005: (a, hidden),
        1007: (a, b._replace(y=4.001)),
    }
    assert hold_starts(rows) == {1001: 1001, 1002: 1001, 1004: 1004, 1005: 1004, 1007: 1007, 1009: 1009}
    assert hold_starts({}) == {}


def test_the_proposed_reach_ends_where_the_face_changes_or_a_person_was() -> None:
    document = shot()
    assert propose(document, 1001)[1] == 1004
    assert propose(document, 1001, corrected={1004})[1] == 1002
    first, last = propose(document, 1011)
    assert first <= 1010
    assert last >= 1012
    assert last < 1040
    assert (first - 1001) % 2 == 0  # whole holds
    assert (last - 1001) % 2 == 1
