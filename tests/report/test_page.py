"""The report page: its content, and that it loads nothing from elsewhere."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rotopaint_ai.report import pictures, tables
from rotopaint_ai.report.curves import (
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Chart,
    Curve,
    _ticks,
    draw,
    nice_ceiling,
    script_safe,
    x_at,
    y_of,
)
from rotopaint_ai.report.page import render_report, write_report
from rotopaint_ai.report.pictures import spline_path
from rotopaint_ai.report.tiles import _duration_text, _error_tile, _frames_words, _seam_tile

from .run_content import run_content

VOID = {"meta", "img", "br", "link", "input", "hr"}


class Balanced(HTMLParser):
    """Reports tags that do not close in order; collects what the page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "data-before", "data-after")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _parsed(text: str) -> Balanced:
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def test_page_is_whole_and_loads_only_its_own_pictures() -> None:
    text = render_report(run_content())
    loads = _parsed(text).loads
    assert "img/face.1020.jpg" in loads
    assert all(load.startswith("img/") for load in loads)
    assert "{{" not in text
    assert not re.search(r"https?://", text.replace("http://www.w3.org", ""))


def test_page_names_what_needs_attention() -> None:
    text = render_report(run_content())
    assert "2 of 60 frames need attention" in text
    assert "plate.1005.exr: the file ends early" in text
    assert "face lost" in text
    assert "0.0031 px" in text
    assert ">417<" in text
    assert "built-in" not in text


def test_page_escapes_names() -> None:
    content = run_content()
    content["plate"]["name"] = "<script>alert(1)</script>"
    assert "<script>alert" not in render_report(content)


def test_page_of_a_run_without_shapes_or_clean_plates() -> None:
    content = run_content()
    content.update(pictures=[], errors={"shapes": [], "by_frame": {}}, exports=[])
    content["seam"]["by_frame"] = {}
    assert _parsed(render_report(content)).loads == []


def test_page_draws_how_visible_each_seam_is_after() -> None:
    content = run_content()
    frames = list(content["seam"]["by_frame"])
    content["seam"]["by_seam"] = {"seam": {frames[0]: [2.0, 0.5], frames[1]: [2.0]}, "by hand": {frames[0]: [3.0, 0.7]}}
    drawn = re.findall(r'data-curve="([^"]*, after)" stroke', render_report(content))
    assert drawn == ["seam, after", "by hand, after"]


def test_page_is_written_beside_its_pictures(tmp_path: Path) -> None:
    path = write_report(tmp_path, run_content())
    assert path == tmp_path / "report" / "index.html"
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_spline_path_is_the_bezier_in_absolute_numbers() -> None:
    points = [[10, 20, 0, 0, 5, 0], [30, 20, -5, 1, 2, 2]]
    assert spline_path(points, closed=False) == "M10.00 20.00C15.00 20.00 25.00 21.00 30.00 20.00"
    assert spline_path(points, closed=True).endswith("C32.00 22.00 10.00 20.00 10.00 20.00")
    assert spline_path([], closed=True) == ""


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (0.0, 1.0),
        (0.93, 1.0),
        (2.0, 2.0),
        (2.1, 3.0),
        (37.0, 40.0),
        (5.5, 6.0),
        (101.0, 200.0),
        (7.5, 8.0),
        (9.0, 10.0),
    ],
)
def test_nice_ceiling(value: float, wanted: float) -> None:
    assert nice_ceiling(value) == pytest.approx(wanted)


def test_curves_break_where_frames_are_missing() -> None:
    chart = Chart("error", "px", [1, 2, 4, 5], [Curve("a", "#fff", [1.0, 1.0, 1.0, None])])
    text = draw(chart)
    d = re.search(r'data-curve="a" stroke="#fff" d="([^"]*)"', text)
    assert d is not None
    assert d[1].count("M") == 2


