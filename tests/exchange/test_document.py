"""The open document: nothing lost, nothing wrong let in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import document, formats
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape

FROM_THE_SPEC = """
{"format": "rotopaint-shapes", "version": 1, "width": 1920, "height": 1080, "pixel_aspect": 1.0, "fps": 24,
 "first_frame": 1001, "last_frame": 1040,
 "landmarks": {"names": ["nose_0", "nose_1"], "keys": {"1001": [[10, 20.5, 0.7], null]}},
 "shapes": [{"name": "nose_seam", "closed": false, "role": "seam", "width_px": 5.0, "feather_px": 1.5,
             "source": {"1001": "model", "1002": "human"},
             "keys": {"1001": [[1, 2, 3, 4, 5, 6]], "1002": [[1.5, 2, 3, 4, 5, 6]]}}]}
"""

numbers = st.floats(-1e6, 1e6, allow_nan=False)
points = st.lists(st.builds(ControlPoint, *[numbers] * 6), min_size=2, max_size=2).map(tuple)
keys = st.builds(Key, points, st.sampled_from(["model", "human", "propagated"]), st.sampled_from(["linear", "hold"]))
shapes = st.builds(
    RotoShape,
    st.text(min_size=1).filter(lambda text: bool(text.strip())),
    st.booleans(),
    st.sampled_from(["seam", "matte"]),
    st.dictionaries(st.integers(-50, 2000), keys, max_size=3),
    st.none() | st.floats(0, 50),
    st.floats(0, 50),
    st.tuples(st.floats(0, 1), st.floats(0, 1)),
    st.dictionaries(st.integers(0, 2000), st.booleans(), max_size=3),
)


def test_the_example_of_the_specification_is_read() -> None:
    found = document.loads(FROM_THE_SPEC)
    assert (found.width, found.height, found.fps, found.first_frame, found.last_frame) == (1920, 1080, 24.0, 1001, 1040)
    assert found.landmarks.keys[1001] == (Landmark(10.0, 20.5, 0.7), None)
    seam = found.shape("nose_seam")
    assert (seam.closed, seam.role, seam.width_px, seam.feather_px) == (False, "seam", 5.0, 1.5)
    assert seam.keys[1002] == Key((ControlPoint(1.5, 2, 3, 4, 5, 6),), "human", "linear")


@settings(max_examples=80)
@given(st.lists(shapes, max_size=3, unique_by=lambda shape: shape.name), numbers)
def test_everything_comes_back(some: list[RotoShape], x: float) -> None:
    marks = LandmarkKeys(("a", "b"), {5: (None, Landmark(x, -x, 1.0))}, {5: frozenset({"b"})})
    meant = RotoDocument(1920, 1080, 1, 9, 2.0, 23.976, marks, tuple(some))
    assert document.loads(document.dumps(meant)) == meant


def test_files_are_written_whole_and_read(tmp_path: Path) -> None:
    meant = document.loads(FROM_THE_SPEC)
    document.write(tmp_path / "a.roto.json", meant)
    assert document.read(tmp_path / "a.roto.json") == meant
    assert [each.name for each in tmp_path.iterdir()] == ["a.roto.json"]


def test_a_plain_json_reader_sees_the_fields_of_the_specification() -> None:
    held = RotoShape("a", True, "matte", {3: Key((ControlPoint(1, 2),), "human", "hold")}, taper=(0.1, 0.0))
    data = json.loads(document.dumps(RotoDocument(10, 20, 1, 4, shapes=(held,))))
    assert data["format"] == "rotopaint-shapes"
    assert data["version"] == 1
    shape = data["shapes"][0]
    assert shape["keys"] == {"3": [[1, 2, 0, 0, 0, 0]]}
    assert shape["source"] == {"3": "human"}
    assert shape["interpolation"] == {"3": "hold"}
    assert shape["taper"] == [0.1, 0.0]
    assert "width_px" not in shape


def _changed(path: list[str | int], value: Any) -> str:
    data = json.loads(FROM_THE_SPEC)
    inner: Any = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return json.dumps(data)


SHAPE: list[str | int] = ["shapes", 0]


@pytest.mark.parametrize(
    ("path", "value", "reported"),
    [
        (["format"], "other", "format is 'other'"),
        (["version"], 3, "version is 3"),
        (["width"], 0, "must be positive"),
        (["height"], "1080", "height: is '1080'; wanted a whole number"),
        (["last_frame"], 1000, "comes before first_frame"),
        (["last_frame"], 2_000_000_000, "frames 1001 to 2000000000; wanted numbers up to 10,000,000"),
        (["last_frame"], 101_001, "a shot of at most 100,000 frames"),
        (["width"], 100_001, "width is 100001 px; wanted 1 to 100,000"),
        (["fps"], -1, "must be positive"),
        (["pixel_aspect"], True, "wanted a finite number"),
        (["extra"], 1, "field 'extra' is not known"),
        (["shapes"], {}, "wanted a list"),
        ([*SHAPE, "closed"], 1, "'nose_seam': closed is 1"),
        ([*SHAPE, "role"], "other", "wanted one of seam, matte"),
        ([*SHAPE, "name"], " ", "wanted a name"),
        ([*SHAPE, "width_px"], -1, "neither may be negative"),
        ([*SHAPE, "width_px"], 1e9, "neither may exceed 1,000 px"),
        ([*SHAPE, "feather_px"], 1e9, "neither may exceed 1,000 px"),
        ([*SHAPE, "taper"], [0.1], "taper: is [0.1]"),
        ([*SHAPE, "taper"], [0, 2], "must lie between 0 and 1"),
        ([*SHAPE, "visible"], {"1001": 1}, "visible: frame 1001"),
        ([*SHAPE, "source"], {"1001": "robot"}, "frame 1001: source"),
        ([*SHAPE, "source"], {"1009": "human"}, "frame 1009 has no key"),
        ([*SHAPE, "interpolation"], {"1001": "bounce"}, "wanted one of linear, hold"),
        ([*SHAPE, "keys"], {"01001": []}, "must be written 1001"),
        ([*SHAPE, "keys"], {"a": []}, "is not a frame number"),
        ([*SHAPE, "keys", "1001"], [], "has no control point"),
        ([*SHAPE, "keys", "1001"], [[1, 2, 3]], "frame 1001: point 0 is [1, 2, 3]"),
        ([*SHAPE, "keys", "1001"], [[1, 2, 3, 4, 5, None]], "frame 1001: point 0 holds None"),
        ([*SHAPE, "keys", "1001"], [[1e300, 2, 3, 4, 5, 6]], "frame 1001: point 0 holds 1e+300; wanted numbers up to"),
        ([*SHAPE, "keys", "1001"], [[1, 2, 3, 4, 5, 6]] * 2, "change in number (2 at frame 1001, 1 at frame 1002)"),
        (["landmarks", "keys"], {"1001": [[1, 2, 3]]}, "1 landmarks; wanted 2"),
        (["landmarks", "keys"], {"1001": [[1], None]}, "wanted [x, y, expected_error_px] or null"),
        (["landmarks", "names"], ["a", "a"], "'a' occurs twice"),
        (["landmarks", "hand"], {"1001": ["chin"]}, "not a landmark of this document"),
        ([*SHAPE, "name"], "\ud800", r"the name '\ud800' holds half a character"),
        (["landmarks", "names"], ["a", "b\udfff"], r"the name 'b\udfff' holds half a character"),
    ],
)
def test_what_is_wrong_is_named(path: list[str | int], value: Any, reported: str) -> None:
    with pytest.raises(DocumentError) as caught:
        document.loads(_changed(path, value), where="shot.roto.json")
    assert reported in str(caught.value)
    assert str(caught.value).startswith("shot.roto.json")


def test_half_a_character_in_metadata_or_in_another_format_is_refused(tmp_path: Path) -> None:
    """JSON can state a lone surrogate, but no file can be written with it."""
    head = {**json.loads(FROM_THE_SPEC), "version": 2, "metadata": {"nuke": "\ud800"}}
    with pytest.raises(DocumentError, match="metadata is not JSON"):
        document.loads(json.dumps(head))
    path = tmp_path / "a.1001.labelme.json"
    square = {"label": "\ud800", "shape_type": "polygon", "points": [[1, 1], [9, 1], [9, 9]]}
    path.write_text(json.dumps({"shapes": [square], "imageWidth": 20, "imageHeight": 20, "imagePath": "a.1001.png"}))
    with pytest.raises(DocumentError, match=r"a.1001.labelme.json: the name .* holds half a character"):
        formats.read(path)


@pytest.mark.parametrize(
    "text", ["", "[", "null", '{"format": NaN}', "[" * 100000, "9" * 5000, FROM_THE_SPEC.replace("1.5, 2", "1e999, 2")]
)
def test_text_that_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(DocumentError):
        document.loads(text)


def test_two_keys_at_one_frame_are_refused() -> None:
    with pytest.raises(DocumentError, match="'1001' occurs twice"):
        document.loads(FROM_THE_SPEC.replace('"1002": [[1.5', '"1001": [[1.5'))


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "b.roto.json").write_bytes(b"\xff\xfe\x00")
    for name in ("a.roto.json", "b.roto.json"):
        with pytest.raises(DocumentError, match=name):
            document.read(tmp_path / name)


def test_numbers_that_json_does_not_have_are_not_written(tmp_path: Path) -> None:
    wild = RotoShape("a", True, "matte", {1: Key((ControlPoint(float("nan"), 0),))})
    with pytest.raises(DocumentError, match="finite"):
        document.write(tmp_path / "a.roto.json", RotoDocument(10, 10, 1, 1, shapes=(wild,)))
    uneven = RotoShape("a", True, "matte", {1: Key((ControlPoint(0, 0),)), 2: Key((ControlPoint(0, 0),) * 2)})
    with pytest.raises(DocumentError, match="all need the same number"):
        document.dumps(RotoDocument(10, 10, 1, 1, shapes=(uneven,)))
    assert not list(tmp_path.iterdir())
