"""The function that measures seams' widths, fitted to a shot whose seam is known."""

from __future__ import annotations

import base64
from pathlib import Path

import cv2
import numpy as np
import pytest

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.exchange import document
from rotopaint_ai.seams import groove_width
from rotopaint_ai.shapes.roto import ControlPoint, Key, Landmark, LandmarkKeys, RotoDocument, RotoShape
from scripts import fit_widths as table

HALF_PX = 4.0


def _shot(folder: Path) -> Path:
    """A dark band of known width across grey, 200 px from end to end of a face of 240."""
    folder.mkdir()
    rows = np.arange(120)[:, None, None] + 0.5
    cover = np.broadcast_to(np.clip(HALF_PX + 0.5 - np.abs(rows - 60.0), 0, 1), (120, 240, 1))
    clean = np.full((120, 240, 3), 150.0)
    grain = np.random.default_rng(0).normal(0, 1.0, clean.shape)
    for name, picture in (("clean", clean + grain), ("plate", clean * (1 - 0.6 * cover) + grain)):
        cv2.imwrite(str(folder / f"{name}.1001.png"), np.clip(picture, 0, 255).astype(np.uint8))
    cv2.imwrite(str(folder / "seam.1001.png"), (255 * cover[..., 0]).astype(np.uint8))
    points = tuple(ControlPoint(x, 60.0, -60.0 / 3, 0.0, 60.0 / 3, 0.0) for x in (20.0, 120.0, 220.0))
    seam = RotoShape("seam", False, "seam", {1001: Key(points)}, width_px=2 * HALF_PX)
    marks = LandmarkKeys(("a", "b"), {1001: (Landmark(0.0, 60.0, 0.5), Landmark(240.0, 60.0, 0.5))})
    truth = RotoDocument(width=240, height=120, first_frame=1001, last_frame=1001, landmarks=marks, shapes=(seam,))
    document.write(folder / "truth.roto.json", truth)
    return folder


def test_samples_contain_the_true_reach_of_the_seam(tmp_path: Path) -> None:
    known = table.samples([_shot(tmp_path / "a")], np.random.default_rng(0), times=1, apart=0.0)
    size = 240.0 / groove_width.STEPS_PER_FACE
    misjudged = float(np.exp(table.MISJUDGED * np.random.default_rng(0).standard_normal()))
    assert known.features.shape[1] == groove_width.N_FEATURES
    assert np.median(known.reach) == pytest.approx(HALF_PX / (size * misjudged), abs=0.6)


def test_a_fit_learns_and_its_text_is_the_same_table(tmp_path: Path) -> None:
    known = table.samples([_shot(tmp_path / "a")], np.random.default_rng(0), times=6)
    fitted = table.fit(known, steps=120, seed=0)
    usual = fitted(known.features)[:, groove_width.USUAL]
    assert np.abs(usual - known.reach).mean() < 0.5 * np.abs(known.reach).mean()
    text = table.text_of(fitted).split("NUMBERS = (\n")[1].split("\n)")[0]
    packed = "".join(line.strip().strip('"') for line in text.splitlines())
    assert base64.b85decode(packed)
    assert groove_width.width_table(packed)(known.features) == pytest.approx(fitted(known.features), abs=0.05)


def test_shots_for_tests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="is a test shot; name training shots"):
        table.samples([tmp_path / "test01"], np.random.default_rng(0))