@pytest.mark.parametrize(
    ("frames", "at"), [((1001, 1011), 1001), ((1001, 1011), 1006), ((1001, 1011), 1011), ((7,), 7)]
)
def test_frames_and_values_stand_where_the_axes_say(frames: tuple[int, ...], at: int) -> None:
    """From the left edge to the right, from the bottom (0) to the top; a single frame is in the middle."""
    chart = Chart("error", "px", frames, [Curve("a", "#fff", [4.0] * len(frames))])
    share = (at - frames[0]) / 10 if len(frames) > 1 else 0.5
    assert x_at(chart, at) == pytest.approx((1 - share) * LEFT + share * (WIDTH - RIGHT))
    assert [y_of(chart, value) for value in (0, 1, 4)] == pytest.approx([270, 270 - (270 - TOP) / 4, TOP])


def test_values_stand_in_the_page_as_json_that_cannot_close_its_script() -> None:
    text = script_safe({"a": "</script>"})
    assert "</" not in text
    assert json.loads(text) == {"a": "</script>"}


def test_a_new_column_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    column = tables.Column("Bytes", lambda item: f"{len(item['format'])} B <", "n")
    monkeypatch.setattr(tables, "EXPORTS", (*tables.EXPORTS, column))
    text = render_report(run_content())
    _parsed(text)
    assert '<th class="n">Bytes</th>' in text
    assert '<td class="n">4 B &lt;</td>' in text


def test_what_people_said_of_frames_is_in_the_report() -> None:
    said = {"marks": {"1003": "rejected", "1004": "accepted"}, "notes": {"1011": "lip <jumps>", "1012": "lip <jumps>"}}
    page = render_report({**run_content(), "review": said})
    assert "rejected in review" in page
    assert "lip &lt;jumps&gt;" in page
    assert re.search(r"1011-1012</td>\s*<td[^>]*>lip", page)
    assert "1004</td>" not in page  # accepted: an ordinary frame


def test_stages_are_parts_of_one_bar() -> None:
    stages = tables.timing_table(run_content()["timing"])["stages"]
    assert [stage["share"] for stage in stages] == pytest.approx([60 / 219, 9 / 219, 150 / 219])


def test_least_seen_thirds_are_listed_by_number_of_frames() -> None:
    unseen = {"1004": {"left": "upper third"}, "1012": {"bridge": "left third"}}
    unseen |= {str(frame): {"left": "lower third", "bridge": "left third"} for frame in (1014, 1013)}
    places = tables.unseen_places(unseen)
    assert list(places.items()) == [
        ("bridge, left third", "1012-1014"),
        ("left, lower third", "1013-1014"),
        ("left, upper third", "1004"),
    ]
    run = run_content()
    table = tables.frames_table(run["frames"], {}, unseen)
    assert table is not None
    assert ["look here", "1012-1014"] in [[cell.text for cell in row[:2]] for row in table.rows]


def test_a_card_names_the_worst_shape_or_that_there_is_no_face() -> None:
    run = run_content()
    words = {card["frame"]: card["words"] for card in pictures.cards(run)}
    assert words[1009] == "no face found here; place landmarks by hand"
    assert words[1020] == "worst: mouth_outer"
    run["pictures"] = [{**picture, "unseen": "upper third"} for picture in run["pictures"]]
    (known,) = (card["words"] for card in pictures.cards(run) if card["frame"] == 1020)
    assert known == "worst: mouth_outer, least visible in its upper third"


