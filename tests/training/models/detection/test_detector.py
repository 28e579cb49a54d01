"""The detector: assignment of cells, training, export, and evaluation."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from rotopaint_ai.cli import train as cli
from rotopaint_ai.errors import TrainingError, UsageError
from rotopaint_ai.landmarks.faces import DetectedFace, letterbox
from rotopaint_ai.training.data.dataset_checks import split_samples
from rotopaint_ai.training.models.backbone import sum_losses
from rotopaint_ai.training.models.detection import task
from rotopaint_ai.training.models.detection.batches import MIRRORED, CanvasMaker
from rotopaint_ai.training.models.detection.net import STRIDES, DetectorNet, heat_places
from rotopaint_ai.training.models.detection.scenes import (
    DetectionScene,
    Face,
    average_precision,
    box_iou,
    keypoint_errors,
    mask_iou,
    match_detections,
    read_scenes,
    summarise_matches,
)
from rotopaint_ai.training.models.detection.task import DetectorConfig, DetectorTask, as_tensors, build_detector
from rotopaint_ai.training.pack.network import TrainOptions, check_place, find_task, train_network
from rotopaint_ai.training.trainer.config import load_config, override
from rotopaint_ai.training.trainer.cores import make_timed
from rotopaint_ai.training.trainer.trainer import Trainer

SMALL = ("widths=[8,8,8,8,8]", "neck=8", "width=128", "height=64", "batch=2", "minutes=null", "log_every=2")


def _face(x: float, y: float, side: float, *, seen: float = 1.0) -> Face:
    t = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    outline = np.stack((x + side / 2 * np.cos(t), y + side / 2 * np.sin(t)), 1)
    shares = np.array([(-0.2, -0.1), (0.2, -0.1), (0, 0.05), (-0.12, 0.25), (0.12, 0.25)])
    return Face(outline, np.column_stack((shares * side + (x, y), np.ones(5))), seen)


def _scene(*faces: Face, size: tuple[int, int] = (128, 64), split: str = "train") -> DetectionScene:
    picture = np.full((size[1], size[0], 3), 60, np.uint8)
    for face in faces:
        cv2.fillPoly(picture, [face.outline.round().astype(np.int32)], (210, 160, 130))
    return DetectionScene(picture, split, "made up", faces)


def _batches(*scenes: DetectionScene) -> CanvasMaker:
    return CanvasMaker(scenes, 128, 64, {}, together=0.5)


def test_truth_goes_with_the_picture() -> None:
    """The face's colour lies inside outline, box and mask, however the scene was moved."""
    batches = _batches(_scene(_face(64, 32, 30)))
    batch = batches.batch([0] * 12, np.random.default_rng(3))
    assert batch.counts.any()
    for row in range(12):
        is_face = batch.pictures[row, ..., 0] > 150
        drawn = np.zeros((64, 128), bool)
        for k in np.flatnonzero(batch.counts[row] | batch.passed[row]):
            drawn |= cv2.resize(batch.masks[row, k], (128, 64), interpolation=cv2.INTER_LINEAR) >= 0.5
        assert (is_face ^ drawn).mean() < 0.03  # rims, at half resolution


def test_a_mirrored_face_has_its_right_on_the_other_side() -> None:
    batches = _batches(_scene(_face(64, 32, 30)))
    batch = batches.batch([0] * 20, np.random.default_rng(1))
    points = batch.points[batch.counts]
    seen = (points[:, :2, 0] > 0).all(1)
    assert (points[seen, 0, 0] < points[seen, 1, 0]).all()  # the right eye stays on the left of the picture
    assert [MIRRORED[k] for k in MIRRORED] == list(range(5))


def test_hidden_faces_are_passed_over() -> None:
    batch = _batches(_scene(_face(64, 32, 30, seen=0.1))).batch([0] * 4, np.random.default_rng(0))
    assert not batch.counts.any()
    assert batch.passed.any()


def _forward(net: DetectorNet, batch: object) -> tuple[task.DetectorOutput, task.DetectionTarget]:
    pictures, target = as_tensors(batch)  # type: ignore[arg-type]
    return task.forward_heads(net, pictures, target, torch.Generator().manual_seed(0)), target


