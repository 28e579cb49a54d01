"""From a data set to a pack that the product opens, and resumed from a checkpoint."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rotopaint_ai.errors import CancelledError, TrainingError
from rotopaint_ai.inference.models import open_models
from rotopaint_ai.inference.pack import load_pack
from rotopaint_ai.jobs import Cancel, Event
from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.data.dataset_checks import split_off_validation
from rotopaint_ai.training.evaluation.evaluate import measure_pack
from rotopaint_ai.training.models.backbone import face_places, find_weights, load_pretrained, read_weights
from rotopaint_ai.training.models.landmarks.config import load_pack_config
from rotopaint_ai.training.models.landmarks.task import HeldOutPredictions, build_net, visible_error
from rotopaint_ai.training.pack import train as making
from rotopaint_ai.training.pack.network import TrainOptions
from rotopaint_ai.training.pack.train import TrainReport, train_pack
from rotopaint_ai.training.trainer.launch import DONE, SETTINGS, restart_environment
from small_network import SMALL_NETWORK

TINY = [
    *(*SMALL_NETWORK, "small_size=32", "small_share=0.3", "window=5"),
    *("minutes=null", "steps=60", "batch=4", "eval_every=20", "learning_rate=0.004", "threads=1", "ema=0.9"),
    *(
        "learn_all=0",
        "rotation_deg=10",
        "flip=0",
        "augment={occluders: 0, colour: 0, channels: 0, coarse: 0}",
    ),
]


@pytest.fixture(scope="module")
def made(faces: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainReport, list[Event]]:
    events: list[Event] = []
    out = tmp_path_factory.mktemp("packs") / "discs"
    return train_pack(
        TrainOptions([faces], out, overrides=TINY, init="none", command="train me", sink=events.append)
    ), events


def test_a_pack_comes_out_that_the_product_opens(made: tuple[TrainReport, list[Event]], faces: Path) -> None:
    report, _ = made
    pack = load_pack(report.pack)
    assert (pack.name, pack.input_size, pack.crop_margin) == ("discs", 64, 1.3)
    assert pack.card["reads_mirrored"] is True
    assert pack.card["training"]["command"] == "train me"
    assert pack.card["licence"] == "CC0-1.0"
    assert pack.card["metrics"]["n_samples"] == 4  # the test split
    models = open_models(pack, device="cpu", threads=1)
    crop = np.random.default_rng(0).random((3, 64, 64, 3), dtype=np.float32)
    found = models.detect(crop)
    assert found.landmarks_NLC.shape == (3, 4, 2)
    assert models.predict_shapes(found.landmarks_NLC).points_NPK.shape == (3, 7, 6)
    assert max(report.parity["landmarks_px"], report.parity["shapes_px"]) < 0.01


def test_training_learns_and_reports_progress(made: tuple[TrainReport, list[Event]]) -> None:
    report, events = made
    assert (events[0].kind, events[-1].kind) == ("started", "finished")
    progress = [event for event in events if event.kind == "progress"]
    assert [event.facts["step"] for event in progress[:3]] == [20, 40, 60]
    doing = [event.facts["doing"] for event in progress[3:-1]]
    assert list(dict.fromkeys(doing)) == ["fitting", "seams", "export", "evaluation"]
    shares = [event.facts["share"] for event in progress]
    assert shares == sorted(shares)
    assert shares[2] < shares[-1] == 1.0  # a large share of the work follows the last step
    assert isinstance(events[-1].facts["profile"]["bound_by"], str)
    errors = [event.facts["held_out_percent"] for event in progress[:3]]
    assert errors[-1] < 0.6 * errors[0]
    reported = json.loads(events[-1].line())
    assert report.profile is not None
    assert reported["profile"]["bound_by"] == report.profile.bound_by
    assert set(report.seconds) == {"loading", "training", "fitting", "seams", "export", "evaluation"}
    log = (report.pack.with_name("discs.run") / "log.csv").read_text().splitlines()
    assert log[0].startswith("step,minutes,size_px,loss")
    assert len(log) == 4
    _tells_pixels_of_the_plate(events[1:4])


def _tells_pixels_of_the_plate(rows: list[Event]) -> None:
    # faces are 28 by 40 px, rotated by up to 15 degrees, 0.9 to 1.2 times as large; a picture pixel is two plate pixels
    for facts in (row.facts for row in rows):
        side = facts["held_out_px"] / facts["held_out_percent"] * 100
        assert 2 * 0.9 * 40 * math.cos(math.radians(15)) < side < 2 * 1.2 * 48
        assert facts["held_out_p95_px"] > facts["held_out_px"]


def test_evaluation_is_in_plate_pixels(made: tuple[TrainReport, list[Event]], faces: Path) -> None:
    data = read_dataset(faces)
    plain = measure_pack(made[0].pack, data).result
    doubled = measure_pack(
        made[0].pack, replace(data, samples=tuple(replace(s, pixel_scale=s.pixel_scale / 2) for s in data.samples))
    ).result
    assert doubled["landmarks_px"]["mean"] == pytest.approx(plain["landmarks_px"]["mean"] * 2, rel=1e-3)
    assert doubled["landmarks_percent"] == plain["landmarks_percent"]
    assert plain["per_shape"]["seam"]["px"]["mean"] > 0
    assert made[0].pack.with_name(f"{made[0].pack.name}.run").joinpath("worst.jpg").is_file()


def test_a_stopped_run_resumes_to_the_same_end(faces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [*TINY, "steps=24", "eval_every=8", "learn_all=0.4", "prior=false"]
    _is_judged_before_it_learns_all(
        train_pack(TrainOptions([faces], tmp_path / "whole", overrides=settings, init="none")), faces
    )
    cancel = Cancel()
    copied = {name: tmp_path / "whole" / name for name in ("landmarks.onnx", "shapes.onnx")}

    def copy_graph(model: object, path: Path, *rest: object, **more: object) -> float:
        return float(path.write_bytes(copied[path.name].read_bytes()) * 0)

    monkeypatch.setattr(making, "export_checked", copy_graph)  # weights are compared; exporting graphs takes a minute

    def stop_early(event: Event) -> None:
        if event.kind == "progress" and event.facts.get("step") == 16:
            cancel.request()

    with pytest.raises(CancelledError):
        train_pack(
            TrainOptions([faces], tmp_path / "parts", overrides=settings, init="none", sink=stop_early, cancel=cancel)
        )
    assert not (tmp_path / "parts").exists()
    report = train_pack(TrainOptions([faces], tmp_path / "parts", overrides=settings, init="none", resume=True))
    assert report.steps == 24
    whole, parts = read_weights(tmp_path / "whole"), read_weights(tmp_path / "parts")
    for name, value in whole.tensors.items():
        np.testing.assert_array_equal(parts.tensors[name], value)
    with pytest.raises(TrainingError, match="another recipe"):
        train_pack(
            TrainOptions([faces], tmp_path / "parts", overrides=[*settings, "batch=6"], init="none", resume=True)
        )
    fewer = shutil.copytree(faces, tmp_path / "fewer")
    samples = (fewer / "samples.jsonl").read_text()
    (fewer / "samples.jsonl").write_text(samples.split("\n", 1)[1])
    with pytest.raises(TrainingError, match="was made from other data"):
        train_pack(TrainOptions([fewer], tmp_path / "parts", overrides=settings, init="none", resume=True))


def _is_judged_before_it_learns_all(report: TrainReport, faces: Path) -> None:
    run = report.pack.with_name("whole.run")
    weights = [read_weights(folder).tensors["heat_of_landmark"] for folder in (run / "judged", report.pack)]
    assert np.abs(weights[0] - weights[1]).max() > 1e-4  # training continued
    assert load_pack(report.pack).card["training"]["learned_held_out_at_last"] is True
    again = measure_pack(run / "judged", read_dataset(faces)).result
    assert again["landmarks_px"] == report.metrics["landmarks_px"]
    rows = [row.split(",") for row in (run / "log.csv").read_text().splitlines()[1:]]
    assert [int(row[0]) for row in rows] == [8, 15, 16, 24]  # held-out samples are included from 60 % of 24 steps
    assert len({row[4] for row in rows[1:]}) == 1


def test_a_training_stopped_while_it_evaluates_leaves_the_old_pack(
    made: tuple[TrainReport, list[Event]], faces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(made[0].pack, tmp_path / "discs")
    before, cancel = (tmp_path / "discs" / "card.json").read_bytes(), Cancel()

    def copy_graph(model: object, path: Path, *rest: object, **more: object) -> float:
        return float(path.write_bytes((made[0].pack / path.name).read_bytes()) * 0)

    monkeypatch.setattr(making, "export_checked", copy_graph)

    def stop(event: Event) -> None:
        if event.facts.get("doing") == "evaluation":
            cancel.request()

    with pytest.raises(CancelledError):
        train_pack(
            TrainOptions(
                [faces],
                tmp_path / "discs",
                overrides=[*TINY, "steps=2"],
                init="none",
                name="new",
                sink=stop,
                cancel=cancel,
            )
        )
    assert (tmp_path / "discs" / "card.json").read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["discs", "discs.run"]


def test_a_new_layout_takes_weights_by_name_and_then_by_place(
    made: tuple[TrainReport, list[Event]], faces: Path
) -> None:
    weights = find_weights(made[0].pack)
    assert weights is not None
    net = build_net(load_pack_config(None, TINY), 3)
    places = face_places(read_dataset(faces).truth.landmarks)
    taken = load_pretrained(net, weights, ("chin", "forehead", "eye_left"), places[[2, 3, 1]])
    assert (taken.by_name, taken.by_place, taken.left_out) == (2, 1, ())
    old = torch.tensor(weights.tensors["heat_of_landmark"])
    torch.testing.assert_close(net.heat_of_landmark.detach(), old[[2, 3, 1]])
    wider = build_net(load_pack_config(None, [*TINY, "neck=24"]), 3)
    assert "heat_of_landmark" in load_pretrained(wider, weights, ("a", "b", "c"), places[:3]).left_out


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, value: float) -> None:
    """A training that began with these settings ended in a segmentation fault."""
    meta = np.frombuffer(json.dumps({"landmarks": ["a"], "places": [[0.5, 0.5]]}).encode(), np.uint8)
    np.savez(tmp_path / "weights.npz", meta=meta, stem=np.array([1.0, value], np.float32))
    with pytest.raises(
        TrainingError, match=r"weights\.npz: cannot be read \(stem contains numbers that are not finite"
    ):
        read_weights(tmp_path)


def test_a_missing_shipped_pack_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_weights("none") is None
    (tmp_path / "bare").mkdir()
    with pytest.raises(TrainingError, match=r"has no weights\.npz"):
        find_weights(tmp_path / "bare")


def test_the_ends_of_shots_are_held_out(faces: Path) -> None:
    data = split_off_validation(read_dataset(faces))
    held = [data.samples[row] for row in data.rows_of("val")]
    assert [(s.shot, s.frame) for s in held] == [("shot0", 1023), ("shot1", 1024)]
    assert len(data.rows_of("test")) == 4


def test_a_folder_that_is_no_pack_is_not_replaced(faces: Path, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(TrainingError, match="is not a model pack"):
        train_pack(TrainOptions([faces], tmp_path, overrides=TINY, init="none"))
    (tmp_path / "card.json").write_text('{"format": "a card of another program"}')
    with pytest.raises(TrainingError, match="is not a model pack"):
        train_pack(TrainOptions([faces], tmp_path, overrides=TINY, init="none"))
    assert (tmp_path / "precious.txt").is_file()


def test_the_allocator_is_set_once_and_only_on_linux() -> None:
    environment = restart_environment({"HOME": "/x", "MALLOC_TOP_PAD_": "1"}, "linux")
    assert environment is not None
    assert environment["MALLOC_TOP_PAD_"] == "1"  # a user's own setting stays
    assert set(SETTINGS) <= set(environment)
    assert restart_environment(environment, "linux") is None
    assert restart_environment({DONE: "1"}, "linux") is None
    assert restart_environment({}, "darwin") is None
    assert restart_environment({"LD_PRELOAD": "libtcmalloc.so"}, "linux") is None


def test_held_out_samples_that_tell_nothing_are_named() -> None:
    nothing = np.full((2, 3), np.nan)
    held = HeldOutPredictions(
        nothing, nothing, nothing, nothing, np.ones(2), nothing[..., None], nothing[..., None], nothing[..., None]
    )
    with pytest.raises(TrainingError, match="held-out samples: no landmark has both"):
        visible_error(held, np.ones(2))
