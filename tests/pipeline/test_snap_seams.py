"""Seams of settled frames: one look an exposure, the same splines in a hold, the same after a snapshot."""

from __future__ import annotations

import pickle
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from rotopaint_ai.crops import Crop
from rotopaint_ai.landmarks.track import FrameLandmarks
from rotopaint_ai.locks import _HostLock
from rotopaint_ai.pipeline.executor import _MAGIC, Snapshot, load_snapshot, save_snapshot
from rotopaint_ai.pipeline.face_tracker import _MARGIN_PX, SeamPlacer, crop_window
from rotopaint_ai.pipeline.overrides import Overrides
from rotopaint_ai.pipeline.process_frame import TrackedFrame
from rotopaint_ai.shapes.predict import FrameShapes
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet

Array = npt.NDArray[Any]

SHEET = Sheet(
    "seamed",
    tuple(LandmarkSpec(name) for name in ("start", "end", "chin", "brow")),
    (
        ShapeSpec("eye", closed=True, n_points=3),
        ShapeSpec("seam", closed=False, n_points=3, role="seam", on_landmarks={0: "start", 2: "end"}),
    ),
)
SEAM = np.array([[40.0, 100, 0, 0, 20, 0], [100.0, 100, -20, 0, 20, 0], [160.0, 100, -20, 0, 0, 0]])
EYE = np.array([[60.0, 60, 0, 0, 0, 0], [80.0, 60, 0, 0, 0, 0], [70.0, 70, 0, 0, 0, 0]])


def plate(at: float, seed: int = 0) -> Array:
    y = np.arange(200)[:, None] + 0.5
    line = 0.4 - 0.15 * np.exp(-0.5 * ((y - at) / 1.2) ** 2)
    grain = np.random.default_rng(seed).normal(0, 0.002, (200, 200))
    return np.repeat((line + grain)[..., None], 3, axis=2).astype(np.float32)


def display(linear: Array) -> Array:
    return np.sqrt(np.clip(linear, 0, 1))


def marks(frame: int, held_from: int | None = None, **more: Any) -> FrameLandmarks:
    at = np.array([[40.0, 100], [160.0, 100], [100.0, 170], [100.0, 30]])
    start = frame if held_from is None else held_from
    found = FrameLandmarks(frame, at, np.full(4, 2.0), np.ones(4), np.zeros(4, bool), start, Crop(100, 100, 182))
    return replace(found, **more)


def shapes(frame: int, visible: bool = True) -> FrameShapes:
    points, widths = np.concatenate([EYE, SEAM]), np.array([np.nan, 5.0])
    return FrameShapes(frame, points, np.array([1.0, 2.0]), widths, np.array([True, visible]))


def placer() -> SeamPlacer:
    return SeamPlacer(SHEET, None, display)


def test_landmarks_that_a_person_placed_are_exact_and_the_others_as_they_were() -> None:
    settled = TrackedFrame(Crop(50, 50, 90), None, None, [[1, 2, 0.5], None, [5, 6, 0.5], None], {}, {}, {}, ())
    work = Overrides(landmarks={7: {"start": (10.0, 20.0), "brow": (30.0, 40.0)}})
    assert work.apply_overrides(7, settled, SHEET).landmarks == [[10, 20, 0], None, [5, 6, 0.5], [30, 40, 0]]
    assert work.apply_overrides(8, settled, SHEET) == settled


def test_a_shape_that_only_followed_a_landmark_keeps_its_expected_error() -> None:
    rows = [[1.0, 2.0, 0.0, 0.0, 0.0, 0.0]] * 3
    settled = TrackedFrame(Crop(50, 50, 90), None, None, [], {}, {}, {"seam": 0.7}, (), unseen={"seam": "upper third"})
    followed = {7: frozenset({"seam"})}
    for work, error, unseen in (
        (Overrides(splines={7: {"seam": rows}}), 0.0, {}),
        (Overrides(splines={7: {"seam": rows}}, followed=followed), 0.7, {"seam": "upper third"}),
    ):
        found = work.apply_overrides(7, settled, SHEET)
        assert (found.shapes["seam"], found.errors["seam"], found.unseen) == (rows, error, unseen)


def test_the_window_of_a_crop_lies_within_the_data_window() -> None:
    """Crops of 41 px: inside, with a shifted data window, over the first pixel, over the last, and outside."""
    m = _MARGIN_PX
    for at, origin, wanted in (
        (Crop(100, 90, 41), (0, 0), (slice(69 - m, 111 + m), slice(79 - m, 121 + m))),
        (Crop(100, 90, 41), (-8, 5), (slice(64 - m, 106 + m), slice(87 - m, 129 + m))),
        (Crop(0, 0, 41), (0, 0), (slice(0, 21 + m), slice(0, 21 + m))),
        (Crop(300, 200, 41), (0, 0), (slice(179 - m, 200), slice(279 - m, 300))),
        (Crop(-900, 900, 41), (0, 0), (slice(200, 200), slice(0, 0))),
    ):
        assert crop_window(at, (200, 300, 3), origin) == wanted


