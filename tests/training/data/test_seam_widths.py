"""Widths of seams without a width in the roto, measured by the light that the seams remove."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from rotopaint_ai.plates.coded_pictures import write_picture
from rotopaint_ai.sheet import LandmarkSpec, ShapeSpec, Sheet
from rotopaint_ai.training.data.dataset import Dataset, Sample, ShapeTruth, read_dataset, write_dataset
from rotopaint_ai.training.data.seam_widths import USUAL_SEAM_SHARE, add_seam_widths

SIDE = 260
FACE = 200.0
SHEET = Sheet(
    "grooves",
    (LandmarkSpec("top"), LandmarkSpec("bottom"), LandmarkSpec("ear")),
    (
        ShapeSpec("wide", False, 2, "seam", width_share=USUAL_SEAM_SHARE),
        ShapeSpec("thin", False, 2, "seam", width_share=USUAL_SEAM_SHARE),
    ),
)
ROWS = {"wide": 90.0, "thin": 170.0}


def grooves(
    folder: Path, widths_px: dict[str, float], *, blur: float = 0.0, light: float = 1.0, reported: float | None = None
) -> Dataset:
    """Six faces with two straight grooves, half as bright as the skin."""
    samples = []
    for at in range(6):
        fine = np.full((SIDE * 4, 4), 0.6 * light, np.float32)
        y = (np.arange(SIDE * 4) + 0.5) / 4
        for name, width in widths_px.items():
            fine[np.abs(y - ROWS[name] - 0.3 * at) < width / 2] *= 0.5
        column = fine.reshape(SIDE, 4, 4).mean(axis=1)[:, :1]
        picture = np.repeat(np.repeat(column, SIDE, axis=1)[..., None], 3, axis=2)
        if blur:
            picture = cv2.GaussianBlur(picture, (0, 0), blur)
        write_picture(folder / f"{at}.png", np.rint(picture * 255).astype(np.uint8))
        line = {
            name: ShapeTruth([[30, row + 0.3 * at, 0, 0, 50, 0], [230, row + 0.3 * at, -50, 0, 0, 0]], reported)
            for name, row in ROWS.items()
        }
        marks = {"top": (130.0, 30.0, 1.0), "bottom": (130.0, 30.0 + FACE, 1.0), "ear": (40.0, 130.0, 1.0)}
        samples.append(Sample(f"{at}.png", SIDE, SIDE, "g", "s", 1001 + at, "train", marks, line))
    write_dataset(folder, name="g", licence="own", sheet=SHEET, samples=samples)
    return read_dataset(folder)


def shares(data: Dataset) -> tuple[float, float]:
    wide, thin = (spec.width_share for spec in add_seam_widths(data).sheet.shapes)
    assert wide is not None
    assert thin is not None
    return wide, thin


def test_width_is_the_root_of_the_light_taken_away(tmp_path: Path) -> None:
    wide, thin = shares(grooves(tmp_path, {"wide": 5.0, "thin": 1.25}))
    assert wide / thin == pytest.approx(2.0, rel=0.1)  # four times the light
    assert wide == pytest.approx(2 * 0.85 * 0.272 * np.sqrt(0.5 * 5.0 / FACE), rel=0.1)


@pytest.mark.parametrize("how", [{"blur": 1.2}, {"light": 0.5}])
def test_neither_lens_nor_light_changes_it(tmp_path: Path, how: dict[str, float]) -> None:
    sharp, other = (
        shares(grooves(tmp_path / str(k), {"wide": 4.0, "thin": 2.0}, **kw)) for k, kw in enumerate(({}, how))
    )
    assert other == pytest.approx(sharp, rel=0.08)


def test_what_is_reported_or_not_to_be_seen_stays(tmp_path: Path) -> None:
    unseen = grooves(tmp_path / "unseen", {"wide": 4.0})
    assert add_seam_widths(unseen).sheet.shapes[1].width_share == USUAL_SEAM_SHARE
    reported = grooves(tmp_path / "reported", {"wide": 4.0, "thin": 2.0}, reported=3.0)
    assert add_seam_widths(reported) is reported
    own = replace(SHEET, shapes=tuple(replace(spec, width_share=0.03) for spec in SHEET.shapes))
    named = replace(grooves(tmp_path / "named", {"wide": 4.0, "thin": 2.0}), sheet=own)
    assert add_seam_widths(named) is named


def test_a_width_that_a_person_set_in_some_frames_is_that_of_the_others(tmp_path: Path) -> None:
    data = grooves(tmp_path, {"wide": 8.0, "thin": 2.0})
    width = data.truth.width.copy()
    width[:2, 0] = 5.0  # a project's width, on a face of 200 pixels
    mixed = replace(data, truth=replace(data.truth, width=width))
    wide, thin = shares(mixed)
    assert wide == pytest.approx(5.0 / FACE)
    assert thin == shares(data)[1] != USUAL_SEAM_SHARE  # none is stated: measured


def test_a_face_a_little_larger_than_is_looked_at_is_measured_on_its_seam(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = grooves(tmp_path, {"wide": 6.0, "thin": 3.0})
    usual = shares(data)
    monkeypatch.setattr("rotopaint_ai.training.data.seam_widths.FACE_PX", FACE * 0.985)
    assert shares(data) == pytest.approx(usual, rel=0.15)
