"""The timeline: places on its axis, what its strips show, the bracket under the mouse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage, QPainter
from pytestqt.qtbot import QtBot

from rotopaint_ai.project.state import CropBox
from rotopaint_ui.drawing.ramp import doubt_colour
from rotopaint_ui.engine.frame_cache import FrameCache
from rotopaint_ui.session.error_scale import ErrorScale, scale_of
from rotopaint_ui.session.session import ShotSession
from rotopaint_ui.session.shot_files import PlateFacts
from rotopaint_ui.session.spread_reach import SpreadReach
from rotopaint_ui.timeline import header_strips
from rotopaint_ui.timeline.axis import LEFT, RIGHT, Axis
from rotopaint_ui.timeline.error_strip import BARS, SETTLED, columns, paint_bars
from rotopaint_ui.timeline.key_strip import KEYS, key_sources
from rotopaint_ui.timeline.reach_strip import end_at
from rotopaint_ui.timeline.timeline import Timeline

from .conftest import move_points

BUTTON = Qt.MouseButton.LeftButton


@pytest.fixture
def timeline(qtbot: QtBot, session: ShotSession) -> Timeline:
    timeline = Timeline(session, FrameCache())
    qtbot.addWidget(timeline)
    timeline.refresh()
    timeline.resize(660, timeline.sizeHint().height())
    timeline.show()
    return timeline


def test_frames_have_places_and_holes_are_reported(qtbot: QtBot, timeline: Timeline) -> None:
    for frame in range(1001, 1007):
        assert timeline.frame_at(timeline.x_of(frame) + 1) == frame
    with qtbot.waitSignal(timeline.frame_wanted, timeout=120_000) as asked:
        qtbot.mouseClick(timeline, BUTTON, pos=QPoint(int(timeline.x_of(1003)) + 5, 40))
    assert asked.args == [1003]
    assert "not on disk" in timeline.tip(1004)
    assert "expected error 2.00 px" in timeline.tip(1003)
    assert "face not found" in timeline.tip(1006)


def test_the_axis_magnifies_about_the_mouse_and_never_leaves_the_shot() -> None:
    axis = Axis.whole(1001, 1100, LEFT + RIGHT + 1000)
    assert axis.cell == 10.0
    closer = axis.zoomed(4.0, axis.x_of(1051))
    assert closer.cell == pytest.approx(40.0)
    assert closer.x_of(1051) == pytest.approx(axis.x_of(1051))
    assert closer.zoomed(1e9, LEFT).end - closer.zoomed(1e9, LEFT).begin == pytest.approx(4.0)
    assert closer.moved(1e6).begin == 1001
    assert closer.moved(-1e6).end == 1101
    assert closer.zoomed(1e-9, LEFT) == axis
    assert closer.showing(1001).begin == 1001
    assert closer.showing(1051) == closer


def test_two_thousand_frames_on_a_narrow_axis_are_a_column_per_pixel() -> None:
    axis = Axis.whole(1, 2000, LEFT + RIGHT + 500)
    cells = columns(axis)
    assert len(cells) <= 500
    assert [frame for _, frames in cells for frame in frames] == list(range(1, 2001))


def test_rows_of_shapes_show_their_own_errors_and_select(
    qtbot: QtBot, timeline: Timeline, session: ShotSession
) -> None:
    session.go_to(1006)
    image = timeline.grab().toImage()
    x = int(timeline.x_of(1003)) + 20
    y = int(timeline.place_of("rows"))
    assert image.pixelColor(x, y - 4) == doubt_colour(1.0)  # the seam's row, then the eye's: 2 and 1 px of 0.2 to 2
    assert image.pixelColor(x, y + 3) == doubt_colour((1.0 - 0.2) / (2.0 - 0.2))
    with qtbot.waitSignal(timeline.shape_wanted, timeout=120_000) as asked:
        qtbot.mouseClick(timeline, BUTTON, pos=QPoint(x, y + 3))
    assert asked.args == ["eye"]


def test_colours_are_relative_in_bad_shots_and_absolute_in_good_ones() -> None:
    """Errors from 4.0 to 5.9 px, where 2.4 is bad: their 10th and 95th percentiles are 4.2 and 5.8."""
    bad_shot = scale_of([4.0 + 0.1 * k for k in range(20)] + [float("inf")], 2.4)
    assert (bad_shot.low, bad_shot.high) == pytest.approx((4.2, 5.8))
    assert [bad_shot.share(error) for error in (4.2, 5.0, 5.8, float("inf"))] == pytest.approx([0.0, 0.5, 1.0, 1.0])
    good = scale_of([0.1, 0.2, 2.3], 2.4)
    assert (good.low, good.high) == (0.0, 2.4)
    even = scale_of([5.0] * 10, 2.4)
    assert even.share(5.0) == 0.0
    assert even.share(5.6) == pytest.approx(0.5)


def test_a_persons_key_wins_over_the_models_in_the_strip(session: ShotSession) -> None:
    assert session.document is not None
    document = move_points(session.document, "seam", [1002], {0}, 1, 0)
    assert key_sources(document.shapes)[1002] == "human"
    assert key_sources(document.shapes)[1001] == "model"


def test_keys_differ_in_form_as_well_as_in_colour(timeline: Timeline, session: ShotSession) -> None:
    document = session.document
    assert document is not None
    keys = dict(document.shape("seam").keys)
    for frame, source in ((1001, "human"), (1002, "propagated"), (1003, "model")):
        keys[frame] = replace(keys[frame], source=source)  # type: ignore[arg-type]
    shapes = tuple(s.with_keys(keys) if s.name == "seam" else s for s in document.shapes)
    session.edits.push("sources", replace(session.state, document=replace(document, shapes=shapes)))
    session.select("seam")
    session.go_to(1006)
    timeline.refresh()
    image, y = timeline.grab().toImage(), int(timeline.place_of("keys"))
    middle = {frame: _extent(image, timeline, frame, y, 0) for frame in (1001, 1002, 1003)}
    rim = {frame: _extent(image, timeline, frame, y, 4) for frame in (1001, 1002, 1003)}
    assert middle[1001] > middle[1003]  # a diamond is wider than a dot
    assert middle[1002] <= 4  # a square is hollow
    assert rim[1002] >= 8 > rim[1001]
    assert rim[1003] == 0


def _extent(image: QImage, timeline: Timeline, frame: int, y: int, up: int) -> int:
    """The number of pixels that a key covers by half or more in the row `up` pixels above its middle."""
    middle = int(timeline.x_of(frame + 0.5))
    row = [image.pixelColor(x, y - up) for x in range(middle - 12, middle + 13)]
    return sum(colour.lightness() > 60 for colour in row)


def test_the_ends_of_the_bracket_are_dragged(qtbot: QtBot, timeline: Timeline) -> None:
    timeline.reach = SpreadReach(1003, 1002, 1005)
    seen: list[tuple[SpreadReach, bool]] = []

    def take(reach: SpreadReach, let_go: bool) -> None:
        timeline.reach = reach
        seen.append((reach, let_go))

    timeline.reach_changed.connect(take)
    y = int(timeline.place_of("reach"))
    qtbot.mousePress(timeline, BUTTON, pos=QPoint(int(timeline.x_of(1006)), y))
    qtbot.mouseMove(timeline, QPoint(int(timeline.x_of(1006)) + 10, y))
    qtbot.mouseMove(timeline, QPoint(int(timeline.x_of(1001)), y))
    qtbot.mouseRelease(timeline, BUTTON, pos=QPoint(int(timeline.x_of(1001)), y))
    assert seen[0] == (SpreadReach(1003, 1002, 1006), False)
    assert seen[-1] == (SpreadReach(1003, 1002, 1003), True)  # never past the corrected frame


def test_a_bracket_that_is_nowhere_near_is_not_taken(timeline: Timeline) -> None:
    axis = timeline.axis
    assert axis is not None
    reach = SpreadReach(1003, 1002, 1005)
    assert end_at(reach, axis, axis.x_of(1002) + 2) == "first"
    assert end_at(reach, axis, axis.x_of(1006) - 2) == "last"
    assert end_at(reach, axis, axis.x_of(1004)) is None
    assert reach.longer(9, 1001, 1006) == SpreadReach(1003, 1001, 1006)
    assert reach.longer(-9, 1001, 1006) == SpreadReach(1003, 1003, 1003)


def test_marks_stand_in_their_strip(timeline: Timeline, session: ShotSession) -> None:
    session.review.mark([1002], "accepted")
    session.review.mark([1003], "needs work")
    session.go_to(1006)
    timeline.refresh()
    image, top = timeline.grab().toImage(), int(timeline.place_of("marks")) - 5
    plain = image.pixelColor(int(timeline.x_of(1001)) + 4, top)
    assert image.pixelColor(int(timeline.x_of(1002)) + 4, top) != plain
    assert image.pixelColor(int(timeline.x_of(1003)) + 4, top) == plain  # lower half only
    assert image.pixelColor(int(timeline.x_of(1003)) + 4, top + 10) != plain
    assert "accepted" in timeline.tip(1002)


def test_the_error_ramp_runs_from_blue_to_orange() -> None:
    sure, doubtful = doubt_colour(0.0), doubt_colour(1.0)
    assert sure.blue() > sure.red()
    assert doubtful.red() > doubtful.blue()
    assert doubt_colour(5.0) == doubtful


def test_frames_that_a_person_is_done_with_lose_their_colour(timeline: Timeline, session: ShotSession) -> None:
    def colours(frame: int) -> set[int]:
        picture = timeline.grab().toImage()
        x, middle = round(timeline.x_of(frame) + 8), round(timeline.place_of("bars"))
        return {picture.pixelColor(x, y).rgb() for y in range(middle - BARS // 2, middle + BARS // 2)}

    assert SETTLED.rgb() not in colours(1003)
    session.review.mark([1003], "accepted")
    assert SETTLED.rgb() in colours(1003)
    assert SETTLED.rgb() not in colours(1002)
    session.review.mark([1003], None)
    session.select("seam")
    session.review.mark([1002], "needs work")
    session.review.mark([1003], "accepted")
    assert SETTLED.rgb() in colours(1003)
    assert SETTLED.rgb() not in colours(1002)
    session.review.mark([1003], None)
    assert session.document is not None
    moved = move_points(session.document, "seam", [1005], [0], 1, 0)
    session.edits.push("move points", replace(session.state, document=moved))
    assert SETTLED.rgb() in colours(1005)
    session.select("eye")  # nobody has keyed the eye there
    assert SETTLED.rgb() not in colours(1005)


def test_bars_rank_the_frames_and_do_not_blow_up_small_differences() -> None:
    axis = Axis.whole(1, 3, 64 + 3 * 20)

    def heights(errors: dict[int, float], bad_px: float) -> list[int]:
        picture = QImage(200, 40, QImage.Format.Format_RGB32)
        picture.fill(Qt.GlobalColor.black)
        painter = QPainter(picture)
        paint_bars(painter, axis, 0.0, errors, ErrorScale(0.0, bad_px), ())
        painter.end()
        columns = (round(axis.middle_of(frame)) for frame in errors)
        return [sum(picture.pixelColor(x, y) != Qt.GlobalColor.black for y in range(BARS)) for x in columns]

    low, middle, high = heights({1: 7.0, 2: 9.5, 3: 12.0}, 2.4)  # all far beyond what is good: they differ all the same
    assert low == pytest.approx(BARS / 4, abs=1)
    assert middle == pytest.approx(BARS * 5 / 8, abs=1)
    assert high == BARS
    assert max(heights({1: 0.2, 2: 0.22, 3: 0.21}, 2.4)) == pytest.approx(BARS / 4, abs=1)


def test_thumbnails_are_cropped_rather_than_spaced(facts: PlateFacts) -> None:
    for share, frames in ((1.1, [1001, 1002, 1003]), (0.85, [1001, 1002, 1003]), (0.6, [1001, 1003])):
        axis = Axis.whole(1001, 1003, LEFT + RIGHT + 3 * share * header_strips.thumb_width(facts))
        assert sorted(header_strips.thumb_places(facts, axis, 1001)) == frames


def test_a_gap_stands_between_thumbnails(facts: PlateFacts) -> None:
    axis = Axis.whole(1001, 1003, LEFT + RIGHT + 3 * 50)  # cells are a little narrower than thumbnails
    thumb = QImage(200, 80, QImage.Format.Format_RGB32)
    thumb.fill(Qt.GlobalColor.white)
    shown = QImage(int(axis.width), 80, QImage.Format.Format_RGB32)
    shown.fill(Qt.GlobalColor.black)
    painter = QPainter(shown)
    header_strips.paint_thumbs(painter, axis, 0.0, replace(facts, missing=()), {1001: thumb, 1002: thumb}, set())
    painter.end()
    lit = [shown.pixelColor(x, 20).red() > 0 for x in range(shown.width())]
    second = round(axis.x_of(1002))
    assert lit[second - 2 : second + 2] == [False, False, True, True]


def test_its_usual_height_holds_ten_rows_of_shapes_and_not_a_pixel_more(
    timeline: Timeline, session: ShotSession
) -> None:
    document, usual = session.document, timeline.sizeHint().height()
    assert document is not None
    shapes = tuple(replace(document.shapes[0], name=f"shape {k}") for k in range(12))
    session.edits.push("more", replace(session.state, document=replace(document, shapes=shapes)))
    timeline.refresh()
    assert timeline.sizeHint().height() == usual
    for height, n_rows in ((usual, 10), (usual - 1, 9)):
        timeline.resize(660, height)
        assert timeline._shown_rows() == n_rows


def test_a_crop_box_drawn_before_the_first_run_is_marked(qtbot: QtBot, facts: PlateFacts, out: Path) -> None:
    session = ShotSession()
    session.open(facts, out)
    timeline = Timeline(session, FrameCache())
    qtbot.addWidget(timeline)
    timeline.resize(660, timeline.sizeHint().height())
    session.go_to(1006)
    before = timeline.grab().toImage()
    session.edits.push("crop box", replace(session.state, crops={1002: CropBox(10, 8, 30, 30)}))
    timeline.refresh()
    after = timeline.grab().toImage()
    x, y = int(timeline.x_of(1002)), int(timeline.place_of("keys"))
    width = int(timeline.x_of(1003)) - x
    yellow = {
        (px, py)
        for px in range(timeline.width())
        for py in range(y, y + int(KEYS))
        if after.pixelColor(px, py) != before.pixelColor(px, py)
    }
    assert yellow
    assert all(x <= px < x + width for px, _ in yellow)


def test_a_run_that_was_undone_leaves_no_errors(session: ShotSession) -> None:
    assert session.run.errors[1003]["seam"] == 2.0
    session.edits.push("as before the run", replace(session.state, document=None, predicted=None))
    assert session.run.errors == {}
    assert session.worst() == [1006]  # where no face was found
    session.edits.undo()
    assert session.run.errors[1003]["seam"] == 2.0
