"""A shot taught by a few corrections."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from rotopaint_ai.crops import around
from rotopaint_ai.errors import UsageError
from rotopaint_ai.pipeline.teach import ReadHold, ShotReading, Taught, Witnesses, read_anew, teach
from rotopaint_ai.seams.placement import look
from rotopaint_ai.shapes.bezier import as_points, sample
from rotopaint_ai.shapes.refit import splines_of
from rotopaint_ai.shapes.roto import Key, Landmark, LandmarkKeys, RotoDocument, RotoShape
from rotopaint_ai.shapes.samples import open_curve_distance, spline_points
from rotopaint_ai.shapes.shot_solver import head_poses
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet

FRAMES = range(1001, 1013)
NAMES = tuple(f"p{k}" for k in range(12))
SHEET = Sheet(
    "face",
    tuple(map(LandmarkSpec, NAMES)),
    (ShapeSpec("seam", closed=False, role="seam", n_points=3, width_share=0.03),),
)
FACE = 60 * np.exp(2j * np.pi * np.arange(12) / 12) * (1 + 0.2 * np.cos(np.arange(12)))
CURVE = np.array([(-40, 10, 0, 0, 14, 5), (0, 20, -14, 0, 14, 0), (40, 10, -14, 5, 0, 0)], float)


def placed(frame: int) -> complex:
    return 100 + 2.5 * (frame - 1001) + 100j


def true_curve(frame: int, off: tuple[float, float] = (0, 0)) -> np.ndarray[Any, Any]:
    points = CURVE.copy()
    points[:, :2] += (placed(frame).real + off[0], placed(frame).imag + off[1])
    return points


def picture(frame: int) -> np.ndarray[Any, Any]:
    """A grey plate with the seam as a thin dark line."""
    line = sample(true_curve(frame), False, spacing=0.5)
    rows, columns = np.mgrid[:200, :240] + 0.5
    near = np.min((columns[..., None] - line[:, 0]) ** 2 + (rows[..., None] - line[:, 1]) ** 2, axis=2)
    grey = 0.5 - 0.3 * np.exp(-near / 2)
    return np.repeat(grey[..., None], 3, axis=2).astype(np.float32)


@pytest.fixture(scope="module")
def looks() -> dict[int, Any]:
    return {frame: picture(frame) for frame in FRAMES}


def shot(looks: dict[int, Any], off: dict[int, tuple[float, float]]) -> tuple[ShotReading, RotoDocument]:
    """A shot whose models are `off` by so much in each frame, and what they said."""
    holds, marks, keys = [], {}, {}
    for frame in FRAMES:
        points, said = FACE + placed(frame), true_curve(frame, off.get(frame, (0, 0)))
        at = np.stack([points.real, points.imag], 1)
        seen = look(looks[frame], 0, 0, around(at, margin=1.3), lambda rgb: rgb)
        face = around(at, margin=1.0).side
        holds.append(
            ReadHold(points, np.full(12, 2.0), np.ones(12), {"seam": spline_points(said)}, {"seam": 4.0}, face, seen)
        )
        marks[frame], keys[frame] = tuple(Landmark(float(x), float(y), 2.0) for x, y in at), Key(as_points(said))
    models = cast(Any, SimpleNamespace(pack=SimpleNamespace(sheet=SHEET), find_seams=None))
    heads = head_poses(np.array([hold.points_L for hold in holds]), np.array(FRAMES, float))
    reading = ShotReading(models, holds, {frame: row for row, frame in enumerate(FRAMES)}, heads)
    shape = RotoShape("seam", False, "seam", keys, width_px=4.0)
    return reading, RotoDocument(240, 200, 1001, 1012, landmarks=LandmarkKeys(NAMES, marks), shapes=(shape,))


def corrected(document: RotoDocument, *frames: int) -> RotoDocument:
    (shape,) = document.shapes
    keys = {frame: Key(as_points(true_curve(frame)), "human") for frame in frames}
    return RotoDocument(
        240, 200, 1001, 1012, landmarks=document.landmarks, shapes=(shape.with_keys({**shape.keys, **keys}),)
    )


def error(taught: Taught, document: RotoDocument, frame: int) -> float:
    (shape,) = document.shapes
    shape = shape.with_keys({**shape.keys, **taught.keys["seam"]})
    return open_curve_distance(splines_of(shape, [frame])[0], spline_points(true_curve(frame)))


def test_one_correction_puts_the_other_frames_right(looks: dict[int, Any]) -> None:
    reading, said = shot(looks, dict.fromkeys(FRAMES, (3.0, 9.0)))
    document = corrected(said, 1004)
    taught = teach(reading, said, document, {"seam": dict.fromkeys(FRAMES, 9.0)})
    assert max(error(taught, document, frame) for frame in FRAMES if frame != 1004) < 1.0
    assert 1004 not in taught.keys["seam"]
    assert taught.n_moved == 11
    assert {key.source for key in taught.keys["seam"].values()} == {"propagated"}


def test_a_frame_that_was_wrong_alone_moves_no_other(looks: dict[int, Any]) -> None:
    reading, said = shot(looks, {1006: (2.0, 12.0)})
    taught = teach(reading, said, corrected(said, 1006))
    (shape,) = said.shapes
    still = {frame: key for frame, key in shape.keys.items() if frame != 1006}
    assert taught.keys["seam"] == still
    assert taught.n_moved == 0


def test_where_corrections_contradict_each_other_nothing_moves(looks: dict[int, Any]) -> None:
    """Solved without its own correction, each corrected frame comes out worse than the models had it."""
    reading, said = shot(looks, {})
    (shape,) = said.shapes
    odd = {f: Key(as_points(true_curve(f, (0, 14.0 * (-1) ** f))), "human") for f in (1003, 1004, 1009)}
    document = replace(said, shapes=(shape.with_keys({**shape.keys, **odd}),))
    taught = teach(reading, said, document)
    assert taught.n_moved == 0


def level(height: float) -> np.ndarray[Any, Any]:
    """A straight seam, so that distances are differences of heights."""
    return spline_points(
        np.array([(0, height, 0, 0, 9, 0), (30, height, -9, 0, 9, 0), (60, height, -9, 0, 0, 0)], float)
    )


@pytest.mark.parametrize(
    ("head", "solved", "far_px", "agree"),
    [
        (2.9, 4.0, 10.0, True),  # 4 px away from the present one; from the head 1.1 px and 0.12 for each px of pose
        (2.9, 4.0, 24.0, True),
        (2.9, 4.0, 24.5, False),
        (2.9, 2.1, 10.0, True),
        (2.9, 1.9, 10.0, False),  # the shot as a whole has it nearer to where it is
        (1.9, 4.0, 0.0, True),
        (-0.1, 4.0, 0.0, False),
    ],
)
def test_a_seam_moves_where_both_witnesses_bear_it_out(head: float, solved: float, far_px: float, agree: bool) -> None:
    witnesses = Witnesses(level(head), level(solved), far_px)
    assert witnesses.agree(level(4.0), level(0.0)) == agree


def test_a_shot_whose_every_frame_is_keyed_is_left_as_it_is(looks: dict[int, Any]) -> None:
    reading, said = shot(looks, dict.fromkeys(FRAMES, (1.0, 4.0)))
    taught = teach(reading, said, corrected(said, *FRAMES))
    assert taught.keys["seam"] == {}
    assert taught.n_moved == 0


def test_without_a_correction_there_is_nothing_to_learn(looks: dict[int, Any]) -> None:
    reading, said = shot(looks, {})
    with pytest.raises(UsageError, match="no shape has a human key"):
        teach(reading, said, said)


def test_what_taught_models_read_takes_the_place_of_what_the_run_said(looks: dict[int, Any]) -> None:
    """But not in a pose far from every corrected one, which is named as doubtful."""
    reading, _ = shot(looks, {})
    _, said = shot(looks, dict.fromkeys(FRAMES, (3.0, 9.0)))
    last = reading.holds[-1]
    turned = placed(1012) + (last.points_L - placed(1012)).real * 0.3 + 1j * (last.points_L - placed(1012)).imag
    holds = [*reading.holds[:-1], replace(last, points_L=turned)]
    heads = head_poses(np.array([hold.points_L for hold in holds]), np.array(FRAMES, float))
    reading = replace(reading, holds=holds, heads=heads)
    document = corrected(said, 1002, 1004, 1008)
    taught = read_anew(reading, said, document, {"seam": dict.fromkeys(FRAMES, 9.0)})
    near = [frame for frame in FRAMES if frame not in (1002, 1004, 1008, 1012)]
    assert max(error(taught, document, frame) for frame in near) < 1.0
    assert taught.keys["seam"][1012] == said.shape("seam").keys[1012]
    assert taught.doubtful["seam"] == (1012,)
    assert taught.errors["seam"][1012] > 5 > max(taught.errors["seam"][frame] for frame in near)
    assert not {1002, 1004, 1008} & taught.keys["seam"].keys()