def test_seam_and_its_landmarks_move_onto_the_crease_and_nothing_else_does() -> None:
    line = placer()
    line.see(marks(1), plate(102.0), (0, 0))
    landmarks, placed = line.place(marks(1), shapes(1))
    assert np.allclose(placed.points_PK[3:, 1], 102.0, atol=0.3)
    assert np.allclose(landmarks.points_LC[:2], placed.points_PK[[3, 5], :2])
    assert np.array_equal(landmarks.points_LC[2:], marks(1).points_LC[2:])
    assert np.array_equal(placed.points_PK[:3], EYE)
    assert placed.expected_error_px_S[1] < 2.0
    assert placed.expected_error_px_S[0] == 1.0


def test_a_hold_gets_one_spline_whatever_its_grain() -> None:
    line = placer()
    results = []
    line.see(marks(1), plate(102.0, 1), (0, 0))
    line.see(marks(2, 1), plate(98.5, 2), (0, 0))  # a repeat is not looked at
    line.see(marks(3), plate(99.0, 3), (0, 0))
    for found in (marks(1), marks(2, 1), marks(3)):
        results.append(line.place(found, shapes(found.frame)))
    assert np.array_equal(results[0][1].points_PK, results[1][1].points_PK)
    assert np.array_equal(results[0][0].points_LC, results[1][0].points_LC)
    assert np.allclose(results[2][1].points_PK[3:, 1], 99.0, atol=0.3)


def test_memory_does_not_grow() -> None:
    line = placer()
    for frame in range(1, 40):
        line.see(marks(frame), plate(101.0), (0, 0))
        line.place(marks(frame), shapes(frame))
        assert len(line._looks) == 1


def test_a_snapshot_gives_the_same_splines(tmp_path: Path) -> None:
    line = placer()
    line.see(marks(1), plate(102.0), (0, 0))
    save_snapshot(tmp_path / "s", Snapshot(1, line), {"display": display})  # type: ignore[arg-type]
    loaded = load_snapshot(tmp_path / "s", {"display": display})
    assert loaded is not None
    again: Any = loaded.tracker
    wanted, got = line.place(marks(1), shapes(1)), again.place(marks(1), shapes(1))
    assert np.array_equal(wanted[1].points_PK, got[1].points_PK)
    assert not np.array_equal(got[1].points_PK[3:], SEAM)


class _Opens:
    """A class that opens a file when it is unpickled, as a foreign folder may contain."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return _HostLock, (self.path,)


def _write_snapshot(path: Path, body: bytes) -> None:
    path.write_bytes(_MAGIC + b"%08x" % zlib.crc32(body) + body)


def test_a_snapshot_from_elsewhere_opens_no_file(tmp_path: Path) -> None:
    _write_snapshot(tmp_path / "s", pickle.dumps(_Opens(tmp_path / "made")))
    assert load_snapshot(tmp_path / "s", {}) is None
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "body", [b"\x80\x05\x96" + b"\xff" * 8 + b".", b"(" * 10 + b"l", b"\x80\x05j\xff\xff\xff\xff."]
)
def test_an_incomplete_snapshot_is_refused(tmp_path: Path, body: bytes) -> None:
    _write_snapshot(tmp_path / "s", body)
    assert load_snapshot(tmp_path / "s", {}) is None


def test_what_a_person_placed_or_something_hides_stays() -> None:
    line = placer()
    line.see(marks(1), plate(102.0), (0, 0))
    hand = marks(1).with_hand({0: (40.0, 100.0)})
    for found, predicted in ((hand, shapes(1)), (marks(1), shapes(1, visible=False))):
        landmarks, placed = line.place(found, predicted)
        assert landmarks is found
        assert placed is predicted


def test_a_seam_that_is_partly_hidden_moves_no_further_than_it_may_be_off() -> None:
    partly = np.array([1.0, 0.6, 1.0, 1.0])
    for at, visible, moves in ((102.5, np.ones(4), True), (102.5, partly, False), (101.2, partly, True)):
        line = placer()
        line.see(marks(1), plate(at), (0, 0))
        found = marks(1, visible_L=visible)
        landmarks, placed = line.place(found, shapes(1))
        wanted = at if moves else 100.0
        np.testing.assert_allclose(placed.points_PK[3:, 1], wanted, atol=0.3)
        if not moves:
            assert placed.expected_error_px_S[1] == 2.0
            assert np.array_equal(landmarks.points_LC, found.points_LC)


def test_lost_faces_and_crops_outside_the_plate_are_not_looked_at() -> None:
    line = placer()
    line.see(marks(1, lost="gone"), plate(102.0), (0, 0))
    line.see(marks(2, crop=Crop(900, 100, 182)), plate(102.0), (0, 0))
    assert not line._looks
    assert np.array_equal(line.place(marks(2), shapes(2))[1].points_PK, shapes(2).points_PK)


def test_a_data_window_off_the_origin_is_looked_at_in_plate_space() -> None:
    line = placer()
    line.see(marks(1), plate(102.0)[20:], (0, 20))
    assert np.allclose(line.place(marks(1), shapes(1))[1].points_PK[3:, 1], 102.0, atol=0.3)
