"""A training as a farm's job: mine, train, evaluate with the gate, publish; and packs published whole or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from rotopaint_ai.cli import main
from rotopaint_ai.exchange import document
from rotopaint_ai.inference.pack import HEAD, load_card, load_pack, write_card
from rotopaint_ai.pipeline.known_head import KnownHead
from rotopaint_ai.project import Project, State
from small_network import SMALL_NETWORK

SAMPLE = Path(__file__).parents[2] / "models/rotopaint_models/sample"
TWO_STEPS = (*SMALL_NETWORK, "minutes=null", "steps=2", "threads=1", "seam_minutes=0", "mirrored=false", "prior=false")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """`rotopaint` as farm workers call it; logs its arguments and publishes; other commands succeed unless FAILS."""
    launcher = tmp_path / "rotopaint"
    paths = os.pathsep.join(path for path in sys.path if path)
    launcher.write_text(
        f'#!/bin/sh\necho "$@" >> "{tmp_path}/words"\n[ "$1" = publish ] || exec test "$1" != "$FAILS"\n'
        f'PYTHONPATH="{paths}" exec "{sys.executable}" -m rotopaint_ai "$@"\n'
    )
    launcher.chmod(0o755)
    return launcher


def _template(tmp_path: Path, pack: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    (tmp_path / "roto").mkdir()
    for name in "ba":
        (tmp_path / f"roto/{name}.nk").touch()
    template = tmp_path / "farm.yaml"
    words = ["train", str(tmp_path / "data"), "--out", str(pack), "--openjd", str(template), "--set", "minutes=5"]
    more = [
        "--mine",
        f"{tmp_path}/roto/*.nk --plates '{{dir}}/plate.####.exr'",
        "--against",
        "puppet",
        "--publish",
        f"{tmp_path}/to",
    ]
    assert main([*words, *more]) == 0
    assert "Mine, Train, Evaluate, Publish" in capsys.readouterr().out
    return template


def _run(template: Path, program: Path, **more: str) -> subprocess.CompletedProcess[str]:
    openjd = str(Path(sys.executable).with_name("openjd"))
    subprocess.run([openjd, "check", str(template)], check=True, capture_output=True)
    words = [openjd, "run", str(template), "-p", f"Program={program}"]
    return subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **more})


def test_steps_follow_each_other_and_the_pack_is_published(
    tmp_path: Path, puppet_pack: Path, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = _template(tmp_path, puppet_pack, capsys)
    assert yaml.safe_load(template.read_text())["steps"][0]["script"]["actions"]["onRun"]["args"] == [
        *(
            "mine",
            f"{tmp_path}/roto/a.nk",
            f"{tmp_path}/roto/b.nk",
            "--plates",
            "{dir}/plate.####.exr",
            "--out",
            str(tmp_path / "data"),
        )
    ]
    done = _run(template, program)
    assert done.returncode == 0, done.stdout[-2000:]
    lines = (tmp_path / "words").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["mine", "train", "evaluate", "publish"]
    assert (
        lines[1] == f"train {tmp_path}/data --out {puppet_pack} --set minutes=5 --strategy auto --backend gloo --resume"
    )
    assert lines[2].endswith(f"--against puppet --json {puppet_pack}.run/gate.json")
    assert load_pack(tmp_path / "to" / puppet_pack.name).name == load_pack(puppet_pack).name


def _shot(folder: Path, frames: range) -> None:
    """A shot with some frames of the sample."""
    folder.mkdir(parents=True)
    roto = document.read(SAMPLE / "truth.roto.json")
    part = replace(roto, first_frame=frames[0], last_frame=frames[-1], shapes=roto.shapes[:5])
    document.write(folder / "roto.roto.json", part)
    for frame in frames:
        (folder / f"plate.{frame}.exr").symlink_to(SAMPLE / f"plate.{frame}.exr")


def test_a_real_chain_mines_trains_passes_the_gate_and_publishes(tmp_path: Path) -> None:
    """Two steps of a small network. It is its own gate, on a shot that it has not seen."""
    _shot(tmp_path / "roto/sh1", range(1001, 1005))
    _shot(tmp_path / "roto/sh2", range(1010, 1013))
    template, pack = tmp_path / "farm.yaml", tmp_path / "pip"
    words = ["train", str(tmp_path / "data"), "--out", str(pack), "--openjd", str(template), "--init", "none"]
    mined = f"{tmp_path}/roto/*/*.json --plates '{{dir}}/plate.####.exr' --test sh2"
    chain = ["--mine", mined, "--against", str(pack), "--publish", str(tmp_path / "to")]
    assert main([*words, *chain, *(word for setting in TWO_STEPS for word in ("--set", setting))]) == 0
    done = _run(template, Path(sys.executable).with_name("rotopaint"))
    assert done.returncode == 0, done.stdout[-2000:]
    assert "gate: pip is not worse than pip" in done.stdout
    card = load_pack(tmp_path / "to/pip").card
    assert (card["training"]["steps"], card["metrics"]["n_samples"]) == (2, 3)


def test_a_pack_that_fails_the_gate_is_not_published(
    tmp_path: Path, puppet_pack: Path, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = _run(_template(tmp_path, puppet_pack, capsys), program, FAILS="evaluate")
    assert done.returncode != 0
    assert not (tmp_path / "to").exists()


def test_options_of_the_template_want_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "data", "--out", "x", "--publish", "to"]) == 2
    assert "--publish: works only with --openjd" in capsys.readouterr().err
    farm = str(tmp_path / "farm.yaml")
    assert main(["train", "data", "--out", "x", "--publish", "to", "--openjd", farm]) == 2
    assert "--publish: needs --against PACK too" in capsys.readouterr().err
    assert not Path(farm).exists()


def test_places_hold_from_wherever_a_task_begins_and_other_words_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders named like commands, places that do not exist yet, a licence with a slash."""
    monkeypatch.chdir(tmp_path)
    for name in ("train", "evaluate", "auto"):
        (tmp_path / name).mkdir()
    words = ["train", "train", "s3://bucket/more", "--out", "new", "--licence", "CC-BY/studio", "--name", "auto"]
    mined = "train --plates {dir}/plate.####.exr --rename L_brow=brow/left --sheet sheets/pip.yaml"
    assert main([*words, "--init", "puppet", "--mine", mined, "--publish", "to", "--openjd", "farm.yaml"]) == 0
    steps = yaml.safe_load((tmp_path / "farm.yaml").read_text())["steps"]
    mine, train, evaluate, publish = (step["script"]["actions"]["onRun"]["args"] for step in steps)
    plates = ["--plates", "{dir}/plate.####.exr", "--rename", "L_brow=brow/left"]
    assert mine == ["mine", f"{tmp_path}/train", *plates, "--sheet", f"{tmp_path}/sheets/pip.yaml", "--out", train[1]]
    assert train[:5] == ["train", f"{tmp_path}/train", "s3://bucket/more", "--out", f"{tmp_path}/new"]
    given = ["--init", "puppet", "--name", "auto", "--licence", "CC-BY/studio", "--strategy", "auto"]
    assert train[5:] == [*given, "--backend", "gloo", "--resume"]
    assert evaluate[:5] == ["evaluate", f"{tmp_path}/new", f"{tmp_path}/train", "--against", "puppet"]
    assert publish == ["publish", f"{tmp_path}/new", "--to", f"{tmp_path}/to"]


