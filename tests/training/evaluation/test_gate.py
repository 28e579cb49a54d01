"""The gate: by hand on synthetic figures, and end to end with a deliberate regression, without torch."""

from __future__ import annotations

import argparse
import copy
import json
import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest

from rotopaint_ai.cli import evaluate as command
from rotopaint_ai.cli import main
from rotopaint_ai.exchange import document
from rotopaint_ai.inference.pack import load_card, load_pack, write_card
from rotopaint_ai.shapes.roto import RotoDocument
from rotopaint_ai.training.data.dataset import read_dataset
from rotopaint_ai.training.evaluation import gate
from rotopaint_ai.training.evaluation.evaluate import measure_pack
from rotopaint_ai.training.mining.mine import mine
from rotopaint_ai.training.mining.options import MineOptions

SAMPLE = Path(__file__).parents[3] / "models" / "rotopaint_models" / "sample"


def result(**changes: float) -> dict[str, Any]:
    """Figures of one shot and one shape; `changes`: shot_mean, shape_px, shape_in_shot, iou, jitter."""
    of = {"shot_mean": 1.0, "shape_px": 0.8, "shape_in_shot": 0.9, "iou": 0.9, "jitter": 0.3, **changes}
    return {
        "pack": "x",
        "per_shot": {
            "s1": {
                "landmarks_px": {"mean": of["shot_mean"], "p95": 3.0},
                "shapes_px": {"seam": {"mean": of["shape_in_shot"]}, "never": {"mean": None}},
            }
        },
        "per_shape": {
            "seam": {"px": {"mean": of["shape_px"]}, "matte_iou": of["iou"]},
            "never": {"px": {"mean": None}, "matte_iou": None},
        },
        "motion": {"moving_px": {"steadied": of["jitter"]}},
    }


def worse(new: dict[str, Any], old: dict[str, Any], tolerance: float = 0.05) -> list[tuple[str, str]]:
    return [(each.where, each.figure) for each in gate.compare_packs(new, old, tolerance) if each.is_worse]


def test_equal_and_slightly_worse_packs_pass() -> None:
    assert worse(result(), result()) == []
    assert worse(result(shot_mean=1.09, iou=0.885, jitter=0.39), result()) == []
    assert worse(result(shot_mean=0.5, iou=0.99), result()) == []
    assert "not worse" in gate.gate_text(gate.compare_packs(result(), result()), ("a", "b"))


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"shot_mean": 1.11}, ("s1", "landmarks mean px")),
        ({"shape_px": 0.95}, ("seam", "curve mean px")),
        ({"shape_in_shot": 1.05}, ("s1, seam", "curve mean px")),
        ({"iou": 0.87}, ("seam", "matte IoU")),
        ({"jitter": 0.45}, ("moving frames", "jitter px")),
    ],
)
def test_each_figure_can_close_the_gate(changes: dict[str, float], found: tuple[str, str]) -> None:
    assert worse(result(**changes), result()) == [found]


def test_tolerance_counts_beyond_the_floor() -> None:
    assert worse(result(shot_mean=11.9), result(shot_mean=10.0), 0.2) == []
    assert worse(result(shot_mean=12.1), result(shot_mean=10.0), 0.2) == [("s1", "landmarks mean px")]


