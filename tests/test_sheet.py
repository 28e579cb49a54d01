"""The character sheet: read, write, and refuse in one line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rotopaint_ai.errors import PackError
from rotopaint_ai.sheet import (
    MOST_LETTERS,
    MOST_POINTS,
    LandmarkSpec,
    ShapeSpec,
    Sheet,
    dump_sheet,
    load_sheet,
    mirror_permutation,
    mirrored_order,
    parse_sheet,
)

SHEET = Sheet(
    name="pip",
    landmarks=(
        LandmarkSpec("eye_l", mirror="eye_r"),
        LandmarkSpec("nose", weight=2.0),
        LandmarkSpec("eye_r", mirror="eye_l"),
    ),
    shapes=(
        ShapeSpec("seam", closed=False, role="seam", n_points=3, on_landmarks={0: "eye_l", 2: "eye_r"},
                  from_landmarks=("eye_l", "eye_r"), width_share=0.02, feather_px=1.5, taper=(0.1, 0.0)),
        ShapeSpec("face", closed=True, n_points=4),
    ),
)  # fmt: skip


def test_sheet_comes_back_from_its_text(tmp_path: Path) -> None:
    (tmp_path / "sheet.yaml").write_text(dump_sheet(SHEET), encoding="utf-8")
    assert load_sheet(tmp_path / "sheet.yaml") == SHEET


def test_rows_and_counts() -> None:
    assert SHEET.n_points == 7
    assert SHEET.point_rows() == {"seam": slice(0, 3), "face": slice(3, 7)}
    assert SHEET.landmark_row("eye_r") == 2
    assert SHEET.rows_of(SHEET.shapes[0]) == (0, 2)
    assert SHEET.rows_of(SHEET.shapes[1]) == (0, 1, 2)
    assert SHEET.seam_names == {"seam"}
    with pytest.raises(KeyError):
        SHEET.landmark_row("mouth")


def test_mirroring_twice_changes_nothing() -> None:
    order = mirror_permutation(SHEET)
    assert order == (2, 1, 0)
    assert tuple(order[row] for row in order) == (0, 1, 2)
    assert mirrored_order(SHEET) == order
    assert mirrored_order(Sheet("a", (LandmarkSpec("p"), LandmarkSpec("q", mirror="q")))) is None


BAD = {
    "format: [": "not valid YAML",
    "[]": "wanted named fields",
    "format: x": "wanted format 'rotopaint-sheet'",
    "format: rotopaint-sheet\nversion: 1\nname: a\nlandmarks: []": "no landmarks",
    "format: rotopaint-sheet\nversion: 1\nname: a\nlandmarks: [{name: no}]": "landmarks 1: name is False; wanted text",
    "format: rotopaint-sheet\nversion: 1\nname: a\nlandmarks: [{name: a, mirror: b}]": "its mirror 'b' is not",
    "format: rotopaint-sheet\nversion: 1\nname: a\nlandmarks: [{name: a}, {name: a}]": "occurs twice",
    "format: rotopaint-sheet\nversion: 1\nname: a\nlandmarks: [{name: a, wieght: 2}]": "unknown field 'wieght'",
    "format: rotopaint-sheet\nversion: 1\nname: a\nlandmarks: [{name: a, mirror: b}, {name: b}]": "mirrors to 'b'",
    "format: rotopaint-sheet\nversion: 1\nname: a\nlandmarks: [{name: a}]\nshapes: [{name: s, closed: true, n_points: 2}]": "wanted 3 to 10,000",  # noqa: E501
    "format: rotopaint-sheet\nversion: 1\nname: a\nlandmarks: [{name: a}]\nshapes: [{name: s, closed: true, n_points: 1000000}]": "wanted 3 to 10,000",  # noqa: E501
    "format: rotopaint-sheet\nversion: 1\nname: a\nlandmarks: [{name: a}]\nshapes: []\nshapes: []": "'shapes' occurs 2 times",  # noqa: E501
    "format: rotopaint-sheet\nversion: 1\nname: a\nlandmarks: &a [*a]": r"\*a is an alias of another part",
    'format: rotopaint-sheet\nversion: 1\nname: a\nlandmarks: [{name: "\\ud800"}]': "holds a null or half a character",
    f"name: {'a' * (1 << 20)}": "letters; wanted at most 1,048,576",
    "format: rotopaint-sheet\nversion: 1\nname: a\nlandmarks: [{name: a}]\nshapes: [{name: s, closed: 2, n_points: 4}]": "wanted true or false",  # noqa: E501
    "format: rotopaint-sheet\nversion: 1\nname: a\nlandmarks: [{name: a}]\nshapes: [{name: s, closed: true, n_points: 4, on_landmarks: {9: a}}]": "point 9 of 4",  # noqa: E501
}


@pytest.mark.parametrize(("text", "reason"), BAD.items())
def test_a_wrong_sheet_is_refused_in_one_line(text: str, reason: str) -> None:
    with pytest.raises(PackError, match=reason) as caught:
        parse_sheet(text, where="pip/sheet.yaml")
    assert str(caught.value).startswith("pip/sheet.yaml")
    assert "\n" not in str(caught.value)


def test_a_missing_sheet_is_named(tmp_path: Path) -> None:
    with pytest.raises(PackError, match=r"sheet\.yaml: cannot be read"):
        load_sheet(tmp_path / "sheet.yaml")


def test_importing_the_sheet_loads_nothing_heavy() -> None:
    code = "import rotopaint_ai.sheet, sys; print([m for m in ('yaml', 'numpy', 'cv2') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_each_end_tapers_by_its_own_share_and_what_is_not_said_is_nothing() -> None:
    text = dump_sheet(
        Sheet(
            "a",
            (LandmarkSpec("p"), LandmarkSpec("q")),
            (ShapeSpec("s", closed=False, role="seam", n_points=2, taper=(0.125, 0.375)),),
        )
    )
    (shape,) = parse_sheet(text.replace("  feather_px: 0.0\n", "")).shapes
    assert "feather_px" not in text.replace("  feather_px: 0.0\n", "")
    assert (shape.taper, shape.feather_px, shape.width_share) == ((0.125, 0.375), 0.0, None)


def test_fields_that_people_leave_blank_are_as_if_left_out() -> None:
    head = "format: rotopaint-sheet\nversion: 1\nname: a\nlandmarks: [{name: p, mirror: }]\n"
    blank = "shapes: [{name: s, closed: true, n_points: 4, on_landmarks: , from_landmarks: , width_share: }]"
    assert parse_sheet(head + blank) == Sheet("a", (LandmarkSpec("p"),), (ShapeSpec("s", closed=True, n_points=4),))
    with pytest.raises(PackError, match="closed"):
        parse_sheet(head + "shapes: [{name: s, closed: , n_points: 4}]")


def test_the_bounds_of_a_sheet_belong_to_it() -> None:
    seam = ShapeSpec("s", closed=False, n_points=2, on_landmarks={0: "p", 1: "p"}, width_share=1e-9, taper=(0.0, 1.0))
    face = ShapeSpec("f", closed=True, n_points=3)
    large = ShapeSpec("l", closed=True, n_points=MOST_POINTS)
    sheet = Sheet("a", (LandmarkSpec("p", weight=0.0),), (seam, face, large))
    text = dump_sheet(sheet)
    assert parse_sheet(text + "#" * (MOST_LETTERS - len(text))) == sheet


LANDMARKS = (LandmarkSpec("p"),)
NO_SHEETS = {
    "the sheet's name is empty": ("  ", LANDMARKS, ()),
    "a landmark's name is ' '": ("a", (LandmarkSpec(" "),), ()),
    "shape 's' occurs twice": ("a", LANDMARKS, (ShapeSpec("s", True, 3), ShapeSpec("s", True, 4))),
    "weight is -0.5": ("a", (LandmarkSpec("p", weight=-0.5),), ()),
    "weight is nan": ("a", (LandmarkSpec("p", weight=float("nan")),), ()),
    "1 control points": ("a", LANDMARKS, (ShapeSpec("s", False, 1),)),
    "2 control points": ("a", LANDMARKS, (ShapeSpec("s", True, 2),)),
    "10001 control points": ("a", LANDMARKS, (ShapeSpec("s", True, MOST_POINTS + 1),)),
    "'q' is not a landmark": ("a", LANDMARKS, (ShapeSpec("s", True, 3, on_landmarks={0: "q"}),)),
    "'r' is not a landmark": ("a", LANDMARKS, (ShapeSpec("s", True, 3, from_landmarks=("p", "r")),)),
    "point 3 of 3": ("a", LANDMARKS, (ShapeSpec("s", True, 3, on_landmarks={3: "p"}),)),
    "point -1 of 3": ("a", LANDMARKS, (ShapeSpec("s", True, 3, on_landmarks={-1: "p"}),)),
    "width_share is 0": ("a", LANDMARKS, (ShapeSpec("s", False, 3, width_share=0),)),
    "feather_px is -1": ("a", LANDMARKS, (ShapeSpec("s", False, 3, feather_px=-1),)),
    "taper is (-0.1, 0)": ("a", LANDMARKS, (ShapeSpec("s", False, 3, taper=(-0.1, 0)),)),
    "taper is (0, 1.1)": ("a", LANDMARKS, (ShapeSpec("s", False, 3, taper=(0, 1.1)),)),
}


@pytest.mark.parametrize("reason", NO_SHEETS)
def test_a_sheet_beyond_its_bounds_is_refused(reason: str) -> None:
    with pytest.raises(PackError, match=re.escape(reason)):
        Sheet(*NO_SHEETS[reason])
