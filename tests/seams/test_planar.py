"""A plane that moves by a known map, and the shape that follows it."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from rotopaint_ai.errors import PlateError, UsageError
from rotopaint_ai.plates import open_plate
from rotopaint_ai.seams.planar import follow_group, follow_plane, move_by
from rotopaint_ai.shapes.roto import ControlPoint, Key, Points, RotoShape, feather_line, feather_rows

WIDTH, HEIGHT = 320, 240
FRAMES = tuple(range(1001, 1013))
BADGE: Points = tuple(ControlPoint(x, y, -4, 1, 4, -1) for x, y in ((110, 80), (190, 84), (186, 150), (106, 146)))


def motion(frame: int) -> np.ndarray:
    """A rotation by 1.5 degrees per frame, with a shift, a scale and some perspective."""
    t = frame - 1001
    turn = cv2.getRotationMatrix2D((150.0, 115.0), 1.5 * t, 1.0 + 0.01 * t)
    made = np.vstack([turn, (2e-5 * t, -1e-5 * t, 1.0)])
    made[:2, 2] += (2.5 * t, -1.5 * t)
    return made


@pytest.fixture
def plates(tmp_path: Path) -> str:
    """A textured plane over a static background; a dark hand covers it at frame 1008."""
    draw = np.random.default_rng(5)
    texture = cv2.GaussianBlur(draw.uniform(20, 235, (HEIGHT, WIDTH)).astype(np.float32), (0, 0), 2.0)
    texture = cv2.normalize(texture, None, 20, 235, cv2.NORM_MINMAX)
    still = cv2.GaussianBlur(draw.uniform(20, 235, (HEIGHT, WIDTH)).astype(np.float32), (0, 0), 3.0)
    plane = np.zeros((HEIGHT, WIDTH), np.uint8)
    cv2.rectangle(plane, (90, 60), (210, 170), 255, -1)
    for frame in FRAMES:
        moved = cv2.warpPerspective(texture, motion(frame), (WIDTH, HEIGHT), flags=cv2.INTER_CUBIC)
        inside = cv2.warpPerspective(plane, motion(frame), (WIDTH, HEIGHT)) > 127
        picture = np.where(inside, moved, still) + draw.normal(0, 1.5, (HEIGHT, WIDTH))
        cv2.imwrite(str(tmp_path / f"p.{frame}.png"), np.clip(picture, 0, 255).astype(np.uint8))
    return str(tmp_path / "p.####.png")


def off(points: Points, frame: int) -> float:
    """The largest distance of a control point or tangent end from where the map puts it."""
    exact = move_by(BADGE, motion(frame))
    ends = [np.array([[p.x, p.y, p.x + p.in_dx, p.y + p.in_dy] for p in each]) for each in (points, exact)]
    return float(np.abs(ends[0] - ends[1]).max())


def badge(*frames: int) -> RotoShape:
    keys = {frame: Key(move_by(BADGE, motion(frame)), "human") for frame in frames}
    return RotoShape("badge", True, keys=keys)


@pytest.mark.parametrize("key", [1001, 1006])
def test_a_shape_follows_its_plane_from_one_key_both_ways(plates: str, key: int) -> None:
    reported: list[tuple[int, int]] = []
    found = follow_plane(badge(key), FRAMES, open_plate(plates), progress=lambda *step: reported.append(step))
    assert sorted(found.points) == [frame for frame in FRAMES if frame != key]
    assert max(off(points, frame) for frame, points in found.points.items()) < 0.35
    assert (found.lost, found.unsure) == ((), {})
    assert reported[-1] == (len(FRAMES) - 1, len(FRAMES) - 1)


def test_several_shapes_share_a_plane(plates: str) -> None:
    """Two halves of the badge, tracked together from a frame in the middle; neither half can be tracked alone."""
    left = RotoShape("left", True, keys={1006: Key(move_by(HALVES[0], motion(1006)), "human")})
    right = RotoShape("right", True, keys={1006: Key(move_by(HALVES[1], motion(1006)), "human")})
    found = follow_group([left, right], 1006, FRAMES, open_plate(plates))
    assert sorted(found.homographies) == list(FRAMES)
    assert (found.lost, found.unsure) == ((), {})
    assert (found.homographies[1006] == np.eye(3)).all()
    start = move_by(BADGE, motion(1006))
    assert max(off(move_by(start, h), frame) for frame, h in found.homographies.items()) < 0.35
    with pytest.raises(UsageError, match="left: 23 pixels at frame 1006 show nothing to follow"):
        follow_group([left], 1006, FRAMES, open_plate(plates), away=[badge(1006)])  # what sticks out


HALVES = [
    tuple(ControlPoint(x, y) for x, y in ((110, 80), (145, 82), (145, 148), (106, 146))),
    tuple(ControlPoint(x, y) for x, y in ((150, 82), (190, 84), (186, 150), (150, 148))),
]


def test_a_lost_surface_gets_no_place(plates: str) -> None:
    """From 1007 on the plate shows something else; the shape must not jump to anything found there."""
    draw = np.random.default_rng(9)
    for frame in range(1007, 1010):
        other = cv2.GaussianBlur(draw.uniform(0, 255, (HEIGHT, WIDTH)).astype(np.float32), (0, 0), 1.0 + frame % 3)
        other = cv2.normalize(other, None, 0, 255, cv2.NORM_MINMAX).astype(np.uint8)
        cv2.imwrite(plates.replace("####", str(frame)), other)
    found = follow_plane(badge(1001), FRAMES[:9], open_plate(plates))
    assert found.lost == (1007, 1008, 1009)
    assert sorted(found.points) == list(range(1002, 1007))


def smooth(draw: np.random.Generator, px: float) -> np.ndarray:
    """A texture from 0 to 1."""
    made = cv2.GaussianBlur(draw.uniform(0, 1, (HEIGHT, WIDTH)).astype(np.float32), (0, 0), px)
    return cv2.normalize(made, None, 0, 1, cv2.NORM_MINMAX)


def write_plain(plates: str, detail: float) -> None:
    """Skin under static light, with grain; its detail moves with the plane."""
    draw = np.random.default_rng(11)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    light = 120 + 60 * np.exp(-((x - 140.0) ** 2 + (y - 100.0) ** 2) / (2 * 60**2))
    skin = smooth(draw, 2.5) * detail
    for frame in FRAMES:
        moved = cv2.warpPerspective(skin, motion(frame), (WIDTH, HEIGHT), flags=cv2.INTER_CUBIC)
        picture = light + moved + draw.normal(0, 1.5, (HEIGHT, WIDTH))
        cv2.imwrite(plates.replace("####", str(frame)), np.clip(picture, 0, 255).astype(np.uint8))


def test_plain_skin_under_a_light_is_not_taken_as_found(plates: str) -> None:
    """The shading looks the same wherever the plane goes; a plain correlation accepted it, and drifted."""
    write_plain(plates, detail=0.0)
    found = follow_plane(badge(1001), FRAMES[:4], open_plate(plates))
    assert not set(FRAMES[1:4]) - set(found.lost) - found.unsure.keys()
    write_plain(plates, detail=60.0)
    found = follow_plane(badge(1001), FRAMES[:4], open_plate(plates))
    assert (found.lost, found.unsure) == ((), {})
    assert max(off(points, frame) for frame, points in found.points.items()) < 0.6


def test_faint_detail_gives_a_large_expected_error(plates: str) -> None:
    """Eight grey levels of detail under grain of 1.5: found, but not to a pixel."""
    write_plain(plates, detail=8.0)
    found = follow_plane(badge(1001), FRAMES[:4], open_plate(plates))
    assert found.lost == ()
    assert found.unsure
    for frame, px in found.unsure.items():
        assert 1.5 < px < 8
        assert off(found.points[frame], frame) < 2 * px


def test_along_stripes_nothing_is_taken_as_found(plates: str) -> None:
    """Stripes that move along themselves look static."""
    draw = np.random.default_rng(13)
    x = np.arange(WIDTH) + np.zeros((HEIGHT, 1))
    for k, frame in enumerate(FRAMES[:6]):
        picture = 120 + 60 * np.sin(x / 4 - 0.3 * k) + draw.normal(0, 1.5, x.shape)
        cv2.imwrite(plates.replace("####", str(frame)), picture.astype(np.uint8))
    found = follow_plane(badge(1001), FRAMES[:6], open_plate(plates))
    assert set(FRAMES[1:6]) == found.unsure.keys() | set(found.lost)


def test_a_partial_occluder_does_not_move_the_track(plates: str) -> None:
    for k, frame in enumerate(FRAMES[:5]):
        picture = cv2.imread(plates.replace("####", str(frame)))
        picture[:, 215 - 6 * k :] = 40
        cv2.imwrite(plates.replace("####", str(frame)), picture)
    found = follow_plane(badge(1001), FRAMES[:5], open_plate(plates))
    assert (found.lost, found.unsure) == ((), {})
    assert max(off(points, frame) for frame, points in found.points.items()) < 0.6


def test_a_light_that_changes_does_not_matter(plates: str) -> None:
    shade = np.linspace(1.0, 0.4, WIDTH)
    for k, frame in enumerate(FRAMES):
        picture = cv2.imread(plates.replace("####", str(frame))) * (1 - k / 11 + k / 11 * shade)[None, :, None]
        cv2.imwrite(plates.replace("####", str(frame)), picture.astype(np.uint8))
    found = follow_plane(badge(1001), FRAMES, open_plate(plates))
    assert (found.lost, found.unsure) == ((), {})
    assert max(off(points, frame) for frame, points in found.points.items()) < 0.6


def test_a_feather_line_turns_with_its_plane(plates: str) -> None:
    """The feather line is mapped like the points: at 1012 the plane is rotated by 16.5 degrees, 8.5 px at 30 px."""
    rows = tuple(ControlPoint(x, y) for x, y in ((-30, 0), (0, -30), (30, 0), (0, 30)))
    shape = RotoShape("badge", True, keys={1001: Key(BADGE, "human", feather=rows)})
    found = follow_plane(shape, FRAMES, open_plate(plates))
    exact = feather_rows(move_by(BADGE, motion(1012)), move_by(feather_line(BADGE, rows), motion(1012)))
    for row, right in zip(found.feathers[1012], exact, strict=True):
        assert (row.x, row.y) == pytest.approx((right.x, right.y), abs=0.5)
    assert abs(exact[0].y) > 8
    assert set(follow_plane(badge(1001), FRAMES[:2], open_plate(plates)).feathers.values()) == {()}


def test_between_keys_it_leads_from_one_to_the_other(plates: str) -> None:
    shape = badge(1001, 1011)
    pushed = tuple(p._replace(x=p.x + 6.0) for p in shape.keys[1011].points)  # a manual correction, exact or not
    found = follow_plane(shape.with_keys({**shape.keys, 1011: Key(pushed, "human")}), FRAMES, open_plate(plates))
    for frame in range(1002, 1011):  # the share of the correction grows evenly towards its key
        exact, share = move_by(BADGE, motion(frame)), (frame - 1001) / 10
        assert found.points[frame][0].x - exact[0].x == pytest.approx(6.0 * share, abs=0.5)
    assert found.points[1012][0].x - move_by(BADGE, motion(1012))[0].x == pytest.approx(6.0, abs=0.6)


def test_a_lost_plane_is_reported_and_hold_outs_are_not_followed(plates: str, tmp_path: Path) -> None:
    for frame in range(1008, 1013):
        path = plates.replace("####", str(frame))
        picture = cv2.imread(path)
        picture[:] = 128
        cv2.imwrite(path, picture)
    found = follow_plane(badge(1001), FRAMES, open_plate(plates))
    assert found.lost == (1008, 1009, 1010, 1011, 1012)
    cover = RotoShape(
        "all", True, keys={1001: Key(tuple(ControlPoint(*c) for c in ((0, 0), (320, 0), (320, 240), (0, 240))))}
    )
    with pytest.raises(UsageError, match="badge: 0 pixels at frame 1001"):
        follow_plane(badge(1001), FRAMES, open_plate(plates), away=[cover])


def test_a_damaged_frame_does_not_sink_the_others(plates: str) -> None:
    Path(plates.replace("####", "1005")).write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    found = follow_plane(badge(1001), FRAMES, open_plate(plates))
    assert sorted(found.points) == [frame for frame in FRAMES[1:] if frame != 1005]
    assert found.lost == (1005,)
    assert off(found.points[1012], 1012) < 0.35
    with pytest.raises(PlateError, match="1005"):
        follow_plane(badge(1001), (1001, 1005), open_plate(plates))


def test_an_open_shape_is_followed_by_what_lies_around_it(plates: str) -> None:
    line = (ControlPoint(120, 100), ControlPoint(150, 110), ControlPoint(180, 120))
    shape = RotoShape("edge", False, "seam", {1001: Key(line, "human")})
    found = follow_plane(shape, FRAMES[:6], open_plate(plates))
    exact = move_by(line, motion(1006))
    assert max(abs(a.x - b.x) + abs(a.y - b.y) for a, b in zip(found.points[1006], exact)) < 0.6


def test_a_shape_without_a_key_by_hand_is_refused(plates: str) -> None:
    nobody = RotoShape("badge", True, keys={1001: Key(BADGE)})
    with pytest.raises(UsageError, match="set a key by hand"):
        follow_plane(nobody, FRAMES, open_plate(plates))


def test_a_plane_that_jumps_farther_than_corners_are_followed_is_found_again(plates: str) -> None:
    fine = np.random.default_rng(17).uniform(0, 255, (HEIGHT, WIDTH)).astype(np.float32)
    fine = cv2.normalize(cv2.GaussianBlur(fine, (0, 0), 1.2), None, 20, 235, cv2.NORM_MINMAX).astype(np.uint8)
    for frame, (right, down) in ((1001, (0, 0)), (1002, (34, -23)), (1003, (4, 9))):
        cv2.imwrite(plates.replace("####", str(frame)), np.roll(fine, (down, right), (0, 1)))
    found = follow_plane(badge(1001), FRAMES[:3], open_plate(plates))
    for frame, (right, down) in ((1002, (34, -23)), (1003, (4, 9))):
        for point, start in zip(found.points[frame], BADGE, strict=True):
            assert (point.x - start.x, point.y - start.y) == pytest.approx((right, down), abs=0.3)
