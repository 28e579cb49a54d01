"""Clone strokes: what is copied, how the brush fades, and what stays bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rotopaint_ai.errors import PlateError, UsageError
from rotopaint_ai.pipeline.render_frame import FilledRegion, SeamPart, Seams, apply_strokes
from rotopaint_ai.plates.plate import Frame
from rotopaint_ai.project import State
from rotopaint_ai.project.codecs import changes, pack, unpack
from rotopaint_ai.seams import strokes, touchup
from rotopaint_ai.seams.paint_settings import Paint
from rotopaint_ai.seams.strokes import Stroke

ORIGIN = (100, 50)


@pytest.fixture
def region() -> np.ndarray:
    """Each pixel stores its own column and row, with values above 1 and below 0 among them."""
    y, x = np.mgrid[0:40, 0:60].astype(np.float32)
    return np.stack([x, -y, x * y / 100], axis=2)


def frame_of(rgb: np.ndarray) -> Frame:
    """A frame whose data window is that region, in a larger display window."""
    return Frame(1001, rgb, ORIGIN, 200, 120, "linear", None, None, None, "")


def no_other(number: int) -> Frame:
    """A plate of one frame."""
    raise PlateError(f"frame {number} is not on disk")


def test_strokes_paint_outside_the_seams_region(region: np.ndarray) -> None:
    """The seam's region is the frame's left third; the stroke and what it copies lie right of it."""
    frame, own = frame_of(region), region[:, :20]
    matte = np.zeros((40, 20), np.float32)
    matte[:, 5:8] = 1.0
    curve = (np.array([[6.0, 0.0], [6.0, 40.0]]), np.array([1.5, 1.5]))
    seams = Seams(*ORIGIN, own, matte, (curve,), (SeamPart(matte, (curve,), Paint()),))
    painted = own + matte[..., None]
    stroke = Stroke(((140.5, 70.5),), dx=-8, dy=2, radius_px=4.0, hardness=0.5)
    filled = apply_strokes(frame, FilledRegion(seams, painted), (stroke,), no_other)
    assert filled is not None
    x, y = filled.seams.x, filled.seams.y
    at = np.s_[ORIGIN[1] - y : ORIGIN[1] - y + 40, ORIGIN[0] - x : ORIGIN[0] - x + 20]
    assert np.array_equal(filled.after[at], painted)
    assert np.array_equal(filled.after[70 - y, 140 - x], region[22, 32])
    assert filled.seams.matte[70 - y, 140 - x] == 1.0
    untouched = filled.seams.matte == 0
    whole = region[y - 50 : y - 50 + untouched.shape[0], x - 100 : x - 100 + untouched.shape[1]]
    assert np.array_equal(filled.after[untouched], whole[untouched])
    assert np.array_equal(filled.seams.curves[0][0], curve[0] + (ORIGIN[0] - x, ORIGIN[1] - y))


def test_strokes_paint_frames_that_show_no_seam(region: np.ndarray) -> None:
    frame = frame_of(region)
    filled = apply_strokes(frame, None, (Stroke(((130.5, 70.5),), dx=5, dy=0, radius_px=3.0),), no_other)
    assert filled is not None
    x, y = filled.seams.x, filled.seams.y
    assert (x, y, *filled.seams.matte.shape) == (127, 67, 8, 13)  # what is painted and copied, no more
    assert np.array_equal(filled.after[70 - y, 130 - x], region[20, 35])
    outside = Stroke(((190.5, 110.5),), dx=5, dy=0, radius_px=3.0)
    assert apply_strokes(frame, None, (outside,), no_other) is None  # no pixels there


def test_the_core_is_an_exact_copy_and_far_pixels_are_untouched(region: np.ndarray) -> None:
    stroke = Stroke(((120.5, 70.5),), dx=10, dy=-4, radius_px=6.0, hardness=0.5)
    out, cover = touchup.apply(region, ORIGIN, [stroke])
    assert np.array_equal(out[20, 20], region[16, 30])  # the centre copies what lies 10 right, 4 up
    assert np.array_equal(out[22, 22], region[18, 32])  # 2.8 px away: inside half of the radius
    far = np.hypot(*(np.mgrid[0:40, 0:60] - np.array([20, 20])[:, None, None])) >= 6.0
    assert np.array_equal(out[far], region[far])
    assert (cover[far] == 0).all()
    assert cover[20, 20] == 1.0


def test_the_rim_fades_by_half_a_cosine() -> None:
    """Half of the fade covers half: at 4.5 px between a core of 3 px and a radius of 6 px."""
    stroke = Stroke(((120.0, 70.5),), dx=1, dy=0, radius_px=6.0, hardness=0.5)
    cover = touchup.brush(stroke, (40, 60), ORIGIN)
    assert cover[20, 24] == pytest.approx(0.5, abs=1e-6)  # its centre is at 124.5
    assert touchup.brush(Stroke(((120.0, 70.5),), 1, 0, 6.0, 0.5, 0.25), (40, 60), ORIGIN).max() == 0.25


def test_a_way_is_covered_along_its_whole_length() -> None:
    stroke = Stroke(((110.0, 70.0), (140.0, 70.0), (140.0, 80.0)), dx=0, dy=5, radius_px=2.0, hardness=1.0)
    cover = touchup.brush(stroke, (40, 60), ORIGIN)
    assert cover[20, 10:40].min() == 1.0  # half a pixel below the path
    assert cover[20:30, 40].min() == 1.0
    assert cover[25, 20] == 0.0


def test_nothing_is_copied_from_outside(region: np.ndarray) -> None:
    out, cover = touchup.apply(region, ORIGIN, [Stroke(((102.0, 60.0),), dx=-30, dy=0, radius_px=5.0)])
    assert np.array_equal(out, region)
    assert not cover.any()


def test_touch_up_belongs_to_the_patch(region: np.ndarray) -> None:
    """plate * (1 - a) + premultiplied paint is the touched-up picture, under the stroke as under the seam's matte."""
    matte = np.zeros((40, 60), np.float32)
    matte[:, 5:8] = 0.7
    seams = Seams(*ORIGIN, region, matte, (), (SeamPart(matte, (), Paint()),))
    after = region + matte[..., None]
    stroke = Stroke(((130.0, 70.0),), dx=-4, dy=3, radius_px=6.0)
    frame = frame_of(region)
    filled = apply_strokes(frame, FilledRegion(seams, after), (stroke,), no_other)
    assert filled is not None
    alpha = filled.seams.cover
    assert (filled.seams.matte[20, 28:32] > 0).all()
    paint = filled.after - region * (1 - alpha[..., None])
    assert np.allclose(region * (1 - alpha[..., None]) + paint, filled.after)
    outside = filled.seams.matte == 0
    assert np.array_equal(filled.after[outside], region[outside])
    assert apply_strokes(frame, filled, (), no_other) is filled
    assert (filled.seams.x, filled.seams.y, filled.after.shape) == (*ORIGIN, region.shape)