def _net() -> DetectorNet:
    torch.manual_seed(0)
    return DetectorNet(widths=(8, 8, 8, 8, 8), neck=8)


def test_cells_in_the_middle_of_a_face_answer_for_it_at_its_level() -> None:
    batch = _batches(_scene()).batch([0, 0], np.random.default_rng(0))
    batch.boxes[0, 0], batch.counts[0, 0] = (24, 8, 56, 40), True  # 32 px: the first level, stride 8
    batch.boxes[1, 0], batch.counts[1, 0] = (0, 0, 100, 64), True  # 100 px: the second
    output, target = _forward(_net(), batch)
    cells = task._cells(output, target)
    counts = [64 // s * 128 // s for s in STRIDES]
    first = cells.is_face[0, : counts[0]].view(8, 16)
    # the centre (40, 24) is a corner of four cells, 4 px from the centre of each
    assert {tuple(map(int, cell)) for cell in first.nonzero()} == {(2, 4), (2, 5), (3, 4), (3, 5)}
    assert not cells.is_face[0, counts[0] :].any()
    assert not cells.is_face[1, : counts[0]].any()
    assert cells.is_face[1, counts[0] : counts[0] + counts[1]].any()


def test_every_part_of_the_loss_teaches() -> None:
    net = _net()
    batch = _batches(_scene(_face(64, 32, 40))).batch([0] * 4, np.random.default_rng(5))
    output, target = _forward(net, batch)
    for name in task.LOSSES:
        net.zero_grad()
        task.LOSSES[name](output, target).backward(retain_graph=True)  # type: ignore[no-untyped-call]
        assert sum(float(p.grad.abs().sum()) for p in net.parameters() if p.grad is not None) > 0, name


def test_pictures_without_faces_have_a_loss() -> None:
    output, target = _forward(_net(), _batches(_scene()).batch([0] * 2, np.random.default_rng(0)))
    loss, parts = sum_losses(task.LOSSES, output, target, dict.fromkeys(task.LOSSES, 1.0))
    assert torch.isfinite(loss)
    assert parts["propose_box"] == parts["refine_box"] == parts["mask"] == parts["keypoints"] == 0


def test_older_recipes_weigh_the_losses_of_regions_by_their_old_names(tmp_path: Path) -> None:
    recipe = tmp_path / "old.yaml"
    recipe.write_text("task: detector\nlosses: {judge: 0.5, judge_box: 0.25}\n")
    losses = load_config(DetectorConfig(), recipe).losses
    assert (losses["classify"], losses["refine_box"]) == (0.5, 0.25)
    assert losses.keys() == DetectorConfig().losses.keys()
    assert override(DetectorConfig(), ["losses.judge=2"]).losses["classify"] == 2.0


def test_heat_maps_give_their_mean() -> None:
    heat = torch.full((1, 1, 28, 28), -50.0)
    heat[0, 0, 7, 20] = 0
    assert heat_places(heat)[0][0, 0].tolist() == pytest.approx([20.5 / 28, 7.5 / 28])


def test_it_learns_one_picture(tmp_path: Path) -> None:
    plan = DetectorConfig(
        widths=(8, 8, 16, 16, 16), neck=16, width=128, height=64, batch=2, minutes=None, steps=14, augment={}
    )
    net = build_detector(plan)
    with torch.no_grad():
        before = sum_losses(task.LOSSES, *_forward(net.train(), _one_batch()), plan.losses)[0]
    trainer = Trainer(plan, DetectorTask(plan, net, fit_scenes()), tmp_path)
    trainer.fit()
    with torch.no_grad():
        after = sum_losses(task.LOSSES, *_forward(trainer.net.train(), _one_batch()), plan.losses)[0]
    assert float(after) < 0.9 * float(before)


def fit_scenes() -> list[DetectionScene]:
    return [_scene(_face(50, 30, 40))] * 2


def _one_batch() -> object:
    return _batches(*fit_scenes()).batch([0] * 2, np.random.default_rng(0))


def _plates(folder: Path, n: int = 10) -> Path:
    (folder / "images").mkdir(parents=True)
    lines = []
    for k in range(n):
        scene = _scene(_face(40 + 4 * k, 30, 34))
        cv2.imwrite(str(folder / f"images/{k}.png"), scene.picture[..., ::-1])
        face = scene.faces[0]
        faces = [{"outline": face.outline.tolist(), "points": face.points.tolist(), "seen": 1.0}]
        lines.append(json.dumps({"image": f"images/{k}.png", "split": "val" if k == 0 else "train", "faces": faces}))
    (folder / "plates.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "dataset.json").write_text(json.dumps({"format": "rotopaint-plates", "version": 1}))
    return folder


def _options(tmp_path: Path, *overrides: str, recipe: str = "detector", resume: bool = False) -> TrainOptions:
    source = tmp_path / "plates"
    source = source if source.exists() else _plates(source)
    out = tmp_path / "detector.onnx"
    return TrainOptions([str(source)], out, recipe, (*SMALL, *overrides), "none", resume)


def test_a_training_writes_a_file_that_says_what_the_network_says(tmp_path: Path) -> None:
    """`export` compares boxes and scores and raises where they differ; the file has only ONNX's own operators."""
    import onnx

    found = train_network("detector", _options(tmp_path, "steps=2"))
    assert found["faces"] == 1
    graph = onnx.load(str(tmp_path / "detector.onnx")).graph
    assert {"NonMaxSuppression", "RoiAlign"} <= {node.op_type for node in graph.node}
    facts = json.loads((tmp_path / "detector.json").read_text())
    assert facts["steps"] == 2
    assert facts["parity"] < 0.02


def test_a_stopped_training_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    plan = DetectorConfig(widths=(8,) * 5, neck=8, width=128, height=64, batch=2, minutes=None, steps=2, eval_every=2)
    scenes = fit_scenes()
    whole = Trainer(plan, DetectorTask(plan, build_detector(plan), scenes), _made(tmp_path / "whole"))
    whole.fit()
    first = Trainer(plan, DetectorTask(plan, build_detector(plan), scenes), _made(tmp_path / "two"))
    first.step(make_timed(first.task, first.moment(0)), 0.0)
    first.save()
    second = Trainer(plan, DetectorTask(plan, build_detector(plan), scenes), tmp_path / "two")
    second.fit(resume=True)
    assert second.at == 2
    for a, b in zip(whole.net.state_dict().values(), second.net.state_dict().values()):
        torch.testing.assert_close(a, b)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_recipes_name_their_task() -> None:
    assert find_task(None) == find_task("character") == "pack"
    assert find_task("detector") == "detector"
    assert [find_task(name) for name in ("segmentation", "seam", "fill")] == ["segmentation", "seam", "fill"]


def test_wrong_words_are_reported(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("task: faces\n")
    with pytest.raises(UsageError, match="task 'faces'; wanted one of pack, shot, detector, segmentation, seam, fill"):
        find_task(str(recipe))
    with pytest.raises(TrainingError, match="wanted a model pack to put the model into, or a file name"):
        check_place(tmp_path / "nothing")
    with pytest.raises(UsageError, match="multiples of 32"):
        DetectorConfig(width=300)
    with pytest.raises(UsageError, match="unknown; wanted one of propose"):
        DetectorConfig(losses={"boxes": 1.0})
    with pytest.raises(UsageError, match="augment: wanted probabilities"):
        DetectorConfig(augment={"blur": 2.0})
    with pytest.raises(UsageError, match="losses: wanted weights of 0 or more"):
        DetectorConfig(losses={"mask": -1.0})


def test_what_only_a_whole_pack_can_have_is_refused(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    cli.add_arguments(parser)
    for words in (["--name", "pip"], ["--licence", "CC0"]):
        asked = parser.parse_args(["plates", "--out", str(tmp_path), "--recipe", "detector", *words])
        with pytest.raises(
            UsageError, match=rf"^{' '.join(words)}.*: not with recipe 'detector'|^{words[0]}: not with"
        ):
            cli._refuse_for("detector", asked)


def test_a_model_for_a_pack_has_a_separate_run_folder(tmp_path: Path) -> None:
    options = replace(_options(tmp_path), out=tmp_path / "pip")
    assert options.folder("detector") == tmp_path / "pip.detector.run"
    assert replace(options, out=tmp_path / "face.onnx").folder("detector") == tmp_path / "face.onnx.run"


def test_a_picture_on_both_sides_is_reported(tmp_path: Path) -> None:
    scene = _scene(_face(40, 30, 30))
    learn, held = replace(scene, split="train", name="a.png"), replace(scene, split="val", name="b.png")
    with pytest.raises(
        TrainingError, match=r"b\.png is in the validation and, as a\.png, in the training split: the same picture"
    ):
        split_samples([learn, held])
    others = [replace(_scene(_face(40 + k, 30, 30)), split="train") for k in range(9)]
    ours, theirs = split_samples(
        [*others, replace(others[-1], name="held again")]
    )  # the last is held out, and so is its duplicate
    assert (len(ours), len(theirs)) == (8, 1)


def test_damaged_plates_are_reported(tmp_path: Path) -> None:
    folder = _plates(tmp_path / "plates", 2)
    (folder / "plates.jsonl").write_text('{"image": "images/0.png", "split": "train"}\n')
    with pytest.raises(TrainingError, match=r"plates.jsonl: line 1: faces is missing; .*; make the plates again"):
        read_scenes([folder])
    for text, output in (
        ("", "cannot be read"),
        ("[]", "wanted named fields"),
        ('{"format": "x"}', "wanted rotopaint-p"),
    ):
        (folder / "dataset.json").write_text(text)
        with pytest.raises(TrainingError, match=output):
            read_scenes([folder])
    with pytest.raises(TrainingError, match="nothing to train and validate on"):
        split_samples([_scene(_face(1, 1, 9))])


def _found(face: Face, score: float, *, aside: float = 0.0) -> DetectedFace:
    x0, y0, x1, y1 = (float(v) for v in face.box)
    mask = np.zeros((28, 28), np.float32)
    # a disc in a square 1.3 times the box: its radius is 0.5 / 1.3 of the square's side
    ys, xs = (np.mgrid[:28, :28] + 0.5) / 28 - 0.5
    mask[np.hypot(xs, ys) < 0.5 / 1.3] = 1
    return DetectedFace((x0 + aside, y0, x1 + aside, y1), score, mask, face.points[:, :2] + (aside, 0.0))


def test_detections_are_judged_by_hand() -> None:
    one, other = _face(30, 32, 20), _face(90, 32, 30)
    scene = _scene(one, other)
    output = [_found(one, 0.99), _found(one, 0.98), _found(other, 0.97, aside=25), _found(other, 0.96)]
    result = summarise_matches(match_detections(output, scene), 2)
    # two faces, both found, four detections; hits in order of score: 1 0 0 1
    assert (result["recall"], result["precision"]) == (1.0, 0.5)
    assert result["average_precision"] == pytest.approx(0.5 * 1 + 0.5 * 0.5)
    assert result["mask_iou"] > 0.95
    assert result["keypoint_percent"] == 0


def test_average_precision_of_a_known_options() -> None:
    # precision at the hits: 1, 2/3; one of three faces is missed
    assert average_precision(np.array([1.0, 0, 1]), 3) == pytest.approx((1 + 2 / 3) / 3)
    assert average_precision(np.zeros(0), 3) == 0


def test_measures_of_one_detection() -> None:
    face = _face(50, 32, 40)
    aside = _found(face, 1.0, aside=10)
    assert box_iou(np.array(aside.box), face.box) == pytest.approx(30 / 50, rel=0.02)
    assert keypoint_errors(aside, face) == pytest.approx([25.0] * 5, rel=0.01)
    assert mask_iou(_found(face, 1.0), face) > 0.95 > mask_iou(aside, face)


def test_pictures_are_fitted_into_the_corner() -> None:
    picture = np.zeros((100, 400, 3), np.float32)
    fitted, scale = letterbox(picture, 128, 64)
    assert scale == pytest.approx(0.32)
    assert not fitted[:32].any()
    assert (fitted[32:] > 0.4).all()