def test_a_shape_that_the_new_pack_lacks_closes_the_gate() -> None:
    new = copy.deepcopy(result())
    new["per_shape"]["seam"]["px"]["mean"] = None
    new["per_shape"]["seam"]["matte_iou"] = None
    new["per_shot"]["s1"]["shapes_px"]["seam"]["mean"] = None
    assert len(worse(new, result())) == 3
    assert "absent" in gate.gate_text(gate.compare_packs(new, result()), ("a", "b"))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four frames of the sample shot, mined."""
    folder = tmp_path_factory.mktemp("sample")
    roto = document.read(SAMPLE / "truth.roto.json")
    short = RotoDocument(
        roto.width, roto.height, 1001, 1004, landmarks=roto.landmarks, shapes=roto.shapes[:5], fps=roto.fps
    )
    document.write(folder / "short.roto.json", short)
    mine(MineOptions((folder / "short.roto.json",), folder / "set", str(SAMPLE / "plate.####.exr"), val=("none",)))
    return folder / "set"


def _crippled(folder: Path) -> Path:
    """The shipped pack with the names of two brows swapped: a deliberate regression."""
    shutil.copytree(load_pack(None).folder, folder)
    text = (folder / "sheet.yaml").read_text(encoding="utf-8")
    swapped = text.replace("brow_right", "brow_?").replace("brow_left", "brow_right").replace("brow_?", "brow_left")
    (folder / "sheet.yaml").write_text(swapped, encoding="utf-8")
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    write_card(folder, {**{k: v for k, v in card.items() if k != "files"}, "name": "crippled"})
    return folder


def _evaluate(*words: str) -> subprocess.CompletedProcess[str]:
    """The command in a process that cannot import torch."""
    code = "import sys; sys.modules['torch'] = None; from rotopaint_ai.cli import main; sys.exit(main(sys.argv[1:]))"
    run = [sys.executable, "-c", code, "evaluate", *words]
    return subprocess.run(run, capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"), check=False)


def test_a_planted_regression_is_blocked_without_torch(dataset: Path, tmp_path: Path) -> None:
    bad = _crippled(tmp_path / "crippled")
    page, figures = tmp_path / "page.html", tmp_path / "figures.json"
    words = ("--against", "puppet", "--json", str(figures), "--html", str(page))
    found = _evaluate(str(bad), str(dataset), *words)
    assert found.returncode == 4, found.stderr
    assert "gate: crippled is worse than puppet" in found.stdout
    assert "brow" in found.stdout
    content = json.loads(figures.read_text())
    broken = {row["where"] for row in content["gate"] if row["is_worse"]}
    assert "brow_right" in broken
    assert not {"seam_bridge", "seam_left"} & broken
    assert content["against"]["landmarks_px"]["mean"] < content["result"]["landmarks_px"]["mean"]
    text = page.read_text(encoding="utf-8")
    assert "data:image/jpeg;base64," in text
    assert "worse than puppet on" in text
    assert "http" not in text.replace("http-equiv", "")


def test_figures_by_workers_elsewhere_are_this_process_s(dataset: Path) -> None:
    class Elsewhere(Executor):
        """Pickle everything in both directions, as between machines."""

        def map(self, work: Any, *items: Any, **more: Any) -> Any:  # type: ignore[override]
            for some in zip(*items):
                do, words = pickle.loads(pickle.dumps((work, some)))
                yield pickle.loads(pickle.dumps(do(*words)))

    data = read_dataset(dataset)
    here, there = (measure_pack(None, data, workers=workers).result for workers in (None, Elsewhere()))
    assert len(data) > 3
    assert {**here, "ms_per_frame": 0} == {**there, "ms_per_frame": 0}


@pytest.mark.filterwarnings("ignore")  # of Dask's own loops and sockets
def test_the_command_by_two_workers_gives_what_one_process_gives(dataset: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    found = []
    for name, more in (("one", ()), ("two", ("--workers", "2"))):
        path = tmp_path / f"{name}.json"
        assert main(["evaluate", "puppet", str(dataset), "--json", str(path), *more]) == 0
        found.append(json.loads(path.read_text())["result"])
    one, two = found
    assert one["n_samples"] == 4
    assert {**one, "ms_per_frame": 0} == {**two, "ms_per_frame": 0}


def test_the_shipped_pack_is_not_worse_than_itself(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "puppet", str(dataset), "--against", "puppet", "--eyes", "jaw_0,jaw_8"]) == 0
    assert "not worse than puppet" in capsys.readouterr().out
    assert main(["evaluate", "puppet", str(dataset), "--eyes", "jaw_0,nobody"]) == 2
    (refused,) = capsys.readouterr().err.splitlines()
    assert refused.startswith("rotopaint evaluate: --eyes nobody: no such landmark")


def _taught(folder: Path, frames: str, **training: Any) -> Path:
    """The shipped pack, with a card that lists frames of the sample shot as training data."""
    shutil.copytree(load_pack(None).folder, folder)
    card = load_card(folder)
    samples = {"frames": {"sample": {"sample": frames}} if frames else {}}
    write_card(folder, {**card, "name": "taught", "training": {**card["training"], **samples, **training}})
    return folder


def _named(dataset: Path) -> Path:
    lines = [json.loads(line) for line in (dataset / "samples.jsonl").read_text(encoding="utf-8").splitlines()]
    named = [{**line, "character": "sample", "shot": "sample"} for line in lines]
    (dataset / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in named), encoding="utf-8")
    return dataset


@pytest.mark.parametrize(("option", "name"), [("json", "samples.jsonl"), ("html", "dataset.json"), ("contact", None)])
def test_results_replace_nothing_that_is_measured(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, name: str | None
) -> None:
    data = Path(shutil.copytree(dataset, tmp_path / "set"))
    target = data / name if name else next((data / "images").iterdir())
    before = target.read_bytes()
    assert main(["evaluate", "puppet", str(data), "--split", "all", f"--{option}", str(target)]) == 2
    assert "is a file of the pack or data set; choose another name" in capsys.readouterr().err
    assert target.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--contact", "noext"], "--contact noext: wanted a picture, .jpg, .jpeg, .png"),
        (["--contact", "c.xyz"], "--contact c.xyz: wanted a picture, .jpg, .jpeg, .png"),
        (["--json", "."], ".: is a folder, so no file can be written there; choose another name"),
        (["--html", "."], ".: is a folder, so no file can be written there; choose another name"),
        (["--tolerance", "nan"], "--tolerance nan: wanted 0 or more, such as 0.05"),
        (["--tolerance", "inf"], "--tolerance inf: wanted 0 or more, such as 0.05"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    assert main(["evaluate", "puppet", str(tmp_path / "no_set"), *words]) == 2
    assert capsys.readouterr().err == f"rotopaint evaluate: {text}\n"


def test_figures_are_printed_although_a_file_cannot_be_written(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    words = ["evaluate", "puppet", str(dataset), "--split", "all", "--json", str(tmp_path / "file" / "result.json")]
    assert main(words) == 5
    assert "landmarks mean, px" in capsys.readouterr().out


def test_one_file_for_two_results_is_refused(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = str(tmp_path / "result")
    assert main(["evaluate", "puppet", str(dataset), "--json", same, "--html", f"{tmp_path}/./result"]) == 2
    assert "--json, --html and --contact name one file" in capsys.readouterr().err
    assert not (tmp_path / "result").exists()


def test_a_pack_does_not_pass_on_frames_that_it_has_learned_from(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = _named(Path(shutil.copytree(dataset, tmp_path / "set")))
    taught = _taught(tmp_path / "taught", "1003-1040")
    assert main(["evaluate", str(taught), str(data), "--against", "puppet"]) == 4
    assert "gate: taught cannot pass on frames that it was trained on: sample 1003-1004" in capsys.readouterr().out


def test_the_gate_measures_the_pack_from_before_training_on_validation(dataset: Path, tmp_path: Path) -> None:
    data = read_dataset(_named(Path(shutil.copytree(dataset, tmp_path / "set"))))
    at_last = {"frames_at_last": {"sample": {"sample": "1001-1004"}}}
    taught = _taught(tmp_path / "taught", "", **at_last, learned_held_out_at_last=True)
    arguments = argparse.Namespace(pack=str(taught), against="puppet")
    assert command._packs(arguments, data) == ([str(taught), "puppet"], [])
    before = _taught(tmp_path / "taught.run" / "judged", "", **at_last, learned_held_out_at_last=False)
    packs, (note,) = command._packs(arguments, data)
    assert packs == [str(before), "puppet"]
    assert note.startswith(f"gate: {taught} was trained on these samples in its last part")


def test_names_in_the_tables_neither_break_a_line_nor_steer_the_terminal() -> None:
    new, old = result(shot_mean=9.0), result()
    for each in (new, old):
        each["per_shot"] = {"s\n1\x1b[31m": each["per_shot"]["s1"]}
    assert r"s 1\x1b[31m" in (reported := gate.gate_text(gate.compare_packs(new, old), ("a\x1b", "b\n")))
    assert all(line.isprintable() for line in reported.split("\n"))
    facts = {"dataset": "d\x1b", "n_samples": 1, "splits": ["test"], "missing": ["m\n\x1b"], "doubts": ["x\x1b"]}
    reported = command.figures_table([{**new, **facts, "pack": "p\n\x1b"}])
    assert all(line.isprintable() for line in reported.split("\n"))
    assert r"p \x1b has no m \x1b, or not as the data set means it: not measured" in reported
