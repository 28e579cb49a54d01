"""Data sets that cannot be trained on are refused in one line that tells what to do."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rotopaint_ai.errors import TrainingError
from rotopaint_ai.training.data.dataset import Dataset, Truth, join, read_dataset
from rotopaint_ai.training.data.dataset_checks import (
    check_dataset,
    check_shapes,
    landmark_rows,
    measure_disagreement,
    split_off_validation,
)
from rotopaint_ai.training.pack.network import TrainOptions
from rotopaint_ai.training.pack.train import train_pack


def moved(data: Dataset, row: int, by: float) -> Truth:
    landmarks = data.truth.landmarks.copy()
    landmarks[row, 2] += by
    return replace(data.truth, landmarks=landmarks)


def refused(data: Dataset) -> str:
    with pytest.raises(TrainingError) as caught:
        check_dataset(data)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_sound_data_set_passes(faces: Path) -> None:
    check_dataset(read_dataset(faces))


def test_two_labels_of_one_frame(faces: Path, tmp_path: Path) -> None:
    data = read_dataset(faces)
    twice = join([data, replace(data, truth=moved(data, 5, 6.0))])
    assert "disc shot1 frame 1006 is labelled twice" in refused(twice)
    assert "--exclude shot1:1006" in refused(twice)
    # the same frame twice with the same label, cropped differently, is no contradiction
    points = data.truth.points.copy()
    points[..., :2] += np.float32(3.5)
    truth = replace(data.truth, landmarks=data.truth.landmarks + np.float32(3.5), points=points)
    shifted = replace(data, truth=truth)
    assert measure_disagreement(join([data, shifted]), 2, 2 + len(data)) == pytest.approx(0, abs=1e-6)
    # samples without a character or a shot are not compared
    nameless = replace(twice, samples=tuple(replace(s, character="", shot="") for s in twice.samples))
    check_dataset(nameless)


def test_all_frames_that_are_labelled_twice_are_named_at_once(faces: Path) -> None:
    data = read_dataset(faces)
    data = replace(data, samples=tuple(replace(sample, shot="shot1") for sample in data.samples))
    landmarks = data.truth.landmarks.copy()
    landmarks[[2, 3, 4, 7], 2] += 6.0  # frames 1003, 1004, 1005 and 1008
    said = refused(join([data, replace(data, truth=replace(data.truth, landmarks=landmarks))]))
    assert "disc shot1 frame 1003 (and 3 more) is labelled twice" in said
    assert said.endswith("--exclude shot1:1003-1005,shot1:1008")


def test_two_shapes_in_one_frame(faces: Path) -> None:
    data = read_dataset(faces)
    spec = data.sheet.shapes[0]
    side = float(np.ptp(data.truth.landmarks[5], axis=0).max())

    def with_shape_off(share: float) -> Dataset:
        points = data.truth.points.copy()
        points[5, data.sheet.point_rows()[spec.name], :2] += np.float32(share * side)  # sideways and down
        return join([data, replace(data, truth=replace(data.truth, points=points))])

    assert f"{data.samples[5].shot} frame {data.samples[5].frame} is labelled twice" in refused(with_shape_off(0.08))
    check_dataset(with_shape_off(0.01))  # 1.4 % apart at most


def test_a_shot_on_both_sides(faces: Path) -> None:
    data = read_dataset(faces)
    samples = tuple(replace(s, shot=f"shot{s.frame % 2}") for s in data.samples)
    data = replace(data, samples=samples)
    assert "shot shot0 of disc (and 1 more) is in the training and in the validation split" in refused(data)
    assert "--val SHOT" in refused(data)


def test_corrections_of_a_held_out_shot_name_both_data_sets(faces: Path) -> None:
    data = read_dataset(faces)
    held = tuple(replace(sample, split="val") for sample in data.samples)
    fixed = tuple(replace(sample, frame=sample.frame + 500) for sample in data.samples)
    show = replace(data, samples=held, folders=(Path("shows/hero"),) * len(data))
    work = replace(data, samples=fixed, folders=(Path("shows/fixes"),) * len(data))
    assert refused(join([show, work])).endswith("mine --val SHOT; fixes trains on shot0, hero holds it out")


def test_different_sheets_are_refused_with_the_difference(faces: Path) -> None:
    data = read_dataset(faces)
    shape = data.sheet.shapes[0]
    more = replace(data.sheet, shapes=(replace(shape, n_points=shape.n_points + 1), *data.sheet.shapes[1:]))
    with pytest.raises(TrainingError, match=rf"'{shape.name}' has {shape.n_points} control points in one, "):
        join([data, replace(data, sheet=more)])
    with pytest.raises(TrainingError, match=rf"\({faces}\) and .*landmarks are in another order"):
        join([data, replace(data, sheet=replace(data.sheet, landmarks=data.sheet.landmarks[::-1]))])


def test_characters_held_out_by_halves(faces: Path) -> None:
    data = read_dataset(faces)
    split = [replace(s, split="val", shot="a") if row == 24 else s for row, s in enumerate(data.samples)]
    check_dataset(replace(data, samples=tuple(split)))  # another shot of a character that is trained on: all alike
    split[25] = replace(split[25], split="val", character="stranger", shot="b")
    assert "disc is trained on in other shots and stranger is not" in refused(replace(data, samples=tuple(split)))


def test_one_picture_on_both_sides(faces: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(faces, folder)
    shutil.copyfile(folder / "images" / "003.png", folder / "images" / "026.png")
    data = read_dataset(folder)
    assert "026.png is in the validation and, as 003.png, in the training split" in refused(data)


def test_nothing_to_learn_from(faces: Path, tmp_path: Path) -> None:
    data = read_dataset(faces)
    with pytest.raises(TrainingError, match="nothing to train on"):
        split_off_validation(data.subset(data.rows_of("test")))
    folder = tmp_path / "empty"
    shutil.copytree(faces, folder)
    (folder / "samples.jsonl").write_text("\n")
    with pytest.raises(TrainingError, match="no samples; mine the data set again"):
        train_pack(TrainOptions([folder], tmp_path / "pack", init="none"))
    with pytest.raises(TrainingError, match="wanted a data set's folder"):
        train_pack(TrainOptions([tmp_path / "nowhere"], tmp_path / "pack", init="none"))
    assert not (tmp_path / "pack").exists()


def test_training_itself_refuses(faces: Path, tmp_path: Path) -> None:
    data = read_dataset(faces)
    text = (faces / "samples.jsonl").read_text(encoding="utf-8").replace('"shot2"', '"shot1"')
    folder = tmp_path / "leaking"
    shutil.copytree(faces, folder)
    (folder / "samples.jsonl").write_text(text, encoding="utf-8")
    assert len(data) == 28
    with pytest.raises(TrainingError, match="shot1 of disc is in the training and in the validation split"):
        train_pack(TrainOptions([folder], tmp_path / "pack", init="none"))
    assert not (tmp_path / "pack").exists()


def _without_landmark(data: Dataset, rows: list[int], column: int) -> Dataset:
    landmarks = data.truth.landmarks.copy()
    landmarks[rows, column] = np.nan
    return replace(data, truth=replace(data.truth, landmarks=landmarks))


def test_a_shape_that_no_frame_knows_with_its_landmarks_is_refused_at_the_door(faces: Path, tmp_path: Path) -> None:
    data = read_dataset(faces)
    three = data.subset(data.rows_of("train")[:3])
    check_shapes(three, fewest=2)
    column = landmark_rows(data.sheet, data.sheet.shapes[0])[0]
    check_shapes(_without_landmark(three, [1], column), fewest=2)
    with pytest.raises(
        TrainingError, match=r"is known in 1 of 3 training samples together .*wanted 2 or more"
    ) as caught:
        check_shapes(_without_landmark(three, [1, 2], column), fewest=2)
    assert "\n" not in str(caught.value)
    folder = tmp_path / "hidden"
    shutil.copytree(faces, folder)
    lines = [json.loads(line) for line in (folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()]
    for line in lines:
        line["landmarks"][data.sheet.landmark_names[column]] = None
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with pytest.raises(TrainingError, match="known in 0 of 22 training samples"):
        train_pack(TrainOptions([folder], tmp_path / "pack", init="none"))
    assert not (tmp_path / "pack.run").exists()


def test_of_three_frames_the_one_that_can_be_spared_is_held_out(faces: Path) -> None:
    data = read_dataset(faces)
    three = data.subset(data.rows_of("train")[:3])
    assert [sample.split for sample in split_off_validation(three).samples] == ["train", "train", "val"]
    column = landmark_rows(data.sheet, data.sheet.shapes[0])[0]
    held = split_off_validation(_without_landmark(three, [1], column))
    assert [sample.split for sample in held.samples] == ["train", "val", "train"]