@pytest.mark.parametrize(
    ("pairs", "value", "words"),
    [
        ([(4.0, 1.0), (6.0, 1.5)], "5.00 <em>\u2192</em> 1.25", "75% less visible, mean of 2 frames"),
        ([(4.0, 1.0), (None, None), (2.0, None)], "3.00 <em>\u2192</em> 1.00", "67% less visible, mean of 2 frames"),
        ([(0.0, 0.0)], "0.00 <em>\u2192</em> 0.00", "nothing to remove, mean of 1 frames"),
        ([(4.0, None)], "4.00", "clean plates were not requested"),
    ],
)
def test_the_seams_tile_is_the_mean_before_and_after(
    pairs: list[tuple[float | None, float | None]], value: str, words: str
) -> None:
    (tile,) = _seam_tile({"by_frame": {str(k): pair for k, pair in enumerate(pairs)}})
    assert (str(tile.value), tile.words) == (value, words)
    assert _seam_tile({"by_frame": {"1": (None, None)}}) == []


def test_the_error_tile_is_of_the_worst_seam_of_each_frame() -> None:
    """Errors of 1 to 20 px on twenty frames: the median is 10.5, 95 % are below 19. Eyes count where no shape is a
    seam."""
    shapes = {"seam": {"role": "seam"}, "eye": {"role": "eye"}}
    rows = {str(k): [float(k), 50.0] for k in range(1, 21)} | {"21": None, "22": [None, 3.0]}
    run = {"errors": {"shapes": ["seam", "eye"], "by_frame": rows}, "shapes": shapes}
    (tile,) = _error_tile(run)
    assert str(tile.value) == "10.50 <em>px</em>"
    assert tile.words == "worst seam of a frame; 95 % of frames below 19.00 px"
    (tile,) = _error_tile({"errors": {"shapes": ["eye"], "by_frame": {"1": [2.0], "2": [4.0]}}, "shapes": shapes})
    assert (str(tile.value), tile.words) == ("3.00 <em>px</em>", "worst shape of a frame; 95 % of frames below 4.00 px")
    assert _error_tile({"errors": {"shapes": ["eye"], "by_frame": {"1": None}}, "shapes": shapes}) == []


def test_short_times_are_in_seconds_and_held_frames_are_counted() -> None:
    assert [_duration_text(seconds) for seconds in (89.9, 90.0, 150.0)] == ["89.9 s", "1.5 min", "2.5 min"]
    frames = {"failed": {"7": "no"}, "missing": [], "lost": [3, 4], "held": [(10, 12), (20, 21)]}
    assert _frames_words(frames) == "1 failed, 2 lost, 5 in holds"
    none = {"failed": {}, "missing": [], "lost": [], "held": []}
    assert _frames_words(none) == "none missing, none failed"


def test_bands_marks_and_the_limit_lie_where_their_frames_and_values_do() -> None:
    """By hand: eleven frames from x = 52 are 105.2 apart; a value of 2 of 4 lies halfway between 14 and 270."""
    curve = Curve("a", "#fff", [4.0] * 11)
    text = draw(Chart("error", "px", range(1001, 1012), [curve], [(1003, 1005)], {1006: "lost"}, (2.0, "worth a look")))
    assert '<rect class="hold" x="209.8" width="315.6" y="270" height="4"><title>held 1003-1005</title>' in text
    assert '<path class="mark" d="M578.0 270l-5 -9h10z"><title>1006: lost</title>' in text
    assert '<line class="limit" x1="52" x2="1104" y1="142.0" y2="142.0"/>' in text
    assert '<text class="tick" x="1104" y="137.0" text-anchor="end">worth a look</text>' in text
    assert '<text class="tick" x="44" y="146.0" text-anchor="end">2</text>' in text
    assert '<text class="tick" x="52.0" y="292" text-anchor="middle">1001</text>' in text


@pytest.mark.parametrize(
    ("first", "last", "wanted"),
    [
        (1, 100, [1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]),
        (1001, 1096, [1001, 1010, 1020, 1030, 1040, 1050, 1060, 1070, 1080, 1096]),
        (7, 7, [7]),
        (3, 5, [3, 4, 5]),
    ],
)
def test_ticks_are_round_frames_that_stand_clear_of_both_ends(first: int, last: int, wanted: list[int]) -> None:
    assert _ticks(first, last) == wanted
