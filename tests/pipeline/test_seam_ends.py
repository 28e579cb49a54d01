"""Where a shot's seams end: votes of its holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rotopaint_ai.crops import Crop
from rotopaint_ai.pipeline.seam_ends import CurveInHold, agreed_end, read_ends, seen_end, with_agreed_ends
from rotopaint_ai.seams.path import N_OFFSETS
from rotopaint_ai.seams.placement import PICTURE_PX, SeamLook, places_along
from rotopaint_ai.shapes.head_bundle import Head, HeadBuild
from rotopaint_ai.shapes.head_cameras import BALL, Cameras
from rotopaint_ai.shapes.head_marks import NO_MARKS
from rotopaint_ai.shapes.samples import point_numbers, spline_points

AT = np.linspace(-1.0, 4.0, 26)  # of a curve of four segments, five pairs to each
LINE = np.array([[100.0, 100 + 50 * k, 0, -15, 0, 15] for k in range(5)])


def hidden_before(end: float, *, sure: float = 1.0) -> np.ndarray:
    return np.where(end > AT, 0.5 + 0.5 * sure, 0.5 - 0.5 * sure)


@pytest.mark.parametrize("end", [-0.4, 0.0, 1.3, 1.5])
def test_an_end_is_seen_where_a_seam_begins(end: float) -> None:
    found = seen_end(AT, hidden_before(end), 4)
    assert found == pytest.approx(end, abs=0.11)


@pytest.mark.parametrize(
    "hidden",
    [
        np.zeros(26),  # it goes on as far as the strip
        np.ones(26),  # covered by hair
        hidden_before(0.3, sure=0.2),  # a faint one
        hidden_before(1.9),  # so much of it is covered rather than missing
        hidden_before(2.5),
        np.where((AT > 0.3) & (AT < 0.9), 0.0, 1.0),  # a wrinkle shorter than any seam
    ],
)
def test_an_end_that_is_not_clear_has_no_vote(hidden: np.ndarray) -> None:
    assert seen_end(AT, hidden, 4) is None


class FaintPastEnds:
    """A network that sees a seam, and takes the skin past its ends for a faint one."""

    zooms = (1,)

    def features(self, picture: np.ndarray) -> None:
        return None

    def __call__(self, strips: np.ndarray) -> np.ndarray:
        n_pairs = strips.shape[1] // 2
        hidden = np.where(np.abs(np.arange(n_pairs) - 19) > 13, 0.3, 0.02)  # a curve of 27 pairs, 6 past either end
        logits = np.zeros((1, n_pairs, N_OFFSETS + 1), np.float32)
        logits[0, :, -1] = np.log(N_OFFSETS * hidden / (1 - hidden))
        return logits


def test_a_seam_ends_where_it_is_seen_less_than_before() -> None:
    picture = np.zeros((PICTURE_PX, PICTURE_PX, 3), np.uint8)
    look = SeamLook(np.zeros((400, 400), np.float16), 0, 0, 1.0, picture, Crop(100, 200, 390))
    read = read_ends({"side": spline_points(LINE)}, look, 300.0, FaintPastEnds())["side"]
    at = read.places.pairs.at
    assert seen_end(at, read.hidden, 4) == pytest.approx(0.0, abs=0.15)
    assert seen_end(4 - at[::-1], read.hidden[::-1], 4) == pytest.approx(0.0, abs=0.15)
    assert seen_end(at, np.where(read.hidden > 0.5, 0.3, 0.02), 4) is None  # as the network has it


def test_holds_that_face_the_camera_outvote_outlines() -> None:
    votes, facing = [1.0] * 5 + [-0.3] * 7, np.array([0.9] * 5 + [0.3] * 7)
    assert agreed_end(votes, facing) == 1.0
    assert agreed_end(votes, facing[::-1]) == -0.3
    assert agreed_end([*[None] * 10, 1.0, 1.0], np.ones(12)) == 0.0  # two are too few
    assert agreed_end([1.0] * 12, np.full(12, 0.1)) == 0.0  # none of them faces it


def head_of(n_holds: int) -> tuple[Head, np.ndarray]:
    """Two curves on a head that does not move: LINE, and one that ends on it. Returns the second one's points, too."""
    other = np.array([[100.0 + 40 * k, 200.0, -10, 0, 10, 0] for k in range(3)])
    flat = np.concatenate([spline_points(LINE), spline_points(other)])
    points = np.stack([(flat.real - 100) / 100, (flat.imag - 200) / 100, np.zeros(len(flat))], 1)
    points[:, 2] = np.sqrt(np.maximum(BALL**2 - (points[:, :2] ** 2).sum(axis=1), 0.1)) - BALL
    cameras = Cameras(
        np.full(n_holds, 100.0), np.tile(np.eye(3), (n_holds, 1, 1)), np.tile([100.0, 200.0], (n_holds, 1))
    )
    return Head(cameras, points, points, points, (slice(0, 15), slice(15, 24)), NO_MARKS), other


