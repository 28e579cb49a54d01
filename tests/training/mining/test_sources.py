"""Mining's sources before they are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from rotopaint_ai.errors import UsageError
from rotopaint_ai.exchange import formats, nuke
from rotopaint_ai.shapes import bezier
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape
from rotopaint_ai.training.mining.join import join_sources
from rotopaint_ai.training.mining.sources import read_source
from rotopaint_ai.training.mining.takes import Take


@pytest.mark.parametrize(("drawn", "mined"), [(10.0, None), (6.0, 6.0)])
def test_a_stroke_at_nukes_default_width_is_of_unknown_width(tmp_path: Path, drawn: float, mined: float | None) -> None:
    points = tuple(ControlPoint(10.0 + 20 * k, 30.0, -5, 0, 5, 0) for k in range(4))
    seam = RotoShape("seam", False, "seam", {1001: Key(points, "human")}, width_px=drawn)
    nuke.write_verified(tmp_path / "roto.nk", RotoDocument(128, 64, 1001, 1001, shapes=(seam,)))
    (take,) = read_source(tmp_path / "roto.nk", "plate.####.jpg", size=(128, 64))
    assert take.frames[1001].shapes["seam"].width_px == mined


SQUARE = (ControlPoint(20.0, 20.0), ControlPoint(60.0, 20.0), ControlPoint(60.0, 50.0), ControlPoint(20.0, 50.0))


def _moved(by: float) -> tuple[ControlPoint, ...]:
    return tuple(point._replace(x=point.x + by) for point in SQUARE)


def _shape(name: str, keys: dict[int, float], **key: Any) -> RotoShape:
    """A square that lies `keys[frame]` pixels to the right at each key."""
    return RotoShape(name, True, "matte", {frame: Key(_moved(by), "human", **key) for frame, by in keys.items()})


def _take(folder: Path, *shapes: RotoShape, suffix: str = ".roto.json", **more: Any) -> Take:
    path = folder / f"roto{suffix}"
    formats.write(path, RotoDocument(128, 64, 1001, 1009, shapes=shapes))
    (take,) = read_source(path, "plate.####.png", size=(128, 64), **more)
    return take


@pytest.mark.parametrize("suffix", [".roto.json", ".nk"])
def test_what_lies_between_keys_is_no_truth(tmp_path: Path, suffix: str) -> None:
    sparse = _shape("mouth", {1001: 0.0, 1005: 8.0, 1009: 2.0})
    take = _take(tmp_path, sparse, suffix=suffix)
    assert sorted(take.frames) == [1001, 1005, 1009]
    assert "frames 1002-1004, 1006-1008 have no key" in " ".join(take.notes)
    whole = _take(tmp_path, sparse, suffix=suffix, interpolated=True)
    assert sorted(whole.frames) == list(range(1001, 1010))
    assert whole.frames[1003].shapes["mouth"].points[0, 0] == pytest.approx(24.0)


def test_a_document_with_keys_at_every_frame_is_taken_whole(tmp_path: Path) -> None:
    take = _take(tmp_path, _shape("mouth", {frame: float(frame % 3) for frame in range(1001, 1010)}))
    assert sorted(take.frames) == list(range(1001, 1010))
    assert not take.notes
    assert not any(truth.context for truth in take.frames.values())


def test_shapes_keyed_on_different_frames_are_truth_on_their_own(tmp_path: Path) -> None:
    mouth, brow = _shape("mouth", {1001: 0.0, 1005: 8.0, 1009: 2.0}), _shape("brow", {1001: 0.0, 1003: 4.0, 1009: 9.0})
    take = _take(tmp_path, mouth, brow)
    known = {frame: (sorted(truth.shapes), sorted(truth.context)) for frame, truth in take.frames.items()}
    assert known == {
        1001: (["brow", "mouth"], []),
        1003: (["brow"], ["mouth"]),
        1005: (["mouth"], ["brow"]),
        1009: (["brow", "mouth"], []),
    }


def test_a_shape_that_is_held_is_truth_through_the_hold(tmp_path: Path) -> None:
    held = _shape("mouth", {1001: 0.0, 1004: 8.0, 1007: 2.0}, interpolation="hold")
    assert sorted(_take(tmp_path, held).frames) == list(range(1001, 1008))
    equal = _shape("mouth", {1001: 0.0, 1004: 0.0, 1007: 2.0})
    assert sorted(_take(tmp_path, equal).frames) == [1001, 1002, 1003, 1004, 1007]


def test_beside_keys_by_hand_those_of_a_model_do_not_count(tmp_path: Path) -> None:
    by_model = {frame: Key(_moved(1.0 * (frame % 2)), "model") for frame in range(1001, 1010)}
    shape = RotoShape("mouth", True, "matte", by_model)
    assert len(_take(tmp_path, shape).frames) == 9
    corrected = shape.with_keys({**by_model, 1004: Key(_moved(3.0), "human"), 1005: Key(_moved(4.0), "propagated")})
    assert sorted(_take(tmp_path, corrected).frames) == [1004]


@pytest.mark.parametrize("suffix", [".nk", ".fxs", ".ssf", ".setting", ".svg", ".jsx", ".py", ".lottie.json"])
def test_every_format_that_convert_reads_is_mined(tmp_path: Path, suffix: str) -> None:
    keys = {frame: 2.0 * (frame % 4) for frame in range(1001, 1010)}
    take = _take(tmp_path, _shape("mouth", keys), suffix=suffix)
    first = 0 if take.counts_from_first else 1001
    assert sorted(take.frames) == list(range(first, first + 9))
    found = take.frames[first + 3].shapes["mouth"]
    assert bezier.curve_distance(found.points, bezier.as_array(_moved(keys[1004])), True)[1] < 0.05


def test_dumps_of_other_programs_are_no_keypoints(tmp_path: Path) -> None:
    document = RotoDocument(128, 64, 1001, 1001, shapes=(_shape("mouth", {1001: 0.0}),))
    formats.write(tmp_path / "roto.labelme.json", document)
    written = next(tmp_path.glob("*.json"))
    (take,) = read_source(written.rename(tmp_path / "mouth.json"), "plate.####.png", size=(128, 64))
    assert [sorted(truth.shapes) for truth in take.frames.values()] == [["mouth"]]


def test_frames_counted_from_the_first_are_those_of_the_plate(tmp_path: Path) -> None:
    for frame in range(1001, 1010):
        cv2.imwrite(str(tmp_path / f"plate.{frame}.png"), np.full((64, 128, 3), frame % 200, np.uint8))
    keys = {frame: 2.0 * (frame % 4) for frame in range(1001, 1010)}
    formats.write(tmp_path / "roto.ssf", RotoDocument(128, 64, 1001, 1009, shapes=(_shape("mouth", keys),)))
    joined = join_sources((tmp_path / "roto.ssf",), str(tmp_path / "plate.####.png"))
    assert [row.frame for row in joined.rows] == list(range(1001, 1010))


def test_what_no_format_reads_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "roto.xyz").write_text("?")
    with pytest.raises(UsageError, match=r"roto\.xyz: cannot be mined; wanted a format that 'convert' reads"):
        read_source(tmp_path / "roto.xyz", None)