def test_a_stroke_copies_another_frames_plate_and_nothing_where_it_has_no_pixels(region: np.ndarray) -> None:
    """Frame 1003 has other values, and lacks 10 px more on the left."""
    other = replace(frame_of(region[:, 10:] + 1000), number=1003, origin=(ORIGIN[0] + 10, ORIGIN[1]))
    stroke = Stroke(((130.5, 70.5),), dx=-4, dy=2, radius_px=5.0, hardness=1.0, source=1003)
    at_the_rim = Stroke(((112.5, 60.5),), dx=-4, dy=0, radius_px=3.0, hardness=1.0, source=1003)
    read: list[int] = []
    filled = apply_strokes(frame_of(region), None, (stroke, at_the_rim), lambda n: (read.append(n), other)[1])
    assert filled is not None
    x, y = filled.seams.x, filled.seams.y
    assert np.array_equal(filled.after[70 - y, 130 - x], region[22, 26] + 1000)
    assert np.array_equal(filled.after[60 - y, 113 - x], region[10, 13])  # its source, 109, is missing: unchanged
    assert np.array_equal(filled.after[60 - y, 114 - x], region[10, 10] + 1000)
    assert filled.seams.matte[60 - y, 113 - x] == 0
    assert read == [1003]
    with pytest.raises(PlateError, match="frame 1001: a clone stroke copies frame 1003, which cannot be read"):
        apply_strokes(frame_of(region), None, (stroke,), no_other)