def test_a_seam_ends_where_the_holds_agree() -> None:
    head, other = head_of(4)
    curves = [{"side": spline_points(LINE), "bridge": spline_points(other)} for _ in range(4)]
    found = []
    for name, points in (("side", LINE), ("bridge", other)):
        places = places_along(points, 4.0, 6)
        assert places is not None
        at = places.pairs.at
        first = 0.8 if name == "side" else 0.5
        found.append((name, CurveInHold(places, np.where((at > first) & (at < 10), 0.05, 0.95))))
    readings = [dict(found), dict(found), dict(found), {}]  # the last one could not be read
    moved = with_agreed_ends(head, ("side", "bridge"), HeadBuild(None, (), ((1, 0, 0),)), curves, readings)
    for hold in moved[:3]:
        np.testing.assert_allclose(point_numbers(hold["side"])[0, :2], (100, 140), atol=4.0)
        np.testing.assert_allclose(
            point_numbers(hold["side"])[-1, :2], (100, 300), atol=0.5
        )  # seen as far as the strip
        np.testing.assert_allclose(hold["bridge"], spline_points(other))  # it ends on the other one
    np.testing.assert_allclose(moved[3]["side"], spline_points(LINE))


@pytest.mark.parametrize("is_reversed", [False, True])
def test_one_side_shows_where_the_other_ends(is_reversed: bool) -> None:
    head, _ = head_of(3)
    head = replace(head, curves=(slice(0, 15), slice(0, 15)))
    places = places_along(LINE, 4.0, 6)
    assert places is not None
    at = places.pairs.at
    shown = CurveInHold(places, np.where(at > 0.8, 0.05, 0.95))
    covered = CurveInHold(places, np.full(len(at), 0.9))
    curves = [{"right": spline_points(LINE), "left": spline_points(LINE)} for _ in range(3)]
    build = HeadBuild(None, ((0, 1, is_reversed),), ())
    moved = with_agreed_ends(head, ("right", "left"), build, curves, [{"right": shown, "left": covered}] * 3)
    for hold in moved:
        right, left = (point_numbers(hold[name])[:, :2] for name in ("right", "left"))
        np.testing.assert_allclose(right[[0, -1]], [(100, 140), (100, 300)], atol=4.0)
        np.testing.assert_allclose(left[[0, -1]], [(100, 100), (100, 260)] if is_reversed else right[[0, -1]], atol=4.0)


def test_what_cannot_be_read_has_no_ends() -> None:
    assert read_ends({"side": spline_points(LINE)}, None, 300.0, lambda strips: strips) == {}  # type: ignore[arg-type]


def test_how_far_a_place_faces_the_camera() -> None:
    turned = np.array([[[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]]])  # by a quarter about the vertical axis
    cameras = Cameras(np.ones(2), np.concatenate([np.eye(3)[None], turned]), np.zeros((2, 2)))
    facing = cameras.facing(np.array([[0.0, 0, 0], [BALL, 0, -BALL], [-BALL, 0, -BALL]]))
    np.testing.assert_allclose(facing, [[1, 0, 0], [0, -1, 1]], atol=1e-9)
