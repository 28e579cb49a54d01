"""Training of the seam model: correct labels, and a file that packs accept."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.inference.onnx_session import load_signature
from rotopaint_ai.inference.pack import check_features_signature, check_seam_signature, load_pack
from rotopaint_ai.seams.path import N_OFFSETS
from rotopaint_ai.seams.placement import ACROSS, ALONG, BEYOND, PICTURE_PX, move_places, places_along
from rotopaint_ai.shapes.bezier import curve_distance
from rotopaint_ai.training.data.dataset import read_dataset, write_dataset
from rotopaint_ai.training.models.seam.examples import (
    Examples,
    misplace_spline,
    pad_examples,
    places_past_ends,
    true_offsets,
)
from rotopaint_ai.training.pack.network import TrainOptions, train_network

from ...conftest import SHEET, write_faces

CURVE = np.array([[0.0, 0, 0, 0, 20, 10], [60.0, 10, -20, 5, 20, -5], [120.0, 0, -20, 10, 0, 0]])


def test_true_offsets_lead_back_to_the_truth() -> None:
    face = 120.0
    rng = np.random.default_rng(5)
    for _ in range(8):
        wrong = misplace_spline(CURVE, face, rng)
        places = places_along(wrong, face / ALONG)
        assert places is not None
        offset, at = true_offsets(places.pairs, CURVE, face / ACROSS)
        seen = np.isfinite(offset)
        assert seen.mean() > 0.7
        filled = np.interp(np.arange(len(offset)), np.flatnonzero(seen), offset[seen])
        back = move_places(wrong, places, filled * face / ACROSS)
        assert curve_distance(back, CURVE, False)[0] < 0.5 * curve_distance(wrong, CURVE, False)[0] + 0.3
        assert ((at >= 0) & (at <= 2)).all()


def test_offsets_of_a_parallel_curve() -> None:
    line = np.array([[0.0, 0, 0, 0, 30, 0], [100.0, 0, -30, 0, 0, 0]])
    places = places_along(line + (0, 3, 0, 0, 0, 0), 2.0)
    assert places is not None
    offset, _ = true_offsets(places.pairs, line, 0.5)
    assert np.allclose(offset[2:-2], -6.0, atol=1e-6)


def test_the_number_of_positions_past_an_end_says_nothing_about_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    past = []
    for _ in range(200):
        places = places_past_ends(CURVE, 2.0, rng)
        assert places is not None
        assert len(places.at) % 2 == 0
        past.append([(places.at < 0).sum(), (places.at > 2).sum()])
    assert np.min(past) == 0  # and some strips end before their curve does
    assert np.max(past) > 2 * BEYOND
    assert (np.array(past) == 0).mean() > 0.1
    examples = Examples.of(read_dataset(write_faces(tmp_path / "d", n=1)))
    made = [examples.make(0, rng, augment=False) for _ in range(20)]
    hidden = {int(np.isnan(part.offset).sum()) for item in made if item is not None for part in item.strips}
    assert len(hidden) > 5  # the seam itself is visible all along


def test_examples_label_the_seam_and_unknown_places(tmp_path: Path) -> None:
    data = read_dataset(write_faces(tmp_path / "d", n=4))
    made = [Examples.of(data).make(row, np.random.default_rng(row)) for row in range(4)]
    batch = pad_examples([item for item in made if item is not None])
    n = len(batch.strip)
    assert batch.picture.shape == (4, PICTURE_PX, PICTURE_PX, 3)
    assert batch.row.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]  # at both zooms
    assert batch.strip.shape[2:] == (N_OFFSETS, 3)
    assert batch.target.shape == (n, batch.strip.shape[1] // 2, N_OFFSETS + 1)
    sums = batch.target.sum(2)
    assert (sums[:, -2:] == 0).all()  # the gap after the last seam has no weight
    assert (sums > 0.9).any()
    gap = np.abs(batch.places).min(axis=(2, 3)) > 1
    assert gap[:, -2 * 2 :].all()
    assert (np.abs(batch.places[~gap]) < 1).mean() > 0.9  # a seam lies on the crop


def test_strips_lie_on_their_crop(tmp_path: Path) -> None:
    """Whether it is mirrored or not: what the crop shows at a strip's places is what the strip shows."""
    examples = Examples.of(read_dataset(write_faces(tmp_path / "d", n=1)))
    rng = np.random.default_rng(0)
    for _ in range(6):
        item = examples.make(0, rng)
        assert item is not None
        part = item.strips[1]  # at the crop's own resolution
        inside = (np.abs(part.places) < 0.95).all(axis=2)
        maps = ((part.places + 1) / 2 * PICTURE_PX - 0.5).astype(np.float32)
        shown = cv2.remap(item.picture, maps[..., 0], maps[..., 1], cv2.INTER_LINEAR).astype(np.float64)
        for colour in range(3):
            assert np.corrcoef(shown[inside][:, colour], part.strip[inside][:, colour])[0, 1] > 0.9


def test_a_trained_file_fits_a_pack(tmp_path: Path) -> None:
    faces, out = write_faces(tmp_path / "d", n=6), tmp_path / "seam.onnx"
    found = train_network("seam", TrainOptions([str(faces)], out, "seam", ("minutes=null", "steps=2", "batch=4")))
    assert 0 <= found["within_2_steps"] <= 1
    facts = json.loads((tmp_path / "seam.json").read_text())
    assert (facts["steps"], facts["init"]) == (2, "nothing")
    assert facts["parity"] < 1e-3
    check_seam_signature(load_signature(tmp_path / "seam.onnx"), "seam.onnx")
    check_features_signature(load_signature(tmp_path / "seam_features.onnx"), "seam_features.onnx")


def test_a_training_that_cannot_do_without_features_is_refused(tmp_path: Path) -> None:
    faces, start = write_faces(tmp_path / "d", n=6), load_pack().seam_path
    settings = ("minutes=null", "steps=1", "features=false", f"start={start}")
    with pytest.raises(TrainingError, match=r"features=false: .*seam\.onnx reads features"):
        train_network("seam", TrainOptions([str(faces)], tmp_path / "seam.onnx", "seam", settings))


def test_a_data_set_without_seams_is_refused(tmp_path: Path) -> None:
    data = read_dataset(write_faces(tmp_path / "d", n=2))
    bare = [type(sample)(**{**_fields(sample), "shapes": {}}) for sample in data.samples]
    for sample in data.samples:
        (tmp_path / "e" / sample.image).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "e" / sample.image).write_bytes((tmp_path / "d" / sample.image).read_bytes())
    write_dataset(tmp_path / "e", name="bare", licence="CC0-1.0", sheet=SHEET, samples=bare)
    with pytest.raises(TrainingError, match="no open shapes of role 'seam'"):
        train_network("seam", TrainOptions([str(tmp_path / "e")], tmp_path / "seam.onnx", "seam"))


def _fields(sample: object) -> dict[str, object]:
    return {name: getattr(sample, name) for name in type(sample).__dataclass_fields__}  # type: ignore[attr-defined]
