"""Rigs taken off a shot: what other frames and clean plates show there, and nothing else changed."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from rotopaint_ai.cli import main
from rotopaint_ai.errors import DocumentError
from rotopaint_ai.exchange import document
from rotopaint_ai.jobs import Cancel, Event
from rotopaint_ai.pipeline.paint_job import CleanJob, PaintedFrames, paint_clean
from rotopaint_ai.pipeline.painter import Rig
from rotopaint_ai.plates import open_plate
from rotopaint_ai.shapes.roto import ControlPoint, Key, RotoDocument, RotoShape

WIDTH, HEIGHT = 200, 140
WIDE = 44


def _left(frame: int) -> int:
    return 30 + 60 * (frame - 1001)


def _box(name: str, x: float) -> RotoShape:
    keys = {
        frame: Key(
            tuple(
                ControlPoint(a, b, 0, 0, 0, 0)
                for a, b in ((x, 50.0), (x + WIDE, 50.0), (x + WIDE, HEIGHT), (x, float(HEIGHT)))
            )
        )
        for frame, x in ((f, x + _left(f)) for f in (1001, 1002, 1003))
    }
    return RotoShape(name, True, "matte", keys)


DOCUMENT = RotoDocument(WIDTH, HEIGHT, 1001, 1003, shapes=(_box("arm", 0.0), _box("mouth", 500.0)))


@pytest.fixture(scope="module")
def clean() -> np.ndarray:
    rng = np.random.default_rng(5)
    tone = sum(k * cv2.GaussianBlur(rng.standard_normal((HEIGHT, WIDTH)), (0, 0), s) for k, s in ((1.0, 2), (3.0, 6)))
    return np.rint(65535 * np.clip(0.4 * np.exp(0.5 * tone), 0, 1))[..., None].repeat(3, 2).astype(np.uint16)


@pytest.fixture(scope="module")
def shot(clean: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("shot")
    for frame in (1001, 1002, 1003):
        picture = clean.copy()
        picture[50:, _left(frame) : _left(frame) + WIDE] = 2000
        cv2.imwrite(str(at / f"plate.{frame}.png"), picture)
    cv2.imwrite(str(at / "empty.png"), clean)
    document.write(at / "rig.roto.json", DOCUMENT)
    return at


def _off(shot: Path, out: Path, *, names: str = "arm", clean_plate: str | None = None) -> PaintedFrames:
    def quiet(event: Event) -> None:
        del event

    with open_plate(str(shot / "plate.####.png")) as plate:
        rig = Rig.open(plate, frozenset([names]), clean_plate)
        return paint_clean(plate, CleanJob(out, DOCUMENT, patch=True, rig=rig), threads=1, sink=quiet, cancel=Cancel())


def _psnr(got: np.ndarray, wanted: np.ndarray) -> float:
    return float(10 * np.log10(65535.0**2 / max(float(np.mean((got.astype(float) - wanted) ** 2)), 1e-9)))


@pytest.mark.parametrize("clean_plate", [None, "empty.png"])
def test_a_wide_rig_is_filled_from_other_frames_or_a_clean_plate(
    shot: Path, clean: np.ndarray, tmp_path: Path, clean_plate: str | None
) -> None:
    assert not _off(shot, tmp_path, clean_plate=clean_plate and str(shot / clean_plate)).failed
    for frame in (1001, 1002, 1003):
        got = cv2.imread(str(tmp_path / f"clean/plate.{frame}.png"), cv2.IMREAD_UNCHANGED)
        hole = np.s_[50:, _left(frame) : _left(frame) + WIDE]
        assert _psnr(got[hole], clean[hole]) > 45
        got[hole] = clean[hole]
        assert np.array_equal(got, clean)  # outside the matte every bit is the plate's
    assert (tmp_path / "patch/plate.1001.exr").exists()


def test_one_picture_of_a_numbered_clean_plate_is_that_picture_alone(
    shot: Path, clean: np.ndarray, tmp_path: Path
) -> None:
    cv2.imwrite(str(tmp_path / "empty.0001.png"), clean)
    cv2.imwrite(str(tmp_path / "empty.1002.png"), np.full_like(clean, 60000))
    assert not _off(shot, tmp_path / "out", clean_plate=str(tmp_path / "empty.0001.png")).failed
    got = cv2.imread(str(tmp_path / "out/clean/plate.1002.png"), cv2.IMREAD_UNCHANGED)
    assert _psnr(got, clean) > 45


def test_names_that_are_no_shape_and_other_sizes_are_reported(shot: Path, tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="'leg' is no shape of the document; it has arm, mouth"):
        _off(shot, tmp_path, names="leg")
    cv2.imwrite(str(tmp_path / "small.png"), np.zeros((10, 10, 3), np.uint16))
    with pytest.raises(DocumentError, match=r"10 x 10, .* is 200 x 140; take one of the plate's format"):
        _off(shot, tmp_path / "out", clean_plate=str(tmp_path / "small.png"))


def test_the_command_takes_a_rig_off(shot: Path, clean: np.ndarray, tmp_path: Path) -> None:
    words = ["clean", str(shot / "plate.####.png"), str(shot / "rig.roto.json"), "--out", str(tmp_path / "out")]
    assert main([*words, "--rig", "--only", "arm", "--frames", "1002", "--threads", "1"]) == 0
    got = cv2.imread(str(tmp_path / "out/clean/plate.1002.png"), cv2.IMREAD_UNCHANGED)
    assert _psnr(got, clean) > 45


def test_what_goes_with_a_rig_is_refused_without_one(
    shot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["clean", str(shot / "plate.####.png"), str(shot / "rig.roto.json"), "--out", str(tmp_path / "out")]
    assert main([*words, "--clean-plate", str(shot / "empty.png")]) == 2
    assert "work only with --rig" in capsys.readouterr().err