def test_plate_and_clean_plate_are_brought_back_to_the_bit(region: np.ndarray) -> None:
    """A clone over the paint, then a half-opaque stroke from the clean plate, and one from the plate."""
    matte = np.ones((40, 60), np.float32)
    painted = region / np.float32(3) + np.float32(0.1)
    seams = Seams(*ORIGIN, region, matte, (), (SeamPart(matte, (), Paint()),))
    clone = Stroke(((110.5, 70.5), (150.5, 70.5)), dx=0, dy=9, radius_px=4.0, hardness=1.0)
    clean = Stroke(((115.5, 70.5),), 0, 0, radius_px=4.0, hardness=1.0, source="clean")
    plate = Stroke(((145.5, 70.5),), 0, 0, radius_px=4.0, hardness=1.0, source="plate")
    faint = Stroke(((130.5, 50.5),), 0, 0, radius_px=2.0, hardness=1.0, opacity=0.25, source="plate")
    filled = apply_strokes(frame_of(region), FilledRegion(seams, painted), (clone, clean, plate, faint), no_other)
    assert filled is not None
    assert np.array_equal(filled.after[20, 13:18], painted[20, 13:18])
    assert np.array_equal(filled.after[20, 43:48], region[20, 43:48])
    assert np.array_equal(filled.after[20, 30], painted[29, 30])
    assert np.allclose(filled.after[0, 30], 0.75 * painted[0, 30] + 0.25 * region[0, 30])


def test_strokes_come_back_from_file_and_project_as_they_were(tmp_path: Path) -> None:
    kept = {1001: (Stroke(((1.25, 2.5), (3.0, 4.0)), 5, -6, 7.5, 0.25, 0.5),), 1002: (Stroke(((0.0, 0.0),), 1, 1),)}
    kept[1003] = tuple(Stroke(((0.0, 0.0),), 1, 1, source=source) for source in (1001, "plate", "clean"))
    (tmp_path / "t.json").write_text(strokes.dumps(kept))
    assert strokes.read(tmp_path / "t.json") == kept
    assert unpack("stroke", pack("stroke", kept[1001])) == kept[1001]
    places = {place.frame: value for place, value in changes(State(), State(strokes=kept))}
    assert places == kept


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"1001": [{"points": [[1]], "dx": 0, "dy": 0}]}', '{"1001": [{"points": [], "dx": 1, "dy": 1}]}'],
)
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"t\.json") as refused:
        strokes.read(path)
    assert "\n" not in str(refused.value)
    path.unlink()
    with pytest.raises(UsageError, match=r"t\.json: cannot be read \(No such file or directory\); check the path$"):
        strokes.read(path)


def test_absurd_strokes_are_refused() -> None:
    for radius, hardness in ((0.0, 0.5), (1e6, 0.5), (5.0, 2.0), (float("nan"), 0.5)):
        with pytest.raises(UsageError):
            Stroke(((1.0, 1.0),), 1, 1, radius, hardness)
    with pytest.raises(UsageError, match="wanted a frame, plate, clean or null"):
        strokes.from_json({"points": [[1, 1]], "dx": 0, "dy": 0, "source": "1001"})
    with pytest.raises(UsageError):
        Stroke(((float("nan"), 1.0),), 1, 1)
    for share in (-0.1, 1.1):
        with pytest.raises(UsageError, match="shares from 0 to 1"):
            Stroke(((1.0, 1.0),), 1, 1, 5.0, share)
        with pytest.raises(UsageError, match="shares from 0 to 1"):
            Stroke(((1.0, 1.0),), 1, 1, 5.0, 0.5, opacity=share)