def test_a_pack_is_published_whole_in_place_of_the_one_before(
    tmp_path: Path, puppet_pack: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tmp_path / "to" / puppet_pack.name
    shutil.copytree(puppet_pack, before)
    (before / "old.onnx").touch()
    monkeypatch.setenv("ROTOPAINT_MODELS", str(tmp_path / "to"))
    assert main(["publish", str(puppet_pack)]) == 0
    assert load_pack(before).card == load_pack(puppet_pack).card
    assert not (before / "old.onnx").exists()
    assert [path.name for path in before.parent.iterdir()] == [puppet_pack.name]
    assert main(["publish", str(before)]) == 2
    monkeypatch.delenv("ROTOPAINT_MODELS")
    assert main(["publish", str(puppet_pack)]) == 2
    (tmp_path / "torn").mkdir()
    assert main(["publish", str(tmp_path / "torn"), "--to", str(tmp_path / "to")]) == 2
    assert [path.name for path in before.parent.iterdir()] == [puppet_pack.name]
    assert "is in that folder already" in capsys.readouterr().err


@pytest.mark.parametrize("below", ["", "sub"])
def test_a_pack_is_not_published_into_a_file(
    tmp_path: Path, puppet_pack: Path, capsys: pytest.CaptureFixture[str], below: str
) -> None:
    file = tmp_path / "file"
    file.touch()
    assert main(["publish", str(puppet_pack), "--to", str(file / below)]) == 2
    assert capsys.readouterr().err == f"rotopaint publish: {file}: is a file; wanted a folder\n"


def test_nothing_but_a_pack_is_replaced_by_one_and_nothing_through_a_link(
    tmp_path: Path, puppet_pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plates, linked = tmp_path / "shots" / puppet_pack.name, tmp_path / "linked" / puppet_pack.name
    plates.mkdir(parents=True)
    (plates / "plate.1001.exr").write_text("mine")
    assert main(["publish", str(puppet_pack), "--to", str(plates.parent)]) == 2
    assert "exists and is not a model pack; choose another --to" in capsys.readouterr().err
    assert [path.name for path in plates.iterdir()] == ["plate.1001.exr"]
    linked.parent.mkdir()
    linked.symlink_to(puppet_pack)
    assert main(["publish", str(shutil.copytree(puppet_pack, tmp_path / linked.name)), "--to", str(linked.parent)]) == 2
    assert "is a symbolic link, which is never written through" in capsys.readouterr().err
    assert linked.is_symlink()


def test_a_head_is_published_from_a_corrected_project_alone(
    tmp_path: Path, puppet_pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a good project gives: `tests/pipeline/test_sample_seams.py`."""
    empty = tmp_path / "shot.rotopaint"
    Project.create(empty, State()).close()
    to = ["--to", str(tmp_path / "to")]
    for words, said in (
        (["--head", "shot.nk"], "publish --head shot.nk: wanted a project (*.rotopaint)"),
        (["--head", str(empty)], "shot.rotopaint: holds no shapes yet"),
        (["--head", str(tmp_path / "no.rotopaint")], "does not exist"),
        (["--head", str(empty), "--name", "packs/pip"], "publish --name packs/pip: wanted a name without folders"),
        (["--name", "pip"], "publish --name: works only with --head"),
    ):
        assert main(["publish", str(puppet_pack), *words, *to]) == 2
        complaint = capsys.readouterr().err.strip()
        assert said in complaint
        assert "\n" not in complaint
        assert not (tmp_path / "to").exists()
    trained = tmp_path / "trained"
    shutil.copytree(puppet_pack, trained)
    KnownHead({}, {}, {}).write(trained / HEAD)
    write_card(trained, load_card(trained))
    assert main(["publish", str(trained), "--head", str(empty), *to]) == 2
    assert "was trained with a head of its own" in capsys.readouterr().err


def test_a_pack_that_may_not_be_written_is_published_into_one_that_may(tmp_path: Path, puppet_pack: Path) -> None:
    studios = tmp_path / "studios" / puppet_pack.name
    shutil.copytree(puppet_pack, studios)
    for path in (*studios.iterdir(), studios):
        path.chmod(path.stat().st_mode & ~0o222)
    assert main(["publish", str(studios), "--to", str(tmp_path / "to")]) == 0
    copied = tmp_path / "to" / puppet_pack.name
    assert all(path.stat().st_mode & 0o200 for path in (*copied.iterdir(), copied))
    studios.chmod(0o755)
